//! [`CheckpointLog`]: metadata, plans and manifests by their types, and the executor of recovery.
//!
//! Publishing is create-if-absent: whoever finds the file there has met another writer and stops
//! (invariant E6). Nothing here overwrites a plan or a manifest.

mod files;

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Serialize;

use self::files::to_file;
use crate::envelope;
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::fingerprint::{Change, Fingerprint, check_compatible};
use crate::lease;
use crate::location::{CheckpointLocation, CreateOutcome};
use crate::manifest::Manifest;
use crate::metadata::{FORMAT_VERSION, Metadata};
use crate::plan::Plan;
use crate::recovery::{
    Decision, Facts, LogFile, REMEDY_MANIFEST, REMEDY_METADATA, REMEDY_PLAN, Recovery,
    TornManifest, decide,
};
use crate::retention::{Known, Reach};

const METADATA: &str = "metadata";
const PLANS: &str = "offsets";
const MANIFESTS: &str = "commits";
/// Names a checkpoint has at its top, apart from the two logs.
const KNOWN_FILES: [&str; 2] = [METADATA, lease::FILE];
const KNOWN_DIRS: [&str; 5] = [PLANS, MANIFESTS, "sources", "state", "lost+found"];

/// The epochs that have a plan and those that have a manifest, each ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEpochs {
    /// Epochs under `offsets`.
    pub plans: Vec<Epoch>,
    /// Epochs under `commits`.
    pub manifests: Vec<Epoch>,
}

/// Typed access to the logs of one checkpoint.
#[derive(Debug)]
pub struct CheckpointLog {
    location: CheckpointLocation,
    /// What each known manifest refers to, so that pruning need not read all of them every epoch.
    pub(crate) references: Mutex<Known>,
    /// Whether this log has already looked for snapshots of epochs that never were committed.
    pub(crate) swept: std::sync::atomic::AtomicBool,
}

impl CheckpointLog {
    /// The logs at `location`; touches nothing.
    #[must_use]
    pub fn new(location: CheckpointLocation) -> Self {
        Self {
            location,
            references: Mutex::default(),
            swept: false.into(),
        }
    }

    /// Where the logs are.
    #[must_use]
    pub fn location(&self) -> &CheckpointLocation {
        &self.location
    }

    /// The metadata, `None` on a location that was never used.
    ///
    /// # Errors
    /// [`StateError::Damaged`], [`StateError::UnsupportedVersion`], the storage's own.
    pub async fn load_metadata(&self) -> Result<Option<Metadata>> {
        let found = self
            .read::<Metadata>(METADATA, None, REMEDY_METADATA)
            .await?;
        let Some(content) = found else {
            return Ok(None);
        };
        let metadata = self.whole(METADATA, None, content, REMEDY_METADATA)?;
        if metadata.format_version > FORMAT_VERSION {
            return Err(StateError::UnsupportedVersion {
                path: self.location.display_of(METADATA),
                found: metadata.format_version,
                max: FORMAT_VERSION,
            });
        }
        Ok(Some(metadata))
    }

    /// Writes the metadata of a new query.
    ///
    /// # Errors
    /// [`StateError::ConcurrentWriter`] when it is there already, the storage's own.
    pub async fn create_metadata(&self, metadata: &Metadata) -> Result<()> {
        self.publish(METADATA, None, None, metadata).await
    }

    /// Replaces the metadata: after a compatible change of operators, same id.
    ///
    /// # Errors
    /// The storage's own.
    pub async fn update_metadata(&self, metadata: &Metadata) -> Result<()> {
        self.location
            .put(METADATA, to_file(METADATA, metadata)?)
            .await
    }

    /// Compares the operators in `metadata` with those of the program about to run.
    ///
    /// # Errors
    /// [`StateError::Incompatible`] with every problem.
    pub fn check_operators(
        &self,
        metadata: &Metadata,
        operators: &BTreeMap<String, Fingerprint>,
    ) -> Result<Vec<Change>> {
        check_compatible(&metadata.operators, operators).map_err(|source| {
            StateError::Incompatible {
                path: self.location.display(),
                source,
            }
        })
    }

    /// Publishes the plan of an epoch (invariant E1).
    ///
    /// # Errors
    /// [`StateError::ConcurrentWriter`] when the epoch has a plan, the storage's own. After any error the
    /// plan may or may not be there: end the run and recover.
    pub async fn publish_plan(&self, plan: &Plan) -> Result<()> {
        let name = LogFile::Plan(plan.epoch).name();
        self.publish(&name, Some(plan.epoch), Some(plan.generation), plan)
            .await
    }

