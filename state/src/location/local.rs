//! The local disk: temporary file, fsync, link or rename, fsync of the directory.
//!
//! `create` uses a hard link, which fails if the name exists: that is the atomic "only if absent". Where the
//! file system has no hard links it uses a rename that refuses to replace.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::{CreateOutcome, Entry, Listing};
use crate::error::{Result, StateError};
use crate::names::{TEMP_SUFFIX, is_hidden, is_own_temp};

/// One step of a local write; the order here is the order on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IoStep {
    /// Make one missing directory.
    CreateDir,
    /// Make the temporary file.
    CreateTemp,
    /// Write the bytes to it.
    WriteTemp,
    /// Write the second half of the bytes (a step of its own only while a hook is installed).
    WriteRest,
    /// Sync the temporary file.
    SyncTemp,
    /// Give the file its final name, only if that is free (`create`).
    Link,
    /// Give the file its final name, replacing what is there (`put`).
    Rename,
    /// Remove the temporary name (after `Link`, or to clean up after a failure).
    RemoveTemp,
    /// Sync the directory that holds the new name.
    SyncDir,
    /// Delete a file.
    Delete,
}

/// Called before a step with the path it works on; an error stands for the failure of the step.
pub type IoHook = dyn Fn(IoStep, &Path) -> io::Result<()> + Send + Sync;

/// A checkpoint on the local disk.
#[derive(Clone)]
pub(crate) struct LocalStore {
    root: PathBuf,
    hook: Option<Arc<IoHook>>,
}

