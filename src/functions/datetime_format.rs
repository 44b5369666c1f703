//! Dates and times by pattern: Java's `DateTimeFormatter` patterns in chrono's words.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

use super::coerce::{is_text, timestamp};
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::text::datetime_of;
use super::{Args, Resolver};

/// The family of patterns.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("date_format", |a| {
        a.expect(2, 2)?;
        let format = chrono_format(&a.constant_text(1)?)?;
        Ok(Kernel::call(
            "date_format",
            DataType::Utf8,
            format,
            format_time,
            vec![a.cast(0, &timestamp())?],
        ))
    }),
    ("from_unixtime", |a| {
        a.expect(1, 2)?;
        let format = if a.exprs.len() > 1 {
            a.constant_text(1)?
        } else {
            "yyyy-MM-dd HH:mm:ss".into()
        };
        let seconds = a.call("timestamp_seconds", vec![a.cast(0, &DataType::Int64)?])?;
        a.call("date_format", vec![seconds, lit(format)])
    }),
    ("unix_timestamp", unix_timestamp),
    ("to_unix_timestamp", unix_timestamp),
];

/// `unix_timestamp(time)` or `unix_timestamp(text[, pattern])` in seconds, cut towards 1970.
fn unix_timestamp(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 2)?;
    let time = match is_text(&args.types[0]) {
        true => {
            let format = if args.exprs.len() > 1 {
                args.exprs[1].clone()
            } else {
                lit("yyyy-MM-dd HH:mm:ss")
            };
            args.call("to_timestamp", vec![args.exprs[0].clone(), format])?
        }
        false => args.cast(0, &timestamp())?,
    };
    Ok(Kernel::call(
        "unix_timestamp",
        DataType::Int64,
        "",
        |c| {
            c.over_arrays(|a| {
                let t = a[0].as_primitive::<TimestampMicrosecondType>();
                Ok(Arc::new(t.unary::<_, Int64Type>(|v| v / 1_000_000)) as _)
            })
        },
        vec![time],
    ))
}

fn format_time(call: &Call<'_>) -> Result<ColumnarValue> {
    let items: Vec<_> = chrono::format::StrftimeItems::new(call.params).collect();
    call.over_arrays(|a| {
        let times = a[0].as_primitive::<TimestampMicrosecondType>().iter();
        let rows = times.map(|t| {
            t.and_then(datetime_of)
                .map(|t| t.and_utc().format_with_items(items.iter()).to_string())
        });
        Ok(Arc::new(rows.collect::<StringArray>()) as _)
    })
}

/// A pattern of Java's DateTimeFormatter in chrono's words.
pub(super) fn chrono_format(java: &str) -> Result<String> {
    let mut out = String::new();
    let mut chars = java.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            for quoted in chars.by_ref().take_while(|q| *q != '\'') {
                out.push(quoted);
            }
            continue;
        }
        if !c.is_ascii_alphabetic() {
            out.push_str(if c == '%' { "%%" } else { "" });
            if c != '%' {
                out.push(c);
            }
            continue;
        }
        let mut width = 1;
        while chars.next_if_eq(&c).is_some() {
            width += 1;
        }
        let item = match (c, width) {
            ('y' | 'u', 2) => "%y",
            ('y' | 'u', _) => "%Y",
            ('M', 1) => "%-m",
            ('M', 2) => "%m",
            ('M', 3) => "%b",
            ('M', _) => "%B",
            ('d', 1) => "%-d",
            ('d', _) => "%d",
            ('H', 1) => "%-H",
            ('H', _) => "%H",
            ('h', 1) => "%-I",
            ('h', _) => "%I",
            ('m', _) => "%M",
            ('s', _) => "%S",
            ('S', 3) => "%3f",
            ('S', 6) => "%6f",
            ('S', 9) => "%9f",
            ('a', _) => "%p",
            ('E', 1..=3) => "%a",
            ('E', _) => "%A",
            ('D', 1) => "%-j",
            ('D', _) => "%j",
            ('Q', 1) => "%q",
            ('x', 3) | ('X', 3) => "%:z",
            ('x' | 'X' | 'Z', _) => "%z",
            ('V' | 'z', _) => "UTC",
            _ => {
                let message = format!("the pattern letter '{c}' in '{java}' is not supported");
                return Err(SparkError::external("INVALID_DATETIME_PATTERN", message));
            }
        };
        out.push_str(item);
    }
    Ok(out)
}

pub(super) fn parse_time(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = a[0].as_string::<i32>().iter().map(|v| match v {
            None => Ok(None),
            Some(text) => match moment(text, call.params) {
                Some(t) => Ok(Some(t)),
                None => Err(SparkError::external(
                    "CANNOT_PARSE_TIMESTAMP",
                    format!("the text '{text}' does not match the pattern; use try_to_timestamp for NULL"),
                )),
            },
        });
        let out: PrimitiveArray<TimestampMicrosecondType> = rows.collect::<Result<_>>()?;
        super::cast::convert(&(Arc::new(out) as _), call.returns, true)
    })
}

/// The microseconds since 1970 that a text means in a format of chrono's.
pub(super) fn moment(text: &str, format: &str) -> Option<i64> {
    if let Ok(t) = chrono::DateTime::parse_from_str(text, format) {
        return Some(t.timestamp_micros());
    }
    if let Ok(t) = chrono::NaiveDateTime::parse_from_str(text, format) {
        return Some(t.and_utc().timestamp_micros());
    }
    let date = chrono::NaiveDate::parse_from_str(text, format).ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}