    /// Publishes the manifest of an epoch: the commit point (invariant E2).
    ///
    /// # Errors
    /// [`StateError::ConcurrentWriter`] when the epoch has a manifest, the storage's own. After any error the
    /// manifest may or may not be there: end the run and recover.
    pub async fn publish_manifest(&self, manifest: &Manifest) -> Result<()> {
        let name = LogFile::Manifest(manifest.epoch).name();
        let generation = Some(manifest.generation);
        self.publish(&name, Some(manifest.epoch), generation, manifest)
            .await?;
        self.remember_references(manifest);
        Ok(())
    }

    /// The plan of `epoch`, `None` if there is none.
    ///
    /// # Errors
    /// [`StateError::Damaged`], [`StateError::UnsupportedVersion`], the storage's own.
    pub async fn read_plan(&self, epoch: Epoch) -> Result<Option<Plan>> {
        let name = LogFile::Plan(epoch).name();
        match self.read_plan_content(epoch).await? {
            None => Ok(None),
            Some(content) => self
                .whole(&name, Some(epoch), content, REMEDY_PLAN)
                .map(Some),
        }
    }

    /// The manifest of `epoch`, `None` if there is none.
    ///
    /// # Errors
    /// [`StateError::Damaged`], [`StateError::UnsupportedVersion`], the storage's own.
    pub async fn read_manifest(&self, epoch: Epoch) -> Result<Option<Manifest>> {
        let name = LogFile::Manifest(epoch).name();
        match self.read_manifest_content(epoch).await? {
            None => Ok(None),
            Some(content) => self
                .whole(&name, Some(epoch), content, REMEDY_MANIFEST)
                .map(Some),
        }
    }

    /// The epochs of both logs. Names that are not numbers are ignored.
    ///
    /// # Errors
    /// The storage's own.
    pub async fn list_epochs(&self) -> Result<LogEpochs> {
        Ok(LogEpochs {
            plans: self.list_log(PLANS).await?,
            manifests: self.list_log(MANIFESTS).await?,
        })
    }

    /// Reads the checkpoint and decides how to start. A torn newest plan without manifest is deleted with a
    /// warning. Call it as the holder of the lease.
    ///
    /// # Errors
    /// See [`CheckpointLog::recover_with`].
    pub async fn recover(&self) -> Result<Recovery> {
        self.recover_with(TornManifest::Refuse).await
    }

    /// Like [`CheckpointLog::recover`], with a choice for a torn newest manifest.
    ///
    /// # Errors
    /// [`StateError::Damaged`] (manifest, plan of a committed epoch), [`StateError::Missing`] (a hole, a plan
    /// of a committed epoch, the metadata), [`StateError::LogsApart`], [`StateError::ForeignDirectory`],
    /// [`StateError::UnsupportedVersion`], the storage's own.
    pub async fn recover_with(&self, torn_manifest: TornManifest) -> Result<Recovery> {
        let mut facts = self.survey().await?;
        facts.torn_manifest = torn_manifest;
        loop {
            match decide(&facts)? {
                Decision::Read(file) => self.read_into(&mut facts, file).await?,
                Decision::Discard(file, reason) => discard(&mut facts, file, &reason),
                Decision::Done(recovery) => {
                    for file in &facts.discarded {
                        self.location.delete(&file.name()).await?;
                        self.location.sync(file.dir())?;
                    }
                    return Ok(recovery);
                }
            }
        }
    }

    /// Refuses a location that is neither empty nor a checkpoint; what the lease asks before it leaves a
    /// file there.
    pub(crate) async fn refuse_foreign(&self) -> Result<()> {
        let facts = self.survey().await?;
        if facts.metadata {
            return Ok(());
        }
        decide(&facts).map(|_| ())
    }

    /// Highest generation named by the newest plan and manifest, 0 if there are none or they are unreadable.
    pub(crate) async fn newest_generation(&self) -> Result<u64> {
        let epochs = self.list_epochs().await?;
        let mut newest = 0;
        if let Some(epoch) = epochs.plans.last()
            && let Ok(Some(plan)) = self.read_plan(*epoch).await
        {
            newest = newest.max(plan.generation);
        }
        if let Some(epoch) = epochs.manifests.last()
            && let Ok(Some(manifest)) = self.read_manifest(*epoch).await
        {
            newest = newest.max(manifest.generation);
        }
        Ok(newest)
    }

