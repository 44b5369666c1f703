//! What a stateful operator did in an epoch, for progress.

use std::time::Duration;

use weir_state::StateStats;

use super::Link;
use crate::operator::OperatorCounts;

/// What was reported before, so that the next report tells of one epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reported {
    counts: OperatorCounts,
    removal: Duration,
}

/// One stateful operator subtask in one epoch.
#[derive(Debug, Clone)]
pub(crate) struct StateReport {
    pub(crate) uid: String,
    pub(crate) stats: StateStats,
    /// Input rows dropped as late.
    pub(crate) late: u64,
    /// Input rows dropped as duplicates.
    pub(crate) duplicate: u64,
    /// Time in the operator, without `removal`.
    pub(crate) update: Duration,
    /// Time spent on removals, as far as the operator tells it apart.
    pub(crate) removal: Duration,
    pub(crate) commit: Duration,
    /// Bytes the commit wrote into the checkpoint.
    pub(crate) written_bytes: u64,
}

impl Link {
    /// The report of the epoch that just became durable in `commit`; `stats` are those before.
    pub(crate) fn report(
        &mut self,
        stats: StateStats,
        commit: Duration,
        written_bytes: u64,
    ) -> StateReport {
        let metrics = &self.context.metrics;
        metrics.set_state(&stats);
        let (counts, removal) = (metrics.snapshot(), metrics.removal_time());
        let before = std::mem::replace(&mut self.reported, Reported { counts, removal });
        let removal = removal.saturating_sub(before.removal);
        let busy = std::mem::take(&mut self.busy);
        StateReport {
            uid: self.context.uid.clone(),
            stats,
            late: counts.late.saturating_sub(before.counts.late),
            duplicate: counts.duplicate.saturating_sub(before.counts.duplicate),
            update: busy.saturating_sub(removal),
            removal,
            commit,
            written_bytes,
        }
    }

    /// Rows the operator dropped as late since it was last asked; for operators without tables, which have no report.
    pub(super) fn take_late(&mut self) -> u64 {
        let counts = self.context.metrics.snapshot();
        let before = std::mem::replace(&mut self.reported.counts, counts);
        counts.late.saturating_sub(before.late)
    }
}
