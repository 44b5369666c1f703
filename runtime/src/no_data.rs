//! Whether an epoch without new rows runs: a pure function, so that its many conditions stand in one place.

use crate::trigger::Trigger;

/// What the decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDataFacts {
    /// The user wants such epochs (`spark.sql.streaming.noDataMicroBatches.enabled`).
    pub enabled: bool,
    /// Some operator has work to do when the watermark moves.
    pub wanted: bool,
    /// When epochs are planned.
    pub trigger: Trigger,
    /// Watermark the last committed epoch ran with, of this run or an earlier one; `None` if there was none.
    pub last_watermark_ms: Option<i64>,
    /// Watermark the next epoch would run with.
    pub next_watermark_ms: i64,
}

/// True if no rows wait but the watermark has moved past the one the last epoch ran with, so that state can be closed now.
/// The trigger `once` runs the rows that are there and nothing else.
pub fn no_data_epoch_is_due(facts: &NoDataFacts) -> bool {
    let moved = facts
        .last_watermark_ms
        .is_some_and(|last_ms| facts.next_watermark_ms > last_ms);
    facts.enabled && facts.wanted && facts.trigger != Trigger::Once && moved
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DUE: NoDataFacts = NoDataFacts {
        enabled: true,
        wanted: true,
        trigger: Trigger::Default,
        last_watermark_ms: Some(5),
        next_watermark_ms: 6,
    };

    #[test]
    fn moved_watermark_makes_an_epoch_with_every_trigger_but_once() {
        let interval = Trigger::ProcessingTime(Duration::from_secs(1));
        for (trigger, due) in [
            (Trigger::Default, true),
            (interval, true),
            (Trigger::AvailableNow, true),
            (Trigger::Once, false),
        ] {
            assert_eq!(
                no_data_epoch_is_due(&NoDataFacts { trigger, ..DUE }),
                due,
                "{trigger:?}"
            );
        }
    }

    #[test]
    fn nothing_is_due_while_the_watermark_stands_or_before_the_first_epoch() {
        for last_watermark_ms in [Some(6), Some(7), None] {
            assert!(!no_data_epoch_is_due(&NoDataFacts {
                last_watermark_ms,
                ..DUE
            }));
        }
    }

    #[test]
    fn nothing_is_due_if_nobody_wants_it() {
        assert!(!no_data_epoch_is_due(&NoDataFacts {
            enabled: false,
            ..DUE
        }));
        assert!(!no_data_epoch_is_due(&NoDataFacts {
            wanted: false,
            ..DUE
        }));
    }
}
