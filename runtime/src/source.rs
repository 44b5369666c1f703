//! What the author of a source implements, in two parts: a [`Source`] that plans (what is there, what does the next epoch
//! read, cut into splits) and a [`SourceReader`] per subtask that reads splits on its own thread. Neither sees an actor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::Value;
use weir_state::{CheckpointLocation, Clock, Epoch, Fingerprint};

use crate::error::{Result, WeirError};
use crate::failpoint::FailPoints;

/// Where a source's input ends or begins: opaque JSON, as it stands in the checkpoint's `offsets/N`.
pub type Offset = Value;

/// A part of an epoch's input that one reader reads from start to end: a file, a range of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Name for errors and metrics: a path, `topic-partition`.
    pub name: String,
    /// What the reader needs to know; opaque to the engine.
    pub payload: Value,
    /// Expected size in any unit, to spread splits evenly.
    pub weight: u64,
}

/// What a source gets when a generation starts.
#[derive(Clone)]
pub struct SourceContext {
    /// Id of the source in its topology.
    pub uid: String,
    /// Index of the source in its topology; its own log is `sources/<index>`.
    pub index: usize,
    /// The checkpoint location, for sources that keep a log of their own.
    pub checkpoint: CheckpointLocation,
    /// End offset of the last committed epoch, or `None` if the query is new.
    pub committed: Option<Offset>,
    /// Number of the last committed epoch.
    pub committed_epoch: Option<Epoch>,
    /// Number of the last planned epoch: the committed one, or the one after it if that is about to be replayed.
    pub planned_epoch: Option<Epoch>,
    /// The engine's clock.
    pub clock: Arc<dyn Clock>,
    /// Fault points of this query.
    pub failpoints: Arc<FailPoints>,
    /// Tells the query that something new is there, so that it need not wait for its next look.
    pub wake: WakeHandle,
}

/// Wakes a query that waits for data; cheap to clone and to call.
#[derive(Clone)]
pub struct WakeHandle(Arc<dyn Fn() + Send + Sync>);

impl WakeHandle {
    /// A handle that runs `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Something new is there.
    pub fn wake(&self) {
        (self.0)();
    }
}

/// How much one epoch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// The source's own limits (`maxFilesPerTrigger`, …).
    #[default]
    Limited,
    /// Everything that is there; limits are ignored (trigger `once`).
    Everything,
}

/// The planning half of a source. One per query; lives beside the coordinator.
///
/// The offsets it hands out are the contract: for a pair (start, end) `splits` must always describe the same rows, also in another
/// process after a crash (invariant E1).
#[async_trait]
pub trait Source: Send {
    /// Columns of the rows.
    fn schema(&self) -> SchemaRef;

    /// Name for progress and explain, such as `FileStreamSource[file:/data/in]`.
    fn description(&self) -> String;

    /// What must stay the same for a checkpoint to be continued.
    fn fingerprint(&self) -> Fingerprint;

    /// The most readers that make sense; `None` = as many as the query's parallelism.
    fn max_parallelism(&self) -> Option<usize> {
        None
    }

    /// A generation starts. May be called again for the next generation of the same run.
    ///
    /// # Errors
    /// If the source is not there or its options contradict the checkpoint.
    async fn open(&mut self, context: SourceContext) -> Result<()>;

    /// Where the next epoch ends, given where the last one ended; equal to `start` (or `None`) if there is nothing new.
    ///
    /// # Errors
    /// If the source cannot be asked.
    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>>;

    /// From now on nothing that arrives later may be planned (triggers `available_now` and `once`). Called after `open`.
    ///
    /// # Errors
    /// If the source cannot be asked.
    async fn fix_end(&mut self) -> Result<()>;

    /// Makes durable whatever the source needs to find the rows of (start, end) again. Called before `offsets/N` is written, and
    /// possibly again for the same epoch.
    ///
    /// # Errors
    /// If it cannot be written.
    async fn log(&mut self, _epoch: Epoch, _start: Option<&Offset>, _end: &Offset) -> Result<()> {
        Ok(())
    }

