//! Arithmetic on dates, timestamps and intervals, and the text of intervals.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{ColumnarValue, Expr, Operator};
use datafusion::scalar::ScalarValue;

use arrow::array::AsArray;
use arrow::datatypes::{DurationMicrosecondType, Float64Type, Int64Type, IntervalYearMonthType};
use std::sync::Arc;

use super::arithmetic::time_call;
use super::coerce::{cast_from, cast_to, day_time, is_integer, is_number, is_text, timestamp};
use super::error::{SparkError, mismatch};
use super::kernel::{Call, Kernel};

/// Microseconds in a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

fn is_interval(t: &DataType) -> bool {
    matches!(t, DataType::Duration(_) | DataType::Interval(_))
}

fn is_time(t: &DataType) -> bool {
    matches!(
        t,
        DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _)
    )
}

/// Plans `left op right` if a date, timestamp or interval takes part.
pub(super) fn time_arithmetic(
    op: Operator,
    left: &Expr,
    lt: &DataType,
    right: &Expr,
    rt: &DataType,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    if !(is_interval(lt) || is_interval(rt) || is_time(lt) || is_time(rt)) {
        return Ok(None);
    }
    let (l, r) = (left.clone(), right.clone());
    match (op, lt, rt) {
        (Operator::Plus, i, t) if is_interval(i) && is_time(t) => {
            shift(op, r, rt, l, lt, schema).map(Some)
        }
        (Operator::Plus | Operator::Minus, t, i) if is_time(t) && is_interval(i) => {
            shift(op, l, lt, r, rt, schema).map(Some)
        }
        (Operator::Plus | Operator::Minus, a, b) if is_interval(a) && a == b => {
            Ok(Some(time_call(op, a.clone(), vec![l, r])))
        }
        (Operator::Minus, a, b) if is_time(a) && (is_time(b) || is_text(b)) => {
            difference(l, lt, r, rt, schema).map(Some)
        }
        (Operator::Minus, a, b) if is_text(a) && is_time(b) => {
            difference(l, lt, r, rt, schema).map(Some)
        }
        (Operator::Plus | Operator::Minus, DataType::Date32, n) if is_integer(n) => {
            Ok(Some(time_call(op, DataType::Date32, vec![l, days(r, rt)?])))
        }
        (Operator::Multiply, i, n) if is_interval(i) && is_number(n) => {
            Ok(Some(scale(l, lt, r, rt, false)?))
        }
        (Operator::Multiply, n, i) if is_interval(i) && is_number(n) => {
            Ok(Some(scale(r, rt, l, lt, false)?))
        }
        (Operator::Divide, i, n) if is_interval(i) && is_number(n) => {
            Ok(Some(scale(l, lt, r, rt, true)?))
        }
        (_, DataType::Null, _) | (_, _, DataType::Null) => Ok(None),
        _ => Err(mismatch(format!(
            "`{left} {op} {right}` does not accept {lt} and {rt}"
        ))),
    }
}

/// A point in time moved by an interval. A date moved by whole days stays a date when the interval has only days.
fn shift(
    op: Operator,
    time: Expr,
    tt: &DataType,
    by: Expr,
    it: &DataType,
    schema: &dyn ExprSchema,
) -> Result<Expr> {
    if matches!(tt, DataType::Date32) && matches!(it, DataType::Interval(IntervalUnit::YearMonth)) {
        return Ok(time_call(op, DataType::Date32, vec![time, by]));
    }
    if matches!(tt, DataType::Date32) {
        let whole_days = matches!(&by, Expr::Literal(ScalarValue::DurationMicrosecond(Some(us)), _) if us % DAY_MICROS == 0);
        let moved = time_call(
            op,
            timestamp(),
            vec![cast_to(time, &timestamp(), schema)?, by],
        );
        if whole_days {
            return cast_from(moved, &timestamp(), &DataType::Date32);
        }
        return Ok(moved);
    }
    Ok(time_call(op, tt.clone(), vec![time, by]))
}

/// `end - start`: a day-time interval; between two dates one of whole days.
fn difference(
    l: Expr,
    lt: &DataType,
    r: Expr,
    rt: &DataType,
    schema: &dyn ExprSchema,
) -> Result<Expr> {
    let common = if matches!(lt, DataType::Timestamp(_, None))
        && matches!(rt, DataType::Timestamp(_, None))
    {
        lt.clone()
    } else {
        timestamp()
    };
    let args = vec![cast_to(l, &common, schema)?, cast_to(r, &common, schema)?];
    Ok(time_call(Operator::Minus, day_time(), args))
}

