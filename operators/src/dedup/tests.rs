//! Deduplication: late rows, what is forgotten when, and a comparison with a plain model under any cut into batches.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use proptest::prelude::*;
use weir_runtime::Origin;

use super::*;
use crate::expression::testing::{commit, context, opened};

const SECOND: i64 = 1_000_000;

/// Key, time in seconds, value.
type Row = (i64, Option<i64>, i64);

fn batch(rows: &[Row]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let times =
        TimestampMicrosecondArray::from_iter(rows.iter().map(|row| row.1.map(|s| s * SECOND)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)));
    RecordBatch::try_from_iter_with_nullable([
        ("k", keys, true),
        ("ts", Arc::new(times.with_timezone("UTC")) as ArrayRef, true),
        ("v", values, true),
    ])
    .unwrap()
}

fn unbatch(batch: &RecordBatch) -> Vec<Row> {
    let number = |index: usize| batch.column(index).as_primitive::<Int64Type>();
    let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
    (0..batch.num_rows())
        .map(|row| {
            let time = times.is_valid(row).then(|| times.value(row) / SECOND);
            (number(0).value(row), time, number(2).value(row))
        })
        .collect()
}

/// An operator with its state, driven epoch by epoch.
struct Driven {
    operator: Box<dyn Operator>,
    context: OperatorContext,
    /// What was handed over as late in the last epoch.
    late: Vec<Row>,
}

impl Driven {
    fn new(keys: Vec<usize>, time: Option<usize>, forget: Forget) -> Self {
        let spec = Dedup { keys, time, forget };
        let spec = dedup(&batch(&[]).schema(), spec).unwrap();
        let context = context();
        Self {
            operator: opened(&spec, &context),
            context,
            late: Vec::new(),
        }
    }

    /// One epoch under a watermark in seconds; batches of splits in the order in which they arrive.
    fn epoch(&mut self, watermark: Option<i64>, arriving: &[(u32, Vec<Row>)]) -> Vec<Row> {
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
        let rows = |all: Vec<Rows>| -> Vec<Row> {
            all.iter().flat_map(|rows| unbatch(rows.batch())).collect()
        };
        self.late = rows(out.take_late());
        rows(out.take())
    }

    fn remembered(&mut self) -> u64 {
        self.operator.state().unwrap().stats().rows
    }
}

#[test]
fn dedup_keeps_the_first_row_by_split_whatever_arrives_first() {
    let mut driven = Driven::new(vec![0], None, Forget::Never);
    let arriving = [
        (1, vec![(1, None, 10), (2, None, 11)]),
        (0, vec![(1, None, 20), (1, None, 21)]),
    ];
    assert_eq!(
        driven.epoch(None, &arriving),
        [(1, None, 20), (2, None, 11)]
    );
    assert_eq!(
        driven.epoch(None, &[(0, vec![(2, None, 30), (3, None, 31)])]),
        [(3, None, 31)]
    );
    assert_eq!(driven.context.metrics.snapshot().duplicate, 3);
}

#[test]
fn dedup_counts_late_rows_also_where_the_time_is_no_key_and_remembers_their_keys_not() {
    let mut driven = Driven::new(vec![0], Some(1), Forget::Never);
    driven.epoch(Some(20), &[(0, vec![(1, Some(30), 0)])]);
    let rows = vec![(2, Some(20), 1), (3, Some(21), 2), (4, None, 3)];
    assert_eq!(
        driven.epoch(Some(20), &[(0, rows)]),
        [(3, Some(21), 2), (4, None, 3)]
    );
    assert_eq!(driven.context.metrics.snapshot().late, 1);
    assert_eq!(driven.remembered(), 3);
    assert!(driven.late.is_empty(), "nobody reads them");
}

