//! Keeps the first row of each key of the whole stream (Spark's `dropDuplicates` and its form within the watermark).
//!
//! How long a key is remembered is [`Forget`]. Rows at or before the watermark are dropped as late wherever there is one, whether
//! or not the event time is a key (SPEC 7.5). Which of equal rows is the first follows from their origin, never from timing.

mod candidates;
#[cfg(test)]
mod tests;

use arrow::array::{Array, BooleanArray, TimestampMicrosecondArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Fields, SchemaRef};
use weir_runtime::{
    Operator, OperatorContext, OperatorSpec, Outbox, Result, RowKind, Rows, WeirError,
};
use weir_runtime::{OperatorState, TableKind, TableSpec};

use crate::keys::Keys;
use crate::late;
use crate::row_codec::{columns_text, fields_text};
use crate::watermark::instants;
use candidates::Candidates;

/// How long a key is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// For ever.
    Never,
    /// Until the watermark reaches the event time, which is one of the keys; entries are kept in buckets of so many microseconds.
    WithTime {
        /// Width of a bucket in microseconds, 1 or more.
        bucket: i64,
    },
    /// Until the watermark reaches the event time of the key's first row and so many microseconds; a null time counts as 1970.
    After {
        /// Microseconds.
        micros: i64,
    },
}

/// What [`dedup`] does.
#[derive(Debug, Clone)]
pub struct Dedup {
    /// Positions of the key columns, in the order of the exchange before the operator.
    pub keys: Vec<usize>,
    /// Position of the event-time column: a timestamp with a time zone or a window.
    pub time: Option<usize>,
    /// How long a key is remembered; all but [`Forget::Never`] need the time.
    pub forget: Forget,
}

/// An operator that passes on the first row of each key, over rows of `schema`. It emits at the end of each epoch, in the order
/// of origins.
///
/// # Errors
/// If a position does not exist, a type cannot be a key, or the time is missing.
pub fn dedup(schema: &SchemaRef, spec: Dedup) -> Result<OperatorSpec> {
    let keys = check(schema, &spec)?;
    let names: Vec<&str> = spec
        .keys
        .iter()
        .map(|key| schema.field(*key).name().as_str())
        .collect();
    let table = TableSpec {
        name: "keys".to_owned(),
        kind: match spec.forget {
            Forget::Never => TableKind::Keyed,
            Forget::WithTime { bucket } => TableKind::Timed { bucket },
            Forget::After { .. } => TableKind::Expiring,
        },
        version: 1,
        key: keys.codec().text(),
        value: fields_text(&Fields::empty()),
    };
    let (forget, state_name) = match spec.forget {
        Forget::Never => ("never".to_owned(), "dedupe"),
        Forget::WithTime { .. } => ("with the event time".to_owned(), "dedupe"),
        Forget::After { micros } => (format!("after {micros} us"), "dedupeWithinWatermark"),
    };
    let time = spec
        .time
        .map_or("", |time| schema.field(time).name().as_str());
    let made = (schema.clone(), spec.clone());
    let described = OperatorSpec::new("dedup", move |_| Deduplicate::new(&made.0, &made.1))
        .with_detail(format!("{}, forgets {forget}", names.join(", ")))
        .with_param("keys", columns_text(keys.codec().fields()))
        .with_param("time", time)
        .with_param("forget", forget)
        .with_state_name(state_name)
        .with_tables(vec![table]);
    Ok(match spec.time {
        Some(_) => described.with_watermark_epochs(),
        None => described,
    })
}

fn check(schema: &SchemaRef, spec: &Dedup) -> Result<Keys> {
    let width = schema.fields().len();
    if let Some(outside) = spec
        .keys
        .iter()
        .chain(&spec.time)
        .find(|column| **column >= width)
    {
        return Err(WeirError::plan(format!(
            "deduplication over column {outside}, allowed: 0 to {}",
            width.saturating_sub(1)
        )));
    }
    let problem = match (spec.forget, spec.time) {
        (Forget::Never, _) => None,
        (_, None) => Some("forgetting keys needs an event time"),
        (Forget::WithTime { .. }, Some(time)) if !spec.keys.contains(&time) => {
            Some("the event time is no key")
        }
        (Forget::WithTime { bucket }, _) if bucket < 1 => Some("a bucket is 1 us or longer"),
        (Forget::After { micros }, _) if micros < 0 => Some("keys are remembered for 0 us or more"),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(WeirError::plan(format!("deduplication: {problem}")));
    }
    Keys::new(schema, spec.keys.clone())
}

struct Deduplicate {
    keys: Keys,
    time: Option<usize>,
    forget: Forget,
    state: Option<OperatorState>,
    candidates: Candidates,
    /// Rows of the open epoch that were not late.
    seen: usize,
    /// Slots of the rows of a batch.
    slots: Vec<usize>,
    /// By slot, whether the key was known before the epoch; of the slots that have been asked about.
    known: Vec<bool>,
}

impl Deduplicate {
    fn new(schema: &SchemaRef, spec: &Dedup) -> Result<Self> {
        Ok(Self {
            keys: Keys::new(schema, spec.keys.clone())?,
            time: spec.time,
            forget: spec.forget,
            state: None,
            candidates: Candidates::default(),
            seen: 0,
            slots: Vec::new(),
            known: Vec::new(),
        })
    }

