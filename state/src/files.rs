//! [`Files`]: state that does not fit in memory, in RocksDB below a local working directory.
//!
//! The files always hold exactly the state of the last flush; memory knows what is newer. The write-ahead log is off: the files are
//! never trusted after a crash, they are built again from the checkpoint.
//!
//! Keys in a column family, so that the order of bytes is the order of the table:
//!
//! ```text
//! keyed, ordered    [group, 2 bytes][key]                    value
//! timed             [time, 8 bytes][key]                     [group][value]
//! expiring          [group][key]                             [expiry, 8 bytes][value]
//!   its index       [expiry][key]                            [group]
//! ```
//!
//! The time comes first and the group not in the key: what expires is then one range, removed by one tombstone instead of one for
//! each of the 4096 key groups, and a scan is in order of (time, key) without sorting. A change of parallelism reads all keys of a
//! timed table anyway.

mod open;
mod rows;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocksdb::{ColumnFamily, DB};

use crate::error::{Result, StateError};
use crate::table::{TableKind, TableSpec};

pub(crate) use rows::{Row, Stored, file_key, group_key, split_group_key};
pub(crate) use write::Write;

/// Keys asked for at once.
const LOOKUPS: usize = 1024;

/// A directory that goes when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// A new directory below `parent`, the system's for temporary files if there is none.
    pub(crate) fn create(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = parent.join(format!("weir-state-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).map_err(|source| StateError::Io {
            action: "create",
            path: path.display().to_string(),
            source,
        })?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "working directory left behind");
        }
    }
}

/// The files of all tables of a subtask.
pub(crate) struct Files {
    db: DB,
    /// After the database, so that it is closed before its directory goes.
    dir: Arc<WorkDir>,
    specs: Vec<TableSpec>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// The files of one table.
#[derive(Debug, Clone)]
pub(crate) struct TableFiles {
    files: Arc<Files>,
    index: usize,
}

impl Files {
    pub(crate) fn table(self: &Arc<Self>, index: usize) -> TableFiles {
        TableFiles {
            files: Arc::clone(self),
            index,
        }
    }

    /// Bytes of the files.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |name: &String| {
            let property = rocksdb::properties::LIVE_SST_FILES_SIZE;
            let family = self.family(name);
            self.db
                .property_int_value_cf(family, property)
                .ok()
                .flatten()
        };
        let names: Vec<String> = self.specs.iter().flat_map(families).collect();
        names.iter().filter_map(of).sum()
    }

    fn family(&self, name: &str) -> &ColumnFamily {
        self.db
            .cf_handle(name)
            .expect("invariant: column families are made when the database is opened")
    }

    fn error(&self, action: &'static str, error: &rocksdb::Error) -> StateError {
        failed(action, &self.dir.path, error)
    }
}

fn failed(action: &'static str, path: &Path, error: &rocksdb::Error) -> StateError {
    StateError::Files {
        action,
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// Names of the column families of a table.
fn families(spec: &TableSpec) -> Vec<String> {
    match spec.kind {
        TableKind::Expiring => vec![spec.name.clone(), index_of(spec)],
        _ => vec![spec.name.clone()],
    }
}

/// Name of the column family with the index by expiry.
fn index_of(spec: &TableSpec) -> String {
    format!("{}.expiry", spec.name)
}

impl TableFiles {
    fn spec(&self) -> &TableSpec {
        &self.files.specs[self.index]
    }

    pub(crate) fn kind(&self) -> TableKind {
        self.spec().kind
    }

    fn family(&self) -> &ColumnFamily {
        self.files.family(&self.spec().name)
    }

    fn index_family(&self) -> &ColumnFamily {
        self.files.family(&index_of(self.spec()))
    }

    /// Asks for keys, which must be sorted; hands each with what is stored under it to `found`.
    pub(crate) fn look_up(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        for chunk in keys.chunks(LOOKUPS) {
            let answers =
                self.files
                    .db
                    .batched_multi_get_cf(self.family(), chunk.iter().copied(), true);
            for answer in answers {
                let value = answer.map_err(|e| self.files.error("read", &e))?;
                found(at, value.as_deref())?;
                at += 1;
            }
        }
        Ok(())
    }
}
