//! Session windows: Spark's boundaries, and a comparison with a plain model under any cut into batches.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use datafusion::functions_aggregate::{
    array_agg::array_agg_udaf, count::count_udaf, sum::sum_udaf,
};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use proptest::prelude::*;
use weir_runtime::{Operator, OperatorContext, Origin, Outbox, RowKind, Rows};

use super::*;
use crate::expression::data_error;
use crate::expression::testing::{commit, context, opened};

const SECOND: i64 = 1_000_000;

/// Key, time and gap in seconds, value.
type Row = (i64, Option<i64>, i64, i64);
/// Key, start and end in seconds, values.
type Session = (i64, i64, i64, Vec<i64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let number = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let times = rows.iter().map(|row| row.1.map(|s| s * SECOND));
    let times = TimestampMicrosecondArray::from_iter(times).with_timezone("UTC");
    RecordBatch::try_from_iter_with_nullable([
        ("k", number(|row| row.0), true),
        ("ts", Arc::new(times) as ArrayRef, true),
        ("gap", number(|row| row.2 * SECOND), true),
        ("v", number(|row| row.3), true),
    ])
    .unwrap()
}

fn call(function: Arc<AggregateUDF>, ordered: bool) -> AggregateCall {
    let id = format!("{}(v)", function.name());
    let schema = batch(&[]).schema();
    let built = AggregateExprBuilder::new(function, vec![Arc::new(Column::new("v", 3))])
        .schema(schema)
        .alias(&id)
        .build()
        .unwrap();
    AggregateCall {
        name: id.clone(),
        id,
        function: Arc::new(built),
        filter: None,
        ordered,
        distinct: None,
    }
}

struct Driven {
    operator: Box<dyn Operator>,
    context: OperatorContext,
    ordered: bool,
    /// Values of the rows handed over as late in the last epoch.
    late: Vec<i64>,
}

impl Driven {
    /// Lists of values if `ordered`, else their number and sum.
    fn new(mode: OutputMode, ordered: bool, before: bool) -> Self {
        let calls = match ordered {
            true => vec![call(array_agg_udaf(), true)],
            false => vec![call(count_udaf(), false), call(sum_udaf(), false)],
        };
        let aggregation = SessionAggregation {
            input: batch(&[]).schema(),
            keys: 1,
            time: 1,
            gap: Gap::Column(2),
            gap_text: "gap".into(),
            calls,
            window: ("session_window".into(), 0),
            mode,
            emit_before: before,
            errors: data_error,
        };
        let context = context();
        Self {
            operator: opened(&sessions(aggregation).unwrap(), &context),
            context,
            ordered,
            late: Vec::new(),
        }
    }

