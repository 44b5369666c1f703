//! Patterns of `to_number` and `to_char`: `[S|MI] [$] 9, 0, ',', '.' [$] [S|MI|PR]`.

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberPattern {
    first: Option<Sign>,
    dollar: Option<Place>,
    /// Groups of digits in front of the point; one that begins with 0 has all its digits.
    groups: Vec<Group>,
    point: bool,
    fraction: usize,
    last: Option<Sign>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    digits: usize,
    full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// `S`: a plus or a minus.
    Either,
    /// `MI`: a minus or nothing.
    Minus,
    /// `PR`: angle brackets around negative numbers.
    Brackets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Last,
}

impl NumberPattern {
    /// Reads a pattern; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let upper = text.to_uppercase();
        let mut rest = upper.as_str();
        let mut first = sign(&mut rest, &[("MI", Sign::Minus), ("S", Sign::Either)]);
        let dollar = rest.strip_prefix('$').map(|after| {
            rest = after;
            Place::First
        });
        if first.is_none() && dollar.is_some() {
            first = sign(&mut rest, &[("MI", Sign::Minus), ("S", Sign::Either)]);
        }
        let digits = |c: char| matches!(c, '0' | '9');
        let length = rest
            .find(|c| !digits(c) && c != ',' && c != 'G')
            .unwrap_or(rest.len());
        let (whole, mut rest) = rest.split_at(length);
        let point = rest.starts_with(['.', 'D']);
        if point {
            rest = &rest[1..];
        }
        let length = rest.find(|c| !digits(c)).unwrap_or(rest.len());
        let (fraction, mut rest) = rest.split_at(if point { length } else { 0 });
        let mut dollar = dollar;
        if dollar.is_none() && rest.starts_with('$') {
            rest = &rest[1..];
            dollar = Some(Place::Last);
        }
        let last = match first {
            Some(_) => None,
            None => sign(
                &mut rest,
                &[
                    ("MI", Sign::Minus),
                    ("S", Sign::Either),
                    ("PR", Sign::Brackets),
                ],
            ),
        };
        let groups: Vec<Group> = match whole {
            "" => vec![],
            whole => whole
                .split([',', 'G'])
                .map(Group::of)
                .collect::<Option<_>>()?,
        };
        let total = groups.iter().map(|group| group.digits).sum::<usize>() + fraction.len();
        (rest.is_empty() && (1..=38).contains(&total)).then_some(Self {
            first,
            dollar,
            groups,
            point,
            fraction: fraction.len(),
            last,
        })
    }

    /// Precision and scale of the decimals that it reads.
    pub(super) fn decimal(&self) -> (u8, i8) {
        let whole: usize = self.groups.iter().map(|group| group.digits).sum();
        ((whole + self.fraction) as u8, self.fraction as i8)
    }

    /// The number that a text spells, as an unscaled decimal.
    pub(super) fn read(&self, text: &str) -> Option<i128> {
        let text: String = text.chars().filter(|c| *c != ' ').collect();
        let mut rest = text.as_str();
        let mut negative = false;
        if let Some(sign) = self.first {
            negative = take_sign(&mut rest, sign, |text, sign| text.strip_prefix(sign));
        }
        if self.last == Some(Sign::Brackets) {
            if let Some(inside) = rest
                .strip_prefix('<')
                .and_then(|rest| rest.strip_suffix('>'))
            {
                (rest, negative) = (inside, true);
            }
        } else if let Some(sign) = self.last {
            negative = take_sign(&mut rest, sign, |text, sign| text.strip_suffix(sign));
        }
        rest = match self.dollar {
            Some(Place::First) => rest.strip_prefix('$')?,
            Some(Place::Last) => rest.strip_suffix('$')?,
            None => rest,
        };
        let (whole, fraction) = match rest.split_once('.') {
            Some((whole, fraction)) if self.point => (whole, fraction),
            Some(_) => return None,
            None => (rest, ""),
        };
        let digits = self.whole_digits(whole)? + fraction;
        let all = digits.bytes().all(|b| b.is_ascii_digit());
        if digits.is_empty() || !all || fraction.len() > self.fraction {
            return None;
        }
        let zeros = "0".repeat(self.fraction - fraction.len());
        let value: i128 = (digits + &zeros).parse().ok()?;
        Some(if negative { -value } else { value })
    }

    /// The digits in front of the point, if their commas stand where the pattern has them.
    fn whole_digits(&self, text: &str) -> Option<String> {
        let given: Vec<&str> = match text {
            "" => vec![],
            text => text.split(',').collect(),
        };
        let missing = self.groups.len().checked_sub(given.len())?;
        if self.groups[..missing].iter().any(|group| group.full) {
            return None;
        }
        for (i, (digits, group)) in given.iter().zip(&self.groups[missing..]).enumerate() {
            let exact = group.full || i > 0;
            let fits = if exact {
                digits.len() == group.digits
            } else {
                digits.len() <= group.digits
            };
            if !fits || digits.is_empty() {
                return None;
            }
        }
        Some(given.concat())
    }

    /// A decimal as text; number signs in place of digits where it does not fit.
    pub(super) fn write(&self, value: i128, scale: i8) -> String {
        let plain = super::text::decimal_text(value.saturating_abs(), scale);
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let (whole, fraction) = (
            whole.trim_start_matches('0'),
            fraction.trim_end_matches('0'),
        );
        let room: usize = self.groups.iter().map(|group| group.digits).sum();
        let fits = whole.len() <= room && fraction.len() <= self.fraction;
        let mut out = Written::default();
        let negative = value < 0;
        match self.first {
            Some(Sign::Either) => out.0.push(if negative { '-' } else { '+' }),
            Some(Sign::Minus) => out.0.push(if negative { '-' } else { ' ' }),
            _ => {}
        }
        if negative && self.last == Some(Sign::Brackets) {
            out.0.push('<');
        }
        if self.dollar == Some(Place::First) {
            out.0.push('$');
        }
        self.write_whole(&mut out, if fits { whole } else { "" }, fits, room);
        if self.point {
            if out.0.ends_with(' ') {
                out.0.pop();
                out.0.push('0');
            }
            out.0.push('.');
            match fits {
                true => out
                    .0
                    .push_str(&format!("{fraction:0<width$}", width = self.fraction)),
                false => out.0.push_str(&"#".repeat(self.fraction)),
            }
            if out.0.ends_with('.') {
                out.0.pop();
                out.0.push(' ');
            }
        }
        if self.dollar == Some(Place::Last) {
            out.0.push('$');
        }
        out.end(self.last, negative)
    }

    fn write_whole(&self, out: &mut Written, whole: &str, fits: bool, room: usize) {
        // Places in front of the number's own digits.
        let mut empty = room - whole.len().min(room);
        let mut digits = whole.chars();
        for (i, group) in self.groups.iter().enumerate() {
            if i > 0 {
                match out.0.ends_with(|c: char| c.is_ascii_digit()) {
                    true => out.0.push(','),
                    false => out.blank(),
                }
            }
            for _ in 0..group.digits {
                if !fits {
                    out.0.push('#');
                } else if empty > 0 {
                    empty -= 1;
                    match group.full {
                        true => out.0.push('0'),
                        false => out.blank(),
                    }
                } else {
                    out.0.extend(digits.next());
                }
            }
        }
    }
}

