//! Text as values the way Spark's `CAST('…' AS T)` reads it. Every function gives `None` for text that is no such value.

use std::borrow::Cow;

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

/// The text with the digits of other scripts, which Java's decimals know, as ASCII digits.
fn with_ascii_digits(text: &str) -> Cow<'_, str> {
    const ZEROS: [u32; 36] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
        0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
        0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0,
        0xff10,
    ];
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let ascii = |c: char| {
        let code = u32::from(c);
        let zero = ZEROS
            .iter()
            .find(|zero| (**zero..**zero + 10).contains(&code));
        zero.and_then(|zero| char::from_digit(code - zero, 10))
            .unwrap_or(c)
    };
    Cow::Owned(text.chars().map(ascii).collect())
}

/// A decimal as (unscaled value, digits behind the point), exponents included.
fn decimal_parts(text: &str) -> Option<(i128, i32)> {
    let text = with_ascii_digits(trimmed(text));
    let t = text.as_ref();
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
}
