//! Dates, times and intervals as Spark shows them. Whole-number arithmetic: every value an Arrow column can hold has a
//! text.

use std::fmt::Write as _;

use arrow::array::timezone::Tz;

use crate::calendar::{civil, region_offset_seconds};

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
const WRITES: &str = "invariant: writing to a string cannot fail";

/// Appends `2026-01-31`; years outside of four digits have a sign.
pub(super) fn push_date(out: &mut String, days: i64) {
    let (year, month, day) = civil(days);
    match year {
        10_000.. => write!(out, "+{year}"),
        0..=9999 => write!(out, "{year:04}"),
        _ => write!(out, "-{:04}", year.unsigned_abs()),
    }
    .expect(WRITES);
    write!(out, "-{month:02}-{day:02}").expect(WRITES);
}

/// Appends `2026-01-01 00:00:07.5`: microseconds since 1970 in UTC, shown in `zone` (UTC without one).
pub(super) fn push_timestamp(out: &mut String, micros: i64, zone: Option<Tz>) {
    let seconds = micros.div_euclid(MICROS_PER_SECOND)
        + zone.map_or(0, |zone| region_offset_seconds(&zone, micros));
    push_date(out, seconds.div_euclid(SECONDS_PER_DAY));
    out.push(' ');
    push_clock(
        out,
        seconds.rem_euclid(SECONDS_PER_DAY),
        micros.rem_euclid(MICROS_PER_SECOND),
    );
}

/// Appends `09:05:00.25`; no more digits of the fraction than needed.
pub(super) fn push_clock(out: &mut String, second_of_day: i64, micros: i64) {
    let (hours, minutes) = (second_of_day / 3600, second_of_day / 60 % 60);
    write!(out, "{hours:02}:{minutes:02}:{:02}", second_of_day % 60).expect(WRITES);
    push_fraction(out, micros.unsigned_abs());
}

fn push_fraction(out: &mut String, micros: u64) {
    if micros > 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// Appends `INTERVAL '1 02:03:04.5' DAY TO SECOND`.
pub(super) fn push_day_time(out: &mut String, micros: i64) {
    let sign = if micros < 0 { "-" } else { "" };
    let seconds = micros.unsigned_abs() / MICROS_PER_SECOND.unsigned_abs();
    let day = SECONDS_PER_DAY.unsigned_abs();
    let (days, rest) = (seconds / day, seconds % day);
    let (hours, minutes) = (rest / 3600, rest / 60 % 60);
    write!(
        out,
        "INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{:02}",
        rest % 60
    )
    .expect(WRITES);
    push_fraction(
        out,
        micros.unsigned_abs() % MICROS_PER_SECOND.unsigned_abs(),
    );
    out.push_str("' DAY TO SECOND");
}

/// Appends `INTERVAL '1-2' YEAR TO MONTH`.
pub(super) fn push_year_month(out: &mut String, months: i32) {
    let sign = if months < 0 { "-" } else { "" };
    let months = months.unsigned_abs();
    write!(
        out,
        "INTERVAL '{sign}{}-{}' YEAR TO MONTH",
        months / 12,
        months % 12
    )
    .expect(WRITES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        push(&mut out);
        out
    }

    #[test]
    fn dates_of_all_years_have_a_text() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (20_454, "2026-01-01"),
            (-719_162, "0001-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_897, "+10000-01-01"),
        ] {
            assert_eq!(text(|out| push_date(out, days)), expected);
        }
        assert!(text(|out| push_date(out, i64::from(i32::MAX))).starts_with("+5881580-"));
    }

    #[test]
    fn timestamps_follow_the_zone_and_show_only_the_digits_they_need() {
        let micros = 1_767_225_607_500_000;
        assert_eq!(
            text(|out| push_timestamp(out, micros, None)),
            "2026-01-01 00:00:07.5"
        );
        let rome = "Europe/Rome".parse().ok();
        assert_eq!(
            text(|out| push_timestamp(out, micros, rome)),
            "2026-01-01 01:00:07.5"
        );
        assert_eq!(
            text(|out| push_timestamp(out, -1, None)),
            "1969-12-31 23:59:59.999999"
        );
        assert!(text(|out| push_timestamp(out, i64::MAX, rome)).starts_with("+294247-01-10"));
    }

    #[test]
    fn intervals_are_written_as_ansi_literals() {
        let micros = 93_784_500_000;
        assert_eq!(
            text(|out| push_day_time(out, micros)),
            "INTERVAL '1 02:03:04.5' DAY TO SECOND"
        );
        assert_eq!(
            text(|out| push_day_time(out, -1_000_000)),
            "INTERVAL '-0 00:00:01' DAY TO SECOND"
        );
        assert_eq!(
            text(|out| push_year_month(out, -14)),
            "INTERVAL '-1-2' YEAR TO MONTH"
        );
    }
}
