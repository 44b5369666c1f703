//! Assigns rows to tumbling and sliding windows: a time column becomes the start of a window, a row of several windows is
//! repeated. Windows are half-open, `[start, start + size)`, and aligned to 1970 plus a shift.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray, UInt32Array};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit, TimestampMicrosecondType};
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, WeirError};

use crate::expression::batch_of;

/// Rows of one output batch at which the next one is begun; the windows of one row are never split.
const TARGET_ROWS: usize = 32_768;

/// What becomes of windows that the watermark has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Nothing is late.
    Ignore,
    /// Rows of a closed window are dropped and counted, once for each such window.
    Drop,
    /// Rows of a closed window are dropped; an earlier step has counted them.
    DropUncounted,
}

/// How rows get windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowAssign {
    /// Position of the time column (a timestamp in microseconds), which the start of the window replaces.
    pub column: usize,
    /// Length of a window, in microseconds.
    pub size: i64,
    /// Distance of two starts, in microseconds: at most the length, equal to it for tumbling windows.
    pub slide: i64,
    /// Shift of the starts against 1970-01-01, in microseconds.
    pub start: i64,
    /// One output row for each row, with the start of its newest window: where the length is a multiple of the slide, rows
    /// between two starts share all their windows and can be aggregated together before they are repeated.
    pub newest_only: bool,
    /// What becomes of closed windows.
    pub late: Lateness,
}

/// An operator that replaces a time by the start of its window, newest window first. Rows without a time are dropped and
/// counted as filtered.
pub fn assign_windows(assign: WindowAssign) -> OperatorSpec {
    let detail = format!(
        "{} us every {} us from {} us{}",
        assign.size,
        assign.slide,
        assign.start,
        if assign.newest_only { ", newest" } else { "" }
    );
    let checked = assign.clone();
    OperatorSpec::new("window", move |_| {
        Ok(AssignWindows {
            assign: assign.clone(),
        })
    })
    .with_schema_fn(move |inputs| checked.check(inputs))
    .with_detail(detail)
}

impl WindowAssign {
    fn check(&self, inputs: &[SchemaRef]) -> Result<SchemaRef> {
        let input = inputs
            .first()
            .ok_or_else(|| WeirError::plan("a window needs an input"))?;
        if self.slide <= 0 || self.size < self.slide {
            return Err(WeirError::plan(format!(
                "a window of {} us every {} us, allowed: 0 < slide <= size",
                self.size, self.slide
            )));
        }
        let field = input.fields().get(self.column);
        match field.map(|field| field.data_type()) {
            Some(DataType::Timestamp(TimeUnit::Microsecond, _)) => Ok(SchemaRef::clone(input)),
            other => Err(WeirError::plan(format!(
                "a window needs a timestamp in microseconds, got {other:?}"
            ))),
        }
    }

    /// Start of the newest window that holds `time`.
    fn newest(&self, time: i64) -> i64 {
        let past = (i128::from(time) - i128::from(self.start)).rem_euclid(i128::from(self.slide));
        // Smaller than the slide, which is an i64.
        time.saturating_sub(past as i64)
    }

    /// Most windows that a row falls into.
    fn most(&self) -> usize {
        usize::try_from(self.size.div_euclid(self.slide) + 1).unwrap_or(usize::MAX)
    }
}

/// Finds newest starts; times near each other cost no division.
struct Starts<'a> {
    assign: &'a WindowAssign,
    /// The start found last.
    known: i64,
}

impl<'a> Starts<'a> {
    fn new(assign: &'a WindowAssign, times: &[i64]) -> Self {
        let known = times.first().map_or(0, |time| assign.newest(*time));
        Self { assign, known }
    }

    fn of(&mut self, time: i64) -> i64 {
        let past = time.checked_sub(self.known);
        if past.is_none_or(|past| past < 0 || past >= self.assign.slide) {
            self.known = self.assign.newest(time);
        }
        self.known
    }
}

struct AssignWindows {
    assign: WindowAssign,
}

/// Rows and the start of a window for each.
#[derive(Default)]
struct Assigned {
    rows: Vec<u32>,
    starts: Vec<i64>,
}

