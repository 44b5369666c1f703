//! Text as values the way Spark's `CAST('…' AS T)` reads it. Every function gives `None` for text that is no such value.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

/// Spark trims blanks and ISO control characters before it reads anything but text.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ' || c == '\u{7f}')
}

/// A whole number: digits with an optional sign, nothing behind the point.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let t = trimmed(text);
    let digits = t.strip_prefix(['+', '-']).unwrap_or(t);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    t.strip_prefix('+').unwrap_or(t).parse().ok()
}

/// A DOUBLE: Java's spellings, `NaN`, `Infinity`, `inf`, and a trailing `d` or `f`.
pub(crate) fn double(text: &str) -> Option<f64> {
    let t = trimmed(text);
    let lower = t.to_ascii_lowercase();
    match lower.as_str() {
        "nan" => return Some(f64::NAN),
        "inf" | "+inf" | "infinity" | "+infinity" => return Some(f64::INFINITY),
        "-inf" | "-infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let number = lower.strip_suffix(['d', 'f']).unwrap_or(&lower);
    if !number
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'))
    {
        return None;
    }
    number.parse().ok()
}

/// A decimal as (unscaled value, digits behind the point), exponents included.
fn decimal_parts(text: &str) -> Option<(i128, i32)> {
    let t = trimmed(text);
    let (number, exponent) = match t.split_once(['e', 'E']) {
        Some((n, e)) => (n, e.strip_prefix('+').unwrap_or(e).parse::<i32>().ok()?),
        None => (t, 0),
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty())
        || !whole
            .bytes()
            .chain(fraction.bytes())
            .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let unscaled: i128 = if significant.is_empty() {
        0
    } else {
        significant.parse().ok()?
    };
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some((if negative { -unscaled } else { unscaled }, scale))
}

/// A decimal at `scale`, rounded half up; `Err(())` if it has more digits than `precision`.
pub(crate) fn decimal(text: &str, precision: u8, scale: i8) -> Option<Result<i128, ()>> {
    let (unscaled, have) = decimal_parts(text)?;
    Some(round_decimal(unscaled, have, precision, scale).ok_or(()))
}

/// `unscaled` with `have` digits behind the point brought to `scale`, half up; `None` if it does not fit `precision`.
pub(crate) fn round_decimal(unscaled: i128, have: i32, precision: u8, scale: i8) -> Option<i128> {
    let down = have - i32::from(scale);
    let value = if unscaled == 0 || down > 40 {
        0
    } else if down <= 0 {
        unscaled.checked_mul(10i128.checked_pow(down.unsigned_abs())?)?
    } else if down > 38 {
        0
    } else {
        let unit = 10i128.pow(down.unsigned_abs());
        let (quotient, rest) = (unscaled / unit, unscaled % unit);
        quotient
            + if rest.unsigned_abs() >= unit.unsigned_abs() - unit.unsigned_abs() / 2 {
                unscaled.signum()
            } else {
                0
            }
    };
    (value.unsigned_abs() < 10u128.pow(u32::from(precision))).then_some(value)
}

/// `true`, `t`, `yes`, `y`, `1` and their opposites.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match trimmed(text).to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn number(part: &str, min: usize, max: usize) -> Option<u32> {
    ((min..=max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
        .then(|| part.parse().ok())?
}

/// `yyyy`, `yyyy-m`, `yyyy-m-d`, with an optional sign and up to 7 digits of year.
fn date_part(text: &str) -> Option<NaiveDate> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = body.split('-');
    let year = i32::try_from(number(parts.next()?, 4, 7)?).ok()?;
    let month = parts.next().map_or(Some(1), |p| number(p, 1, 2))?;
    let day = parts.next().map_or(Some(1), |p| number(p, 1, 2))?;
    if parts.next().is_some() {
        return None;
    }
    NaiveDate::from_ymd_opt(if negative { -year } else { year }, month, day)
}

/// A DATE in days since 1970; a time of day behind `T` or a blank is ignored.
pub(crate) fn date(text: &str) -> Option<i32> {
    let t = trimmed(text);
    let end = t.find(['T', ' ']).unwrap_or(t.len());
    days_since_epoch(date_part(&t[..end])?)
}

/// Days since 1970.
pub(crate) fn days_since_epoch(date: NaiveDate) -> Option<i32> {
    use chrono::Datelike;
    Some(date.num_days_from_ce() - 719_163)
}

/// `h:m[:s[.f]]`; digits beyond the sixth are cut. Hours and minutes of one or two digits.
fn time_part(text: &str) -> Option<NaiveTime> {
    let mut parts = text.split(':');
    let hour = number(parts.next()?, 1, 2)?;
    let minute = parts.next().map_or(Some(0), |p| number(p, 1, 2))?;
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (s, f) = seconds.split_once('.').unwrap_or((seconds, ""));
            if !f.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (number(s, 1, 2)?, format!("{f:0<6.6}").parse().ok()?)
        }
    };
    if parts.next().is_some() {
        return None;
    }
    NaiveTime::from_hms_micro_opt(hour, minute, second, fraction)
}

