//! [`RateMicroBatchSource`]: rows per epoch. Its offset is `{"offset": values so far, "timestamp": milliseconds}`, so
//! that every epoch's rows follow from its plan alone.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::{Value, json};
use weir_runtime::{
    Admission, Epoch, Fault, Fingerprint, Offset, Polled, Result, Source, SourceContext,
    SourceReader, Split, WeirError,
};

use super::per_second::positive;
use super::{Partitions, batch, number, schema};
use crate::options::{OptionSpec, Options, spec};

/// Options of source `rate-micro-batch`.
pub const MICRO_BATCH_OPTIONS: &[OptionSpec] = &[
    spec("rowsPerBatch", "", "rows of each epoch; required"),
    super::NUM_PARTITIONS,
    spec(
        "startTimestamp",
        "0",
        "timestamp of the first epoch's rows, milliseconds since 1970",
    ),
    spec(
        "advanceMillisPerBatch",
        "1000",
        "milliseconds from the timestamp of one epoch to that of the next",
    ),
];

/// So many rows per epoch (Spark's source `rate-micro-batch`): epoch `n` has the values `n * rows` to
/// `(n + 1) * rows - 1`, all with the timestamp `start + n * advance`.
///
/// There is always a next epoch; a bounded run (triggers `available_now` and `once`) takes one.
#[derive(Debug)]
pub struct RateMicroBatchSource {
    rows_per_batch: u64,
    start_ms: u64,
    advance_ms: u64,
    partitions: Partitions,
    bounded: Bounded,
}

/// Whether the run has an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounded {
    No,
    /// After the next epoch, wherever it begins: an epoch that is replayed first does not count.
    AfterNext,
    At(Position),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    offset: u64,
    timestamp_ms: u64,
}

impl RateMicroBatchSource {
    /// `rows_per_batch` rows (at least 1) per epoch, from 1970-01-01 on, one second further each epoch.
    #[must_use]
    pub fn new(rows_per_batch: u64) -> Self {
        Self {
            rows_per_batch: rows_per_batch.max(1),
            start_ms: 0,
            advance_ms: 1000,
            partitions: Partitions::default(),
            bounded: Bounded::No,
        }
    }

    /// Timestamp of the first epoch's rows, unix milliseconds.
    #[must_use]
    pub fn start_timestamp_ms(mut self, start_ms: u64) -> Self {
        self.start_ms = start_ms;
        self
    }

    /// How much later the rows of the next epoch are, milliseconds.
    #[must_use]
    pub fn advance_ms_per_batch(mut self, advance_ms: u64) -> Self {
        self.advance_ms = advance_ms;
        self
    }

    /// Cuts each epoch into so many splits (at least 1); without it, one for each reader.
    #[must_use]
    pub fn num_partitions(mut self, partitions: usize) -> Self {
        self.partitions.given = Some(partitions.max(1));
        self
    }

    /// From Spark's options: `rowsPerBatch` (required), `numPartitions` (the query's parallelism), `startTimestamp`
    /// (0) and `advanceMillisPerBatch` (1000), both in milliseconds. Names in any case.
    ///
    /// # Errors
    /// A missing `rowsPerBatch`, an unknown option, one that is not a number of the kind allowed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let options = Options::new("source 'rate-micro-batch'", MICRO_BATCH_OPTIONS, options)?;
        let rows = options.parse_with("rowsPerBatch", "a positive whole number", positive)?;
        let rows = rows.ok_or_else(|| {
            WeirError::config(
                "source 'rate-micro-batch' needs the option 'rowsPerBatch', allowed: a positive whole number",
            )
        })?;
        let partitions =
            options.parse_with("numPartitions", "a positive whole number", positive)?;
        let start: Option<u64> =
            options.parse("startTimestamp", "milliseconds since 1970, not negative")?;
        let advance: Option<u64> =
            options.parse("advanceMillisPerBatch", "milliseconds, not negative")?;
        let mut source = Self::new(rows)
            .start_timestamp_ms(start.unwrap_or(0))
            .advance_ms_per_batch(advance.unwrap_or(1000));
        source.partitions.given = partitions.and_then(|count| usize::try_from(count).ok());
        Ok(source)
    }

    fn position(&self, offset: Option<&Offset>) -> Result<Position> {
        let Some(offset) = offset else {
            return Ok(Position {
                offset: 0,
                timestamp_ms: self.start_ms,
            });
        };
        let number = |name: &str| offset.get(name).and_then(Value::as_u64);
        match (number("offset"), number("timestamp")) {
            (Some(offset), Some(timestamp_ms)) => Ok(Position {
                offset,
                timestamp_ms,
            }),
            _ => Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "offset {offset} of source 'rate-micro-batch' is not of the form {{\"offset\":0,\"timestamp\":0}}: the checkpoint belongs to another kind of source"
                ),
            )),
        }
    }

    fn after(&self, start: Position) -> Position {
        Position {
            offset: start
                .offset
                .saturating_add(self.rows_per_batch)
                .min(i64::MAX as u64),
            timestamp_ms: start.timestamp_ms.saturating_add(self.advance_ms),
        }
    }
}

