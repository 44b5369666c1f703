//! [`Plan`]: what an epoch will read, durable before any of its output can become visible (invariant E1).
//!
//! Written once to `offsets/N` and never changed: a replay of N reads the same ranges under the same
//! watermark and config, so it gives the same rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Epoch;

/// The plan of one epoch, `offsets/N`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The epoch planned; also the file name.
    pub epoch: Epoch,
    /// Generation of the run that wrote the plan (see [`crate::Lease::generation`]).
    pub generation: u64,
    /// Event-time watermark the epoch runs under, unix milliseconds (Spark's `batchWatermarkMs`).
    pub watermark_ms: i64,
    /// Processing time of the epoch, unix milliseconds (Spark's `batchTimestampMs`): what
    /// `current_timestamp()` answers, also when the epoch is replayed.
    pub batch_timestamp_ms: i64,
    /// Session config frozen for the epoch; wins over the session's own values at a restart.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// One range per source, in the order of the topology.
    #[serde(default)]
    pub sources: Vec<SourceRange>,
}

impl Plan {
    /// The range of source `uid`, if the plan has one.
    #[must_use]
    pub fn source(&self, uid: &str) -> Option<&SourceRange> {
        self.sources.iter().find(|range| range.source == uid)
    }
}

/// What one source reads in one epoch: from `start` (exclusive or inclusive as the source defines it) to `end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceRange {
    /// The source's stable id (uid) in the topology.
    pub source: String,
    /// Where the range begins, in the source's own JSON; `None` before the first epoch.
    #[serde(default)]
    pub start: Option<serde_json::Value>,
    /// Where the range ends; the `start` of the next epoch. Always concrete, never "latest".
    pub end: serde_json::Value,
}
