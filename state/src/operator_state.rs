//! [`OperatorState`]: all tables of one operator subtask, and how they survive.
//!
//! The end of an epoch is a commit: what the epoch changed goes into one small file that names the file before it; now and then a
//! file holds everything and the chain starts again. Restoring is reading the chain.

mod durable;
mod restore;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use self::durable::{Durable, end_epoch};
use crate::changelog::Compression;
use crate::epoch::Epoch;
use crate::error::Result;
use crate::location::CheckpointLocation;
use crate::manifest::SnapshotRef;
use crate::table::{Table, TableSpec, TableStats};

/// Called at every point where a crash leaves something else behind: `state:before`, `state:written` …; an error ends the
/// commit there. For tests.
pub type Hit = dyn Fn(&str) -> Result<()> + Send + Sync;

/// Where and how the state of one operator subtask is kept.
#[derive(Clone)]
pub struct StateConfig {
    /// The checkpoint.
    pub location: CheckpointLocation,
    /// Uid of the operator.
    pub operator: String,
    /// Index of the subtask.
    pub subtask: u32,
    /// Generation of this run: part of the names of files, so that an earlier run cannot touch those of this one.
    pub generation: u64,
    /// Bytes of memory the tables may keep between epochs; what an epoch touches comes on top.
    pub memory_budget: usize,
    /// Files a restore has to read at most, roughly (Spark's `minDeltasForSnapshot`).
    pub max_chain: u32,
    /// How files are compressed.
    pub compression: Compression,
    /// Directory for state that does not fit in memory; `None`: the system's directory for temporary files.
    pub local_dir: Option<PathBuf>,
    /// Fault points, for tests.
    pub hit: Option<Arc<Hit>>,
}

impl StateConfig {
    /// With a budget of 256 MiB, chains of 32 files, LZ4.
    #[must_use]
    pub fn new(
        location: CheckpointLocation,
        operator: impl Into<String>,
        subtask: u32,
        generation: u64,
    ) -> Self {
        Self {
            location,
            operator: operator.into(),
            subtask,
            generation,
            memory_budget: 256 << 20,
            max_chain: 32,
            compression: Compression::default(),
            local_dir: None,
            hit: None,
        }
    }

    fn hit(&self, point: &str) -> Result<()> {
        self.hit.as_ref().map_or(Ok(()), |hit| hit(point))
    }
}

impl std::fmt::Debug for StateConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateConfig")
            .field("location", &self.location)
            .field("operator", &self.operator)
            .field("subtask", &self.subtask)
            .field("generation", &self.generation)
            .field("memory_budget", &self.memory_budget)
            .finish_non_exhaustive()
    }
}

/// Counters of all tables of a subtask together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateStats {
    /// Entries now.
    pub rows: u64,
    /// Entries set in the open epoch.
    pub updated: u64,
    /// Entries removed in the open epoch.
    pub removed: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of local files.
    pub files_bytes: u64,
    /// Bytes the last commit wrote into the checkpoint, 0 if it had nothing to write.
    pub written_bytes: u64,
    /// Epoch of the base that restoring starts from, if there is one.
    pub base: Option<Epoch>,
}

/// All tables of one operator subtask, in the order of their specs.
///
/// An operator gets it restored to the last committed epoch and gives it back for the commit at the end of each epoch.
#[derive(Debug)]
pub struct OperatorState {
    tables: Vec<Table>,
    /// What a restored checkpoint calls the columns of the values, by table.
    value_texts: Vec<Option<String>>,
    durable: Option<Durable>,
}

impl OperatorState {
    /// Empty tables in memory that nothing makes durable: for tests of operators and queries without a checkpoint.
    pub fn in_memory(specs: &[TableSpec]) -> Self {
        Self {
            tables: specs.iter().map(Table::new).collect(),
            value_texts: vec![None; specs.len()],
            durable: None,
        }
    }

    /// Empty tables of the subtask that owns `key_groups`; commits make them durable.
    ///
    /// # Errors
    /// None today; those of opening local files may come.
    pub fn create(
        config: StateConfig,
        specs: &[TableSpec],
        key_groups: Range<u32>,
    ) -> Result<Self> {
        Ok(Self {
            durable: Some(Durable::new(config, key_groups)),
            ..Self::in_memory(specs)
        })
    }

    /// Makes the state at the end of `epoch` durable and ends the epoch: slots are void. Returns what the manifest is to name:
    /// the same as before if nothing changed, nothing if there is no state yet or nothing is made durable.
    ///
    /// Copies of large state go into the checkpoint in the background, which takes a tokio runtime around the commit.
    ///
    /// # Errors
    /// Of the checkpoint location and of the files. After an error the state cannot be used any more: restore it.
    pub async fn commit(&mut self, epoch: Epoch) -> Result<Option<SnapshotRef>> {
        let Some(durable) = &mut self.durable else {
            end_epoch(&mut self.tables)?;
            return Ok(None);
        };
        durable.commit(&mut self.tables, epoch).await
    }

    /// Waits until what is being copied into the checkpoint in the background has arrived or failed. Nothing needs that but who
    /// wants to measure or to test.
    pub async fn settle(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.take_up_base(true).await;
        }
    }

    /// The table of this index of the specs.
    ///
    /// # Panics
    /// When there is no such table: the operator declared its tables itself.
    pub fn table(&mut self, index: usize) -> &mut Table {
        &mut self.tables[index]
    }

    /// All tables, to hold several at once.
    pub fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }

    /// What the checkpoint this state was restored from calls the columns of the values of a table, if it differs from what the
    /// program declares: the operator migrates ([`Table::rewrite`]) or refuses.
    #[must_use]
    pub fn stored_value_text(&self, table: usize) -> Option<&str> {
        self.value_texts.get(table)?.as_deref()
    }

    /// Counters of all tables together.
    pub fn stats(&self) -> StateStats {
        let mut total = StateStats::default();
        for TableStats {
            rows,
            updated,
            removed,
            memory_bytes,
        } in self.tables.iter().map(Table::stats)
        {
            total.rows += rows;
            total.updated += updated;
            total.removed += removed;
            total.memory_bytes += memory_bytes;
        }
        if let Some(durable) = &self.durable {
            total.written_bytes = durable.written;
            total.files_bytes = durable.files_bytes();
            total.base = durable.anchor.as_ref().map(|anchor| anchor.epoch);
        }
        total
    }
}

#[cfg(test)]
mod tests;
