//! Made-up rows for trying things out, as many as asked for: Spark's sources `rate` and `rate-micro-batch`.
//!
//! Both have the columns `timestamp TIMESTAMP` (microseconds, UTC) and `value BIGINT` (0, 1, 2 …), and for a range of
//! offsets always the same rows.
//!
//! - [`RateSource`]: so many rows per second of the engine's clock.
//! - [`RateMicroBatchSource`]: so many rows per epoch, whatever the clock says.

mod curve;
mod micro_batch;
mod per_second;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::Value;
use weir_runtime::{Result, Split, WeirError};

pub use micro_batch::{MICRO_BATCH_OPTIONS, RateMicroBatchSource};
pub use per_second::{RATE_OPTIONS, RateSource};

use crate::options::{OptionSpec, spec};

const NUM_PARTITIONS: OptionSpec = spec(
    "numPartitions",
    "",
    "splits of each epoch; the query's parallelism unless given",
);

/// Zone of the timestamps' type.
const ZONE: &str = "UTC";

/// Columns of both sources.
fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
    Arc::new(Schema::new(vec![
        Field::new("timestamp", timestamp, true),
        Field::new("value", DataType::Int64, true),
    ]))
}

/// Rows with these timestamps (microseconds since 1970) and values.
fn batch(micros: Vec<i64>, values: Vec<i64>) -> Result<RecordBatch> {
    let timestamps = TimestampMicrosecondArray::from(micros).with_timezone(ZONE);
    let columns: Vec<ArrayRef> = vec![Arc::new(timestamps), Arc::new(Int64Array::from(values))];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// How many splits an epoch is cut into: `numPartitions`, or one for each reader the engine asked for.
#[derive(Debug, Default)]
struct Partitions {
    given: Option<usize>,
    readers: AtomicUsize,
}

impl Partitions {
    /// A generation starts.
    fn forget_readers(&self) {
        self.readers.store(0, Ordering::SeqCst);
    }

    fn note_reader(&self, subtask: usize) {
        self.readers.fetch_max(subtask + 1, Ordering::SeqCst);
    }

    /// Cuts the values from `from` (inclusive) to `to` into runs; the payload of a split is made by `payload`.
    fn cut(&self, from: u64, to: u64, payload: impl Fn(u64, u64) -> Value) -> Vec<Split> {
        let parts = self
            .given
            .unwrap_or_else(|| self.readers.load(Ordering::SeqCst))
            .max(1) as u64;
        let size = to.saturating_sub(from).div_ceil(parts).max(1);
        let starts = (0..parts).map(|part| from.saturating_add(part.saturating_mul(size)));
        let runs = starts.take_while(|start| *start < to);
        runs.map(|start| {
            let end = start.saturating_add(size).min(to);
            Split {
                name: format!("values {start} to {}", end - 1),
                payload: payload(start, end),
                weight: end - start,
            }
        })
        .collect()
    }
}

/// A whole number in the payload of a split.
fn number(split: &Split, name: &str) -> Result<u64> {
    let value = split.payload.get(name).and_then(Value::as_u64);
    value.ok_or_else(|| WeirError::internal(format!("split '{}' has no '{name}'", split.name)))
}
