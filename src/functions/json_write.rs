//! Values as JSON text, and the types that JSON text suggests.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use chrono::Timelike;
use datafusion::common::Result;
use serde_json::Value;

use super::coerce::array_of;
use super::json_text::quote;
use super::text;

/// The type that Spark infers for a JSON value.
pub(super) fn type_of(v: &Value) -> DataType {
    match v {
        Value::Null | Value::String(_) => DataType::Utf8,
        Value::Bool(_) => DataType::Boolean,
        Value::Number(n) if n.is_i64() => DataType::Int64,
        Value::Number(n) if n.is_u64() => DataType::Decimal128(20, 0),
        Value::Number(_) => DataType::Float64,
        Value::Array(items) => {
            let types: Vec<_> = items.iter().filter(|v| !v.is_null()).map(type_of).collect();
            array_of(
                super::coerce::common_of(&types, "")
                    .ok()
                    .filter(|t| *t != DataType::Null)
                    .unwrap_or(DataType::Utf8),
            )
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map
                .iter()
                .map(|(k, v)| arrow::datatypes::Field::new(k, type_of(v), true))
                .collect();
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            DataType::Struct(fields.into())
        }
    }
}

/// The value at `i` as JSON. NULL fields of structs are left out, NULL values of maps and arrays are written.
pub(super) fn value_json(array: &ArrayRef, i: usize) -> Result<String> {
    if array.is_null(i) {
        return Ok("null".into());
    }
    Ok(match array.data_type() {
        DataType::Struct(fields) => {
            let mut parts = vec![];
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                if column.is_valid(i) {
                    parts.push(format!(
                        "{}:{}",
                        quote(field.name()),
                        value_json(column, i)?
                    ));
                }
            }
            format!("{{{}}}", parts.join(","))
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(i);
            let parts = (0..items.len())
                .map(|j| value_json(&items, j))
                .collect::<Result<Vec<_>>>()?;
            format!("[{}]", parts.join(","))
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(i);
            let pair = |j| {
                let key = text::value_text(entries.column(0), j)?.unwrap_or_default();
                Ok(format!(
                    "{}:{}",
                    quote(&key),
                    value_json(entries.column(1), j)?
                ))
            };
            format!(
                "{{{}}}",
                (0..entries.len())
                    .map(pair)
                    .collect::<Result<Vec<_>>>()?
                    .join(",")
            )
        }
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(i);
            let zone = if zone.is_some() { "Z" } else { "" };
            match text::datetime_of(micros) {
                Some(t) => format!(
                    "\"{}T{}.{:03}{zone}\"",
                    text::date_text(t.date()),
                    t.format("%H:%M:%S"),
                    t.nanosecond() / 1_000_000
                ),
                None => micros.to_string(),
            }
        }
        t if t.is_numeric() || *t == DataType::Boolean => {
            let plain = text::value_text(array, i)?.unwrap_or_default();
            if matches!(plain.as_str(), "NaN" | "Infinity" | "-Infinity") {
                quote(&plain)
            } else {
                plain
            }
        }
        _ => quote(&text::value_text(array, i)?.unwrap_or_default()),
    })
}