/// A number of days as what Arrow adds to a date.
fn days(n: Expr, nt: &DataType) -> Result<Expr> {
    let n = cast_from(n, nt, &DataType::Int64)?;
    Ok(Kernel::call(
        "days",
        DataType::Duration(TimeUnit::Second),
        "",
        |c| {
            c.over_arrays(|a| {
                let days = a[0].as_primitive::<Int64Type>();
                let out = days.try_unary::<_, arrow::datatypes::DurationSecondType, _>(|d| {
                    d.checked_mul(86_400).ok_or_else(|| {
                        SparkError::external("ARITHMETIC_OVERFLOW", format!("{d} days"))
                    })
                })?;
                Ok(Arc::new(out) as _)
            })
        },
        vec![n],
    ))
}

/// An interval times or divided by a number, rounded half up.
fn scale(interval: Expr, it: &DataType, by: Expr, bt: &DataType, divide: bool) -> Result<Expr> {
    let name = if divide {
        "divide_interval"
    } else {
        "multiply_interval"
    };
    if !divide && is_integer(bt) && *it == day_time() {
        let by = cast_from(by, bt, &DataType::Int64)?;
        return Ok(Kernel::call(
            name,
            it.clone(),
            "",
            multiply_exact,
            vec![interval, by],
        ));
    }
    let by = cast_from(by, bt, &DataType::Float64)?;
    let code = if divide {
        |c: &Call<'_>| scaled(c, |a, b| a / b)
    } else {
        |c: &Call<'_>| scaled(c, |a, b| a * b)
    };
    Ok(Kernel::call(name, it.clone(), "", code, vec![interval, by]))
}

fn multiply_exact(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (i, n) = (
            a[0].as_primitive::<DurationMicrosecondType>(),
            a[1].as_primitive::<Int64Type>(),
        );
        let out: arrow::array::PrimitiveArray<DurationMicrosecondType> =
            arrow::compute::kernels::arity::try_binary(i, n, |x, y| {
                x.checked_mul(y).ok_or_else(|| {
                    arrow::error::ArrowError::ArithmeticOverflow(format!("{x} * {y}"))
                })
            })
            .map_err(|e| SparkError::external("INTERVAL_ARITHMETIC_OVERFLOW", e.to_string()))?;
        Ok(Arc::new(out) as _)
    })
}

fn scaled(call: &Call<'_>, f: fn(f64, f64) -> f64) -> Result<ColumnarValue> {
    let round = |v: f64| -> f64 {
        if v < 0.0 {
            -(-v + 0.5).floor()
        } else {
            (v + 0.5).floor()
        }
    };
    call.over_arrays(|a| {
        let by = a[1].as_primitive::<Float64Type>();
        let fail = |n: f64| match n {
            0.0 => {
                SparkError::external("INTERVAL_DIVIDED_BY_ZERO", "an interval is divided by zero")
            }
            n => SparkError::external(
                "INTERVAL_ARITHMETIC_OVERFLOW",
                format!("the interval scaled by {n} is too long"),
            ),
        };
        if let Some(i) = a[0].as_primitive_opt::<DurationMicrosecondType>() {
            let rows = i.iter().zip(by.iter()).map(|(x, y)| match (x, y) {
                (Some(x), Some(y)) => match round(f(x as f64, y)) {
                    v if v.is_finite() && v.abs() < 9.3e18 => Ok(Some(v as i64)),
                    _ => Err(fail(y)),
                },
                _ => Ok(None),
            });
            let out: arrow::array::PrimitiveArray<DurationMicrosecondType> =
                rows.collect::<Result<_>>()?;
            return Ok(Arc::new(out) as _);
        }
        let rows = a[0]
            .as_primitive::<IntervalYearMonthType>()
            .iter()
            .zip(by.iter())
            .map(|(x, y)| match (x, y) {
                (Some(x), Some(y)) => match round(f(f64::from(x), y)) {
                    v if v.is_finite() && v.abs() <= f64::from(i32::MAX) => Ok(Some(v as i32)),
                    _ => Err(fail(y)),
                },
                _ => Ok(None),
            });
        let out: arrow::array::PrimitiveArray<IntervalYearMonthType> =
            rows.collect::<Result<_>>()?;
        Ok(Arc::new(out) as _)
    })
}

