//! The proleptic Gregorian calendar on whole numbers, and offsets of zones.
//!
//! Own arithmetic instead of a calendar library: every value an Arrow column can hold has a date, none can panic, and nothing is
//! allocated.

use chrono::{DateTime, Offset, TimeZone};

use crate::file::decode::parse::Zone;

/// Seconds that local time in `zone` is ahead of UTC at an instant.
pub(crate) fn offset_seconds(zone: Zone, micros: i64) -> i64 {
    match zone {
        Zone::Utc => 0,
        Zone::Offset(seconds) => seconds.into(),
        Zone::Region(region) => region_offset_seconds(&region, micros),
    }
}

/// The same for a region with rules of its own. Outside of the calendar's range the offset of its end holds.
pub(crate) fn region_offset_seconds(region: &impl TimeZone, micros: i64) -> i64 {
    let instant = DateTime::from_timestamp_micros(micros).unwrap_or(if micros < 0 {
        DateTime::<chrono::Utc>::MIN_UTC
    } else {
        DateTime::<chrono::Utc>::MAX_UTC
    });
    let offset = region.offset_from_utc_datetime(&instant.naive_utc());
    offset.fix().local_minus_utc().into()
}

/// Appends `value` with leading zeros up to `width` digits.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = value;
    let mut at = digits.len();
    while rest > 0 || digits.len() - at < width {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Year, month and day of a day number in the proleptic Gregorian calendar.
///
/// Works on years that begin in March, where the leap day is the last of the year and the months'
/// first days lie on a straight line.
pub(crate) fn civil(days: i64) -> (i64, u64, u64) {
    const DAYS_PER_ERA: i64 = 146_097;
    const DAYS_TO_MARCH_OF_YEAR_0: i64 = 719_468;
    let shifted = days + DAYS_TO_MARCH_OF_YEAR_0;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; `None` for a day that does not exist.
pub(crate) fn days_since_1970(year: i64, month: u32, day: u32) -> Option<i64> {
    const MONTH_DAYS: [u32; 13] = [0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = *MONTH_DAYS.get(month as usize)?;
    if day == 0 || day > last || (month == 2 && day == 29 && !leap) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one; eras of 400 years have 146 097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use chrono::Datelike;

    use super::*;

    #[test]
    fn date_every_day_of_eight_centuries_matches_the_calendar() {
        for days in -150_000..150_000 {
            let expected =
                chrono::NaiveDate::from_num_days_from_ce_opt(days + 719_163).expect("a day");
            let (y, m, d) = civil(days.into());
            assert_eq!(
                (y, m, d),
                (
                    expected.year().into(),
                    expected.month().into(),
                    expected.day().into()
                )
            );
            let (month, day) = (expected.month(), expected.day());
            assert_eq!(days_since_1970(y, month, day), Some(days.into()));
        }
    }
}
