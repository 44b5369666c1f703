//! Dates and timestamps in the ISO-like spellings Spark casts text from.
//!
//! The common shape `YYYY-MM-DDTHH:MM:SS[.fraction][Z]` has its own path that checks and reads eight bytes at a time;
//! everything else (short years, one-digit months, offsets, regions, missing parts) goes through a small scanner.
//! A time without a date is refused: it would mean "today", and no result may depend on the clock.

use super::{Zone, words::word_at};
use crate::calendar::days_since_1970 as days;

/// Microseconds in a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// A wall-clock time and what the text said about its zone.
struct Local<'a> {
    /// Microseconds since 1970-01-01T00:00:00 on the wall clock.
    micros: i64,
    /// Text of the zone; empty when there is none.
    zone: &'a [u8],
}

/// Days since 1970-01-01. Accepted: `[+-]yyyy`, `yyyy-[m]m`, `yyyy-[m]m-[d]d`, the last also followed by `T` or a blank
/// and anything; years of four to seven digits; blanks around.
pub fn parse_date(text: &[u8]) -> Option<i32> {
    let (negative, text) = split_sign(trim(text));
    let end = text
        .iter()
        .position(|byte| matches!(byte, b' ' | b'T'))
        .unwrap_or(text.len());
    let (date, parts) = scan_date(&text[..end], 7)?;
    if !date.is_empty() || (parts < 3 && end < text.len()) {
        return None;
    }
    let [year, month, day] = date_parts(&text[..end]);
    i32::try_from(days(signed(negative, year), month, day)?).ok()
}

/// Microseconds since the epoch. Accepted: a date as in [`parse_date`] (years of up to six digits), then optionally `T` or
/// a blank and `[h]h[:[m]m[:[s]s[.fraction][zone]]]`. Digits of the fraction beyond six are cut off. The zone is `Z`, an
/// offset, `UTC`/`GMT` with or without one, or a region, with or without a blank before it; without one the time is read
/// in `session`.
pub fn parse_timestamp(text: &[u8], session: Zone) -> Option<i64> {
    let local = fixed_shape(text).or_else(|| free_shape(trim(text)))?;
    match local.zone {
        [] => session.local_to_utc(local.micros),
        b"Z" => Some(local.micros),
        zone => Zone::parse(trim(zone))?.local_to_utc(local.micros),
    }
}

/// Microseconds on the wall clock, for columns without zone. A zone in the text is an error unless `allow_zone`, which
/// ignores it.
pub fn parse_timestamp_ntz(text: &[u8], allow_zone: bool) -> Option<i64> {
    let local = fixed_shape(text).or_else(|| free_shape(trim(text)))?;
    match local.zone {
        [] => Some(local.micros),
        zone => (allow_zone && Zone::parse(trim(zone)).is_some()).then_some(local.micros),
    }
}

/// Xor of a word with its pattern leaves 0..=9 where digits stand and 0 where separators stand; adding `limits` then sets
/// the top bit of every byte that is something else.
fn matched(word: u64, pattern: &[u8; 8], limits: &[u8; 8]) -> Option<[u8; 8]> {
    let digits = word ^ u64::from_le_bytes(*pattern);
    let other = digits | digits.wrapping_add(u64::from_le_bytes(*limits));
    (other & 0x8080_8080_8080_8080 == 0).then(|| digits.to_le_bytes())
}

/// `YYYY-MM-DDTHH:MM:SS` and then a fraction, a `Z`, both or neither; `None` for every other text, good or bad.
fn fixed_shape(text: &[u8]) -> Option<Local<'_>> {
    const DIGIT: u8 = 0x76;
    const EXACT: u8 = 0x7F;
    let separator = *text.get(10)?;
    if !matches!(separator, b'T' | b' ') {
        return None;
    }
    let date = matched(
        word_at(text, 0)?,
        b"0000-00-",
        &[DIGIT, DIGIT, DIGIT, DIGIT, EXACT, DIGIT, DIGIT, EXACT],
    )?;
    let time = matched(
        word_at(text, 11)?,
        b"00:00:00",
        &[DIGIT, DIGIT, EXACT, DIGIT, DIGIT, EXACT, DIGIT, DIGIT],
    )?;
    let (tens, ones) = (text[8].wrapping_sub(b'0'), text[9].wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return None;
    }
    let (fraction, zone) = match &text[19..] {
        [b'.', rest @ ..] => scan_fraction(rest),
        rest => (0, rest),
    };
    if !matches!(zone, [] | b"Z") {
        return None;
    }
    let pair = |tens: u8, ones: u8| u32::from(tens) * 10 + u32::from(ones);
    let year = pair(date[0], date[1]) * 100 + pair(date[2], date[3]);
    let days = days(i64::from(year), pair(date[5], date[6]), pair(tens, ones))?;
    let micros = time_micros(
        pair(time[0], time[1]),
        pair(time[3], time[4]),
        pair(time[6], time[7]),
        fraction,
    )?;
    Some(Local {
        micros: days * DAY_MICROS + micros,
        zone,
    })
}

