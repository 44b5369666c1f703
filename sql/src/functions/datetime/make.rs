//! Dates, timestamps and intervals from numbers, and the numbers behind them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, IntervalUnit,
    IntervalYearMonthType, TimestampMicrosecondType,
};
use chrono::{NaiveDate, TimeDelta};
use datafusion::common::Result;
use datafusion::logical_expr::{Cast, ColumnarValue, Expr, lit};
use weir_connectors::file::decode::parse::Zone;

use super::super::cast::relabel;
use super::super::coerce::{is_float, is_integer, timestamp, timestamp_ntz};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel};
use super::super::{Args, Resolver};
use super::{days_of, moment};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("make_date", make_date),
    ("make_timestamp", |a| {
        make(a, "make_timestamp", &timestamp())
    }),
    ("make_timestamp_ltz", |a| {
        make(a, "make_timestamp_ltz", &timestamp())
    }),
    ("make_timestamp_ntz", |a| {
        make(a, "make_timestamp_ntz", &timestamp_ntz())
    }),
    ("try_make_timestamp", |a| {
        make(a, "try_make_timestamp", &timestamp())
    }),
    ("try_make_timestamp_ltz", |a| {
        make(a, "try_make_timestamp_ltz", &timestamp())
    }),
    ("try_make_timestamp_ntz", |a| {
        make(a, "try_make_timestamp_ntz", &timestamp_ntz())
    }),
    ("make_ym_interval", make_ym_interval),
    ("timestamp_seconds", |a| {
        a.expect(1, 1)?;
        a.cast(0, &timestamp())
    }),
    ("timestamp_millis", |a| from_units(a, 1000)),
    ("timestamp_micros", |a| from_units(a, 1)),
    ("unix_seconds", |a| to_units(a, 1_000_000)),
    ("unix_millis", |a| to_units(a, 1000)),
    ("unix_micros", |a| to_units(a, 1)),
    ("unix_date", |a| {
        a.expect(1, 1)?;
        let days = vec![a.cast(0, &DataType::Date32)?];
        Ok(Kernel::call(
            "unix_date",
            DataType::Int32,
            "",
            relabel,
            days,
        ))
    }),
    ("date_from_unix_date", |a| {
        a.expect(1, 1)?;
        let days = vec![a.cast(0, &DataType::Int32)?];
        let date = DataType::Date32;
        Ok(Kernel::call("date_from_unix_date", date, "", relabel, days))
    }),
    ("now", now),
    ("current_timestamp", now),
    ("localtimestamp", |a| {
        let now = a.call("now", vec![])?;
        super::super::cast::cast_expr(now, &timestamp(), &timestamp_ntz(), false)
    }),
    ("current_date", today),
    ("curdate", today),
];

/// The processing time of the epoch; in a batch query the time at which it was started.
fn now(args: Args<'_>) -> Result<Expr> {
    args.expect(0, 0)?;
    let now = args.library_with("now", vec![])?;
    Ok(Expr::Cast(Cast::new(Box::new(now), timestamp())))
}

fn today(args: Args<'_>) -> Result<Expr> {
    args.expect(0, 0)?;
    let now = args.call("now", vec![])?;
    super::super::cast::cast_expr(now, &timestamp(), &DataType::Date32, false)
}

fn out_of_bounds(what: String) -> datafusion::error::DataFusionError {
    SparkError::external("DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", what)
}

fn make_date(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 3)?;
    let parts = args.cast_all(&[DataType::Int32, DataType::Int32, DataType::Int32])?;
    let code = |call: &Call<'_>| {
        call.over_arrays(|a| {
            let parts = [0, 1, 2].map(|i| a[i].as_primitive::<Int32Type>());
            let row = |i: usize| {
                if parts.iter().any(|p| p.is_null(i)) {
                    return Ok(None);
                }
                let [y, m, d] = parts.map(|p| p.value(i));
                match date(y, m, d) {
                    Some(date) => Ok(Some(days_of(date))),
                    None => Err(out_of_bounds(format!(
                        "make_date: there is no day {y}-{m}-{d}"
                    ))),
                }
            };
            let days: PrimitiveArray<Date32Type> =
                (0..a[0].len()).map(row).collect::<Result<_>>()?;
            Ok(Arc::new(days) as ArrayRef)
        })
    };
    Ok(Kernel::call("make_date", DataType::Date32, "", code, parts))
}

fn date(year: i32, month: i32, day: i32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year, month.try_into().ok()?, day.try_into().ok()?)
}

/// `make_timestamp(year, month, day, hour, minute, second[, zone])` and its kin; seconds have a fraction.
fn make(args: Args<'_>, name: &'static str, to: &DataType) -> Result<Expr> {
    args.expect(6, 7)?;
    let int = || DataType::Int32;
    let seconds = DataType::Decimal128(16, 6);
    let mut parts = args.cast_all(&[int(), int(), int(), int(), int(), seconds])?;
    if args.exprs.len() == 7 {
        parts.push(args.string(6)?);
    }
    Ok(Kernel::call(name, to.clone(), name, made, parts))
}

