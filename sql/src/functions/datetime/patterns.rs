//! Dates and times to text and back, by patterns of Java's `DateTimeFormatter`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};
use datafusion::scalar::ScalarValue;
use weir_connectors::file::decode::parse::Zone;
use weir_connectors::file::pattern::{Moment, TimePattern};

use super::super::cast::cast_expr;
use super::super::coerce::{cast_to, is_text, timestamp, timestamp_ntz};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel};
use super::super::{Args, Resolver};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("date_format", |a| {
        a.expect(2, 2)?;
        format(&a, 0, a.exprs[1].clone())
    }),
    ("from_unixtime", |a| {
        a.expect(1, 2)?;
        let pattern = pattern_or(&a, 1, DEFAULT);
        let seconds = a.call("timestamp_seconds", vec![a.cast(0, &DataType::Int64)?])?;
        a.call("date_format", vec![seconds, pattern])
    }),
    ("unix_timestamp", unix_timestamp),
    ("to_unix_timestamp", unix_timestamp),
    ("to_timestamp", |a| parse(a, &timestamp(), false)),
    ("to_timestamp_ltz", |a| parse(a, &timestamp(), false)),
    ("to_timestamp_ntz", |a| parse(a, &timestamp_ntz(), false)),
    ("try_to_timestamp", |a| parse(a, &timestamp(), true)),
    ("try_to_timestamp_ntz", |a| parse(a, &timestamp_ntz(), true)),
    ("to_date", |a| parse(a, &DataType::Date32, false)),
    ("try_to_date", |a| parse(a, &DataType::Date32, true)),
];

/// The pattern of `unix_timestamp` and `from_unixtime`.
const DEFAULT: &str = "yyyy-MM-dd HH:mm:ss";

fn pattern_or(args: &Args<'_>, i: usize, default: &str) -> Expr {
    args.exprs.get(i).cloned().unwrap_or_else(|| lit(default))
}

fn refused(pattern: &str, why: &str) -> DataFusionError {
    let message = format!("the pattern '{pattern}' is not understood: {why}");
    SparkError::external("INVALID_DATETIME_PATTERN.WITH_SUGGESTION", message)
}

fn for_writing(pattern: &str) -> Result<TimePattern> {
    TimePattern::new(pattern).map_err(|why| refused(pattern, &why))
}

fn for_reading(pattern: &str) -> Result<TimePattern> {
    TimePattern::for_reading(pattern).map_err(|why| refused(pattern, &why))
}

/// A pattern that is given once, for reading and writing.
pub(in super::super) fn constant_pattern(pattern: &str) -> Result<TimePattern> {
    for_writing(pattern)
}

/// Refuses a constant pattern that is none when the query is planned.
fn check(pattern: &Expr, read: fn(&str) -> Result<TimePattern>) -> Result<()> {
    match pattern {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => read(text).map(|_| ()),
        _ => Ok(()),
    }
}

/// Compiles the patterns of a column; one that comes again is not compiled again.
struct Patterns {
    read: fn(&str) -> Result<TimePattern>,
    last: Option<TimePattern>,
}

impl Patterns {
    fn get(&mut self, text: &str) -> Result<&TimePattern> {
        if self.last.as_ref().is_none_or(|last| last.text() != text) {
            self.last = Some((self.read)(text)?);
        }
        match &self.last {
            Some(pattern) => Ok(pattern),
            None => Err(refused(text, "it is missing")),
        }
    }
}

/// The call that writes argument `i` by a pattern.
fn format(args: &Args<'_>, i: usize, pattern: Expr) -> Result<Expr> {
    check(&pattern, for_writing)?;
    let pattern = cast_to(pattern, &DataType::Utf8, args.schema)?;
    let values = vec![args.cast(i, &timestamp())?, pattern];
    Ok(Kernel::call(
        "date_format",
        DataType::Utf8,
        "",
        write,
        values,
    ))
}

