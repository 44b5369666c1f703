//! Dates and times of ORC files.
//!
//! A `timestamp` is kept as the distance from the year 2015 in the zone of its writer, and means what a clock there showed. Read as
//! TIMESTAMP it is the instant at which a clock of the session's zone shows the same, as in Spark, whose zone is that of its
//! process; if writer and session have one zone that is the instant that was written, also in hours that come twice.
//!
//! Writers in Java count days before 1582-10-15 in the Julian calendar, and say so; and before 1900 their clocks have the offset of
//! today. What they wrote for a time in the year 1000 is the time of that name here, again as in Spark.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Int64Array, PrimitiveArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Date32Type, Int64Type};
use chrono::{DateTime, TimeZone};
use chrono_tz::{OffsetComponents, Tz};

use super::numbers::Numbers;
use super::problem::{Problem, Result, damage};
use super::types::Moment;
use crate::calendar::days_since_1970;
use crate::file::decode::parse::Zone;

/// 1582-10-15 in days since 1970-01-01, the first day of the Gregorian calendar.
const GREGORIAN_DAY: i64 = -141_427;
/// 2015-01-01 in seconds since 1970-01-01.
const BASE_SECONDS: i64 = 1_420_070_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// 1900-01-01 in microseconds since 1970-01-01, the first time for which Java looks offsets up.
const JAVA_MICROS: i64 = -2_208_988_800 * MICROS_PER_SECOND;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// How the times of one stripe are read.
pub(super) struct Times {
    /// Zone of the writer; that of the session where the stripe names none, as in Java.
    pub(super) writer: Zone,
    pub(super) session: Zone,
    pub(super) is_julian: bool,
    /// Whether the writer is the one in Java.
    pub(super) is_java: bool,
    /// Fractions of seconds that were not used yet, by column.
    pub(super) fractions: HashMap<u32, Numbers>,
}

impl Times {
    /// Days since 1970-01-01 of the Gregorian calendar.
    pub(super) fn days(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let days: &Date32Array = array.as_primitive::<Date32Type>();
        let is_old = |day: i32| i64::from(day) < GREGORIAN_DAY;
        if !self.is_julian || !days.iter().flatten().any(is_old) {
            return Ok(Arc::clone(array));
        }
        // A day moves by two weeks at most in the years that a DATE has; beyond them it may leave its 32 bits.
        let moved = days.try_unary::<_, Date32Type, _>(|day| {
            let day = gregorian(i64::from(day));
            i32::try_from(day).map_err(|_| Problem::Damage(format!("a DATE on day {day}")))
        })?;
        Ok(Arc::new(moved))
    }

    /// Microseconds of times given in seconds, with the fractions that belong to them.
    pub(super) fn moments(
        &mut self,
        column: u32,
        moment: Moment,
        array: &ArrayRef,
    ) -> Result<ArrayRef> {
        let seconds: &Int64Array = array.as_primitive::<Int64Type>();
        let base = match moment {
            Moment::Instant => BASE_SECONDS,
            _ => self.base()?,
        };
        let mut fractions = self.fractions.remove(&column);
        let mut micros = Vec::with_capacity(seconds.len());
        for place in 0..seconds.len() {
            if seconds.is_null(place) {
                micros.push(0);
                continue;
            }
            let fraction = match &mut fractions {
                Some(numbers) => numbers.next_number()?,
                None => None,
            };
            let Some(fraction) = fraction else {
                return damage(format!("column {column} lacks fractions of seconds"));
            };
            let written = written(seconds.value(place), base, fraction);
            let read = written.and_then(|written| self.read(written, moment));
            let Some(read) = read else {
                let value = seconds.value(place);
                return damage(format!(
                    "column {column} has a time {value} seconds from 2015, which no TIMESTAMP holds"
                ));
            };
            micros.push(read);
        }
        if let Some(numbers) = fractions {
            self.fractions.insert(column, numbers);
        }
        let array: TimestampMicrosecondArray =
            PrimitiveArray::new(micros.into(), seconds.nulls().cloned());
        Ok(Arc::new(array.with_data_type(moment.data_type())))
    }

