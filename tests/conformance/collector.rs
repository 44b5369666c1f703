//! A sink that keeps what every commit made visible, again for an epoch that is committed again: what the
//! cases expect of a sink that cannot tell a repeated epoch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use weir::runtime::{
    CommitOutcome, Committable, Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, Sink,
    SinkCommitter, SinkContext, SinkWriter,
};

/// The sink; clones share what was taken.
#[derive(Clone, Default)]
pub(crate) struct Collector {
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// Rows of epochs that are not committed.
    open: BTreeMap<Epoch, Vec<EpochBatch>>,
    /// Commits since the last look.
    committed: Vec<(Epoch, Vec<RecordBatch>)>,
}

impl Collector {
    /// The commits since the last call, in order.
    pub(crate) fn take(&self) -> Vec<(Epoch, Vec<RecordBatch>)> {
        std::mem::take(&mut self.lock().committed)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for Collector {
    fn description(&self) -> String {
        "Collector".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("collector")
    }

    fn max_parallelism(&self) -> Option<usize> {
        Some(1)
    }

    async fn open(&self, _context: &SinkContext) -> Result<()> {
        self.lock().open.clear();
        Ok(())
    }

    fn writer(&self, _context: &SinkContext, _subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }

    fn committer(&self, _context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl SinkWriter for Collector {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        let mut taken = self.lock();
        taken.open.entry(batch.epoch).or_default().push(batch);
        Ok(())
    }

    async fn prepare(&mut self, _epoch: Epoch) -> Result<Committable> {
        Ok(Committable::Null)
    }
}

#[async_trait]
impl SinkCommitter for Collector {
    async fn commit(
        &mut self,
        epoch: Epoch,
        _committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        let mut taken = self.lock();
        let mut batches = taken.open.remove(&epoch).unwrap_or_default();
        batches.sort_by_key(|batch| batch.origin);
        let batches = batches
            .into_iter()
            .map(|batch| batch.rows.into_batch())
            .collect();
        taken.committed.push((epoch, batches));
        Ok(CommitOutcome::Committed)
    }
}
