//! Every aggregate gives the same whether a group's rows come at once or its state is put away in between.
#![allow(clippy::unwrap_used)]

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DurationMicrosecondArray,
    Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, Schema};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::scalar::ScalarValue;

use super::*;

fn rows() -> RecordBatch {
    let n = 60i64;
    let some = |i: i64| (i % 7 != 3).then_some(i);
    let ints = (0..n).map(|i| some(i).map(|i| i * 37 % 11 - 4));
    let floats = (0..n).map(|i| match i % 9 {
        0 => Some(f64::NAN),
        1 => Some(-0.0),
        2 => None,
        _ => Some((i * 31 % 17) as f64 / 4.0 - 2.0),
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(ints.clone().collect::<Int64Array>())),
        (
            "n",
            Arc::new(
                ints.clone()
                    .map(|v| v.map(|v| v as i32))
                    .collect::<Int32Array>(),
            ),
        ),
        ("d", Arc::new(floats.clone().collect::<Float64Array>())),
        (
            "f",
            Arc::new(
                floats
                    .map(|v| v.map(|v| v as f32))
                    .collect::<Float32Array>(),
            ),
        ),
        (
            "m",
            Arc::new(
                ints.clone()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(5, 2)
                    .unwrap(),
            ),
        ),
        (
            "p",
            Arc::new(ints.clone().collect::<DurationMicrosecondArray>()),
        ),
        (
            "s",
            Arc::new(
                (0..n)
                    .map(|i| some(i).map(|i| format!("w{}", i % 5)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "b",
            Arc::new(
                (0..n)
                    .map(|i| some(i).map(|i| i % 3 > 0))
                    .collect::<BooleanArray>(),
            ),
        ),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn state() -> SessionState {
    crate::session_state("UTC", 1).unwrap()
}

/// The function over columns of `rows`, cast as the function wants, and the arguments.
fn call(
    name: &str,
    arguments: &[Arc<dyn PhysicalExpr>],
    ignore_nulls: bool,
) -> Arc<AggregateFunctionExpr> {
    let udaf = state().udaf(name).unwrap();
    let schema = rows().schema();
    let types: Vec<DataType> = arguments
        .iter()
        .map(|a| a.data_type(&schema).unwrap())
        .collect();
    let wanted = udaf.coerce_types(&types).unwrap_or(types);
    let cast = arguments.iter().zip(wanted).map(|(a, t)| {
        datafusion::physical_expr::expressions::cast(Arc::clone(a), &schema, t).unwrap()
    });
    let built = AggregateExprBuilder::new(udaf, cast.collect())
        .schema(schema)
        .alias(name)
        .with_ignore_nulls(ignore_nulls)
        .build();
    Arc::new(built.unwrap())
}

fn accumulator(call: &AggregateFunctionExpr) -> Box<dyn GroupsAccumulator> {
    call.create_groups_accumulator().unwrap()
}

fn arguments(call: &AggregateFunctionExpr, batch: &RecordBatch) -> Vec<ArrayRef> {
    let rows = batch.num_rows();
    let expressions = call.expressions();
    let evaluated = expressions.iter().map(|a| a.evaluate(batch).unwrap());
    evaluated.map(|v| v.into_array(rows).unwrap()).collect()
}

fn filter(from: usize, to: usize) -> BooleanArray {
    (from..to).map(|row| Some(row % 5 > 0)).collect()
}

fn update(
    call: &AggregateFunctionExpr,
    into: &mut dyn GroupsAccumulator,
    batch: &RecordBatch,
    from: usize,
) {
    let to = from + batch.num_rows();
    let groups: Vec<usize> = (from..to).map(|row| row % 4).collect();
    into.update_batch(&arguments(call, batch), &groups, Some(&filter(from, to)), 4)
        .unwrap();
}

fn close(a: &ArrayRef, b: &ArrayRef) -> bool {
    match a.data_type() {
        DataType::Float64 => {
            let (a, b) = (
                a.as_primitive::<Float64Type>(),
                b.as_primitive::<Float64Type>(),
            );
            a.iter().zip(b.iter()).all(|pair| match pair {
                (Some(a), Some(b)) => (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9,
                (a, b) => a.is_none() && b.is_none(),
            })
        }
        DataType::List(_) if matches!(a.as_list::<i32>().value_type(), DataType::Float64) => {
            close(a.as_list::<i32>().values(), b.as_list::<i32>().values())
        }
        _ => a == b,
    }
}

/// Results with all rows at once, with the state put away after 13 and 40 rows, and from the states of single rows.
fn all_ways(call: &AggregateFunctionExpr) -> [ArrayRef; 3] {
    let rows = rows();
    let mut once = accumulator(call);
    update(call, once.as_mut(), &rows, 0);
    let mut kept: Option<Vec<ArrayRef>> = None;
    for (from, to) in [(0, 13), (13, 40), (40, 60)] {
        let mut part = accumulator(call);
        if let Some(state) = &kept {
            part.merge_batch(state, &[0, 1, 2, 3], 4).unwrap();
        }
        update(call, part.as_mut(), &rows.slice(from, to - from), from);
        kept = Some(checked(call, part.state(EmitTo::All).unwrap()));
    }
    let mut last = accumulator(call);
    last.merge_batch(&kept.unwrap(), &[0, 1, 2, 3], 4).unwrap();
    let mut singles = accumulator(call);
    let groups: Vec<usize> = (0..rows.num_rows()).map(|row| row % 4).collect();
    let converted = singles.convert_to_state(&arguments(call, &rows), Some(&filter(0, 60)));
    let states = checked(call, converted.unwrap());
    singles.merge_batch(&states, &groups, 4).unwrap();
    [once, last, singles].map(|mut groups| groups.evaluate(EmitTo::All).unwrap())
}

/// States as they came, whose types are those declared.
fn checked(call: &AggregateFunctionExpr, state: Vec<ArrayRef>) -> Vec<ArrayRef> {
    let types: Vec<&DataType> = state.iter().map(|column| column.data_type()).collect();
    let declared = call.state_fields().unwrap();
    let declared: Vec<&DataType> = declared.iter().map(|field| field.data_type()).collect();
    assert_eq!(types, declared, "{}", call.name());
    state
}

#[test]
fn rows_without_a_filter_become_states_as_they_are() {
    for (name, column_name) in [("sum", "i"), ("sum", "m"), ("avg", "d"), ("avg", "m")] {
        let (call, rows) = (call(name, &[column(column_name)], false), rows());
        let groups: Vec<usize> = (0..rows.num_rows()).map(|row| row % 4).collect();
        let values = arguments(&call, &rows);
        let mut once = accumulator(&call);
        once.update_batch(&values, &groups, None, 4).unwrap();
        let mut singles = accumulator(&call);
        let states = checked(&call, singles.convert_to_state(&values, None).unwrap());
        singles.merge_batch(&states, &groups, 4).unwrap();
        let (once, singles) = (
            once.evaluate(EmitTo::All).unwrap(),
            singles.evaluate(EmitTo::All).unwrap(),
        );
        assert!(close(&once, &singles), "{name}({column_name})");
    }
}

fn column(name: &str) -> Arc<dyn PhysicalExpr> {
    let index = rows().schema().index_of(name).unwrap();
    Arc::new(Column::new(name, index))
}

#[test]
fn aggregates_give_the_same_in_one_pass_and_through_their_state() {
    let one: &[(&str, &[&str])] = &[
        ("sum", &["i", "n", "d", "f", "m", "p"]),
        ("try_sum", &["i", "d", "m", "p"]),
        ("avg", &["i", "n", "d", "f", "m", "p"]),
        ("try_avg", &["i", "d", "m", "p"]),
        ("min", &["d", "f", "p", "b"]),
        ("max", &["d", "f", "p", "b"]),
        ("first_value", &["i", "s", "d"]),
        ("last_value", &["i", "s", "d"]),
        ("any_value", &["s"]),
        ("collect_list", &["i", "s", "d"]),
        ("array_agg", &["s"]),
        ("collect_set", &["i", "s", "d"]),
        ("string_agg", &["s"]),
        ("var_pop", &["i", "d"]),
        ("var_samp", &["i"]),
        ("stddev_pop", &["i"]),
        ("stddev", &["i"]),
        ("skewness", &["i"]),
        ("kurtosis", &["i"]),
        ("median", &["i", "d"]),
        ("mode", &["i", "s"]),
    ];
    for (name, columns) in one {
        for column_name in *columns {
            for ignore_nulls in [false, true] {
                let call = call(name, &[column(column_name)], ignore_nulls);
                let [once, kept, singles] = all_ways(&call);
                assert!(
                    close(&once, &kept) && close(&once, &singles),
                    "{name}({column_name}): {once:?} and {kept:?}"
                );
            }
        }
    }
    for (name, second) in [
        ("max_by", column("d")),
        ("min_by", column("s")),
        ("string_agg", lit(", ")),
        ("percentile", lit(0.3)),
        ("percentile_approx", lit(0.5)),
    ] {
        let first = if name == "string_agg" { "s" } else { "i" };
        let call = call(name, &[column(first), second], false);
        let [once, kept, singles] = all_ways(&call);
        assert!(
            close(&once, &kept) && close(&once, &singles),
            "{name}: {once:?} and {kept:?}"
        );
    }
}

fn only(name: &str, values: ArrayRef) -> datafusion::common::Result<ArrayRef> {
    let udaf = state().udaf(name)?;
    let schema = Arc::new(Schema::new(vec![arrow::datatypes::Field::new(
        "v",
        values.data_type().clone(),
        true,
    )]));
    let call = AggregateExprBuilder::new(udaf, vec![Arc::new(Column::new("v", 0))])
        .schema(schema)
        .alias(name)
        .build()?;
    let mut accumulator = call.create_groups_accumulator()?;
    accumulator.update_batch(&[Arc::clone(&values)], &vec![0; values.len()], None, 1)?;
    let many = accumulator.evaluate(EmitTo::All)?;
    let mut single = call.create_accumulator()?;
    single.update_batch(&[values])?;
    let (first, again) = (single.evaluate()?, single.evaluate()?);
    assert_eq!(first, again, "evaluation changes nothing");
    assert_eq!(first, ScalarValue::try_from_array(&many, 0)?);
    Ok(many)
}

#[test]
fn sum_beyond_its_type_is_an_error_and_of_try_sum_null() {
    let large: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1]));
    let error = only("sum", Arc::clone(&large)).unwrap_err();
    assert!(error.to_string().contains("ARITHMETIC_OVERFLOW"), "{error}");
    assert!(only("try_sum", large).unwrap().is_null(0));
    let most = 10i128.pow(38) - 1;
    let decimals = Decimal128Array::from(vec![most, 1])
        .with_precision_and_scale(38, 0)
        .unwrap();
    let decimals: ArrayRef = Arc::new(decimals);
    let error = only("sum", Arc::clone(&decimals)).unwrap_err();
    assert!(
        error.to_string().contains("NUMERIC_VALUE_OUT_OF_RANGE"),
        "{error}"
    );
    assert!(only("try_sum", decimals).unwrap().is_null(0));
    let spans: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![i64::MAX, 1]));
    assert!(only("sum", Arc::clone(&spans)).is_err());
    assert!(only("try_avg", spans).unwrap().is_null(0));
}

#[test]
fn try_sum_stays_null_once_it_is_lost() {
    let udaf = state().udaf("try_sum").unwrap();
    let schema = Arc::new(Schema::new(vec![arrow::datatypes::Field::new(
        "v",
        DataType::Int64,
        true,
    )]));
    let call = AggregateExprBuilder::new(udaf, vec![Arc::new(Column::new("v", 0))])
        .schema(schema)
        .alias("s")
        .build()
        .unwrap();
    let values = |list: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(list)) };
    let mut first = call.create_groups_accumulator().unwrap();
    first
        .update_batch(&[values(vec![i64::MAX, 1])], &[0, 0], None, 1)
        .unwrap();
    let state = first.state(EmitTo::All).unwrap();
    let mut second = call.create_groups_accumulator().unwrap();
    second
        .update_batch(&[values(vec![5])], &[0], None, 1)
        .unwrap();
    second.merge_batch(&state, &[0], 1).unwrap();
    assert!(second.evaluate(EmitTo::All).unwrap().is_null(0));
}

