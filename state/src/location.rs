//! [`CheckpointLocation`]: the few operations a checkpoint needs, on the local disk or on an object store.
//!
//! What every backend promises: a file is either absent or whole, [`CheckpointLocation::create`] has exactly
//! one winner, and what a call reports as done survives a power cut. On the local disk the calls block for
//! the time of their fsyncs and hand nothing to other threads: an epoch's fixed cost stays near that of
//! the disk.

mod bucket;
mod local;
mod object;
mod requests;
#[cfg(feature = "aws")]
mod s3;
mod settings;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;

pub(crate) use bucket::{Bucket, feature_of};
pub use local::{IoHook, IoStep};
pub(crate) use local::{LocalStore, io_error};
pub(crate) use object::{ObjectLocation, Versioned};
pub use requests::{ObjectRequests, found};
pub use settings::{OBJECT_STORE_SETTINGS, ObjectStoreSetting, ObjectStoreSettings};

use crate::error::{Result, StateError};
use crate::names::check_name;

/// What [`CheckpointLocation::create`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "AlreadyExists means that another writer won"]
pub enum CreateOutcome {
    /// The file was not there and is now, durably.
    Created,
    /// The file was there and is untouched.
    AlreadyExists,
}

/// One file of a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Name of the file without its directory.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of modification by the clock of the storage, unix milliseconds.
    pub modified_ms: i64,
}

/// A directory or object store prefix that holds one checkpoint. Cheap to clone.
///
/// Names are relative, segments separated by `/`; missing directories are made as needed.
#[derive(Debug, Clone)]
pub struct CheckpointLocation {
    backend: Backend,
}

/// Where the bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    Local(Arc<LocalStore>),
    Object(Arc<ObjectLocation>),
}

impl CheckpointLocation {
    /// Opens a location without touching it.
    ///
    /// - a plain path, taken letter by letter (spaces, `%`, `#` … mean themselves), or `file:///absolute/path`
    ///   as a url: the local disk;
    /// - `memory://name[/prefix]`: a store kept by this process under that name, for tests and for queries
    ///   that restart inside one process ([`CheckpointLocation::forget_memory`] frees it);
    /// - `s3://`, `gs://`, `abfss://` …: an object store, configured by the environment variables of its
    ///   vendor, if the feature is compiled in. What follows the bucket is taken letter by letter, as a path is.
    ///
    /// # Errors
    /// [`StateError::InvalidLocation`], [`StateError::UnsupportedScheme`], or the object store's own.
    pub fn open(url_or_path: &str) -> Result<Self> {
        Self::open_with(url_or_path, &ObjectStoreSettings::default())
    }

    /// As [`CheckpointLocation::open`], with settings for object stores; other places have no use for them.
    ///
    /// # Errors
    /// Also [`StateError::InvalidSetting`].
    pub fn open_with(url_or_path: &str, settings: &ObjectStoreSettings) -> Result<Self> {
        let backend = match Address::parse(url_or_path)? {
            Address::Local(path) => Backend::Local(Arc::new(LocalStore::open(&path)?)),
            Address::Memory { name, prefix } => Backend::Object(Arc::new(
                ObjectLocation::in_memory(name, prefix, url_or_path)?,
            )),
            Address::Remote(bucket) => {
                Backend::Object(Arc::new(ObjectLocation::remote(&bucket, settings)?))
            }
        };
        Ok(Self { backend })
    }

    /// A location under `prefix` in a store the caller has configured.
    ///
    /// # Errors
    /// [`StateError::InvalidLocation`] when `prefix` is not a path of that store.
    pub fn with_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self> {
        let object = ObjectLocation::new(store, prefix, prefix)?;
        Ok(Self {
            backend: Backend::Object(Arc::new(object)),
        })
    }

    /// Frees the in-memory store `memory://name`; locations already open keep theirs.
    pub fn forget_memory(name: &str) {
        object::forget_memory(name);
    }

    /// The same location with `hook` called before every local I/O step, for fault injection in tests: a step
    /// whose hook returns an error is not done. Object stores have no steps and ignore it.
    #[must_use]
    pub fn with_io_hook(&self, hook: Arc<IoHook>) -> Self {
        let backend = match &self.backend {
            Backend::Local(local) => Backend::Local(Arc::new(local.with_hook(hook))),
            Backend::Object(object) => Backend::Object(Arc::clone(object)),
        };
        Self { backend }
    }

