//! Values as JSON text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use base64::Engine;
use chrono::{NaiveDateTime, Timelike};
use datafusion::common::Result;

use super::json_options::WriteOptions;
use super::json_text::quote;
use super::text;

/// The value at `i` as JSON. NULL fields of structs are left out unless the options want them, NULL values of maps and arrays are
/// written.
pub(super) fn value_json(array: &ArrayRef, i: usize, options: &WriteOptions) -> Result<String> {
    if nothing(array, i) {
        return Ok("null".into());
    }
    Ok(match array.data_type() {
        DataType::Struct(fields) => {
            let mut parts = vec![];
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                if !nothing(column, i) || !options.without_nulls {
                    let value = value_json(column, i, options)?;
                    parts.push(format!("{}:{value}", quote(field.name())));
                }
            }
            format!("{{{}}}", parts.join(","))
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(i);
            let parts = (0..items.len())
                .map(|j| value_json(&items, j, options))
                .collect::<Result<Vec<_>>>()?;
            format!("[{}]", parts.join(","))
        }
        DataType::Map(_, _) => map_json(array, i, options)?,
        DataType::Date32 => match options.formats.date.as_deref() {
            None => quote(&text::value_text(array, i)?.unwrap_or_default()),
            Some(format) => {
                let days = i64::from(array.as_primitive::<Date32Type>().value(i));
                let moment = days.checked_mul(86_400_000_000).and_then(text::datetime_of);
                moment.map_or_else(|| days.to_string(), |t| spelled(t, format))
            }
        },
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(i);
            let zoned = zone.is_some();
            match (text::datetime_of(micros), options.formats.of_time(zoned)) {
                (None, _) => micros.to_string(),
                (Some(t), Some(format)) => spelled(t, format),
                (Some(t), None) => format!(
                    "\"{}T{}.{:03}{}\"",
                    text::date_text(t.date()),
                    t.format("%H:%M:%S"),
                    t.nanosecond() / 1_000_000,
                    if zoned { "Z" } else { "" }
                ),
            }
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(i);
            quote(&base64::engine::general_purpose::STANDARD.encode(bytes))
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

/// Whether there is NULL at `i`; a column of type VOID has nothing else.
fn nothing(array: &ArrayRef, i: usize) -> bool {
    array.is_null(i) || *array.data_type() == DataType::Null
}

fn map_json(array: &ArrayRef, i: usize, options: &WriteOptions) -> Result<String> {
    let entries = array.as_map().value(i);
    let (keys, values) = (entries.column(0), Arc::clone(entries.column(1)));
    let pair = |j| {
        let key = text::value_text(keys, j)?.unwrap_or_default();
        Ok(format!(
            "{}:{}",
            quote(&key),
            value_json(&values, j, options)?
        ))
    };
    let parts = (0..entries.len()).map(pair).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", parts.join(",")))
}

/// A moment in a format of chrono's, in quotes.
fn spelled(t: NaiveDateTime, format: &str) -> String {
    quote(&t.and_utc().format(format).to_string())
}
