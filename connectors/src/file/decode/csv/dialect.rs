//! The characters with a meaning: where lines end, and where a field begins and ends.

use memchr::{memchr, memchr2};

use super::options::CsvOptions;

/// The characters with a meaning and what they do.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    pub(super) sep: u8,
    pub(super) quote: Option<u8>,
    escape: u8,
    pub(super) comment: Option<u8>,
    line_separator: Option<u8>,
    trim_start: bool,
    trim_end: bool,
    pub(super) multi_line: Option<bool>,
}

impl From<&CsvOptions> for Dialect {
    fn from(options: &CsvOptions) -> Self {
        Self {
            sep: options.sep,
            quote: options.quote,
            escape: options.escape,
            comment: options.comment,
            line_separator: options.line_separator,
            trim_start: options.ignore_leading_white_space,
            trim_end: options.ignore_trailing_white_space,
            multi_line: options.multi_line,
        }
    }
}

/// Where the text of a field is and whether it stood in quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) quoted: bool,
    /// The text is in the scratch buffer, because it differs from the one in the file.
    pub(super) unescaped: bool,
}

/// How a quoted field goes on.
pub(super) enum Quoted {
    /// The field is complete, the next byte of interest is at this place.
    Closed(usize),
    /// Text follows the closing quote, which is at this place.
    Odd(usize),
    /// There is no closing quote.
    Open,
}

impl Dialect {
    /// Length of the first line of `text` without and with its end, looking from `from` on; None if no line ends.
    pub(super) fn line_end(&self, text: &[u8], from: usize, last: bool) -> Option<(usize, usize)> {
        let rest = &text[from..];
        if let Some(separator) = self.line_separator {
            return memchr(separator, rest).map(|at| (from + at, from + at + 1));
        }
        let at = from + memchr2(b'\n', b'\r', rest)?;
        if text[at] == b'\r' && at + 1 == text.len() && !last {
            return None;
        }
        Some((at, self.after_line_end(text, at)))
    }

    /// The place behind the line end at `at`.
    pub(super) fn after_line_end(&self, text: &[u8], at: usize) -> usize {
        let pair = self.line_separator.is_none() && text[at..].starts_with(b"\r\n");
        at + 1 + usize::from(pair)
    }

    fn is_line_end(&self, byte: u8) -> bool {
        match self.line_separator {
            Some(separator) => byte == separator,
            None => matches!(byte, b'\n' | b'\r'),
        }
    }

    /// Line ends within `text`.
    pub(super) fn count_lines(&self, text: &[u8]) -> u64 {
        let mut count = 0;
        let mut rest = text;
        while let Some((_, next)) = self.line_end(rest, 0, true) {
            count += 1;
            rest = &rest[next..];
        }
        count
    }

    /// The unquoted field that begins at `start` and the place of what ends it.
    pub(super) fn unquoted_field(&self, text: &[u8], start: usize) -> (Field, usize) {
        let end = text[start..]
            .iter()
            .position(|byte| *byte == self.sep || self.is_line_end(*byte))
            .map_or(text.len(), |at| start + at);
        (self.plain_field(text, start, end), end)
    }

    pub(super) fn plain_field(&self, text: &[u8], start: usize, end: usize) -> Field {
        let (mut start, mut end) = (start, end);
        while self.trim_start && start < end && text[start] <= b' ' {
            start += 1;
        }
        while self.trim_end && start < end && text[end - 1] <= b' ' {
            end -= 1;
        }
        Field {
            start,
            end,
            quoted: false,
            unescaped: false,
        }
    }

    /// The quoted field at `at`; None if no quote stands there.
    pub(super) fn quoted_field(
        &self,
        text: &[u8],
        at: usize,
        scratch: &mut Vec<u8>,
    ) -> Option<(Field, Quoted)> {
        let quote = self.quote?;
        let mut open = at;
        while self.trim_start && self.is_blank(text.get(open)) {
            open += 1;
        }
        if text.get(open) != Some(&quote) {
            return None;
        }
        let mut close = open + 1;
        let mut escapes = false;
        loop {
            let Some(found) = memchr2(quote, self.escape, &text[close..]) else {
                let field = Field {
                    start: open + 1,
                    end: text.len(),
                    quoted: true,
                    unescaped: false,
                };
                return Some((field, Quoted::Open));
            };
            close += found;
            let follower = text.get(close + 1);
            if self.is_pair(text[close], follower, quote) {
                escapes = true;
                close += 2;
            } else if text[close] == quote {
                break;
            } else {
                close += 1;
            }
        }
        let field = if escapes {
            self.unescape(&text[open + 1..close], quote, scratch)
        } else {
            Field {
                start: open + 1,
                end: close,
                quoted: true,
                unescaped: false,
            }
        };
        let mut after = close + 1;
        while self.is_blank(text.get(after)) {
            after += 1;
        }
        let ends = text
            .get(after)
            .is_none_or(|byte| *byte == self.sep || self.is_line_end(*byte));
        Some((
            field,
            if ends {
                Quoted::Closed(after)
            } else {
                Quoted::Odd(close)
            },
        ))
    }

    /// Whether two bytes inside quotes stand for one: a doubled quote, an escaped quote, a doubled escape.
    fn is_pair(&self, byte: u8, follower: Option<&u8>, quote: u8) -> bool {
        follower.is_some_and(|next| *next == quote && (byte == quote || byte == self.escape))
            || (byte == self.escape && follower == Some(&self.escape))
    }

    /// Copies a quoted text to `scratch` with its pairs resolved.
    fn unescape(&self, text: &[u8], quote: u8, scratch: &mut Vec<u8>) -> Field {
        let start = scratch.len();
        let mut at = 0;
        while let Some(found) = memchr2(quote, self.escape, &text[at..]) {
            scratch.extend_from_slice(&text[at..at + found]);
            at += found;
            if self.is_pair(text[at], text.get(at + 1), quote) {
                at += 1;
            }
            scratch.push(text[at]);
            at += 1;
        }
        scratch.extend_from_slice(&text[at..]);
        Field {
            start,
            end: scratch.len(),
            quoted: true,
            unescaped: true,
        }
    }

    fn is_blank(&self, byte: Option<&u8>) -> bool {
        byte.is_some_and(|byte| *byte <= b' ' && *byte != self.sep && !self.is_line_end(*byte))
    }
}
