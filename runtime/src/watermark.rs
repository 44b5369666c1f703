//! The query's watermark: a pure function of the event times seen through an epoch (invariant E7).
//!
//! Each operator that defines a watermark contributes `largest event time - delay`; the policy merges them; the result never
//! goes back and is what the next plan fixes. Only the merged value is durable: after a restart the operators' own values start
//! empty (as Spark's do).

use std::collections::BTreeMap;

use crate::operator::EventTimeStats;

/// How several watermarks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatermarkPolicy {
    /// The slowest decides; an operator that never saw an event time holds it at 1970.
    #[default]
    Min,
    /// The fastest decides.
    Max,
}

/// Merges event times into the watermark of the next epoch.
#[derive(Debug, Clone)]
pub struct WatermarkTracker {
    policy: WatermarkPolicy,
    operators: BTreeMap<String, i64>,
    current_ms: i64,
}

impl WatermarkTracker {
    /// A tracker for the operators that define watermarks, going on from a durable value (0 for a new query).
    pub fn new(
        policy: WatermarkPolicy,
        operators: impl IntoIterator<Item = String>,
        current_ms: i64,
    ) -> Self {
        Self {
            policy,
            operators: operators.into_iter().map(|uid| (uid, 0)).collect(),
            current_ms,
        }
    }

    /// Takes the event times of one epoch, by operator id, over all subtasks.
    pub fn observe(&mut self, uid: &str, stats: &EventTimeStats) {
        let candidate = stats.max_ms.saturating_sub(stats.delay_ms);
        if let Some(own) = self.operators.get_mut(uid) {
            *own = (*own).max(candidate);
        }
    }

    /// The watermark for the next epoch, in milliseconds since 1970.
    pub fn advance(&mut self) -> i64 {
        let values = self.operators.values().copied();
        let merged = match self.policy {
            WatermarkPolicy::Min => values.min(),
            WatermarkPolicy::Max => values.max(),
        };
        self.current_ms = self.current_ms.max(merged.unwrap_or(0));
        self.current_ms
    }
}

/// Event times of several subtasks as one.
pub fn merge_event_times(a: EventTimeStats, b: EventTimeStats) -> EventTimeStats {
    EventTimeStats {
        min_ms: a.min_ms.min(b.min_ms),
        max_ms: a.max_ms.max(b.max_ms),
        sum_ms: a.sum_ms + b.sum_ms,
        count: a.count + b.count,
        delay_ms: a.delay_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(max_ms: i64) -> EventTimeStats {
        EventTimeStats {
            min_ms: 0,
            max_ms,
            sum_ms: 0.0,
            count: 1,
            delay_ms: 10,
        }
    }

    #[test]
    fn e7_watermark_never_goes_back() {
        let mut tracker = WatermarkTracker::new(WatermarkPolicy::Min, ["w".to_owned()], 0);
        tracker.observe("w", &seen(100));
        assert_eq!(tracker.advance(), 90);
        tracker.observe("w", &seen(50));
        assert_eq!(tracker.advance(), 90);
    }

    #[test]
    fn e7_watermark_goes_on_from_the_durable_value_after_a_restart() {
        let mut tracker = WatermarkTracker::new(WatermarkPolicy::Min, ["w".to_owned()], 90);
        assert_eq!(tracker.advance(), 90);
        tracker.observe("w", &seen(95));
        assert_eq!(tracker.advance(), 90);
    }

    #[test]
    fn policies_let_the_slowest_or_the_fastest_decide() {
        for (policy, expected) in [(WatermarkPolicy::Min, 0), (WatermarkPolicy::Max, 90)] {
            let mut tracker = WatermarkTracker::new(policy, ["a".to_owned(), "b".to_owned()], 0);
            tracker.observe("a", &seen(100));
            assert_eq!(tracker.advance(), expected, "{policy:?}");
        }
    }
}
