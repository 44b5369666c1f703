//! Arrow arrays from the values of the case files: the way back of `value.rs`, for engines that only echo.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, DurationMicrosecondArray, IntervalYearMonthArray,
    ListArray, MapArray, NullArray, RecordBatch, RecordBatchOptions, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use serde_json::Value;

use crate::case::Row;

/// A batch with these rows.
pub(crate) fn batch(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let column = |at: usize, field: &Field| {
        let values: Vec<&Value> = rows.iter().map(|row| &row[at]).collect();
        array(field.data_type(), &values)
    };
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| column(at, field));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect(), &options).unwrap()
}

/// An array of a type with these values.
pub(crate) fn array(data_type: &DataType, values: &[&Value]) -> ArrayRef {
    match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => Arc::new(values.iter().map(|v| v.as_bool()).collect::<BooleanArray>()),
        DataType::Binary => {
            let bytes: Vec<Option<Vec<u8>>> =
                values.iter().map(|v| v.as_str().map(unbase64)).collect();
            Arc::new(bytes.iter().map(|b| b.as_deref()).collect::<BinaryArray>())
        }
        DataType::Duration(_) => Arc::new(
            values
                .iter()
                .map(|v| v.as_str().map(day_time))
                .collect::<DurationMicrosecondArray>(),
        ),
        DataType::Interval(_) => Arc::new(
            values
                .iter()
                .map(|v| v.as_str().map(year_month))
                .collect::<IntervalYearMonthArray>(),
        ),
        DataType::List(element) => {
            let lists = values.iter().map(|v| v.as_array());
            let offsets = OffsetBuffer::from_lengths(lists.clone().map(|l| l.map_or(0, Vec::len)));
            let elements: Vec<&Value> = lists.flatten().flatten().collect();
            let elements = array(element.data_type(), &elements);
            Arc::new(ListArray::new(
                element.clone(),
                offsets,
                elements,
                nulls(values),
            ))
        }
        DataType::Struct(fields) => Arc::new(structure(fields, values)),
        DataType::Map(entries, _) => map(entries, values),
        // The rest is read from text by Arrow's own cast.
        scalar => {
            let texts: StringArray = values.iter().map(|value| text(value)).collect();
            cast(&texts, scalar).unwrap()
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn nulls(values: &[&Value]) -> Option<NullBuffer> {
    Some(values.iter().map(|value| !value.is_null()).collect())
}

fn structure(fields: &Fields, values: &[&Value]) -> StructArray {
    let column = |field: &Field| {
        let members: Vec<&Value> = values
            .iter()
            .map(|value| value.get(field.name()).unwrap_or(&Value::Null))
            .collect();
        array(field.data_type(), &members)
    };
    let columns = fields.iter().map(|field| column(field)).collect();
    StructArray::try_new_with_length(fields.clone(), columns, nulls(values), values.len()).unwrap()
}

fn map(entries: &Arc<Field>, values: &[&Value]) -> ArrayRef {
    let DataType::Struct(fields) = entries.data_type() else {
        panic!("a map has entries")
    };
    let maps = values.iter().map(|value| value.as_object());
    let offsets =
        OffsetBuffer::from_lengths(maps.clone().map(|map| map.map_or(0, |map| map.len())));
    let keys: Vec<Value> = maps
        .clone()
        .flatten()
        .flat_map(|map| map.keys().cloned().map(Value::String))
        .collect();
    let members: Vec<&Value> = maps.flatten().flat_map(|map| map.values()).collect();
    let keys: Vec<&Value> = keys.iter().collect();
    let columns = vec![
        array(fields[0].data_type(), &keys),
        array(fields[1].data_type(), &members),
    ];
    let entry_array = StructArray::new(fields.clone(), columns, None);
    Arc::new(MapArray::new(
        entries.clone(),
        offsets,
        entry_array,
        nulls(values),
        false,
    ))
}

fn unbase64(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.trim_end_matches('=').chars() {
        bits = bits << 6 | u32::try_from(LETTERS.find(letter).unwrap()).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).unwrap());
        }
    }
    bytes
}

/// The number of `INTERVAL '-1 02:03:04.5' DAY TO SECOND`, of `INTERVAL '1' DAY` or of `INTERVAL '05:30' HOUR TO MINUTE`.
fn day_time(text: &str) -> i64 {
    let quoted = text.split('\'').nth(1).unwrap();
    let (sign, size) = quoted
        .strip_prefix('-')
        .map_or((1, quoted), |size| (-1, size));
    let fields = text.rsplit('\'').next().unwrap().trim();
    let units = ["DAY", "HOUR", "MINUTE", "SECOND"];
    let first = units.iter().position(|unit| fields.starts_with(unit));
    let before = std::iter::repeat_n("0", first.unwrap());
    let mut parts = before.chain(size.split([' ', ':'])).chain(["0"; 3]);
    let mut whole = |scale: i64| parts.next().unwrap().parse::<i64>().unwrap() * scale;
    let minutes = whole(1_440) + whole(60) + whole(1);
    let seconds: f64 = parts.next().unwrap().parse().unwrap();
    sign * (minutes * 60_000_000 + (seconds * 1e6).round() as i64)
}

/// The number of `INTERVAL '-1-2' YEAR TO MONTH` or of `INTERVAL '2' YEAR`.
fn year_month(text: &str) -> i32 {
    let quoted = text.split('\'').nth(1).unwrap();
    let (sign, size) = quoted
        .strip_prefix('-')
        .map_or((1, quoted), |size| (-1, size));
    let (years, months) = size.split_once('-').unwrap_or((size, "0"));
    sign * (years.parse::<i32>().unwrap() * 12 + months.parse::<i32>().unwrap())
}
