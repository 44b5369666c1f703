//! Collecting an epoch in one place: what the sinks that hand whole epochs to code of this process have in common.
//!
//! Writers keep the rows of an epoch in memory they share with the committer. The committer puts them into the order
//! of their origins, which does not depend on thread timing, and hands them over once per epoch; asked again for an
//! epoch it has handed over, it answers "already committed". Nothing survives the process: after a crash the engine
//! replays the epoch with the same rows.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{BooleanArray, RecordBatch};
use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;
use weir_runtime::{
    CommitOutcome, Committable, Epoch, EpochBatch, Result, RowKind, Rows, SinkCommitter,
    SinkContext, SinkWriter, WeirError,
};

/// Rows beyond a limit that a writer keeps before it sorts and cuts, so that it does not sort for every batch.
const SLACK_ROWS: usize = 16_384;

/// A future as the callbacks of sinks return it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The rows of open epochs, shared by the writers and the committer of one sink. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    state: Arc<Mutex<State>>,
    limit_rows: Option<usize>,
}

#[derive(Debug, Default)]
struct State {
    /// The generation that may write.
    generation: u64,
    /// Whose epochs these are.
    query: Option<Uuid>,
    /// Rows by epoch and subtask, in order of arrival.
    open: BTreeMap<Epoch, BTreeMap<usize, Staged>>,
    /// The last epoch that was handed over.
    done: Option<Epoch>,
}

#[derive(Debug, Default)]
struct Staged {
    batches: Vec<EpochBatch>,
    /// Rows held in `batches`.
    held: usize,
    /// Rows that were written, held or not.
    written: u64,
}

impl Collector {
    /// A collector of all rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A collector for sinks that need only the first `limit_rows` rows of an epoch: memory stays bounded by the limit
    /// and the parallelism. More rows than the limit may be handed over, never fewer if there are as many.
    #[must_use]
    pub fn first_rows(limit_rows: usize) -> Self {
        Self {
            limit_rows: Some(limit_rows),
            ..Self::default()
        }
    }

    /// A generation starts: rows of dead generations go away, their writers can add nothing any more.
    pub fn open(&self, context: &SinkContext) {
        let mut state = self.lock();
        if state.query != Some(context.query_id) {
            state.done = None;
        }
        state.query = Some(context.query_id);
        state.generation = context.generation;
        state.open.clear();
    }

    /// The last epoch that was handed over in this process.
    #[must_use]
    pub fn done(&self) -> Option<Epoch> {
        self.lock().done
    }

    /// The writer of one subtask of the generation that was opened last.
    #[must_use]
    pub fn writer(&self, context: &SinkContext, subtask: usize) -> Box<dyn SinkWriter> {
        Box::new(CollectWriter {
            collector: self.clone(),
            generation: context.generation,
            subtask,
        })
    }

