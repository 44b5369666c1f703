//! The rules of comparing, on hand-made rows.

use arrow::datatypes::{Field, Schema};
use serde_json::{Value, json};

use crate::case::Row;
use crate::compare;
use weir::types::parse_type;

fn schema(types: &[&str]) -> Schema {
    let field = |text: &&str| Field::new("c", parse_type(text).unwrap(), true);
    Schema::new(types.iter().map(field).collect::<Vec<_>>())
}

fn rows(value: Value) -> Vec<Row> {
    serde_json::from_value(value).unwrap()
}

fn same(type_text: &str, expected: Value, got: Value) -> bool {
    compare::same(&expected, &got, &parse_type(type_text).unwrap())
}

#[test]
fn rows_unordered_are_a_multiset() {
    let schema = schema(&["INT"]);
    let expected = rows(json!([[1], [2], [2]]));
    compare::rows(&expected, &rows(json!([[2], [1], [2]])), &schema, false).unwrap();
    let lost = compare::rows(&expected, &rows(json!([[2], [1]])), &schema, false).unwrap_err();
    assert_eq!(lost, "missing [2], too many none");
    let other =
        compare::rows(&expected, &rows(json!([[1], [1], [2]])), &schema, false).unwrap_err();
    assert_eq!(other, "missing [2], too many [1]");
}

#[test]
fn rows_ordered_are_a_list() {
    let schema = schema(&["INT"]);
    let expected = rows(json!([[1], [2]]));
    compare::rows(&expected, &expected, &schema, true).unwrap();
    let swapped = compare::rows(&expected, &rows(json!([[2], [1]])), &schema, true).unwrap_err();
    assert_eq!(swapped, "row 0 is [2], expected [1]");
    let short = compare::rows(&expected, &rows(json!([[1]])), &schema, true).unwrap_err();
    assert_eq!(short, "1 rows, expected 2");
}

#[test]
fn same_fractions_within_the_tolerance_of_their_type() {
    assert!(same("DOUBLE", json!(1.0), json!(1.000_000_000_000_5)));
    assert!(!same("DOUBLE", json!(1.0), json!(1.000_000_000_1)));
    assert!(same("FLOAT", json!(0.1), json!(f64::from(0.1_f32))));
    assert!(!same("FLOAT", json!(0.1), json!(0.100_001)));
    assert!(same("DOUBLE", json!(-0.0), json!(0.0)));
    assert!(same("DOUBLE", json!("NaN"), json!("NaN")));
    assert!(!same("DOUBLE", json!("NaN"), json!(0.0)));
    assert!(!same("DOUBLE", json!("Infinity"), json!("-Infinity")));
}

#[test]
fn same_whole_numbers_and_texts_exactly() {
    assert!(same("BIGINT", json!(i64::MAX), json!(i64::MAX)));
    assert!(!same("BIGINT", json!(i64::MAX), json!(i64::MAX - 1)));
    assert!(!same("DECIMAL(3,2)", json!("1.50"), json!("1.5")));
    assert!(!same("STRING", json!(null), json!("")));
}

#[test]
fn same_nested_arrays_in_order_and_objects_by_key() {
    assert!(!same("ARRAY<INT>", json!([1, 2]), json!([2, 1])));
    let text = "STRUCT<a: DOUBLE, m: MAP<STRING, ARRAY<DOUBLE>>>";
    let expected = json!({"a": 1.0, "m": {"x": [1.0], "y": null}});
    let got = json!({"m": {"y": null, "x": [1.000_000_000_000_1]}, "a": 1.0});
    assert!(same(text, expected.clone(), got));
    assert!(!same(
        text,
        expected.clone(),
        json!({"a": 1.0, "m": {"x": [1.0]}})
    ));
    assert!(!same(
        text,
        expected,
        json!({"a": null, "m": {"x": [1.0], "y": null}})
    ));
}

#[test]
fn schema_names_and_types_exactly() {
    let got = schema(&["STRUCT<a: INT>", "DECIMAL(5,2)"]);
    let names = ["c".to_owned(), "c".to_owned()];
    let types = ["STRUCT<a: INT>".to_owned(), "DECIMAL(5,2)".to_owned()];
    compare::schema(&names, &types, &got).unwrap();
    let other = ["STRUCT<a: INT>".to_owned(), "DECIMAL(5,1)".to_owned()];
    assert_eq!(
        compare::schema(&names, &other, &got).unwrap_err(),
        "type of column 'c' is DECIMAL(5,2), expected DECIMAL(5,1)"
    );
    assert!(
        compare::schema(&names[..1], &types, &got)
            .unwrap_err()
            .starts_with("columns ")
    );
}
