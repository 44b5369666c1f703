//! Which old epochs go, and which files with them.
//!
//! [`doomed`] is pure; [`CheckpointLog::prune`] carries it out, oldest first and manifests before the files
//! they name, so that a crash in between leaves at worst files nobody names.
//!
//! State tables are chains of files: a manifest names the newest file of each and the oldest epoch the chain reaches back to. All
//! files of the operator since then stay, whoever wrote them. It also names the bases the chains start from; data files stay while
//! a base that stays names them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::base::{self, Base};
use crate::epoch::Epoch;
use crate::error::Result;
use crate::log::CheckpointLog;
use crate::manifest::Manifest;
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
    /// What each manifest reaches besides the files it names.
    pub(crate) reaches: BTreeMap<Epoch, Reach>,
}

/// What a manifest needs besides the files it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// By directory of an operator, the oldest epoch of its chains.
    pub(crate) since: BTreeMap<String, Epoch>,
    /// The bases the chains start from.
    pub(crate) bases: BTreeSet<String>,
    /// Generation that wrote the manifest.
    pub(crate) generation: u64,
}

impl Reach {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let mut reach = Self {
            generation: manifest.generation,
            ..Self::default()
        };
        for snapshot in manifest.snapshots.values().flatten() {
            if let (Some(since), Some(dir)) = (snapshot.since, operator_dir(&snapshot.file)) {
                let oldest = reach.since.entry(dir.to_string()).or_insert(since);
                *oldest = since.min(*oldest);
            }
            reach.bases.extend(snapshot.bases.iter().cloned());
        }
        reach
    }
}

/// `state/<operator>` of the name of a snapshot file.
fn operator_dir(file: &str) -> Option<&str> {
    let (subtask_dir, _) = file.rsplit_once('/')?;
    Some(subtask_dir.rsplit_once('/')?.0)
}

/// Decides what goes. Kept are the newest `min_epochs` manifests with everything they name and reach, the plans from the
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
    let mut since: BTreeMap<&str, Epoch> = BTreeMap::new();
    let kept_bases = inventory.bases(keep_from);
    let old_bases: BTreeSet<&String> = inventory
        .reaches
        .range(..keep_from)
        .flat_map(|(_, reach)| &reach.bases)
        .collect();
    for (_, reach) in inventory.reaches.range(keep_from..) {
        for (dir, epoch) in &reach.since {
            let oldest = since.entry(dir).or_insert(*epoch);
            *oldest = *epoch.min(oldest);
        }
    }
    let reached = |file: &str| {
        let oldest = operator_dir(file).and_then(|dir| since.get(dir));
        oldest.is_some_and(|oldest| snapshot::epoch_of(file).is_some_and(|e| e >= *oldest))
    };
    let named_by_old = inventory
        .manifests
        .range(..keep_from)
        .flat_map(|(_, files)| files)
        .chain(old_bases.iter().copied());
    // A base this generation has just finished is named by the next manifest.
    let generation = inventory.generation();
    let named_by_none = inventory.found.iter().filter(|file| {
        let of_files = snapshot::epoch_of(file).is_some_and(|epoch| epoch <= newest);
        of_files || base::generation_of(file).is_some_and(|found| found < generation)
    });
    let files: BTreeSet<&String> = named_by_old
        .chain(named_by_none)
        .filter(|file| !kept.contains(file) && !kept_bases.contains(file) && !reached(file))
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

/// What a log knows of files without listing them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// By manifest, the files it names and what else it reaches.
    pub(crate) manifests: BTreeMap<Epoch, (BTreeSet<String>, Reach)>,
    /// Files only manifests named that are gone, kept because a chain of a later one may need them.
    lingering: BTreeSet<String>,
    /// Data files by base.
    data: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    /// Brings it up to date after a prune.
    fn forget(&mut self, inventory: &Inventory, pruned: &Pruned) {
        let of_old = pruned
            .manifests
            .iter()
            .filter_map(|e| inventory.manifests.get(e));
        let candidates = of_old.flatten().chain(&inventory.found);
        self.lingering.extend(candidates.cloned());
        for file in &pruned.files {
            self.lingering.remove(file);
            self.data.remove(file);
        }
        self.manifests
            .retain(|epoch, _| !pruned.manifests.contains(epoch));
        let still_named: BTreeSet<&String> = self
            .manifests
            .values()
            .flat_map(|(files, _)| files)
            .collect();
        self.lingering.retain(|file| !still_named.contains(file));
    }
}

