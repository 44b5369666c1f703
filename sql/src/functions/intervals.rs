//! Arithmetic on dates, timestamps and intervals, and the text of intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Float64Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{ExprSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Expr, Operator};
use datafusion::scalar::ScalarValue;
use weir_connectors::file::decode::parse::Zone;

use super::arithmetic::time_call;
use super::coerce::{
    cast_from, cast_to, day_time, is_integer, is_number, is_text, timestamp, timestamp_ntz,
};
use super::datetime::{add_day_time, add_months};
use super::error::{SparkError, mismatch};
use super::interval_fields::with_fields_of;
use super::kernel::{Call, Kernel, KernelFn};

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

/// Two operands with their types.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) left: (&'a Expr, &'a DataType),
    pub(super) right: (&'a Expr, &'a DataType),
}

/// Plans `left op right` if a date, timestamp or interval takes part.
pub(super) fn time_arithmetic(
    op: Operator,
    sides: Sides<'_>,
    schema: &dyn ExprSchema,
    ansi: bool,
) -> Result<Option<Expr>> {
    let ((left, lt), (right, rt)) = (sides.left, sides.right);
    if !(is_interval(lt) || is_interval(rt) || is_time(lt) || is_time(rt)) {
        return Ok(None);
    }
    let (l, r) = (left.clone(), right.clone());
    let planned = match (op, lt, rt) {
        (Operator::Plus, i, t) if is_interval(i) && is_time(t) => shift(op, (r, t), (l, i), ansi)?,
        (Operator::Plus, i, t) if is_interval(i) && is_text(t) => {
            let time = cast_from(r, t, &timestamp())?;
            shift(op, (time, &timestamp()), (l, i), ansi)?
        }
        (Operator::Plus | Operator::Minus, t, i) if is_time(t) && is_interval(i) => {
            shift(op, (l, t), (r, i), ansi)?
        }
        (Operator::Plus | Operator::Minus, t, i) if is_text(t) && is_interval(i) => {
            let time = cast_from(l, t, &timestamp())?;
            shift(op, (time, &timestamp()), (r, i), ansi)?
        }
        (Operator::Plus | Operator::Minus, a, b) if is_interval(a) && a == b => {
            let sum = time_call(op, a.clone(), vec![l, r], ansi);
            with_fields_of(sum, &[left, right], schema)
        }
        (Operator::Minus, a, b) if is_time(a) && (is_time(b) || is_text(b)) => {
            difference(l, lt, r, rt, schema)?
        }
        (Operator::Minus, a, b) if is_text(a) && is_time(b) => difference(l, lt, r, rt, schema)?,
        (Operator::Plus | Operator::Minus, DataType::Date32, n) if is_integer(n) => {
            days(op, l, cast_from(r, n, &DataType::Int32)?, ansi)
        }
        (Operator::Plus, n, DataType::Date32) if is_integer(n) => {
            days(op, r, cast_from(l, n, &DataType::Int32)?, ansi)
        }
        (Operator::Multiply, i, n) if is_interval(i) && is_number(n) => {
            scale((l, i), (r, n), false, ansi)?
        }
        (Operator::Multiply, n, i) if is_interval(i) && is_number(n) => {
            scale((r, i), (l, n), false, ansi)?
        }
        (Operator::Divide, i, n) if is_interval(i) && is_number(n) => {
            scale((l, i), (r, n), true, ansi)?
        }
        (_, DataType::Null, _) | (_, _, DataType::Null) => return Ok(None),
        _ => {
            return Err(mismatch(format!(
                "`{left} {op} {right}` does not accept {}",
                super::coerce::list_types(&[lt.clone(), rt.clone()])
            )));
        }
    };
    Ok(Some(planned))
}

/// A point in time moved by an interval. A date moved by months or by whole days stays a date.
fn shift(
    op: Operator,
    (time, tt): (Expr, &DataType),
    (by, it): (Expr, &DataType),
    ansi: bool,
) -> Result<Expr> {
    let months = matches!(it, DataType::Interval(IntervalUnit::YearMonth));
    if matches!(tt, DataType::Date32) {
        let whole_days = matches!(&by, Expr::Literal(ScalarValue::DurationMicrosecond(Some(us)), _) if us % DAY_MICROS == 0);
        let moved = moved(
            op,
            cast_from(time, tt, &timestamp_ntz())?,
            &timestamp_ntz(),
            by.clone(),
            ansi,
        );
        if whole_days || months {
            return cast_from(moved, &timestamp_ntz(), &DataType::Date32);
        }
        return cast_from(moved, &timestamp_ntz(), &timestamp());
    }
    Ok(moved(op, time, tt, by, ansi))
}