    /// One epoch under a watermark in seconds; what it emits, with kinds.
    fn epoch(
        &mut self,
        watermark: Option<i64>,
        arriving: &[(u32, Vec<Row>)],
    ) -> Vec<(RowKind, Session)> {
        if let Some(seconds) = watermark {
            self.context.watermark_ms = seconds * 1000;
        }
        let mut out = Outbox::default();
        let mut sequences: BTreeMap<u32, u64> = BTreeMap::new();
        for (split, rows) in arriving {
            let sequence = sequences.entry(*split).or_default();
            self.context.origin = Origin {
                split: *split,
                sequence: *sequence,
                ..Origin::default()
            };
            *sequence += 1;
            self.operator
                .process(0, Rows::inserts(batch(rows)), &self.context, &mut out)
                .unwrap();
        }
        self.operator.on_epoch_end(&self.context, &mut out).unwrap();
        self.context.late_watermark_ms = self.context.watermark_ms;
        commit(self.operator.as_mut());
        let late = out.take_late();
        let values = |rows: &Rows| {
            rows.batch()
                .column(3)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        self.late = late.iter().flat_map(values).collect();
        out.take()
            .iter()
            .flat_map(|rows| self.unbatch(rows))
            .collect()
    }

    fn unbatch(&self, rows: &Rows) -> Vec<(RowKind, Session)> {
        let batch = rows.batch();
        let number =
            |index: usize, row: usize| batch.column(index).as_primitive::<Int64Type>().value(row);
        let windows = batch.column(0).as_struct();
        let bound = |column: usize, row: usize| {
            let times = windows.column(column);
            times.as_primitive::<TimestampMicrosecondType>().value(row) / SECOND
        };
        let values = |row: usize| match self.ordered {
            false => vec![number(2, row), number(3, row)],
            true => batch
                .column(2)
                .as_list::<i32>()
                .value(row)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec(),
        };
        (0..batch.num_rows())
            .map(|row| {
                let session = (number(1, row), bound(0, row), bound(1, row), values(row));
                (rows.kind(row), session)
            })
            .collect()
    }

    fn plain(&mut self, watermark: Option<i64>, rows: Vec<Row>) -> Vec<Session> {
        let emitted = self.epoch(watermark, &[(0, rows)]);
        emitted.into_iter().map(|(_, session)| session).collect()
    }

    fn sessions(&self) -> u64 {
        self.operator.state_rows().unwrap()
    }

    fn entries(&mut self) -> u64 {
        self.operator.state().unwrap().stats().rows
    }
}

fn row(time: i64, value: i64) -> Row {
    (1, Some(time), 5, value)
}

#[test]
fn sessions_that_touch_are_one_and_close_when_the_watermark_reaches_their_end() {
    let mut driven = Driven::new(OutputMode::Append, true, false);
    let none: Vec<Session> = Vec::new();
    assert_eq!(
        driven.plain(None, vec![row(1, 1), row(6, 2), row(12, 3)]),
        none
    );
    assert_eq!(driven.plain(Some(10), vec![]), none);
    assert_eq!(driven.plain(Some(11), vec![]), [(1, 1, 11, vec![1, 2])]);
    assert_eq!(driven.entries(), 1);
    assert_eq!(driven.plain(Some(17), vec![]), [(1, 12, 17, vec![3])]);
    assert_eq!(driven.entries(), 0);
}

#[test]
fn sessions_complete_at_the_end_of_their_epoch_are_never_stored() {
    let mut driven = Driven::new(OutputMode::Append, false, false);
    driven.plain(None, vec![row(0, 1)]);
    let rows = vec![row(20, 2), row(22, 3), row(40, 4), (2, Some(21), 5, 5)];
    let complete = driven.plain(Some(30), rows);
    let expected = [
        (1, 20, 27, vec![2, 5]),
        (2, 21, 26, vec![1, 5]),
        (1, 0, 5, vec![1, 1]),
    ];
    assert_eq!(complete, expected);
    assert_eq!((driven.sessions(), driven.entries()), (1, 1));
    assert_eq!(driven.plain(Some(45), vec![]), [(1, 40, 45, vec![1, 4])]);
    assert_eq!((driven.sessions(), driven.entries()), (0, 0));
}

#[test]
fn a_row_between_stored_sessions_makes_them_one() {
    let mut driven = Driven::new(OutputMode::Append, true, false);
    driven.plain(None, vec![row(0, 1), row(8, 2)]);
    driven.plain(None, vec![row(4, 3)]);
    assert_eq!(driven.entries(), 1);
    assert_eq!(driven.plain(Some(60), vec![]), [(1, 0, 13, vec![1, 3, 2])]);
    assert_eq!(driven.entries(), 0);
}

#[test]
fn a_complete_session_is_not_opened_again_and_rows_before_it_are_late() {
    let mut driven = Driven::new(OutputMode::Append, false, false);
    driven.plain(None, vec![row(0, 1), row(3, 1)]);
    assert_eq!(driven.plain(Some(8), vec![]), [(1, 0, 8, vec![2, 2])]);
    let none: Vec<Session> = Vec::new();
    assert_eq!(driven.plain(Some(8), vec![row(3, 9), row(7, 5)]), none);
    assert_eq!(driven.plain(Some(12), vec![]), [(1, 7, 12, vec![1, 5])]);
    assert_eq!(driven.context.metrics.snapshot().late, 1);
    assert!(driven.late.is_empty(), "nobody reads them");
}

#[test]
fn late_rows_are_handed_over_if_somebody_reads_them() {
    let mut driven = Driven::new(OutputMode::Append, false, false);
    driven.context.late_output = true;
    driven.plain(Some(8), vec![row(9, 1)]);
    // A row that has no time is not a late one.
    driven.plain(
        Some(8),
        vec![row(3, 2), (1, None, 5, 3), row(4, 4), row(1, 5)],
    );
    assert_eq!(driven.late, [2, 5]);
}

#[test]
fn rows_without_time_or_gap_are_left_out() {
    let mut driven = Driven::new(OutputMode::Append, false, false);
    let rows = vec![
        (1, None, 5, 1),
        (1, Some(2), 0, 1),
        (1, Some(2), -1, 1),
        row(3, 7),
    ];
    driven.plain(None, rows);
    assert_eq!(driven.plain(Some(9), vec![]), [(1, 3, 8, vec![1, 7])]);
    assert_eq!(driven.context.metrics.snapshot().filtered, 3);
}

#[test]
fn complete_mode_keeps_all_sessions_and_knows_no_late_rows() {
    let mut driven = Driven::new(OutputMode::Complete, false, false);
    assert_eq!(
        driven.plain(Some(100), vec![row(1, 1)]),
        [(1, 1, 6, vec![1, 1])]
    );
    let all = driven.plain(Some(200), vec![row(6, 2), row(40, 3)]);
    assert_eq!(all, [(1, 1, 11, vec![2, 3]), (1, 40, 45, vec![1, 3])]);
}

#[test]
fn update_mode_emits_changed_sessions_and_deletes_those_of_another_range() {
    let mut driven = Driven::new(OutputMode::Update, false, false);
    driven.plain(None, vec![row(0, 1), row(20, 2)]);
    let changed = driven.epoch(None, &[(0, vec![row(3, 4)])]);
    let expected = [
        (RowKind::Delete, (1, 0, 5, vec![1, 1])),
        (RowKind::Insert, (1, 0, 8, vec![2, 5])),
    ];
    assert_eq!(changed, expected);
    let inside = driven.epoch(None, &[(0, vec![row(2, 8)])]);
    assert_eq!(inside, [(RowKind::UpdateAfter, (1, 0, 8, vec![3, 13]))]);
    assert_eq!(driven.epoch(Some(25), &[]), []);
    assert_eq!(driven.entries(), 0);
}

#[test]
fn a_changelog_takes_back_what_merged_sessions_replace() {
    let mut driven = Driven::new(OutputMode::Update, false, true);
    driven.plain(None, vec![row(0, 1), row(8, 2), row(30, 3)]);
    let merged = driven.epoch(None, &[(0, vec![row(4, 4), row(30, 6)])]);
    assert_eq!(
        merged,
        [
            (RowKind::Delete, (1, 0, 5, vec![1, 1])),
            (RowKind::Delete, (1, 8, 13, vec![1, 2])),
            (RowKind::Insert, (1, 0, 13, vec![3, 7])),
            (RowKind::UpdateBefore, (1, 30, 35, vec![1, 3])),
            (RowKind::UpdateAfter, (1, 30, 35, vec![2, 9])),
        ]
    );
}

/// Spark's way: rows are sessions of their own, sorted with the stored ones by start, and neighbours that touch are merged.
#[derive(Default)]
struct Model {
    open: BTreeMap<i64, Vec<Session>>,
    late: Option<i64>,
    changed: Vec<Session>,
}

impl Model {
    fn epoch(&mut self, complete: bool, rows: &[Row]) {
        self.changed.clear();
        let late = self.late.filter(|_| !complete);
        let mut fresh: BTreeMap<i64, Vec<Session>> = BTreeMap::new();
        for (key, time, gap, value) in rows {
            let Some(time) = time else { continue };
            if *gap <= 0 || late.is_some_and(|late| time + gap <= late) {
                continue;
            }
            let session = (*key, *time, time + gap, vec![*value]);
            fresh.entry(*key).or_default().push(session);
        }
        for (key, rows) in fresh {
            let stored = self.open.remove(&key).unwrap_or_default();
            let mut all: Vec<(bool, Session)> = stored.into_iter().map(|s| (false, s)).collect();
            all.extend(rows.into_iter().map(|s| (true, s)));
            all.sort_by_key(|(_, session)| session.1);
            let mut merged: Vec<(bool, Session)> = Vec::new();
            for (new, session) in all {
                match merged.last_mut() {
                    Some((changed, last)) if session.1 <= last.2 => {
                        *changed |= new;
                        last.2 = last.2.max(session.2);
                        last.3.extend(session.3);
                    }
                    _ => merged.push((new, session)),
                }
            }
            let changed = merged.iter().filter(|(changed, _)| *changed);
            self.changed
                .extend(changed.map(|(_, session)| session.clone()));
            let sessions = merged.into_iter().map(|(_, session)| session).collect();
            self.open.insert(key, sessions);
        }
    }

