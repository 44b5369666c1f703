//! Dates and timestamps as text, the way Spark's default patterns write them.
//!
//! Own arithmetic on whole numbers instead of a calendar library: every value an Arrow column can
//! hold has a text, none can panic, and nothing is allocated.

use std::str::FromStr;

use crate::calendar::{civil, offset_seconds, push_padded};
use crate::file::decode::parse::Zone;
use crate::file::options::NO_TIME_TYPE;
use crate::file::pattern::{Moment, TimePattern};
use crate::options::Options;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// How many digits follow the seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fraction {
    /// Three digits, six where three would lose something. The default: like Spark's default
    /// pattern for every value that pattern does not cut.
    #[default]
    Lossless,
    /// This many digits, 0 to 6; further ones are cut off.
    Digits(u8),
}

/// The spelling of timestamps: date, `T` or a blank, time of day, fraction, zone offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampFormat {
    /// Between date and time of day: `T` or a blank.
    pub separator: char,
    /// Digits after the seconds.
    pub fraction: Fraction,
    /// Whether `Z` or `+02:00` follows. Never for TIMESTAMP_NTZ, which has no zone.
    pub zone: bool,
}

impl Default for TimestampFormat {
    fn default() -> Self {
        Self {
            separator: 'T',
            fraction: Fraction::Lossless,
            zone: true,
        }
    }
}

/// How timestamps of one kind are spelt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimestampText {
    /// In the common shape, which is written without looking at a pattern.
    Iso(TimestampFormat),
    /// By a pattern.
    Pattern(TimePattern),
}

impl Default for TimestampText {
    fn default() -> Self {
        Self::Iso(TimestampFormat::default())
    }
}

/// How dates and times become text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeText {
    /// `timeZone`: zone in which timestamps are shown, default UTC.
    pub zone: Zone,
    /// `dateFormat`: spelling of DATE, default `2026-01-31`.
    pub date: Option<TimePattern>,
    /// `timestampFormat`: spelling of TIMESTAMP.
    pub timestamp: TimestampText,
    /// `timestampNTZFormat`: spelling of TIMESTAMP_NTZ.
    pub local: TimestampText,
}

impl TimeText {
    /// Reads the options; `session` is the zone where `timeZone` is not given.
    ///
    /// # Errors
    /// A pattern that is none, or a zone that is unknown.
    pub(super) fn of(given: &Options<'_>, session: Zone) -> weir_runtime::Result<Self> {
        type Read = fn(&str) -> Result<TimePattern, String>;
        given.refuse(NO_TIME_TYPE)?;
        given.only("locale", "en-US")?;
        let timestamp = |name, read: Read| -> weir_runtime::Result<TimestampText> {
            if let Some(format) = given.text(name).and_then(|text| text.parse().ok()) {
                return Ok(TimestampText::Iso(format));
            }
            let pattern = given.pattern(name, read)?;
            Ok(pattern.map_or_else(TimestampText::default, TimestampText::Pattern))
        };
        Ok(Self {
            zone: given.time_zone()?.unwrap_or(session),
            date: given.pattern("dateFormat", TimePattern::for_writing_dates)?,
            timestamp: timestamp("timestampFormat", TimePattern::new)?,
            local: timestamp("timestampNTZFormat", TimePattern::for_writing_local_times)?,
        })
    }

    /// Appends a DATE.
    pub(super) fn push_date(&self, out: &mut Vec<u8>, days: i64) {
        match &self.date {
            None => push_date(out, days),
            Some(pattern) => pattern.write(out, Moment::date(days)),
        }
    }

    /// Appends a TIMESTAMP (`instant`) or a TIMESTAMP_NTZ.
    pub(super) fn push_timestamp(&self, out: &mut Vec<u8>, micros: i64, instant: bool) {
        let zone = instant.then_some(self.zone);
        match if instant {
            &self.timestamp
        } else {
            &self.local
        } {
            TimestampText::Iso(format) => push_timestamp(out, micros, *format, zone),
            TimestampText::Pattern(pattern) => pattern.write(out, Moment::timestamp(micros, zone)),
        }
    }
}

impl FromStr for TimestampFormat {
    type Err = ();

    /// Reads a pattern such as `yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]`; brackets may be left out.
    fn from_str(pattern: &str) -> Result<Self, ()> {
        let rest = pattern.strip_prefix("yyyy-MM-dd").ok_or(())?;
        let (separator, rest) = if let Some(rest) = rest.strip_prefix("'T'") {
            ('T', rest)
        } else {
            (' ', rest.strip_prefix(' ').ok_or(())?)
        };
        let rest = rest.strip_prefix("HH:mm:ss").ok_or(())?;
        let tail = rest.replace(['[', ']'], "");
        let (tail, zone) = match tail.strip_suffix("XXX") {
            Some(tail) => (tail, true),
            None => (tail.as_str(), false),
        };
        let digits = match tail.strip_prefix('.') {
            Some(s) if (1..=6).contains(&s.len()) && s.bytes().all(|b| b == b'S') => s.len(),
            None if tail.is_empty() => 0,
            _ => return Err(()),
        };
        Ok(Self {
            separator,
            fraction: Fraction::Digits(u8::try_from(digits).map_err(|_| ())?),
            zone,
        })
    }
}

