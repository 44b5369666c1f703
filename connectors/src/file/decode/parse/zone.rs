//! Time zones: names and offsets as Spark accepts them, and local time -> UTC.

use std::fmt;

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::Tz;

use crate::calendar::offset_seconds;

/// A time zone text that is no zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown time zone \"{name}\" (allowed: UTC, Z, an offset such as +01:00, or a region such as Europe/Rome)"
)]
pub struct ZoneError {
    /// The text as it was given.
    pub name: String,
}

/// The zone in which a timestamp without one is read. UTC by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Zone {
    /// Coordinated universal time.
    #[default]
    Utc,
    /// A constant distance from UTC, in seconds; positive east of Greenwich.
    Offset(i32),
    /// A region of the tz database, with its daylight-saving rules.
    Region(Tz),
}

/// Java's three-letter names (`ZoneId.SHORT_IDS`), which Spark resolves before anything else.
const SHORT_NAMES: [(&[u8], &str); 28] = [
    (b"ACT", "Australia/Darwin"),
    (b"AET", "Australia/Sydney"),
    (b"AGT", "America/Argentina/Buenos_Aires"),
    (b"ART", "Africa/Cairo"),
    (b"AST", "America/Anchorage"),
    (b"BET", "America/Sao_Paulo"),
    (b"BST", "Asia/Dhaka"),
    (b"CAT", "Africa/Harare"),
    (b"CNT", "America/St_Johns"),
    (b"CST", "America/Chicago"),
    (b"CTT", "Asia/Shanghai"),
    (b"EAT", "Africa/Addis_Ababa"),
    (b"ECT", "Europe/Paris"),
    (b"EST", "-05:00"),
    (b"HST", "-10:00"),
    (b"IET", "America/Indiana/Indianapolis"),
    (b"IST", "Asia/Kolkata"),
    (b"JST", "Asia/Tokyo"),
    (b"MIT", "Pacific/Apia"),
    (b"MST", "-07:00"),
    (b"NET", "Asia/Yerevan"),
    (b"NST", "Pacific/Auckland"),
    (b"PLT", "Asia/Karachi"),
    (b"PNT", "America/Phoenix"),
    (b"PRT", "America/Puerto_Rico"),
    (b"PST", "America/Los_Angeles"),
    (b"SST", "Pacific/Guadalcanal"),
    (b"VST", "Asia/Ho_Chi_Minh"),
];

/// Java allows offsets up to eighteen hours.
const MAX_OFFSET_SECONDS: i32 = 18 * 3600;

impl Zone {
    /// Reads a zone as Spark's `timeZone` option does.
    ///
    /// # Errors
    /// [`ZoneError`] when `name` is neither an offset nor a known zone.
    pub fn from_name(name: &str) -> Result<Self, ZoneError> {
        Self::parse(name.as_bytes()).ok_or_else(|| ZoneError {
            name: name.to_owned(),
        })
    }

    /// As [`Zone::from_name`], on bytes: `Z`, `UTC`, `+1:00`, `+01`, `+0130`, `GMT+1`, `PST`, `Europe/Rome`.
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"Z" | b"UTC" | b"GMT" | b"UT" => return Some(Self::Utc),
            [b'+' | b'-', ..] => return offset(name),
            [b'U', b'T', b'C', rest @ ..]
            | [b'G', b'M', b'T', rest @ ..]
            | [b'U', b'T', rest @ ..]
                if matches!(rest, [b'+' | b'-', ..]) =>
            {
                return offset(rest);
            }
            _ => {}
        }
        let name = match SHORT_NAMES.iter().find(|(short, _)| *short == name) {
            Some((_, long)) if long.starts_with('-') => return offset(long.as_bytes()),
            Some((_, long)) => long,
            None => std::str::from_utf8(name).ok()?,
        };
        name.parse().ok().map(Self::Region)
    }

    /// Microseconds since the epoch of a wall-clock time given in microseconds (as if it were UTC).
    ///
    /// Java's rule at the daylight-saving jumps: a time that happens twice is the earlier one, a time that never happens is
    /// moved later by the length of the gap. `None` when the result leaves the 64-bit range.
    pub fn local_to_utc(self, local_micros: i64) -> Option<i64> {
        let offset = match self {
            Self::Utc => return Some(local_micros),
            Self::Offset(seconds) => seconds,
            Self::Region(zone) => region_offset(zone, local_micros)?,
        };
        local_micros.checked_sub(i64::from(offset) * 1_000_000)
    }

    /// The wall clock, in microseconds as if it were UTC, at a moment in microseconds since the epoch. `None` when the result
    /// leaves the 64-bit range.
    pub fn utc_to_local(self, micros: i64) -> Option<i64> {
        micros.checked_add(offset_seconds(self, micros) * 1_000_000)
    }
}

