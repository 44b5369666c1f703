//! Values as text the way Spark's `CAST(x AS STRING)` and `to_json` write them.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    IntervalMonthDayNanoType, IntervalYearMonthType, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::common::Result;
use weir_connectors::file::decode::parse::Zone;

use super::intervals::{calendar_text, day_time_text, fraction_text, year_month_text};

/// A type in Spark's words, for messages and `typeof`.
pub(crate) fn type_text(t: &DataType) -> String {
    match t {
        DataType::Null => "void".into(),
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(p, s) => format!("decimal({p},{s})"),
        t if super::coerce::is_text(t) => "string".into(),
        DataType::Binary => "binary".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(_, Some(_)) => "timestamp".into(),
        DataType::Timestamp(_, None) => "timestamp_ntz".into(),
        DataType::Duration(_) => "interval day to second".into(),
        DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth) => {
            "interval year to month".into()
        }
        DataType::Interval(_) => "interval".into(),
        DataType::List(f) => format!("array<{}>", type_text(f.data_type())),
        DataType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|f| format!("{}:{}", f.name(), type_text(f.data_type())));
            format!("struct<{}>", fields.collect::<Vec<_>>().join(","))
        }
        t => match super::coerce::map_types(t) {
            Some((k, v)) => format!("map<{},{}>", type_text(&k), type_text(&v)),
            None => t.to_string(),
        },
    }
}

/// A DOUBLE as Java prints it: `1.0`, `1.0E10`, `NaN`, `-Infinity`.
pub(crate) fn double_text(v: f64) -> String {
    java_float(v, format!("{v:e}"), format!("{v}"))
}

/// A FLOAT as Java prints it.
pub(crate) fn float_text(v: f32) -> String {
    java_float(f64::from(v), format!("{v:e}"), format!("{v}"))
}

fn java_float(v: f64, scientific: String, plain: String) -> String {
    if v.is_nan() {
        return "NaN".into();
    }
    if v.is_infinite() {
        return if v > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        };
    }
    if v == 0.0 || (1e-3..1e7).contains(&v.abs()) {
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// An unscaled decimal with `scale` digits behind the point.
pub(crate) fn decimal_text(unscaled: i128, scale: i8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs().to_string();
    if scale <= 0 {
        return format!(
            "{sign}{digits}{}",
            "0".repeat(usize::from(scale.unsigned_abs()))
        );
    }
    let scale = scale as usize;
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// `2026-01-31`; years beyond 9999 carry a plus sign.
pub(crate) fn date_text(date: NaiveDate) -> String {
    let year = date.year();
    let year = if year > 9999 {
        format!("+{year}")
    } else if year < 0 {
        format!("-{:04}", -year)
    } else {
        format!("{year:04}")
    };
    format!("{year}-{:02}-{:02}", date.month(), date.day())
}

/// Days since 1970 as a date, if the calendar reaches that far.
pub(crate) fn date_of(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(719_163)?)
}

/// Microseconds since 1970 on a clock as date and time.
pub(crate) fn datetime_of(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|t| t.naive_utc())
}

/// `2026-01-31 13:45:59.123`, without trailing zeros.
pub(crate) fn timestamp_text(local_micros: i64) -> String {
    let Some(t) = datetime_of(local_micros) else {
        return format!("{local_micros}us");
    };
    let fraction = fraction_text(u64::from(t.nanosecond() / 1000));
    format!(
        "{} {:02}:{:02}:{:02}{fraction}",
        date_text(t.date()),
        t.hour(),
        t.minute(),
        t.second()
    )
}

/// Every value of `array` as Spark's cast writes it, times in `zone`.
pub(crate) fn strings(array: &ArrayRef, zone: Zone) -> Result<StringArray> {
    (0..array.len())
        .map(|i| value_text(array, i, zone))
        .collect()
}

/// The value at `i` as text; `None` for NULL.
pub(crate) fn value_text(array: &ArrayRef, i: usize, zone: Zone) -> Result<Option<String>> {
    if array.is_null(i) {
        return Ok(None);
    }
    let text = match array.data_type() {
        DataType::Null => return Ok(None),
        DataType::Float64 => double_text(array.as_primitive::<Float64Type>().value(i)),
        DataType::Float32 => float_text(array.as_primitive::<Float32Type>().value(i)),
        DataType::Decimal128(_, s) => {
            decimal_text(array.as_primitive::<Decimal128Type>().value(i), *s)
        }
        DataType::Date32 => match date_of(array.as_primitive::<Date32Type>().value(i)) {
            Some(date) => date_text(date),
            None => array.as_primitive::<Date32Type>().value(i).to_string(),
        },
        DataType::Timestamp(_, of) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(i);
            let local = match of {
                Some(_) => zone.utc_to_local(micros).unwrap_or(micros),
                None => micros,
            };
            timestamp_text(local)
        }
        DataType::Duration(_) => {
            day_time_text(array.as_primitive::<DurationMicrosecondType>().value(i))
        }
        DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth) => {
            year_month_text(array.as_primitive::<IntervalYearMonthType>().value(i))
        }
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => {
            let v = array.as_primitive::<IntervalMonthDayNanoType>().value(i);
            calendar_text(v.months, v.days, v.nanoseconds / 1000)
        }
        DataType::Binary => String::from_utf8_lossy(array.as_binary::<i32>().value(i)).into_owned(),
        DataType::Utf8 => array.as_string::<i32>().value(i).to_owned(),
        DataType::List(_) => list_text(&array.as_list::<i32>().value(i), zone)?,
        DataType::Struct(_) => struct_text(array, i, zone)?,
        DataType::Map(_, _) => map_text(array, i, zone)?,
        _ => ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default())?
            .value(i)
            .to_string(),
    };
    Ok(Some(text))
}

fn or_null(text: Option<String>) -> String {
    text.unwrap_or_else(|| "null".into())
}

fn list_text(values: &ArrayRef, zone: Zone) -> Result<String> {
    let items = (0..values.len())
        .map(|i| value_text(values, i, zone).map(or_null))
        .collect::<Result<Vec<_>>>()?;
    Ok(format!("[{}]", items.join(", ")))
}

fn struct_text(array: &ArrayRef, i: usize, zone: Zone) -> Result<String> {
    let fields = array.as_struct().columns().iter();
    let items = fields
        .map(|c| value_text(c, i, zone).map(or_null))
        .collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", items.join(", ")))
}

fn map_text(array: &ArrayRef, i: usize, zone: Zone) -> Result<String> {
    let entries = array.as_map().value(i);
    let mut out = String::from("{");
    for j in 0..entries.len() {
        let (k, v) = (
            value_text(entries.column(0), j, zone)?,
            value_text(entries.column(1), j, zone)?,
        );
        let comma = if j > 0 { ", " } else { "" };
        // Writing to a String cannot fail.
        let _written = write!(out, "{comma}{} -> {}", or_null(k), or_null(v));
    }
    out.push('}');
    Ok(out)
}
