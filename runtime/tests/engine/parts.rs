//! A source and a sink made of public traits only: numbers in ranges, and a ledger that outlives its query.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use serde_json::{Value, json};
use weir_runtime::*;

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

pub(crate) fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![Arc::new(Int64Array::from_iter_values(values))],
    )
    .expect("batch")
}

pub(crate) fn values(batch: &RecordBatch) -> Vec<i64> {
    let column = batch
        .column(0)
        .as_any()
        .downcast_ref::<Int64Array>()
        .expect("int64 column");
    column.values().to_vec()
}

/// Numbers 0.. up to a limit that a test moves; `per_epoch` at most per epoch, in splits of `per_split`.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) available: Arc<AtomicU64>,
    pub(crate) per_epoch: u64,
    pub(crate) per_split: u64,
    fixed: Option<u64>,
}

impl Numbers {
    pub(crate) fn up_to(available: u64) -> Self {
        Self {
            available: Arc::new(AtomicU64::new(available)),
            per_epoch: u64::MAX,
            per_split: 10,
            fixed: None,
        }
    }

    pub(crate) fn per_epoch(mut self, rows: u64) -> Self {
        self.per_epoch = rows;
        self
    }

    pub(crate) fn per_split(mut self, rows: u64) -> Self {
        self.per_split = rows;
        self
    }
}

#[async_trait]
impl Source for Numbers {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn description(&self) -> String {
        "Numbers".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("numbers")
    }

    async fn open(&mut self, _: SourceContext) -> Result<()> {
        self.fixed = None;
        Ok(())
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        let begin = start.map_or(Ok(0), |offset| offset_as_u64("numbers", offset))?;
        let limit = if admission == Admission::Everything {
            u64::MAX
        } else {
            self.per_epoch
        };
        let known = self
            .fixed
            .unwrap_or_else(|| self.available.load(Ordering::SeqCst));
        let end = known.min(begin.saturating_add(limit));
        Ok((end > 0).then(|| json!(end)))
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.fixed = Some(self.available.load(Ordering::SeqCst));
        Ok(())
    }

    async fn splits(
        &mut self,
        _: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let begin = start.map_or(Ok(0), |offset| offset_as_u64("numbers", offset))?;
        let end = offset_as_u64("numbers", end)?;
        let step = self.per_split as usize;
        let ranges = (begin..end)
            .step_by(step)
            .map(|from| (from, (from + self.per_split).min(end)));
        Ok(ranges
            .map(|(from, to)| Split {
                name: format!("{from}..{to}"),
                payload: json!([from, to]),
                weight: to - from,
            })
            .collect())
    }

    fn reader(&self, _: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(NumbersReader { next: 0, end: 0 }))
    }
}

struct NumbersReader {
    next: i64,
    end: i64,
}

impl SourceReader for NumbersReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        let bound = |index: usize| {
            split.payload[index]
                .as_i64()
                .expect("split bounds are numbers")
        };
        (self.next, self.end) = (bound(0), bound(1));
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _: Duration) -> Result<Polled> {
        if self.next == self.end {
            return Ok(Polled::Done);
        }
        let to = self.end.min(self.next + max_rows.min(4) as i64);
        let batch = numbers(self.next..to);
        self.next = to;
        Ok(Polled::Batch(batch))
    }
}

/// What a ledger sink has made visible, by epoch; outlives queries, as a database would.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) epochs: Arc<Mutex<BTreeMap<u64, Vec<i64>>>>,
    pub(crate) commits: Arc<AtomicUsize>,
    pub(crate) write_delay: Duration,
    /// The next write fails as if the disk had, once.
    pub(crate) fail_next_write: Arc<std::sync::atomic::AtomicBool>,
}

impl Ledger {
    pub(crate) fn rows(&self) -> Vec<i64> {
        let mut rows: Vec<i64> = self
            .epochs
            .lock()
            .expect("ledger")
            .values()
            .flatten()
            .copied()
            .collect();
        rows.sort_unstable();
        rows
    }
}

#[async_trait]
impl Sink for Ledger {
    fn description(&self) -> String {
        "Ledger".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Append
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("ledger")
    }

    fn needs_checkpoint(&self) -> bool {
        false
    }

    async fn open(&self, _: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _: &SinkContext, _: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(LedgerWriter {
            rows: Vec::new(),
            ledger: self.clone(),
        }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(self.clone()))
    }
}

struct LedgerWriter {
    rows: Vec<i64>,
    ledger: Ledger,
}

#[async_trait]
impl SinkWriter for LedgerWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        if self.ledger.fail_next_write.swap(false, Ordering::SeqCst) {
            return Err(WeirError::external("the disk is full"));
        }
        if !self.ledger.write_delay.is_zero() {
            tokio::time::sleep(self.ledger.write_delay).await;
        }
        let column = batch.rows.batch().column(0).clone();
        let column = column
            .as_any()
            .downcast_ref::<Int64Array>()
            .expect("int64 column");
        self.rows.extend(
            (0..column.len())
                .filter(|row| column.is_valid(*row))
                .map(|row| column.value(row)),
        );
        Ok(())
    }

    async fn prepare(&mut self, _: Epoch) -> Result<Committable> {
        Ok(json!(std::mem::take(&mut self.rows)))
    }
}

#[async_trait]
impl SinkCommitter for Ledger {
    async fn commit(&mut self, epoch: Epoch, committables: Vec<Value>) -> Result<CommitOutcome> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        let mut epochs = self.epochs.lock().expect("ledger");
        if epochs.contains_key(&epoch.0) {
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        let rows = committables
            .iter()
            .flat_map(|part| part.as_array().expect("a list").iter());
        epochs.insert(
            epoch.0,
            rows.map(|value| value.as_i64().expect("a number"))
                .collect(),
        );
        Ok(CommitOutcome::Committed)
    }
}

/// Keeps a running sum and passes rows through; emits nothing of its own. Checks that its state follows epochs.
pub(crate) struct RunningSum {
    pub(crate) sum: i64,
    pub(crate) seen: Arc<Mutex<Vec<(u64, i64)>>>,
}

impl Operator for RunningSum {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        _: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        self.sum += values(rows.batch()).iter().sum::<i64>();
        out.emit(rows);
        Ok(())
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Option<Vec<u8>>> {
        self.seen.lock().expect("seen").push((epoch.0, self.sum));
        Ok(Some(self.sum.to_le_bytes().to_vec()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        let bytes = snapshot
            .try_into()
            .map_err(|_| WeirError::internal("a sum has 8 bytes"))?;
        self.sum = i64::from_le_bytes(bytes);
        Ok(())
    }
}
