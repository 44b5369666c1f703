//! Interval literals: `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL 5 SECONDS`, `INTERVAL '5 seconds'`.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{DateTimeField, Expr, Interval, Value};

use super::hooks::hook;
use crate::functions::error::SparkError;
use crate::functions::intervals::{DAY_MICROS, decimal_micros, parse_interval};

/// `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL 5 SECONDS`, `INTERVAL '5 seconds'`.
pub(super) fn interval_literal(interval: &Interval) -> Result<Expr> {
    let bad = |text: &str| {
        SparkError::external(
            "INVALID_INTERVAL_FORMAT",
            format!("'{text}' is no interval: {interval}"),
        )
    };
    let text = match interval.value.as_ref() {
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            other => return Err(bad(&other.to_string())),
        },
        Expr::Dictionary(fields) => match fields
            .first()
            .and_then(|f| f.key.value.strip_prefix("num:"))
        {
            Some(digits) => digits.to_owned(),
            None => return Err(bad(&interval.value.to_string())),
        },
        other => return Err(bad(&other.to_string())),
    };
    let Some(first) = &interval.leading_field else {
        let (months, days, micros) = parse_interval(&text).ok_or_else(|| bad(&text))?;
        return Ok(match units(&text) {
            (Some(label), None) => hook(format!("months:{months} {label}"), []),
            (None, Some(label)) => {
                let whole = i64::from(days).checked_mul(DAY_MICROS);
                let all = whole.and_then(|days| days.checked_add(micros));
                let all = all.ok_or_else(|| bad(&text))?;
                hook(format!("micros:{all} {label}"), [])
            }
            _ => hook(format!("calendar:{months} {days} {micros}"), []),
        });
    };
    let unit = |f: &DateTimeField| {
        f.to_string()
            .to_uppercase()
            .trim_end_matches('S')
            .to_owned()
    };
    let (from, to) = (unit(first), interval.last_field.as_ref().map(unit));
    let label = to
        .as_ref()
        .map_or_else(|| from.clone(), |to| format!("{from} TO {to}"));
    if matches!(from.as_str(), "YEAR" | "MONTH") {
        let months = year_month(&text, &from, to.as_deref()).ok_or_else(|| bad(&text))?;
        return Ok(hook(format!("months:{months} {label}"), []));
    }
    let micros = day_time(&text, &from, to.as_deref()).ok_or_else(|| bad(&text))?;
    Ok(hook(format!("micros:{micros} {label}"), []))
}

/// The fields of an interval of several units, those of months and those of days: `DAY TO SECOND`.
fn units(text: &str) -> (Option<String>, Option<String>) {
    let lower = text.to_lowercase();
    let place = |unit: &str| match unit.strip_suffix('s').unwrap_or(unit) {
        "year" => Some((0, 0)),
        "month" => Some((0, 1)),
        "week" | "day" => Some((1, 0)),
        "hour" => Some((1, 1)),
        "minute" => Some((1, 2)),
        "second" | "millisecond" | "microsecond" => Some((1, 3)),
        _ => None,
    };
    let found: Vec<(usize, usize)> = lower.split_ascii_whitespace().filter_map(place).collect();
    let label = |kind: usize, names: &[&str]| {
        let places = || found.iter().filter(|f| f.0 == kind).map(|f| f.1);
        let (first, last) = (places().min()?, places().max()?);
        Some(match first == last {
            true => names[first].to_owned(),
            false => format!("{} TO {}", names[first], names[last]),
        })
    };
    (
        label(0, &["YEAR", "MONTH"]),
        label(1, &["DAY", "HOUR", "MINUTE", "SECOND"]),
    )
}

fn signed(text: &str) -> (i64, &str) {
    match text.trim().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim().trim_start_matches('+')),
    }
}

fn year_month(text: &str, from: &str, to: Option<&str>) -> Option<i64> {
    let (sign, text) = signed(text);
    let months = match (from, to) {
        ("YEAR", Some(_)) => {
            let (y, m) = text.split_once('-')?;
            y.parse::<i64>()
                .ok()?
                .checked_mul(12)?
                .checked_add(m.parse().ok()?)?
        }
        ("YEAR", None) => text.parse::<i64>().ok()?.checked_mul(12)?,
        _ => text.parse().ok()?,
    };
    Some(sign * months)
}

fn day_time(text: &str, from: &str, to: Option<&str>) -> Option<i64> {
    let (sign, text) = signed(text);
    if to.is_none() {
        return Some(sign * unit_micros(text, from)?);
    }
    let (days, clock) = match from {
        "DAY" => text.split_once(' ')?,
        _ => ("0", text),
    };
    let first = match from {
        "DAY" | "HOUR" => 0,
        "MINUTE" => 1,
        _ => 2,
    };
    let mut micros = days.parse::<i64>().ok()?.checked_mul(DAY_MICROS)?;
    for (i, part) in clock.split(':').enumerate() {
        micros = micros.checked_add(unit_micros(
            part,
            ["HOUR", "MINUTE", "SECOND"].get(first + i)?,
        )?)?;
    }
    Some(sign * micros)
}

fn unit_micros(text: &str, unit: &str) -> Option<i64> {
    let size = match unit {
        "WEEK" => 7 * DAY_MICROS,
        "DAY" => DAY_MICROS,
        "HOUR" => 3_600_000_000,
        "MINUTE" => 60_000_000,
        "SECOND" => return decimal_micros(text),
        "MILLISECOND" => 1000,
        "MICROSECOND" => 1,
        _ => return None,
    };
    text.parse::<i64>().ok()?.checked_mul(size)
}
