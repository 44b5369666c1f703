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
mod tests {
    #![allow(clippy::unwrap_used)]

    use weir_runtime::{Fault, OutputMode};

    use super::*;
    use crate::test_context::{changes, numbers, rows, sink_context, values};

    type Seen = Arc<Mutex<Vec<(u64, Vec<i64>)>>>;

    fn recording(
        collector: &Collector,
        context: &SinkContext,
        seen: &Seen,
    ) -> Box<dyn SinkCommitter> {
        let seen = Arc::clone(seen);
        collector.committer(context, move |epoch, batches| {
            let batches: Vec<_> = batches
                .iter()
                .map(|batch| batch.rows.batch().clone())
                .collect();
            seen.lock().unwrap().push((epoch.0, values(&batches)));
            Box::pin(async { Ok(()) })
        })
    }

    async fn prepare(writers: &mut [Box<dyn SinkWriter>], epoch: u64) -> Vec<Committable> {
        let mut committables = Vec::new();
        for writer in writers {
            committables.push(writer.prepare(Epoch(epoch)).await.unwrap());
        }
        committables
    }

    #[tokio::test]
    async fn collected_rows_come_by_origin_whatever_the_subtask_and_time() {
        let (collector, seen) = (Collector::new(), Seen::default());
        let context = sink_context(1, 1, OutputMode::Append, None);
        collector.open(&context);
        let mut writers = [collector.writer(&context, 0), collector.writer(&context, 1)];
        writers[1].write(rows(0, 0, 1, &[3])).await.unwrap();
        writers[1].write(rows(0, 0, 0, &[2])).await.unwrap();
        writers[0].write(rows(0, 1, 0, &[4])).await.unwrap();
        writers[0].write(rows(0, 0, 0, &[1])).await.unwrap();
        writers[0].write(rows(1, 0, 0, &[5])).await.unwrap();
        writers[0].write(rows(0, 2, 0, &[])).await.unwrap();
        let mut committer = recording(&collector, &context, &seen);
        let committables = prepare(&mut writers, 0).await;
        assert_eq!(committables, [json!({"rows": 2}), json!({"rows": 2})]);
        let first = committer
            .commit(Epoch(0), committables.clone())
            .await
            .unwrap();
        let second = committer.commit(Epoch(0), committables).await.unwrap();
        assert_eq!(first, CommitOutcome::Committed);
        assert_eq!(second, CommitOutcome::AlreadyCommitted);
        let committables = prepare(&mut writers, 1).await;
        committer.commit(Epoch(1), committables).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [(0, vec![1, 2, 3, 4]), (1, vec![5])]);
    }

    #[tokio::test]
    async fn collected_rows_of_a_dead_generation_are_dropped_and_its_writers_refused() {
        let (collector, seen) = (Collector::new(), Seen::default());
        let old = sink_context(1, 1, OutputMode::Append, None);
        collector.open(&old);
        let mut dead = collector.writer(&old, 0);
        dead.write(rows(0, 0, 0, &[1])).await.unwrap();
        let new = sink_context(1, 2, OutputMode::Append, None);
        collector.open(&new);
        assert_eq!(
            dead.write(rows(0, 0, 1, &[2])).await.unwrap_err().fault(),
            Fault::Killed
        );
        let mut writers = [collector.writer(&new, 0)];
        writers[0].write(rows(0, 0, 0, &[1])).await.unwrap();
        let committables = prepare(&mut writers, 0).await;
        recording(&collector, &new, &seen)
            .commit(Epoch(0), committables)
            .await
            .unwrap();
        assert_eq!(*seen.lock().unwrap(), [(0, vec![1])]);
    }

    #[tokio::test]
    async fn hand_over_that_fails_runs_again_and_one_that_succeeded_does_not() {
        let collector = Collector::new();
        let context = sink_context(1, 1, OutputMode::Append, None);
        collector.open(&context);
        let mut writers = [collector.writer(&context, 0)];
        writers[0].write(rows(0, 0, 0, &[7])).await.unwrap();
        let mut calls = 0;
        let mut committer = collector.committer(&context, move |_, batches| {
            calls += 1;
            let failed = calls == 1;
            Box::pin(async move {
                assert_eq!(batches.len(), 1, "the rows are still there");
                if failed {
                    Err(WeirError::external("not now"))
                } else {
                    Ok(())
                }
            })
        });
        let committables = prepare(&mut writers, 0).await;
        assert!(
            committer
                .commit(Epoch(0), committables.clone())
                .await
                .is_err()
        );
        assert_eq!(collector.done(), None);
        let outcome = committer.commit(Epoch(0), committables).await.unwrap();
        assert_eq!(
            (outcome, collector.done()),
            (CommitOutcome::Committed, Some(Epoch(0)))
        );
        // The next generation of the query replays the epoch; another query starts from nothing.
        collector.open(&sink_context(1, 2, OutputMode::Append, None));
        assert_eq!(collector.done(), Some(Epoch(0)));
        collector.open(&sink_context(2, 1, OutputMode::Append, None));
        assert_eq!(collector.done(), None);
    }

    #[tokio::test]
    async fn committables_that_do_not_fit_the_rows_are_a_defect() {
        let collector = Collector::new();
        let context = sink_context(1, 1, OutputMode::Append, None);
        collector.open(&context);
        let mut committer = collector.committer(&context, |_, _| Box::pin(async { Ok(()) }));
        let error = committer
            .commit(Epoch(0), vec![json!({"rows": 3})])
            .await
            .unwrap_err();
        assert_eq!(error.fault(), Fault::Internal);
    }

    #[tokio::test]
    async fn first_rows_keeps_the_first_of_each_subtask_within_bounds() {
        let collector = Collector::first_rows(2);
        let context = sink_context(1, 1, OutputMode::Append, None);
        collector.open(&context);
        let mut writers = [collector.writer(&context, 0)];
        for sequence in (0..60).rev() {
            let value = i64::try_from(sequence).unwrap();
            writers[0]
                .write(rows(0, 0, sequence, &[value; 1000]))
                .await
                .unwrap();
        }
        let committables = prepare(&mut writers, 0).await;
        assert_eq!(committables, [json!({"rows": 60_000})]);
        let (batches, written) = collector.ordered(1, Epoch(0)).unwrap().unwrap();
        assert_eq!(
            (written, values(&[batches[0].rows.batch().clone()])[0]),
            (60_000, 0)
        );
        assert!(batches.len() < 20, "held {} batches", batches.len());
    }

    #[test]
    fn current_rows_leave_out_what_was_taken_back() {
        let inserts = Rows::inserts(numbers(&[1]));
        assert_eq!(values(&[current_rows(&inserts).unwrap()]), [1]);
        let changed = changes(0, &[1, 2, 3, 4], &[0, 1, 2, 3]).rows;
        assert!(withdraws(&changed) && !withdraws(&inserts));
        assert_eq!(values(&[current_rows(&changed).unwrap()]), [1, 3]);
    }
}
