//! The ways a case is run. Whatever the way, what the query emits must be the same.
//!
//! A query that is stopped, moved or set back between two steps must go on as if nothing had happened: that is what state,
//! watermark and positions in a checkpoint are for. Cases of stateful queries are run in every way, others straight only.

use crate::case::Case;

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As the case says.
    Straight,
    /// After every step stopped and started again from its checkpoint.
    Restarted,
    /// The same, each time with another number of subtasks: 1, 2, 3, 1 and so on.
    Rescaled,
    /// After every step stopped, its newest commit forgotten, and started: the newest epoch runs again and emits the same.
    Replayed,
}

/// All of them.
pub(crate) const ALL: [Way; 4] = [Way::Straight, Way::Restarted, Way::Rescaled, Way::Replayed];

/// Subtasks where a way does not say otherwise.
const PARALLELISM: usize = 2;

impl Way {
    /// What it is called in reports and in `CONFORMANCE_WAYS`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Straight => "straight",
            Self::Restarted => "restarted",
            Self::Rescaled => "rescaled",
            Self::Replayed => "replayed",
        }
    }

    /// Subtasks of start number `start`, from 0.
    pub(crate) fn parallelism(self, start: usize) -> usize {
        match self {
            Self::Rescaled => start % 3 + 1,
            Self::Straight | Self::Restarted | Self::Replayed => PARALLELISM,
        }
    }

    /// Whether the query is stopped after every step.
    pub(crate) fn interrupts(self) -> bool {
        self != Self::Straight
    }

    /// Whether a run in this way can be equal to a straight one by Spark's rules. The one exception: what each watermark of a
    /// query has seen is forgotten at a restart, only what they make together is durable. With several of them and the policy
    /// `min`, a restart therefore holds the watermark back until all of them have seen rows again.
    pub(crate) fn suits(self, case: &Case) -> bool {
        let policy = case.config.get("multipleWatermarkPolicy");
        !self.interrupts() || case.watermarks() < 2 || policy.is_some_and(|policy| policy == "max")
    }
}

/// The ways named in a list with commas, `all` for all of them.
pub(crate) fn parse(text: &str) -> Result<Vec<Way>, String> {
    if text == "all" {
        return Ok(ALL.to_vec());
    }
    let named = |name: &str| ALL.into_iter().find(|way| way.name() == name.trim());
    text.split(',')
        .map(|name| {
            named(name).ok_or_else(|| {
                let known = ALL.map(Way::name).join(", ");
                format!("CONFORMANCE_WAYS has '{name}', allowed are all, {known}")
            })
        })
        .collect()
}
