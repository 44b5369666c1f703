//! The aggregating operator.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt8Array};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{Fields, SchemaRef};
use weir_runtime::{
    Operator, OperatorContext, Origin, Outbox, OutputMode, Result, RowKind, Rows, WeirError,
    key_group,
};
use weir_runtime::{OperatorState, Table};

use super::calls::{Accumulators, Calls};
use super::distinct::{self, DistinctSet};
use super::emit::{CHUNK, Collector, Emitter};
use super::migrate::migrate;
use super::time::{TimeKey, bound};
use super::{AggregateInput, Aggregation, in_time};
use crate::row_codec::EncodedRows;

/// One subtask of an aggregation.
pub(super) struct Aggregator {
    mode: OutputMode,
    input: AggregateInput,
    emit_before: bool,
    /// How batches are cut must not show: earlier states are added between batches only where the order makes no difference, and
    /// where old rows are emitted, in chunks, at the end.
    merges_early: bool,
    /// The event time of groups; in complete mode there is none.
    time: Option<TimeKey>,
    width: usize,
    calls: Arc<Calls>,
    emitter: Emitter,
    distinct: Vec<DistinctSet>,
    allow_new: bool,
    state: Option<OperatorState>,
    accumulators: Accumulators,
    /// Rows of the epoch, where their order counts.
    waiting: Vec<(Origin, RecordBatch)>,
    /// What is known so far of the touched groups as they were before the epoch.
    old: Old,
    encoded: EncodedRows,
    slots: Vec<usize>,
}

/// The states that touched groups had before the epoch.
#[derive(Default)]
struct Old {
    /// Slots below this have been asked for.
    known: usize,
    /// Slots of the groups that existed, ascending.
    slots: Vec<usize>,
    /// Their states, where the old rows are emitted: one batch of columns for each chunk of slots in which a group existed.
    states: Vec<Vec<ArrayRef>>,
}

impl Aggregator {
    pub(super) fn new(
        aggregation: &Aggregation,
        calls: Arc<Calls>,
        output: SchemaRef,
    ) -> Result<Self> {
        let keys: Fields = aggregation.keys.iter().cloned().collect();
        let width = keys.len();
        let emitter = Emitter::new(keys, Arc::clone(&calls), output)?;
        let distinct = distinct::specs(&calls).into_iter().map(DistinctSet::new);
        let timed = aggregation.mode != OutputMode::Complete;
        Ok(Self {
            mode: aggregation.mode,
            input: aggregation.input,
            emit_before: aggregation.emit_before,
            merges_early: calls.exact() && !aggregation.emit_before,
            time: aggregation.time.filter(|_| timed),
            width,
            distinct: distinct.collect::<Result<_>>()?,
            allow_new: aggregation.allow_new_aggregates,
            accumulators: Accumulators::new(&calls)?,
            encoded: emitter.keys.buffer(),
            emitter,
            calls,
            state: None,
            waiting: Vec::new(),
            old: Old::default(),
            slots: Vec::new(),
        })
    }

    /// Finds the slot of each row; `self.slots` has them afterwards.
    fn touch(&mut self, keys: &[ArrayRef], times: Option<&[i64]>, rows: usize) -> Result<()> {
        let table = table(&mut self.state)?;
        self.encoded.clear();
        self.emitter.keys.append(&mut self.encoded, keys, rows)?;
        self.slots.clear();
        self.slots.reserve(rows);
        let encoded = &self.encoded;
        let keys = (0..rows).map(|row| {
            let key = encoded.get(row);
            (key_group(key), times.map_or(0, |times| times[row]), key)
        });
        table.touch_all(keys, &mut self.slots);
        Ok(())
    }

    /// Finds the slots of a batch and of its distinct values; gives the number of groups touched so far.
    fn place(&mut self, batch: &RecordBatch) -> Result<usize> {
        let keys = &batch.columns()[..self.width];
        let times = self.time.map(|time| time.times(keys)).transpose()?;
        self.touch(keys, times.as_deref(), batch.num_rows())?;
        let (groups, others) = tables(&mut self.state)?;
        for (set, table) in self.distinct.iter_mut().zip(others) {
            let times = times.as_deref();
            set.touch(table, &self.calls, batch, &self.encoded, times, &self.slots)?;
        }
        Ok(groups.touched())
    }

