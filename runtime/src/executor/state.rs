//! What the stateful operators did in an epoch, for progress.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Executor, OpenEpoch, StatefulSlot};
use crate::chain::StateReport;
use crate::progress::StateOperatorProgress;

impl Executor {
    /// One entry per stateful operator, the one nearest to the sink first.
    pub(super) fn state_operators(&self, open: &OpenEpoch) -> Vec<StateOperatorProgress> {
        let reports: Vec<&StateReport> = open.acks.iter().flat_map(|ack| &ack.states).collect();
        let slots = self.fixed.stateful.iter();
        let told = slots.map(|slot| {
            let late = open.acks.iter().flat_map(|ack| &ack.late);
            let fed = late.filter(|(uid, _)| slot.feeders.contains(uid));
            let mut told = state_operator(slot, &reports);
            told.num_rows_dropped_by_watermark += fed.map(|(_, late)| late).sum::<u64>();
            told
        });
        told.collect()
    }
}

fn state_operator(slot: &StatefulSlot, reports: &[&StateReport]) -> StateOperatorProgress {
    let own = || reports.iter().filter(|report| report.uid == slot.uid);
    let sum = |of: fn(&StateReport) -> u64| own().map(|report| of(report)).sum::<u64>();
    let millis = |of: fn(&StateReport) -> Duration| {
        let total: Duration = own().map(|report| of(report)).sum();
        u64::try_from(total.as_millis()).unwrap_or(u64::MAX)
    };
    let mut custom_metrics = BTreeMap::from([
        (
            "checkpointBytesWritten".to_owned(),
            sum(|report| report.written_bytes),
        ),
        (
            "localFilesBytes".to_owned(),
            sum(|report| report.stats.files_bytes),
        ),
    ]);
    if slot.name.starts_with("dedupe") {
        custom_metrics.insert(
            "numDroppedDuplicateRows".to_owned(),
            sum(|report| report.duplicate),
        );
    }
    StateOperatorProgress {
        operator_name: slot.name.clone(),
        num_rows_total: sum(|report| report.stats.rows),
        num_rows_updated: sum(|report| report.stats.updated),
        all_updates_time_ms: millis(|report| report.update),
        num_rows_removed: sum(|report| report.stats.removed),
        all_removals_time_ms: millis(|report| report.removal),
        commit_time_ms: millis(|report| report.commit),
        memory_used_bytes: sum(|report| report.stats.memory_bytes),
        num_rows_dropped_by_watermark: sum(|report| report.late),
        num_shuffle_partitions: slot.subtasks,
        num_state_store_instances: slot.subtasks * slot.tables,
        custom_metrics,
    }
}

#[cfg(test)]
mod tests {
    use weir_state::StateStats;

    use super::*;

    fn report(uid: &str, rows: u64) -> StateReport {
        StateReport {
            uid: uid.to_owned(),
            stats: StateStats {
                rows,
                updated: 2,
                removed: 1,
                memory_bytes: 10,
                ..StateStats::default()
            },
            late: 3,
            duplicate: 4,
            update: Duration::from_micros(700),
            removal: Duration::from_millis(1),
            commit: Duration::from_millis(5),
            written_bytes: 7,
        }
    }

    #[test]
    fn subtasks_of_one_operator_are_added_up_and_times_are_rounded_once() {
        let slot = StatefulSlot {
            uid: "dedup".to_owned(),
            name: "dedupe".to_owned(),
            feeders: Vec::new(),
            tables: 2,
            subtasks: 3,
        };
        let reports = [report("dedup", 5), report("other", 100), report("dedup", 6)];
        let progress = state_operator(&slot, &reports.iter().collect::<Vec<_>>());
        assert_eq!(
            (
                progress.num_rows_total,
                progress.num_rows_updated,
                progress.num_rows_removed
            ),
            (11, 4, 2)
        );
        assert_eq!(
            (progress.all_updates_time_ms, progress.commit_time_ms),
            (1, 10)
        );
        assert_eq!(progress.num_rows_dropped_by_watermark, 6);
        assert_eq!(progress.custom_metrics["numDroppedDuplicateRows"], 8);
        assert_eq!(progress.custom_metrics["checkpointBytesWritten"], 14);
        assert_eq!(
            (
                progress.num_shuffle_partitions,
                progress.num_state_store_instances
            ),
            (3, 6)
        );
    }
}