    /// Creates `name` atomically, only if it is absent. When the call fails, the file may or may not be
    /// there, but never in part.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn create(&self, name: &str, bytes: impl Into<Bytes>) -> Result<CreateOutcome> {
        check_name(name)?;
        let bytes = bytes.into();
        match &self.backend {
            Backend::Local(local) => local.create(name, &bytes),
            Backend::Object(object) => object.create(name, bytes).await,
        }
    }

    /// Writes `name` atomically, replacing what was there. When the call fails, the file holds the old or
    /// the new bytes, never a mixture.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        check_name(name)?;
        let bytes = bytes.into();
        match &self.backend {
            Backend::Local(local) => local.put(name, &bytes),
            Backend::Object(object) => object.put(name, bytes).await,
        }
    }

    /// The bytes of `name`, `None` if it is absent.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        check_name(name)?;
        match &self.backend {
            Backend::Local(local) => local.get(name),
            Backend::Object(object) => object.get(name).await,
        }
    }

    /// The files directly in `dir` (`""` is the location itself), sorted by name as text; hidden and temporary
    /// ones are left out. A missing directory is an empty one.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        Ok(self.listing(dir).await?.files)
    }

    /// The names of the directories directly in `dir`, sorted; hidden ones are left out.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn list_dirs(&self, dir: &str) -> Result<Vec<String>> {
        Ok(self.listing(dir).await?.dirs)
    }

    pub(crate) async fn listing(&self, dir: &str) -> Result<Listing> {
        if !dir.is_empty() {
            check_name(dir)?;
        }
        let mut listing = match &self.backend {
            Backend::Local(local) => local.list(dir)?,
            Backend::Object(object) => object.list(dir).await?,
        };
        listing.files.sort_unstable();
        listing.dirs.sort_unstable();
        Ok(listing)
    }

    /// Deletes `name`; a missing file is fine. Not synced: a deletion may come back after a power cut.
    ///
    /// # Errors
    /// The storage's failure, with the full path.
    pub async fn delete(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match &self.backend {
            Backend::Local(local) => local.delete(name),
            Backend::Object(object) => object.delete(name).await,
        }
    }

    /// Makes earlier deletions in `dir` survive a power cut.
    pub(crate) fn sync(&self, dir: &str) -> Result<()> {
        match &self.backend {
            Backend::Local(local) => local.sync_dir(dir),
            // A delete that an object store has answered is durable.
            Backend::Object(_) => Ok(()),
        }
    }

    /// The location as people would write it: an absolute path or a url.
    #[must_use]
    pub fn display(&self) -> String {
        match &self.backend {
            Backend::Local(local) => local.root().display().to_string(),
            Backend::Object(object) => object.display().to_string(),
        }
    }

    /// The directory `dir` of a location in an object store, in the same store; `None` on the local disk.
    ///
    /// # Errors
    /// [`StateError::InvalidLocation`] when `dir` is not a path of that store.
    pub fn object_dir(&self, dir: &str) -> Result<Option<Self>> {
        match &self.backend {
            Backend::Local(_) => Ok(None),
            Backend::Object(object) => Ok(Some(Self {
                backend: Backend::Object(Arc::new(object.at(dir)?)),
            })),
        }
    }

    /// Requests to the object store behind the location; `None` on the local disk. Keys are those of the whole bucket.
    ///
    /// # Errors
    /// If a thread for them cannot be started.
    pub fn object_requests(&self) -> Result<Option<ObjectRequests>> {
        match &self.backend {
            Backend::Local(_) => Ok(None),
            Backend::Object(object) => object.requests().map(Some),
        }
    }

    /// Full path or url of a file in the location, for messages.
    #[must_use]
    pub fn display_of(&self, name: &str) -> String {
        format!("{}/{name}", self.display().trim_end_matches('/'))
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }
}

impl fmt::Display for CheckpointLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display())
    }
}

/// What is directly in a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) files: Vec<Entry>,
    pub(crate) dirs: Vec<String>,
}

/// A location as written, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Address<'a> {
    Local(String),
    Memory { name: &'a str, prefix: &'a str },
    Remote(Bucket<'a>),
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let invalid = |reason: &str| StateError::InvalidLocation {
            location: text.to_string(),
            reason: reason.to_string(),
        };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if let Some(rest) = text.strip_prefix("memory://") {
            let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            return if name.is_empty() {
                Err(invalid("an in-memory store needs a name"))
            } else {
                Ok(Address::Memory { name, prefix })
            };
        }
        if text.starts_with("file:/") {
            return local_of_url(text).map(Address::Local).map_err(invalid);
        }
        match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => {
                Bucket::of(scheme, rest).map(Address::Remote)
            }
            _ => Ok(Address::Local(text.to_string())),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The path of a `file:` url. A bare `#` or `?` would silently cut the path, so it is refused.
fn local_of_url(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).map_err(|_| "the url is malformed")?;
    if url.fragment().is_some() || url.query().is_some() {
        return Err("in a `file:` url write `#` as `%23` and `?` as `%3F`, or give a plain path");
    }
    let path = url
        .to_file_path()
        .map_err(|()| "a `file:` url has an absolute path and no host")?;
    path.into_os_string()
        .into_string()
        .map_err(|_| "the path is not valid unicode")
}

#[cfg(test)]
mod tests;