/// Appends `days` since 1970-01-01 as `2026-01-31`; `+12026-..` and `-0001-..` outside of four
/// digits.
fn push_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    if year > 9999 {
        out.push(b'+');
    } else if year < 0 {
        out.push(b'-');
    }
    push_padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    push_padded(out, month, 2);
    out.push(b'-');
    push_padded(out, day, 2);
}

/// Appends an instant, `micros` since 1970-01-01T00:00:00Z, in local time of `zone`; without a zone
/// `micros` is local time already (TIMESTAMP_NTZ).
fn push_timestamp(out: &mut Vec<u8>, micros: i64, format: TimestampFormat, zone: Option<Zone>) {
    let offset = zone.map_or(0, |zone| offset_seconds(zone, micros));
    let seconds = micros.div_euclid(MICROS_PER_SECOND) + offset;
    let fraction = micros.rem_euclid(MICROS_PER_SECOND).unsigned_abs();
    push_date(out, seconds.div_euclid(SECONDS_PER_DAY));
    out.push(if format.separator == 'T' { b'T' } else { b' ' });
    push_clock(out, seconds.rem_euclid(SECONDS_PER_DAY).unsigned_abs());
    push_fraction(out, fraction, format.fraction);
    if format.zone && zone.is_some() {
        push_offset(out, offset);
    }
}

fn push_clock(out: &mut Vec<u8>, second_of_day: u64) {
    push_padded(out, second_of_day / 3600, 2);
    out.push(b':');
    push_padded(out, second_of_day / 60 % 60, 2);
    out.push(b':');
    push_padded(out, second_of_day % 60, 2);
}

fn push_fraction(out: &mut Vec<u8>, micros: u64, fraction: Fraction) {
    let digits = match fraction {
        Fraction::Digits(digits) => digits.min(6),
        Fraction::Lossless if micros.is_multiple_of(1000) => 3,
        Fraction::Lossless => 6,
    };
    if digits > 0 {
        out.push(b'.');
        push_padded(
            out,
            micros / 10_u64.pow(u32::from(6 - digits)),
            digits.into(),
        );
    }
}

/// `Z`, `+02:00`, and `+00:49:56` for the local mean times before zones had whole minutes.
fn push_offset(out: &mut Vec<u8>, offset: i64) {
    if offset == 0 {
        out.push(b'Z');
        return;
    }
    out.push(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.unsigned_abs();
    push_padded(out, seconds / 3600, 2);
    out.push(b':');
    push_padded(out, seconds / 60 % 60, 2);
    if !seconds.is_multiple_of(60) {
        out.push(b':');
        push_padded(out, seconds % 60, 2);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn date(days: i64) -> String {
        let mut out = Vec::new();
        push_date(&mut out, days);
        String::from_utf8(out).unwrap()
    }

    fn stamp(micros: i64, pattern: &str, zone: &str) -> String {
        let mut out = Vec::new();
        let format = if pattern.is_empty() {
            TimestampFormat::default()
        } else {
            pattern.parse().unwrap()
        };
        push_timestamp(&mut out, micros, format, Zone::from_name(zone).ok());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn date_outside_of_four_digits_carries_a_sign() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(2_932_896), "9999-12-31");
        assert_eq!(date(2_932_897), "+10000-01-01");
        assert_eq!(date(-719_162), "0001-01-01");
        assert_eq!(date(-719_529), "-0001-12-31");
        date(i32::MIN.into());
        date(i32::MAX.into());
    }

    #[test]
    fn timestamp_default_has_milliseconds_and_microseconds_where_needed() {
        assert_eq!(stamp(1_000_000, "", "UTC"), "1970-01-01T00:00:01.000Z");
        assert_eq!(stamp(1_000_500, "", "UTC"), "1970-01-01T00:00:01.000500Z");
        assert_eq!(stamp(-1, "", "UTC"), "1969-12-31T23:59:59.999999Z");
        stamp(i64::MIN, "", "Europe/Rome");
        stamp(i64::MAX, "", "Europe/Rome");
    }

    #[test]
    fn timestamp_in_a_zone_shows_local_time_and_offset() {
        let summer = 1_717_200_000_000_000;
        assert_eq!(
            stamp(summer, "", "Europe/Rome"),
            "2024-06-01T02:00:00.000+02:00"
        );
        assert_eq!(stamp(summer, "", "-03:30"), "2024-05-31T20:30:00.000-03:30");
        assert_eq!(
            stamp(summer, "", "no zone at all"),
            "2024-06-01T00:00:00.000"
        );
    }

    #[test]
    fn timestamp_pattern_sets_separator_fraction_and_zone() {
        let t = 1_717_200_000_123_456;
        let spark = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]";
        assert_eq!(stamp(t, spark, "UTC"), "2024-06-01T00:00:00.123Z");
        assert_eq!(
            stamp(t, "yyyy-MM-dd HH:mm:ss.SSSSSS", "UTC"),
            "2024-06-01 00:00:00.123456"
        );
        assert_eq!(
            stamp(t, "yyyy-MM-dd HH:mm:ss", "UTC"),
            "2024-06-01 00:00:00"
        );
        for wrong in ["dd/MM/yyyy", "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSSSSSS"] {
            assert!(wrong.parse::<TimestampFormat>().is_err(), "{wrong}");
        }
    }
}