/// A zone: `Z`, `UTC`, `GMT`, `+h[h][:mm[:ss]]`, `UTC+h`, or a region. Turns local time into microseconds since 1970.
fn at_zone(local: NaiveDateTime, zone: &str) -> Option<i64> {
    let utc = local.and_utc().timestamp_micros();
    let zone = zone.trim();
    let bare = ["UTC", "GMT", "UT"]
        .iter()
        .find_map(|p| zone.strip_prefix(p))
        .unwrap_or(zone);
    if bare.is_empty() || bare == "Z" {
        return Some(utc);
    }
    if let Some(offset) = bare.strip_prefix(['+', '-']) {
        let mut parts = offset.split(':');
        let hours = i64::from(number(parts.next()?, 1, 2)?);
        let minutes = parts
            .next()
            .map_or(Some(0), |p| number(p, 1, 2))
            .map(i64::from)?;
        let seconds = parts
            .next()
            .map_or(Some(0), |p| number(p, 1, 2))
            .map(i64::from)?;
        let total = hours * 3600 + minutes * 60 + seconds;
        if total > 18 * 3600 || parts.next().is_some() {
            return None;
        }
        return Some(if bare.starts_with('-') {
            utc + total * 1_000_000
        } else {
            utc - total * 1_000_000
        });
    }
    local_to_utc(local, zone.parse().ok()?)
}

/// Local time of a region in microseconds since 1970; in a gap the clock is read with the offset before it.
pub(crate) fn local_to_utc(local: NaiveDateTime, zone: chrono_tz::Tz) -> Option<i64> {
    if let Some(t) = zone.from_local_datetime(&local).earliest() {
        return Some(t.timestamp_micros());
    }
    let before = local.checked_sub_signed(chrono::TimeDelta::hours(3))?;
    let offset = before - zone.from_local_datetime(&before).earliest()?.naive_utc();
    Some((local - offset).and_utc().timestamp_micros())
}

/// A TIMESTAMP (`zoned`) or TIMESTAMP_NTZ in microseconds since 1970; without a zone the session's, which is UTC.
pub(crate) fn timestamp(text: &str, zoned: bool) -> Option<i64> {
    let t = trimmed(text);
    let Some(split) = t.find(['T', ' ']) else {
        return Some(
            date_part(t)?
                .and_hms_opt(0, 0, 0)?
                .and_utc()
                .timestamp_micros(),
        );
    };
    let (day, rest) = (date_part(&t[..split])?, &t[split + 1..]);
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'))
        .unwrap_or(rest.len());
    let local = day.and_time(time_part(&rest[..end])?);
    let zone = &rest[end..];
    match (zone.is_empty(), zoned) {
        (true, _) => Some(local.and_utc().timestamp_micros()),
        (false, true) => at_zone(local, zone),
        (false, false) => at_zone(local, zone).map(|_| local.and_utc().timestamp_micros()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_more_digits_than_scale_rounds_half_up() {
        assert_eq!(decimal("0.005", 6, 2), Some(Ok(1)));
        assert_eq!(decimal("-0.005", 6, 2), Some(Ok(-1)));
        assert_eq!(decimal("12345.678", 6, 2), Some(Err(())));
        assert_eq!(decimal("1e3", 6, 2), Some(Ok(100_000)));
        assert_eq!(decimal("1d", 6, 2), None);
    }

    #[test]
    fn timestamp_spellings_of_spark_are_read() {
        let micros = 1_767_323_045_000_000;
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02 03:04:05",
            "2026-1-2 3:4:5",
            "2026-01-02T04:04:05+01:00",
        ] {
            assert_eq!(timestamp(text, true), Some(micros), "{text}");
        }
        for text in [
            "soon",
            "",
            "2026-02-30",
            "2026-01-02T24:00:00",
            "2026-01-02T23:59:60Z",
        ] {
            assert_eq!(timestamp(text, true), None, "{text}");
        }
    }
}
