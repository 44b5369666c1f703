//! Aggregation over changes: what is emitted, what is kept, against a plain computation over the rows that are there.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::max_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use weir_runtime::OperatorState;
use weir_runtime::{Operator, OperatorContext, Outbox, OutputMode, RowKind, Rows};

use super::*;
use crate::aggregate::AggregateInput;
use crate::expression::data_error;
use crate::expression::testing::context;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn call(id: &str, function: Arc<AggregateUDF>) -> AggregateCall {
    let argument = Arc::new(Column::new("v", 1));
    let function = AggregateExprBuilder::new(function, vec![argument])
        .schema(schema())
        .alias(id)
        .build()
        .expect("function");
    AggregateCall {
        id: id.to_owned(),
        name: id.to_owned(),
        function: Arc::new(function),
        filter: None,
        ordered: false,
        distinct: None,
    }
}

fn aggregation(keys: usize, calls: Vec<AggregateCall>) -> Aggregation {
    Aggregation {
        keys: schema().fields()[..keys].to_vec(),
        time: None,
        calls,
        input: AggregateInput::Rows,
        mode: OutputMode::Update,
        emit_before: true,
        allow_new_aggregates: false,
        errors: data_error,
    }
}

struct Run {
    operator: Box<dyn Operator>,
    context: OperatorContext,
    keys: usize,
}

type Row<'a> = (RowKind, &'a str, Option<i64>);

impl Run {
    fn of(aggregation: Aggregation) -> Self {
        let keys = aggregation.keys.len();
        let calls = Calls::new(aggregation.calls.clone(), data_error).expect("calls");
        let tables = Shape {
            kept: kept(&calls.list),
            input: schema().fields().clone(),
            keys: aggregation.keys.iter().cloned().collect(),
            results: calls.results().into(),
            output: schema(),
            calls,
            aggregation: aggregation.clone(),
        }
        .tables();
        let spec = changelog_aggregate(aggregation, &schema()).expect("spec");
        let context = context();
        let mut operator = spec.create(&context).expect("create");
        let state = OperatorState::in_memory(&tables);
        operator.open(state, &context).expect("open");
        Self {
            operator,
            context,
            keys,
        }
    }

    /// Runs an epoch; what comes out as `+U a 5`.
    fn epoch(&mut self, rows: &[Row<'_>]) -> Vec<String> {
        self.try_epoch(rows).expect("epoch")
    }

    fn try_epoch(&mut self, rows: &[Row<'_>]) -> Result<Vec<String>> {
        let keys = StringArray::from_iter_values(rows.iter().map(|(_, k, _)| *k));
        let values: Int64Array = rows.iter().map(|(.., v)| *v).collect();
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)])?;
        let kinds: Vec<u8> = rows.iter().map(|(kind, ..)| *kind as u8).collect();
        let rows = Rows::with_kinds(batch, UInt8Array::from(kinds))?;
        let mut out = Outbox::default();
        self.operator.process(0, rows, &self.context, &mut out)?;
        self.operator.on_epoch_end(&self.context, &mut out)?;
        let keys = self.keys;
        Ok(out
            .take()
            .iter()
            .flat_map(|rows| texts(rows, keys))
            .collect())
    }

    fn kept(&mut self) -> u64 {
        self.operator.state().expect("state").stats().rows
    }
}

