//! Dates and timestamps in the session's zone, which is UTC.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::{DatePart, date_part};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, Operator, lit};

use super::coerce::{is_float, is_integer, is_text, timestamp, timestamp_ntz};
use super::datetime_format::{chrono_format, parse_time};
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::{Args, Resolver, operators};

/// The family of dates and times.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("year", |a| part(a, "year")),
    ("quarter", |a| part(a, "quarter")),
    ("month", |a| part(a, "month")),
    ("day", |a| part(a, "day")),
    ("dayofmonth", |a| part(a, "day")),
    ("dayofweek", |a| part(a, "dayofweek")),
    ("weekday", |a| part(a, "weekday")),
    ("dayofyear", |a| part(a, "doy")),
    ("weekofyear", |a| part(a, "week")),
    ("hour", |a| part(a, "hour")),
    ("minute", |a| part(a, "minute")),
    ("second", |a| part(a, "second")),
    ("extract", extract),
    ("date_part", extract),
    ("datepart", extract),
    ("to_timestamp", |a| convert(a, &timestamp(), false)),
    ("to_timestamp_ltz", |a| convert(a, &timestamp(), false)),
    ("to_timestamp_ntz", |a| convert(a, &timestamp_ntz(), false)),
    ("try_to_timestamp", |a| convert(a, &timestamp(), true)),
    ("to_date", |a| convert(a, &DataType::Date32, false)),
    ("date", |a| convert(a, &DataType::Date32, false)),
    ("timestamp", |a| convert(a, &timestamp(), false)),
    ("string", |a| a.string(0)),
    ("int", |a| a.cast(0, &DataType::Int32)),
    ("bigint", |a| a.cast(0, &DataType::Int64)),
    ("double", |a| a.cast(0, &DataType::Float64)),
    ("boolean", |a| a.cast(0, &DataType::Boolean)),
    ("timestamp_seconds", |a| a.cast(0, &timestamp())),
    ("timestamp_millis", |a| from_units(a, 1000)),
    ("timestamp_micros", |a| from_units(a, 1)),
    ("unix_seconds", |a| to_units(a, 1_000_000)),
    ("unix_millis", |a| to_units(a, 1000)),
    ("unix_micros", |a| to_units(a, 1)),
    ("unix_date", |a| {
        let d = a.cast(0, &DataType::Date32)?;
        Ok(Kernel::call(
            "unix_date",
            DataType::Int32,
            "",
            super::cast::relabel,
            vec![d],
        ))
    }),
    ("datediff", |a| day_difference(a)),
    ("date_diff", |a| day_difference(a)),
    ("date_add", |a| days(a, Operator::Plus)),
    ("dateadd", |a| days(a, Operator::Plus)),
    ("date_sub", |a| days(a, Operator::Minus)),
    ("last_day", |a| {
        a.library_with("last_day", vec![a.cast(0, &DataType::Date32)?])
    }),
    ("date_trunc", |a| {
        a.expect(2, 2)?;
        let unit = lit(a.constant_text(0)?.to_lowercase());
        a.library_with("date_trunc", vec![unit, a.cast(1, &timestamp())?])
    }),
    ("current_timezone", |_| Ok(lit("UTC"))),
    ("make_ym_interval", |a| {
        a.expect(1, 2)?;
        let months = if a.exprs.len() > 1 {
            a.cast(1, &DataType::Int32)?
        } else {
            lit(0i32)
        };
        let t = DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth);
        Ok(Kernel::call(
            "make_ym_interval",
            t,
            "",
            year_month,
            vec![a.cast(0, &DataType::Int32)?, months],
        ))
    }),
];

fn year_month(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (y, m) = (
            a[0].as_primitive::<Int32Type>(),
            a[1].as_primitive::<Int32Type>(),
        );
        let out: PrimitiveArray<arrow::datatypes::IntervalYearMonthType> =
            arrow::compute::kernels::arity::try_binary(y, m, |y, m| {
                y.checked_mul(12)
                    .and_then(|v| v.checked_add(m))
                    .ok_or_else(|| {
                        arrow::error::ArrowError::ArithmeticOverflow(format!(
                            "{y} years {m} months"
                        ))
                    })
            })?;
        Ok(Arc::new(out) as _)
    })
}