impl std::fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStore")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl LocalStore {
    /// Makes the path absolute, so that a later change of the working directory changes nothing.
    pub(crate) fn open(path: &str) -> Result<Self> {
        let root =
            std::path::absolute(path).map_err(|e| io_error("resolve", Path::new(path), e))?;
        Ok(Self { root, hook: None })
    }

    pub(crate) fn with_hook(&self, hook: Arc<IoHook>) -> Self {
        Self {
            root: self.root.clone(),
            hook: Some(hook),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<CreateOutcome> {
        let target = self.path(name);
        self.try_create(&target, bytes)
            .map_err(|e| io_error("write", &target, e))
    }

    fn try_create(&self, target: &Path, bytes: &[u8]) -> io::Result<CreateOutcome> {
        let temp = self.write_temp(target, bytes)?;
        let linked = self
            .step(IoStep::Link, target)
            .and_then(|()| link_if_absent(&temp, target));
        let outcome = match linked {
            Ok(()) => CreateOutcome::Created,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => CreateOutcome::AlreadyExists,
            Err(e) => {
                self.remove_temp(&temp);
                return Err(e);
            }
        };
        self.remove_temp(&temp);
        // Also for the loser: it may act on the winner's file at once, so that must be durable.
        self.sync_dir_of(target)?;
        Ok(outcome)
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let target = self.path(name);
        self.try_put(&target, bytes)
            .map_err(|e| io_error("write", &target, e))
    }

    fn try_put(&self, target: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = self.write_temp(target, bytes)?;
        let renamed = self
            .step(IoStep::Rename, target)
            .and_then(|()| fs::rename(&temp, target));
        if let Err(e) = renamed {
            self.remove_temp(&temp);
            return Err(e);
        }
        self.sync_dir_of(target)
    }

    pub(crate) fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(io_error("read", &path, e)),
        }
    }

    pub(crate) fn list(&self, dir: &str) -> Result<Listing> {
        let path = self.path(dir);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
            Err(e) => return Err(io_error("list", &path, e)),
        };
        let mut listing = Listing::default();
        for entry in entries {
            let entry = entry.map_err(|e| io_error("list", &path, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_hidden(&name) {
                continue;
            }
            match fs::metadata(entry.path()) {
                Ok(meta) if meta.is_dir() => listing.dirs.push(name),
                Ok(meta) => listing.files.push(Entry {
                    name,
                    size: meta.len(),
                    modified_ms: modified_ms(&meta),
                }),
                // Deleted since, or a dangling link: not there.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("list", &entry.path(), e)),
            }
        }
        Ok(listing)
    }

    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let deleted = self
            .step(IoStep::Delete, &path)
            .and_then(|()| fs::remove_file(&path));
        match deleted {
            Err(e) if !is_absent(&e) => Err(io_error("delete", &path, e)),
            _ => Ok(()),
        }
    }

    /// Makes the directory of `target` and every missing one above it, each durable in its parent.
    pub(crate) fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent() {
            self.create_dirs(parent)?;
        }
        self.step(IoStep::CreateDir, dir)?;
        match fs::create_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(e) => Err(e),
            Ok(()) => self.sync_dir_of(dir),
        }
    }

    /// Syncs the directory that holds `path`.
    pub(crate) fn sync_dir_of(&self, path: &Path) -> io::Result<()> {
        let dir = path.parent().unwrap_or(&self.root);
        self.step(IoStep::SyncDir, dir)?;
        sync_dir(dir)
    }

    /// Syncs `dir` itself, if it is there.
    pub(crate) fn sync_dir(&self, dir: &str) -> Result<()> {
        let path = self.path(dir);
        let synced = self
            .step(IoStep::SyncDir, &path)
            .and_then(|()| sync_dir(&path));
        match synced {
            Err(e) if !is_absent(&e) => Err(io_error("sync", &path, e)),
            _ => Ok(()),
        }
    }

    /// Removes the temporary files an earlier run left below `dir`; returns how many. Only the holder of the
    /// lease may call it: anybody else's temporary files may be in use.
    pub(crate) fn remove_leftovers(&self, dir: &str) -> Result<usize> {
        let path = self.path(dir);
        let removed = self.remove_leftovers_in(&path, !dir.is_empty());
        removed.map_err(|e| io_error("clean", &path, e))
    }

    fn remove_leftovers_in(&self, dir: &Path, deep: bool) -> io::Result<usize> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(e),
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry?;
            if deep && entry.file_type()?.is_dir() {
                removed += self.remove_leftovers_in(&entry.path(), deep)?;
            } else if is_own_temp(&entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn write_temp(&self, target: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        let (mut file, temp) = self.create_temp(target)?;
        let written = self
            .write_all(&mut file, &temp, bytes)
            .and_then(|()| self.step(IoStep::SyncTemp, &temp))
            .and_then(|()| file.sync_all());
        match written {
            Ok(()) => Ok(temp),
            Err(e) => {
                drop(file);
                self.remove_temp(&temp);
                Err(e)
            }
        }
    }

    fn create_temp(&self, target: &Path) -> io::Result<(File, PathBuf)> {
        let (dir, name) = (target.parent(), target.file_name());
        let (Some(dir), Some(name)) = (dir, name) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let id = uuid::Uuid::new_v4();
        let temp = dir.join(format!(".{}.{id}{TEMP_SUFFIX}", name.to_string_lossy()));
        self.step(IoStep::CreateTemp, &temp)?;
        let open = || OpenOptions::new().write(true).create_new(true).open(&temp);
        let file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.create_dirs(dir)?;
                open()?
            }
            other => other?,
        };
        Ok((file, temp))
    }

    fn write_all(&self, file: &mut File, temp: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(IoStep::WriteTemp, temp)?;
        if self.hook.is_none() {
            return file.write_all(bytes);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(first)?;
        self.step(IoStep::WriteRest, temp)?;
        file.write_all(rest)
    }

    /// Best effort: what stays behind is invisible and is cleaned up by the next holder of the lease.
    fn remove_temp(&self, temp: &Path) {
        let removed = self
            .step(IoStep::RemoveTemp, temp)
            .and_then(|()| fs::remove_file(temp));
        if let Err(e) = removed {
            tracing::debug!(file = %temp.display(), error = %e, "temporary file left behind");
        }
    }

    fn step(&self, step: IoStep, path: &Path) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(step, path))
    }
}

/// Time of modification, unix milliseconds; 1970 where the file system has none.
fn modified_ms(metadata: &fs::Metadata) -> i64 {
    let since = metadata.modified().map(|at| at.duration_since(UNIX_EPOCH));
    match since {
        Ok(Ok(since)) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        _ => 0,
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn link_if_absent(temp: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(temp, target) {
        Err(e) if has_no_hard_links(&e) => rename_if_absent(temp, target),
        other => other,
    }
}

fn has_no_hard_links(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
    )
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn rename_if_absent(temp: &Path, target: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, temp, CWD, target, RenameFlags::NOREPLACE).map_err(io::Error::from)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn rename_if_absent(_temp: &Path, _target: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "the file system has no hard links",
    ))
}

#[cfg(unix)]
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Directories cannot be synced here; the file system journals names itself.
#[cfg(not(unix))]
fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: io::Error) -> StateError {
    StateError::Io {
        action,
        path: path.display().to_string(),
        source,
    }
}