impl AssignWindows {
    /// The bound at or before which the end of a window is late, in microseconds.
    fn late_bound(&self, context: &OperatorContext) -> Option<i64> {
        let known = context.late_watermark_ms != i64::MIN;
        (self.assign.late != Lateness::Ignore && known)
            .then(|| context.late_watermark_ms.saturating_mul(1000))
    }

    fn count_late(&self, context: &OperatorContext, late: usize) {
        if self.assign.late == Lateness::Drop && late > 0 {
            context.metrics.add_late(late);
        }
    }

    /// Gives rows all of whose windows are late to whoever wants them.
    fn hand_over(
        &self,
        rows: &Rows,
        late: Vec<u32>,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        if context.late_output && self.assign.late == Lateness::Drop && !late.is_empty() {
            out.emit_late(rows.take(&UInt32Array::from(late))?);
        }
        Ok(())
    }

    /// The rows that have a time.
    fn timed(&self, rows: Rows, context: &OperatorContext) -> Result<Rows> {
        let times = rows.batch().column(self.assign.column);
        if times.null_count() == 0 {
            return Ok(rows);
        }
        context.metrics.add_filtered(times.null_count());
        rows.filter(&arrow::compute::is_not_null(times)?)
    }

    /// One window for each row.
    fn tumbling(&self, rows: Rows, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let times = micros(&rows, self.assign.column);
        let mut starts = Starts::new(&self.assign, times.values());
        let found: Vec<i64> = times.values().iter().map(|time| starts.of(*time)).collect();
        let Some(bound) = self.late_bound(context) else {
            return emit(self.assign.column, rows, found, out);
        };
        let late = |start: &i64| start.saturating_add(self.assign.size) <= bound;
        let mut dropped: usize = 0;
        let mut kept = Assigned::default();
        for (row, start) in (0u32..).zip(&found) {
            if late(start) {
                dropped += 1;
                continue;
            }
            kept.rows.push(row);
            kept.starts.push(*start);
        }
        self.count_late(
            context,
            dropped + self.late_older(times.values(), &found, bound),
        );
        if dropped == 0 {
            return emit(self.assign.column, rows, found, out);
        }
        let lost = (0u32..).zip(&found).filter(|(_, start)| late(start));
        self.hand_over(&rows, lost.map(|(row, _)| row).collect(), context, out)?;
        repeat(self.assign.column, &rows, kept, out)
    }

    /// How many windows older than the newest are late, over all rows; counted where only the newest is given.
    fn late_older(&self, times: &[i64], newest: &[i64], bound: i64) -> usize {
        if !self.assign.newest_only || self.assign.size == self.assign.slide {
            return 0;
        }
        let older = |(time, newest): (&i64, &i64)| {
            // Every window that holds a time ends after it.
            if *time >= bound {
                return 0;
            }
            let starts = older_starts(&self.assign, *time, *newest);
            starts
                .filter(|start| start.saturating_add(self.assign.size) <= bound)
                .count()
        };
        times.iter().zip(newest).map(older).sum()
    }

    /// All windows of each row.
    fn sliding(&self, rows: &Rows, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let times = micros(rows, self.assign.column);
        let bound = self.late_bound(context).unwrap_or(i64::MIN);
        let mut starts = Starts::new(&self.assign, times.values());
        let most = self
            .assign
            .most()
            .saturating_mul(times.len())
            .min(TARGET_ROWS);
        let mut assigned = Assigned::with_capacity(most);
        let (mut late, mut lost) = (0, Vec::new());
        for (row, time) in (0u32..).zip(times.values()) {
            let newest = starts.of(*time);
            if newest.saturating_add(self.assign.size) <= bound {
                lost.push(row);
            }
            let older = older_starts(&self.assign, *time, newest);
            for start in std::iter::once(newest).chain(older) {
                if start.saturating_add(self.assign.size) <= bound {
                    late += 1;
                    continue;
                }
                assigned.rows.push(row);
                assigned.starts.push(start);
            }
            if assigned.rows.len() >= TARGET_ROWS {
                let full = std::mem::replace(&mut assigned, Assigned::with_capacity(most));
                repeat(self.assign.column, rows, full, out)?;
            }
        }
        self.count_late(context, late);
        self.hand_over(rows, lost, context, out)?;
        repeat(self.assign.column, rows, assigned, out)
    }
}

impl Assigned {
    fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            starts: Vec::with_capacity(rows),
        }
    }
}