/// One field of a date, timestamp or interval.
fn part(args: Args<'_>, unit: &'static str) -> Result<Expr> {
    args.expect(1, 1)?;
    field(&args, unit, 0)
}

/// `extract(UNIT FROM x)` and `date_part('unit', x)`.
fn extract(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let unit = args.constant_text(0)?.to_lowercase();
    let unit = match unit.as_str() {
        "y" | "years" | "yr" | "yrs" => "year",
        "mon" | "mons" | "months" => "month",
        "w" | "weeks" => "week",
        "d" | "days" => "day",
        "h" | "hours" | "hr" | "hrs" => "hour",
        "m" | "min" | "mins" | "minutes" => "minute",
        "s" | "sec" | "secs" | "seconds" | "second" => "seconds",
        "dow" | "dayofweek" => "dayofweek",
        "dow_iso" | "dayofweek_iso" => "isodow",
        other => other,
    };
    const UNITS: [&str; 13] = [
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "seconds",
        "dayofweek",
        "isodow",
        "doy",
        "weekday",
        "yearofweek",
    ];
    let Some(unit) = UNITS.iter().find(|u| **u == unit) else {
        return Err(SparkError::external(
            "INVALID_EXTRACT_FIELD",
            format!("cannot extract '{unit}'; allowed are {}", UNITS.join(", ")),
        ));
    };
    field(&args, unit, 1)
}

fn field(args: &Args<'_>, unit: &'static str, at: usize) -> Result<Expr> {
    let source = match &args.types[at] {
        DataType::Duration(_) | DataType::Date32 | DataType::Timestamp(_, _) => {
            args.exprs[at].clone()
        }
        _ => args.cast(at, &timestamp())?,
    };
    let small = matches!(args.types[at], DataType::Duration(_))
        && matches!(unit, "hour" | "minute" | "second");
    let returns = match unit {
        "seconds" => DataType::Decimal128(8, 6),
        _ if small => DataType::Int8,
        _ => DataType::Int32,
    };
    Ok(Kernel::call(
        "date_part",
        returns,
        unit,
        take_part,
        vec![source],
    ))
}

fn take_part(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        if let Some(d) = a[0].as_primitive_opt::<DurationMicrosecondType>() {
            return duration_part(d, call.params, call.returns);
        }
        if call.params == "seconds" {
            let t = super::cast::convert(&a[0], &timestamp_ntz(), true)?;
            let t = t.as_primitive::<TimestampMicrosecondType>();
            let out: PrimitiveArray<Decimal128Type> =
                t.unary(|v| i128::from(v.rem_euclid(60_000_000)));
            return Ok(Arc::new(out.with_data_type(call.returns.clone())) as _);
        }
        let plain = match a[0].data_type() {
            DataType::Date32 => Arc::clone(&a[0]),
            _ => super::cast::convert(&a[0], &timestamp_ntz(), true)?,
        };
        let part = match call.params {
            "year" => DatePart::Year,
            "quarter" => DatePart::Quarter,
            "month" => DatePart::Month,
            "week" => DatePart::WeekISO,
            "yearofweek" => DatePart::YearISO,
            "day" => DatePart::Day,
            "doy" => DatePart::DayOfYear,
            "dayofweek" => DatePart::DayOfWeekSunday0,
            "weekday" | "isodow" => DatePart::DayOfWeekMonday0,
            "hour" => DatePart::Hour,
            "minute" => DatePart::Minute,
            _ => DatePart::Second,
        };
        let shift = i32::from(matches!(call.params, "dayofweek" | "isodow"));
        let out = date_part(plain.as_ref(), part)?;
        Ok(Arc::new(
            out.as_primitive::<Int32Type>()
                .unary::<_, Int32Type>(|v| v + shift),
        ) as _)
    })
}