    /// The splits of (start, end), in the order that counts as arrival order.
    ///
    /// # Errors
    /// If the range cannot be read any more.
    async fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>>;

    /// Names of splits that live as long as the query (partitions), also of those without rows at the moment; a split of that name
    /// continues where the last one of the name ended. With `weir.watermark.perSplit` each has a watermark of its own.
    fn long_lived_splits(&self) -> Vec<String> {
        Vec::new()
    }

    /// The subtask, of `subtasks`, that should read a split, where it matters which one does: it may hold a connection, or data it has
    /// read ahead. `None`: any of them; the engine spreads such splits by weight.
    fn home(&self, _split: &Split, _subtasks: usize) -> Option<usize> {
        None
    }

    /// A reader for one subtask.
    ///
    /// # Errors
    /// If it cannot be made.
    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>>;

    /// The epoch that ended at `end` is committed; input before it is not needed any more.
    ///
    /// # Errors
    /// Reported as a warning; the epoch stays committed.
    async fn committed(&mut self, _epoch: Epoch, _end: &Offset) -> Result<()> {
        Ok(())
    }

    /// The newest offset the source knows of, for the lag in progress; `None` if it cannot tell.
    fn newest(&self) -> Option<Offset> {
        None
    }

    /// Counters of the source for the progress of an epoch that ended at `end`, by name.
    fn metrics(&self, _end: Option<&Offset>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Why the source cannot be asked at the moment, if that may pass; the query's status shows it.
    fn problem(&self) -> Option<String> {
        None
    }

    /// How much of the fixed or known input is done, for progress bars.
    fn backlog(&self) -> Option<Backlog> {
        None
    }
}

/// How much is still to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// Units done since the start of the run.
    pub done: u64,
    /// Units known.
    pub total: u64,
    /// What is counted: `files`, `records`.
    pub unit: &'static str,
}

/// What a poll gave.
#[derive(Debug)]
pub enum Polled {
    /// Rows, in order; the reader is past them.
    Batch(RecordBatch),
    /// Nothing yet; poll again.
    Idle,
    /// The split is read to its end.
    Done,
}

/// Tells where each row of a batch stands in the input (file and line, topic-partition-offset), for errors about one of them.
#[derive(Clone)]
pub struct Places(Arc<dyn Fn(usize) -> String + Send + Sync>);

impl Places {
    /// Of a function from rows, counted from 0, to places.
    pub fn new(place: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(place))
    }

    /// Where a row stands.
    pub fn of(&self, row: usize) -> String {
        (self.0)(row)
    }
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Places")
    }
}

/// Counters a reader reports at the end of every split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Records that did not fit and were handled by the source's policy.
    pub bad_records: u64,
}

/// The reading half of a source: one per subtask, on a thread of its own, so it may block.
pub trait SourceReader: Send {
    /// Begins a split from its start; an earlier one was read to its end or is given up.
    ///
    /// # Errors
    /// If the split cannot be read.
    fn open(&mut self, split: &Split) -> Result<()>;

    /// The next rows: at most about `max_rows`, waiting at most `max_wait`. Never cancelled half-way.
    ///
    /// # Errors
    /// If the input is damaged or gone; say where (file and line, topic-partition-offset).
    fn poll(&mut self, max_rows: usize, max_wait: Duration) -> Result<Polled>;

    /// Where the rows of the batch stand that the last poll gave; `None` if the source cannot tell.
    fn places(&self) -> Option<Places> {
        None
    }

    /// Counters of the split that is open.
    fn counts(&self) -> ReaderCounts {
        ReaderCounts::default()
    }
}

/// Turns an offset into an integer, for sources whose offsets are plain numbers.
///
/// # Errors
/// If it is something else: another kind of source wrote the checkpoint.
pub fn offset_as_u64(source: &str, offset: &Offset) -> Result<u64> {
    offset.as_u64().ok_or_else(|| {
        WeirError::new(
            crate::error::Fault::Checkpoint,
            format!("offset {offset} of source '{source}' is not a whole number: the checkpoint belongs to another kind of source"),
        )
    })
}