    /// A committer that gives each epoch to `hand_over`: its batches by origin, then subtask, then arrival. An error of
    /// `hand_over` leaves the epoch open, so that it is handed over again when it is replayed.
    #[must_use]
    pub fn committer<F>(&self, context: &SinkContext, hand_over: F) -> Box<dyn SinkCommitter>
    where
        F: FnMut(Epoch, Vec<EpochBatch>) -> BoxFuture<Result<()>> + Send + 'static,
    {
        Box::new(CollectCommitter {
            collector: self.clone(),
            generation: context.generation,
            hand_over,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, generation: u64, subtask: usize, batch: EpochBatch) -> Result<()> {
        let mut state = self.lock();
        if state.generation != generation {
            return Err(WeirError::killed("the writer of a sink"));
        }
        let staged = state
            .open
            .entry(batch.epoch)
            .or_default()
            .entry(subtask)
            .or_default();
        staged.add(batch, self.limit_rows);
        Ok(())
    }

    fn written(&self, epoch: Epoch, subtask: usize) -> u64 {
        let state = self.lock();
        let staged = state
            .open
            .get(&epoch)
            .and_then(|subtasks| subtasks.get(&subtask));
        staged.map_or(0, |staged| staged.written)
    }

    /// The rows of an epoch in order, and how many were written; `None` if they were handed over before.
    fn ordered(&self, generation: u64, epoch: Epoch) -> Result<Option<(Vec<EpochBatch>, u64)>> {
        let state = self.lock();
        if state.generation != generation {
            return Err(WeirError::killed("the committer of a sink"));
        }
        if state.done.is_some_and(|done| done >= epoch) {
            return Ok(None);
        }
        let staged = state
            .open
            .get(&epoch)
            .into_iter()
            .flat_map(BTreeMap::values);
        let written = staged.clone().map(|staged| staged.written).sum();
        let mut batches: Vec<EpochBatch> = staged
            .flat_map(|staged| staged.batches.iter().cloned())
            .collect();
        // Stable: batches of one origin keep the order of subtasks and of arrival.
        batches.sort_by_key(|batch| batch.origin);
        Ok(Some((batches, written)))
    }

    fn finish(&self, epoch: Epoch, handed_over: bool) {
        let mut state = self.lock();
        state.open.retain(|open, _| *open > epoch);
        if handed_over {
            state.done = Some(epoch);
        }
    }
}

impl Staged {
    fn add(&mut self, batch: EpochBatch, limit_rows: Option<usize>) {
        self.held += batch.rows.num_rows();
        self.written += batch.rows.num_rows() as u64;
        self.batches.push(batch);
        if let Some(limit) = limit_rows.filter(|limit| self.held > limit + SLACK_ROWS) {
            self.cut(limit);
        }
    }

    /// Keeps the first rows of this subtask, whole batches of them.
    fn cut(&mut self, limit_rows: usize) {
        self.batches.sort_by_key(|batch| batch.origin);
        let mut kept = 0;
        self.batches.retain(|batch| {
            let needed = kept < limit_rows;
            kept += if needed { batch.rows.num_rows() } else { 0 };
            needed
        });
        self.held = kept;
    }
}

struct CollectWriter {
    collector: Collector,
    generation: u64,
    subtask: usize,
}

#[async_trait]
impl SinkWriter for CollectWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        self.collector.add(self.generation, self.subtask, batch)
    }

    async fn prepare(&mut self, epoch: Epoch) -> Result<Committable> {
        Ok(json!({ "rows": self.collector.written(epoch, self.subtask) }))
    }
}

struct CollectCommitter<F> {
    collector: Collector,
    generation: u64,
    hand_over: F,
}

#[async_trait]
impl<F> SinkCommitter for CollectCommitter<F>
where
    F: FnMut(Epoch, Vec<EpochBatch>) -> BoxFuture<Result<()>> + Send + 'static,
{
    async fn commit(
        &mut self,
        epoch: Epoch,
        committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        let Some((batches, written)) = self.collector.ordered(self.generation, epoch)? else {
            self.collector.finish(epoch, false);
            return Ok(CommitOutcome::AlreadyCommitted);
        };
        let announced = rows_of(&committables);
        if announced != written {
            return Err(WeirError::internal(format!(
                "the writers announced {announced} rows of epoch {epoch}, {written} are there"
            )));
        }
        (self.hand_over)(epoch, batches).await?;
        self.collector.finish(epoch, true);
        Ok(CommitOutcome::Committed)
    }
}

/// Sum of the row counts in committables of this module's form, `{"rows": n}`.
pub(crate) fn rows_of(committables: &[Committable]) -> u64 {
    committables
        .iter()
        .filter_map(|part| part.get("rows").and_then(Value::as_u64))
        .sum()
}

/// The rows that are part of the result after an epoch: inserts and the new values of changed rows.
///
/// # Errors
/// If the filter kernel fails.
pub fn current_rows(rows: &Rows) -> Result<RecordBatch> {
    if !withdraws(rows) {
        return Ok(rows.batch().clone());
    }
    let kinds = (0..rows.num_rows()).map(|row| rows.kind(row));
    let keep: BooleanArray = kinds.map(|kind| Some(!is_withdrawal(kind))).collect();
    Ok(rows.filter(&keep)?.into_batch())
}

/// True if some of the rows take back earlier ones.
#[must_use]
pub fn withdraws(rows: &Rows) -> bool {
    rows.kinds().is_some_and(|kinds| !kinds.is_empty())
        && (0..rows.num_rows()).any(|row| is_withdrawal(rows.kind(row)))
}

fn is_withdrawal(kind: RowKind) -> bool {
    matches!(kind, RowKind::UpdateBefore | RowKind::Delete)
}

/// What a panic said, for an error message.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".to_owned())
}

#[cfg(test)]
mod tests;