fn moved(op: Operator, time: Expr, t: &DataType, by: Expr, ansi: bool) -> Expr {
    let name = match (op, ansi) {
        (Operator::Minus, true) => "subtract",
        (Operator::Minus, false) => "try_subtract",
        (_, true) => "add",
        (_, false) => "try_add",
    };
    Kernel::call(name, t.clone(), name, move_rows, vec![time, by])
}

/// Times moved by intervals: months and days are those of the clock, the rest is exact.
fn move_rows(call: &Call<'_>) -> Result<ColumnarValue> {
    let back = call.params.ends_with("subtract");
    let strict = !call.params.starts_with("try_");
    let zone = match call.returns {
        DataType::Timestamp(_, Some(_)) => call.zone,
        _ => Zone::Utc,
    };
    call.over_arrays(|a| {
        let times = a[0].as_primitive::<TimestampMicrosecondType>();
        let row = |i: usize| -> Result<Option<i64>> {
            if times.is_null(i) || a[1].is_null(i) {
                return Ok(None);
            }
            let by = parts_of(&a[1], i).and_then(|by| if back { negated(by) } else { Some(by) });
            let moved = by.and_then(|(months, micros)| {
                let time = match months {
                    0 => times.value(i),
                    months => add_months(times.value(i), months, zone)?,
                };
                add_day_time(time, micros, zone)
            });
            if moved.is_none() && strict {
                let message = format!("`{}`: the time is beyond the last timestamp", call.params);
                return Err(SparkError::external("DATETIME_OVERFLOW", message));
            }
            Ok(moved)
        };
        let out: PrimitiveArray<TimestampMicrosecondType> =
            (0..times.len()).map(row).collect::<Result<_>>()?;
        Ok(Arc::new(out.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

/// Months and microseconds of the interval at `i`.
fn parts_of(intervals: &ArrayRef, i: usize) -> Option<(i32, i64)> {
    if let Some(micros) = intervals.as_primitive_opt::<DurationMicrosecondType>() {
        return Some((0, micros.value(i)));
    }
    if let Some(months) = intervals.as_primitive_opt::<IntervalYearMonthType>() {
        return Some((months.value(i), 0));
    }
    let calendar = intervals
        .as_primitive_opt::<IntervalMonthDayNanoType>()?
        .value(i);
    let days = i64::from(calendar.days).checked_mul(DAY_MICROS)?;
    let micros = days.checked_add(calendar.nanoseconds / 1000)?;
    Some((calendar.months, micros))
}

fn negated((months, micros): (i32, i64)) -> Option<(i32, i64)> {
    Some((months.checked_neg()?, micros.checked_neg()?))
}

/// `end - start`: what lies between two readings of the clock, as a day-time interval.
fn difference(
    l: Expr,
    lt: &DataType,
    r: Expr,
    rt: &DataType,
    schema: &dyn ExprSchema,
) -> Result<Expr> {
    let local = |e: Expr, t: &DataType| match t {
        t if is_text(t) => cast_to(cast_from(e, t, &timestamp())?, &timestamp_ntz(), schema),
        t => cast_from(e, t, &timestamp_ntz()),
    };
    let args = vec![local(l, lt)?, local(r, rt)?];
    let apart = time_call(Operator::Minus, day_time(), args, true);
    Ok(match (lt, rt) {
        (DataType::Date32, DataType::Date32) => Kernel::with_interval(apart, "DAY"),
        _ => apart,
    })
}

/// A date and a number of days later or earlier.
fn days(op: Operator, date: Expr, n: Expr, ansi: bool) -> Expr {
    let name = match (op, ansi) {
        (Operator::Minus, true) => "date_sub",
        (Operator::Minus, false) => "try_date_sub",
        (_, true) => "date_add",
        (_, false) => "try_date_add",
    };
    let code = |call: &Call<'_>| {
        let step = match call.params.ends_with("sub") {
            true => i32::checked_sub,
            false => i32::checked_add,
        };
        let strict = !call.params.starts_with("try_");
        call.over_arrays(|a| {
            let (dates, days) = (
                a[0].as_primitive::<Date32Type>(),
                a[1].as_primitive::<Int32Type>(),
            );
            let rows = dates
                .iter()
                .zip(days)
                .map(|(date, days)| match (date, days) {
                    (Some(date), Some(days)) => match step(date, days) {
                        None if strict => Err(SparkError::external(
                            "DATETIME_OVERFLOW",
                            format!("`{}`: {days} days lead beyond the last date", call.params),
                        )),
                        moved => Ok(moved),
                    },
                    _ => Ok(None),
                });
            let out: PrimitiveArray<Date32Type> = rows.collect::<Result<_>>()?;
            Ok(Arc::new(out) as ArrayRef)
        })
    };
    Kernel::call(name, DataType::Date32, name, code, vec![date, n])
}

/// An interval times or divided by a number, rounded half up.
fn scale(
    (interval, it): (Expr, &DataType),
    (by, bt): (Expr, &DataType),
    divide: bool,
    ansi: bool,
) -> Result<Expr> {
    let name = match (divide, ansi) {
        (true, true) => "divide_interval",
        (true, false) => "try_divide_interval",
        (false, true) => "multiply_interval",
        (false, false) => "try_multiply_interval",
    };
    let exact = !divide && is_integer(bt) && *it == day_time();
    let to = if exact {
        DataType::Int64
    } else {
        DataType::Float64
    };
    let args = vec![interval, cast_from(by, bt, &to)?];
    let code: KernelFn = match exact {
        true => multiply_exact,
        false => scaled,
    };
    Ok(Kernel::call(name, it.clone(), name, code, args))
}

fn too_long(call: &Call<'_>, n: impl std::fmt::Display) -> DataFusionError {
    let message = format!("`{}`: the interval scaled by {n} is too long", call.params);
    SparkError::external("INTERVAL_ARITHMETIC_OVERFLOW", message)
}

fn multiply_exact(call: &Call<'_>) -> Result<ColumnarValue> {
    let strict = !call.params.starts_with("try_");
    call.over_arrays(|a| {
        let (i, n) = (
            a[0].as_primitive::<DurationMicrosecondType>(),
            a[1].as_primitive::<Int64Type>(),
        );
        let rows = i.iter().zip(n).map(|(x, y)| match (x, y) {
            (Some(x), Some(y)) => match x.checked_mul(y) {
                None if strict => Err(too_long(call, y)),
                product => Ok(product),
            },
            _ => Ok(None),
        });
        let out: PrimitiveArray<DurationMicrosecondType> = rows.collect::<Result<_>>()?;
        Ok(Arc::new(out) as ArrayRef)
    })
}

fn scaled(call: &Call<'_>) -> Result<ColumnarValue> {
    let strict = !call.params.starts_with("try_");
    let divide = call.params.ends_with("divide_interval");
    let one = |x: f64, y: f64, limit: f64| -> Result<Option<f64>> {
        if divide && y == 0.0 {
            let message = "an interval is divided by zero; use try_divide for NULL";
            return match strict {
                true => Err(SparkError::external("INTERVAL_DIVIDED_BY_ZERO", message)),
                false => Ok(None),
            };
        }
        let value = if divide { x / y } else { x * y };
        let rounded = value.signum() * (value.abs() + 0.5).floor();
        match rounded.is_finite() && rounded.abs() < limit {
            true => Ok(Some(rounded)),
            false if strict => Err(too_long(call, y)),
            false => Ok(None),
        }
    };
    call.over_arrays(|a| {
        let by = a[1].as_primitive::<Float64Type>();
        if let Some(i) = a[0].as_primitive_opt::<DurationMicrosecondType>() {
            let rows = i.iter().zip(by).map(|(x, y)| match (x, y) {
                (Some(x), Some(y)) => Ok(one(x as f64, y, 9.2e18)?.map(|v| v as i64)),
                _ => Ok(None),
            });
            let out: PrimitiveArray<DurationMicrosecondType> = rows.collect::<Result<_>>()?;
            return Ok(Arc::new(out) as ArrayRef);
        }
        let months = a[0].as_primitive::<IntervalYearMonthType>().iter();
        let rows = months.zip(by).map(|(x, y)| match (x, y) {
            (Some(x), Some(y)) => Ok(one(x.into(), y, 2_147_483_648.0)?.map(|v| v as i32)),
            _ => Ok(None),
        });
        let out: PrimitiveArray<IntervalYearMonthType> = rows.collect::<Result<_>>()?;
        Ok(Arc::new(out) as ArrayRef)
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
pub fn parse_interval(text: &str) -> Option<(i32, i32, i64)> {
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