/// Every accepted spelling, already trimmed.
fn free_shape(text: &[u8]) -> Option<Local<'_>> {
    let (negative, text) = split_sign(text);
    let (rest, parts) = scan_date(text, 6)?;
    let [year, month, day] = date_parts(&text[..text.len() - rest.len()]);
    let days = days(signed(negative, year), month, day)?;
    let midnight = days.checked_mul(DAY_MICROS)?;
    let (micros, zone) = match rest {
        [] => (0, rest),
        [b' ' | b'T', rest @ ..] if parts == 3 => scan_time(rest)?,
        _ => return None,
    };
    Some(Local {
        micros: midnight.checked_add(micros)?,
        zone,
    })
}

/// Checks `yyyy[-[m]m[-[d]d]]` and answers what follows it and how many parts there were.
fn scan_date(text: &[u8], max_year_digits: usize) -> Option<(&[u8], usize)> {
    let (year_digits, mut rest) = leading(text);
    if year_digits < 4 || year_digits > max_year_digits {
        return None;
    }
    let mut parts = 1;
    while let ([b'-', after @ ..], true) = (rest, parts < 3) {
        let digits;
        (digits, rest) = leading(after);
        if !(1..=2).contains(&digits) {
            return None;
        }
        parts += 1;
    }
    Some((rest, parts))
}

/// The numbers of a text that [`scan_date`] accepted; missing month and day are 1.
fn date_parts(date: &[u8]) -> [u32; 3] {
    let mut parts = [1; 3];
    for (part, digits) in parts.iter_mut().zip(date.split(|byte| *byte == b'-')) {
        *part = digits.iter().fold(0, |value, byte| {
            value * 10 + u32::from(byte.wrapping_sub(b'0'))
        });
    }
    parts
}

/// `[h]h[:[m]m[:[s]s[.fraction][zone]]]`: microseconds since midnight and the zone's text.
fn scan_time(text: &[u8]) -> Option<(i64, &[u8])> {
    let mut parts = [0u32; 3];
    let mut rest = text;
    for (index, part) in parts.iter_mut().enumerate() {
        if index > 0 {
            match rest {
                [] => break,
                [b':', after @ ..] => rest = after,
                _ => return None,
            }
        }
        let (digits, after) = leading(rest);
        if !(1..=2).contains(&digits) {
            return None;
        }
        *part = rest[..digits]
            .iter()
            .fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
        rest = after;
        if index < 2 && !matches!(rest, [] | [b':', ..]) {
            return None;
        }
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => scan_fraction(rest),
        rest => (0, rest),
    };
    Some((time_micros(parts[0], parts[1], parts[2], fraction)?, zone))
}

/// Microseconds of the leading digits (cut off after six) and what follows them.
fn scan_fraction(text: &[u8]) -> (i64, &[u8]) {
    const SCALE: [i64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let (digits, rest) = leading(text);
    let used = digits.min(6);
    let value = text[..used]
        .iter()
        .fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
    (value * SCALE[used], rest)
}

/// Number of leading digits and the text after them.
fn leading(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits, &text[digits..])
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    }
}

fn signed(negative: bool, year: u32) -> i64 {
    if negative {
        -i64::from(year)
    } else {
        i64::from(year)
    }
}

/// Without blanks and control characters at both ends.
fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| *byte <= b' ' || *byte == 0x7F;
    let start = text
        .iter()
        .position(|byte| !blank(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |last| last + 1);
    &text[start..end]
}