    fn close(&mut self, watermark: Option<i64>) -> Vec<Session> {
        self.late = watermark.or(self.late);
        let Some(watermark) = self.late else {
            return Vec::new();
        };
        let mut closed = Vec::new();
        for sessions in self.open.values_mut() {
            closed.extend(sessions.iter().filter(|s| s.2 <= watermark).cloned());
            sessions.retain(|s| s.2 > watermark);
        }
        self.open.retain(|_, sessions| !sessions.is_empty());
        closed
    }
}

fn summed(mut sessions: Vec<Session>, ordered: bool) -> Vec<Session> {
    if !ordered {
        for session in &mut sessions {
            session.3 = vec![session.3.len() as i64, session.3.iter().sum()];
        }
    }
    sessions.sort();
    sessions
}

fn epochs() -> impl Strategy<Value = Vec<(Vec<Vec<Row>>, Option<i64>)>> {
    let row = (
        0..3_i64,
        proptest::option::weighted(0.95, 0..60_i64),
        prop_oneof![8 => Just(5_i64), 2 => 0..12_i64],
        0..100_i64,
    );
    let splits = prop::collection::vec(prop::collection::vec(row, 0..10), 1..4);
    prop::collection::vec((splits, proptest::option::of(0..15_i64)), 1..6)
}

/// Batches of up to `size` rows, the splits in turn or, if `turned`, one after the other from the last.
fn arrival(splits: &[Vec<Row>], size: usize, turned: bool) -> Vec<(u32, Vec<Row>)> {
    let mut arriving: Vec<(usize, u32, Vec<Row>)> = Vec::new();
    for (split, rows) in splits.iter().enumerate() {
        for (sequence, rows) in rows.chunks(size).enumerate() {
            let place = if turned {
                splits.len() - split
            } else {
                sequence
            };
            arriving.push((place, split as u32, rows.to_vec()));
        }
    }
    arriving.sort_by_key(|(place, _, _)| *place);
    arriving
        .into_iter()
        .map(|(_, split, rows)| (split, rows))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sessions_are_those_of_all_rows_however_rows_are_cut_and_interleaved(
        epochs in epochs(),
        ordered in any::<bool>(),
        mode in prop_oneof![
            Just(OutputMode::Append), Just(OutputMode::Update), Just(OutputMode::Complete)
        ],
        size in 1..7_usize,
        turned in any::<bool>(),
    ) {
        let mut driven = Driven::new(mode, ordered, false);
        let mut model = Model::default();
        let mut watermark = None;
        for (splits, moves) in epochs {
            if let Some(moves) = moves {
                watermark = Some(watermark.unwrap_or(0) + moves);
            }
            let emitted = driven.epoch(watermark, &arrival(&splits, size, turned));
            let current = |(kind, _): &(RowKind, Session)| *kind != RowKind::Delete;
            let emitted = emitted.into_iter().filter(current);
            let mut emitted: Vec<Session> = emitted.map(|(_, session)| session).collect();
            emitted.sort();
            let complete = mode == OutputMode::Complete;
            model.epoch(complete, &splits.concat());
            let changed = model.changed.clone();
            let expected = match mode {
                OutputMode::Append => model.close(watermark),
                OutputMode::Update => {
                    model.close(watermark);
                    changed
                }
                OutputMode::Complete => model.open.values().flatten().cloned().collect(),
            };
            prop_assert_eq!(emitted, summed(expected, ordered));
            prop_assert_eq!(driven.entries(), model.open.len() as u64);
            let open = model.open.values().map(Vec::len).sum::<usize>();
            prop_assert_eq!(driven.sessions(), open as u64);
        }
    }
}
