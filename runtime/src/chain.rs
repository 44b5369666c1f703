//! Fused operators of one task: rows go through plain nested calls, depth first, so that one batch is in memory at a time.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_state::{Clock, Epoch, OperatorState, TableSpec};

pub(crate) use self::report::StateReport;
use crate::error::{Result, WeirError};
use crate::facts::OpenFacts;
use crate::malformed::counting;
use crate::message::{EpochBatch, Origin, Rows};
use crate::operator::{
    EventTimeStats, Operator, OperatorContext, OperatorMetrics, OperatorSpec, Outbox,
    SplitEventTimes,
};

/// Which output of a chain rows leave by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The last operator's output.
    Main,
    /// The late rows of the operator of this index.
    Late(usize),
}

/// Rows on their way out of a chain.
pub(crate) type Emitted = Vec<(Port, EpochBatch)>;

/// What a chain gets from its generation.
#[derive(Clone)]
pub(crate) struct ChainEnv {
    pub(crate) facts: Arc<OpenFacts>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Watermark of the last committed epoch, by which rows of the next one are late.
    pub(crate) late_watermark_ms: i64,
    pub(crate) times_by_split: bool,
}

pub(crate) struct Link {
    pub(crate) operator: Box<dyn Operator>,
    pub(crate) context: OperatorContext,
    tables: Vec<TableSpec>,
    is_stateful: bool,
    /// Time spent in the operator in the open epoch.
    busy: Duration,
    /// Values its expressions could not read in the current call of the chain.
    malformed: u64,
    reported: report::Reported,
}

impl Link {
    fn place(&self, error: WeirError) -> WeirError {
        error.at(&self.context.uid, self.context.subtask)
    }

    /// Calls the operator and takes what it emits.
    fn call<F>(&mut self, clock: &dyn Clock, call: F) -> Result<Outbox>
    where
        F: FnOnce(&mut dyn Operator, &OperatorContext, &mut Outbox) -> Result<()>,
    {
        let mut outbox = Outbox::default();
        let since = clock.monotonic();
        let (outcome, malformed) =
            counting(|| call(self.operator.as_mut(), &self.context, &mut outbox));
        self.busy += clock.monotonic().saturating_sub(since);
        self.context.metrics.add_malformed(malformed);
        self.malformed += malformed;
        outcome.map_err(|error| self.place(error))?;
        Ok(outbox)
    }
}

/// Snapshot of one operator of the chain.
#[derive(Debug)]
pub(crate) struct ChainSnapshot {
    /// Id of the operator.
    pub(crate) uid: String,
    /// Its state.
    pub(crate) bytes: Vec<u8>,
}

/// The operators of one task, first to last; may be empty.
pub(crate) struct Chain {
    links: Vec<Link>,
    env: ChainEnv,
    /// The open epoch; `None` before the first.
    epoch: Option<Epoch>,
    origin: Origin,
    watermark_ms: i64,
    /// Values that expressions could not read in the open epoch, by the source of their rows.
    malformed: BTreeMap<u32, u64>,
}

impl Chain {
    /// Makes the instances of one subtask; `specs` are (operator id, how to make it).
    ///
    /// # Errors
    /// What the constructors report.
    pub(crate) fn create(
        specs: &[(String, OperatorSpec)],
        subtask: usize,
        parallelism: usize,
        env: ChainEnv,
    ) -> Result<Self> {
        let mut links = Vec::with_capacity(specs.len());
        for (uid, spec) in specs {
            let mut context = OperatorContext::new(uid, subtask, parallelism);
            context.late_watermark_ms = env.late_watermark_ms;
            context.times_by_split = env.times_by_split;
            let operator = spec
                .create(&context)
                .map_err(|error| error.at(uid, subtask))?;
            links.push(Link {
                operator,
                context,
                tables: spec.tables.clone(),
                is_stateful: spec.stateful,
                busy: Duration::ZERO,
                malformed: 0,
                reported: report::Reported::default(),
            });
        }
        Ok(Self {
            links,
            env,
            epoch: None,
            origin: Origin::default(),
            watermark_ms: i64::MIN,
            malformed: BTreeMap::new(),
        })
    }

    /// Counters of each operator.
    pub(crate) fn metrics(&self) -> Vec<(String, Arc<OperatorMetrics>)> {
        self.links
            .iter()
            .map(|link| (link.context.uid.clone(), Arc::clone(&link.context.metrics)))
            .collect()
    }