#[test]
fn dedup_hands_late_rows_over_if_somebody_reads_them() {
    let mut driven = Driven::new(vec![0], Some(1), Forget::After { micros: 0 });
    driven.context.late_output = true;
    driven.epoch(Some(20), &[(0, vec![(1, Some(30), 0)])]);
    assert!(driven.late.is_empty());
    let rows = vec![(2, Some(20), 1), (2, Some(7), 2), (3, Some(21), 3)];
    assert_eq!(driven.epoch(Some(20), &[(0, rows)]), [(3, Some(21), 3)]);
    assert_eq!(driven.late, [(2, Some(20), 1), (2, Some(7), 2)]);
}

#[test]
fn dedup_with_the_time_as_key_forgets_what_the_watermark_passed_and_never_null_times() {
    let forget = Forget::WithTime { bucket: SECOND };
    let mut driven = Driven::new(vec![0, 1], Some(1), forget);
    let rows = vec![
        (1, Some(1), 1),
        (1, Some(1), 2),
        (1, Some(5), 3),
        (1, None, 4),
        (1, None, 5),
    ];
    let first = driven.epoch(None, &[(0, rows)]);
    assert_eq!(first, [(1, Some(1), 1), (1, Some(5), 3), (1, None, 4)]);
    driven.epoch(Some(4), &[]);
    assert_eq!(driven.remembered(), 2);
    driven.epoch(Some(5), &[]);
    assert_eq!(driven.remembered(), 1);
    assert_eq!(driven.epoch(None, &[(0, vec![(1, None, 6)])]), []);
}

#[test]
fn dedup_within_the_watermark_forgets_by_the_first_rows_time_and_is_not_prolonged() {
    let forget = Forget::After {
        micros: 10 * SECOND,
    };
    let mut driven = Driven::new(vec![0], Some(1), forget);
    driven.epoch(None, &[(0, vec![(1, Some(10), 1), (2, None, 2)])]);
    assert_eq!(driven.epoch(Some(9), &[(0, vec![(1, Some(15), 3)])]), []);
    assert_eq!(driven.remembered(), 2);
    driven.epoch(Some(10), &[]);
    assert_eq!(driven.remembered(), 1, "a null time counts as 1970");
    driven.epoch(Some(20), &[]);
    assert_eq!(driven.remembered(), 0);
    let again = driven.epoch(Some(20), &[(0, vec![(1, Some(21), 4)])]);
    assert_eq!(again, [(1, Some(21), 4)]);
}

#[test]
fn dedup_ignores_old_values_and_removals_of_a_changelog() {
    let mut driven = Driven::new(vec![0], None, Forget::Never);
    let rows = batch(&[(1, None, 1), (1, None, 2), (2, None, 3)]);
    let kinds = arrow::array::UInt8Array::from(vec![1, 2, 3]);
    let (context, mut out) = (context(), Outbox::default());
    let rows = Rows::with_kinds(rows, kinds).unwrap();
    driven
        .operator
        .process(0, rows, &context, &mut out)
        .unwrap();
    driven.operator.on_epoch_end(&context, &mut out).unwrap();
    let emitted: Vec<Row> = out
        .take()
        .iter()
        .flat_map(|rows| unbatch(rows.batch()))
        .collect();
    assert_eq!(emitted, [(1, None, 2)]);
    assert_eq!(context.metrics.snapshot().filtered, 2);
}

#[test]
fn dedup_refuses_what_does_not_fit() {
    let schema = batch(&[]).schema();
    let refused = |keys: Vec<usize>, time, forget| {
        let spec = Dedup { keys, time, forget };
        dedup(&schema, spec).unwrap_err().to_string()
    };
    assert!(refused(vec![7], None, Forget::Never).contains("column 7"));
    assert!(refused(vec![0], None, Forget::After { micros: 1 }).contains("event time"));
    let timed = Forget::WithTime { bucket: 1 };
    assert!(refused(vec![0], Some(1), timed).contains("no key"));
}

/// What deduplication means, row by row in the order of origins.
struct Model {
    time_is_key: bool,
    forget: Forget,
    known: BTreeMap<(i64, Option<i64>), i64>,
    late: Option<i64>,
}