/// `UTC`, `+01:00`, `-03:30:15`, `Europe/Rome`.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => f.write_str("UTC"),
            Self::Region(zone) => f.write_str(zone.name()),
            Self::Offset(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let all = seconds.unsigned_abs();
                write!(f, "{sign}{:02}:{:02}", all / 3600, all / 60 % 60)?;
                match all % 60 {
                    0 => Ok(()),
                    rest => write!(f, ":{rest:02}"),
                }
            }
        }
    }
}

/// Seconds east of UTC in force at a local time; inside a gap the offset from before it.
fn region_offset(zone: Tz, local_micros: i64) -> Option<i32> {
    let local = DateTime::from_timestamp_micros(local_micros)?.naive_utc();
    if let Some(offset) = earliest_offset(zone, &local) {
        return Some(offset);
    }
    // No gap in the tz database is longer than a day.
    (1..=25)
        .find_map(|hours| latest_offset(zone, &local.checked_sub_signed(TimeDelta::hours(hours))?))
}

fn earliest_offset(zone: Tz, local: &NaiveDateTime) -> Option<i32> {
    zone.offset_from_local_datetime(local)
        .earliest()
        .map(|offset| offset.fix().local_minus_utc())
}

fn latest_offset(zone: Tz, local: &NaiveDateTime) -> Option<i32> {
    zone.offset_from_local_datetime(local)
        .latest()
        .map(|offset| offset.fix().local_minus_utc())
}

/// `+h`, `+hh`, `+h:mm`, `+hh:m`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`, `+hhmmss`.
fn offset(text: &[u8]) -> Option<Zone> {
    let (sign, digits) = match text {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let [hours, minutes, seconds] = if digits.contains(&b':') {
        colon_parts(digits)?
    } else {
        packed_parts(digits)?
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    match sign * (hours * 3600 + minutes * 60 + seconds) {
        0 => Some(Zone::Utc),
        total if total.abs() <= MAX_OFFSET_SECONDS => Some(Zone::Offset(total)),
        _ => None,
    }
}

fn colon_parts(text: &[u8]) -> Option<[i32; 3]> {
    let mut parts = [0; 3];
    for (index, part) in text.split(|byte| *byte == b':').enumerate() {
        if part.is_empty() || part.len() > 2 {
            return None;
        }
        *parts.get_mut(index)? = unsigned(part)?;
    }
    Some(parts)
}

fn packed_parts(text: &[u8]) -> Option<[i32; 3]> {
    match text.len() {
        1 | 2 => Some([unsigned(text)?, 0, 0]),
        4 => Some([unsigned(&text[..2])?, unsigned(&text[2..])?, 0]),
        6 => Some([
            unsigned(&text[..2])?,
            unsigned(&text[2..4])?,
            unsigned(&text[4..])?,
        ]),
        _ => None,
    }
}

fn unsigned(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit()
            .then(|| value * 10 + i32::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn zones_by_offset() {
        for text in [
            "+01:00",
            "+1:00",
            "+01",
            "+1",
            "+0100",
            "GMT+1",
            "UTC+01:00",
            "+010000",
            "+01:0",
        ] {
            assert_eq!(Zone::from_name(text), Ok(Zone::Offset(3600)), "{text}");
        }
        assert_eq!(Zone::from_name("-07:30"), Ok(Zone::Offset(-27_000)));
        assert_eq!(Zone::from_name("+00:00"), Ok(Zone::Utc));
        for text in ["+19:00", "+1:60", "+", "+123", "+a", "+01:", "01:00"] {
            assert!(Zone::from_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zones_by_name() {
        assert_eq!(
            Zone::from_name("Europe/Rome"),
            Ok(Zone::Region(chrono_tz::Europe::Rome))
        );
        assert_eq!(
            Zone::from_name("PST"),
            Ok(Zone::Region(chrono_tz::America::Los_Angeles))
        );
        assert_eq!(Zone::from_name("EST"), Ok(Zone::Offset(-5 * 3600)));
        assert_eq!(Zone::from_name("UTC"), Ok(Zone::Utc));
        let error = Zone::from_name("Mars/Base").expect_err("no such zone");
        assert!(error.to_string().contains("\"Mars/Base\""));
    }

    #[test]
    fn local_time_in_a_gap_moves_later_and_in_an_overlap_is_the_earlier_one() {
        let rome = Zone::Region(chrono_tz::Europe::Rome);
        // 2026-03-29 02:30 does not exist in Rome: 03:30 summer time = 01:30 UTC.
        let gap = 1_774_751_400_000_000;
        assert_eq!(rome.local_to_utc(gap), Some(gap - HOUR));
        // 2026-10-25 02:30 happens twice: summer time first.
        let twice = 1_792_895_400_000_000;
        assert_eq!(rome.local_to_utc(twice), Some(twice - 2 * HOUR));
        assert_eq!(Zone::Offset(3600).local_to_utc(i64::MIN), None);
    }
}