    /// Adds a batch to its groups.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let total = self.place(batch)?;
        match self.input {
            AggregateInput::Rows => {
                self.accumulators
                    .update(&self.calls, false, batch, &self.slots, total)?;
            }
            AggregateInput::States => {
                let states = &batch.columns()[self.width..];
                self.accumulators
                    .merge(&self.calls, states, &self.slots, total)?;
            }
        }
        // While the entries are still in the processor's caches; what lies in files is asked for once, at the end.
        if self.merges_early && table(&mut self.state)?.is_loaded() {
            self.merge_old()?;
        }
        Ok(())
    }

    /// Adds the states that touched groups have in the table to what the accumulators hold, for the groups that were not yet asked for.
    fn merge_old(&mut self) -> Result<()> {
        let table = table(&mut self.state)?;
        table.load()?;
        let total = table.touched();
        let old = &mut self.old;
        let mut from = old.known;
        while from < total {
            let to = total.min(from + CHUNK);
            let before = old.slots.len();
            let mut values = Vec::with_capacity(to - from);
            for slot in from..to {
                if let Some(value) = table.value(slot) {
                    old.slots.push(slot);
                    values.push(value);
                }
            }
            let known = &old.slots[before..];
            if !known.is_empty() {
                let states = self.emitter.values.decode(values)?;
                self.accumulators
                    .merge(&self.calls, &states, known, total)?;
                if self.emit_before {
                    old.states.push(states);
                }
            }
            from = to;
        }
        old.known = total;
        Ok(())
    }

    /// Adds the rows that waited for the end of the epoch, in the order of their origin, behind the old states.
    fn add_waiting(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(origin, _)| *origin);
        let mut touched = Vec::with_capacity(waiting.len());
        for (_, batch) in &waiting {
            let total = self.place(batch)?;
            self.accumulators
                .update(&self.calls, false, batch, &self.slots, total)?;
            touched.push(self.slots.clone());
        }
        self.merge_old()?;
        let total = table(&mut self.state)?.touched();
        for ((_, batch), slots) in waiting.iter().zip(&touched) {
            self.accumulators
                .update(&self.calls, true, batch, slots, total)?;
        }
        Ok(())
    }

    /// One group of all rows exists from the start; this gives its states if the epoch has no rows.
    fn untouched_global(&mut self) -> Result<Option<(Old, Vec<ArrayRef>)>> {
        let table = table(&mut self.state)?;
        if self.width > 0 || table.touched() > 0 || !self.waiting.is_empty() {
            return Ok(None);
        }
        let slot = table.touch(key_group(&[]), 0, &[]);
        table.load()?;
        if let Some(value) = table.value(slot) {
            let states = self.emitter.values.decode([value])?;
            let old = Old {
                known: 1,
                slots: vec![slot],
                states: match self.emit_before {
                    true => vec![states.clone()],
                    false => Vec::new(),
                },
            };
            return Ok(Some((old, states)));
        }
        Ok(Some((Old::default(), self.calls.initial()?)))
    }

    /// Brings the table up to date; in update mode what touched groups were before and are now goes out.
    fn write(&mut self, out: &mut Outbox) -> Result<()> {
        let (old, new) = match self.untouched_global()? {
            Some(written) => written,
            None => self.settle()?,
        };
        let total = table(&mut self.state)?.touched();
        let mut states_before = old.states.iter();
        let mut from = 0;
        while from < total {
            let to = total.min(from + CHUNK);
            let states = slice(&new, from, to - from);
            self.set(from..to, &states)?;
            // While what was set is still in the processor's caches.
            if self.mode == OutputMode::Update {
                let start = old.slots.partition_point(|slot| *slot < from);
                let end = old.slots.partition_point(|slot| *slot < to);
                let known = &old.slots[start..end];
                let before = match known {
                    [] => None,
                    _ => states_before.next().map(Vec::as_slice),
                };
                out.emit(self.changes(from..to, known, before, &states)?);
            }
            from = to;
        }
        Ok(())
    }

    /// What touched groups were before and are now.
    fn settle(&mut self) -> Result<(Old, Vec<ArrayRef>)> {
        if self.calls.ordered() {
            self.add_waiting()?;
        } else {
            self.merge_old()?;
        }
        let old = std::mem::take(&mut self.old);
        let (table, others) = tables(&mut self.state)?;
        let total = table.touched();
        if total == 0 {
            return Ok((old, Vec::new()));
        }
        for (set, pairs) in self.distinct.iter_mut().zip(others) {
            set.finish(pairs, &self.calls, &mut self.accumulators, total)?;
        }
        let new = self.accumulators.take(&self.calls, total)?;
        self.accumulators = Accumulators::new(&self.calls)?;
        Ok((old, new))
    }

    /// Sets the states of these slots.
    fn set(&mut self, slots: std::ops::Range<usize>, states: &[ArrayRef]) -> Result<()> {
        let encoded = self.emitter.values.encode(states, slots.len())?;
        let table = table(&mut self.state)?;
        for (row, slot) in slots.enumerate() {
            table.set(slot, encoded.get(row));
        }
        Ok(())
    }

    /// Rows for the groups of these slots; `known` are those that existed, `before` their states.
    fn changes(
        &mut self,
        slots: std::ops::Range<usize>,
        known: &[usize],
        before: Option<&[ArrayRef]>,
        after: &[ArrayRef],
    ) -> Result<Rows> {
        let table = table(&mut self.state)?;
        let keys = slots.clone().map(|slot| table.key(slot));
        let new = self.emitter.batch(keys, after, slots.len())?;
        let old = match before {
            Some(states) => {
                let keys = known.iter().map(|slot| table.key(*slot));
                Some(self.emitter.batch(keys, states, known.len())?)
            }
            None => None,
        };
        let mut known = known.iter().peekable();
        let (mut kinds, mut rows, mut olds) = (Vec::new(), Vec::new(), 0);
        for (row, slot) in slots.enumerate() {
            let existed = known.next_if(|known| **known == slot).is_some();
            if existed && old.is_some() {
                kinds.push(RowKind::UpdateBefore as u8);
                rows.push((1, olds));
                olds += 1;
            }
            let kind = if existed {
                RowKind::UpdateAfter
            } else {
                RowKind::Insert
            };
            kinds.push(kind as u8);
            rows.push((0, row));
        }
        let batch = match &old {
            Some(old) => interleave_record_batch(&[&new, old], &rows)?,
            None => new,
        };
        Rows::with_kinds(batch, UInt8Array::from(kinds))
    }

    /// Forgets the groups that the watermark completes; in append mode they are what is emitted.
    fn evict(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        if self.time.is_none() || context.watermark_ms == i64::MIN {
            return Ok(());
        }
        let (table, others) = tables(&mut self.state)?;
        let bound = bound(context.watermark_ms);
        for pairs in others {
            pairs.expire_silently(bound)?;
        }
        if self.mode != OutputMode::Append {
            table.expire_silently(bound)?;
            return Ok(());
        }
        let mut collector = Collector::new(&self.emitter, out);
        table.expire(bound, &mut |entry| {
            collector.push(entry);
            Ok(())
        })?;
        collector.finish()
    }

    fn emit_all(&mut self, out: &mut Outbox) -> Result<()> {
        let mut collector = Collector::new(&self.emitter, out);
        table(&mut self.state)?.scan(&mut |entry| {
            collector.push(entry);
            Ok(())
        })?;
        collector.finish()
    }
}