    /// 2015-01-01 in the writer's zone, in seconds since 1970-01-01 UTC.
    fn base(&self) -> Result<i64> {
        match self.writer.local_to_utc(BASE_SECONDS * MICROS_PER_SECOND) {
            Some(micros) => Ok(micros.div_euclid(MICROS_PER_SECOND)),
            None => damage("the year 2015 is out of reach in the writer's zone"),
        }
    }

    /// What an instant that was written is read as; `None` beyond 64 bits.
    fn read(&self, written: i64, moment: Moment) -> Option<i64> {
        let is_old = written < JAVA_MICROS && (self.is_java || self.is_julian);
        match moment {
            Moment::Instant => self.renamed(written),
            Moment::OfSession if !is_old && self.writer == self.session => Some(written),
            Moment::Wall => self.clock(written),
            Moment::OfSession => self.session.local_to_utc(self.clock(written)?),
        }
    }

    /// What a clock of the writer showed.
    fn clock(&self, written: i64) -> Option<i64> {
        let clock = match self.writer {
            Zone::Region(zone) if self.is_java && written < JAVA_MICROS => {
                written.checked_add(standard_micros(zone))
            }
            zone => zone.utc_to_local(written),
        };
        self.renamed(clock?)
    }

    /// The same time on the day of that name in the Gregorian calendar.
    fn renamed(&self, clock: i64) -> Option<i64> {
        if !self.is_julian {
            return Some(clock);
        }
        let day = gregorian(clock.div_euclid(MICROS_PER_DAY));
        let time = clock.rem_euclid(MICROS_PER_DAY);
        day.checked_mul(MICROS_PER_DAY)?.checked_add(time)
    }
}

/// The offset that a zone has today without daylight saving, in microseconds.
fn standard_micros(zone: Tz) -> i64 {
    let today = DateTime::from_timestamp(BASE_SECONDS, 0).unwrap_or_default();
    let offset = zone.offset_from_utc_datetime(&today.naive_utc());
    offset.base_utc_offset().num_seconds() * MICROS_PER_SECOND
}

/// Microseconds since 1970-01-01 UTC, digits beyond cut towards the past.
fn written(seconds: i64, base: i64, fraction: i64) -> Option<i64> {
    let nanos = nanoseconds(fraction);
    let mut seconds = i128::from(seconds) + i128::from(base);
    // Writers cut the seconds of times before 1970 towards 1970, and leave a fraction that counts upwards. Fractions below zero,
    // which Arrow's writer writes, count from where the seconds were cut.
    if seconds < 0 && nanos > 999_999 {
        seconds -= 1;
    }
    let nanos = seconds * 1_000_000_000 + i128::from(nanos);
    i64::try_from(nanos.div_euclid(1000)).ok()
}

/// Nanoseconds of a fraction as it is written: the last three bits tell how many zeros were left off, less one.
fn nanoseconds(fraction: i64) -> i64 {
    let zeros = match u32::try_from(fraction & 7) {
        Ok(0) | Err(_) => 0,
        Ok(zeros) => zeros + 1,
    };
    (fraction >> 3).wrapping_mul(10_i64.pow(zeros))
}

