//! What the source knows of a file: as found in a listing, as written to the log, as handed to a reader.

use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use weir_runtime::{Fault, Offset, Result, Split, WeirError};

use crate::file::remote::Object;
use crate::file::store::{Store, wait};
use crate::file::uri;

/// A file of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    /// Time of modification, unix milliseconds.
    pub(crate) mtime_ms: i64,
    /// Bytes.
    pub(crate) size: u64,
}

impl FoundFile {
    pub(crate) fn new(path: PathBuf, metadata: &Metadata) -> Self {
        Self {
            path,
            mtime_ms: mtime_ms(metadata),
            size: metadata.len(),
        }
    }

    /// A file of an object store.
    pub(crate) fn remote(path: PathBuf, object: Object) -> Self {
        Self {
            path,
            mtime_ms: object.mtime_ms,
            size: object.size,
        }
    }

    /// A file as it is now; `None` if it is not there.
    pub(crate) fn look(store: &Store, path: &Path) -> Result<Option<Self>> {
        let found = match store {
            Store::Remote(remote) => {
                wait(remote.look(path))?.map(|object| Self::remote(path.to_owned(), object))
            }
            Store::Local => match std::fs::metadata(path) {
                Ok(metadata) => Some(Self::new(path.to_owned(), &metadata)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    let message = format!("cannot look at file '{}'", path.display());
                    return Err(WeirError::external(message).with_source(error));
                }
            },
        };
        Ok(found)
    }

    /// Arrival order: by time of modification, then by path, so that it is the same on every machine.
    pub(crate) fn arrival(&self, other: &Self) -> Ordering {
        self.mtime_ms
            .cmp(&other.mtime_ms)
            .then_with(|| self.path.cmp(&other.path))
    }

    /// Arrival order with the newest first; files of the same time still by path.
    pub(crate) fn latest_first(&self, other: &Self) -> Ordering {
        other
            .mtime_ms
            .cmp(&self.mtime_ms)
            .then_with(|| self.path.cmp(&other.path))
    }
}

/// Unix milliseconds of the last modification, rounded down.
pub(crate) fn mtime_ms(metadata: &Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else {
        return 0;
    };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            let nanos = before.duration().as_nanos();
            i64::try_from(nanos.div_ceil(1_000_000)).map_or(i64::MIN, |ms| -ms)
        }
    }
}

/// One line of the source log: Spark's fields, and the size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// `file:///…`, percent-encoded.
    pub(crate) path: String,
    /// Time of modification when the file was planned, unix milliseconds.
    pub(crate) timestamp: i64,
    /// Log offset the file belongs to: the source's own count of epochs with new files.
    #[serde(rename = "batchId")]
    pub(crate) log_offset: u64,
    /// Bytes when the file was planned.
    pub(crate) size: u64,
}

impl FileEntry {
    pub(crate) fn new(file: &FoundFile, log_offset: u64) -> Self {
        Self {
            path: uri::from_path(&file.path),
            timestamp: file.mtime_ms,
            log_offset,
            size: file.size,
        }
    }

    pub(crate) fn local_path(&self) -> Result<PathBuf> {
        uri::to_path(&self.path).ok_or_else(|| {
            WeirError::new(
                Fault::Checkpoint,
                format!(
                    "the source log names '{}', which is no path of a file",
                    self.path
                ),
            )
        })
    }

    /// The file as a split of an epoch.
    pub(crate) fn split(&self) -> Result<Split> {
        Ok(Split {
            name: self.local_path()?.display().to_string(),
            payload: serde_json::json!({ "path": self.path, "timestamp": self.timestamp, "size": self.size }),
            weight: self.size.max(1),
        })
    }
}

/// A file as a reader is told to read it.
#[derive(Debug, Deserialize)]
pub(crate) struct PlannedFile {
    /// `file:///…`, percent-encoded.
    pub(super) path: String,
    /// Time of modification, unix milliseconds.
    pub(super) timestamp: i64,
    /// Bytes.
    pub(super) size: u64,
}

impl PlannedFile {
    pub(crate) fn of(split: &Split) -> Result<Self> {
        Self::deserialize(&split.payload).map_err(|error| {
            WeirError::internal(format!("split '{}' is not one of a file", split.name))
                .with_source(error)
        })
    }

    /// The path, and the file in an object store, if it is still the one that was planned.
    ///
    /// # Errors
    /// If it is gone or another one: its rows would not be those the plan promises.
    pub(crate) fn checked(&self, store: &Store) -> Result<(PathBuf, Option<File>)> {
        let path = uri::to_path(&self.path).ok_or_else(|| {
            WeirError::internal(format!("split path '{}' is no path of a file", self.path))
        })?;
        let (copy, found) = match store {
            Store::Local => (None, FoundFile::look(store, &path)?),
            Store::Remote(remote) => wait(remote.fetch(&path, self.size))?
                .map(|(copy, object)| (copy, FoundFile::remote(path.clone(), object)))
                .unzip(),
        };
        let found = found.ok_or_else(|| vanished(&path))?;
        if (found.mtime_ms, found.size) != (self.timestamp, self.size) {
            return Err(self.changed(&path, found.mtime_ms, found.size));
        }
        Ok((path, copy))
    }

    fn changed(&self, path: &Path, mtime: i64, size: u64) -> WeirError {
        WeirError::data(format!(
            "file '{}' changed after it was planned: it had {} bytes and modification time {} ms, now {size} bytes and {mtime} ms; \
             files must be put into the directory whole, by a rename, and not be changed afterwards",
            path.display(),
            self.size,
            self.timestamp
        ))
    }
}

fn vanished(path: &Path) -> WeirError {
    WeirError::data(format!(
        "file '{}' is gone, but an epoch that is planned and not committed reads it; put it back to go on",
        path.display()
    ))
    .with_condition("FAILED_READ_FILE.FILE_NOT_EXIST")
}

/// Log offset of an offset, `{"logOffset":N}`.
///
/// # Errors
/// If another kind of source wrote it.
pub(crate) fn log_offset(source: &str, offset: &Offset) -> Result<u64> {
    offset.get("logOffset").and_then(serde_json::Value::as_u64).ok_or_else(|| {
        WeirError::new(
            Fault::Checkpoint,
            format!("offset {offset} of source '{source}' has no logOffset: the checkpoint belongs to another kind of source"),
        )
    })
}

/// The offset after the files of this log offset.
pub(crate) fn offset(log_offset: u64) -> Offset {
    serde_json::json!({ "logOffset": log_offset })
}
