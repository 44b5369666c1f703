//! Arrow values in the spelling of the case files (the "Values" table of `cases/README.md`).

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, LargeStringArray, MapArray, RecordBatch, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DecimalType, Field, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use serde_json::{Map, Number, Value};

use weir::types::INTERVAL_FIELDS_KEY;

use crate::calendar;
use crate::case::Row;

/// The rows of a batch.
pub(crate) fn rows(batch: &RecordBatch) -> Result<Vec<Row>, String> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns
        .map(|(field, column)| values(field, column))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect())
}

/// The values of one array, one for each slot. The field tells what the array's type does not: which
/// fields an interval names.
pub(crate) fn values(field: &Field, array: &ArrayRef) -> Result<Vec<Value>, String> {
    match array.data_type() {
        DataType::Null => Ok(vec![Value::Null; array.len()]),
        DataType::Dictionary(_, plain) => values(field, &as_type(array, plain)?),
        DataType::RunEndEncoded(_, plain) => values(field, &as_type(array, plain.data_type())?),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => texts(array),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => binaries(array),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => lists(array),
        DataType::Struct(_) => structs(array.as_struct()),
        DataType::Map(..) => maps(array.as_map()),
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Interval(_) => times(field, array),
        _ => numbers(array),
    }
}

fn as_type(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, String> {
    cast(array, data_type).map_err(|e| format!("reading {} as {data_type}: {e}", array.data_type()))
}

/// One value for each slot: null, or what `value` makes of its index.
fn slots(array: &dyn Array, value: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                Value::Null
            } else {
                value(row)
            }
        })
        .collect()
}

fn each<T: ArrowPrimitiveType>(array: &ArrayRef, value: impl Fn(T::Native) -> Value) -> Vec<Value> {
    let typed = array.as_primitive::<T>();
    slots(array, |row| value(typed.value(row)))
}

fn numbers(array: &ArrayRef) -> Result<Vec<Value>, String> {
    Ok(match array.data_type() {
        DataType::Boolean => slots(array, |row| array.as_boolean().value(row).into()),
        DataType::Int8 => each::<Int8Type>(array, Value::from),
        DataType::Int16 => each::<Int16Type>(array, Value::from),
        DataType::Int32 => each::<Int32Type>(array, Value::from),
        DataType::Int64 => each::<Int64Type>(array, Value::from),
        DataType::UInt8 => each::<UInt8Type>(array, Value::from),
        DataType::UInt16 => each::<UInt16Type>(array, Value::from),
        DataType::UInt32 => each::<UInt32Type>(array, Value::from),
        // Spark has no such type; it is named DECIMAL(20,0), so it is written as one.
        DataType::UInt64 => each::<UInt64Type>(array, |number| number.to_string().into()),
        DataType::Float16 => each::<Float16Type>(array, |number| float(number.into())),
        DataType::Float32 => each::<Float32Type>(array, |number| float(number.into())),
        DataType::Float64 => each::<Float64Type>(array, float),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        other => {
            return Err(format!(
                "a result of type {other} has no spelling in the case files"
            ));
        }
    })
}

/// JSON has no word for the values that are no numbers.
fn float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(finite) => Value::Number(finite),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

fn decimals<T: DecimalType>(array: &ArrayRef) -> Vec<Value> {
    let typed = array.as_primitive::<T>();
    slots(array, |row| typed.value_as_string(row).into())
}

fn texts(array: &ArrayRef) -> Result<Vec<Value>, String> {
    let plain = as_type(array, &DataType::LargeUtf8)?;
    let typed: &LargeStringArray = plain.as_string();
    Ok(slots(&plain, |row| typed.value(row).into()))
}

