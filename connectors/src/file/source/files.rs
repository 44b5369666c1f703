//! What the source knows of a file: as found in a listing, as written to the log, as handed to a reader.

use std::cmp::Ordering;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use weir_runtime::{Fault, Offset, Result, Split, WeirError};

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
                    "the source log names '{}', which is no file of the local disk",
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

    /// The path, if the file is still the one that was planned.
    ///
    /// # Errors
    /// If it is gone or another one: its rows would not be those the plan promises.
    pub(crate) fn checked_path(&self) -> Result<PathBuf> {
        let path = uri::to_path(&self.path).ok_or_else(|| {
            WeirError::internal(format!(
                "split path '{}' is no file of the local disk",
                self.path
            ))
        })?;
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(vanished(&path));
            }
            Err(error) => {
                let message = format!("cannot look at file '{}'", path.display());
                return Err(WeirError::external(message).with_source(error));
            }
        };
        let (mtime, size) = (mtime_ms(&metadata), metadata.len());
        if (mtime, size) != (self.timestamp, self.size) {
            return Err(self.changed(&path, mtime, size));
        }
        Ok(path)
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
