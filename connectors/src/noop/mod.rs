//! [`NoopSink`]: takes every row and keeps none; for measuring what a query costs without its output (Spark's sink
//! `noop`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use uuid::Uuid;
use weir_runtime::{
    CommitOutcome, Committable, Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, Sink,
    SinkCommitter, SinkContext, SinkWriter,
};

use crate::collect::rows_of;

/// Counts rows and drops them. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct NoopSink {
    count: Arc<Mutex<Count>>,
}

#[derive(Debug, Default)]
struct Count {
    rows: u64,
    /// The last epoch that was counted, and whose it is.
    last: Option<(Uuid, Epoch)>,
}

impl NoopSink {
    /// A sink that has counted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Rows of committed epochs so far; a replayed epoch is counted once.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.lock().rows
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for NoopSink {
    fn description(&self) -> String {
        "NoopSink".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("noop_sink")
    }

    fn needs_checkpoint(&self) -> bool {
        false
    }

    async fn open(&self, _context: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _context: &SinkContext, _subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(NoopWriter { rows: 0 }))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(NoopCommitter {
            sink: self.clone(),
            query: context.query_id,
        }))
    }
}

struct NoopWriter {
    /// Rows of the open epoch.
    rows: u64,
}

#[async_trait]
impl SinkWriter for NoopWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        self.rows += batch.rows.num_rows() as u64;
        Ok(())
    }

    async fn prepare(&mut self, _epoch: Epoch) -> Result<Committable> {
        Ok(json!({ "rows": std::mem::take(&mut self.rows) }))
    }
}

struct NoopCommitter {
    sink: NoopSink,
    query: Uuid,
}

#[async_trait]
impl SinkCommitter for NoopCommitter {
    async fn commit(
        &mut self,
        epoch: Epoch,
        committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        let mut count = self.sink.lock();
        if count
            .last
            .is_some_and(|(query, last)| query == self.query && last >= epoch)
        {
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        count.rows += rows_of(&committables);
        count.last = Some((self.query, epoch));
        Ok(CommitOutcome::Committed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::test_context::{Generation, rows, sink_context};

    #[tokio::test]
    async fn noop_counts_each_epoch_once() {
        let sink = NoopSink::new();
        for generation in 1..=2 {
            let context = sink_context(1, generation, OutputMode::Append, None);
            let mut generation = Generation::open(&sink, &context).await.unwrap();
            let epoch = vec![(0, rows(0, 0, 0, &[1, 2])), (1, rows(0, 1, 0, &[3]))];
            generation.epoch(0, epoch).await.unwrap();
            assert_eq!(sink.rows(), 3);
        }
        let context = sink_context(1, 3, OutputMode::Complete, Some(0));
        let mut generation = Generation::open(&sink, &context).await.unwrap();
        let outcome = generation.epoch(1, vec![]).await.unwrap();
        assert_eq!((outcome, sink.rows()), (CommitOutcome::Committed, 3));
        let other = sink_context(2, 1, OutputMode::Append, None);
        let mut generation = Generation::open(&sink, &other).await.unwrap();
        generation
            .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
            .await
            .unwrap();
        assert_eq!(sink.rows(), 4);
    }
}