fn duration_part(
    d: &PrimitiveArray<DurationMicrosecondType>,
    unit: &str,
    t: &DataType,
) -> Result<ArrayRef> {
    if unit == "seconds" {
        let out: PrimitiveArray<Decimal128Type> = d.unary(|v| i128::from(v % 60_000_000));
        return Ok(Arc::new(out.with_data_type(t.clone())));
    }
    let (size, modulus) = match unit {
        "day" => (86_400_000_000, i64::MAX),
        "hour" => (3_600_000_000, 24),
        "minute" => (60_000_000, 60),
        _ => (1_000_000, 60),
    };
    let out: PrimitiveArray<Int64Type> = d.unary(|v| v / size % modulus);
    Ok(arrow::compute::cast(&out, t)?)
}

/// `to_timestamp(x[, format])` and its kin. Without a format it is a cast.
fn convert(args: Args<'_>, to: &DataType, lenient: bool) -> Result<Expr> {
    args.expect(1, 2)?;
    if args.exprs.len() == 2 {
        let format = args.constant_text(1)?;
        let format = chrono_format(&format)?;
        let name = if lenient {
            "try_parse_time"
        } else {
            "parse_time"
        };
        return Ok(Kernel::call(
            name,
            to.clone(),
            format,
            parse_time,
            vec![args.string(0)?],
        ));
    }
    if is_text(&args.types[0]) || !lenient {
        let from = args.types[0].clone();
        return super::cast::cast_expr(args.exprs[0].clone(), &from, to, lenient);
    }
    args.cast(0, to)
}

/// A count of units since 1970 as TIMESTAMP.
fn from_units(args: Args<'_>, micros: i64) -> Result<Expr> {
    args.expect(1, 1)?;
    if !is_integer(&args.types[0]) && !is_float(&args.types[0]) {
        return args.refuse();
    }
    let n = args.cast(0, &DataType::Int64)?;
    Ok(Kernel::call(
        "timestamp_of",
        timestamp(),
        micros.to_string(),
        |c| {
            let unit: i64 = c.params.parse().unwrap_or(1);
            c.over_arrays(|a| {
                let out: PrimitiveArray<TimestampMicrosecondType> =
                    a[0].as_primitive::<Int64Type>().try_unary(|v| {
                        v.checked_mul(unit).ok_or_else(|| {
                            SparkError::external(
                                "ARITHMETIC_OVERFLOW",
                                format!("{v} is beyond the last timestamp"),
                            )
                        })
                    })?;
                Ok(Arc::new(out.with_data_type(c.returns.clone())) as _)
            })
        },
        vec![n],
    ))
}

/// A TIMESTAMP as a count of units since 1970, rounded down.
fn to_units(args: Args<'_>, micros: i64) -> Result<Expr> {
    args.expect(1, 1)?;
    let t = args.cast(0, &timestamp())?;
    Ok(Kernel::call(
        "unix_units",
        DataType::Int64,
        micros.to_string(),
        units,
        vec![t],
    ))
}

/// `params` is the unit in microseconds.
fn units(call: &Call<'_>) -> Result<ColumnarValue> {
    let unit: i64 = call.params.parse().unwrap_or(1);
    call.over_arrays(|a| {
        let t = a[0].as_primitive::<TimestampMicrosecondType>();
        let out: PrimitiveArray<Int64Type> = t.unary(|v| v.div_euclid(unit));
        Ok(Arc::new(out) as _)
    })
}

fn day_difference(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let dates = args.cast_all(&[DataType::Date32, DataType::Date32])?;
    Ok(Kernel::call(
        "datediff",
        DataType::Int32,
        "",
        |c| {
            c.over_arrays(|a| {
                let (x, y) = (
                    a[0].as_primitive::<Date32Type>(),
                    a[1].as_primitive::<Date32Type>(),
                );
                let out: PrimitiveArray<Int32Type> =
                    arrow::compute::binary(x, y, i32::wrapping_sub)?;
                Ok(Arc::new(out) as _)
            })
        },
        dates,
    ))
}

fn days(args: Args<'_>, op: Operator) -> Result<Expr> {
    args.expect(2, 2)?;
    let date = args.cast(0, &DataType::Date32)?;
    let n = match &args.exprs[1] {
        Expr::Literal(ScalarValue::DurationMicrosecond(_), _) => args.exprs[1].clone(),
        _ => args.cast(1, &DataType::Int32)?,
    };
    operators::binary(op, date, n, args.schema)
}