fn made(call: &Call<'_>) -> Result<ColumnarValue> {
    let lenient = call.params.starts_with("try_");
    let zoned = *call.returns == timestamp();
    call.over_arrays(|a| {
        let parts = [0, 1, 2, 3, 4].map(|i| a[i].as_primitive::<Int32Type>());
        let seconds = a[5].as_primitive::<Decimal128Type>();
        let row = |i: usize| -> Result<Option<i64>> {
            if a.iter().any(|column| column.is_null(i)) {
                return Ok(None);
            }
            let zone = match a.get(6) {
                Some(names) => Zone::from_name(names.as_string::<i32>().value(i))
                    .map_err(|e| SparkError::external("INVALID_TIMEZONE", e.to_string())),
                None => Ok(call.zone),
            };
            let parts = parts.map(|p| p.value(i));
            let found = zone.and_then(|zone| {
                let zone = if zoned { zone } else { Zone::Utc };
                made_of(parts, seconds.value(i), zone).ok_or_else(|| {
                    let [y, mo, d, h, mi] = parts;
                    let s = super::super::text::decimal_text(seconds.value(i), 6);
                    out_of_bounds(format!(
                        "{}: there is no time {y}-{mo}-{d} {h}:{mi}:{s}; use try_make_timestamp for NULL",
                        call.params
                    ))
                })
            });
            match found {
                Ok(micros) => Ok(Some(micros)),
                Err(_) if lenient => Ok(None),
                Err(e) => Err(e),
            }
        };
        let times: PrimitiveArray<TimestampMicrosecondType> =
            (0..a[0].len()).map(row).collect::<Result<_>>()?;
        Ok(Arc::new(times.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

/// Microseconds since 1970 of year, month, day, hour, minute and microseconds of the minute; 60 whole seconds are the next minute.
fn made_of([y, mo, d, h, mi]: [i32; 5], micros: i128, zone: Zone) -> Option<i64> {
    let (second, rest) = (micros / 1_000_000, micros % 1_000_000);
    if micros < 0 || second > 60 || (second == 60 && rest != 0) {
        return None;
    }
    let clock = date(y, mo, d)?.and_hms_opt(h.try_into().ok()?, mi.try_into().ok()?, 0)?;
    let clock = clock.checked_add_signed(TimeDelta::microseconds(micros.try_into().ok()?))?;
    moment(clock, zone)
}

/// `make_ym_interval([years[, months]])`.
fn make_ym_interval(args: Args<'_>) -> Result<Expr> {
    args.expect(0, 2)?;
    let part = |i: usize| match args.exprs.len() > i {
        true => args.cast(i, &DataType::Int32),
        false => Ok(lit(0i32)),
    };
    let parts = vec![part(0)?, part(1)?];
    let t = DataType::Interval(IntervalUnit::YearMonth);
    let code = |call: &Call<'_>| {
        call.over_arrays(|a| {
            let (years, months) = (
                a[0].as_primitive::<Int32Type>(),
                a[1].as_primitive::<Int32Type>(),
            );
            let rows = years.iter().zip(months).map(|(y, m)| match (y, m) {
                (Some(y), Some(m)) => match y.checked_mul(12).and_then(|v| v.checked_add(m)) {
                    Some(months) => Ok(Some(months)),
                    None => Err(SparkError::external(
                        "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION",
                        format!("make_ym_interval: {y} years and {m} months are too long"),
                    )),
                },
                _ => Ok(None),
            });
            let out: PrimitiveArray<IntervalYearMonthType> = rows.collect::<Result<_>>()?;
            Ok(Arc::new(out) as ArrayRef)
        })
    };
    Ok(Kernel::call("make_ym_interval", t, "", code, parts))
}

/// A count of units of so many microseconds since 1970 as TIMESTAMP.
fn from_units(args: Args<'_>, micros: i64) -> Result<Expr> {
    args.expect(1, 1)?;
    if !is_integer(&args.types[0]) && !is_float(&args.types[0]) && args.types[0] != DataType::Null {
        return args.refuse();
    }
    let n = args.cast(0, &DataType::Int64)?;
    let code = |call: &Call<'_>| {
        let unit: i64 = call.params.parse().unwrap_or(1);
        call.over_arrays(|a| {
            let counts = a[0].as_primitive::<Int64Type>();
            let times: PrimitiveArray<TimestampMicrosecondType> = counts.try_unary(|v| {
                v.checked_mul(unit).ok_or_else(|| {
                    let message = format!("{v} is beyond the last timestamp");
                    SparkError::external("ARITHMETIC_OVERFLOW", message)
                })
            })?;
            Ok(Arc::new(times.with_data_type(call.returns.clone())) as ArrayRef)
        })
    };
    let params = micros.to_string();
    Ok(Kernel::call(
        "timestamp_of",
        timestamp(),
        params,
        code,
        vec![n],
    ))
}

/// A TIMESTAMP as a count of units of so many microseconds since 1970, rounded down.
fn to_units(args: Args<'_>, micros: i64) -> Result<Expr> {
    args.expect(1, 1)?;
    let t = args.cast(0, &timestamp())?;
    let code = |call: &Call<'_>| {
        let unit: i64 = call.params.parse().unwrap_or(1);
        call.over_arrays(|a| {
            let times = a[0].as_primitive::<TimestampMicrosecondType>();
            let counts: PrimitiveArray<Int64Type> = times.unary(|v| v.div_euclid(unit));
            Ok(Arc::new(counts) as ArrayRef)
        })
    };
    let params = micros.to_string();
    Ok(Kernel::call(
        "unix_units",
        DataType::Int64,
        params,
        code,
        vec![t],
    ))
}
