//! Dates and timestamps. A TIMESTAMP is a moment: its fields and its text are those of the session's time zone; a TIMESTAMP_NTZ
//! and a DATE have no zone and stand still.

mod make;
mod moving;
mod parts;
mod patterns;
mod zones;

use arrow::datatypes::DataType;
use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use weir_connectors::file::decode::parse::Zone;

use super::coerce::{timestamp, timestamp_ntz};
use super::intervals::DAY_MICROS;
use super::text::datetime_of;
use super::{Args, Resolver};

pub(super) use patterns::{constant_pattern, read_pattern};

/// The family of dates and times.
pub(super) const FUNCTIONS: [&[(&str, Resolver)]; 5] = [
    make::FUNCTIONS,
    moving::FUNCTIONS,
    parts::FUNCTIONS,
    patterns::FUNCTIONS,
    zones::FUNCTIONS,
];

/// What the clock in `zone` shows at a moment in microseconds since 1970, if the calendar reaches that far.
fn clock(micros: i64, zone: Zone) -> Option<NaiveDateTime> {
    datetime_of(zone.utc_to_local(micros)?)
}

/// The moment at which the clock in `zone` shows this.
fn moment(clock: NaiveDateTime, zone: Zone) -> Option<i64> {
    zone.local_to_utc(clock.and_utc().timestamp_micros())
}

/// Days since 1970.
fn days_of(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - 719_163
}

/// What can be moved by calendar months; a day that the month does not have becomes its last.
pub(super) trait Shift: Sized {
    /// The same day so many months later.
    fn by_months(self, months: i32) -> Option<Self>;
}

macro_rules! shift {
    ($t:ty) => {
        impl Shift for $t {
            fn by_months(self, months: i32) -> Option<Self> {
                let count = Months::new(months.unsigned_abs());
                match months < 0 {
                    true => self.checked_sub_months(count),
                    false => self.checked_add_months(count),
                }
            }
        }
    };
}
shift!(NaiveDate);
shift!(NaiveDateTime);

/// A moment moved by a day-time interval: its whole days are days of the clock, the rest is exact.
pub(super) fn add_day_time(micros: i64, by: i64, zone: Zone) -> Option<i64> {
    let days = by / DAY_MICROS;
    if days == 0 || zone == Zone::Utc {
        return micros.checked_add(by);
    }
    let days = TimeDelta::try_days(days)?;
    let moved = moment(clock(micros, zone)?.checked_add_signed(days)?, zone)?;
    moved.checked_add(by % DAY_MICROS)
}

/// A moment moved by months of the clock.
pub(super) fn add_months(micros: i64, months: i32, zone: Zone) -> Option<i64> {
    moment(clock(micros, zone)?.by_months(months)?, zone)
}

/// Argument `i` as a TIMESTAMP_NTZ if it is one, else as a TIMESTAMP, with its type.
fn time(args: &Args<'_>, i: usize) -> Result<(Expr, DataType)> {
    let t = match &args.types[i] {
        DataType::Timestamp(_, None) => timestamp_ntz(),
        _ => timestamp(),
    };
    Ok((args.cast(i, &t)?, t))
}

/// The zone that the clock of a column of this type follows.
fn zone_of(t: &DataType, session: Zone) -> Zone {
    match t {
        DataType::Timestamp(_, Some(_)) => session,
        _ => Zone::Utc,
    }
}