/// Starts of the windows before the newest that hold `time` too, newest first.
fn older_starts(assign: &WindowAssign, time: i64, newest: i64) -> impl Iterator<Item = i64> {
    let (size, slide) = (assign.size, assign.slide);
    let before = move |start: &i64| start.checked_sub(slide);
    std::iter::successors(before(&newest), before)
        .take_while(move |start| time.saturating_sub(*start) < size)
}

fn micros(rows: &Rows, column: usize) -> TimestampMicrosecondArray {
    rows.batch()
        .column(column)
        .as_primitive::<TimestampMicrosecondType>()
        .clone()
}

/// Emits these rows, each with its start.
fn emit(column: usize, rows: Rows, starts: Vec<i64>, out: &mut Outbox) -> Result<()> {
    let batch = rows.batch();
    let mut columns = batch.columns().to_vec();
    let starts = TimestampMicrosecondArray::from(starts);
    columns[column] =
        Arc::new(starts.with_data_type(batch.column(column).data_type().clone())) as ArrayRef;
    let batch = batch_of(batch.schema_ref(), columns, batch.num_rows())?;
    out.emit(rows.map_batch(batch)?);
    Ok(())
}

/// Emits the rows that were assigned, each as often as it was.
fn repeat(column: usize, rows: &Rows, assigned: Assigned, out: &mut Outbox) -> Result<()> {
    if assigned.rows.is_empty() {
        return Ok(());
    }
    let taken = rows.take(&UInt32Array::from(assigned.rows))?;
    emit(column, taken, assigned.starts, out)
}

impl Operator for AssignWindows {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let rows = self.timed(rows, context)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if self.assign.newest_only || self.assign.size == self.assign.slide {
            return self.tumbling(rows, context, out);
        }
        self.sliding(&rows, context, out)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::expression::testing::context;

    const S: i64 = 1_000_000;

    fn assign(size: i64, slide: i64, start: i64) -> WindowAssign {
        WindowAssign {
            column: 0,
            size: size * S,
            slide: slide * S,
            start: start * S,
            newest_only: false,
            late: Lateness::Drop,
        }
    }

