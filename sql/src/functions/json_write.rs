//! Values as JSON text.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use base64::Engine;
use datafusion::common::Result;
use weir_connectors::file::pattern::{Moment, TimePattern};

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
        DataType::Date32 => match &options.formats.date {
            None => quote(&text::value_text(array, i, options.formats.zone)?.unwrap_or_default()),
            Some(pattern) => {
                let days = array.as_primitive::<Date32Type>().value(i);
                spelled(pattern, Moment::date(days.into()))
            }
        },
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(i);
            let zone = zone.as_ref().map(|_| options.formats.zone);
            let given = options.formats.of_time(zone.is_some());
            let usual = if zone.is_some() { &USUAL } else { &USUAL_LOCAL };
            spelled(given.unwrap_or(usual), Moment::timestamp(micros, zone))
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(i);
            quote(&base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        t if t.is_numeric() || *t == DataType::Boolean => {
            let plain = text::value_text(array, i, options.formats.zone)?.unwrap_or_default();
            if matches!(plain.as_str(), "NaN" | "Infinity" | "-Infinity") {
                quote(&plain)
            } else {
                plain
            }
        }
        _ => quote(&text::value_text(array, i, options.formats.zone)?.unwrap_or_default()),
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
        let key = text::value_text(keys, j, options.formats.zone)?.unwrap_or_default();
        Ok(format!(
            "{}:{}",
            quote(&key),
            value_json(&values, j, options)?
        ))
    };
    let parts = (0..entries.len()).map(pair).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", parts.join(",")))
}

/// How a TIMESTAMP is spelled unless an option says otherwise.
static USUAL: LazyLock<TimePattern> = LazyLock::new(|| fixed("yyyy-MM-dd'T'HH:mm:ss.SSSXXX"));
/// How a TIMESTAMP_NTZ is.
static USUAL_LOCAL: LazyLock<TimePattern> = LazyLock::new(|| fixed("yyyy-MM-dd'T'HH:mm:ss.SSS"));

fn fixed(pattern: &str) -> TimePattern {
    TimePattern::new(pattern).expect("invariant: the pattern is good")
}

/// A date or time by a pattern, in quotes.
fn spelled(pattern: &TimePattern, moment: Moment) -> String {
    let mut out = Vec::new();
    pattern.write(&mut out, moment);
    quote(&String::from_utf8_lossy(&out))
}