    /// The rows that are new values and not late, and their times.
    fn on_time(
        &self,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<(Rows, Option<TimestampMicrosecondArray>)> {
        let rows = values(rows, context)?;
        let Some(column) = self.time else {
            return Ok((rows, None));
        };
        let times = instants(rows.batch().column(column))?;
        if context.late_watermark_ms == i64::MIN {
            return Ok((rows, Some(times)));
        }
        let bound = context.late_watermark_ms.saturating_mul(1000);
        let in_time = BooleanBuffer::collect_bool(times.len(), |row| {
            times.is_null(row) || times.value(row) > bound
        });
        if in_time.count_set_bits() == times.len() {
            return Ok((rows, Some(times)));
        }
        late::hand_over(&rows, &BooleanArray::from(!&in_time), context, out)?;
        let rows = rows.filter(&BooleanArray::from(in_time))?;
        let times = instants(rows.batch().column(column))?;
        Ok((rows, Some(times)))
    }

    /// Finds out which of the touched keys are new and has the state remember them, unless what it remembers depends on the row.
    fn learn(&mut self) -> Result<()> {
        let table = table(&mut self.state)?;
        table.load()?;
        let at_once = !matches!(self.forget, Forget::After { .. });
        for slot in self.known.len()..table.touched() {
            let known = table.value(slot).is_some();
            self.known.push(known);
            if at_once && !known {
                table.set(slot, &[]);
            }
        }
        Ok(())
    }

    /// Gives each new key of the epoch its first row.
    fn settle(&mut self) -> Result<candidates::Selection> {
        self.learn()?;
        let mut selection = self.candidates.selection();
        let mut known = std::mem::take(&mut self.known);
        let new = || {
            let places = self.candidates.places().iter().enumerate();
            places.filter(|(slot, _)| !known[*slot])
        };
        for (_, place) in new() {
            selection.select(*place)?;
        }
        if let (Forget::After { micros }, Some(column)) = (self.forget, self.time) {
            let batches = self.candidates.batches();
            let times: Vec<TimestampMicrosecondArray> = batches
                .map(|batch| instants(batch.column(column)))
                .collect::<Result<_>>()?;
            let table = table(&mut self.state)?;
            for (slot, place) in new() {
                let (times, row) = (&times[place.batch as usize], place.row as usize);
                let time = match times.is_null(row) {
                    true => 0,
                    false => times.value(row),
                };
                table.set_expiring(slot, &[], time.saturating_add(micros));
            }
        }
        known.clear();
        self.known = known;
        Ok(selection)
    }

    /// Forgets the keys that the watermark has passed.
    fn forget(&mut self, watermark_ms: i64) -> Result<()> {
        if self.forget != Forget::Never && watermark_ms != i64::MIN {
            table(&mut self.state)?.expire_silently(watermark_ms.saturating_mul(1000))?;
        }
        Ok(())
    }
}

fn table(state: &mut Option<OperatorState>) -> Result<&mut weir_runtime::Table> {
    state
        .as_mut()
        .map(|state| state.table(0))
        .ok_or_else(|| WeirError::internal("a deduplication was not given its state"))
}

/// The rows of a changelog that are values: an old value or a removal is not a row to compare.
fn values(rows: Rows, context: &OperatorContext) -> Result<Rows> {
    let Some(kinds) = rows.kinds() else {
        return Ok(rows);
    };
    let is_value = |kind: u8| kind == RowKind::Insert as u8 || kind == RowKind::UpdateAfter as u8;
    let keep = BooleanBuffer::collect_bool(kinds.len(), |row| is_value(kinds.value(row)));
    context
        .metrics
        .add_filtered(kinds.len() - keep.count_set_bits());
    rows.filter(&BooleanArray::from(keep))
}

impl Operator for Deduplicate {
    fn open(&mut self, state: OperatorState, _context: &OperatorContext) -> Result<()> {
        self.state = Some(state);
        Ok(())
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
        let (rows, times) = self.on_time(rows, context, out)?;
        self.seen += rows.num_rows();
        self.keys.encode(rows.batch())?;
        let table = table(&mut self.state)?;
        let times = times.filter(|_| matches!(self.forget, Forget::WithTime { .. }));
        let keys = (0..rows.num_rows()).map(|row| {
            let (group, key) = self.keys.key(row);
            let time = match &times {
                None => 0,
                Some(times) if times.is_valid(row) => times.value(row),
                // No watermark reaches a time that is not known.
                Some(_) => i64::MAX,
            };
            (group, time, key)
        });
        self.slots.clear();
        table.touch_all(keys, &mut self.slots);
        if table.is_loaded() {
            // While the entries are in the processor's caches; what lies in files is asked for once, at the end.
            self.learn()?;
        }
        for (row, slot) in (0..).zip(&self.slots) {
            self.candidates.offer(*slot, context.origin, row);
        }
        self.candidates.keep(context.origin, &rows)
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let selection = self.settle()?;
        let mut emitted = 0;
        self.candidates.emit(selection, &mut |batch| {
            emitted += batch.num_rows();
            out.emit(Rows::inserts(batch));
        })?;
        let seen = std::mem::take(&mut self.seen);
        context.metrics.add_duplicate(seen - emitted);
        self.forget(context.watermark_ms)
    }
}
