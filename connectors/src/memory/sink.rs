//! [`MemorySink`]: the result as a table in memory, and [`MemoryTable`], the view of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use uuid::Uuid;
use weir_runtime::{
    Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, Rows, Sink, SinkCommitter,
    SinkContext, SinkWriter, WeirError,
};

use crate::collect::{Collector, current_rows};

/// Keeps the rows of every committed epoch in memory: in append and update mode all of them, in complete mode those of
/// the last epoch. Clones share the table.
///
/// A replayed epoch is recognised and discarded, as long as the process lives. As the rows do not survive it, a
/// checkpoint that has committed more epochs than the table holds is refused, except in complete mode, where the next
/// epoch brings the whole result (Spark: "does not support recovering from checkpoint location").
#[derive(Debug, Clone, Default)]
pub struct MemorySink {
    table: MemoryTable,
    collector: Collector,
}

impl MemorySink {
    /// A sink with an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The table; shows each epoch as soon as it is committed.
    #[must_use]
    pub fn table(&self) -> MemoryTable {
        self.table.clone()
    }
}

/// What a [`MemorySink`] has got so far. Cheap to clone; every clone shows the same rows.
#[derive(Debug, Clone, Default)]
pub struct MemoryTable {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    query: Option<Uuid>,
    schema: Option<SchemaRef>,
    epochs: Vec<(Epoch, Vec<Rows>)>,
    /// The last committed epoch; kept apart because complete mode forgets the rows of epochs.
    committed: Option<Epoch>,
}

impl MemoryTable {
    /// Columns; none before a query has started.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let schema = self.lock().schema.clone();
        schema.unwrap_or_else(|| Arc::new(Schema::empty()))
    }

    /// All rows: by epoch, inside an epoch in the order of their origins. Of rows with kinds those that insert and the
    /// new values of changed ones, as Spark's memory sink shows them in update mode.
    #[must_use]
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.epochs()
            .into_iter()
            .flat_map(|(_, batches)| batches)
            .collect()
    }

    /// The rows of [`MemoryTable::batches`] by committed epoch, also epochs without rows; in complete mode the last.
    #[must_use]
    pub fn epochs(&self) -> Vec<(Epoch, Vec<RecordBatch>)> {
        let changes = self.changes();
        let current = |rows: &Rows| {
            // Rows and kinds are of one length, the only thing the kernel checks.
            current_rows(rows).unwrap_or_else(|_| rows.batch().clone())
        };
        changes
            .iter()
            .map(|(epoch, rows)| (*epoch, rows.iter().map(current).collect()))
            .collect()
    }

    /// Every row with its kind, by epoch.
    #[must_use]
    pub fn changes(&self) -> Vec<(Epoch, Vec<Rows>)> {
        self.lock().epochs.clone()
    }

    /// Number of rows of [`MemoryTable::batches`].
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.batches().iter().map(RecordBatch::num_rows).sum()
    }

    /// The last committed epoch.
    #[must_use]
    pub fn committed_epoch(&self) -> Option<Epoch> {
        self.lock().committed
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that a query may go on with the rows that are there.
    fn open(&self, context: &SinkContext) -> Result<()> {
        let mut content = self.lock();
        if let Some(other) = content.query.filter(|query| *query != context.query_id) {
            return Err(WeirError::config(format!(
                "the memory sink holds the rows of query {other} and cannot take those of query {}: give each query a sink of its own",
                context.query_id
            )));
        }
        let missing = context
            .committed_epoch
            .filter(|epoch| content.committed < Some(*epoch));
        if let Some(epoch) = missing.filter(|_| context.mode != OutputMode::Complete) {
            let held = content
                .committed
                .map_or("none".to_owned(), |held| format!("up to {held}"));
            return Err(WeirError::plan(format!(
                "the memory sink does not support recovering from checkpoint location in {} mode: epoch {epoch} is committed and the table holds {held}; use a new checkpoint location to start over",
                context.mode
            )));
        }
        content.query = Some(context.query_id);
        content.schema = Some(Arc::clone(&context.schema));
        Ok(())
    }

    /// Makes an epoch visible, unless it is.
    fn commit(&self, epoch: Epoch, mode: OutputMode, batches: Vec<EpochBatch>) {
        let mut content = self.lock();
        if content.committed >= Some(epoch) {
            return;
        }
        if mode == OutputMode::Complete {
            content.epochs.clear();
        }
        content
            .epochs
            .push((epoch, batches.into_iter().map(|batch| batch.rows).collect()));
        content.committed = Some(epoch);
    }
}

#[async_trait]
impl Sink for MemorySink {
    fn description(&self) -> String {
        "MemorySink".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("memory_sink")
    }

    fn needs_checkpoint(&self) -> bool {
        false
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.table.open(context)?;
        self.collector.open(context);
        Ok(())
    }

    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(self.collector.writer(context, subtask))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        let (table, mode) = (self.table.clone(), context.mode);
        Ok(self.collector.committer(context, move |epoch, batches| {
            table.commit(epoch, mode, batches);
            Box::pin(async { Ok(()) })
        }))
    }
}