impl Inventory {
    /// The bases that manifests from this epoch on need.
    fn bases(&self, from: Epoch) -> BTreeSet<&String> {
        let kept = self.reaches.range(from..);
        kept.flat_map(|(_, reach)| &reach.bases).collect()
    }

    /// Generation of the newest manifest.
    fn generation(&self) -> u64 {
        let newest = self.reaches.last_key_value();
        newest.map_or(0, |(_, reach)| reach.generation)
    }
}

impl CheckpointLog {
    /// Deletes what is older than `retention` keeps. The first call of this log also deletes snapshots that no
    /// manifest names or reaches, left by epochs that failed. Call it after a commit, as the holder of the lease.
    ///
    /// # Errors
    /// [`crate::StateError::Damaged`] when a manifest cannot be read (then nothing is deleted), the storage's own.
    pub async fn prune(&self, retention: Retention) -> Result<Pruned> {
        let sweep = !self.swept.swap(true, Ordering::Relaxed);
        let inventory = self.inventory(sweep).await?;
        let mut doomed = doomed(&inventory, retention);
        let data = self.doomed_data(&inventory, &doomed).await?;
        doomed.files.splice(0..0, data);
        for epoch in &doomed.manifests {
            self.delete(&LogFile::Manifest(*epoch).name()).await?;
        }
        for epoch in &doomed.plans {
            self.delete(&LogFile::Plan(*epoch).name()).await?;
        }
        for file in &doomed.files {
            self.delete(file).await?;
        }
        self.known().forget(&inventory, &doomed);
        Ok(doomed)
    }

    /// Data files no base needs that stays: those of doomed bases, and those found that an earlier run left behind.
    async fn doomed_data(&self, inventory: &Inventory, pruned: &Pruned) -> Result<Vec<String>> {
        let is_base = |file: &&String| base::generation_of(file).is_some();
        let of_none = inventory.found.iter().filter(|file| {
            let generation = base::generation_of_data(file);
            generation.is_some_and(|found| found < inventory.generation())
        });
        let mut data: BTreeSet<String> = of_none.cloned().collect();
        let doomed: Vec<&String> = pruned.files.iter().filter(is_base).collect();
        if doomed.is_empty() && data.is_empty() {
            return Ok(Vec::new());
        }
        for base in doomed {
            data.extend(self.data_of(base).await?);
        }
        let kept = inventory.reaches.iter();
        let kept = kept.filter(|(epoch, _)| !pruned.manifests.contains(epoch));
        let named: BTreeSet<&String> = kept.flat_map(|(_, reach)| &reach.bases).collect();
        let finished = inventory.found.iter().filter(is_base);
        let finished = finished.filter(|base| !pruned.files.contains(base));
        for base in named.into_iter().chain(finished) {
            for file in self.data_of(base).await? {
                data.remove(&file);
            }
        }
        Ok(data.into_iter().collect())
    }

    /// The data files of a base; none if the base is gone.
    async fn data_of(&self, base: &str) -> Result<BTreeSet<String>> {
        if let Some(data) = self.known().data.get(base) {
            return Ok(data.clone());
        }
        let data = Base::data_of(self.location(), base).await?;
        self.known().data.insert(base.to_string(), data.clone());
        Ok(data)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.references
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
        let found = if sweep {
            self.snapshot_files().await?
        } else {
            Vec::new()
        };
        let known = self.known();
        let held = |epoch: &Epoch| Some((*epoch, known.manifests.get(epoch)?));
        let held: Vec<_> = epochs.manifests.iter().filter_map(held).collect();
        let pick =
            |(epoch, (files, _)): &(Epoch, &(BTreeSet<String>, Reach))| (*epoch, files.clone());
        Ok(Inventory {
            manifests: held.iter().map(pick).collect(),
            reaches: held
                .iter()
                .map(|(e, (_, reach))| (*e, reach.clone()))
                .collect(),
            found: found
                .into_iter()
                .chain(known.lingering.iter().cloned())
                .collect(),
            plans: epochs.plans,
        })
    }

    fn knows(&self, epoch: Epoch) -> bool {
        self.known().manifests.contains_key(&epoch)
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
                let dir = format!("{dir}/{}", base::DATA_DIR);
                let found = self.location().list(&dir).await?;
                files.extend(found.iter().map(|file| format!("{dir}/{}", file.name)));
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests;
