//! The lease on the local disk: a locked file with room for two records.
//!
//! The file must stay the same file, because the lock belongs to it, so it is written in place. The record
//! of generation g goes to slot g mod 2: a crash in the middle of writing one leaves the other whole, and the
//! generation never goes back. A person sees two lines: this holder and the one before.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::{FILE, Record, in_use};
use crate::envelope;
use crate::error::{Result, StateError};
use crate::location::{CheckpointLocation, LocalStore, io_error};

/// Size of a record with its envelope, padded with spaces, closed by a newline.
const SLOT_LEN: usize = 512;

/// The locked file; closing it unlocks.
#[derive(Debug)]
pub(super) struct Locked {
    file: File,
    path: PathBuf,
    last: Option<Record>,
}

/// Locks the lease or says who holds it. Nothing is written yet.
pub(super) fn lock(store: &LocalStore, location: &CheckpointLocation) -> Result<Locked> {
    let path = store.path(FILE);
    let open = || {
        store.create_dirs(store.root())?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(&path)
    };
    let mut file = open().map_err(|e| io_error("open", &path, e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(location, read_newest(&mut file))),
        Err(TryLockError::Error(e)) => return Err(io_error("lock", &path, e)),
    }
    let last = read_newest(&mut file);
    let length = file.metadata().map_or(0, |meta| meta.len());
    if last.is_none() && length > 0 {
        tracing::warn!(file = %path.display(), "lease is unreadable, its generation is taken from the logs");
    }
    let locked = Locked { file, path, last };
    // Somebody may have removed the file between opening and locking: then the lock guards nothing.
    if !locked.is_still_there()? {
        let now = std::fs::read(&locked.path).ok();
        return Err(in_use(location, now.and_then(|file| newest_record(&file))));
    }
    store
        .sync_dir_of(&locked.path)
        .map_err(|e| io_error("sync", &locked.path, e))?;
    Ok(locked)
}

impl Locked {
    /// The newest record found when the lock was taken, or written since.
    pub(super) fn last(&self) -> Option<&Record> {
        self.last.as_ref()
    }

    /// Writes a record durably into its slot.
    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        let slot = slot(record)?;
        let at = (record.generation % 2) * SLOT_LEN as u64;
        let file = &mut self.file;
        let written = (|| {
            // A damaged tail must not outlive the two slots.
            if file.metadata()?.len() > 2 * SLOT_LEN as u64 {
                file.set_len(2 * SLOT_LEN as u64)?;
            }
            pad_to(file, at)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&slot)?;
            file.sync_all()
        })();
        written.map_err(|e| io_error("write", &self.path, e))?;
        self.last = Some(record.clone());
        Ok(())
    }

    /// Removes what earlier runs left half-written.
    pub(super) fn clean_up(&self, store: &LocalStore) -> Result<()> {
        let mut removed = 0;
        for dir in ["", "offsets", "commits", "sources", "state"] {
            removed += store.remove_leftovers(dir)?;
        }
        if removed > 0 {
            tracing::info!(location = %store.root().display(), removed, "temporary files of an earlier run removed");
        }
        Ok(())
    }

    fn is_still_there(&self) -> Result<bool> {
        same_file(&self.file, &self.path).map_err(|e| io_error("check", &self.path, e))
    }

    /// The lock guards the checkpoint only as long as this is the file under the name `lease`.
    pub(super) fn check_still_there(&self, generation: u64) -> Result<()> {
        if self.is_still_there()? {
            return Ok(());
        }
        let now = std::fs::read(&self.path).ok();
        Err(StateError::LeaseLost {
            path: self.path.display().to_string(),
            generation,
            owner: now
                .and_then(|file| newest_record(&file))
                .map(|record| Box::new(record.owner)),
        })
    }
}

#[cfg(unix)]
fn same_file(file: &File, path: &std::path::Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((held.dev(), held.ino()) == (named.dev(), named.ino())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// A locked file cannot be removed here.
#[cfg(not(unix))]
fn same_file(_file: &File, _path: &std::path::Path) -> std::io::Result<bool> {
    Ok(true)
}

fn pad_to(file: &mut File, len: u64) -> std::io::Result<()> {
    let mut at = file.seek(SeekFrom::End(0))?;
    while at < len {
        let blank = [b" ".repeat(SLOT_LEN - 1), b"\n".to_vec()].concat();
        let want = usize::try_from(len - at).map_or(SLOT_LEN, |left| left.min(SLOT_LEN));
        file.write_all(&blank[SLOT_LEN - want..])?;
        at += want as u64;
    }
    Ok(())
}

fn slot(record: &Record) -> Result<Vec<u8>> {
    let mut record = record.clone();
    loop {
        let body = serde_json::to_vec(&record).map_err(|e| StateError::Codec {
            what: "the lease".to_string(),
            reason: e.to_string(),
        })?;
        let mut slot = envelope::encode_text(&body);
        if slot.len() < SLOT_LEN {
            slot.resize(SLOT_LEN - 1, b' ');
            slot.push(b'\n');
            return Ok(slot);
        }
        // Only the host can be that long; a shortened one still helps a person.
        let shorter = record.owner.host.chars().count() / 2;
        record.owner.host = record.owner.host.chars().take(shorter).collect();
    }
}

fn read_newest(file: &mut File) -> Option<Record> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(2 * SLOT_LEN as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    newest_record(&bytes)
}

/// The readable record with the highest generation.
pub(super) fn newest_record(file: &[u8]) -> Option<Record> {
    let records = file.chunks(SLOT_LEN).filter_map(|slot| {
        let body = envelope::decode_text(slot.trim_ascii_end()).ok()?;
        serde_json::from_slice::<Record>(body).ok()
    });
    records.max_by_key(|record| record.generation)
}