fn time_micros(hour: u32, minute: u32, second: u32, fraction: i64) -> Option<i64> {
    (hour < 24 && minute < 60 && second < 60)
        .then(|| i64::from(hour * 3600 + minute * 60 + second) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat};
    use proptest::prelude::*;

    use super::*;

    fn timestamp(text: &str) -> Option<String> {
        let micros = parse_timestamp(text.as_bytes(), Zone::Utc)?;
        Some(
            DateTime::from_timestamp_micros(micros)
                .expect("in range")
                .to_rfc3339_opts(SecondsFormat::Micros, true),
        )
    }

    #[test]
    fn timestamps_in_every_accepted_spelling() {
        for (text, expected) in [
            ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
            (
                "2026-01-02T03:04:05.123456789Z",
                "2026-01-02T03:04:05.123456Z",
            ),
            ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05.000000Z"),
            ("2026-01-02 03:04:05", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04", "2026-01-02T03:04:00.000000Z"),
            ("2026-01-02T03", "2026-01-02T03:00:00.000000Z"),
            ("2026-01-02", "2026-01-02T00:00:00.000000Z"),
            ("2026-1-2", "2026-01-02T00:00:00.000000Z"),
            ("2026-1-2 3:4:5", "2026-01-02T03:04:05.000000Z"),
            ("2026", "2026-01-01T00:00:00.000000Z"),
            ("2026-02", "2026-02-01T00:00:00.000000Z"),
            ("  2026-01-02T03:04:05.1\t", "2026-01-02T03:04:05.100000Z"),
            ("2026-01-02T03:04:05.", "2026-01-02T03:04:05.000000Z"),
            (
                "2026-01-02T03:04:05 Europe/Rome",
                "2026-01-02T02:04:05.000000Z",
            ),
            ("2026-01-02T03:04:05.5UTC", "2026-01-02T03:04:05.500000Z"),
            ("2026-01-02T03:04:05 GMT+1", "2026-01-02T02:04:05.000000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
            ("1582-10-10T00:00:00Z", "1582-10-10T00:00:00.000000Z"),
            ("+2026-01-02T00:00:00Z", "2026-01-02T00:00:00.000000Z"),
        ] {
            assert_eq!(timestamp(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn timestamps_in_other_spellings_are_refused() {
        for text in [
            "2026-02-30T00:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T23:59:60Z",
            "garbage",
            "",
            " ",
            "1767322800",
            "2026-01-02T",
            "2026-01-02Tx",
            "2026-01-02T03:04Z",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "26-01-02",
            "2026-01-02T03:04:05 Nowhere/City",
            "2026-01-02X03:04:05",
            "12:30:00",
            "T12:30:00",
            "2026-01-02-03",
            "2026-001-02",
            "2026-01-02T03:04:05.1.2",
            "2026/01/02",
            "999999-01-01",
            "2026-01 03:04:05",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_without_zone_are_read_in_the_session_zone() {
        let rome = Zone::Region(chrono_tz::Europe::Rome);
        let text = b"2026-07-01T12:00:00";
        let utc = parse_timestamp(text, Zone::Utc).expect("good");
        assert_eq!(parse_timestamp(text, rome), Some(utc - 7_200_000_000));
        assert_eq!(parse_timestamp(b"2026-07-01T12:00:00Z", rome), Some(utc));
        assert_eq!(parse_timestamp_ntz(text, false), Some(utc));
        assert_eq!(parse_timestamp_ntz(b"2026-07-01T12:00:00Z", false), None);
        assert_eq!(
            parse_timestamp_ntz(b"2026-07-01T12:00:00+02:00", true),
            Some(utc)
        );
    }

    #[test]
    fn dates_in_accepted_and_other_spellings() {
        let day = |y, m, d| {
            Some(
                NaiveDate::from_ymd_opt(y, m, d)
                    .expect("a day")
                    .num_days_from_ce()
                    - 719_163,
            )
        };
        assert_eq!(parse_date(b"2026-01-31"), day(2026, 1, 31));
        assert_eq!(parse_date(b"2026-1-5"), day(2026, 1, 5));
        assert_eq!(parse_date(b"2026"), day(2026, 1, 1));
        assert_eq!(parse_date(b"2026-02"), day(2026, 2, 1));
        assert_eq!(parse_date(b"2026-01-02T10:00:00Z"), day(2026, 1, 2));
        assert_eq!(parse_date(b"2026-01-02 whatever"), day(2026, 1, 2));
        assert_eq!(parse_date(b"-0001-01-01"), day(-1, 1, 1));
        assert_eq!(parse_date(b" 2024-02-29 "), day(2024, 2, 29));
        for text in [
            "02/01/2026",
            "2026-02-29",
            "2026T",
            "2026-01-",
            "2026-1-5-6",
            "",
            "-",
            "26-01-01",
            "2026-01-023",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn timestamps_written_by_chrono_are_read_back(seconds in -62_135_596_800i64..253_402_300_799, nanos in 0u32..1_000_000_000) {
            let written = DateTime::from_timestamp(seconds, nanos).expect("in range");
            for format in [SecondsFormat::Micros, SecondsFormat::Nanos] {
                let text = written.to_rfc3339_opts(format, true);
                prop_assert_eq!(parse_timestamp(text.as_bytes(), Zone::Utc), Some(written.timestamp_micros()));
            }
        }

        #[test]
        fn the_fixed_shape_agrees_with_the_general_one(text in "[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,9})?Z?") {
            let general = free_shape(text.as_bytes()).map(|local| local.micros);
            prop_assert_eq!(fixed_shape(text.as_bytes()).map(|local| local.micros), general);
        }

        #[test]
        fn time_texts_of_any_kind_never_panic(text in "[-+0-9TZ:. /a]{0,40}") {
            let _ = (parse_date(text.as_bytes()), parse_timestamp(text.as_bytes(), Zone::Utc));
            let _ = parse_timestamp_ntz(text.as_bytes(), true);
        }
    }
}
