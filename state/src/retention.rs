//! Which old epochs go, and which files with them.
//!
//! [`doomed`] is pure; [`CheckpointLog::prune`] carries it out, oldest first and manifests before the files
//! they name, so that a crash in between leaves at worst files nobody names.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::epoch::Epoch;
use crate::error::Result;
use crate::log::CheckpointLog;
use crate::recovery::LogFile;
use crate::snapshot;

/// How much of the past is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest committed epochs to keep whole: plan, manifest and snapshots (Spark's
    /// `minBatchesToRetain`).
    pub min_epochs: NonZeroU64,
}

impl Default for Retention {
    /// 100 epochs, as Spark.
    fn default() -> Self {
        Self {
            min_epochs: NonZeroU64::new(100).expect("invariant: 100 is not 0"),
        }
    }
}

/// What [`CheckpointLog::prune`] deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Epochs whose plan went.
    pub plans: Vec<Epoch>,
    /// Epochs whose manifest went.
    pub manifests: Vec<Epoch>,
    /// Snapshot files that went, by name, sorted.
    pub files: Vec<String>,
}

/// What a checkpoint holds, as far as pruning needs to know.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Epochs that have a plan.
    pub(crate) plans: Vec<Epoch>,
    /// Epochs that have a manifest, with the files each names.
    pub(crate) manifests: BTreeMap<Epoch, BTreeSet<String>>,
    /// Snapshot files found in the directory; may be left empty.
    pub(crate) found: Vec<String>,
}

/// Decides what goes. Kept are the newest `min_epochs` manifests with everything they name, the plans from the
/// oldest kept manifest on, and all files of epochs not committed yet.
pub(crate) fn doomed(inventory: &Inventory, retention: Retention) -> Pruned {
    let Some((&newest, _)) = inventory.manifests.last_key_value() else {
        return Pruned::default();
    };
    let keep_from = Epoch(newest.0.saturating_sub(retention.min_epochs.get() - 1));
    let kept: BTreeSet<&String> = inventory
        .manifests
        .range(keep_from..)
        .flat_map(|(_, files)| files)
        .collect();
    let named_by_old = inventory
        .manifests
        .range(..keep_from)
        .flat_map(|(_, files)| files);
    let never_committed = inventory
        .found
        .iter()
        .filter(|file| snapshot::epoch_of(file).is_some_and(|epoch| epoch <= newest));
    let files: BTreeSet<&String> = named_by_old
        .chain(never_committed)
        .filter(|file| !kept.contains(file))
        .collect();
    Pruned {
        plans: inventory
            .plans
            .iter()
            .copied()
            .filter(|epoch| *epoch < keep_from)
            .collect(),
        manifests: inventory
            .manifests
            .range(..keep_from)
            .map(|(epoch, _)| *epoch)
            .collect(),
        files: files.into_iter().cloned().collect(),
    }
}

impl CheckpointLog {
    /// Deletes what is older than `retention` keeps. The first call of this log also deletes snapshots that no
    /// manifest names, left by epochs that failed. Call it after a commit, as the holder of the lease.
    ///
    /// # Errors
    /// [`crate::StateError::Damaged`] when a manifest cannot be read (then nothing is deleted), the storage's own.
    pub async fn prune(&self, retention: Retention) -> Result<Pruned> {
        let sweep = !self.swept.swap(true, Ordering::Relaxed);
        let inventory = self.inventory(sweep).await?;
        let doomed = doomed(&inventory, retention);
        for epoch in &doomed.manifests {
            self.delete(&LogFile::Manifest(*epoch).name()).await?;
        }
        for epoch in &doomed.plans {
            self.delete(&LogFile::Plan(*epoch).name()).await?;
        }
        for file in &doomed.files {
            self.delete(file).await?;
        }
        let mut references = self
            .references
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        references.retain(|epoch, _| !doomed.manifests.contains(epoch));
        drop(references);
        Ok(doomed)
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.location().delete(name).await
    }

    async fn inventory(&self, sweep: bool) -> Result<Inventory> {
        let epochs = self.list_epochs().await?;
        for epoch in &epochs.manifests {
            if !self.knows(*epoch)
                && let Some(manifest) = self.read_manifest(*epoch).await?
            {
                self.remember_references(&manifest);
            }
        }
        let known = self
            .references
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let manifests = epochs
            .manifests
            .iter()
            .filter_map(|epoch| Some((*epoch, known.get(epoch)?.clone())))
            .collect();
        Ok(Inventory {
            plans: epochs.plans,
            manifests,
            found: if sweep {
                self.snapshot_files().await?
            } else {
                Vec::new()
            },
        })
    }

    fn knows(&self, epoch: Epoch) -> bool {
        self.references
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&epoch)
    }

    /// Every file under `state/<operator>/<subtask>/`.
    async fn snapshot_files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for operator in self.location().list_dirs(snapshot::DIR).await? {
            let operator = format!("{}/{operator}", snapshot::DIR);
            for subtask in self.location().list_dirs(&operator).await? {
                let dir = format!("{operator}/{subtask}");
                let found = self.location().list(&dir).await?;
                files.extend(found.iter().map(|file| format!("{dir}/{}", file.name)));
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests;
