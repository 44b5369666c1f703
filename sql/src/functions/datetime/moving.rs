//! Dates and times moved, cut to a unit, and their distances.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, Operator, lit};
use datafusion::scalar::ScalarValue;
use weir_connectors::file::decode::parse::Zone;

use super::super::coerce::timestamp;
use super::super::error::SparkError;
use super::super::kernel::{Kernel, KernelFn};
use super::super::text::date_of;
use super::super::{Args, Resolver, operators};
use super::{Shift, add_day_time, add_months, clock, days_of, moment, time, zone_of};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("date_add", |a| days(a, Operator::Plus)),
    ("date_sub", |a| days(a, Operator::Minus)),
    ("dateadd", |a| match a.exprs.len() {
        3 => timestamp_add(a),
        _ => days(a, Operator::Plus),
    }),
    ("timestampadd", timestamp_add),
    ("date_diff", |a| match a.exprs.len() {
        3 => timestamp_diff(a),
        _ => day_difference(a),
    }),
    ("datediff", |a| match a.exprs.len() {
        3 => timestamp_diff(a),
        _ => day_difference(a),
    }),
    ("timestampdiff", timestamp_diff),
    ("add_months", |a| {
        dates(a, "add_months", DataType::Int32, |call| {
            call.over_arrays(|a| {
                let months = a[1].as_primitive::<Int32Type>();
                each_date(&a[0], |i, date| match months.is_valid(i) {
                    true => date
                        .by_months(months.value(i))
                        .ok_or_else(|| overflow("add_months"))
                        .map(Some),
                    false => Ok(None),
                })
            })
        })
    }),
    ("next_day", |a| {
        dates(a, "next_day", DataType::Utf8, |call| {
            call.over_arrays(|a| {
                let names = a[1].as_string::<i32>();
                each_date(&a[0], |i, date| match names.is_valid(i) {
                    true => next_day(date, names.value(i)).map(Some),
                    false => Ok(None),
                })
            })
        })
    }),
    ("last_day", |a| {
        a.expect(1, 1)?;
        let date = vec![a.cast(0, &DataType::Date32)?];
        let code: KernelFn =
            |c| c.over_arrays(|a| each_date(&a[0], |_, date| Ok(Some(last_of_month(date)))));
        Ok(Kernel::call("last_day", DataType::Date32, "", code, date))
    }),
    ("trunc", |a| {
        dates(a, "trunc", DataType::Utf8, |call| {
            call.over_arrays(|a| {
                let units = a[1].as_string::<i32>();
                each_date(&a[0], |i, date| {
                    let unit = units.is_valid(i).then(|| units.value(i).to_uppercase());
                    Ok(unit.and_then(|unit| cut_date(date, &unit)))
                })
            })
        })
    }),
    ("date_trunc", date_trunc),
    ("months_between", months_between),
];

fn overflow(what: &str) -> DataFusionError {
    SparkError::external(
        "DATETIME_OVERFLOW",
        format!("{what}: the result is beyond the calendar"),
    )
}

/// A function of a date and something else that gives a date.
fn dates(args: Args<'_>, name: &'static str, with: DataType, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let values = args.cast_all(&[DataType::Date32, with])?;
    Ok(Kernel::call(name, DataType::Date32, "", code, values))
}

fn each_date(
    dates: &ArrayRef,
    f: impl Fn(usize, NaiveDate) -> Result<Option<NaiveDate>>,
) -> Result<ArrayRef> {
    let rows = dates.as_primitive::<Date32Type>().iter().enumerate();
    let rows = rows.map(|(i, days)| match days.and_then(date_of) {
        Some(date) => Ok(f(i, date)?.map(days_of)),
        None => Ok(None),
    });
    let out: PrimitiveArray<Date32Type> = rows.collect::<Result<_>>()?;
    Ok(Arc::new(out))
}

/// `date_add(date, days)`, and an interval of whole days in place of the number.
fn days(args: Args<'_>, op: Operator) -> Result<Expr> {
    args.expect(2, 2)?;
    let date = args.cast(0, &DataType::Date32)?;
    let n = match &args.exprs[1] {
        Expr::Literal(ScalarValue::DurationMicrosecond(_), _) => args.exprs[1].clone(),
        _ => args.cast(1, &DataType::Int32)?,
    };
    operators::binary(op, date, n, args.schema)
}

