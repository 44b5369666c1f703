//! Operators with state tables, written as a user would: counts by key, and rows that wait for the watermark.

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use weir_runtime::*;

use crate::parts::{numbers, values};

fn table(kind: TableKind) -> TableSpec {
    TableSpec {
        name: "t".to_owned(),
        kind,
        version: 1,
        key: "n".to_owned(),
        value: "count".to_owned(),
    }
}

fn shut() -> WeirError {
    WeirError::internal("rows before the state")
}

/// What every operator with tables does with them.
#[derive(Default)]
struct Held(Option<OperatorState>);

impl Held {
    fn table(&mut self) -> Result<&mut Table> {
        Ok(self.0.as_mut().ok_or_else(shut)?.table(0))
    }
}

/// A row function: from a number another one.
pub(crate) struct Map<F>(pub(crate) F);

impl<F: Fn(i64) -> i64 + Send> Operator for Map<F> {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        _: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let mapped = values(rows.batch()).into_iter().map(&self.0);
        out.emit(Rows::inserts(numbers(mapped)));
        Ok(())
    }
}

pub(crate) fn map(function: fn(i64) -> i64) -> OperatorSpec {
    OperatorSpec::new("map", move |_| Ok(Map(function)))
}

/// Counts rows by number; emits `number * 1000 + count` for the numbers an epoch touched.
#[derive(Default)]
struct Count {
    state: Held,
    /// Rows by slot of the open epoch.
    seen: Vec<i64>,
}

pub(crate) fn count() -> OperatorSpec {
    OperatorSpec::new("count", |_| Ok(Count::default()))
        .with_tables(vec![table(TableKind::Keyed)])
        .with_state_name("stateStoreSave")
}

impl Operator for Count {
    fn process(&mut self, _: usize, rows: Rows, _: &OperatorContext, _: &mut Outbox) -> Result<()> {
        let converter = RowConverter::new(vec![SortField::new(DataType::Int64)])?;
        let keys = converter.convert_columns(&[rows.batch().column(0).clone()])?;
        for key in &keys {
            let key = key.as_ref();
            let slot = self.state.table()?.touch(key_group(key), 0, key);
            if slot == self.seen.len() {
                self.seen.push(0);
            }
            self.seen[slot] += 1;
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, _: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let table = self.state.table()?;
        table.load()?;
        let converter = RowConverter::new(vec![SortField::new(DataType::Int64)])?;
        let parser = converter.parser();
        let keys = (0..table.touched()).map(|slot| parser.parse(table.key(slot)));
        let keys: Vec<ArrayRef> = converter.convert_rows(keys)?;
        let keys = keys[0].as_any().downcast_ref::<Int64Array>().expect("i64");
        let mut changed = Vec::new();
        for (slot, seen) in std::mem::take(&mut self.seen).into_iter().enumerate() {
            let old = table.value(slot).map_or(0, |value| {
                i64::from_le_bytes(value.try_into().expect("8 bytes"))
            });
            table.set(slot, &(old + seen).to_le_bytes());
            changed.push(keys.value(slot) * 1000 + old + seen);
        }
        out.emit(Rows::inserts(numbers(changed)));
        Ok(())
    }

    fn open(&mut self, state: OperatorState, _: &OperatorContext) -> Result<()> {
        self.state.0 = Some(state);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.0.as_mut()
    }
}

/// Takes numbers for event times, in milliseconds.
struct Times {
    delay_ms: i64,
    seen: Option<EventTimeStats>,
    by_split: Vec<SplitEventTimes>,
}

pub(crate) fn times(delay_ms: i64) -> OperatorSpec {
    let create = move |_: &OperatorContext| {
        Ok(Times {
            delay_ms,
            seen: None,
            by_split: Vec::new(),
        })
    };
    OperatorSpec::new("times", create).with_event_times()
}

impl Operator for Times {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        for time in values(rows.batch()) {
            if time > context.max_event_time_ms {
                context.metrics.add_future(1);
                continue;
            }
            let stats = EventTimeStats {
                min_ms: time,
                max_ms: time,
                sum_ms: time as f64,
                count: 1,
                delay_ms: self.delay_ms,
            };
            self.seen = Some(match self.seen.take() {
                Some(seen) => merge_event_times(seen, stats),
                None => stats,
            });
            if context.times_by_split {
                let Origin { source, split, .. } = context.origin;
                self.by_split.push(SplitEventTimes {
                    source,
                    split,
                    stats,
                });
            }
        }
        out.emit(rows);
        Ok(())
    }

    fn take_event_times(&mut self) -> Option<EventTimeStats> {
        self.seen.take()
    }

    fn take_split_event_times(&mut self) -> Vec<SplitEventTimes> {
        std::mem::take(&mut self.by_split)
    }
}

/// Keeps numbers until the watermark reaches them, then emits them; what comes at or below the watermark is late.
#[derive(Default)]
struct Wait(Held);

pub(crate) fn wait() -> OperatorSpec {
    OperatorSpec::new("wait", |_| Ok(Wait::default()))
        .with_tables(vec![table(TableKind::Timed { bucket: 10 })])
        .with_watermark_epochs()
}

impl Operator for Wait {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let (late, kept): (Vec<i64>, Vec<i64>) = values(rows.batch())
            .into_iter()
            .partition(|time| *time <= context.late_watermark_ms);
        context.metrics.add_late(late.len());
        out.emit_late(Rows::inserts(numbers(late)));
        let converter = RowConverter::new(vec![SortField::new(DataType::Int64)])?;
        let keys = converter.convert_columns(&[numbers(kept.iter().copied()).column(0).clone()])?;
        for (key, time) in keys.iter().zip(kept) {
            let key = key.as_ref();
            let table = self.0.table()?;
            let slot = table.touch(key_group(key), time, key);
            table.set(slot, b"");
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let mut due = Vec::new();
        self.0.table()?.expire(context.watermark_ms, &mut |entry| {
            due.push(entry.time);
            Ok(())
        })?;
        out.emit(Rows::inserts(numbers(due)));
        Ok(())
    }

    fn open(&mut self, state: OperatorState, _: &OperatorContext) -> Result<()> {
        self.0.0 = Some(state);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.0.0.as_mut()
    }
}
