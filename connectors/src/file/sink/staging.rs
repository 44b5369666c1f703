//! Where files are until their epoch is committed: `_weir_staging/<query>/<sink>/<epoch>-<generation>/` inside of the output,
//! on the same file system, hidden from every reader of the directory.
//!
//! Before the first file of an epoch gets its final name, the names of all are written there (`intent.json`). A crash
//! between the first name and the manifest leaves files that a plain listing would count; the next start finds them by
//! this list and removes them before the epoch runs again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weir_runtime::{Epoch, Fault, Result, WeirError};
use xxhash_rust::xxh64::xxh64;

use super::hive;
use super::manifest::Owner;
use crate::file::store::{Store, io_error};

/// Directory of everything that is not committed.
pub(super) const DIR: &str = "_weir_staging";
const INTENT: &str = "intent.json";

/// A finished file that is not visible yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StagedFile {
    /// Path below the output when it is committed, and below the staging directory of its epoch until then.
    pub(super) path: String,
    /// Rows in it.
    pub(super) rows: u64,
    /// Bytes.
    pub(super) size: u64,
    /// Time of modification, unix milliseconds.
    pub(super) modified_ms: i64,
}

/// What one writer made of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prepared {
    /// Generation the writer belongs to.
    pub(super) generation: u64,
    /// Its files.
    pub(super) files: Vec<StagedFile>,
}

/// Final names an epoch is about to use.
#[derive(Debug, Serialize, Deserialize)]
struct Intent {
    files: Vec<String>,
}

/// The staging area of one sink of one query.
#[derive(Debug, Clone)]
pub(super) struct Staging {
    root: PathBuf,
    store: Store,
    dir: PathBuf,
    owner: Owner,
}

impl Staging {
    /// The area inside of the output `root`; nothing is made.
    pub(super) fn new(root: &Path, store: Store, owner: Owner) -> Self {
        let sink = format!("sink={}", hive::escape(&owner.sink));
        let dir = root.join(DIR).join(owner.query_id.to_string()).join(sink);
        Self {
            root: root.to_owned(),
            store,
            dir,
            owner,
        }
    }

    /// Where the output is.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Directory of one epoch as one generation writes it.
    pub(super) fn epoch_dir(&self, epoch: Epoch, generation: u64) -> PathBuf {
        self.dir.join(format!("{epoch}-{generation}"))
    }

    /// The uuid in the names of the files of one epoch and generation: always the same, and never that of another one.
    pub(super) fn file_id(&self, epoch: Epoch, generation: u64) -> Uuid {
        let text = format!(
            "{}/{}/{epoch}/{generation}",
            self.owner.query_id, self.owner.sink
        );
        let halves = [
            xxh64(text.as_bytes(), 0).to_be_bytes(),
            xxh64(text.as_bytes(), 1).to_be_bytes(),
        ]
        .concat();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&halves);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// Makes the final names durable before they are used.
    pub(super) async fn write_intent(&self, dir: &Path, files: &[String]) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(&Intent {
            files: files.to_vec(),
        })
        .map_err(|error| {
            WeirError::internal("a list of file names cannot be written as JSON").with_source(error)
        })?;
        self.store.location(dir)?.put(INTENT, bytes).await?;
        // The directories that lead to the list must survive a power cut as well.
        self.sync_all([self.dir.as_path()])
    }

    /// Syncs directories and those above them up to the output, each once; object stores need none of it.
    pub(super) fn sync_all<'a>(&self, dirs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
        match self.store {
            Store::Local => sync_all(dirs, &self.root),
            Store::Remote(_) => Ok(()),
        }
    }

    /// Leftovers of this sink, each an epoch of one generation.
    pub(super) async fn leftovers(&self) -> Result<Vec<Leftover>> {
        let names = self.store.names(&self.dir).await?.unwrap_or_default();
        let mut leftovers = Vec::new();
        for name in names {
            let dir = self.dir.join(name);
            leftovers.push(Leftover {
                generation: generation_of(&dir),
                files: read_intent(&self.store, &dir).await?,
                dir,
            });
        }
        leftovers.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(leftovers)
    }

    /// Removes the area if nothing is in it; best effort.
    pub(super) fn remove_if_empty(&self) {
        if matches!(self.store, Store::Remote(_)) {
            return;
        }
        let mut dir = self.dir.clone();
        while dir != self.root && fs::remove_dir(&dir).is_ok() {
            dir.pop();
        }
    }
}

/// What a dead generation left of an epoch.
#[derive(Debug)]
pub(super) struct Leftover {
    /// Its staging directory.
    pub(super) dir: PathBuf,
    /// The generation, if the name tells.
    pub(super) generation: Option<u64>,
    /// Final names it may have used, below the output.
    pub(super) files: Vec<String>,
}

fn generation_of(dir: &Path) -> Option<u64> {
    dir.file_name()?.to_str()?.rsplit_once('-')?.1.parse().ok()
}

async fn read_intent(store: &Store, dir: &Path) -> Result<Vec<String>> {
    let path = dir.join(INTENT);
    let Some(bytes) = store.read(&path).await? else {
        return Ok(Vec::new());
    };
    let intent: Intent = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!(
            "file '{}' is damaged: {error}; it names files of an uncommitted epoch that must be removed before the epoch runs \
             again: remove those that '_spark_metadata' does not name, then this file",
            path.display()
        );
        WeirError::new(Fault::Checkpoint, message).with_source(error)
    })?;
    Ok(intent.files)
}

/// Syncs directories and those above them up to `root`, each once.
fn sync_all<'a>(dirs: impl IntoIterator<Item = &'a Path>, root: &Path) -> Result<()> {
    let mut all = BTreeSet::new();
    for dir in dirs {
        all.extend(dir.ancestors().take_while(|above| above.starts_with(root)));
    }
    for dir in all.into_iter().rev() {
        sync_dir(dir).map_err(|error| io_error("sync", dir, error))?;
    }
    Ok(())
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
