//! Results against expectations, by the rules of `cases/README.md`.
//!
//! Columns and types exactly; rows as a multiset, or as a list where the case is ordered; numbers with a
//! fraction within a tolerance; arrays in order, objects by key. A difference is told as one line that
//! shows the first rows that are missing or too many.

use arrow::datatypes::{DataType, Schema};
use serde_json::Value;
use weir::types::field_type_name;

use crate::case::Row;

/// How many rows of each kind a difference shows.
const SHOWN: usize = 3;

/// The first difference in column names or types.
pub(crate) fn schema(columns: &[String], types: &[String], got: &Schema) -> Result<(), String> {
    let got_columns: Vec<&str> = got.fields().iter().map(|f| f.name().as_str()).collect();
    if columns != got_columns {
        return Err(format!("columns {got_columns:?}, expected {columns:?}"));
    }
    for (field, expected) in got.fields().iter().zip(types) {
        let found = field_type_name(field);
        if found != *expected {
            return Err(format!(
                "type of column '{}' is {found}, expected {expected}",
                field.name()
            ));
        }
    }
    if got.fields().len() != types.len() {
        return Err(format!(
            "{} columns, expected {} types",
            got.fields().len(),
            types.len()
        ));
    }
    Ok(())
}

/// Rows against rows; `schema` is the type of both.
pub(crate) fn rows(
    expected: &[Row],
    got: &[Row],
    schema: &Schema,
    ordered: bool,
) -> Result<(), String> {
    if ordered {
        list(expected, got, schema)
    } else {
        multiset(expected, got, schema)
    }
}

fn list(expected: &[Row], got: &[Row], schema: &Schema) -> Result<(), String> {
    let differs = expected
        .iter()
        .zip(got)
        .position(|(expected, got)| !same_row(expected, got, schema));
    if let Some(at) = differs {
        return Err(format!(
            "row {at} is {}, expected {}",
            shown(&got[at]),
            shown(&expected[at])
        ));
    }
    if expected.len() != got.len() {
        return Err(format!("{} rows, expected {}", got.len(), expected.len()));
    }
    Ok(())
}

/// Every expected row takes one equal row. The tolerance is so small that it never matters which.
fn multiset(expected: &[Row], got: &[Row], schema: &Schema) -> Result<(), String> {
    let mut left: Vec<&Row> = got.iter().collect();
    let mut missing = Vec::new();
    for row in expected {
        match left
            .iter()
            .position(|candidate| same_row(row, candidate, schema))
        {
            Some(at) => drop(left.remove(at)),
            None => missing.push(row),
        }
    }
    if missing.is_empty() && left.is_empty() {
        return Ok(());
    }
    Err(format!(
        "missing {}, too many {}",
        some(&missing),
        some(&left)
    ))
}

fn some(rows: &[&Row]) -> String {
    let mut texts: Vec<String> = rows.iter().take(SHOWN).map(|row| shown(row)).collect();
    if rows.len() > SHOWN {
        texts.push(format!("and {} more", rows.len() - SHOWN));
    }
    if texts.is_empty() {
        return "none".to_owned();
    }
    texts.join(" ")
}

fn shown(row: &Row) -> String {
    Value::Array(row.clone()).to_string()
}

fn same_row(expected: &Row, got: &Row, schema: &Schema) -> bool {
    expected.len() == got.len()
        && expected
            .iter()
            .zip(got)
            .zip(schema.fields())
            .all(|((expected, got), field)| same(expected, got, field.data_type()))
}

/// Whether two values of a type are the same.
pub(crate) fn same(expected: &Value, got: &Value, data_type: &DataType) -> bool {
    match (expected, got, data_type) {
        (Value::Number(expected), Value::Number(got), DataType::Float16 | DataType::Float32) => {
            close(expected.as_f64(), got.as_f64(), 1e-6)
        }
        (Value::Number(expected), Value::Number(got), DataType::Float64) => {
            close(expected.as_f64(), got.as_f64(), 1e-12)
        }
        (Value::Array(expected), Value::Array(got), list) => {
            let element = element_type(list);
            expected.len() == got.len()
                && expected
                    .iter()
                    .zip(got)
                    .all(|(expected, got)| same(expected, got, element))
        }
        (Value::Object(expected), Value::Object(got), object) => {
            expected.len() == got.len()
                && expected.iter().all(|(key, expected)| {
                    got.get(key)
                        .is_some_and(|got| same(expected, got, member_type(object, key)))
                })
        }
        (expected, got, _) => expected == got,
    }
}

fn close(expected: Option<f64>, got: Option<f64>, relative: f64) -> bool {
    match (expected, got) {
        (Some(expected), Some(got)) => {
            expected == got || (expected - got).abs() <= relative * expected.abs().max(got.abs())
        }
        _ => false,
    }
}

fn element_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => element.data_type(),
        _ => &DataType::Null,
    }
}

/// The type of a struct's field or of a map's values.
fn member_type<'a>(data_type: &'a DataType, key: &str) -> &'a DataType {
    match data_type {
        DataType::Struct(fields) => fields
            .find(key)
            .map_or(&DataType::Null, |(_, f)| f.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.last().map_or(&DataType::Null, |f| f.data_type()),
            _ => &DataType::Null,
        },
        _ => &DataType::Null,
    }
}
