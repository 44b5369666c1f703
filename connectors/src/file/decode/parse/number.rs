//! Whole numbers, floating-point numbers and booleans.
//!
//! Digits are read eight at a time inside one machine word (SWAR): ids and prices are the bulk of every file.

use super::words::{digits_value, leading_digits, word_at};

/// Unsigned digits only, at least one; `None` above `u64::MAX`.
fn parse_digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    let mut at = 0;
    while let Some(word) = word_at(text, at) {
        if leading_digits(word) != 8 {
            return None;
        }
        value = value
            .checked_mul(100_000_000)?
            .checked_add(digits_value(word, 8))?;
        at += 8;
    }
    for byte in &text[at..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A whole number in decimal digits with an optional sign; no blanks, no fraction. `None` outside the 64-bit range.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(parse_digits(digits)?),
        [b'+', digits @ ..] | digits => i64::try_from(parse_digits(digits)?).ok(),
    }
}

/// As [`parse_i64`], within the 32-bit range.
pub fn parse_i32(text: &[u8]) -> Option<i32> {
    i32::try_from(parse_i64(text)?).ok()
}

/// As [`parse_i64`], within the 16-bit range.
pub fn parse_i16(text: &[u8]) -> Option<i16> {
    i16::try_from(parse_i64(text)?).ok()
}

/// As [`parse_i64`], within the 8-bit range.
pub fn parse_i8(text: &[u8]) -> Option<i8> {
    i8::try_from(parse_i64(text)?).ok()
}

/// Decimal text (`12`, `-1.5`, `1e3`, `.5`), correctly rounded; too large gives an infinity as in Java. The words `NaN`
/// and `Infinity` are not read here: which spellings count is an option of the format.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    is_decimal_shape(text)
        .then(|| lexical_core::parse(text).ok())
        .flatten()
}

/// As [`parse_f64`], rounded once to 32 bits.
pub fn parse_f32(text: &[u8]) -> Option<f32> {
    is_decimal_shape(text)
        .then(|| lexical_core::parse(text).ok())
        .flatten()
}

/// Excludes the words for infinity and not-a-number; the rest of the grammar is the parser's.
fn is_decimal_shape(text: &[u8]) -> bool {
    let unsigned = match text {
        [b'-' | b'+', rest @ ..] => rest,
        _ => text,
    };
    unsigned
        .first()
        .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// `true` or `false` in any letter case; nothing else.
pub fn parse_bool(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_at_the_limits_of_each_width() {
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"99999999999999999999999"), None);
        assert_eq!(parse_i32(b"2147483648"), None);
        assert_eq!(parse_i16(b"-32768"), Some(i16::MIN));
        assert_eq!(parse_i8(b"128"), None);
        assert_eq!(parse_i64(b"0000000000000000000000005"), Some(5));
    }

    #[test]
    fn integers_with_anything_else_are_refused() {
        for text in [
            "",
            "-",
            "+",
            "1.0",
            "1e3",
            " 1",
            "1 ",
            "12345678x",
            "1234567x",
            "--1",
            "\u{661}",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_i64(b"+7"), Some(7));
        assert_eq!(parse_i64(b"-0"), Some(0));
    }

    #[test]
    fn floats_are_correctly_rounded() {
        assert_eq!(parse_f64(b"1e3"), Some(1000.0));
        assert_eq!(parse_f64(b"9007199254740993"), Some(9007199254740992.0));
        assert_eq!(parse_f64(b"-.5"), Some(-0.5));
        assert_eq!(parse_f64(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_f32(b"16777217"), Some(16_777_216.0));
        for text in ["", "-", "NaN", "inf", "-Infinity", "1x", "1 ", "0x1p3"] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn booleans_in_any_case() {
        assert_eq!(parse_bool(b"TRUE"), Some(true));
        assert_eq!(parse_bool(b"False"), Some(false));
        assert_eq!(parse_bool(b"yes"), None);
        assert_eq!(parse_bool(b""), None);
    }

    proptest! {
        #[test]
        fn integers_written_by_rust_are_read_back(value: i64) {
            prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn integers_agree_with_the_standard_library(text in "[-+]?[0-9a]{0,24}") {
            prop_assert_eq!(parse_i64(text.as_bytes()), text.parse::<i64>().ok());
        }

        #[test]
        fn floats_agree_with_the_standard_library(value: f64) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(parse_f64(format!("{value:e}").as_bytes()), Some(value));
        }
    }
}
