//! What a query tells about itself: progress per epoch with Spark's field names (SPEC §9.3), and its status.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// What happened in one epoch, or in a look that found nothing (`num_input_rows` 0). Serialises to Spark's JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryProgress {
    /// Id of the query; stays the same over restarts.
    #[serde(serialize_with = "as_text")]
    pub id: Uuid,
    /// Id of this run.
    #[serde(serialize_with = "as_text")]
    pub run_id: Uuid,
    /// Name of the query.
    pub name: Option<String>,
    /// Start of the epoch's trigger, ISO 8601 in UTC.
    pub timestamp: String,
    /// Number of the epoch.
    pub batch_id: u64,
    /// Milliseconds from trigger to manifest.
    pub batch_duration: u64,
    /// Milliseconds by phase: latestOffset, getBatch, walCommit, addBatch, commitBatch, commitOffsets, triggerExecution.
    pub duration_ms: BTreeMap<String, u64>,
    /// Event times seen and the watermark that was in force, ISO 8601; empty without a watermark.
    pub event_time: BTreeMap<String, String>,
    /// One entry per stateful operator, the one nearest to the sink first.
    pub state_operators: Vec<StateOperatorProgress>,
    /// One entry per source.
    pub sources: Vec<SourceProgress>,
    /// The (first) sink.
    pub sink: SinkProgress,
    /// Rows read from all sources.
    pub num_input_rows: u64,
    /// Rows per second since the trigger before.
    pub input_rows_per_second: f64,
    /// Rows per second of this epoch's duration.
    pub processed_rows_per_second: f64,
    /// Metrics the query observes.
    pub observed_metrics: BTreeMap<String, Value>,
}

/// One stateful operator in a [`QueryProgress`], over all its subtasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOperatorProgress {
    /// What it does, in Spark's words: `stateStoreSave`, `dedupe`, …
    pub operator_name: String,
    /// Entries after the epoch.
    pub num_rows_total: u64,
    /// Entries set in the epoch.
    pub num_rows_updated: u64,
    /// Milliseconds spent in the operator, all subtasks together, without removals it tells apart.
    pub all_updates_time_ms: u64,
    /// Entries removed in the epoch.
    pub num_rows_removed: u64,
    /// Milliseconds spent on removals, as far as the operator tells them apart.
    pub all_removals_time_ms: u64,
    /// Milliseconds spent on making the state durable, all subtasks together.
    pub commit_time_ms: u64,
    /// Bytes of memory the state holds.
    pub memory_used_bytes: u64,
    /// Input rows dropped as late in the epoch.
    pub num_rows_dropped_by_watermark: u64,
    /// Subtasks.
    pub num_shuffle_partitions: u64,
    /// State tables over all subtasks.
    pub num_state_store_instances: u64,
    /// Counters of the kind of operator, such as `numDroppedDuplicateRows` of a deduplication.
    pub custom_metrics: BTreeMap<String, u64>,
}

/// One source in a [`QueryProgress`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// What it is.
    pub description: String,
    /// Offset JSON where the epoch began, as text.
    pub start_offset: Option<String>,
    /// Offset JSON where the epoch ended, as text.
    pub end_offset: Option<String>,
    /// Newest offset known, as text.
    pub latest_offset: Option<String>,
    /// Rows read.
    pub num_input_rows: u64,
    /// Rows per second since the trigger before.
    pub input_rows_per_second: f64,
    /// Rows per second of this epoch's duration.
    pub processed_rows_per_second: f64,
    /// Counters of the source: `badRecords`, `splits`, and those of its kind, such as `lostOffsets` and how far it is behind.
    pub metrics: BTreeMap<String, String>,
}

/// The sink in a [`QueryProgress`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// What it is.
    pub description: String,
    /// Rows written; always known.
    pub num_output_rows: u64,
    /// What the sink promises (`delivery`) and what its writers counted in the epoch.
    pub metrics: BTreeMap<String, String>,
}

impl QueryProgress {
    /// Spark's JSON on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self)
            .expect("invariant: progress has only text keys and finite numbers")
    }
}

/// What a query does at the moment, with Spark's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryStatus {
    /// In words.
    pub message: String,
    /// The last look found something new.
    pub is_data_available: bool,
    /// An epoch is being planned or run.
    pub is_trigger_active: bool,
}

fn as_text<S: serde::Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// `rows` per `ms`, as rows per second; 0 where no time passed, so that the JSON never has NaN or infinity.
pub(crate) fn rate(rows: u64, ms: u64) -> f64 {
    if ms == 0 {
        0.0
    } else {
        rows as f64 * 1000.0 / ms as f64
    }
}

/// ISO 8601 in UTC with milliseconds.
pub(crate) fn iso(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms)
        .map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        .unwrap_or_else(|| format!("{ms} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_no_time_is_zero_not_infinite() {
        assert_eq!((rate(5, 0), rate(0, 0), rate(5, 500)), (0.0, 0.0, 10.0));
    }

    #[test]
    fn iso_has_milliseconds_and_zone() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
    }
}