    fn batch(seconds: Vec<Option<i64>>) -> RecordBatch {
        let rows = i64::try_from(seconds.len()).expect("few");
        let times = seconds.into_iter().map(|s| s.map(|s| s * S));
        let times: TimestampMicrosecondArray = times.collect();
        let columns: [(&str, ArrayRef, bool); 2] = [
            ("t", Arc::new(times), true),
            ("row", Arc::new(Int64Array::from_iter_values(0..rows)), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).expect("batch")
    }

    /// (row, start in seconds) of what comes out, and the counters (late, filtered).
    fn run(
        assign: WindowAssign,
        seconds: Vec<Option<i64>>,
        late_watermark_ms: i64,
    ) -> (Vec<(i64, i64)>, (u64, u64)) {
        let mut context = context();
        context.late_watermark_ms = late_watermark_ms;
        let spec = assign_windows(assign);
        let batch = batch(seconds);
        spec.schema(&[batch.schema()]).expect("schema");
        let mut operator = spec.create(&context).expect("create");
        let mut out = Outbox::default();
        operator
            .process(0, Rows::inserts(batch), &context, &mut out)
            .expect("process");
        let mut found = Vec::new();
        for rows in out.take() {
            let starts = rows
                .batch()
                .column(0)
                .as_primitive::<TimestampMicrosecondType>();
            let numbers = rows.batch().column(1).as_primitive::<Int64Type>();
            found.extend(
                numbers
                    .values()
                    .iter()
                    .zip(starts.values())
                    .map(|(r, s)| (*r, s / S)),
            );
        }
        let counts = context.metrics.snapshot();
        (found, (counts.late, counts.filtered))
    }

    fn starts(assign: WindowAssign, second: i64) -> Vec<i64> {
        let (found, _) = run(assign, vec![Some(second)], i64::MIN);
        found.into_iter().map(|(_, start)| start).collect()
    }

    #[test]
    fn window_holds_its_start_and_not_its_end_also_before_1970() {
        let (found, _) = run(
            assign(10, 10, 0),
            [-11, -10, -1, 0, 9, 10].map(Some).to_vec(),
            i64::MIN,
        );
        let starts: Vec<i64> = found.iter().map(|(_, start)| *start).collect();
        assert_eq!(starts, [-20, -10, -10, 0, 0, 10]);
    }

    #[test]
    fn window_is_shifted_by_its_start() {
        assert_eq!(starts(assign(10, 10, 2), 0), [-8]);
        assert_eq!(starts(assign(10, 10, 2), 12), [12]);
        assert_eq!(starts(assign(10, 10, -2), 0), [-2]);
    }

    #[test]
    fn window_that_slides_repeats_rows_newest_first() {
        assert_eq!(starts(assign(10, 3, 0), 0), [0, -3, -6, -9]);
        assert_eq!(starts(assign(10, 3, 0), 10), [9, 6, 3]);
        assert_eq!(starts(assign(10, 3, 0), 12), [12, 9, 6, 3]);
        assert_eq!(starts(assign(10, 5, 0), 7), [5, 0]);
    }

    #[test]
    fn window_drops_and_counts_rows_without_a_time() {
        let (found, counts) = run(assign(10, 5, 0), vec![None, Some(7), None], i64::MIN);
        assert_eq!((found, counts), (vec![(1, 5), (1, 0)], (0, 2)));
    }

    #[test]
    fn window_that_ends_at_the_watermark_is_late() {
        let rows = vec![Some(9), Some(10), Some(3)];
        let (found, counts) = run(assign(10, 10, 0), rows.clone(), 10_000);
        assert_eq!((found, counts), (vec![(1, 10)], (2, 0)));
        let (found, counts) = run(assign(10, 5, 0), rows, 10_000);
        assert_eq!((found, counts), (vec![(0, 5), (1, 10), (1, 5)], (3, 0)));
    }

    #[test]
    fn window_hands_late_rows_over_if_somebody_reads_them() {
        for slide in [10, 5] {
            let mut context = context();
            context.late_watermark_ms = 10_000;
            context.late_output = true;
            let spec = assign_windows(assign(10, slide, 0));
            let mut operator = spec.create(&context).expect("create");
            let mut out = Outbox::default();
            let rows = Rows::inserts(batch(vec![Some(3), Some(9), Some(10)]));
            operator
                .process(0, rows, &context, &mut out)
                .expect("process");
            let late: usize = out.take_late().iter().map(Rows::num_rows).sum();
            // Of windows every 5 s, one that holds second 9 is still open.
            assert_eq!(late, if slide == 10 { 2 } else { 1 });
        }
    }

    #[test]
    fn window_by_panes_counts_late_windows_and_gives_one_row() {
        let panes = WindowAssign {
            newest_only: true,
            ..assign(10, 5, 0)
        };
        let (found, counts) = run(panes, vec![Some(9), Some(10), Some(3)], 10_000);
        assert_eq!((found, counts), (vec![(0, 5), (1, 10)], (3, 0)));
    }

    #[test]
    fn window_of_many_windows_is_cut_into_batches() {
        let mut context = context();
        context.late_watermark_ms = i64::MIN;
        let spec = assign_windows(assign(20_000, 1, 0));
        let mut operator = spec.create(&context).expect("create");
        let mut out = Outbox::default();
        let rows = Rows::inserts(batch(vec![Some(5); 6]));
        operator
            .process(0, rows, &context, &mut out)
            .expect("process");
        let sizes: Vec<usize> = out.take().iter().map(Rows::num_rows).collect();
        assert_eq!(sizes, [40_000, 40_000, 40_000]);
    }

    #[test]
    fn window_at_the_ends_of_time_does_not_overflow() {
        let all = assign(10, 3, 0);
        for time in [i64::MIN, i64::MAX] {
            let newest = all.newest(time);
            assert!(newest <= time || time == i64::MIN);
            assert!(older_starts(&all, time, newest).count() < 5);
        }
    }

    #[test]
    fn window_refuses_other_types_and_impossible_slides() {
        let schema = batch(vec![]).schema();
        let column = WindowAssign {
            column: 1,
            ..assign(10, 5, 0)
        };
        for wrong in [column, assign(5, 10, 0), assign(5, 0, 0)] {
            assert!(
                assign_windows(wrong)
                    .schema(&[SchemaRef::clone(&schema)])
                    .is_err()
            );
        }
    }
}
