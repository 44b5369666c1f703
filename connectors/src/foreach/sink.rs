//! [`ForeachSink`]: the sink around a [`ForeachWriter`] for each subtask.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;
use weir_runtime::{
    CommitOutcome, Committable, Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, Sink,
    SinkCommitter, SinkContext, SinkWriter, WeirError,
};

use super::partition::Partition;
use super::{ForeachWriter, RowFunction, RowRef};

type Factory = dyn Fn(usize) -> Result<Box<dyn ForeachWriter>> + Send + Sync;

/// Gives every row to code of the user as it arrives (Spark's `foreach`). At least once; needs a checkpoint, because
/// without one a restart gives all rows again.
#[derive(Clone)]
pub struct ForeachSink {
    factory: Arc<Factory>,
    /// One for each subtask: whoever holds it may call the user's code of that partition.
    turns: Arc<Mutex<BTreeMap<usize, Arc<AsyncMutex<()>>>>>,
}

impl fmt::Debug for ForeachSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachSink").finish_non_exhaustive()
    }
}

impl ForeachSink {
    /// A sink with the writers that `factory` makes, one for each partition (its argument is the partition's id) and
    /// generation.
    #[must_use]
    pub fn new<W: ForeachWriter + 'static>(
        factory: impl Fn(usize) -> Result<W> + Send + Sync + 'static,
    ) -> Self {
        let factory = move |partition| -> Result<Box<dyn ForeachWriter>> {
            Ok(Box::new(factory(partition)?))
        };
        Self {
            factory: Arc::new(factory),
            turns: Arc::default(),
        }
    }

    /// A sink that calls `function` for every row; the partitions call clones of it.
    #[must_use]
    pub fn rows<F>(function: F) -> Self
    where
        F: FnMut(RowRef<'_>) -> Result<()> + Clone + Send + Sync + 'static,
    {
        Self::new(move |_| Ok(RowFunction(function.clone())))
    }

    fn turn(&self, subtask: usize) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(subtask).or_default())
    }
}

#[async_trait]
impl Sink for ForeachSink {
    fn description(&self) -> String {
        "ForeachSink".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("foreach_sink")
    }

    async fn open(&self, _context: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        let waiting = Slot::Waiting {
            writer: (self.factory)(subtask)?,
            turn: self.turn(subtask),
        };
        Ok(Box::new(PartitionWriter {
            subtask,
            slot: waiting,
            rows: 0,
        }))
    }

    fn committer(&self, _context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(NothingToCommit))
    }
}

struct PartitionWriter {
    subtask: usize,
    slot: Slot,
    /// Rows of the open epoch.
    rows: u64,
}

/// Where the partition is.
enum Slot {
    /// The writer of an earlier generation may still be busy.
    Waiting {
        writer: Box<dyn ForeachWriter>,
        turn: Arc<AsyncMutex<()>>,
    },
    /// Between two calls.
    Here(Partition),
    /// On a thread; or lost there when the generation was stopped.
    Away,
}

impl PartitionWriter {
    /// Runs a step of the user's code on a thread that may block.
    async fn run(
        &mut self,
        step: impl FnOnce(&mut Partition) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut partition = match std::mem::replace(&mut self.slot, Slot::Away) {
            Slot::Here(partition) => partition,
            Slot::Waiting { writer, turn } => {
                Partition::new(self.subtask, writer, turn.lock_owned().await)
            }
            Slot::Away => return Err(WeirError::killed("a partition of foreach")),
        };
        let stepped = tokio::task::spawn_blocking(move || {
            let result = step(&mut partition);
            (partition, result)
        });
        let (partition, result) = stepped.await.map_err(|error| {
            WeirError::internal("the thread of a foreach writer ended").with_source(error)
        })?;
        self.slot = Slot::Here(partition);
        result
    }
}

#[async_trait]
impl SinkWriter for PartitionWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        self.rows += batch.rows.num_rows() as u64;
        self.run(move |partition| partition.write(batch.epoch, &batch.rows))
            .await
    }

    async fn prepare(&mut self, epoch: Epoch) -> Result<Committable> {
        self.run(move |partition| partition.finish(epoch)).await?;
        Ok(json!({ "rows": std::mem::take(&mut self.rows) }))
    }
}

/// The rows were handed over when they arrived.
struct NothingToCommit;

#[async_trait]
impl SinkCommitter for NothingToCommit {
    async fn commit(&mut self, _epoch: Epoch, _parts: Vec<Committable>) -> Result<CommitOutcome> {
        Ok(CommitOutcome::Committed)
    }
}
