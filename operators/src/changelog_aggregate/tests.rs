//! Aggregation over changes: what is emitted, what is kept, against a plain computation over the rows that are there.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::max_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use proptest::prelude::*;
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

/// A row that comes, or one of those that are there that goes.
type Step = (bool, usize, i64);

fn epochs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (any::<bool>(), 0..12_usize, -3..4_i64);
    proptest::collection::vec(proptest::collection::vec(step, 0..8), 1..12)
}

/// The changes of an epoch; afterwards `there` are the rows that are there.
fn changes(there: &mut Vec<(&'static str, i64)>, steps: &[Step]) -> Vec<Row<'static>> {
    let change = |(goes, index, v): &Step| match there.len() {
        some if *goes && some > 0 => {
            let (k, v) = there.swap_remove(index % some);
            (TAKE, k, Some(v))
        }
        _ => {
            let k = ["a", "b", "c"][index % 3];
            there.push((k, *v));
            (ADD, k, Some(*v))
        }
    };
    steps.iter().map(change).collect()
}

/// The results that are told as of now.
fn follow(told: &mut BTreeSet<String>, texts: Vec<String>) {
    for text in texts {
        let (kind, row) = text.split_at(3);
        match kind.starts_with('+') {
            true => assert!(told.insert(row.to_owned()), "{text} is told twice"),
            false => assert!(told.remove(row), "{text} was not told"),
        }
    }
}

/// What count and sum, or maximum and count, are of these rows.
fn expected(there: &[(&str, i64)], largest: bool) -> BTreeSet<String> {
    let mut groups: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (k, v) in there {
        groups.entry(k).or_default().push(*v);
    }
    let result = |(k, values): (&str, Vec<i64>)| match (largest, values.iter().max()) {
        (true, Some(most)) => format!("{k} {most} {}", values.len()),
        _ => format!("{k} {} {}", values.len(), values.iter().sum::<i64>()),
    };
    groups.into_iter().map(result).collect()
}

proptest! {
    #[test]
    fn changes_add_up_to_the_result_of_the_rows_that_are_there(epochs in epochs()) {
        for largest in [false, true] {
            let calls = || match largest {
                false => totals(),
                true => vec![call("max(v)", max_udaf()), call("count(v)", count_udaf())],
            };
            let mut run = Run::of(aggregation(1, calls()));
            let (mut there, mut told) = (Vec::new(), BTreeSet::new());
            for steps in &epochs {
                let rows = changes(&mut there, steps);
                follow(&mut told, run.epoch(&rows));
                prop_assert_eq!(&told, &expected(&there, largest));
            }
            // However the changes are cut into epochs.
            let (mut there, mut at_once) = (Vec::new(), BTreeSet::new());
            let rows = changes(&mut there, &epochs.concat());
            follow(&mut at_once, Run::of(aggregation(1, calls())).epoch(&rows));
            prop_assert_eq!(at_once, told);
        }
    }
}
