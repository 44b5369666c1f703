//! Aggregations by hand: every mode, lateness, eviction, order, and batches cut in any way.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{Column, lit};
use proptest::prelude::*;
use weir_runtime::OperatorState;
use weir_runtime::{Epoch, Operator, OperatorContext, Outbox, RowKind, Rows};

use super::*;

mod stages;

/// (time in seconds, key, value)
type Row = (Option<i64>, Option<&'static str>, Option<i64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let times: TimestampMicrosecondArray = rows
        .iter()
        .map(|row| row.0.map(|s| s * 1_000_000))
        .collect();
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("t", Arc::new(times.with_timezone("UTC")), true),
        (
            "k",
            Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
            true,
        ),
        (
            "v",
            Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn call(id: &str, udaf: Arc<AggregateUDF>, argument: Arc<dyn PhysicalExpr>) -> AggregateCall {
    let function = AggregateExprBuilder::new(udaf, vec![argument])
        .schema(batch(&[]).schema())
        .alias(id)
        .build()
        .unwrap();
    AggregateCall {
        id: id.to_owned(),
        name: id.to_owned(),
        function: Arc::new(function),
        filter: None,
        ordered: false,
        distinct: None,
    }
}

/// count(*) and sum(v) by (t, k), where t is the event time.
fn by_time(mode: OutputMode) -> Aggregation {
    Aggregation {
        keys: batch(&[]).schema().fields()[..2].to_vec(),
        time: Some(TimeKey::Instant(0)),
        calls: vec![
            call("count(1)", count_udaf(), lit(1i64)),
            call("sum(v)", sum_udaf(), Arc::new(Column::new("v", 2))),
        ],
        input: AggregateInput::Rows,
        mode,
        emit_before: false,
        allow_new_aggregates: false,
        errors: crate::expression::data_error,
    }
}

/// An aggregation under test, epoch by epoch.
struct Run {
    operator: Box<dyn Operator>,
    context: OperatorContext,
}

type Emitted = Vec<(Option<RowKind>, Row, Option<i64>)>;

impl Run {
    fn new(aggregation: Aggregation) -> Self {
        let spec = aggregate(aggregation).unwrap();
        let context = crate::expression::testing::context();
        let mut operator = spec.create(&context).unwrap();
        let state = OperatorState::in_memory(spec.tables());
        operator.open(state, &context).unwrap();
        Self { operator, context }
    }

    fn raw(&mut self, batches: &[RecordBatch], watermark_ms: i64) -> Vec<Rows> {
        let mut out = Outbox::default();
        self.context.late_watermark_ms = self.context.watermark_ms;
        self.context.watermark_ms = watermark_ms;
        for batch in batches {
            let rows = Rows::inserts(batch.clone());
            self.operator
                .process(0, rows, &self.context, &mut out)
                .unwrap();
        }
        self.operator.on_epoch_end(&self.context, &mut out).unwrap();
        let state = self.operator.state().unwrap();
        futures::executor::block_on(state.commit(self.context.epoch)).unwrap();
        self.context.epoch = Epoch(self.context.epoch.0 + 1);
        out.take()
    }

    /// What one epoch of these rows emits: kind, (time, key, count), sum.
    fn epoch(&mut self, rows: &[Row], watermark_s: i64) -> Emitted {
        let emitted = self.raw(&[batch(rows)], watermark_s.saturating_mul(1000));
        emitted.iter().flat_map(emitted_rows).collect()
    }

    fn rows(&mut self) -> u64 {
        self.operator.state().unwrap().stats().rows
    }
}

fn emitted_rows(rows: &Rows) -> Emitted {
    let batch = rows.batch();
    let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
    let keys = batch.column(1).as_string::<i32>();
    let counts = batch.column(2).as_primitive::<Int64Type>();
    let sums = batch.column(3).as_primitive::<Int64Type>();
    let row = |i: usize| {
        let key: Option<&'static str> = keys
            .is_valid(i)
            .then(|| &*Box::leak(keys.value(i).to_owned().into_boxed_str()));
        let kind = rows.kinds().map(|_| rows.kind(i));
        let time = times.is_valid(i).then(|| times.value(i) / 1_000_000);
        let sum = sums.is_valid(i).then(|| sums.value(i));
        (kind, (time, key, Some(counts.value(i))), sum)
    };
    (0..rows.num_rows()).map(row).collect()
}

const NONE: i64 = i64::MIN;

#[test]
fn append_emits_groups_once_in_order_of_time_and_key_when_the_watermark_reaches_them() {
    let mut run = Run::new(by_time(OutputMode::Append));
    let rows = [
        (Some(7), Some("b"), Some(1)),
        (Some(7), Some("a"), Some(2)),
        (Some(5), Some("z"), None),
        (Some(9), Some("a"), Some(4)),
    ];
    assert_eq!(run.epoch(&rows, NONE), []);
    assert_eq!(run.epoch(&[(Some(7), Some("a"), Some(8))], NONE), []);
    let due = run.epoch(&[], 7);
    assert_eq!(
        due,
        [
            (None, (Some(5), Some("z"), Some(1)), None),
            (None, (Some(7), Some("a"), Some(2)), Some(10)),
            (None, (Some(7), Some("b"), Some(1)), Some(1)),
        ]
    );
    assert_eq!(run.rows(), 1);
    assert_eq!(run.epoch(&[], 7), []);
}

#[test]
fn a_row_is_late_by_the_watermark_of_the_epoch_before() {
    let mut run = Run::new(by_time(OutputMode::Append));
    run.epoch(&[(Some(20), Some("a"), Some(1))], NONE);
    // The watermark moves to 10 in this epoch: the row at 10 still counts, and its group closes at once.
    let now = run.epoch(&[(Some(10), Some("a"), Some(2))], 10);
    assert_eq!(now, [(None, (Some(10), Some("a"), Some(1)), Some(2))]);
    let late = [(Some(10), Some("a"), Some(4)), (Some(11), None, Some(8))];
    assert_eq!(run.epoch(&late, 10), []);
    assert_eq!(run.context.metrics.snapshot().late, 1);
    assert_eq!(run.rows(), 2);
}

#[test]
fn late_rows_are_handed_over_if_somebody_reads_them() {
    let mut run = Run::new(by_time(OutputMode::Append));
    run.context.late_output = true;
    run.context.late_watermark_ms = 10_000;
    let rows = batch(&[(Some(10), Some("a"), Some(4)), (Some(11), None, Some(8))]);
    let mut out = Outbox::default();
    run.operator
        .process(0, Rows::inserts(rows.clone()), &run.context, &mut out)
        .unwrap();
    let late = out.take_late();
    assert_eq!(late.len(), 1);
    assert_eq!(*late[0].batch(), rows.slice(0, 1));
}

#[test]
fn update_emits_touched_groups_with_kinds_and_evicts_silently() {
    let mut run = Run::new(by_time(OutputMode::Update));
    let (a, b) = ((Some(5), Some("a"), Some(1)), (Some(6), Some("b"), Some(1)));
    assert_eq!(
        run.epoch(&[a, b, a], NONE),
        [
            (
                Some(RowKind::Insert),
                (Some(5), Some("a"), Some(2)),
                Some(2)
            ),
            (
                Some(RowKind::Insert),
                (Some(6), Some("b"), Some(1)),
                Some(1)
            ),
        ]
    );
    assert_eq!(
        run.epoch(&[b], NONE),
        [(
            Some(RowKind::UpdateAfter),
            (Some(6), Some("b"), Some(2)),
            Some(2)
        )]
    );
    assert_eq!(run.epoch(&[], 5), []);
    assert_eq!(run.rows(), 1);
}

#[test]
fn update_gives_the_old_row_before_the_new_one_if_asked() {
    let mut aggregation = by_time(OutputMode::Update);
    aggregation.emit_before = true;
    let mut run = Run::new(aggregation);
    let many: Vec<Row> = (0..40_000).map(|s| (Some(s), Some("a"), Some(1))).collect();
    assert_eq!(run.epoch(&many, NONE).len(), 40_000);
    let again: Vec<Row> = (0..60_000).map(|s| (Some(s), Some("a"), Some(2))).collect();
    let emitted = run.epoch(&again, NONE);
    assert_eq!(emitted.len(), 100_000);
    let of = |second: i64| -> Emitted {
        let rows = emitted.iter().filter(|row| row.1.0 == Some(second));
        rows.cloned().collect()
    };
    let row = |kind, second, count, sum| {
        (
            Some(kind),
            (Some(second), Some("a"), Some(count)),
            Some(sum),
        )
    };
    assert_eq!(
        of(39_999),
        [
            row(RowKind::UpdateBefore, 39_999, 1, 1),
            row(RowKind::UpdateAfter, 39_999, 2, 3)
        ]
    );
    assert_eq!(of(40_000), [row(RowKind::Insert, 40_000, 1, 2)]);
}

#[test]
fn complete_emits_all_groups_and_ignores_the_watermark() {
    let mut run = Run::new(by_time(OutputMode::Complete));
    run.epoch(&[(Some(5), Some("a"), Some(1))], NONE);
    let all = run.epoch(&[(Some(1), None, None)], 10);
    assert_eq!(all.len(), 2);
    assert_eq!(run.epoch(&[(Some(1), None, Some(3))], 20).len(), 2);
    assert_eq!(run.epoch(&[], 30).len(), 2);
    assert_eq!(run.context.metrics.snapshot().late, 0);
}

#[test]
fn a_group_without_a_time_is_kept_and_never_complete() {
    let mut run = Run::new(by_time(OutputMode::Append));
    run.epoch(&[(None, Some("a"), Some(1)), (None, None, Some(1))], NONE);
    assert_eq!(run.epoch(&[(None, None, Some(1))], i64::MAX), []);
    assert_eq!(run.rows(), 2);
    assert_eq!(run.context.metrics.snapshot().late, 0);
}

fn global(mode: OutputMode) -> Aggregation {
    Aggregation {
        keys: vec![],
        time: None,
        ..by_time(mode)
    }
}

fn totals(rows: &[Rows]) -> Vec<(i64, Option<i64>)> {
    let totals = rows.iter().flat_map(|rows| {
        let counts = rows.batch().column(0).as_primitive::<Int64Type>();
        let sums = rows.batch().column(1).as_primitive::<Int64Type>();
        counts
            .values()
            .to_vec()
            .into_iter()
            .zip(sums.iter().collect::<Vec<_>>())
    });
    totals.collect()
}

#[test]
fn a_global_group_exists_before_any_row() {
    for mode in [OutputMode::Update, OutputMode::Complete] {
        let mut run = Run::new(global(mode));
        assert_eq!(totals(&run.raw(&[], NONE)), [(0, None)]);
        let rows = batch(&[(None, None, Some(4)), (None, None, None)]);
        assert_eq!(totals(&run.raw(&[rows], NONE)), [(2, Some(4))]);
        assert_eq!(totals(&run.raw(&[], NONE)), [(2, Some(4))]);
    }
}

#[test]
fn append_without_an_event_time_is_refused() {
    assert!(aggregate(global(OutputMode::Append)).is_err());
}

#[test]
fn windows_close_at_their_end() {
    let mut aggregation = by_time(OutputMode::Append);
    aggregation.time = Some(TimeKey::Start {
        key: 0,
        size: 10_000_000,
    });
    let mut run = Run::new(aggregation);
    // Starts of windows: judged before, so none of them is late here.
    run.epoch(&[(Some(0), None, None), (Some(10), None, None)], 5);
    assert_eq!(run.epoch(&[], 9), []);
    assert_eq!(run.epoch(&[(Some(-20), None, None)], 10).len(), 2);
    assert_eq!(run.rows(), 1);
}

#[test]
fn keys_that_are_windows_close_at_their_end() {
    let window = |starts: &[Option<i64>]| -> ArrayRef {
        let zone = |add: i64| {
            let times: TimestampMicrosecondArray = starts
                .iter()
                .map(|s| s.map(|s| (s + add) * 1_000_000))
                .collect();
            Arc::new(times.with_timezone("UTC")) as ArrayRef
        };
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = Fields::from(vec![
            Field::new("start", utc.clone(), true),
            Field::new("end", utc, true),
        ]);
        let nulls = starts
            .iter()
            .map(Option::is_some)
            .collect::<Vec<_>>()
            .into();
        Arc::new(arrow::array::StructArray::new(
            fields,
            vec![zone(0), zone(10)],
            Some(nulls),
        ))
    };
    let rows = |starts: &[Option<i64>]| {
        let plain = batch(&vec![(None, None, Some(1)); starts.len()]);
        let columns = vec![
            window(starts),
            Arc::clone(plain.column(1)),
            Arc::clone(plain.column(2)),
        ];
        let fields = vec![
            Field::new("w", columns[0].data_type().clone(), true),
            plain.schema().field(1).clone(),
            plain.schema().field(2).clone(),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let mut aggregation = by_time(OutputMode::Append);
    aggregation.keys = rows(&[]).schema().fields()[..2].to_vec();
    aggregation.time = Some(TimeKey::Window(0));
    let mut run = Run::new(aggregation);
    run.raw(&[rows(&[Some(0), Some(5), None])], 9_000);
    let due = run.raw(&[], 10_000);
    assert_eq!(due.iter().map(Rows::num_rows).sum::<usize>(), 1);
    run.raw(&[rows(&[Some(0)])], 10_000);
    assert_eq!(run.context.metrics.snapshot().late, 1);
    assert_eq!(run.rows(), 2);
}

type Group = (Option<i64>, Option<&'static str>);

/// The last row of each group, over all epochs.
fn last(emitted: Emitted) -> BTreeMap<Group, (i64, Option<i64>)> {
    let entry = |(_, (time, key, count), sum): (_, Row, _)| ((time, key), (count.unwrap(), sum));
    emitted.into_iter().map(entry).collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        proptest::option::weighted(0.9, 0..6i64),
        proptest::option::weighted(0.8, proptest::sample::select(vec!["a", "b", ""])),
        proptest::option::weighted(0.8, -5..5i64),
    );
    proptest::collection::vec(row, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_rows_are_cut_into_epochs_the_last_result_is_that_of_all_rows(
        rows in rows(),
        cuts in proptest::collection::vec(0..60usize, 0..5),
    ) {
        let mut expected = BTreeMap::new();
        for (time, key, value) in &rows {
            let group: &mut (i64, Option<i64>) = expected.entry((*time, *key)).or_default();
            group.0 += 1;
            group.1 = match (group.1, value) {
                (None, value) => *value,
                (sum, None) => sum,
                (Some(sum), Some(value)) => Some(sum + value),
            };
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).collect();
        cuts.push(rows.len());
        cuts.sort_unstable();
        for mode in [OutputMode::Update, OutputMode::Complete] {
            let mut run = Run::new(by_time(mode));
            let (mut emitted, mut from) = (Emitted::new(), 0);
            for cut in &cuts {
                emitted.extend(run.epoch(&rows[from..*cut], NONE));
                from = *cut;
            }
            prop_assert_eq!(&last(emitted), &expected);
        }
    }
}
