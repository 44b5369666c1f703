//! Numbers at the cursor.

use super::{
    super::parse::{parse_i64, words},
    cursor::{Cursor, Syntax},
};

/// A number token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number<'a> {
    /// Digits only.
    Whole(&'a [u8]),
    /// With a fraction or an exponent.
    Fractional(&'a [u8]),
    /// `NaN`, `Infinity` and their like.
    Special(f64),
}

/// Bare spellings of the numbers that are none.
const SPECIAL: [(&[u8], f64); 6] = [
    (b"NaN", f64::NAN),
    (b"Infinity", f64::INFINITY),
    (b"+Infinity", f64::INFINITY),
    (b"+INF", f64::INFINITY),
    (b"-Infinity", f64::NEG_INFINITY),
    (b"-INF", f64::NEG_INFINITY),
];

/// The value of a *quoted* special number; `INF` alone is none, as in Spark.
pub(super) fn special_text(text: &[u8]) -> Option<f64> {
    SPECIAL
        .iter()
        .find(|(spelling, _)| *spelling == text)
        .map(|(_, value)| *value)
}

/// Whether a value that begins with `byte` is a number.
#[inline]
pub(super) fn starts_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'N' | b'I')
}

impl<'a> Cursor<'a> {
    /// The whole number at the position; `None` (passed) when it is fractional or outside the 64-bit range.
    ///
    /// Up to fifteen digits are read without looking at them one by one.
    #[inline]
    pub(super) fn whole_number(&mut self) -> Result<Option<i64>, Syntax> {
        match self.short_whole_number() {
            Some((value, end)) => {
                self.pos = end;
                Ok(Some(value))
            }
            None => self.long_whole_number(),
        }
    }

    /// Value and end of a whole number of up to fifteen digits; `None` for anything else.
    #[inline]
    pub(super) fn short_whole_number(&self) -> Option<(i64, usize)> {
        let negative = self.peek()? == b'-';
        let start = self.pos + usize::from(negative);
        let first = words::word_or_end(self.text, start);
        let mut count = words::leading_digits(first);
        if count == 0 || (first as u8 == b'0' && count > 1) {
            return None;
        }
        let mut value = words::digits_value(first, count);
        if count == 8 {
            let second = words::word_or_end(self.text, start + 8);
            let more = words::leading_digits(second);
            if more == 8 {
                return None;
            }
            if more > 0 {
                value = value * POWERS[more] + words::digits_value(second, more);
            }
            count += more;
        }
        let end = start + count;
        if matches!(self.text.get(end), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        let value = value as i64;
        Some((if negative { -value } else { value }, end))
    }

    #[cold]
    #[inline(never)]
    fn long_whole_number(&mut self) -> Result<Option<i64>, Syntax> {
        Ok(match self.number()? {
            Number::Whole(digits) => parse_i64(digits),
            Number::Fractional(_) | Number::Special(_) => None,
        })
    }

    fn special_number(&mut self) -> Result<Number<'a>, Syntax> {
        let rest = &self.text[self.pos..];
        let (spelling, value) = SPECIAL
            .iter()
            .find(|(spelling, _)| {
                self.options.allow_non_numeric_numbers && rest.starts_with(spelling)
            })
            .ok_or(Syntax::BadNumber)?;
        self.pos += spelling.len();
        Ok(Number::Special(*value))
    }

    /// The number at the position, with its grammar checked.
    pub(super) fn number(&mut self) -> Result<Number<'a>, Syntax> {
        let rest = &self.text[self.pos..];
        if let [b'N' | b'I' | b'+', ..] | [b'-', b'I', ..] = rest {
            return self.special_number();
        }
        let negative = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(rest, negative);
        if whole == 0 {
            return Err(Syntax::BadNumber);
        }
        if whole > 1 && rest[negative] == b'0' && !self.options.allow_numeric_leading_zeros {
            return Err(Syntax::BadNumber);
        }
        let mut end = negative + whole;
        let mut fractional = false;
        if rest.get(end) == Some(&b'.') {
            end = required_digits(rest, end + 1)?;
            fractional = true;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            end = required_digits(rest, end + 1 + sign)?;
            fractional = true;
        }
        if end > self.options.max_number_length {
            return Err(Syntax::NumberTooLong);
        }
        self.pos += end;
        Ok(if fractional {
            Number::Fractional(&rest[..end])
        } else {
            Number::Whole(&rest[..end])
        })
    }
}

/// 10^0 ..= 10^7.
const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Number of digits from `start` on.
fn digits(text: &[u8], start: usize) -> usize {
    text[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// End of the run of at least one digit at `start`.
fn required_digits(text: &[u8], start: usize) -> Result<usize, Syntax> {
    match digits(text, start.min(text.len())) {
        0 => Err(Syntax::BadNumber),
        count => Ok(start + count),
    }
}