    pub(crate) fn remember_references(&self, manifest: &Manifest) {
        let files = manifest.files().map(str::to_string).collect();
        self.references
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .manifests
            .insert(manifest.epoch, (files, Reach::of(manifest)));
    }

    async fn survey(&self) -> Result<Facts> {
        let top = self.location.listing("").await?;
        let epochs = self.list_epochs().await?;
        let metadata = top.files.iter().any(|file| file.name == METADATA);
        let unknown_files = top.files.into_iter().map(|file| file.name);
        let foreign: Vec<String> = unknown_files
            .filter(|name| !KNOWN_FILES.contains(&name.as_str()))
            .chain(
                top.dirs
                    .into_iter()
                    .filter(|name| !KNOWN_DIRS.contains(&name.as_str())),
            )
            .collect();
        if metadata && !foreign.is_empty() {
            tracing::debug!(location = %self.location, names = ?foreign, "unknown names in the checkpoint ignored");
        }
        Ok(Facts {
            location: self.location.display(),
            metadata,
            other_data: !metadata
                && (self.has_any("sources").await? || self.has_any("state").await?),
            foreign,
            plans: epochs.plans,
            manifests: epochs.manifests,
            ..Facts::default()
        })
    }

    async fn has_any(&self, dir: &str) -> Result<bool> {
        let listing = self.location.listing(dir).await?;
        Ok(!listing.files.is_empty() || !listing.dirs.is_empty())
    }

    async fn list_log(&self, dir: &str) -> Result<Vec<Epoch>> {
        let files = self.location.list(dir).await?;
        let mut epochs: Vec<Epoch> = files
            .iter()
            .filter_map(|file| {
                let epoch = Epoch::from_file_name(&file.name);
                if epoch.is_none() {
                    tracing::debug!(location = %self.location, dir, name = %file.name, "unknown file ignored");
                }
                epoch
            })
            .collect();
        epochs.sort_unstable();
        Ok(epochs)
    }

    async fn read_into(&self, facts: &mut Facts, file: LogFile) -> Result<()> {
        let vanished = |epoch| StateError::Missing {
            path: self.location.display_of(&file.name()),
            epoch: Some(epoch),
            reason: "it was listed a moment ago".to_string(),
            remedy: "only one run may use a checkpoint: stop the other and start again",
        };
        match file {
            LogFile::Plan(epoch) => {
                let content = self.read_plan_content(epoch).await?;
                facts
                    .plans_read
                    .insert(epoch, content.ok_or_else(|| vanished(epoch))?);
            }
            LogFile::Manifest(epoch) => {
                let content = self.read_manifest_content(epoch).await?;
                facts
                    .manifests_read
                    .insert(epoch, content.ok_or_else(|| vanished(epoch))?);
            }
        }
        Ok(())
    }

    async fn publish<T: Serialize>(
        &self,
        name: &str,
        epoch: Option<Epoch>,
        generation: Option<u64>,
        value: &T,
    ) -> Result<()> {
        match self.location.create(name, to_file(name, value)?).await? {
            CreateOutcome::Created => Ok(()),
            CreateOutcome::AlreadyExists => Err(self.conflict(name, epoch, generation).await),
        }
    }

    async fn conflict(
        &self,
        name: &str,
        epoch: Option<Epoch>,
        generation: Option<u64>,
    ) -> StateError {
        StateError::ConcurrentWriter {
            path: self.location.display_of(name),
            epoch,
            ours: generation,
            theirs: self.generation_of(name).await,
            owner: lease::holder(&self.location).await.map(Box::new),
        }
    }

    async fn generation_of(&self, name: &str) -> Option<u64> {
        let file = self.location.get(name).await.ok().flatten()?;
        let body = envelope::decode_text(&file).ok()?;
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        value.get("generation")?.as_u64()
    }
}

fn discard(facts: &mut Facts, file: LogFile, reason: &str) {
    tracing::warn!(
        file = %format!("{}/{}", facts.location, file.name()),
        epoch = file.epoch().0,
        reason,
        "torn file of an epoch that was not committed is discarded, the epoch runs again"
    );
    match file {
        LogFile::Plan(epoch) => facts.plans.retain(|e| *e != epoch),
        LogFile::Manifest(epoch) => facts.manifests.retain(|e| *e != epoch),
    }
    facts.discarded.push(file);
}

#[cfg(test)]
mod tests;
