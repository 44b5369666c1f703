//! Tests of explode.

use arrow::array::{
    Int64Array, Int64Builder, ListArray, MapBuilder, RecordBatch, StringArray, StringBuilder,
};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::util::pretty::pretty_format_batches;

use super::*;
use crate::expression::testing::run;

fn lists(rows: Vec<Option<Vec<Option<i64>>>>) -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)) as ArrayRef;
    let values = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("xs", values, true)])
        .expect("batch")
}

fn spec(position: bool, outer: bool, names: &[&str]) -> OperatorSpec {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    explode(Explode {
        input: Expression::column("xs", 1),
        position,
        fields: false,
        outer,
        keep: Some(vec![0]),
        names,
    })
}

fn table(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).expect("table").to_string();
    text.lines()
        .filter(|line| line.starts_with('|'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn explode_repeats_the_row_for_each_element_and_drops_rows_without() {
    let input = lists(vec![
        Some(vec![Some(7), None]),
        Some(vec![]),
        None,
        Some(vec![Some(9)]),
    ]);
    let spec = spec(false, false, &["x"]);
    let (out, _) = run(&spec, std::slice::from_ref(&input)).expect("run");
    assert_eq!(
        table(&out),
        ["| id | x |", "| 0  | 7 |", "| 0  |   |", "| 3  | 9 |"]
    );
    assert_eq!(
        out[0].schema(),
        spec.schema(&[input.schema()]).expect("schema")
    );
}

#[test]
fn explode_outer_keeps_rows_without_elements() {
    let input = lists(vec![Some(vec![Some(7)]), Some(vec![]), None]);
    let (out, _) = run(&spec(true, true, &["pos", "x"]), &[input]).expect("run");
    assert_eq!(
        table(&out),
        [
            "| id | pos | x |",
            "| 0  | 0   | 7 |",
            "| 1  |     |   |",
            "| 2  |     |   |"
        ]
    );
}

#[test]
fn posexplode_counts_from_zero_in_every_row() {
    let input = lists(vec![Some(vec![Some(7), Some(8)]), Some(vec![Some(9)])]);
    let (out, _) = run(&spec(true, false, &["pos", "x"]), &[input]).expect("run");
    assert_eq!(
        out[0].column(1).as_primitive::<Int32Type>().values(),
        &[0, 1, 0]
    );
}

#[test]
fn explode_of_a_map_gives_keys_and_values() {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    map.keys().append_value("a");
    map.values().append_value(1);
    map.keys().append_value("b");
    map.values().append_null();
    map.append(true).expect("append");
    map.append(false).expect("append");
    let map = Arc::new(map.finish()) as ArrayRef;
    let ids = Arc::new(Int64Array::from(vec![0, 1])) as ArrayRef;
    let input = RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("xs", map, true)])
        .expect("batch");
    let (out, _) = run(&spec(false, false, &["k", "v"]), &[input]).expect("run");
    assert_eq!(
        table(&out),
        ["| id | k | v |", "| 0  | a | 1 |", "| 0  | b |   |"]
    );
}

#[test]
fn inline_turns_fields_into_columns_and_a_null_struct_into_nulls() {
    let text = Arc::new(StringArray::from(vec!["p", "q"])) as ArrayRef;
    let fields = Fields::from(vec![Field::new("s", DataType::Utf8, true)]);
    let structs = StructArray::new(
        fields.clone(),
        vec![text],
        Some(NullBuffer::from(vec![true, false])),
    );
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let list = ListArray::new(
        item,
        OffsetBuffer::from_lengths([2]),
        Arc::new(structs),
        None,
    );
    let ids = Arc::new(Int64Array::from(vec![0])) as ArrayRef;
    let input = RecordBatch::try_from_iter([("id", ids), ("xs", Arc::new(list) as ArrayRef)])
        .expect("batch");
    let (column, names) = (Expression::column("xs", 1), vec!["s".to_owned()]);
    let spec = explode(Explode {
        input: column,
        position: false,
        fields: true,
        outer: false,
        keep: Some(vec![0]),
        names,
    });
    let (out, _) = run(&spec, &[input]).expect("run");
    assert_eq!(table(&out), ["| id | s |", "| 0  | p |", "| 0  |   |"]);
}

#[test]
fn explode_of_many_elements_is_cut_into_batches_between_rows() {
    let row = Some((0..20_000).map(Some).collect());
    let input = lists(vec![row.clone(), row.clone(), row]);
    let (out, _) = run(&spec(false, false, &["x"]), &[input]).expect("run");
    let sizes: Vec<_> = out.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [40_000, 20_000]);
}

#[test]
fn explode_of_something_else_is_refused_when_the_topology_is_built() {
    let input = lists(vec![]);
    let column = Expression::column("id", 0);
    let names = vec!["x".to_owned()];
    let spec = explode(Explode {
        input: column,
        position: false,
        fields: false,
        outer: false,
        keep: None,
        names,
    });
    let error = spec.schema(&[input.schema()]).expect_err("no array");
    assert!(error.to_string().contains("got Int64"), "{error}");
}
