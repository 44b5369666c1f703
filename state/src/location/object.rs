//! Object stores, the in-memory one included: atomic puts come with the store, "only if absent" is its
//! conditional put.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use url::Url;

use super::{CreateOutcome, Entry, Listing};
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

/// A prefix of an object store.
#[derive(Debug)]
pub(crate) struct ObjectLocation {
    store: Arc<dyn ObjectStore>,
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
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        display: &str,
        in_process: bool,
    ) -> Result<Self> {
        let prefix = Path::parse(prefix).map_err(|e| StateError::InvalidLocation {
            location: display.to_string(),
            reason: e.to_string(),
        })?;
        let display = if display.is_empty() {
            store.to_string()
        } else {
            display.to_string()
        };
        Ok(Self {
            store,
            prefix,
            display,
            in_process,
        })
    }

    pub(crate) fn in_memory(name: &str, prefix: &str, display: &str) -> Result<Self> {
        let store = Arc::clone(memory().entry(name.to_string()).or_default());
        Self::new(store, prefix, display, true)
    }

    pub(crate) fn remote(url: &Url) -> Result<Self> {
        let (store, prefix) = object_store::parse_url_opts(url, vendor_variables())
            .map_err(|e| remote_error(url, e))?;
        Self::new(Arc::from(store), prefix.as_ref(), url.as_str(), false)
    }

    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// The store, and the prefix in it.
    pub(crate) fn store(&self) -> (Arc<dyn ObjectStore>, String) {
        (Arc::clone(&self.store), self.prefix.to_string())
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

    /// Creates the object only if absent; `None` when it exists.
    pub(crate) async fn create_versioned(
        &self,
        name: &str,
        bytes: Bytes,
    ) -> Result<Option<UpdateVersion>> {
        self.conditional_put(name, bytes, PutMode::Create).await
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
        let put = self
            .store
            .put_opts(&self.path(name)?, bytes.into(), mode.into())
            .await;
        match put {
            Ok(result) => Ok(Some(result.into())),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. }
                | object_store::Error::NotFound { .. },
            ) => Ok(None),
            Err(e) => Err(self.error("write", name, e)),
        }
    }

    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let put = self.store.put(&self.path(name)?, bytes.into()).await;
        put.map(|_| ()).map_err(|e| self.error("write", name, e))
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.get_versioned(name).await?.map(|found| found.bytes))
    }

    pub(crate) async fn get_versioned(&self, name: &str) -> Result<Option<Versioned>> {
        let found = match self.store.get(&self.path(name)?).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(self.error("read", name, e)),
        };
        let version = UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        };
        match found.bytes().await {
            Ok(bytes) => Ok(Some(Versioned { bytes, version })),
            Err(e) => Err(self.error("read", name, e)),
        }
    }

    pub(crate) async fn list(&self, dir: &str) -> Result<Listing> {
        let dir_path = self.path(dir)?;
        let prefix = (!dir_path.as_ref().is_empty()).then_some(&dir_path);
        let found = self
            .store
            .list_with_delimiter(prefix)
            .await
            .map_err(|e| self.error("list", dir, e))?;
        let name_of = |path: &Path| path.filename().unwrap_or_default().to_string();
        Ok(Listing {
            files: found
                .objects
                .iter()
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
        match self.store.delete(&self.path(name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.error("delete", name, e)),
        }
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
        StateError::Store {
            action,
            path: format!("{}/{name}", self.display.trim_end_matches('/')),
            source: Box::new(source),
        }
    }
}

/// The environment variables object stores are configured by.
fn vendor_variables() -> Vec<(String, String)> {
    const VENDORS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| VENDORS.iter().any(|vendor| key.starts_with(vendor)))
        .collect()
}

fn remote_error(url: &Url, error: object_store::Error) -> StateError {
    match error {
        // What the library answers for an unknown scheme and for one whose feature is off.
        object_store::Error::Generic {
            store: "parse_url" | "URL",
            ..
        } => StateError::UnsupportedScheme {
            location: url.to_string(),
            scheme: url.scheme().to_string(),
        },
        source => StateError::Store {
            action: "open",
            path: url.to_string(),
            source: Box::new(source),
        },
    }
}