fn day_difference(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let dates = args.cast_all(&[DataType::Date32, DataType::Date32])?;
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let (x, y) = (
                a[0].as_primitive::<Date32Type>(),
                a[1].as_primitive::<Date32Type>(),
            );
            let out: PrimitiveArray<Int32Type> = arrow::compute::binary(x, y, i32::wrapping_sub)?;
            Ok(Arc::new(out) as ArrayRef)
        })
    };
    Ok(Kernel::call("datediff", DataType::Int32, "", code, dates))
}

fn last_of_month(date: NaiveDate) -> NaiveDate {
    let last = date.num_days_in_month();
    date.with_day(last.into()).unwrap_or(date)
}

fn next_day(date: NaiveDate, name: &str) -> Result<NaiveDate> {
    const NAMES: [&str; 7] = [
        "MONDAY",
        "TUESDAY",
        "WEDNESDAY",
        "THURSDAY",
        "FRIDAY",
        "SATURDAY",
        "SUNDAY",
    ];
    let wanted = name.trim().to_uppercase();
    let short = |name: &str| {
        [2, 3]
            .iter()
            .any(|n| name.get(..*n) == Some(wanted.as_str()))
    };
    let Some(day) = NAMES
        .iter()
        .position(|name| **name == *wanted || short(name))
    else {
        let message = format!("next_day: '{name}' is no day of the week, such as Monday or Mon");
        return Err(SparkError::external("ILLEGAL_DAY_OF_WEEK", message));
    };
    let today = date.weekday().num_days_from_monday() as usize;
    let ahead = (day + 6 - today) % 7 + 1;
    date.checked_add_days(Days::new(ahead as u64))
        .ok_or_else(|| overflow("next_day"))
}

/// The first day of the year, quarter, month or week; `None` for any other unit.
fn cut_date(date: NaiveDate, unit: &str) -> Option<NaiveDate> {
    match unit {
        "YEAR" | "YYYY" | "YY" => NaiveDate::from_ymd_opt(date.year(), 1, 1),
        "QUARTER" => NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1),
        "MONTH" | "MON" | "MM" => date.with_day(1),
        "WEEK" => {
            let back = date.weekday().num_days_from_monday();
            date.checked_sub_days(Days::new(back.into()))
        }
        _ => None,
    }
}

fn date_trunc(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let (at, t) = (args.cast(1, &timestamp())?, timestamp());
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let (units, times) = (
                a[0].as_string::<i32>(),
                a[1].as_primitive::<TimestampMicrosecondType>(),
            );
            let zone = zone_of(c.returns, c.zone);
            let mut last = ("", String::new());
            let rows = units.iter().zip(times).map(|(unit, time)| {
                let (unit, time) = (unit?, time?);
                if last.0 != unit {
                    last = (unit, unit.to_uppercase());
                }
                cut(time, &last.1, zone)
            });
            let out: PrimitiveArray<TimestampMicrosecondType> = rows.collect();
            Ok(Arc::new(out.with_data_type(c.returns.clone())) as ArrayRef)
        })
    };
    Ok(Kernel::call(
        "date_trunc",
        t,
        "",
        code,
        vec![args.string(0)?, at],
    ))
}

/// The beginning of the unit that a moment is in; `None` for text that is no unit.
fn cut(micros: i64, unit: &str, zone: Zone) -> Option<i64> {
    let small = match unit {
        "MICROSECOND" => return Some(micros),
        "MILLISECOND" => 1000,
        "SECOND" => 1_000_000,
        _ => 0,
    };
    if small > 0 {
        return Some(micros - micros.rem_euclid(small));
    }
    let at = clock(micros, zone)?;
    let cut = match unit {
        "MINUTE" => at.date().and_hms_opt(at.hour(), at.minute(), 0)?,
        "HOUR" => at.date().and_hms_opt(at.hour(), 0, 0)?,
        "DAY" | "DD" => at.date().and_time(NaiveTime::MIN),
        _ => cut_date(at.date(), unit)?.and_time(NaiveTime::MIN),
    };
    if matches!(unit, "MINUTE" | "HOUR") {
        // The clock may show one hour twice; the moment stays in its own.
        return Some(micros - (at - cut).num_microseconds()?);
    }
    moment(cut, zone)
}

