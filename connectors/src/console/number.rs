//! Floating point numbers as Java writes them, which is how Spark shows them.

use std::fmt::{LowerExp, Write as _};
use std::str::FromStr;

/// Appends a DOUBLE: `1.5`, `1.0E7`, `NaN`, `-Infinity`.
pub(super) fn push_f64(out: &mut String, value: f64) {
    if value.is_finite() {
        push_finite(out, value);
    } else {
        out.push_str(special(value.is_nan(), value.is_sign_negative()));
    }
}

/// Appends a FLOAT; as many digits as tell it from its neighbours of 32 bits.
pub(super) fn push_f32(out: &mut String, value: f32) {
    if value.is_finite() {
        push_finite(out, value);
    } else {
        out.push_str(special(value.is_nan(), value.is_sign_negative()));
    }
}

fn special(nan: bool, negative: bool) -> &'static str {
    match (nan, negative) {
        (true, _) => "NaN",
        (false, true) => "-Infinity",
        (false, false) => "Infinity",
    }
}

/// Java's rule: plain digits for 0 and from 0.001 to below 10 000 000, else `d.dddEn`; at least one digit on each side
/// of the point, otherwise as few as possible.
fn push_finite<F: LowerExp + FromStr + PartialEq + Copy>(out: &mut String, value: F) {
    let text = scientific(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.push_str(sign);
    if whole != "0" && !(-3..7).contains(&exponent) {
        let fraction = if fraction.is_empty() { "0" } else { fraction };
        write!(out, "{whole}.{fraction}E{exponent}")
            .expect("invariant: writing to a string cannot fail");
        return;
    }
    push_plain(out, &format!("{whole}{fraction}"), exponent);
}

/// Digits with the point after the digit of `exponent`.
fn push_plain(out: &mut String, digits: &str, exponent: i32) {
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(digits);
        return;
    }
    let before = usize::try_from(exponent).unwrap_or(0) + 1;
    let (whole, fraction) = digits.split_at(before.min(digits.len()));
    out.push_str(whole);
    (whole.len()..before).for_each(|_| out.push('0'));
    out.push('.');
    out.push_str(if fraction.is_empty() { "0" } else { fraction });
}

/// The shortest digits that mean the value; where one would do, the best two that still mean it (`4.9e-324`).
fn scientific<F: LowerExp + FromStr + PartialEq>(value: F) -> String {
    let shortest = format!("{value:e}");
    if shortest.contains('.') {
        return shortest;
    }
    let two = format!("{value:.1e}");
    match two.parse::<F>() {
        Ok(parsed) if parsed == value && !two.contains(".0e") => two,
        _ => shortest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = String::new();
        push_f64(&mut out, value);
        out
    }

    fn float(value: f32) -> String {
        let mut out = String::new();
        push_f32(&mut out, value);
        out
    }

    #[test]
    fn doubles_are_written_as_java_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (1.5, "1.5"),
            (100.0, "100.0"),
            (123.456, "123.456"),
            (-12.0, "-12.0"),
            (0.001, "0.001"),
            (0.012_34, "0.01234"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (9_999_999.5, "9999999.5"),
            (1e7, "1.0E7"),
            (-1.234_567_8e10, "-1.2345678E10"),
            (1e23, "1.0E23"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn floats_have_the_digits_of_32_bits() {
        for (value, text) in [
            (0.1_f32, "0.1"),
            (1e7, "1.0E7"),
            (16_777_216.0, "1.6777216E7"),
            (1e-45, "1.4E-45"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
