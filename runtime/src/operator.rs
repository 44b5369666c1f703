//! What the author of an operator implements: a synchronous state machine over batches. It never sees an actor or a barrier;
//! alignment, snapshots and forwarding happen in the task loops, so an operator can be tested by calling it.

mod metrics;
mod spec;

use std::sync::Arc;

use weir_state::{Epoch, OperatorState};

pub use self::metrics::{OperatorCounts, OperatorMetrics};
pub use self::spec::OperatorSpec;
use crate::error::{Result, WeirError};
use crate::message::{Origin, Rows};

/// What an operator knows about where and when it runs.
#[derive(Debug)]
pub struct OperatorContext {
    /// Id of the operator in its topology.
    pub uid: String,
    /// Index of this parallel instance.
    pub subtask: usize,
    /// Number of parallel instances.
    pub parallelism: usize,
    /// The open epoch.
    pub epoch: Epoch,
    /// The watermark of the open epoch, which closes at its end, in milliseconds since 1970; set when the epoch's rows are complete.
    /// It begins at 0, so that nothing before 1970 stays open (Spark's rule); `i64::MIN` in a query that defines no watermark.
    pub watermark_ms: i64,
    /// The watermark of the epoch before, by which rows are late (Spark's rule: rows at or before it); 0 in the first epoch;
    /// `i64::MIN` in a query that defines no watermark.
    pub late_watermark_ms: i64,
    /// Processing time of the open epoch as its plan fixes it, in milliseconds since 1970.
    pub batch_timestamp_ms: i64,
    /// Event times later than this do not move the watermark, in milliseconds since 1970; `i64::MAX` without such a bound.
    pub max_event_time_ms: i64,
    /// The watermark is kept for each split: operators that define it answer [`Operator::take_split_event_times`].
    pub times_by_split: bool,
    /// Somebody reads the late rows of this operator ([`Outbox::emit_late`]).
    pub late_output: bool,
    /// Where the rows being processed come from.
    pub origin: Origin,
    /// The counters to report to.
    pub metrics: Arc<OperatorMetrics>,
}

impl OperatorContext {
    /// The context of a subtask before its first epoch.
    pub fn new(uid: impl Into<String>, subtask: usize, parallelism: usize) -> Self {
        Self {
            uid: uid.into(),
            subtask,
            parallelism,
            epoch: Epoch::FIRST,
            watermark_ms: i64::MIN,
            late_watermark_ms: i64::MIN,
            batch_timestamp_ms: 0,
            max_event_time_ms: i64::MAX,
            times_by_split: false,
            late_output: false,
            origin: Origin::default(),
            metrics: Arc::new(OperatorMetrics::default()),
        }
    }
}

/// Collects what an operator emits.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) rows: Vec<Rows>,
    pub(crate) late: Vec<Rows>,
}

impl Outbox {
    /// Emits rows; empty ones are skipped.
    pub fn emit(&mut self, rows: Rows) {
        if rows.num_rows() > 0 {
            self.rows.push(rows);
        }
    }

    /// Hands rows that came too late, as they came, to whoever reads the operator's late output (see
    /// [`OperatorContext::late_output`]; without a reader they go nowhere). Count them with [`OperatorMetrics::add_late`] either way.
    pub fn emit_late(&mut self, rows: Rows) {
        if rows.num_rows() > 0 {
            self.late.push(rows);
        }
    }

    /// Takes what was emitted so far (for tests of operators).
    pub fn take(&mut self) -> Vec<Rows> {
        std::mem::take(&mut self.rows)
    }

    /// Takes the late rows handed over so far (for tests of operators).
    pub fn take_late(&mut self) -> Vec<Rows> {
        std::mem::take(&mut self.late)
    }
}

/// Event times an operator has seen in the open epoch, in milliseconds since 1970; rounded down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventTimeStats {
    /// Smallest.
    pub min_ms: i64,
    /// Largest; what the watermark follows.
    pub max_ms: i64,
    /// Sum, for the average.
    pub sum_ms: f64,
    /// Number of event times that were not null.
    pub count: u64,
    /// How far the watermark stays behind the largest.
    pub delay_ms: i64,
}

/// Event times of one split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitEventTimes {
    /// The source, as in [`Origin::source`].
    pub source: u32,
    /// The split of the epoch's plan, as in [`Origin::split`].
    pub split: u32,
    /// What was seen.
    pub stats: EventTimeStats,
}

/// One parallel instance of a step of the dataflow.
///
/// Calls come one at a time, from one thread: any number of `process`, then for each barrier `on_watermark` (if the
/// watermark moved), `on_epoch_end`, `snapshot`. After a restart `restore` comes first. The same rows in the same order must give
/// the same output (invariant E8): no wall clock, no unordered iteration.
pub trait Operator: Send {
    /// Handles rows of one input (inputs are numbered as they were connected).
    ///
    /// # Errors
    /// An error ends the generation; row-level trouble the user asked to tolerate is counted instead.
    fn process(
        &mut self,
        input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()>;

    /// The watermark moved to `context.watermark_ms`: emit and forget what it closes.
    ///
    /// # Errors
    /// As `process`.
    fn on_watermark(&mut self, _context: &OperatorContext, _out: &mut Outbox) -> Result<()> {
        Ok(())
    }

    /// All rows of the epoch were processed: emit what is due once per epoch.
    ///
    /// # Errors
    /// As `process`.
    fn on_epoch_end(&mut self, _context: &OperatorContext, _out: &mut Outbox) -> Result<()> {
        Ok(())
    }

    /// The state after the epoch, or `None` for an operator without state. It is durable before the epoch commits.
    ///
    /// # Errors
    /// If the state cannot be written down.
    fn snapshot(&mut self, _epoch: Epoch) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Takes back what `snapshot` returned for the last committed epoch. Called before any row.
    ///
    /// # Errors
    /// If the bytes are not what `snapshot` wrote.
    fn restore(&mut self, _snapshot: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Takes its state tables, restored to the last committed epoch; called once before any row if the spec declares tables.
    ///
    /// # Errors
    /// If the state does not fit the operator.
    fn open(&mut self, _state: OperatorState, context: &OperatorContext) -> Result<()> {
        Err(WeirError::internal(format!(
            "operator '{}' declares state tables and does not take them",
            context.uid
        )))
    }

    /// The state tables, for the runtime, which makes them durable at the end of each epoch.
    fn state(&mut self) -> Option<&mut OperatorState> {
        None
    }

    /// Rows that the state holds, for progress, where an entry of the tables can stand for several; `None`: the entries are counted.
    fn state_rows(&self) -> Option<u64> {
        None
    }

    /// Event times seen since the last call, for operators that define a watermark.
    fn take_event_times(&mut self) -> Option<EventTimeStats> {
        None
    }

    /// The same by split, where the context asks for it ([`OperatorContext::times_by_split`]).
    fn take_split_event_times(&mut self) -> Vec<SplitEventTimes> {
        Vec::new()
    }
}