fn write(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (times, texts) = (
            a[0].as_primitive::<TimestampMicrosecondType>(),
            a[1].as_string::<i32>(),
        );
        let mut patterns = Patterns {
            read: for_writing,
            last: None,
        };
        let mut out = Vec::new();
        let rows = times.iter().zip(texts).map(|(time, text)| {
            let (Some(time), Some(text)) = (time, text) else {
                return Ok(None);
            };
            out.clear();
            let pattern = patterns.get(text)?;
            pattern.write(&mut out, Moment::timestamp(time, Some(call.zone)));
            Ok(Some(String::from_utf8_lossy(&out).into_owned()))
        });
        Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as ArrayRef)
    })
}

/// `unix_timestamp([time])` or `unix_timestamp(text[, pattern])` in seconds, cut towards 1970.
fn unix_timestamp(args: Args<'_>) -> Result<Expr> {
    args.expect(0, 2)?;
    let time = match args.types.first() {
        None => args.call("now", vec![])?,
        Some(t) if is_text(t) => {
            let pattern = pattern_or(&args, 1, DEFAULT);
            args.call("to_timestamp", vec![args.exprs[0].clone(), pattern])?
        }
        Some(_) => args.cast(0, &timestamp())?,
    };
    let code = |call: &Call<'_>| {
        call.over_arrays(|a| {
            let t = a[0].as_primitive::<TimestampMicrosecondType>();
            Ok(Arc::new(t.unary::<_, Int64Type>(|v| v / 1_000_000)) as ArrayRef)
        })
    };
    Ok(Kernel::call(
        "unix_timestamp",
        DataType::Int64,
        "",
        code,
        vec![time],
    ))
}

/// `to_timestamp(x[, pattern])` and its kin. Without a pattern, and for what is no text, it is a cast.
fn parse(args: Args<'_>, to: &DataType, lenient: bool) -> Result<Expr> {
    args.expect(1, 2)?;
    if args.exprs.len() == 1 || !is_text(&args.types[0]) {
        return cast_expr(args.exprs[0].clone(), &args.types[0], to, lenient);
    }
    check(&args.exprs[1], for_reading)?;
    let name = if lenient {
        "try_parse_time"
    } else {
        "parse_time"
    };
    let values = vec![args.string(0)?, args.string(1)?];
    Ok(Kernel::call(name, to.clone(), name, read, values))
}

fn read(call: &Call<'_>) -> Result<ColumnarValue> {
    let strict = call.params == "parse_time";
    call.over_arrays(|a| {
        let (texts, forms) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let mut patterns = Patterns {
            read: for_reading,
            last: None,
        };
        let rows = texts.iter().zip(forms).map(|(text, form)| {
            let (Some(text), Some(form)) = (text, form) else {
                return Ok(None);
            };
            match read_pattern(patterns.get(form)?, text, call.returns, call.zone) {
                None if strict => Err(mismatch(text, form)),
                found => Ok(found),
            }
        });
        let found = rows.collect::<Result<Vec<Option<i64>>>>()?;
        if *call.returns == DataType::Date32 {
            let days = found.into_iter().map(|days| days.map(|days| days as i32));
            return Ok(Arc::new(days.collect::<PrimitiveArray<Date32Type>>()) as ArrayRef);
        }
        let times = PrimitiveArray::<TimestampMicrosecondType>::from(found);
        Ok(Arc::new(times.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

/// What a text means by a pattern as a value of type `t`: microseconds since 1970 of times, days of dates.
pub(in super::super) fn read_pattern(
    pattern: &TimePattern,
    text: &str,
    t: &DataType,
    zone: Zone,
) -> Option<i64> {
    match t {
        DataType::Date32 => pattern.parse_date(text.as_bytes()).map(i64::from),
        DataType::Timestamp(_, None) => pattern.parse_timestamp_ntz(text.as_bytes()),
        _ => pattern.parse_timestamp(text.as_bytes(), zone),
    }
}

fn mismatch(text: &str, pattern: &str) -> DataFusionError {
    let message = format!(
        "the text '{text}' does not match the pattern '{pattern}'; use try_to_timestamp for NULL"
    );
    SparkError::external("CANNOT_PARSE_TIMESTAMP", message)
}