fn binaries(array: &ArrayRef) -> Result<Vec<Value>, String> {
    let plain = as_type(array, &DataType::Binary)?;
    let typed: &BinaryArray = plain.as_binary();
    Ok(slots(&plain, |row| base64(typed.value(row)).into()))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

fn times(field: &Field, array: &ArrayRef) -> Result<Vec<Value>, String> {
    let named = field.metadata().get(INTERVAL_FIELDS_KEY);
    let fields_or = |all: &'static str| named.map_or(all, String::as_str);
    let (day_time, year_month) = (fields_or("DAY TO SECOND"), fields_or("YEAR TO MONTH"));
    let text = |text: String| Value::String(text);
    Ok(match array.data_type() {
        DataType::Date32 => each::<Date32Type>(array, |days| text(calendar::date(days.into()))),
        DataType::Date64 => each::<Date64Type>(array, |millis| {
            text(calendar::date(millis.div_euclid(86_400_000)))
        }),
        DataType::Time32(_) | DataType::Time64(_) => {
            let micros = as_type(array, &DataType::Time64(TimeUnit::Microsecond))?;
            let micros = as_type(&micros, &DataType::Int64)?;
            each::<Int64Type>(&micros, |micros| text(calendar::time_of_day(micros)))
        }
        DataType::Timestamp(unit, zone) => {
            let mark = if zone.is_some() { "Z" } else { "" };
            each::<Int64Type>(&micros(array, *unit)?, |micros| {
                text(calendar::timestamp(micros) + mark)
            })
        }
        DataType::Duration(unit) => each::<Int64Type>(&micros(array, *unit)?, |micros| {
            text(calendar::day_time_interval(micros, day_time))
        }),
        DataType::Interval(IntervalUnit::YearMonth) => {
            each::<IntervalYearMonthType>(array, |months| {
                text(calendar::year_month_interval(months, year_month))
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => each::<IntervalDayTimeType>(array, |parts| {
            let millis = i64::from(parts.days) * 86_400_000 + i64::from(parts.milliseconds);
            text(calendar::day_time_interval(millis * 1_000, day_time))
        }),
        _ => each::<IntervalMonthDayNanoType>(array, |parts| {
            text(calendar::mixed_interval(
                parts.months,
                parts.days,
                parts.nanoseconds,
            ))
        }),
    })
}

/// The counts of a timestamp or duration array in microseconds, cut towards the past.
fn micros(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef, String> {
    let counts = as_type(array, &DataType::Int64)?;
    let (up, down) = match unit {
        TimeUnit::Second => (1_000_000, 1),
        TimeUnit::Millisecond => (1_000, 1),
        TimeUnit::Microsecond => (1, 1),
        TimeUnit::Nanosecond => (1, 1_000),
    };
    let scaled = counts
        .as_primitive::<Int64Type>()
        .unary::<_, Int64Type>(|count| count.wrapping_mul(up).div_euclid(down));
    Ok(std::sync::Arc::new(scaled))
}

fn lists(array: &ArrayRef) -> Result<Vec<Value>, String> {
    let row_values = |row: usize| -> Result<Value, String> {
        if array.is_null(row) {
            return Ok(Value::Null);
        }
        let (field, elements) = match array.data_type() {
            DataType::List(field) => (field, array.as_list::<i32>().value(row)),
            DataType::LargeList(field) => (field, array.as_list::<i64>().value(row)),
            DataType::ListView(field) => (field, array.as_list_view::<i32>().value(row)),
            DataType::LargeListView(field) => (field, array.as_list_view::<i64>().value(row)),
            DataType::FixedSizeList(field, _) => (field, array.as_fixed_size_list().value(row)),
            other => return Err(format!("{other} is no list")),
        };
        values(field, &elements).map(Value::Array)
    };
    (0..array.len()).map(row_values).collect()
}

fn structs(array: &StructArray) -> Result<Vec<Value>, String> {
    let members = array.fields().iter().zip(array.columns());
    let columns = members
        .map(|(field, column)| values(field, column))
        .collect::<Result<Vec<_>, _>>()?;
    let object = |row: usize| {
        let members = array.fields().iter().zip(&columns);
        let object: Map<String, Value> = members
            .map(|(field, column)| (field.name().clone(), column[row].clone()))
            .collect();
        Value::Object(object)
    };
    Ok(slots(array, object))
}

fn maps(array: &MapArray) -> Result<Vec<Value>, String> {
    let row_values = |row: usize| -> Result<Value, String> {
        if array.is_null(row) {
            return Ok(Value::Null);
        }
        let entries = array.value(row);
        let member = |at: usize| values(&entries.fields()[at], entries.column(at));
        let keys = member(0)?.into_iter().map(key_text);
        let object: Map<String, Value> = keys.zip(member(1)?).collect();
        Ok(Value::Object(object))
    };
    (0..array.len()).map(row_values).collect()
}

fn key_text(key: Value) -> String {
    match key {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
