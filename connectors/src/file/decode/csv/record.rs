//! Cuts a CSV file into records and records into fields.
//!
//! Own code instead of a CSV library, because the rules need what the libraries do not tell: whether a field was quoted
//! (that is what tells the empty text from NULL), the raw text of a record, both ways of writing a quote in one file,
//! and where to go on after a quote that is never closed.
//!
//! A record ends at the end of its line unless a quoted field runs over it. Quotes count only at the very beginning of a
//! field. What follows a closing quote other than blanks makes the field an unquoted one that is taken as it stands, up
//! to the next separator (Spark's `STOP_AT_DELIMITER`).

use memchr::{memchr, memchr_iter, memchr2};

use super::input::Input;
use super::options::CsvOptions;
use crate::file::decode::DecodeError;

/// How far a quoted field is followed over line ends when nobody asked for `multiLine`.
const STRAY_QUOTE_BYTES: usize = 1 << 20;

/// The characters with a meaning and what they do.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    sep: u8,
    quote: Option<u8>,
    escape: u8,
    comment: Option<u8>,
    line_separator: Option<u8>,
    trim_start: bool,
    trim_end: bool,
    multi_line: Option<bool>,
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
struct Field {
    start: usize,
    end: usize,
    quoted: bool,
    /// The text is in the scratch buffer, because it differs from the one in the file.
    unescaped: bool,
}

/// Reads records one after the other.
pub(super) struct Records {
    input: Input,
    dialect: Dialect,
    fields: Vec<Field>,
    scratch: Vec<u8>,
    /// Fields to keep; further ones are only counted.
    keep: usize,
    /// Fields a record should have; `usize::MAX` as long as nobody knows.
    expected: usize,
    /// Lines before the window.
    lines: u64,
    /// Bytes of the last record, still in the window, to be consumed before the next.
    used: usize,
    started: bool,
}

/// One record. Texts are bytes of the file, not checked in any way.
pub(super) struct Record<'a> {
    /// Line at which it begins, from 1.
    pub(super) line: u64,
    /// The text of the record without its line end.
    pub(super) raw: &'a [u8],
    /// How many fields it has, kept or not.
    pub(super) count: usize,
    /// What is wrong with its quotes.
    pub(super) fault: Option<&'static str>,
    fields: &'a [Field],
    scratch: &'a [u8],
}

impl<'a> Record<'a> {
    /// The text of field `index` and whether it stood in quotes; None if the record has no such field.
    pub(super) fn field(&self, index: usize) -> Option<(&'a [u8], bool)> {
        let field = self.fields.get(index)?;
        let source = if field.unescaped {
            self.scratch
        } else {
            self.raw
        };
        Some((&source[field.start..field.end], field.quoted))
    }
}

/// How the scan of a record went.
enum Scan {
    /// It ends at `end`, its line end at `next`, and has `count` fields.
    Complete {
        end: usize,
        next: usize,
        count: usize,
    },
    /// The text ends within the record.
    Open { count: usize },
    /// A quote makes no sense as the beginning of a field that runs over lines.
    Stray,
}

/// How a quoted field goes on.
enum Quoted {
    /// The field is complete, the next byte of interest is at this place.
    Closed(usize),
    /// Text follows the closing quote, which is at this place.
    Odd(usize),
    /// There is no closing quote.
    Open,
}

impl Records {
    pub(super) fn new(input: Input, dialect: Dialect) -> Self {
        Self {
            input,
            dialect,
            fields: Vec::new(),
            scratch: Vec::new(),
            keep: usize::MAX,
            expected: usize::MAX,
            lines: 0,
            used: 0,
            started: false,
        }
    }

    pub(super) fn input(&self) -> &Input {
        &self.input
    }

    /// Sets how many fields a record should have and how many are kept.
    pub(super) fn expect(&mut self, expected: usize, keep: usize) {
        self.expected = expected;
        self.keep = keep;
    }

    /// Prepares for a record of any number of fields, of which one more than `most` are kept.
    pub(super) fn expect_header(&mut self, most: usize) {
        self.expect(usize::MAX, most.saturating_add(1));
    }

