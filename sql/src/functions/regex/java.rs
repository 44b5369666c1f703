//! Java's regular expressions in the words of the engine that runs them, which knows look-around and back references.
//!
//! What differs: Java's `\d \w \s` are ASCII, `.` stops at more line ends, `$` also stands before the last line end, and there are
//! POSIX and `java…` classes, `\Q…\E`, `\R`, `\h` and octal escapes.

use std::iter::Peekable;
use std::str::Chars;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use fancy_regex::{Captures, Match, Regex};

use crate::functions::error::SparkError;

/// Ends of lines, as `.` and `$` see them.
const LINE_ENDS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
/// How deep groups and classes may be nested.
const MOST_NESTED: usize = 250;
/// How many steps back a match may try before it counts as endless.
const MOST_STEPS: usize = 1_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub(in crate::functions) struct Pattern {
    text: String,
    /// Where `$` is the end of the text only, which is quick.
    plain: Regex,
    /// Where `$` may stand before a line end; for texts that end with one.
    full: Option<Regex>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INVALID_PARAMETER_VALUE.PATTERN` for text that is no pattern, or one too large.
    pub(in crate::functions) fn new(text: &str) -> Result<Self> {
        let wrong = |why: String| {
            let message = format!("the pattern '{text}' is not understood: {why}");
            SparkError::external("INVALID_PARAMETER_VALUE.PATTERN", message)
        };
        let compile = |text: &str| {
            fancy_regex::RegexBuilder::new(text)
                .backtrack_limit(MOST_STEPS)
                .build()
                .map_err(|e| wrong(e.to_string()))
        };
        let (plain, ends) = translated(text, false).map_err(wrong)?;
        let full = match ends {
            true => Some(compile(&translated(text, true).map_err(wrong)?.0)?),
            false => None,
        };
        Ok(Self {
            text: text.to_owned(),
            plain: compile(&plain)?,
            full,
        })
    }

    /// The pattern as it was given.
    pub(in crate::functions) fn text(&self) -> &str {
        &self.text
    }

    /// How many groups it has.
    pub(in crate::functions) fn groups(&self) -> usize {
        self.plain.captures_len() - 1
    }

    fn regex(&self, text: &str) -> &Regex {
        match &self.full {
            Some(full) if text.ends_with(LINE_ENDS) => full,
            _ => &self.plain,
        }
    }

    fn endless(&self, e: fancy_regex::Error) -> DataFusionError {
        let message = format!("the pattern '{}' gave up: {e}", self.text);
        SparkError::external("INVALID_PARAMETER_VALUE.PATTERN", message)
    }

    /// Whether it matches anywhere.
    pub(in crate::functions) fn is_match(&self, text: &str) -> Result<bool> {
        self.regex(text).is_match(text).map_err(|e| self.endless(e))
    }

    /// The first match.
    pub(in crate::functions) fn find<'t>(&self, text: &'t str) -> Result<Option<Match<'t>>> {
        self.regex(text).find(text).map_err(|e| self.endless(e))
    }

    /// All matches, in order.
    pub(in crate::functions) fn find_all<'t>(&self, text: &'t str) -> Result<Vec<Match<'t>>> {
        let matches = self.regex(text).find_iter(text);
        matches.map(|m| m.map_err(|e| self.endless(e))).collect()
    }

    /// The groups of all matches, in order.
    pub(in crate::functions) fn captures_all<'t>(
        &self,
        text: &'t str,
    ) -> impl Iterator<Item = Result<Captures<'t>>> {
        let matches = self.regex(text).captures_iter(text);
        matches.map(|m| m.map_err(|e| self.endless(e)))
    }
}

/// The pattern in the engine's words, and whether it has a `$`, which may be meant as Java means it (`exact`).
fn translated(text: &str, exact: bool) -> std::result::Result<(String, bool), String> {
    let mut translation = Translation {
        letters: text.chars().peekable(),
        out: String::with_capacity(text.len() + 8),
        exact,
        ends: false,
        // With a flag the meaning of `.` and `$` may change; they are left as they are.
        dots: !has_flag(text, 's'),
        lines: has_flag(text, 'm'),
    };
    translation.run()?;
    Ok((translation.out, translation.ends))
}

/// Whether the pattern switches a flag on somewhere: `(?s)`, `(?is:…)`.
fn has_flag(text: &str, flag: char) -> bool {
    text.split("(?").skip(1).any(|rest| {
        let flags = rest.split([')', ':', '<', '=', '!', '>', '-']).next();
        flags.is_some_and(|flags| {
            flags.chars().all(|c| c.is_ascii_lowercase() || c == 'U') && flags.contains(flag)
        })
    })
}

struct Translation<'t> {
    letters: Peekable<Chars<'t>>,
    out: String,
    exact: bool,
    ends: bool,
    dots: bool,
    lines: bool,
}

type Done = std::result::Result<(), String>;

impl Translation<'_> {
    fn run(&mut self) -> Done {
        let mut depth = 0usize;
        while let Some(letter) = self.letters.next() {
            match letter {
                '\\' => self.escape(false)?,
                '[' => self.class(1)?,
                '.' if self.dots => self.out.push_str("[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"),
                '$' if !self.lines => self.end(),
                '(' => {
                    depth += 1;
                    if depth > MOST_NESTED {
                        return Err("its groups are nested too deeply".to_owned());
                    }
                    self.out.push('(');
                }
                ')' => {
                    depth = depth.saturating_sub(1);
                    self.out.push(')');
                }
                other => self.out.push(other),
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.ends = true;
        self.out.push_str(match self.exact {
            true => "(?=(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])?\\z)",
            false => "\\z",
        });
    }

    /// What follows a backslash, in a class or outside.
    fn escape(&mut self, in_class: bool) -> Done {
        const BLANK: &str = "\\t\\n\\x0B\\f\\r ";
        const WORD: &str = "a-zA-Z0-9_";
        const FLAT: &str =
            " \\t\\xA0\\x{1680}\\x{180e}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}";
        const DOWN: &str = "\\n\\x0B\\f\\r\\x{85}\\x{2028}\\x{2029}";
        let Some(letter) = self.letters.next() else {
            return Err("a backslash stands at its end".to_owned());
        };
        let class = |of: &str, negated: bool| match (in_class, negated) {
            (true, false) => of.to_owned(),
            (_, true) => format!("[^{of}]"),
            (false, false) => format!("[{of}]"),
        };
        let piece = match letter {
            'd' => class("0-9", false),
            'D' => class("0-9", true),
            'w' => class(WORD, false),
            'W' => class(WORD, true),
            's' => class(BLANK, false),
            'S' => class(BLANK, true),
            'h' => class(FLAT, false),
            'H' => class(FLAT, true),
            'v' => class(DOWN, false),
            'V' => class(DOWN, true),
            'R' if !in_class => format!("(?:\\r\\n|[{DOWN}])"),
            'Z' if !in_class => {
                self.end();
                return Ok(());
            }
            'Q' => return self.quoted(),
            'E' => String::new(),
            'e' => "\\x1B".to_owned(),
            '0' => {
                let code = self.digits(8, 3)?;
                format!("\\x{{{code:x}}}")
            }
            'u' => {
                let code = self.digits(16, 4)?;
                format!("\\x{{{code:x}}}")
            }
            'p' | 'P' => self.property(letter == 'P', in_class)?,
            'G' => return Err("\\G is not supported".to_owned()),
            other if other.is_alphanumeric() => format!("\\{other}"),
            other => escaped(other),
        };
        self.out.push_str(&piece);
        Ok(())
    }

    /// A number of at most so many digits.
    fn digits(&mut self, radix: u32, most: usize) -> std::result::Result<u32, String> {
        let mut code = None;
        for _ in 0..most {
            let Some(digit) = self.letters.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            self.letters.next();
            code = Some(code.unwrap_or(0) * radix + digit);
        }
        code.ok_or_else(|| "an escape has no digits".to_owned())
    }

    /// Text up to `\E`, as it is.
    fn quoted(&mut self) -> Done {
        while let Some(letter) = self.letters.next() {
            if letter == '\\' && self.letters.next_if_eq(&'E').is_some() {
                return Ok(());
            }
            self.out.push_str(&escaped(letter));
        }
        Ok(())
    }

    /// `\p{…}` and `\pL`.
    fn property(&mut self, negated: bool, in_class: bool) -> std::result::Result<String, String> {
        let name = match self.letters.next() {
            Some('{') => {
                let name: String = self.letters.by_ref().take_while(|c| *c != '}').collect();
                name
            }
            Some(letter) => letter.to_string(),
            None => return Err("\\p has no name".to_owned()),
        };
        if let Some(ascii) = posix(&name) {
            return Ok(match (negated, in_class) {
                (true, _) => format!("[^{ascii}]"),
                (false, true) => ascii.to_owned(),
                (false, false) => format!("[{ascii}]"),
            });
        }
        let name = name.strip_prefix("Is").unwrap_or(&name);
        let name = match name {
            "javaLowerCase" => "Lowercase",
            "javaUpperCase" => "Uppercase",
            "javaWhitespace" => "White_Space",
            other => other,
        };
        Ok(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }))
    }

    /// A class behind its opening bracket.
    fn class(&mut self, depth: usize) -> Done {
        if depth > MOST_NESTED {
            return Err("its classes are nested too deeply".to_owned());
        }
        self.out.push('[');
        if self.letters.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        while let Some(letter) = self.letters.next() {
            match letter {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' => self.class(depth + 1)?,
                '&' | '-' | '^' => self.out.push(letter),
                ']' | '~' | '#' | ' ' => self.out.push_str(&escaped(letter)),
                other => self.out.push(other),
            }
            first = false;
        }
        Err("a class is not closed".to_owned())
    }
}

/// A letter that means itself.
fn escaped(letter: char) -> String {
    match letter {
        c if c.is_alphanumeric() || c == '_' || !c.is_ascii() || c == '<' || c == '>' => {
            c.to_string()
        }
        c if c.is_ascii_control() || c == ' ' || c == '"' || c == '\'' => {
            format!("\\x{{{:x}}}", u32::from(c))
        }
        c => regex_syntax_escape(c),
    }
}

fn regex_syntax_escape(c: char) -> String {
    match c {
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$'
        | '#' | '&' | '-' | '~' => format!("\\{c}"),
        other => other.to_string(),
    }
}

/// Java's POSIX classes, which are ASCII.
fn posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => "\\x00-\\x7F",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => "!-/:-@\\[-`{-\\x7E",
        "Graph" => "!-\\x7E",
        "Print" => "\\x20-\\x7E",
        "Blank" => "\\x20\\t",
        "Cntrl" => "\\x00-\\x1F\\x7F",
        "XDigit" => "0-9a-fA-F",
        "Space" => "\\x20\\t\\n\\x0B\\f\\r",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finds(pattern: &str, text: &str) -> Option<String> {
        let pattern = Pattern::new(pattern).expect(pattern);
        let found = pattern.find(text).expect("match");
        found.map(|m| m.as_str().to_owned())
    }

    #[test]
    fn java_only_forms_match_as_in_java() {
        for (pattern, text, expected) in [
            ("(?<=item-)[0-9]+", "item-42", Some("42")),
            ("(\\w)\\1", "hello", Some("ll")),
            ("\\d+", "٣4", Some("4")),
            ("\\w+", "é_a1", Some("_a1")),
            ("a.c", "a\u{2028}c abc", Some("abc")),
            ("(?s)a.c", "a\nc", Some("a\nc")),
            ("c$", "abc\n", Some("c")),
            ("c\\z", "abc\n", None),
            ("c\\Z", "abc\n", Some("c")),
            ("\\Qa.b\\E+", "a.bb", Some("a.bb")),
            ("[\\w&&[^b]]+", "abc", Some("a")),
            ("\\p{Alpha}+\\p{Punct}", "1ab!", Some("ab!")),
            ("\\p{Lu}\\p{IsAlphabetic}+", "xÉté", Some("Été")),
            ("a\\Rb", "a\r\nb", Some("a\r\nb")),
            ("\\u0041\\x42\\0103", "ABC", Some("ABC")),
            ("[^\\d\\s]+", "12 ab", Some("ab")),
            ("[]a]+", "]a", Some("]a")),
            ("x*+x", "xxx", None),
            ("[a-c[x-z]]+", "!ayz", Some("ayz")),
            ("(?i)ITEM", "Item", Some("Item")),
        ] {
            assert_eq!(finds(pattern, text).as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        for pattern in ["(", "[a", "a**", "\\", "\\p{Nowhere}", "*a"] {
            let error = Pattern::new(pattern).expect_err(pattern).to_string();
            assert!(error.contains(pattern), "{error}");
        }
    }

    #[test]
    fn pattern_without_end_is_an_error_and_no_hang() {
        let pattern = Pattern::new("(x+x+)+(?=y)y").expect("good");
        assert!(pattern.is_match(&"x".repeat(40)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(pattern in "\\PC{0,24}", text in "\\PC{0,24}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                let _found = pattern.is_match(&text);
            }
        }

        #[test]
        fn letters_of_patterns_are_a_pattern_or_an_error(pattern in "[\\\\\\[\\](){}?*+^$.|&dwshQE0-9a-z:<>=!-]{0,16}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                let _found = pattern.captures_all("aa1 b-c\n").count();
            }
        }

        #[test]
        fn quoted_text_finds_itself(text in "[^\\\\]{1,12}") {
            let pattern = Pattern::new(&format!("\\Q{text}\\E")).expect("good");
            prop_assert!(pattern.is_match(&text).expect("match"));
        }
    }
}