fn table(state: &mut Option<OperatorState>) -> Result<&mut Table> {
    Ok(tables(state)?.0)
}

/// The table of groups, and those of distinct values.
fn tables(state: &mut Option<OperatorState>) -> Result<(&mut Table, &mut [Table])> {
    let tables = state.as_mut().map(OperatorState::tables_mut);
    tables
        .and_then(<[Table]>::split_first_mut)
        .ok_or_else(|| WeirError::internal("an aggregation got rows before its state"))
}

fn slice(columns: &[ArrayRef], from: usize, length: usize) -> Vec<ArrayRef> {
    columns
        .iter()
        .map(|column| column.slice(from, length))
        .collect()
}

impl Operator for Aggregator {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let judged = self.time.filter(|_| self.input == AggregateInput::Rows);
        let batch = in_time(judged, self.width, rows.batch(), context, out)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.calls.ordered() {
            self.waiting.push((context.origin, batch));
            return Ok(());
        }
        self.add(&batch)
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        self.write(out)?;
        if self.mode == OutputMode::Complete {
            self.emit_all(out)?;
        }
        self.evict(context, out)
    }

    fn open(&mut self, mut state: OperatorState, _context: &OperatorContext) -> Result<()> {
        migrate(&mut state, &self.calls, &self.emitter, self.allow_new)?;
        self.state = Some(state);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.as_mut()
    }
}
