//! Object stores, the in-memory one included: atomic puts come with the store, "only if absent" is its
//! conditional put.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};

use super::requests::{ObjectRequests, error_of, found};
use super::settings::{ObjectStoreSettings, Secrets};
use super::{Bucket, CreateOutcome, Entry, Listing};
use crate::error::{Result, StateError};
use crate::names::is_hidden;

/// The stores behind `memory://name`, kept so that a query restarted in this process finds its checkpoint.
static MEMORY: OnceLock<Mutex<HashMap<String, Arc<InMemory>>>> = OnceLock::new();

fn memory() -> std::sync::MutexGuard<'static, HashMap<String, Arc<InMemory>>> {
    MEMORY
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn forget_memory(name: &str) {
    memory().remove(name);
}

/// How often a file that is neither there nor can be created is tried again.
const CREATIONS: usize = 3;

/// A prefix of an object store.
pub(crate) struct ObjectLocation {
    store: Arc<dyn ObjectStore>,
    /// Where requests run; the caller's thread if nowhere else.
    requests: Option<ObjectRequests>,
    prefix: Path,
    display: String,
    in_process: bool,
}

/// An object with the version a conditional put needs.
#[derive(Debug, Clone)]
pub(crate) struct Versioned {
    pub(crate) bytes: Bytes,
    pub(crate) version: UpdateVersion,
}