impl Group {
    fn of(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self {
            digits: text.len(),
            full: text.starts_with('0'),
        })
    }
}

/// Text being written.
#[derive(Default)]
struct Written(String);

impl Written {
    /// Blanks stand in front of a sign.
    fn blank(&mut self) {
        match self.0.pop() {
            Some(sign @ ('+' | '-' | '<')) => {
                self.0.push(' ');
                self.0.push(sign);
            }
            Some(other) => {
                self.0.push(other);
                self.0.push(' ');
            }
            None => self.0.push(' '),
        }
    }

    fn end(mut self, sign: Option<Sign>, negative: bool) -> String {
        match (sign, negative) {
            (Some(Sign::Either), true) | (Some(Sign::Minus), true) => self.0.push('-'),
            (Some(Sign::Either), false) => self.0.push('+'),
            (Some(Sign::Minus), false) => self.0.push(' '),
            (Some(Sign::Brackets), true) => self.0.push('>'),
            (Some(Sign::Brackets), false) => self.0.push_str("  "),
            (None, _) => {}
        }
        self.0
    }
}

fn sign(rest: &mut &str, known: &[(&str, Sign)]) -> Option<Sign> {
    let (after, sign) = known
        .iter()
        .find_map(|(text, sign)| rest.strip_prefix(text).map(|after| (after, *sign)))?;
    *rest = after;
    Some(sign)
}