impl Model {
    fn epoch(&mut self, watermark: Option<i64>, rows: &[Row]) -> Vec<Row> {
        let mut kept = Vec::new();
        for row in rows {
            if let (Some(time), Some(late)) = (row.1, self.late)
                && time <= late
            {
                continue;
            }
            let key = (row.0, row.1.filter(|_| self.time_is_key));
            let expires = match self.forget {
                Forget::Never => i64::MAX,
                Forget::WithTime { .. } => row.1.unwrap_or(i64::MAX),
                Forget::After { micros } => row.1.unwrap_or(0) + micros / SECOND,
            };
            if let std::collections::btree_map::Entry::Vacant(entry) = self.known.entry(key) {
                entry.insert(expires);
                kept.push(*row);
            }
        }
        self.late = watermark.or(self.late);
        if let Some(watermark) = self.late {
            self.known.retain(|_, expires| *expires > watermark);
        }
        kept
    }
}

/// Rows of each split of an epoch, and how far the watermark moves.
fn epochs() -> impl Strategy<Value = Vec<(Vec<Vec<Row>>, Option<i64>)>> {
    let row = (
        0..6_i64,
        proptest::option::weighted(0.9, 0..40_i64),
        0..1000_i64,
    );
    let splits = prop::collection::vec(prop::collection::vec(row, 0..12), 1..4);
    prop::collection::vec((splits, proptest::option::of(0..8_i64)), 1..6)
}

/// The rows of the splits as batches of up to `size` rows, splits interleaved by `order`.
fn arrival(
    splits: &[Vec<Row>],
    size: usize,
    order: &[prop::sample::Index],
) -> Vec<(u32, Vec<Row>)> {
    let mut waiting: Vec<(u32, Vec<Vec<Row>>)> = splits
        .iter()
        .enumerate()
        .map(|(split, rows)| {
            let batches = rows.chunks(size).rev().map(<[Row]>::to_vec).collect();
            (split as u32, batches)
        })
        .filter(|(_, batches): &(u32, Vec<Vec<Row>>)| !batches.is_empty())
        .collect();
    let mut arriving = Vec::new();
    let mut order = order.iter().cycle();
    while !waiting.is_empty() {
        let next = order.next().unwrap().index(waiting.len());
        let (split, batches) = &mut waiting[next];
        arriving.push((*split, batches.pop().unwrap()));
        if batches.is_empty() {
            waiting.remove(next);
        }
    }
    arriving
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn dedup_is_a_set_of_keys_however_rows_are_cut_and_interleaved(
        epochs in epochs(),
        kind in 0..4_u8,
        size in 1..9_usize,
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
    ) {
        let (time_is_key, forget) = match kind {
            0 => (false, Forget::Never),
            1 => (true, Forget::Never),
            2 => (true, Forget::WithTime { bucket: 4 * SECOND }),
            _ => (false, Forget::After { micros: 10 * SECOND }),
        };
        let keys = if time_is_key { vec![0, 1] } else { vec![0] };
        let mut driven = Driven::new(keys, Some(1), forget);
        let mut model = Model { time_is_key, forget, known: BTreeMap::new(), late: None };
        let mut watermark = None;
        let mut rows_in = 0;
        let mut rows_out = 0;
        for (splits, moves) in epochs {
            if let Some(moves) = moves {
                watermark = Some(watermark.unwrap_or(0) + moves);
            }
            let arriving = arrival(&splits, size, &order);
            let emitted = driven.epoch(watermark, &arriving);
            prop_assert_eq!(&emitted, &model.epoch(watermark, &splits.concat()));
            prop_assert_eq!(driven.remembered(), model.known.len() as u64);
            rows_in += splits.iter().map(Vec::len).sum::<usize>() as u64;
            rows_out += emitted.len() as u64;
        }
        let counts = driven.context.metrics.snapshot();
        prop_assert_eq!(rows_in, rows_out + counts.late + counts.duplicate);
    }
}
