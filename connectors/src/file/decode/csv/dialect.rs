//! The characters with a meaning: where lines end, and where a field begins and ends.

use memchr::{memchr, memchr2, memchr3, memmem};

use super::options::{CsvOptions, UnescapedQuotes};

/// The characters with a meaning and what they do.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    pub(super) sep: Separator,
    pub(super) quote: Option<u8>,
    escape: u8,
    escape_of_escape: Option<u8>,
    pub(super) unescaped_quotes: UnescapedQuotes,
    pub(super) comment: Option<u8>,
    line_separator: Option<u8>,
    trim_start: bool,
    trim_end: bool,
    pub(super) multi_line: Option<bool>,
}

impl From<&CsvOptions> for Dialect {
    fn from(options: &CsvOptions) -> Self {
        Self {
            sep: Separator(options.sep.as_bytes().into()),
            quote: options.quote,
            escape: options.escape,
            escape_of_escape: options.escape_of_escape(),
            unescaped_quotes: options.unescaped_quotes,
            comment: options.comment,
            line_separator: options.line_separator,
            trim_start: options.ignore_leading_white_space,
            trim_end: options.ignore_trailing_white_space,
            multi_line: options.multi_line,
        }
    }
}

/// What stands between two fields: at least one byte.
#[derive(Debug, Clone)]
pub(super) struct Separator(Box<[u8]>);

impl Separator {
    fn first(&self) -> u8 {
        self.0.first().copied().unwrap_or(b',')
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether one begins at this place.
    pub(super) fn is_at(&self, text: &[u8], at: usize) -> bool {
        text.get(at) == self.0.first() && (self.0.len() == 1 || text[at..].starts_with(&self.0))
    }

    /// Whether the text ends inside of what may be one that begins at this place.
    fn is_cut(&self, text: &[u8], at: usize) -> bool {
        let rest = text.get(at..).unwrap_or_default();
        !rest.is_empty() && rest.len() < self.0.len() && self.0.starts_with(rest)
    }

    /// Whether there is one.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        memmem::find(text, &self.0).is_some()
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

impl Field {
    fn quoted(start: usize, end: usize) -> Self {
        Self {
            start,
            end,
            quoted: true,
            unescaped: false,
        }
    }
}

/// How a quoted field goes on. `odd` says that it has quotes in it that nothing escapes.
pub(super) enum Quoted {
    /// The field is complete, the next byte of interest is at `after`.
    Closed { after: usize, odd: bool },
    /// Text follows the closing quote, which is at this place.
    Odd(usize),
    /// There is no closing quote.
    Open { odd: bool },
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

    /// The unquoted field that begins at `start` and the place of what ends it, which is looked for from `from` on.
    pub(super) fn unquoted_field(&self, text: &[u8], start: usize, from: usize) -> (Field, usize) {
        let end = self.field_end(text, from);
        (self.plain_field(text, start, end), end)
    }

    /// The place of the first separator or line end from `from` on.
    fn field_end(&self, text: &[u8], from: usize) -> usize {
        let first = self.sep.first();
        let mut at = from;
        loop {
            let found = text[at..]
                .iter()
                .position(|byte| *byte == first || self.is_line_end(*byte));
            match found {
                None => return text.len(),
                Some(found) if self.is_end(text, at + found) => return at + found,
                Some(found) => at += found + 1,
            }
        }
    }

    fn is_end(&self, text: &[u8], at: usize) -> bool {
        self.is_line_end(text[at]) || self.sep.is_at(text, at)
    }

    /// The field of a quoted text that goes on at `close` behind its closing quote, as it is read where that is no error, and the
    /// place of what ends it. It begins at `start`.
    pub(super) fn odd_field(&self, text: &[u8], start: usize, close: usize) -> (Field, usize) {
        match self.unescaped_quotes {
            UnescapedQuotes::BackToDelimiter => self.unquoted_field(text, start, start),
            UnescapedQuotes::SkipValue => {
                let end = self.field_end(text, close + 1);
                (self.plain_field(text, start, start), end)
            }
            _ => self.unquoted_field(text, start, close + 1),
        }
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

    /// The quoted field at `at`; None if no quote stands there. `last` says that nothing follows the text.
    pub(super) fn quoted_field(
        &self,
        text: &[u8],
        at: usize,
        last: bool,
        scratch: &mut Vec<u8>,
    ) -> Option<(Field, Quoted)> {
        let quote = self.quote?;
        let mut open = at;
        while self.trim_start && self.is_blank(text, open) {
            open += 1;
        }
        if text.get(open) != Some(&quote) {
            return None;
        }
        let mut close = open + 1;
        let (mut escapes, mut odd) = (false, false);
        loop {
            let Some(found) = self.find_special(&text[close..], quote) else {
                let field = Field::quoted(open + 1, text.len());
                return Some((field, Quoted::Open { odd }));
            };
            close += found;
            let follower = text.get(close + 1);
            if self.is_pair(text[close], follower, quote) {
                escapes = true;
                close += 2;
            } else if text[close] != quote {
                close += 1;
            } else if let Some(after) = self.closes(text, close, last) {
                let field = match escapes {
                    true => self.unescape(&text[open + 1..close], quote, scratch),
                    false => Field::quoted(open + 1, close),
                };
                return Some((field, Quoted::Closed { after, odd }));
            } else if self.unescaped_quotes == UnescapedQuotes::StopAtClosingQuote {
                odd = true;
                close += 1;
            } else {
                return Some((Field::quoted(open + 1, close), Quoted::Odd(close)));
            }
        }
    }

    /// The place of what ends the field that the quote at `close` closes: separator, line end or the end of the text; None if something
    /// else follows.
    fn closes(&self, text: &[u8], close: usize, last: bool) -> Option<usize> {
        let mut after = close + 1;
        while self.is_blank(text, after) {
            after += 1;
        }
        if !last && self.sep.is_cut(text, after) {
            return Some(text.len());
        }
        (after >= text.len() || self.is_end(text, after)).then_some(after)
    }

    /// The place of the next byte that may mean something inside quotes.
    fn find_special(&self, text: &[u8], quote: u8) -> Option<usize> {
        match self.escape_of_escape {
            Some(other) if other != self.escape => memchr3(quote, self.escape, other, text),
            _ => memchr2(quote, self.escape, text),
        }
    }

    /// Whether two bytes inside quotes stand for one: a doubled quote, an escaped quote, an escaped escape.
    fn is_pair(&self, byte: u8, follower: Option<&u8>, quote: u8) -> bool {
        follower.is_some_and(|next| *next == quote && (byte == quote || byte == self.escape))
            || (self.escape_of_escape == Some(byte) && follower == Some(&self.escape))
    }

    /// Copies a quoted text to `scratch` with its pairs resolved.
    fn unescape(&self, text: &[u8], quote: u8, scratch: &mut Vec<u8>) -> Field {
        let start = scratch.len();
        let mut at = 0;
        while let Some(found) = self.find_special(&text[at..], quote) {
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

    fn is_blank(&self, text: &[u8], at: usize) -> bool {
        text.get(at).is_some_and(|byte| *byte <= b' ') && !self.is_end(text, at)
    }
}
