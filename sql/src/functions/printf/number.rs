//! Numbers as decimal digits, rounded half up as Java's `Formatter` rounds.

/// A number as its digits: `0.d1d2d3… × 10^exponent`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    pub(super) negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

impl Number {
    /// A double in the shortest digits that tell it from others, as Java prints it.
    pub(super) fn of_double(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once('E').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse().unwrap_or(0) + whole.len() as i32;
        Self::normal(negative, whole.bytes().chain(fraction.bytes()), exponent)
    }

    pub(super) fn of_decimal(unscaled: i128, scale: i8) -> Self {
        let digits = unscaled.unsigned_abs().to_string();
        let exponent = digits.len() as i32 - i32::from(scale);
        Self::normal(unscaled < 0, digits.bytes(), exponent)
    }

    fn normal(negative: bool, digits: impl Iterator<Item = u8>, exponent: i32) -> Self {
        let mut digits: Vec<u8> = digits.map(|d| d - b'0').collect();
        let zeros = digits.iter().take_while(|d| **d == 0).count();
        digits.drain(..zeros);
        let exponent = if digits.is_empty() {
            1
        } else {
            exponent - zeros as i32
        };
        Self {
            negative,
            digits,
            exponent,
        }
    }

    /// The number with so many digits, rounded half up.
    fn cut(&self, count: i32) -> Self {
        let mut cut = self.clone();
        let Ok(count) = usize::try_from(count) else {
            (cut.digits, cut.exponent) = (vec![], 1);
            return cut;
        };
        if count >= cut.digits.len() {
            return cut;
        }
        let up = cut.digits[count] >= 5;
        cut.digits.truncate(count);
        if up {
            let mut at = count;
            loop {
                if at == 0 {
                    cut.digits.insert(0, 1);
                    cut.exponent += 1;
                    break;
                }
                at -= 1;
                if cut.digits[at] < 9 {
                    cut.digits[at] += 1;
                    break;
                }
                cut.digits[at] = 0;
            }
        }
        cut
    }

    fn digit(&self, at: i32) -> char {
        let digit = usize::try_from(at).ok().and_then(|at| self.digits.get(at));
        char::from(b'0' + digit.copied().unwrap_or(0))
    }

    pub(super) fn fixed(&self, places: usize) -> String {
        let cut = self.cut(self.exponent.saturating_add(places as i32));
        let mut out: String = (0..cut.exponent).map(|at| cut.digit(at)).collect();
        if out.is_empty() {
            out.push('0');
        }
        if places > 0 {
            out.push('.');
            out.extend((0..places as i32).map(|at| cut.digit(cut.exponent + at)));
        }
        out
    }

    pub(super) fn scientific(&self, places: usize) -> String {
        let cut = self.cut(places as i32 + 1);
        let exponent = if cut.digits.iter().all(|d| *d == 0) {
            0
        } else {
            cut.exponent - 1
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        let mut out = String::from(cut.digit(0));
        if places > 0 {
            out.push('.');
            out.extend((1..=places as i32).map(|at| cut.digit(at)));
        }
        format!("{out}e{sign}{:02}", exponent.unsigned_abs())
    }

    /// Fixed between 10^-4 and 10^precision, else scientific, with so many digits in all.
    pub(super) fn general(&self, precision: usize) -> String {
        let cut = self.cut(precision as i32);
        let zero = cut.digits.iter().all(|d| *d == 0);
        match zero || (-3..=precision as i32).contains(&cut.exponent) {
            true => {
                let whole = if zero { 1 } else { cut.exponent };
                cut.fixed((precision as i32 - whole).max(0) as usize)
            }
            false => cut.scientific(precision - 1),
        }
    }
}