/// `INTERVAL '1 02:03:04.5' DAY TO SECOND`.
pub(crate) fn day_time_text(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let abs = micros.unsigned_abs();
    let (days, rest) = (abs / DAY_MICROS as u64, abs % DAY_MICROS as u64);
    let (secs, frac) = (rest / 1_000_000, rest % 1_000_000);
    let (h, m, s) = (secs / 3600, secs / 60 % 60, secs % 60);
    let fraction = fraction_text(frac);
    format!("INTERVAL '{sign}{days} {h:02}:{m:02}:{s:02}{fraction}' DAY TO SECOND")
}

/// `.5` for 500000 microseconds, nothing for 0.
pub(crate) fn fraction_text(micros: u64) -> String {
    if micros == 0 {
        return String::new();
    }
    format!(".{}", format!("{micros:06}").trim_end_matches('0'))
}

/// `INTERVAL '1-2' YEAR TO MONTH`.
pub(crate) fn year_month_text(months: i32) -> String {
    let sign = if months < 0 { "-" } else { "" };
    let abs = months.unsigned_abs();
    format!("INTERVAL '{sign}{}-{}' YEAR TO MONTH", abs / 12, abs % 12)
}

/// `1 years 2 months 3 days 4 hours 5 minutes 6.7 seconds`, zero parts left out.
pub(crate) fn calendar_text(months: i32, days: i32, micros: i64) -> String {
    let mut parts = vec![];
    for (n, unit) in [
        (i64::from(months / 12), "years"),
        (i64::from(months % 12), "months"),
        (i64::from(days), "days"),
    ] {
        if n != 0 {
            parts.push(format!("{n} {unit}"));
        }
    }
    let (hours, minutes) = (micros / 3_600_000_000, micros / 60_000_000 % 60);
    for (n, unit) in [(hours, "hours"), (minutes, "minutes")] {
        if n != 0 {
            parts.push(format!("{n} {unit}"));
        }
    }
    let seconds = micros % 60_000_000;
    if seconds != 0 {
        let sign = if seconds < 0 { "-" } else { "" };
        let abs = seconds.unsigned_abs();
        parts.push(format!(
            "{sign}{}{} seconds",
            abs / 1_000_000,
            fraction_text(abs % 1_000_000)
        ));
    }
    if parts.is_empty() {
        "0 seconds".into()
    } else {
        parts.join(" ")
    }
}

/// An interval written as text: `5 seconds`, `1 day 2 hours`, with an optional leading `interval`.
///
/// Gives (months, days, microseconds), or `None` for text that is no interval.
pub(crate) fn parse_interval(text: &str) -> Option<(i32, i32, i64)> {
    let lower = text.trim().to_ascii_lowercase();
    let mut words = lower
        .strip_prefix("interval ")
        .unwrap_or(&lower)
        .split_ascii_whitespace();
    let (mut months, mut days, mut micros) = (0i32, 0i32, 0i64);
    let mut any = false;
    while let Some(number) = words.next() {
        let unit = words.next()?;
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        any = true;
        if unit == "second" {
            micros = micros.checked_add(decimal_micros(number)?)?;
            continue;
        }
        let n: i64 = number.strip_prefix('+').unwrap_or(number).parse().ok()?;
        match unit {
            "year" => months = months.checked_add(i32::try_from(n.checked_mul(12)?).ok()?)?,
            "month" => months = months.checked_add(i32::try_from(n).ok()?)?,
            "week" => days = days.checked_add(i32::try_from(n.checked_mul(7)?).ok()?)?,
            "day" => days = days.checked_add(i32::try_from(n).ok()?)?,
            "hour" => micros = micros.checked_add(n.checked_mul(3_600_000_000)?)?,
            "minute" => micros = micros.checked_add(n.checked_mul(60_000_000)?)?,
            "millisecond" => micros = micros.checked_add(n.checked_mul(1000)?)?,
            "microsecond" => micros = micros.checked_add(n)?,
            _ => return None,
        }
    }
    any.then_some((months, days, micros))
}

/// `-1.5` seconds as microseconds; digits beyond the sixth are cut.
pub(crate) fn decimal_micros(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty())
        || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: i64 = format!("{:0<6.6}", fraction).parse().ok()?;
    let micros = whole.checked_mul(1_000_000)?.checked_add(fraction)?;
    Some(if negative { -micros } else { micros })
}