impl ObjectLocation {
    /// A prefix of a store the caller has configured.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: &str, display: &str) -> Result<Self> {
        let display = if display.is_empty() {
            store.to_string()
        } else {
            display.to_string()
        };
        Ok(Self {
            store,
            requests: None,
            prefix: parse_prefix(prefix, &display)?,
            display,
            in_process: false,
        })
    }

    pub(crate) fn in_memory(name: &str, prefix: &str, display: &str) -> Result<Self> {
        let store = Arc::clone(memory().entry(name.to_string()).or_default());
        Ok(Self {
            in_process: true,
            ..Self::new(store, prefix, display)?
        })
    }

    /// A prefix of a bucket, letter by letter.
    pub(crate) fn remote(bucket: &Bucket<'_>, settings: &ObjectStoreSettings) -> Result<Self> {
        let display = bucket.display();
        let prefix = parse_prefix(bucket.prefix, &display)?;
        let secrets = settings.secrets();
        let store = bucket.open(settings, &secrets)?;
        Ok(Self {
            requests: Some(ObjectRequests::of(Arc::clone(&store), secrets)?),
            store,
            prefix,
            display,
            in_process: false,
        })
    }

    /// A directory of this prefix, in the same store.
    pub(crate) fn at(&self, dir: &str) -> Result<Self> {
        let display = format!("{}/{dir}", self.display.trim_end_matches('/'));
        Ok(Self {
            store: Arc::clone(&self.store),
            requests: self.requests.clone(),
            prefix: self.path(dir)?,
            display,
            in_process: self.in_process,
        })
    }

    /// Requests to the store on a thread of their own.
    pub(crate) fn requests(&self) -> Result<ObjectRequests> {
        match &self.requests {
            Some(requests) => Ok(requests.clone()),
            None => ObjectRequests::of(Arc::clone(&self.store), Secrets::default()),
        }
    }

    async fn ask<T, F>(&self, work: F) -> object_store::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn ObjectStore>) -> BoxFuture<'static, object_store::Result<T>>
            + Send
            + 'static,
    {
        match &self.requests {
            Some(requests) => requests.ask(work).await,
            None => work(Arc::clone(&self.store)).await,
        }
    }

    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// True when the store lives in this process, so that calls complete at once and need no runtime.
    pub(crate) fn is_in_process(&self) -> bool {
        self.in_process
    }

    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<CreateOutcome> {
        Ok(match self.create_versioned(name, bytes).await? {
            Some(_) => CreateOutcome::Created,
            None => CreateOutcome::AlreadyExists,
        })
    }

    /// Creates the object only if absent; `None` when another one exists.
    ///
    /// Away from here an answer may be lost, and the request tried again finds what the first one wrote: an object with
    /// these very bytes is the one of this call.
    pub(crate) async fn create_versioned(
        &self,
        name: &str,
        bytes: Bytes,
    ) -> Result<Option<UpdateVersion>> {
        for _ in 0..CREATIONS {
            let put = self.conditional_put(name, bytes.clone(), PutMode::Create);
            if let Some(version) = put.await? {
                return Ok(Some(version));
            }
            if self.in_process {
                return Ok(None);
            }
            match self.get_versioned(name).await? {
                Some(found) if found.bytes == bytes => return Ok(Some(found.version)),
                Some(_) => return Ok(None),
                // Deleted since, or two writers came at once and the store took neither.
                None => {}
            }
        }
        let source = object_store::Error::Generic {
            store: "objects",
            source: "the store says that it is there, and that it is not".into(),
        };
        Err(self.error("create", name, source))
    }

    /// Replaces the object only if it still is at `version`; `None` when it is not.
    pub(crate) async fn update_versioned(
        &self,
        name: &str,
        bytes: Bytes,
        version: UpdateVersion,
    ) -> Result<Option<UpdateVersion>> {
        self.conditional_put(name, bytes, PutMode::Update(version))
            .await
    }

    async fn conditional_put(
        &self,
        name: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Option<UpdateVersion>> {
        let is_update = matches!(mode, PutMode::Update(_));
        let path = self.path(name)?;
        let put = self.ask(move |store| {
            async move { store.put_opts(&path, bytes.into(), mode.into()).await }.boxed()
        });
        match put.await {
            Ok(result) => Ok(Some(result.into())),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(None),
            Err(object_store::Error::NotFound { .. }) if is_update => Ok(None),
            Err(e) => Err(self.error("write", name, e)),
        }
    }

    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(name)?;
        let put = self.ask(move |store| {
            async move { store.put(&path, bytes.into()).await.map(drop) }.boxed()
        });
        put.await.map_err(|e| self.error("write", name, e))
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.get_versioned(name).await?.map(|found| found.bytes))
    }

    pub(crate) async fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        let path = self.path(name)?;
        let get = self.ask(move |store| {
            async move {
                let Some(object) = found(store.get(&path).await)? else {
                    return Ok(None);
                };
                let version = UpdateVersion {
                    e_tag: object.meta.e_tag.clone(),
                    version: object.meta.version.clone(),
                };
                let bytes = object.bytes().await?;
                Ok(Some(Versioned { bytes, version }))
            }
            .boxed()
        });
        get.await.map_err(|e| self.error("read", name, e))
    }

    pub(crate) async fn list(&self, dir: &str) -> Result<Listing> {
        let dir_path = self.path(dir)?;
        let prefix = dir_path.clone();
        let list = self.ask(move |store| {
            async move {
                let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
                store.list_with_delimiter(below).await
            }
            .boxed()
        });
        let found = list.await.map_err(|e| self.error("list", dir, e))?;
        let name_of = |path: &Path| path.filename().unwrap_or_default().to_string();
        // People who make a "folder" make an object of its name.
        let files = found
            .objects
            .iter()
            .filter(|meta| meta.location != dir_path);
        Ok(Listing {
            files: files
                .map(|meta| Entry {
                    name: name_of(&meta.location),
                    size: meta.size,
                    modified_ms: meta.last_modified.timestamp_millis(),
                })
                .filter(|entry| !is_hidden(&entry.name) && !entry.name.is_empty())
                .collect(),
            dirs: found
                .common_prefixes
                .iter()
                .map(name_of)
                .filter(|name| !is_hidden(name) && !name.is_empty())
                .collect(),
        })
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        let delete = self
            .ask(move |store| async move { found(store.delete(&path).await).map(drop) }.boxed());
        delete.await.map_err(|e| self.error("delete", name, e))
    }

    fn path(&self, name: &str) -> Result<Path> {
        let full = match (self.prefix.as_ref(), name) {
            ("", name) => name.to_string(),
            (prefix, "") => prefix.to_string(),
            (prefix, name) => format!("{prefix}/{name}"),
        };
        Path::parse(&full).map_err(|e| StateError::InvalidLocation {
            location: full,
            reason: e.to_string(),
        })
    }

    fn error(&self, action: &'static str, name: &str, source: object_store::Error) -> StateError {
        let path = format!("{}/{name}", self.display.trim_end_matches('/'));
        match &self.requests {
            Some(requests) => requests.error(action, path, source),
            None => error_of(&Secrets::default(), action, path, source),
        }
    }
}

impl fmt::Debug for ObjectLocation {
    /// Without the store, which may show keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectLocation")
            .field(&self.display)
            .finish()
    }
}

fn parse_prefix(prefix: &str, location: &str) -> Result<Path> {
    Path::parse(prefix).map_err(|e| StateError::InvalidLocation {
        location: location.to_string(),
        reason: e.to_string(),
    })
}