    /// The next record that is neither blank nor a comment; None at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, DecodeError> {
        if !self.started {
            self.started = true;
            self.input.skip_bom()?;
        }
        loop {
            self.input.consume(std::mem::take(&mut self.used));
            let Some((length, next)) = self.line()? else {
                return Ok(None);
            };
            let line = &self.input.window()[..length];
            if self.is_skipped(line) {
                self.used = next;
                self.lines += 1;
                continue;
            }
            let begins_at = self.lines + 1;
            let quotes = self
                .dialect
                .quote
                .is_some_and(|quote| memchr(quote, line).is_some());
            let (end, count, fault) = if quotes {
                self.quoted_record(length, next)?
            } else {
                self.used = next;
                self.lines += 1;
                (length, self.split(length), None)
            };
            return Ok(Some(Record {
                line: begins_at,
                raw: &self.input.window()[..end],
                count,
                fault,
                fields: &self.fields,
                scratch: &self.scratch,
            }));
        }
    }

    /// Length of the first line of the window, without and with its end.
    fn line(&mut self) -> Result<Option<(usize, usize)>, DecodeError> {
        let mut searched = 0;
        loop {
            let window = self.input.window();
            match self.dialect.line_end(window, searched, self.input.ended()) {
                Some(found) => return Ok(Some(found)),
                None if self.input.ended() => {
                    let length = window.len();
                    return Ok((length > 0).then_some((length, length)));
                }
                // A carriage return at the very end has to be looked at again.
                None => searched = window.len().saturating_sub(1),
            }
            self.input.more(self.lines + 1)?;
        }
    }

    fn is_skipped(&self, line: &[u8]) -> bool {
        let dialect = &self.dialect;
        match line.first() {
            None => true,
            Some(first) if dialect.comment == Some(*first) => true,
            Some(first) if *first > b' ' => false,
            Some(_) => line.iter().all(|b| *b <= b' ' && *b != dialect.sep),
        }
    }

    /// Cuts a line without quotes into fields and counts them.
    fn split(&mut self, length: usize) -> usize {
        self.fields.clear();
        let line = &self.input.window()[..length];
        let mut start = 0;
        let mut count = 0;
        for end in memchr_iter(self.dialect.sep, line).chain([length]) {
            if count < self.keep {
                let field = self.dialect.plain_field(line, start, end);
                self.fields.push(field);
            }
            count += 1;
            start = end + 1;
        }
        count
    }

    /// Reads a record whose first line, `length` bytes and `next` with its end, has a quote in it. Answers the length of
    /// the record, the number of its fields, and what is wrong.
    fn quoted_record(
        &mut self,
        length: usize,
        next: usize,
    ) -> Result<(usize, usize, Option<&'static str>), DecodeError> {
        if let Scan::Complete { end, next, count } = self.scan_over_lines(length, next)? {
            let over_lines = end > length;
            let follow = self.dialect.multi_line == Some(true)
                || self.expected == usize::MAX
                || count == self.expected;
            if !over_lines || follow {
                let fault = (over_lines && self.dialect.multi_line == Some(false)).then_some(
                    "a quoted field runs over the end of the line, and multiLine is false",
                );
                self.lines += 1 + self.dialect.count_lines(&self.input.window()[..end]);
                self.used = next;
                return Ok((end, count, fault));
            }
        }
        // The quote is never closed: only this line is lost.
        self.used = next;
        self.lines += 1;
        let count = match self.scan(length, length, true) {
            Scan::Complete { count, .. } | Scan::Open { count } => count,
            Scan::Stray => 0,
        };
        Ok((length, count, Some("a quote is not closed")))
    }

    /// Scans the record at the front of the window, reading on as far as it goes. The first line has `length` bytes,
    /// `next` with its end.
    fn scan_over_lines(&mut self, length: usize, next: usize) -> Result<Scan, DecodeError> {
        let limit = match self.dialect.multi_line {
            Some(true) => usize::MAX,
            _ => next.saturating_add(STRAY_QUOTE_BYTES),
        };
        loop {
            let window = self.input.window().len();
            let last = self.input.ended() && window <= limit;
            match self.scan(window.min(limit), length, last) {
                Scan::Open { .. } if !self.input.ended() && window < limit => {
                    self.input.more(self.lines + 1)?;
                }
                scan => return Ok(scan),
            }
        }
    }

    /// Scans the record at the front of the first `length` bytes of the window, of which `first_line` are its first line;
    /// `last` says that nothing follows them.
    fn scan(&mut self, length: usize, first_line: usize, last: bool) -> Scan {
        self.fields.clear();
        self.scratch.clear();
        let text = &self.input.window()[..length];
        let dialect = &self.dialect;
        let (mut at, mut count) = (0, 0);
        loop {
            let (field, after) = match dialect.quoted_field(text, at, &mut self.scratch) {
                Some((_, Quoted::Open)) if !last => return Scan::Open { count },
                Some((_, Quoted::Odd(close))) if close > first_line => return Scan::Stray,
                Some((field, Quoted::Closed(after))) => (field, after),
                Some((field, Quoted::Open)) => {
                    if count < self.keep {
                        self.fields.push(field);
                    }
                    return Scan::Open { count: count + 1 };
                }
                Some((_, Quoted::Odd(_))) | None => dialect.unquoted_field(text, at),
            };
            if count < self.keep {
                self.fields.push(field);
            }
            count += 1;
            let carriage_return = !last && after + 1 == length && text[after] == b'\r';
            if !last && (after >= length || carriage_return) {
                return Scan::Open { count };
            }
            if after >= length || text[after] != dialect.sep {
                let end = after.min(length);
                let next = dialect.after_line_end(text, end).min(length);
                return Scan::Complete { end, next, count };
            }
            at = after + 1;
            // Fields that are too many may not go on over lines: a chain of stray quotes would take the whole file.
            if count > self.expected && at > first_line {
                return Scan::Stray;
            }
        }
    }
}

impl Dialect {
    /// Length of the first line of `text` without and with its end, looking from `from` on; None if no line ends.
    fn line_end(&self, text: &[u8], from: usize, last: bool) -> Option<(usize, usize)> {
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
    fn after_line_end(&self, text: &[u8], at: usize) -> usize {
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
    fn count_lines(&self, text: &[u8]) -> u64 {
        let mut count = 0;
        let mut rest = text;
        while let Some((_, next)) = self.line_end(rest, 0, true) {
            count += 1;
            rest = &rest[next..];
        }
        count
    }

    /// The unquoted field that begins at `start` and the place of what ends it.
    fn unquoted_field(&self, text: &[u8], start: usize) -> (Field, usize) {
        let end = text[start..]
            .iter()
            .position(|byte| *byte == self.sep || self.is_line_end(*byte))
            .map_or(text.len(), |at| start + at);
        (self.plain_field(text, start, end), end)
    }

    fn plain_field(&self, text: &[u8], start: usize, end: usize) -> Field {
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
    fn quoted_field(
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
