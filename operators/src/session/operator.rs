//! The operator of session windows.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int64Type, SchemaRef, TimestampMicrosecondType};
use weir_runtime::{Operator, OperatorContext, Outbox, OutputMode, Result, Rows, WeirError};
use weir_runtime::{OperatorState, Table};

use super::changes::{self, Settled};
use super::emit::{Emitter, Leaving};
use super::evict::evict;
use super::fragments::Fragments;
use super::merge::Union;
use super::replay::{Waiting, replay};
use super::{Gap, SessionAggregation, list, states};
use crate::aggregate::{Accumulators, Calls};
use crate::keys::Keys;
use crate::late;

/// One subtask of an aggregation over sessions.
pub(super) struct Sessionizer {
    mode: OutputMode,
    emit_before: bool,
    keys: Keys,
    time: usize,
    gap: Gap,
    calls: Arc<Calls>,
    emitter: Emitter,
    state: Option<OperatorState>,
    accumulators: Accumulators,
    fragments: Fragments,
    /// Rows of the epoch, where their order counts.
    waiting: Vec<Waiting>,
    /// Sessions in the table.
    stored: u64,
}

/// Where in time the rows of a batch are; other rows were left out.
struct Ranges {
    batch: RecordBatch,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Sessionizer {
    pub(super) fn new(
        aggregation: &SessionAggregation,
        calls: Arc<Calls>,
        output: SchemaRef,
    ) -> Result<Self> {
        Ok(Self {
            mode: aggregation.mode,
            emit_before: aggregation.emit_before,
            keys: Keys::new(&aggregation.input, (0..aggregation.keys).collect())?,
            time: aggregation.time,
            gap: aggregation.gap,
            emitter: Emitter::new(aggregation, Arc::clone(&calls), output)?,
            accumulators: Accumulators::new(&calls)?,
            calls,
            state: None,
            fragments: Fragments::default(),
            waiting: Vec::new(),
            stored: 0,
        })
    }

    /// The ranges of the rows that have one and are not late; the others are counted.
    fn ranges(&self, rows: &Rows, context: &OperatorContext, out: &mut Outbox) -> Result<Ranges> {
        let (batch, count) = (rows.batch(), rows.num_rows());
        let times = batch
            .column(self.time)
            .as_primitive::<TimestampMicrosecondType>();
        let gaps = match self.gap {
            Gap::Fixed(_) => None,
            Gap::Column(column) => Some(batch.column(column).as_primitive::<Int64Type>()),
        };
        let gap = |row: usize| match (self.gap, gaps) {
            (Gap::Fixed(micros), _) => micros,
            (_, Some(gaps)) if gaps.is_valid(row) => gaps.value(row),
            _ => 0,
        };
        let bound = self.bound(context.late_watermark_ms);
        let (mut left_out, mut late) = (0, Vec::new());
        let (mut starts, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let keep = BooleanBuffer::collect_bool(count, |row| {
            let micros = gap(row);
            if times.is_null(row) || micros <= 0 {
                left_out += 1;
                return false;
            }
            let start = times.value(row);
            let end = start.saturating_add(micros);
            if end <= bound {
                late.push(row);
                return false;
            }
            starts.push(start);
            ends.push(end);
            true
        });
        context.metrics.add_filtered(left_out);
        if !late.is_empty() {
            let late = BooleanBuffer::collect_bool(count, |row| late.binary_search(&row).is_ok());
            late::hand_over(rows, &BooleanArray::from(late), context, out)?;
        }
        let batch = match starts.len() {
            all if all == count => batch.clone(),
            _ => arrow::compute::filter_record_batch(batch, &BooleanArray::from(keep))?,
        };
        Ok(Ranges {
            batch,
            starts,
            ends,
        })
    }

    fn add(&mut self, ranges: Ranges, context: &OperatorContext) -> Result<()> {
        let rows = ranges.batch.num_rows();
        self.keys.encode(&ranges.batch)?;
        let table = table(&mut self.state)?;
        let mut slots = Vec::with_capacity(rows);
        let keys = (0..rows).map(|row| {
            let (group, key) = self.keys.key(row);
            (group, 0, key)
        });
        table.touch_all(keys, &mut slots);
        if self.calls.ordered() {
            self.waiting.push(Waiting {
                origin: context.origin,
                batch: ranges.batch,
                slots,
                starts: ranges.starts,
                ends: ranges.ends,
            });
            return Ok(());
        }
        let fragments = &mut self.fragments;
        let covered = ranges.starts.iter().zip(&ranges.ends);
        let groups: Vec<usize> = slots
            .into_iter()
            .zip(covered)
            .map(|(slot, (start, end))| fragments.add(slot, *start, *end))
            .collect();
        let total = fragments.len();
        self.accumulators
            .update(&self.calls, false, &ranges.batch, &groups, total)
    }

    /// Sessions that end at or before it, in microseconds, are complete under a watermark; in complete mode none ever is.
    fn bound(&self, watermark_ms: i64) -> i64 {
        match self.mode {
            OutputMode::Complete => i64::MIN,
            _ => watermark_ms.saturating_mul(1000),
        }
    }

    /// Unites the epoch's fragments with the stored sessions and writes the lists of what is not complete up to `bound`; stored
    /// sessions that are go to `leaving`.
    fn settle(&mut self, bound: i64, leaving: &mut Leaving) -> Result<Settled> {
        let table = table(&mut self.state)?;
        table.load()?;
        if self.calls.ordered() {
            let waiting = std::mem::take(&mut self.waiting);
            self.fragments = replay(waiting, table, &self.calls, &mut self.accumulators)?;
        }
        let fragments = std::mem::take(&mut self.fragments);
        if fragments.len() == 0 {
            return Ok(Settled::default());
        }
        let accumulators =
            std::mem::replace(&mut self.accumulators, Accumulators::new(&self.calls)?);
        let union = Union::of(&fragments, table)?;
        let absorbed: Vec<u32> = union.absorbed.iter().map(|old| old.leader).collect();
        let rows = union.absorbed.iter().map(|old| old.stored.row);
        let old = match absorbed.len() {
            0 => Vec::new(),
            _ => self.emitter.values.decode(rows)?,
        };
        let states = states::merged(&self.calls, accumulators, &union, &absorbed, &old)?;
        let mut values = states::times(&self.emitter, &union);
        values.extend(states);
        // What the table lends ends here.
        let Union {
            finals,
            bounds,
            ends,
            ..
        } = union;
        let completion = states::Completion {
            bound,
            expiring: self.mode != OutputMode::Complete,
        };
        let lists = states::Lists {
            finals: &finals,
            bounds: &bounds,
            ends: &ends,
        };
        let written = states::write(table, &self.emitter, &lists, &values, completion)?;
        let added = written.new.len() - written.complete.len();
        let gone = absorbed.len() + written.leaving.keys.len();
        self.stored = self.stored + added as u64 - gone as u64;
        *leaving = written.leaving;
        Ok(Settled {
            new: written.new,
            complete: written.complete,
            values,
            absorbed,
            old,
        })
    }

    /// Forgets the sessions that the watermark completes; in append mode they are emitted behind those that left already.
    fn evict(&mut self, bound: i64, mut leaving: Leaving, out: &mut Outbox) -> Result<()> {
        if bound == i64::MIN {
            return Ok(());
        }
        let table = table(&mut self.state)?;
        let wanted = self.mode == OutputMode::Append;
        self.stored -= evict(table, bound, wanted.then_some(&mut leaving))?;
        match wanted {
            true => leaving.emit(&self.emitter, out),
            false => Ok(()),
        }
    }

    fn emit_all(&mut self, out: &mut Outbox) -> Result<()> {
        let table = table(&mut self.state)?;
        let mut all = Leaving::default();
        let mut damaged = Ok(());
        table.scan(&mut |entry| {
            for stored in list::sessions(entry.value) {
                match stored {
                    Ok(stored) => all.push(entry.key, stored.row),
                    Err(error) => damaged = Err(error),
                }
            }
            Ok(())
        })?;
        damaged?;
        all.emit(&self.emitter, out)
    }
}

fn table(state: &mut Option<OperatorState>) -> Result<&mut Table> {
    state
        .as_mut()
        .map(|state| state.table(0))
        .ok_or_else(|| WeirError::internal("session windows got rows before their state"))
}

/// Number of sessions in a table.
fn count(table: &mut Table) -> Result<u64> {
    let mut found = 0;
    let mut damaged = Ok(());
    table.scan(&mut |entry| {
        for stored in list::sessions(entry.value) {
            match stored {
                Ok(_) => found += 1,
                Err(error) => damaged = Err(error),
            }
        }
        Ok(())
    })?;
    damaged.map(|()| found)
}

impl Operator for Sessionizer {
    fn open(&mut self, state: OperatorState, _context: &OperatorContext) -> Result<()> {
        self.state = Some(state);
        self.stored = count(table(&mut self.state)?)?;
        Ok(())
    }

    fn state_rows(&self) -> Option<u64> {
        Some(self.stored)
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.as_mut()
    }

    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let ranges = self.ranges(&rows, context, out)?;
        match ranges.starts.is_empty() {
            true => Ok(()),
            false => self.add(ranges, context),
        }
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let bound = self.bound(context.watermark_ms);
        let mut leaving = Leaving::default();
        let settled = self.settle(bound, &mut leaving)?;
        match self.mode {
            OutputMode::Append => {
                let table = table(&mut self.state)?;
                self.emitter.complete(&settled, table, out)?;
            }
            OutputMode::Update => {
                let table = table(&mut self.state)?;
                changes::emit(&settled, table, &self.emitter, self.emit_before, out)?;
            }
            OutputMode::Complete => self.emit_all(out)?,
        }
        drop(settled);
        self.evict(bound, leaving, out)
    }
}