/// `months_between(later, earlier[, rounded])`: whole months where both days are the same or the last of their months, else parts
/// of a month of 31 days.
fn months_between(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let rounded = match args.exprs.len() {
        3 => args.cast(2, &DataType::Boolean)?,
        _ => lit(true),
    };
    let values = vec![
        args.cast(0, &timestamp())?,
        args.cast(1, &timestamp())?,
        rounded,
    ];
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let times = [0, 1].map(|i| a[i].as_primitive::<TimestampMicrosecondType>());
            let rounded = a[2].as_boolean();
            let row = |i: usize| {
                if times[0].is_null(i) || times[1].is_null(i) || rounded.is_null(i) {
                    return None;
                }
                let [x, y] = times.map(|t| clock(t.value(i), c.zone));
                let months = months_apart(x?, y?);
                Some(match rounded.value(i) {
                    true => (months * 1e8).round() / 1e8,
                    false => months,
                })
            };
            let rows = (0..a[0].len()).map(row);
            Ok(Arc::new(rows.collect::<PrimitiveArray<Float64Type>>()) as ArrayRef)
        })
    };
    Ok(Kernel::call(
        "months_between",
        DataType::Float64,
        "",
        code,
        values,
    ))
}

fn months_apart(x: NaiveDateTime, y: NaiveDateTime) -> f64 {
    const MONTH_SECONDS: f64 = 31.0 * 86_400.0;
    let months = f64::from((x.year() - y.year()) * 12 + x.month() as i32 - y.month() as i32);
    let is_last = |t: NaiveDateTime| last_of_month(t.date()) == t.date();
    if x.day() == y.day() || (is_last(x) && is_last(y)) {
        return months;
    }
    let days = i64::from(x.day()) - i64::from(y.day());
    let of_day = |t: NaiveDateTime| i64::from(t.num_seconds_from_midnight());
    let seconds = days * 86_400 + of_day(x) - of_day(y);
    months + seconds as f64 / MONTH_SECONDS
}

/// Units of `timestampadd` and `timestampdiff`: months, or microseconds.
enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit_of(args: &Args<'_>) -> Result<Unit> {
    let text = args.constant_text(0)?;
    Ok(match text.to_uppercase().as_str() {
        "YEAR" => Unit::Months(12),
        "QUARTER" => Unit::Months(3),
        "MONTH" => Unit::Months(1),
        "WEEK" => Unit::Days(7),
        "DAY" | "DAYOFYEAR" => Unit::Days(1),
        "HOUR" => Unit::Micros(3_600_000_000),
        "MINUTE" => Unit::Micros(60_000_000),
        "SECOND" => Unit::Micros(1_000_000),
        "MILLISECOND" => Unit::Micros(1000),
        "MICROSECOND" => Unit::Micros(1),
        _ => {
            let message = format!(
                "{}: '{text}' is no unit; allowed are YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFYEAR, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND",
                args.name
            );
            return Err(SparkError::external(
                "INVALID_PARAMETER_VALUE.DATETIME_UNIT",
                message,
            ));
        }
    })
}

impl Unit {
    fn text(&self) -> String {
        match self {
            Self::Months(n) => format!("months {n}"),
            Self::Days(n) => format!("days {n}"),
            Self::Micros(n) => format!("micros {n}"),
        }
    }

    fn of(text: &str) -> Self {
        let (kind, n) = text.split_once(' ').unwrap_or_default();
        let n = n.parse().unwrap_or(1);
        match kind {
            "months" => Self::Months(n),
            "days" => Self::Days(n),
            _ => Self::Micros(n),
        }
    }

    fn add(&self, micros: i64, count: i64, zone: Zone) -> Option<i64> {
        match self {
            Self::Micros(n) => add_day_time(micros, n.checked_mul(count)?, zone),
            Self::Months(n) => {
                let months = i32::try_from(n.checked_mul(count)?).ok()?;
                add_months(micros, months, zone)
            }
            Self::Days(n) => {
                let days = TimeDelta::try_days(n.checked_mul(count)?)?;
                moment(clock(micros, zone)?.checked_add_signed(days)?, zone)
            }
        }
    }

