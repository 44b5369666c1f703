//! Fields of dates, timestamps and intervals, and casts by name.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::compute::{DatePart, date_part};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Int32Type, Int64Type,
    IntervalUnit, IntervalYearMonthType, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::super::cast::{How, convert};
use super::super::coerce::{timestamp, timestamp_ntz};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::text::date_of;
use super::super::{Args, Resolver};

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
    ("date", |a| cast(a, DataType::Date32)),
    ("timestamp", |a| cast(a, timestamp())),
    ("string", |a| cast(a, DataType::Utf8)),
    ("binary", |a| cast(a, DataType::Binary)),
    ("boolean", |a| cast(a, DataType::Boolean)),
    ("tinyint", |a| cast(a, DataType::Int8)),
    ("smallint", |a| cast(a, DataType::Int16)),
    ("int", |a| cast(a, DataType::Int32)),
    ("bigint", |a| cast(a, DataType::Int64)),
    ("float", |a| cast(a, DataType::Float32)),
    ("double", |a| cast(a, DataType::Float64)),
    ("decimal", |a| cast(a, DataType::Decimal128(10, 0))),
    ("monthname", |a| named(a, "monthname", "%b")),
    ("dayname", |a| named(a, "dayname", "%a")),
];

/// `int(x)` and its kin: casts that are written as calls.
fn cast(args: Args<'_>, to: DataType) -> Result<Expr> {
    args.expect(1, 1)?;
    super::super::cast::cast_expr(args.exprs[0].clone(), &args.types[0], &to, false)
}

/// The name of the month or of the day, in three letters.
fn named(args: Args<'_>, name: &'static str, format: &'static str) -> Result<Expr> {
    args.expect(1, 1)?;
    let date = vec![args.cast(0, &DataType::Date32)?];
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let dates = a[0].as_primitive::<Date32Type>().iter();
            let names = dates.map(|d| Some(date_of(d?)?.format(c.params).to_string()));
            Ok(Arc::new(names.collect::<StringArray>()) as ArrayRef)
        })
    };
    Ok(Kernel::call(name, DataType::Utf8, format, code, date))
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
        "qtr" => "quarter",
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
        DataType::Duration(_)
        | DataType::Interval(IntervalUnit::YearMonth)
        | DataType::Date32
        | DataType::Timestamp(_, _) => args.exprs[at].clone(),
        _ => args.cast(at, &timestamp())?,
    };
    let small = match &args.types[at] {
        DataType::Duration(_) => matches!(unit, "hour" | "minute" | "second"),
        DataType::Interval(_) => unit == "month",
        _ => false,
    };
    let has = match &args.types[at] {
        DataType::Duration(_) => matches!(unit, "day" | "hour" | "minute" | "second" | "seconds"),
        DataType::Interval(_) => matches!(unit, "year" | "month"),
        _ => true,
    };
    if !has {
        let message = format!("cannot extract '{unit}' from `{}`", args.exprs[at]);
        return Err(SparkError::external("INVALID_EXTRACT_FIELD", message));
    }
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
        if let Some(months) = a[0].as_primitive_opt::<IntervalYearMonthType>() {
            let part: PrimitiveArray<Int32Type> = match call.params {
                "year" => months.unary(|m| m / 12),
                _ => months.unary(|m| m % 12),
            };
            return Ok(arrow::compute::cast(&part, call.returns)?);
        }
        if call.params == "seconds" {
            let t = convert(&a[0], &timestamp_ntz(), How::strict(call.zone))?;
            let t = t.as_primitive::<TimestampMicrosecondType>();
            let out: PrimitiveArray<Decimal128Type> =
                t.unary(|v| i128::from(v.rem_euclid(60_000_000)));
            return Ok(Arc::new(out.with_data_type(call.returns.clone())) as _);
        }
        let plain = match a[0].data_type() {
            DataType::Date32 => Arc::clone(&a[0]),
            _ => convert(&a[0], &timestamp_ntz(), How::strict(call.zone))?,
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
