//! Where the directory of a source or sink is: on the local disk or in an object store.
//!
//! On the local disk the calls block for the time they take; what they wait for in an object store happens elsewhere.

use std::fs;
use std::io;
use std::path::Path;
use std::pin::pin;

use futures::FutureExt;
use weir_runtime::{ObjectStoreSettings, Result, WeirError};
use weir_state::CheckpointLocation;

use super::remote::{Address, Remote};

/// The place of a directory.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    Local,
    Remote(Remote),
}

impl Store {
    /// The place of this path; `settings` say how an object store is reached.
    ///
    /// # Errors
    /// If there is no such kind of object store, or the settings do not fit.
    pub(crate) fn of(path: &Path, settings: &ObjectStoreSettings) -> Result<Self> {
        Ok(Remote::of(path, settings)?.map_or(Self::Local, Self::Remote))
    }

    /// A directory of this place, for files that are written atomically.
    ///
    /// # Errors
    /// If it is not valid unicode.
    pub(crate) fn location(&self, dir: &Path) -> Result<CheckpointLocation> {
        if let Self::Remote(remote) = self {
            return remote.location(dir);
        }
        let text = dir.to_str().ok_or_else(|| {
            WeirError::config(format!("path '{}' is not valid unicode", dir.display()))
        })?;
        Ok(CheckpointLocation::open(text)?)
    }

    /// Names directly in a directory; `None` if there is no such directory.
    pub(crate) async fn names(&self, dir: &Path) -> Result<Option<Vec<String>>> {
        match self {
            Self::Local => local_names(dir),
            Self::Remote(remote) => {
                let depth = Address::of(dir).map_or(0, |address| address.key.len());
                let below = |(key, _): &(String, _)| {
                    let rest = key.get(depth..)?.trim_start_matches('/');
                    rest.split('/').next().map(str::to_owned)
                };
                let mut names: Vec<String> =
                    remote.list(dir).await?.iter().filter_map(below).collect();
                names.dedup();
                Ok((!names.is_empty()).then_some(names))
            }
        }
    }

    /// The bytes of a small file; `None` if it is not there.
    pub(crate) async fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Remote(remote) => remote.read(path).await,
            Self::Local => match fs::read(path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if is_absent(&error) => Ok(None),
                Err(error) => Err(io_error("read", path, error)),
            },
        }
    }

    /// Whether a file is there.
    pub(crate) async fn exists(&self, path: &Path) -> Result<bool> {
        match self {
            Self::Remote(remote) => Ok(remote.look(path).await?.is_some()),
            Self::Local => Ok(path.exists()),
        }
    }

    /// Bytes of a file; `None` if it is not there.
    pub(crate) async fn size(&self, path: &Path) -> Result<Option<u64>> {
        match self {
            Self::Remote(remote) => Ok(remote.look(path).await?.map(|object| object.size)),
            Self::Local => Ok(fs::metadata(path).ok().map(|metadata| metadata.len())),
        }
    }

    /// Gives a file another name; false if it is not there.
    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> Result<bool> {
        match self {
            Self::Remote(remote) => remote.rename(from, to).await,
            Self::Local => match fs::rename(from, to) {
                Ok(()) => Ok(true),
                Err(error) if is_absent(&error) => Ok(false),
                Err(error) => Err(io_error("rename to its final name", from, error)),
            },
        }
    }

    /// Makes a directory; object stores have none.
    pub(crate) fn make_dir(&self, dir: &Path) -> Result<()> {
        match self {
            Self::Remote(_) => Ok(()),
            Self::Local => {
                fs::create_dir_all(dir).map_err(|error| io_error("make directory", dir, error))
            }
        }
    }

    /// Removes a directory with everything in it; a missing one is fine.
    pub(crate) async fn remove_dir(&self, dir: &Path) -> Result<()> {
        match self {
            Self::Remote(remote) => remote.remove_dir(dir).await,
            Self::Local => match fs::remove_dir_all(dir) {
                Err(error) if !is_absent(&error) => Err(io_error("remove", dir, error)),
                _ => Ok(()),
            },
        }
    }

    /// Removes a file; a missing one is fine. True if it was there.
    pub(crate) async fn remove_file(&self, path: &Path) -> Result<bool> {
        match self {
            Self::Remote(remote) => remote.remove(path).await,
            Self::Local => match fs::remove_file(path) {
                Ok(()) => Ok(true),
                Err(error) if is_absent(&error) => Ok(false),
                Err(error) => Err(io_error("remove", path, error)),
            },
        }
    }
}

/// Waits for the answer of a store; only where waiting is allowed, unless the store is the local disk, which answers at once.
pub(crate) fn wait<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    match work.as_mut().now_or_never() {
        Some(done) => done,
        None => futures::executor::block_on(work),
    }
}

fn local_names(dir: &Path) -> Result<Option<Vec<String>>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error("list", dir, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| io_error("list", dir, error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(Some(names))
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

pub(crate) fn io_error(action: &str, path: &Path, error: io::Error) -> WeirError {
    WeirError::external(format!("cannot {action} '{}': {error}", path.display())).with_source(error)
}