    /// How many whole units lie between two moments.
    fn between(&self, from: i64, to: i64, zone: Zone) -> Option<i64> {
        match self {
            Self::Micros(n) => {
                let (from, to) = (zone.utc_to_local(from)?, zone.utc_to_local(to)?);
                Some(to.checked_sub(from)? / n)
            }
            Self::Days(n) => {
                let apart = clock(to, zone)?.signed_duration_since(clock(from, zone)?);
                Some(apart.num_days() / n)
            }
            Self::Months(n) => {
                let (from, to) = (clock(from, zone)?, clock(to, zone)?);
                let mut months = i64::from(
                    (to.year() - from.year()) * 12 + to.month() as i32 - from.month() as i32,
                );
                let rest = |t: NaiveDateTime| (t.day(), t.time());
                if months > 0 && rest(to) < rest(from) {
                    months -= 1;
                } else if months < 0 && rest(to) > rest(from) {
                    months += 1;
                }
                Some(months / n)
            }
        }
    }
}

fn timestamp_add(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 3)?;
    let unit = unit_of(&args)?;
    let (at, t) = time(&args, 2)?;
    let count = args.cast(1, &DataType::Int64)?;
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let (unit, zone) = (Unit::of(c.params), zone_of(c.returns, c.zone));
            let times = a[0].as_primitive::<TimestampMicrosecondType>();
            let counts = a[1].as_primitive::<Int64Type>();
            let rows = times
                .iter()
                .zip(counts)
                .map(|(time, count)| match (time, count) {
                    (Some(time), Some(count)) => unit
                        .add(time, count, zone)
                        .ok_or_else(|| overflow("timestampadd"))
                        .map(Some),
                    _ => Ok(None),
                });
            let out: PrimitiveArray<TimestampMicrosecondType> = rows.collect::<Result<_>>()?;
            Ok(Arc::new(out.with_data_type(c.returns.clone())) as ArrayRef)
        })
    };
    Ok(Kernel::call(
        "timestampadd",
        t,
        unit.text(),
        code,
        vec![at, count],
    ))
}

fn timestamp_diff(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 3)?;
    let unit = unit_of(&args)?;
    let times = vec![args.cast(1, &timestamp())?, args.cast(2, &timestamp())?];
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let unit = Unit::of(c.params);
            let times = [0, 1].map(|i| a[i].as_primitive::<TimestampMicrosecondType>());
            let rows = times[0]
                .iter()
                .zip(times[1])
                .map(|(from, to)| unit.between(from?, to?, c.zone));
            Ok(Arc::new(rows.collect::<PrimitiveArray<Int64Type>>()) as ArrayRef)
        })
    };
    Ok(Kernel::call(
        "timestampdiff",
        DataType::Int64,
        unit.text(),
        code,
        times,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(y: i32, m: u32, d: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(y, m, d).expect("day")
    }

    #[test]
    fn next_day_is_never_the_day_itself() {
        let thursday = day(2015, 1, 14).succ_opt().expect("day");
        assert_eq!(next_day(thursday, "TU").ok(), Some(day(2015, 1, 20)));
        assert_eq!(next_day(thursday, "thursday").ok(), Some(day(2015, 1, 22)));
        assert!(next_day(thursday, "someday").is_err());
    }

    #[test]
    fn hour_that_the_clock_shows_twice_is_cut_to_its_own_beginning() {
        let rome = Zone::from_name("Europe/Rome").expect("zone");
        // 2026-10-25 02:30 the second time, 01:30 in UTC.
        let second = 1_792_891_800_000_000;
        assert_eq!(cut(second, "HOUR", rome), Some(second - 1_800_000_000));
        // The day began at 22:00 in UTC.
        assert_eq!(cut(second, "DAY", rome), Some(second - 12_600_000_000));
    }

    #[test]
    fn units_that_are_none_cut_nothing() {
        assert_eq!(cut(0, "FORTNIGHT", Zone::Utc), None);
        assert_eq!(cut_date(day(2026, 5, 5), "HOUR"), None);
    }
}