    /// Somebody reads the late rows of the operator of this index.
    pub(crate) fn read_late(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.context.late_output = true;
        }
    }

    fn link(&mut self, uid: &str) -> Result<&mut Link> {
        let link = self.links.iter_mut().find(|link| link.context.uid == uid);
        link.ok_or_else(|| WeirError::internal(format!("the chain has no operator '{uid}'")))
    }

    /// Gives the operator `uid` its snapshot back.
    ///
    /// # Errors
    /// If the operator refuses it.
    pub(crate) fn restore(&mut self, uid: &str, snapshot: &[u8]) -> Result<()> {
        let link = self.link(uid)?;
        let outcome = link.operator.restore(snapshot);
        outcome.map_err(|error| link.place(error))
    }

    /// Gives the operator `uid` its state tables.
    ///
    /// # Errors
    /// If the operator refuses them or does not keep them for the runtime.
    pub(crate) fn open(&mut self, uid: &str, state: OperatorState) -> Result<()> {
        let link = self.link(uid)?;
        let outcome = link.operator.open(state, &link.context);
        outcome.map_err(|error| link.place(error))?;
        if link.operator.state().is_none() {
            let error = WeirError::internal(format!(
                "operator '{uid}' takes its state tables and does not show them, so they could not be made durable"
            ));
            return Err(link.place(error));
        }
        Ok(())
    }

    /// Sends a batch of `input` through all operators; what comes out keeps its origin.
    ///
    /// # Errors
    /// What an operator reports, with its id.
    pub(crate) fn process(
        &mut self,
        input: usize,
        batch: EpochBatch,
        out: &mut Emitted,
    ) -> Result<()> {
        self.enter(batch.epoch, batch.origin)?;
        self.push(0, input, batch.rows, out)?;
        self.count_malformed();
        Ok(())
    }

    /// The row of a batch that failed with `error`, found by trying parts of it: errors of expressions do not tell. `None` where
    /// operators with state come before the one that failed. Only for a chain that has failed: it is of no other use after this.
    pub(crate) fn culprit(&mut self, batch: &EpochBatch, error: &WeirError) -> Option<usize> {
        let failed = error.operator()?;
        let links = self.links.iter();
        let mut before = links.take_while(|link| link.context.uid != failed);
        if before.any(|link| link.is_stateful) {
            return None;
        }
        let mut fails = |from: usize, to: usize| {
            let rows = batch.rows.slice(from, to - from);
            self.push(0, 0, rows, &mut Vec::new()).is_err()
        };
        let (mut from, mut to) = (0, batch.rows.num_rows());
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            match fails(from, middle) {
                true => to = middle,
                false => from = middle,
            }
        }
        (to > from && fails(from, to)).then_some(from)
    }

    fn count_malformed(&mut self) {
        let met: u64 = self
            .links
            .iter_mut()
            .map(|link| std::mem::take(&mut link.malformed))
            .sum();
        if met > 0 {
            *self.malformed.entry(self.origin.source).or_default() += met;
        }
    }

    /// Values that expressions could not read in the epoch, by the source of their rows (as in [`Origin::source`]).
    pub(crate) fn take_malformed(&mut self) -> BTreeMap<u32, u64> {
        std::mem::take(&mut self.malformed)
    }

    /// The epoch's rows are complete and its watermark is known (`None`: as before): tells every operator in order, first of the
    /// watermark if it moved, then of the end; what one emits passes through those after it first. Afterwards rows are late by
    /// the watermark of this epoch.
    ///
    /// # Errors
    /// What an operator reports.
    pub(crate) fn close(
        &mut self,
        epoch: Epoch,
        watermark_ms: Option<i64>,
        out: &mut Emitted,
    ) -> Result<()> {
        // Rows an operator emits at an epoch's end belong to no split: they come after all rows of the splits.
        let subtask = self.links.first().map_or(0, |link| link.context.subtask);
        let origin = Origin {
            split: u32::MAX,
            sequence: subtask as u64,
            ..Origin::default()
        };
        self.enter(epoch, origin)?;
        let moved = watermark_ms.filter(|watermark_ms| *watermark_ms > self.watermark_ms);
        if let Some(watermark_ms) = moved {
            self.watermark_ms = watermark_ms;
            for link in &mut self.links {
                link.context.watermark_ms = watermark_ms;
            }
            self.each(out, |operator, context, outbox| {
                operator.on_watermark(context, outbox)
            })?;
        }
        self.each(out, |operator, context, outbox| {
            operator.on_epoch_end(context, outbox)
        })?;
        self.count_malformed();
        for link in &mut self.links {
            link.context.late_watermark_ms = link.context.late_watermark_ms.max(self.watermark_ms);
        }
        Ok(())
    }

    /// Snapshots of the operators that have opaque state.
    ///
    /// # Errors
    /// What an operator reports.
    pub(crate) fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<ChainSnapshot>> {
        let mut snapshots = Vec::new();
        for link in &mut self.links {
            let bytes = link.operator.snapshot(epoch);
            let bytes = bytes.map_err(|error| link.place(error))?;
            snapshots.extend(bytes.map(|bytes| ChainSnapshot {
                uid: link.context.uid.clone(),
                bytes,
            }));
        }
        Ok(snapshots)
    }

    /// The operators with state tables.
    pub(crate) fn stateful(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().filter(|link| !link.tables.is_empty())
    }

    /// Late rows of the epoch that operators without tables dropped, by operator id.
    pub(crate) fn take_late(&mut self) -> Vec<(String, u64)> {
        let links = self.links.iter_mut().filter(|link| link.tables.is_empty());
        let late = links.map(|link| (link.context.uid.clone(), link.take_late()));
        late.filter(|(_, late)| *late > 0).collect()
    }

    /// Event times seen by operators that define a watermark, by operator id.
    pub(crate) fn take_event_times(&mut self) -> Vec<(String, EventTimeStats)> {
        let times = self
            .links
            .iter_mut()
            .map(|link| (link.context.uid.clone(), link.operator.take_event_times()));
        times
            .filter_map(|(uid, stats)| Some((uid, stats?)))
            .collect()
    }

    /// The same by split.
    pub(crate) fn take_split_event_times(&mut self) -> Vec<(String, SplitEventTimes)> {
        let mut all = Vec::new();
        for link in &mut self.links {
            let times = link.operator.take_split_event_times().into_iter();
            all.extend(times.map(|times| (link.context.uid.clone(), times)));
        }
        all
    }

    fn enter(&mut self, epoch: Epoch, origin: Origin) -> Result<()> {
        self.origin = origin;
        if self.epoch != Some(epoch) {
            let facts = self.env.facts.of(epoch)?;
            self.epoch = Some(epoch);
            for Link { context, .. } in &mut self.links {
                context.epoch = epoch;
                context.batch_timestamp_ms = facts.batch_timestamp_ms;
                context.max_event_time_ms = facts.max_event_time_ms;
            }
        }
        for link in &mut self.links {
            link.context.origin = origin;
        }
        Ok(())
    }

    fn each<F>(&mut self, out: &mut Emitted, mut call: F) -> Result<()>
    where
        F: FnMut(&mut dyn Operator, &OperatorContext, &mut Outbox) -> Result<()>,
    {
        for index in 0..self.links.len() {
            let outbox = self.links[index].call(self.env.clock.as_ref(), &mut call)?;
            self.forward(index, outbox, out)?;
        }
        Ok(())
    }

    /// Sends what link `index` emitted on its way.
    fn forward(&mut self, index: usize, outbox: Outbox, out: &mut Emitted) -> Result<()> {
        if self.links[index].context.late_output {
            for rows in outbox.late {
                self.leave(Port::Late(index), rows, out);
            }
        }
        for rows in outbox.rows {
            self.links[index].context.metrics.add_out(rows.num_rows());
            self.push(index + 1, 0, rows, out)?;
        }
        Ok(())
    }

    fn push(&mut self, index: usize, input: usize, rows: Rows, out: &mut Emitted) -> Result<()> {
        let Some(link) = self.links.get_mut(index) else {
            self.leave(Port::Main, rows, out);
            return Ok(());
        };
        link.context.metrics.add_in(rows.num_rows());
        let outbox = link.call(self.env.clock.as_ref(), |operator, context, outbox| {
            operator.process(input, rows, context, outbox)
        })?;
        self.forward(index, outbox, out)
    }

    fn leave(&self, port: Port, rows: Rows, out: &mut Emitted) {
        let (Some(epoch), origin) = (self.epoch, self.origin) else {
            return;
        };
        out.push((
            port,
            EpochBatch {
                epoch,
                origin,
                rows,
            },
        ));
    }
}

#[cfg(test)]
mod tests;
