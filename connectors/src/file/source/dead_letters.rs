//! Bad records of one file, put aside (option `badRecordsPath`): a file of JSON lines `{"path","line","reason","record"}`.
//!
//! Its name follows from the file that was read, and it gets that name when the file is read to its end. So an epoch that is
//! replayed writes the same file again, and each bad record is there once.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_runtime::{Result, WeirError};
use xxhash_rust::xxh64::xxh64;

use super::files::PlannedFile;
use crate::file::decode::BadRecordSink;
use crate::file::uri;

/// Where the bad records of one file go.
#[derive(Debug)]
pub(super) struct DeadLetters {
    source: String,
    dir: PathBuf,
    name: String,
    /// Made by the first bad record.
    out: Mutex<Option<BufWriter<File>>>,
}

#[derive(Serialize)]
struct Letter<'a> {
    path: &'a str,
    line: u64,
    reason: &'a str,
    record: &'a str,
}

impl DeadLetters {
    /// The bad records of `file`, in directory `dir`; nothing is made.
    pub(super) fn new(dir: &str, file: &PlannedFile) -> Result<Self> {
        let dir = uri::local_path("option 'badRecordsPath'", dir)?;
        let identity = format!("{}/{}/{}", file.path, file.timestamp, file.size);
        let base = uri::to_path(&file.path)
            .and_then(|path| {
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            })
            .unwrap_or_default();
        Ok(Self {
            source: file.path.clone(),
            dir,
            name: format!("{base}-{:016x}.json", xxh64(identity.as_bytes(), 0)),
            out: Mutex::new(None),
        })
    }

    /// Hidden until the file is complete.
    fn staged(&self) -> PathBuf {
        self.dir.join(format!(".{}.tmp", self.name))
    }

    fn write(&self, letter: &Letter<'_>) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let out = match out.as_mut() {
            Some(out) => out,
            None => {
                fs::create_dir_all(&self.dir)?;
                out.insert(BufWriter::new(File::create(self.staged())?))
            }
        };
        serde_json::to_writer(&mut *out, letter)?;
        out.write_all(b"\n")
    }

    /// The file was read to its end.
    ///
    /// # Errors
    /// If the disk refuses; the epoch must not be committed then.
    pub(super) fn finish(&self) -> Result<()> {
        let out = self
            .out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(out) = out else {
            return Ok(());
        };
        let done = out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(self.staged(), self.dir.join(&self.name)));
        done.map_err(|error| {
            WeirError::external(format!(
                "bad records of '{}' cannot be written to '{}'",
                self.source,
                self.dir.display()
            ))
            .with_source(error)
        })
    }
}

impl BadRecordSink for DeadLetters {
    fn take(&self, line: u64, reason: &str, record: &[u8]) -> io::Result<()> {
        self.write(&Letter {
            path: &self.source,
            line,
            reason,
            record: &String::from_utf8_lossy(record),
        })
    }
}