#[test]
fn avg_of_decimals_has_four_more_digits_and_rounds_half_up() {
    let decimals = Decimal128Array::from(vec![100, 100, 101])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let average = only("avg", Arc::new(decimals)).unwrap();
    assert_eq!(average.data_type(), &DataType::Decimal128(9, 6));
    assert_eq!(average.as_primitive::<Decimal128Type>().value(0), 1_003_333);
}

#[test]
fn nan_is_the_largest_number() {
    let floats = |list: Vec<f64>| -> ArrayRef { Arc::new(Float64Array::from(list)) };
    let of = |name: &str, list| {
        only(name, floats(list))
            .unwrap()
            .as_primitive::<Float64Type>()
            .value(0)
    };
    assert!(of("max", vec![1.0, f64::NAN, f64::INFINITY]).is_nan());
    assert_eq!(of("min", vec![f64::NAN, f64::INFINITY]), f64::INFINITY);
    assert!(of("min", vec![-0.0, 0.0]).is_sign_negative());
    assert!(of("max", vec![-0.0, 0.0]).is_sign_negative());
}

#[test]
fn mode_of_equally_frequent_values_is_the_smallest() {
    let mode = only("mode", Arc::new(Int64Array::from(vec![7, 3, 7, 3, 9]))).unwrap();
    assert_eq!(mode.as_primitive::<Int64Type>().value(0), 3);
}

#[test]
fn groups_without_values_are_null_or_empty() {
    let none: ArrayRef = Arc::new(Float64Array::from(vec![None::<f64>]));
    for name in [
        "sum",
        "avg",
        "max",
        "first_value",
        "var_samp",
        "median",
        "mode",
    ] {
        assert!(only(name, Arc::clone(&none)).unwrap().is_null(0), "{name}");
    }
    for name in ["collect_list", "collect_set"] {
        let list = only(name, Arc::clone(&none)).unwrap();
        assert!(
            list.is_valid(0) && list.as_list::<i32>().value(0).is_empty(),
            "{name}"
        );
    }
}