fn texts(rows: &Rows, keys: usize) -> Vec<String> {
    let text = |row: usize| {
        let mut text = match rows.kind(row) {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
        .to_owned();
        for (index, column) in rows.batch().columns().iter().enumerate() {
            text.push(' ');
            let value = if column.is_null(row) {
                "null".to_owned()
            } else if index < keys {
                column.as_string::<i32>().value(row).to_owned()
            } else {
                let ints = column.as_primitive::<Int64Type>();
                ints.value(row).to_string()
            };
            text.push_str(&value);
        }
        text
    };
    (0..rows.num_rows()).map(text).collect()
}

const ADD: RowKind = RowKind::Insert;
const TAKE: RowKind = RowKind::Delete;
const OLD: RowKind = RowKind::UpdateBefore;
const NEW: RowKind = RowKind::UpdateAfter;

fn totals() -> Vec<AggregateCall> {
    vec![call("count(v)", count_udaf()), call("sum(v)", sum_udaf())]
}

#[test]
fn totals_follow_rows_that_come_change_and_go() {
    let mut run = Run::of(aggregation(1, totals()));
    let first = run.epoch(&[(ADD, "a", Some(5)), (ADD, "b", None), (ADD, "a", Some(1))]);
    assert_eq!(first, ["+I a 2 6", "+I b 0 null"]);
    let second = run.epoch(&[
        (OLD, "a", Some(5)),
        (NEW, "a", Some(7)),
        (ADD, "b", Some(3)),
    ]);
    assert_eq!(second, ["-U a 2 6", "+U a 2 8", "-U b 0 null", "+U b 1 3"]);
    let third = run.epoch(&[(TAKE, "a", Some(7)), (TAKE, "a", Some(1))]);
    assert_eq!(third, ["-D a 2 8"]);
    assert_eq!(run.kept(), 1);
    assert_eq!(run.epoch(&[(ADD, "a", Some(9))]), ["+I a 1 9"]);
}

#[test]
fn a_group_whose_result_stays_the_same_is_not_told() {
    for calls in [totals(), vec![call("max(v)", max_udaf())]] {
        let mut run = Run::of(aggregation(1, calls));
        run.epoch(&[(ADD, "a", Some(5))]);
        let same = [(OLD, "a", Some(5)), (NEW, "a", Some(5))];
        assert!(run.epoch(&same).is_empty());
        assert!(
            run.epoch(&[(ADD, "c", Some(1)), (TAKE, "c", Some(1))])
                .is_empty()
        );
    }
}

#[test]
fn a_maximum_falls_back_when_the_largest_row_goes() {
    let mut run = Run::of(aggregation(1, vec![call("max(v)", max_udaf())]));
    let rows = [
        (ADD, "a", Some(5)),
        (ADD, "a", Some(9)),
        (ADD, "a", Some(9)),
    ];
    assert_eq!(run.epoch(&rows), ["+I a 9"]);
    assert_eq!(run.kept(), 3);
    assert!(run.epoch(&[(TAKE, "a", Some(9))]).is_empty());
    assert_eq!(run.epoch(&[(TAKE, "a", Some(9))]), ["-U a 9", "+U a 5"]);
    assert_eq!(run.epoch(&[(TAKE, "a", Some(5))]), ["-D a 5"]);
    assert_eq!(run.kept(), 0);
}

#[test]
fn copies_of_a_row_count_where_the_function_counts_them() {
    let mut run = Run::of(aggregation(
        1,
        vec![call("max(v)", max_udaf()), call("count(v)", count_udaf())],
    ));
    let many: Vec<Row<'_>> = (0..40_000).map(|_| (ADD, "a", Some(3))).collect();
    assert_eq!(run.epoch(&many), ["+I a 3 40000"]);
    assert_eq!(run.kept(), 2);
}

#[test]
fn one_group_of_all_rows_exists_from_the_start_and_never_goes() {
    for (calls, empty, one) in [
        (totals(), "0 null", "1 4"),
        (
            vec![call("count(v)", count_udaf()), call("max(v)", max_udaf())],
            "0 null",
            "1 4",
        ),
    ] {
        let mut run = Run::of(aggregation(0, calls));
        assert_eq!(run.epoch(&[]), [format!("+I {empty}")]);
        let changed = [format!("-U {empty}"), format!("+U {one}")];
        assert_eq!(run.epoch(&[(ADD, "a", Some(4))]), changed);
        let back = [format!("-U {one}"), format!("+U {empty}")];
        assert_eq!(run.epoch(&[(TAKE, "a", Some(4))]), back);
    }
}

#[test]
fn without_old_rows_only_new_ones_are_told() {
    let mut run = Run::of(Aggregation {
        emit_before: false,
        allow_new_aggregates: false,
        ..aggregation(1, totals())
    });
    run.epoch(&[(ADD, "a", Some(5))]);
    assert_eq!(run.epoch(&[(ADD, "a", Some(5))]), ["+U a 2 10"]);
}

#[test]
fn what_is_kept_follows_from_the_functions() {
    assert_eq!(kept(&totals()), Kept::Totals);
    assert_eq!(kept(&[call("avg(v)", avg_udaf())]), Kept::Rows);
    let mut run = Run::of(aggregation(1, totals()));
    let many: Vec<Row<'_>> = (0..100).map(|v| (ADD, "a", Some(v))).collect();
    run.epoch(&many);
    assert_eq!(run.kept(), 1);
}

#[test]
fn sums_beyond_bigint_and_rows_that_were_never_there_are_errors() {
    let mut run = Run::of(aggregation(1, totals()));
    let error = run
        .try_epoch(&[(ADD, "a", Some(i64::MAX)), (ADD, "a", Some(1))])
        .expect_err("overflow");
    assert_eq!(error.condition(), Some("ARITHMETIC_OVERFLOW"));
    let mut run = Run::of(aggregation(1, totals()));
    assert!(run.try_epoch(&[(TAKE, "a", Some(1))]).is_err());
    let mut run = Run::of(aggregation(1, vec![call("max(v)", max_udaf())]));
    assert!(run.try_epoch(&[(TAKE, "a", Some(1))]).is_err());
}

/// A sum may exceed BIGINT on the way as long as the rows of the epoch together do not.
#[test]
fn order_of_changes_inside_an_epoch_does_not_matter() {
    let mut run = Run::of(aggregation(1, totals()));
    let rows = [
        (ADD, "a", Some(i64::MAX)),
        (ADD, "a", Some(1)),
        (TAKE, "a", Some(1)),
    ];
    assert_eq!(run.epoch(&rows), [format!("+I a 1 {}", i64::MAX)]);
}

#[test]
fn changes_add_up_to_the_result_of_the_rows_that_are_there() {
    for calls in [
        totals(),
        vec![call("max(v)", max_udaf()), call("count(v)", count_udaf())],
    ] {
        let mut run = Run::of(aggregation(1, calls));
        let mut there: Vec<(String, i64)> = Vec::new();
        let mut told: BTreeMap<String, i64> = BTreeMap::new();
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..60 {
            let mut changes: Vec<(RowKind, String, i64)> = Vec::new();
            for _ in 0..random(6) {
                if !there.is_empty() && random(2) == 0 {
                    let index = usize::try_from(random(there.len() as u64)).expect("index");
                    let (k, v) = there.swap_remove(index);
                    changes.push((TAKE, k, v));
                } else {
                    let row = (
                        format!("k{}", random(3)),
                        i64::try_from(random(4)).expect("v"),
                    );
                    there.push(row.clone());
                    changes.push((ADD, row.0, row.1));
                }
            }
            let rows: Vec<Row<'_>> = changes
                .iter()
                .map(|(kind, k, v)| (*kind, k.as_str(), Some(*v)))
                .collect();
            for text in run.epoch(&rows) {
                let (kind, row) = text.split_at(3);
                *told.entry(row.to_owned()).or_default() +=
                    if kind.starts_with('+') { 1 } else { -1 };
            }
            told.retain(|_, count| *count != 0);
            assert!(told.values().all(|count| *count == 1), "{told:?}");
            let groups: std::collections::BTreeSet<&str> =
                there.iter().map(|(k, _)| k.as_str()).collect();
            assert_eq!(told.len(), groups.len());
        }
    }
}
