//! What a checkpoint means after a crash: a pure function from what is in the directory to what to do.
//!
//! [`decide`] looks at the names of the logs and at the files read so far and answers with the next thing
//! to do: read one more file, set one torn file aside, or the final [`Recovery`]. The executor in
//! [`crate::log`] only carries that out, and deletes only after the final answer is known.

use std::collections::BTreeMap;

use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::manifest::Manifest;
use crate::plan::Plan;

pub(crate) const REMEDY_PLAN: &str =
    "restore it from a copy of the checkpoint, or start with a new checkpoint";
pub(crate) const REMEDY_MANIFEST: &str = "restore it from a copy of the checkpoint; if it is the newest one, \
     deleting it makes its epoch run again from its plan, which sinks that remember epochs take once";
pub(crate) const REMEDY_METADATA: &str = "restore it from a copy of the checkpoint, or start with a new \
     checkpoint; checkpoints of other systems cannot be continued";

/// What to do with a newest manifest that is torn while its plan and the manifest before it are whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TornManifest {
    /// Refuse to start (invariant E10): atomic writes do not tear, so the storage has lost data.
    #[default]
    Refuse,
    /// Set it aside with a warning and run its epoch again from its plan, as if it had never been committed.
    /// Exactly-once sinks answer "already committed"; at-least-once sinks get the epoch twice.
    RunAgain,
}

/// How a query starts on a checkpoint.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one per start of a query")]
pub enum Recovery {
    /// Nothing is there: the first start. The caller creates the metadata.
    Fresh,
    /// The query has run before.
    Resume {
        /// The newest manifest: the state to restore. `None` when no epoch was ever committed.
        last_manifest: Option<Manifest>,
        /// The plan of `last_manifest`'s epoch: where each source stands.
        last_plan: Option<Plan>,
        /// An epoch that was planned but not committed: it runs first, from this plan.
        replay: Option<Plan>,
        /// The epoch that runs next: `replay`'s if there is one, else the first one not planned yet.
        next_epoch: Epoch,
        /// Torn files that were discarded, by name.
        discarded: Vec<String>,
    },
}

impl Recovery {
    /// The epoch that runs next.
    #[must_use]
    pub fn next_epoch(&self) -> Epoch {
        match self {
            Recovery::Fresh => Epoch::FIRST,
            Recovery::Resume { next_epoch, .. } => *next_epoch,
        }
    }

    /// The newest epoch that has a plan; what [`crate::SourceLog::load`] wants to know.
    #[must_use]
    pub fn newest_planned(&self) -> Option<Epoch> {
        match self {
            Recovery::Fresh => None,
            Recovery::Resume {
                replay: Some(plan), ..
            } => Some(plan.epoch),
            Recovery::Resume { next_epoch, .. } => next_epoch.previous(),
        }
    }
}

/// One file of the two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFile {
    Plan(Epoch),
    Manifest(Epoch),
}

impl LogFile {
    pub(crate) fn name(self) -> String {
        format!("{}/{}", self.dir(), self.epoch())
    }

    pub(crate) fn dir(self) -> &'static str {
        match self {
            LogFile::Plan(_) => "offsets",
            LogFile::Manifest(_) => "commits",
        }
    }

    pub(crate) fn epoch(self) -> Epoch {
        match self {
            LogFile::Plan(epoch) | LogFile::Manifest(epoch) => epoch,
        }
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content<T> {
    Whole(T),
    /// Torn, with the reason.
    Torn(String),
}

/// What is known about a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The location, for messages.
    pub(crate) location: String,
    /// `metadata` is there.
    pub(crate) metadata: bool,
    /// Something lies under `sources` or `state`.
    pub(crate) other_data: bool,
    /// Names directly in the location that no checkpoint has.
    pub(crate) foreign: Vec<String>,
    /// Epochs under `offsets`, ascending.
    pub(crate) plans: Vec<Epoch>,
    /// Epochs under `commits`, ascending.
    pub(crate) manifests: Vec<Epoch>,
    /// Plans read so far.
    pub(crate) plans_read: BTreeMap<Epoch, Content<Plan>>,
    /// Manifests read so far.
    pub(crate) manifests_read: BTreeMap<Epoch, Content<Manifest>>,
    /// Files set aside so far.
    pub(crate) discarded: Vec<LogFile>,
    pub(crate) torn_manifest: TornManifest,
}

/// The next thing to do.
#[derive(Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub(crate) enum Decision {
    Read(LogFile),
    /// Set the file aside and decide again without it.
    Discard(LogFile, String),
    Done(Recovery),
}

