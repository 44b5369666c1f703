//! How event times become a watermark. The defaults are Spark's rules; every option beyond them is off.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_state::Plan;

const POLICY: &str = "spark.sql.streaming.multipleWatermarkPolicy";
const PREFIX: &str = "weir.watermark.";
const MAX_FUTURE_SKEW: &str = "weir.watermark.maxFutureSkewMs";
const IDLE_TIMEOUT: &str = "weir.watermark.idleTimeoutMs";
const PER_SPLIT: &str = "weir.watermark.perSplit";

/// How several watermarks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatermarkPolicy {
    /// The slowest decides; an operator that never saw an event time holds it at 1970.
    #[default]
    Min,
    /// The fastest decides.
    Max,
}

impl WatermarkPolicy {
    fn text(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// Settings of a query's watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatermarkSettings {
    /// How several watermarks become one (`spark.sql.streaming.multipleWatermarkPolicy`). Fixed by the first epoch of a query.
    pub policy: WatermarkPolicy,
    /// A stream (or, with `per_split`, a split) without event times for this long no longer holds the watermark back
    /// (`weir.watermark.idleTimeout`), also one that never had any. Whole milliseconds count. `None`: it does for ever.
    pub idle_timeout: Option<Duration>,
    /// Event times further ahead of an epoch's processing time than this do not move the watermark (`weir.watermark.maxFutureSkew`);
    /// their rows are used. Whole milliseconds count. `None`: every event time counts.
    pub max_future_skew: Option<Duration>,
    /// Long-lived splits (partitions) have watermarks of their own, of which the slowest counts (`weir.watermark.perSplit`).
    pub per_split: bool,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl WatermarkSettings {
    pub(crate) fn idle_timeout_ms(&self) -> Option<i64> {
        self.idle_timeout.map(millis)
    }

    /// True if a restart has to know more than the merged watermark.
    pub(crate) fn keeps_parts(&self) -> bool {
        self.per_split || self.idle_timeout.is_some()
    }

    /// The settings as they stand in plans: what a replay of the plan runs under.
    pub(crate) fn write(&self, config: &mut BTreeMap<String, String>) {
        config.insert(POLICY.to_owned(), self.policy.text().to_owned());
        let mut option = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                config.insert(key.to_owned(), value);
            }
        };
        let text = |duration: Duration| millis(duration).to_string();
        option(IDLE_TIMEOUT, self.idle_timeout.map(text));
        option(MAX_FUTURE_SKEW, self.max_future_skew.map(text));
        option(PER_SPLIT, self.per_split.then(|| "true".to_owned()));
    }

    /// Whether a key of a plan's config is one of these settings; the plan's own value counts, not the program's.
    pub(crate) fn owns(key: &str) -> bool {
        key == POLICY || key.starts_with(PREFIX)
    }

    /// How far event times may lie ahead of the plan's processing time, in milliseconds.
    pub(crate) fn skew_of(plan: &Plan) -> Option<i64> {
        plan.config.get(MAX_FUTURE_SKEW)?.parse().ok()
    }

    /// The settings under the policy a plan fixes (Spark's rule: the policy of a query never changes).
    #[must_use]
    pub(crate) fn under(self, plan: Option<&Plan>) -> Self {
        let fixed = plan.and_then(|plan| plan.config.get(POLICY));
        let policy = match fixed.map(String::as_str) {
            Some("min") => WatermarkPolicy::Min,
            Some("max") => WatermarkPolicy::Max,
            _ => return self,
        };
        if policy != self.policy {
            tracing::warn!(?policy, wanted = ?self.policy, "the watermark policy of the checkpoint stays in force");
        }
        Self { policy, ..self }
    }
}

#[cfg(test)]
mod tests {
    use weir_state::Epoch;

    use super::*;

    fn plan(settings: WatermarkSettings) -> Plan {
        let mut config = BTreeMap::new();
        settings.write(&mut config);
        Plan {
            epoch: Epoch(3),
            generation: 1,
            watermark_ms: 0,
            batch_timestamp_ms: 1_000,
            config,
            sources: Vec::new(),
        }
    }

    #[test]
    fn defaults_write_the_policy_only() {
        let config = plan(WatermarkSettings::default()).config;
        assert_eq!(config.len(), 1);
        assert!(config.keys().all(|key| WatermarkSettings::owns(key)));
    }

    #[test]
    fn plan_keeps_the_bound_on_future_times() {
        let skewed = WatermarkSettings {
            max_future_skew: Some(Duration::from_secs(2)),
            ..WatermarkSettings::default()
        };
        assert_eq!(WatermarkSettings::skew_of(&plan(skewed)), Some(2_000));
        assert_eq!(
            WatermarkSettings::skew_of(&plan(WatermarkSettings::default())),
            None
        );
    }

    #[test]
    fn policy_of_the_checkpoint_wins() {
        let max = WatermarkSettings {
            policy: WatermarkPolicy::Max,
            ..WatermarkSettings::default()
        };
        let min = WatermarkSettings::default();
        assert_eq!(min.under(Some(&plan(max))).policy, WatermarkPolicy::Max);
        assert_eq!(max.under(None).policy, WatermarkPolicy::Max);
    }
}
