//! DECIMAL(p, s) from text, exact, rounding half up.

/// Most digits a 128-bit decimal holds.
const MAX_DIGITS: usize = 38;

/// 10^0 ..= 10^38.
const POWERS: [u128; MAX_DIGITS + 1] = powers();

const fn powers() -> [u128; MAX_DIGITS + 1] {
    let mut table = [1u128; MAX_DIGITS + 1];
    let mut exponent = 1;
    while exponent <= MAX_DIGITS {
        table[exponent] = table[exponent - 1] * 10;
        exponent += 1;
    }
    table
}

/// The parts of `[sign] digits [. digits] [e exponent]`.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// The unscaled value of `text` as DECIMAL(`precision`, `scale`): `"12.345"` at scale 2 is `1235`.
///
/// More fraction digits than `scale` round half up (away from zero). `None` when the text is not a decimal number or the
/// rounded value has more than `precision` digits.
pub fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let parts = split(text)?;
    let limit = *POWERS.get(usize::from(precision))?;
    // value = digits * 10^(exponent - fraction.len()); unscaled = value * 10^scale.
    let shift = parts.exponent - parts.fraction.len() as i64 + i64::from(scale);
    let magnitude = scaled(&parts, shift)?;
    if magnitude >= limit {
        return None;
    }
    let unscaled = i128::try_from(magnitude).ok()?;
    Some(if parts.negative { -unscaled } else { unscaled })
}

fn split(text: &[u8]) -> Option<Parts<'_>> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let (whole, rest) = rest.split_at(count_digits(rest));
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(count_digits(rest)),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [b'e' | b'E', exponent @ ..] => i64::from(super::parse_i32(exponent)?),
        _ => return None,
    };
    Some(Parts {
        negative,
        whole,
        fraction,
        exponent,
    })
}

fn count_digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// `digits * 10^shift`, rounded half up when `shift` is negative; `None` above 38 digits.
fn scaled(parts: &Parts<'_>, shift: i64) -> Option<u128> {
    let total = parts.whole.len() + parts.fraction.len();
    let dropped = usize::try_from(shift.saturating_neg()).unwrap_or(0);
    if dropped > total {
        return Some(0);
    }
    let mut digits = parts
        .whole
        .iter()
        .chain(parts.fraction)
        .map(|byte| u128::from(byte - b'0'));
    let mut value = 0u128;
    for digit in digits.by_ref().take(total - dropped) {
        if value >= POWERS[MAX_DIGITS - 1] {
            return None;
        }
        value = value * 10 + digit;
    }
    if digits
        .next()
        .is_some_and(|first_dropped| first_dropped >= 5)
    {
        value += 1;
    }
    match usize::try_from(shift) {
        Ok(zeros) if value > 0 => value.checked_mul(*POWERS.get(zeros)?),
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
        parse_decimal(text.as_bytes(), precision, scale)
    }

    #[test]
    fn decimals_round_half_up_away_from_zero() {
        assert_eq!(decimal("12.345", 7, 2), Some(1235));
        assert_eq!(decimal("12.344", 7, 2), Some(1234));
        assert_eq!(decimal("-0.005", 7, 2), Some(-1));
        assert_eq!(decimal("1.005", 10, 2), Some(101));
        assert_eq!(decimal("0.0049", 7, 2), Some(0));
        assert_eq!(decimal("5", 3, -1), Some(1));
    }

    #[test]
    fn decimals_that_do_not_fit_are_refused() {
        assert_eq!(decimal("99999.995", 7, 2), None);
        assert_eq!(decimal("1234567.1", 7, 2), None);
        assert_eq!(decimal("99999.994", 7, 2), Some(9_999_999));
        assert_eq!(decimal(&"9".repeat(38), 38, 0), Some(10i128.pow(38) - 1));
        assert_eq!(decimal(&"9".repeat(39), 38, 0), None);
        assert_eq!(decimal("1e40", 38, 0), None);
    }

    #[test]
    fn decimals_with_exponent_and_long_zero_runs() {
        assert_eq!(decimal("1e3", 10, 2), Some(100_000));
        assert_eq!(decimal("125E-3", 10, 2), Some(13));
        assert_eq!(decimal(&format!("{}1.5", "0".repeat(60)), 10, 1), Some(15));
        assert_eq!(decimal(&format!("0.{}", "1".repeat(60)), 10, 3), Some(111));
        assert_eq!(decimal("0e999999", 10, 3), Some(0));
        assert_eq!(decimal("1e-999999", 10, 3), Some(0));
    }

    #[test]
    fn decimals_with_anything_else_are_refused() {
        for text in ["", "-", ".", "1,5", "1.5x", "e5", "1e", "NaN", " 1"] {
            assert_eq!(decimal(text, 10, 2), None, "{text}");
        }
        assert_eq!(decimal("+.5", 10, 2), Some(50));
        assert_eq!(decimal("5.", 10, 2), Some(500));
    }

    proptest! {
        #[test]
        fn decimals_with_two_fraction_digits_are_exact(unscaled in -(10i128.pow(30))..10i128.pow(30)) {
            let sign = if unscaled < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:02}", unscaled.abs() / 100, unscaled.abs() % 100);
            prop_assert_eq!(decimal(&text, 38, 2), Some(unscaled));
        }

        #[test]
        fn decimals_of_any_text_never_panic(text in "[-+0-9.eE]{0,60}", precision in 0u8..=50, scale: i8) {
            let _ = decimal(&text, precision, scale);
        }
    }
}