/// Decides; see the module head.
pub(crate) fn decide(facts: &Facts) -> Result<Decision> {
    if !facts.metadata {
        return facts.decide_without_metadata();
    }
    facts.check_holes(LogFile::Plan, &facts.plans)?;
    facts.check_holes(LogFile::Manifest, &facts.manifests)?;
    let newest_plan = facts.plans.last().copied();
    let newest_manifest = facts.manifests.last().copied();
    facts.check_ends(newest_plan, newest_manifest)?;

    let last_manifest = match newest_manifest {
        None => None,
        Some(epoch) => match facts.manifests_read.get(&epoch) {
            None => return Ok(Decision::Read(LogFile::Manifest(epoch))),
            Some(Content::Torn(reason)) => return facts.decide_torn_manifest(epoch, reason),
            Some(Content::Whole(manifest)) => Some(manifest.clone()),
        },
    };
    let replay = match newest_plan.filter(|_| newest_plan > newest_manifest) {
        None => None,
        Some(epoch) => match facts.plans_read.get(&epoch) {
            None => return Ok(Decision::Read(LogFile::Plan(epoch))),
            Some(Content::Torn(reason)) => return facts.decide_torn_plan(epoch, reason),
            Some(Content::Whole(plan)) => Some(plan.clone()),
        },
    };
    let last_plan = match newest_manifest {
        None => None,
        Some(epoch) => match facts.plans_read.get(&epoch) {
            None => return Ok(Decision::Read(LogFile::Plan(epoch))),
            Some(Content::Torn(reason)) => {
                return Err(facts.damaged(LogFile::Plan(epoch), reason, REMEDY_PLAN));
            }
            Some(Content::Whole(plan)) => Some(plan.clone()),
        },
    };
    Ok(Decision::Done(Recovery::Resume {
        next_epoch: newest_manifest.map_or(Epoch::FIRST, Epoch::next),
        last_manifest,
        last_plan,
        replay,
        discarded: facts.discarded.iter().map(|file| file.name()).collect(),
    }))
}

impl Facts {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.location.trim_end_matches('/'))
    }

    fn damaged(&self, file: LogFile, reason: &str, remedy: &'static str) -> StateError {
        StateError::Damaged {
            path: self.path(&file.name()),
            epoch: Some(file.epoch()),
            reason: reason.to_string(),
            remedy,
        }
    }

    fn missing(&self, file: LogFile, reason: String, remedy: &'static str) -> StateError {
        StateError::Missing {
            path: self.path(&file.name()),
            epoch: Some(file.epoch()),
            reason,
            remedy,
        }
    }

    fn decide_without_metadata(&self) -> Result<Decision> {
        if self.other_data || !self.plans.is_empty() || !self.manifests.is_empty() {
            return Err(StateError::Missing {
                path: self.path("metadata"),
                epoch: None,
                reason: "the location holds logs or state of a query that has run before"
                    .to_string(),
                remedy: REMEDY_METADATA,
            });
        }
        if !self.foreign.is_empty() {
            return Err(StateError::ForeignDirectory {
                path: self.location.clone(),
                found: self.foreign.iter().take(5).cloned().collect(),
            });
        }
        Ok(Decision::Done(Recovery::Fresh))
    }

    fn check_holes(&self, file: fn(Epoch) -> LogFile, epochs: &[Epoch]) -> Result<()> {
        let hole = epochs.windows(2).find(|pair| pair[0].next() != pair[1]);
        hole.map_or(Ok(()), |pair| {
            let missing = file(pair[0].next());
            let reason = format!(
                "`{}` has epochs {} and {} but not the one after the first",
                missing.dir(),
                pair[0],
                pair[1]
            );
            Err(self.missing(missing, reason, REMEDY_PLAN))
        })
    }

    /// The newest plan is of the newest manifest's epoch or of the next one, and the former is there.
    fn check_ends(&self, newest_plan: Option<Epoch>, newest_manifest: Option<Epoch>) -> Result<()> {
        let open = newest_manifest.map_or(Epoch::FIRST, Epoch::next);
        if let Some(plan) = newest_plan.filter(|plan| *plan > open) {
            return Err(StateError::LogsApart {
                path: self.path(&LogFile::Plan(plan).name()),
                newest_plan: plan,
                newest_manifest,
            });
        }
        if let Some(epoch) = newest_manifest.filter(|epoch| !self.plans.contains(epoch)) {
            let reason = format!(
                "`{}` says that the epoch was committed, so it had a plan",
                LogFile::Manifest(epoch).name()
            );
            return Err(self.missing(LogFile::Plan(epoch), reason, REMEDY_PLAN));
        }
        Ok(())
    }

    /// A torn plan is as good as none, unless its epoch had a manifest: then its output may be visible and
    /// planning it anew would show other data under the same epoch (invariant E1).
    fn decide_torn_plan(&self, epoch: Epoch, reason: &str) -> Result<Decision> {
        let file = LogFile::Plan(epoch);
        if self.discarded.contains(&LogFile::Manifest(epoch)) {
            return Err(self.damaged(file, reason, REMEDY_PLAN));
        }
        Ok(Decision::Discard(file, reason.to_string()))
    }

    fn decide_torn_manifest(&self, epoch: Epoch, reason: &str) -> Result<Decision> {
        let file = LogFile::Manifest(epoch);
        let plan_is_newest = self.plans.last() == Some(&epoch);
        let restorable = match epoch.previous() {
            None => true,
            Some(before) => self.manifests.contains(&before) && self.plans.contains(&before),
        };
        let untouched = self.discarded.is_empty();
        if self.torn_manifest == TornManifest::RunAgain && plan_is_newest && restorable && untouched
        {
            return Ok(Decision::Discard(file, reason.to_string()));
        }
        Err(self.damaged(file, reason, REMEDY_MANIFEST))
    }
}

#[cfg(test)]
mod tests;