/// The Gregorian day, in days since 1970-01-01, of the name that a day before 1582-10-15 has in the Julian calendar. A 29th of
/// February that the Gregorian calendar lacks is the day after.
fn gregorian(day: i64) -> i64 {
    if day >= GREGORIAN_DAY {
        return day;
    }
    // Years begin in March; day 0 is 0000-03-01 of the Julian calendar, and four years have 1461 days.
    let shifted = day + 719_470;
    let quad = shifted.div_euclid(1461);
    let day_of_quad = shifted.rem_euclid(1461);
    let year_of_quad = (day_of_quad / 365).min(3);
    let day_of_year = day_of_quad - 365 * year_of_quad;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, later) = match month_from_march {
        0..10 => (month_from_march + 3, 0),
        _ => (month_from_march - 9, 1),
    };
    let year = 4 * quad + year_of_quad + later;
    let part = |number: i64| u32::try_from(number).unwrap_or_default();
    days_since_1970(year, part(month), part(day_of_month))
        .or_else(|| days_since_1970(year, 3, 1))
        .unwrap_or(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(writer: &str, session: &str) -> Times {
        let zone = |name| Zone::from_name(name).expect("a zone");
        Times {
            writer: zone(writer),
            session: zone(session),
            is_julian: false,
            is_java: false,
            fractions: HashMap::new(),
        }
    }

    fn utc(text: &str) -> i64 {
        let time = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
        time.expect("a time").and_utc().timestamp_micros()
    }

    #[test]
    fn fractions_have_their_zeros_back_and_may_be_below_zero() {
        assert_eq!(nanoseconds(0), 0);
        assert_eq!(nanoseconds(123_456_789 << 3), 123_456_789);
        assert_eq!(nanoseconds(5 << 3 | 7), 500_000_000);
        assert_eq!(nanoseconds(-(999_999 << 3) | 2), -999_999_000);
    }

    #[test]
    fn seconds_before_1970_with_a_fraction_were_cut_towards_1970() {
        assert_eq!(written(-10, 0, 5 << 3 | 7), Some(-10_500_000));
        assert_eq!(written(-10, 0, 999_999 << 3), Some(-9_999_001));
        assert_eq!(written(-10, 0, -(5 << 3) | 7), Some(-10_500_000));
        assert_eq!(written(10, 0, 1), Some(10_000_000));
        assert_eq!(written(-11, 0, 1 << 3), Some(-11_000_000));
        assert_eq!(written(i64::MAX, 1, 0), None);
    }

    #[test]
    fn time_is_what_a_clock_of_the_writer_showed() {
        let at = utc("2026-07-01 16:00:00");
        let times = times("America/New_York", "Europe/Rome");
        assert_eq!(
            times.read(at, Moment::Wall),
            Some(utc("2026-07-01 12:00:00"))
        );
        assert_eq!(
            times.read(at, Moment::OfSession),
            Some(utc("2026-07-01 10:00:00"))
        );
        assert_eq!(times.read(at, Moment::Instant), Some(at));
        // 2015 began at five in the morning, UTC.
        assert_eq!(times.base().ok(), Some(BASE_SECONDS + 5 * 3600));
    }

    #[test]
    fn hour_that_comes_twice_stays_the_one_that_was_written_in_one_zone() {
        let (first, second) = (utc("2026-10-25 00:30:00"), utc("2026-10-25 01:30:00"));
        let rome = times("Europe/Rome", "Europe/Rome");
        assert_eq!(rome.read(first, Moment::OfSession), Some(first));
        assert_eq!(rome.read(second, Moment::OfSession), Some(second));
        let paris = times("Europe/Rome", "Europe/Paris");
        assert_eq!(paris.read(second, Moment::OfSession), Some(first));
    }

    #[test]
    fn days_before_the_gregorian_calendar_keep_their_names() {
        let day = |y, m, d| days_since_1970(y, m, d).expect("a day");
        assert_eq!(gregorian(day(1582, 10, 15)), day(1582, 10, 15));
        assert_eq!(gregorian(day(1582, 10, 14)), day(1582, 10, 4));
        // Julian 1000-01-01 is Gregorian 1000-01-06.
        assert_eq!(gregorian(day(1000, 1, 6)), day(1000, 1, 1));
        // Julian 0001-01-01 is Gregorian 0000-12-30.
        assert_eq!(gregorian(day(0, 12, 30)), day(1, 1, 1));
        // 1500-02-29 was a day then.
        assert_eq!(gregorian(day(1500, 3, 10)), day(1500, 3, 1));
        assert_eq!(gregorian(day(1500, 3, 11)), day(1500, 3, 1));
        let mut times = times("Europe/Rome", "America/New_York");
        (times.is_julian, times.is_java) = (true, true);
        let noon = utc("1000-01-06 11:00:00.5");
        let name = utc("1000-01-01 12:00:00.5");
        assert_eq!(
            times.read(noon, Moment::Wall),
            Some(name),
            "an hour, as today"
        );
        let new_york = times.session.local_to_utc(name);
        assert_eq!(times.read(noon, Moment::OfSession), new_york);
        times.session = times.writer;
        let rome = times.writer.local_to_utc(name);
        assert_eq!(times.read(noon, Moment::OfSession), rome);
        assert_eq!(
            times.read(utc("1000-01-06 01:02:03.5"), Moment::Instant),
            Some(utc("1000-01-01 01:02:03.5"))
        );
    }
}
