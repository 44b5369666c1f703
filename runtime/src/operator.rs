//! What the author of an operator implements: a synchronous state machine over batches. It never sees an actor or a barrier;
//! alignment, snapshots and forwarding happen in the task loops, so an operator can be tested by calling it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use weir_state::{Epoch, OperatorState, TableSpec};

use crate::error::Result;
use crate::message::{ChangelogMode, Origin, Rows};

/// Row counters of one operator subtask, so that rows in = rows used + late + duplicate + bad + filtered (invariant E9).
#[derive(Debug, Default)]
pub struct OperatorMetrics {
    pub(crate) rows_in: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    late: AtomicU64,
    duplicate: AtomicU64,
    bad: AtomicU64,
    filtered: AtomicU64,
}

impl OperatorMetrics {
    /// Counts rows that came too late.
    pub fn add_late(&self, rows: usize) {
        self.late.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts rows dropped as duplicates.
    pub fn add_duplicate(&self, rows: usize) {
        self.duplicate.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts rows that could not be used.
    pub fn add_bad(&self, rows: usize) {
        self.bad.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts rows a condition removed.
    pub fn add_filtered(&self, rows: usize) {
        self.filtered.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn snapshot(&self) -> OperatorCounts {
        OperatorCounts {
            rows_in: self.rows_in.load(Ordering::Relaxed),
            rows_out: self.rows_out.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            duplicate: self.duplicate.load(Ordering::Relaxed),
            bad: self.bad.load(Ordering::Relaxed),
            filtered: self.filtered.load(Ordering::Relaxed),
        }
    }
}

/// Row counters at one moment, since the start of the generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorCounts {
    /// Rows that entered.
    pub rows_in: u64,
    /// Rows that left.
    pub rows_out: u64,
    /// Rows dropped as late.
    pub late: u64,
    /// Rows dropped as duplicates.
    pub duplicate: u64,
    /// Rows that could not be used.
    pub bad: u64,
    /// Rows removed by a condition.
    pub filtered: u64,
}

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
    /// The watermark of the open epoch, which closes at its end, in milliseconds since 1970; `i64::MIN` before the first.
    pub watermark_ms: i64,
    /// The watermark of the epoch before, by which rows are late (Spark's rule); `i64::MIN` if there was none.
    pub late_watermark_ms: i64,
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
            origin: Origin::default(),
            metrics: Arc::new(OperatorMetrics::default()),
        }
    }
}

/// Collects what an operator emits.
#[derive(Debug, Default)]
pub struct Outbox(pub(crate) Vec<Rows>);

impl Outbox {
    /// Emits rows; empty ones are skipped.
    pub fn emit(&mut self, rows: Rows) {
        if rows.num_rows() > 0 {
            self.0.push(rows);
        }
    }

    /// Takes what was emitted so far (for tests of operators).
    pub fn take(&mut self) -> Vec<Rows> {
        std::mem::take(&mut self.0)
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
        Err(crate::error::WeirError::internal(format!(
            "operator '{}' declares state tables and does not take them",
            context.uid
        )))
    }

    /// The state tables, for the runtime, which makes them durable at the end of each epoch.
    fn state(&mut self) -> Option<&mut OperatorState> {
        None
    }

    /// Event times seen since the last call, for operators that define a watermark.
    fn take_event_times(&mut self) -> Option<EventTimeStats> {
        None
    }
}

type SchemaFn = dyn Fn(&[SchemaRef]) -> Result<SchemaRef> + Send + Sync;
type CreateFn = dyn Fn(&OperatorContext) -> Result<Box<dyn Operator>> + Send + Sync;

/// How to make the parallel instances of an operator, and what is known of it before it runs.
#[derive(Clone)]
pub struct OperatorSpec {
    pub(crate) kind: String,
    pub(crate) detail: String,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) stateful: bool,
    pub(crate) changelog: ChangelogMode,
    pub(crate) event_time: bool,
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) watermark_epochs: bool,
    pub(crate) state_name: String,
    schema: Arc<SchemaFn>,
    create: Arc<CreateFn>,
}

impl OperatorSpec {
    /// A stateless operator of this kind (`filter`, `project`, …) whose output has the schema of its first input.
    /// `create` is called once per subtask and generation.
    pub fn new<O, F>(kind: impl Into<String>, create: F) -> Self
    where
        O: Operator + 'static,
        F: Fn(&OperatorContext) -> Result<O> + Send + Sync + 'static,
    {
        Self {
            kind: kind.into(),
            detail: String::new(),
            params: BTreeMap::new(),
            stateful: false,
            changelog: ChangelogMode::AppendOnly,
            event_time: false,
            tables: Vec::new(),
            watermark_epochs: false,
            state_name: String::new(),
            schema: Arc::new(|inputs: &[SchemaRef]| {
                inputs
                    .first()
                    .cloned()
                    .ok_or_else(|| crate::error::WeirError::plan("an operator needs an input"))
            }),
            create: Arc::new(move |context| Ok(Box::new(create(context)?))),
        }
    }

    /// Output schema as a function of the input schemas.
    #[must_use]
    pub fn with_schema_fn<F>(mut self, schema: F) -> Self
    where
        F: Fn(&[SchemaRef]) -> Result<SchemaRef> + Send + Sync + 'static,
    {
        self.schema = Arc::new(schema);
        self
    }

    /// A fixed output schema.
    #[must_use]
    pub fn with_schema(self, schema: SchemaRef) -> Self {
        self.with_schema_fn(move |_| Ok(Arc::clone(&schema)))
    }

    /// Text for `explain`.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Declares state: the operator must keep its id, kind and these parameters for its checkpoint to be accepted.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// Declares state tables, which [`Operator::open`] gets in this order.
    #[must_use]
    pub fn with_tables(mut self, tables: Vec<TableSpec>) -> Self {
        self.stateful = true;
        self.tables = tables;
        self
    }

    /// Asks for an epoch without new rows when the watermark has moved and no rows wait.
    #[must_use]
    pub fn with_watermark_epochs(mut self) -> Self {
        self.watermark_epochs = true;
        self
    }

    /// Name under which progress reports the state (Spark's: `stateStoreSave`, `dedupe`, …); the kind if never called.
    #[must_use]
    pub fn with_state_name(mut self, name: impl Into<String>) -> Self {
        self.state_name = name.into();
        self
    }

    /// A parameter that decides what the state means (keys, window size, delay, …).
    #[must_use]
    pub fn with_param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// Declares that the output changes or removes earlier rows.
    #[must_use]
    pub fn with_changelog(mut self, changelog: ChangelogMode) -> Self {
        self.changelog = changelog;
        self
    }

    /// Declares that the operator reports event times the watermark follows ([`Operator::take_event_times`]).
    #[must_use]
    pub fn with_event_times(mut self) -> Self {
        self.event_time = true;
        self
    }

    /// Kind of the operator.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// State tables of each subtask, in the order in which [`Operator::open`] gets them.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Output schema for these inputs.
    ///
    /// # Errors
    /// If the inputs do not fit the operator.
    pub fn schema(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        (self.schema)(inputs)
    }

    /// Makes the instance of one subtask.
    ///
    /// # Errors
    /// Whatever the constructor reports.
    pub fn create(&self, context: &OperatorContext) -> Result<Box<dyn Operator>> {
        (self.create)(context)
    }
}

impl fmt::Debug for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorSpec")
            .field("kind", &self.kind)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}
