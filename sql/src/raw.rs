//! Literals of Spark's that the parser does not know and that become usual ones before it: raw strings (`r'\d+'`, in which a
//! backslash is a letter) and numbers with a type behind them (`1.5D`, `2BD`, `3S`).

use std::borrow::Cow;

/// The text of a query with such literals as usual ones, and `X '1F'` as `X'1F'`.
pub(super) fn usual_literals(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut scan = Scan { text, at: 0 };
    while let Some((start, literal)) = scan.next() {
        out.push_str(&text[copied..start]);
        out.push_str(&literal);
        copied = scan.at;
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(out + &text[copied..]),
    }
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Moves behind the next place where one of `ends` begins, or to the end.
    fn skip_past(&mut self, end: &str) {
        self.at = match self.rest().find(end) {
            Some(i) => self.at + i + end.len(),
            None => self.text.len(),
        };
    }

    /// The next literal that is to be replaced: where it begins, and by what; the scan stands behind it.
    fn next(&mut self) -> Option<(usize, String)> {
        let mut before = ' ';
        while let Some(c) = self.rest().chars().next() {
            let in_word = before.is_alphanumeric() || before == '_';
            let after = &self.rest()[c.len_utf8()..];
            match c {
                'r' | 'R' if !in_word && after.starts_with(['\'', '"']) => {
                    let start = self.at;
                    let quote = &after[..1];
                    let body = after[1..].split(quote).next().unwrap_or_default();
                    let whole = 2 + body.len() + 1;
                    let literal = format!("{quote}{}{quote}", body.replace('\\', "\\\\"));
                    self.at = (start + whole).min(self.text.len());
                    return Some((start, literal));
                }
                'x' | 'X'
                    if !in_word
                        && after.trim_start().starts_with('\'')
                        && after.starts_with(' ') =>
                {
                    let start = self.at;
                    self.at += 1 + after.len() - after.trim_start().len();
                    return Some((start, c.to_string()));
                }
                '0'..='9' if !in_word => {
                    let start = self.at;
                    if let Some(literal) = self.number() {
                        return Some((start, literal));
                    }
                }
                '\'' | '"' | '`' => self.skip_quoted(c),
                '-' if after.starts_with('-') => self.skip_past("\n"),
                '/' if after.starts_with('*') => self.skip_past("*/"),
                _ => self.at += c.len_utf8(),
            }
            before = c;
        }
        None
    }

    /// Moves behind the number that begins here; what stands for it if it has a type.
    fn number(&mut self) -> Option<String> {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        if rest[end..].starts_with('.') {
            end += 1 + digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            if digits(end + 1 + sign) > 0 {
                end += 1 + sign + digits(end + 1 + sign);
            }
        }
        let (number, word) = rest.split_at(end);
        let length = word
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
            .count();
        let literal = match word[..length].to_ascii_uppercase().as_str() {
            "D" if number.contains(['e', 'E']) => number.to_owned(),
            "D" => format!("{number}E0"),
            "F" => format!("CAST({number} AS FLOAT)"),
            "BD" if number.contains('.') => number.to_owned(),
            "BD" => format!("CAST({number} AS DECIMAL({}, 0))", number.len()),
            "S" => format!("CAST({number} AS SMALLINT)"),
            "Y" => format!("CAST({number} AS TINYINT)"),
            _ => {
                self.at += end.max(1);
                return None;
            }
        };
        self.at += end + length;
        Some(literal)
    }

    /// Moves behind a text that begins here; a backslash quotes a letter of it.
    fn skip_quoted(&mut self, quote: char) {
        let mut letters = self.rest().char_indices().skip(1);
        while let Some((i, c)) = letters.next() {
            if c == '\\' && quote != '`' {
                letters.next();
            } else if c == quote {
                self.at += i + c.len_utf8();
                return;
            }
        }
        self.at = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn raw_strings_become_usual_ones_and_nothing_else_changes() {
        for (text, expected) in [
            (r"SELECT r'\d+'", r"SELECT '\\d+'"),
            (r#"SELECT R"a'\b", 'r' "#, r#"SELECT "a'\\b", 'r' "#),
            (r"SELECT 'r\'' || r'x'", r"SELECT 'r\'' || 'x'"),
            (
                "SELECT a.r, color'x' -- r'y'\n",
                "SELECT a.r, color'x' -- r'y'\n",
            ),
            (
                "SELECT `r'a`, X '1F', /* r'z' */ x",
                "SELECT `r'a`, X'1F', /* r'z' */ x",
            ),
            ("SELECT r'open", "SELECT 'open'"),
            (
                "SELECT 1.5D, 2e3d, x1D, 3S, 1.50BD, '1D', 7L, 2.D",
                "SELECT 1.5E0, 2e3, x1D, CAST(3 AS SMALLINT), 1.50, '1D', 7L, 2.E0",
            ),
        ] {
            assert_eq!(usual_literals(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_scanned_to_its_end(text in "[rRxX0-9.eDSB'\"`\\\\/*\n -aé]{0,24}") {
            let _text = usual_literals(&text);
        }
    }
}
