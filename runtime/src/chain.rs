//! Fused operators of one task: rows go through plain nested calls, depth first, so that one batch is in memory at a time.

use std::sync::Arc;

use weir_state::Epoch;

use crate::error::{Result, WeirError};
use crate::message::{EpochBatch, Origin, Rows};
use crate::operator::{
    EventTimeStats, Operator, OperatorContext, OperatorMetrics, OperatorSpec, Outbox,
};

struct Link {
    operator: Box<dyn Operator>,
    context: OperatorContext,
}

/// Snapshot of one operator of the chain.
#[derive(Debug)]
pub struct ChainSnapshot {
    /// Id of the operator.
    pub uid: String,
    /// Its state.
    pub bytes: Vec<u8>,
}

/// The operators of one task, first to last; may be empty.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
}

impl Chain {
    /// Makes the instances of one subtask; `specs` are (operator id, how to make it).
    ///
    /// # Errors
    /// What the constructors report.
    pub fn create(
        specs: &[(String, OperatorSpec)],
        subtask: usize,
        parallelism: usize,
    ) -> Result<Self> {
        let mut links = Vec::with_capacity(specs.len());
        for (uid, spec) in specs {
            let context = OperatorContext::new(uid, subtask, parallelism);
            let operator = spec
                .create(&context)
                .map_err(|error| error.at(uid, subtask))?;
            links.push(Link { operator, context });
        }
        Ok(Self { links })
    }

    /// Counters of each operator.
    pub fn metrics(&self) -> Vec<(String, Arc<OperatorMetrics>)> {
        self.links
            .iter()
            .map(|link| (link.context.uid.clone(), Arc::clone(&link.context.metrics)))
            .collect()
    }

    /// Gives the operator `uid` its snapshot back; false if the chain has no such operator.
    ///
    /// # Errors
    /// If the operator refuses it.
    pub fn restore(&mut self, uid: &str, snapshot: &[u8]) -> Result<bool> {
        match self.links.iter_mut().find(|link| link.context.uid == uid) {
            None => Ok(false),
            Some(link) => {
                let subtask = link.context.subtask;
                link.operator
                    .restore(snapshot)
                    .map_err(|error| error.at(uid, subtask))?;
                Ok(true)
            }
        }
    }

    /// Sends a batch of `input` through all operators; what comes out keeps its origin.
    ///
    /// # Errors
    /// What an operator reports, with its id.
    pub fn process(
        &mut self,
        input: usize,
        batch: EpochBatch,
        out: &mut Vec<EpochBatch>,
    ) -> Result<()> {
        let EpochBatch {
            epoch,
            origin,
            rows,
        } = batch;
        self.set_epoch(epoch);
        let mut emitted = Vec::new();
        self.push(0, input, rows, &mut emitted)?;
        out.extend(emitted.into_iter().map(|rows| EpochBatch {
            epoch,
            origin,
            rows,
        }));
        Ok(())
    }

    /// The watermark moved: tells every operator in order; what one emits passes through those after it first.
    ///
    /// # Errors
    /// What an operator reports.
    pub fn on_watermark(
        &mut self,
        watermark_ms: i64,
        epoch: Epoch,
        out: &mut Vec<EpochBatch>,
    ) -> Result<()> {
        self.set_epoch(epoch);
        for link in &mut self.links {
            link.context.watermark_ms = watermark_ms;
        }
        self.each(epoch, out, |operator, context, outbox| {
            operator.on_watermark(context, outbox)
        })
    }

    /// The epoch's rows are complete.
    ///
    /// # Errors
    /// What an operator reports.
    pub fn on_epoch_end(&mut self, epoch: Epoch, out: &mut Vec<EpochBatch>) -> Result<()> {
        self.set_epoch(epoch);
        self.each(epoch, out, |operator, context, outbox| {
            operator.on_epoch_end(context, outbox)
        })
    }

    /// Snapshots of the operators that have state.
    ///
    /// # Errors
    /// What an operator reports.
    pub fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<ChainSnapshot>> {
        let mut snapshots = Vec::new();
        for Link { operator, context } in &mut self.links {
            let bytes = operator
                .snapshot(epoch)
                .map_err(|error| error.at(&context.uid, context.subtask))?;
            snapshots.extend(bytes.map(|bytes| ChainSnapshot {
                uid: context.uid.clone(),
                bytes,
            }));
        }
        Ok(snapshots)
    }

    /// Event times seen by operators that define a watermark, by operator id.
    pub fn take_event_times(&mut self) -> Vec<(String, EventTimeStats)> {
        let times = self
            .links
            .iter_mut()
            .map(|link| (link.context.uid.clone(), link.operator.take_event_times()));
        times
            .filter_map(|(uid, stats)| Some((uid, stats?)))
            .collect()
    }

    fn set_epoch(&mut self, epoch: Epoch) {
        for link in &mut self.links {
            link.context.epoch = epoch;
        }
    }

    fn each<F>(&mut self, epoch: Epoch, out: &mut Vec<EpochBatch>, mut call: F) -> Result<()>
    where
        F: FnMut(&mut dyn Operator, &OperatorContext, &mut Outbox) -> Result<()>,
    {
        for index in 0..self.links.len() {
            let Link { operator, context } = &mut self.links[index];
            let mut outbox = Outbox::default();
            call(operator.as_mut(), context, &mut outbox)
                .map_err(|error| error.at(&context.uid, context.subtask))?;
            self.forward(index, outbox, epoch, out)?;
        }
        Ok(())
    }

    fn forward(
        &mut self,
        index: usize,
        outbox: Outbox,
        epoch: Epoch,
        out: &mut Vec<EpochBatch>,
    ) -> Result<()> {
        let link = &self.links[index].context;
        // Rows an operator emits at an epoch's end belong to no split: they come after all rows of the splits.
        let origin = Origin {
            split: u32::MAX,
            sequence: link.subtask as u64,
            ..Origin::default()
        };
        let emitted: usize = outbox.0.iter().map(Rows::num_rows).sum();
        link.metrics
            .rows_out
            .fetch_add(emitted as u64, std::sync::atomic::Ordering::Relaxed);
        let mut passed = Vec::new();
        for rows in outbox.0 {
            self.push(index + 1, 0, rows, &mut passed)?;
        }
        out.extend(passed.into_iter().map(|rows| EpochBatch {
            epoch,
            origin,
            rows,
        }));
        Ok(())
    }

    fn push(&mut self, index: usize, input: usize, rows: Rows, out: &mut Vec<Rows>) -> Result<()> {
        let Some(Link { operator, context }) = self.links.get_mut(index) else {
            out.push(rows);
            return Ok(());
        };
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        context
            .metrics
            .rows_in
            .fetch_add(rows.num_rows() as u64, relaxed);
        let mut outbox = Outbox::default();
        operator
            .process(input, rows, context, &mut outbox)
            .map_err(|error: WeirError| error.at(&context.uid, context.subtask))?;
        for rows in outbox.0 {
            let count = rows.num_rows() as u64;
            self.links[index]
                .context
                .metrics
                .rows_out
                .fetch_add(count, relaxed);
            self.push(index + 1, 0, rows, out)?;
        }
        Ok(())
    }
}