fn offset(position: Position) -> Offset {
    json!({ "offset": position.offset, "timestamp": position.timestamp_ms })
}

#[async_trait]
impl Source for RateMicroBatchSource {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn description(&self) -> String {
        format!(
            "RatePerMicroBatchStream[rowsPerBatch={}, numPartitions={}, startTimestamp={}, advanceMsPerBatch={}]",
            self.rows_per_batch,
            self.partitions
                .given
                .map_or("default".to_owned(), |count| count.to_string()),
            self.start_ms,
            self.advance_ms
        )
    }

    fn fingerprint(&self) -> Fingerprint {
        // Rows per epoch and advance may change: every plan says where its epoch begins and ends.
        Fingerprint::source("rate-micro-batch").param("startTimestamp", self.start_ms)
    }

    fn max_parallelism(&self) -> Option<usize> {
        self.partitions.given
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        self.position(context.committed.as_ref())?;
        self.partitions.forget_readers();
        Ok(())
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        _admission: Admission,
    ) -> Result<Option<Offset>> {
        let from = self.position(start)?;
        if self.bounded == Bounded::AfterNext {
            self.bounded = Bounded::At(self.after(from));
        }
        let next = self.after(from);
        Ok(match self.bounded {
            Bounded::At(end) if end.offset <= from.offset => start.cloned(),
            Bounded::At(end) => Some(offset(end)),
            _ => Some(offset(next)),
        })
    }

    async fn fix_end(&mut self) -> Result<()> {
        if self.bounded == Bounded::No {
            self.bounded = Bounded::AfterNext;
        }
        Ok(())
    }

    async fn splits(
        &mut self,
        _epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let (from, to) = (self.position(start)?, self.position(Some(end))?);
        let payload =
            |first, last| json!({ "from": first, "to": last, "timestamp": from.timestamp_ms });
        Ok(self.partitions.cut(from.offset, to.offset, payload))
    }

    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        self.partitions.note_reader(subtask);
        Ok(Box::new(Reader {
            from: 0,
            to: 0,
            micros: 0,
        }))
    }
}

struct Reader {
    from: u64,
    to: u64,
    micros: i64,
}

impl SourceReader for Reader {
    fn open(&mut self, split: &Split) -> Result<()> {
        (self.from, self.to) = (number(split, "from")?, number(split, "to")?);
        let timestamp_ms = i64::try_from(number(split, "timestamp")?).unwrap_or(i64::MAX);
        self.micros = timestamp_ms.saturating_mul(1000);
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _max_wait: Duration) -> Result<Polled> {
        if self.from >= self.to {
            return Ok(Polled::Done);
        }
        let values: Vec<i64> = (self.from..self.to)
            .take(max_rows.max(1))
            .filter_map(|value| i64::try_from(value).ok())
            .collect();
        self.from += values.len() as u64;
        Ok(Polled::Batch(batch(
            vec![self.micros; values.len()],
            values,
        )?))
    }
}