/// Takes a sign off one end of a text; whether it was a minus.
fn take_sign<'t>(
    rest: &mut &'t str,
    sign: Sign,
    strip: impl Fn(&'t str, &'static str) -> Option<&'t str>,
) -> bool {
    if let Some(after) = strip(rest, "-") {
        *rest = after;
        return true;
    }
    if sign == Sign::Either
        && let Some(after) = strip(rest, "+")
    {
        *rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: &str, pattern: &str) -> String {
        let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
        let unscaled: i128 = format!("{whole}{fraction}").parse().expect("number");
        let pattern = NumberPattern::parse(pattern).expect(pattern);
        pattern.write(unscaled, fraction.len() as i8)
    }

    #[test]
    fn numbers_are_written_as_spark_writes_them() {
        for (value, pattern, expected) in [
            ("454", "00999", "00454"),
            ("-45", "S99999", "   -45"),
            ("-45", "99999S", "   45-"),
            ("45", "MI99999", "    45"),
            ("45", "99999MI", "   45 "),
            ("-45", "99999PR", "   <45>"),
            ("45", "99999PR", "   45  "),
            ("45", "$99999", "$   45"),
            ("-45", "S$99,999", "-$    45"),
            ("-45", "$99,999S", "$    45-"),
            ("12345678", "99,999", "## ###"),
            ("-12345678", "S$99G999D99", "-$## ###.##"),
            ("1.5", "99.99", " 1.50"),
            ("0.5", "9.9", "0.5"),
            ("0.5", ".9", ".5"),
            ("0", "9", " "),
            ("0", "99.99", " 0.00"),
            ("-0.1", "S9.9", " -.1"),
            ("5", "9.", "5 "),
            ("1.25", "9.9", "#.#"),
            ("12", "0,009,999", "0,000, 12"),
            ("1234567.891", "9,999,999.999", "1,234,567.891"),
        ] {
            let spelled = if value.starts_with("-0") { "-1" } else { value };
            let got = match spelled {
                "-1" => NumberPattern::parse(pattern).expect(pattern).write(-1, 1),
                value => written(value, pattern),
            };
            assert_eq!(got, expected, "{value} by {pattern}");
        }
    }

    #[test]
    fn texts_are_read_as_spark_reads_them() {
        let read = |text, pattern| NumberPattern::parse(pattern).expect(pattern).read(text);
        for (text, pattern, expected) in [
            ("  12", "99", Some(12)),
            ("12", "099", None),
            ("012", "099", Some(12)),
            ("1,234", "9,999", Some(1234)),
            ("1234", "9,999", None),
            ("234", "9,999", Some(234)),
            ("$12.5", "$99.9", Some(125)),
            ("12.5", "$99.9", None),
            ("12-", "99S", Some(-12)),
            ("+12", "S99", Some(12)),
            ("<12>", "99PR", Some(-12)),
            ("12-", "99MI", Some(-12)),
            ("1.234", "9.99", None),
            (".5", "9.9", Some(5)),
            ("", "999", None),
            ("abc", "999", None),
        ] {
            assert_eq!(read(text, pattern), expected, "{text} by {pattern}");
        }
        for pattern in ["", "$", "9,,9", "9.9.9", "x", "S9S", ",9"] {
            assert_eq!(NumberPattern::parse(pattern), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(pattern in "[S$MIPR90,.GD]{0,12}", text in "\\PC{0,12}") {
            if let Some(pattern) = NumberPattern::parse(&pattern) {
                let _read = pattern.read(&text);
                let _written = pattern.write(i128::MIN, 3);
            }
        }

        #[test]
        fn numbers_that_fit_are_read_back(value in -99_999i128..100_000) {
            let pattern = NumberPattern::parse("S9,999.99").expect("good");
            if value.abs() < 1_000_000 {
                prop_assert_eq!(pattern.read(&pattern.write(value, 2).replace("-.", "-0.").replace("+.", "+0.")), Some(value));
            }
        }
    }
}
