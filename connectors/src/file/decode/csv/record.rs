//! Cuts a CSV file into records and records into fields.
//!
//! Own code instead of a CSV library, because the rules need what the libraries do not tell: whether a field was quoted
//! (that is what tells the empty text from NULL), the raw text of a record, both ways of writing a quote in one file,
//! and where to go on after a quote that is never closed.
//!
//! A record ends at the end of its line unless a quoted field runs over it. Quotes count only at the very beginning of a
//! field. What follows a closing quote other than blanks makes the field an unquoted one that is taken as it stands, up
//! to the next separator (Spark's `STOP_AT_DELIMITER`), unless `unescapedQuoteHandling` says otherwise.

use memchr::{memchr, memchr_iter, memmem};

use super::dialect::{Dialect, Field, Quoted};
use super::input::Input;
use super::options::UnescapedQuotes;
use crate::file::decode::{DecodeError, too_long};

/// How far a quoted field is followed over line ends when nobody asked for `multiLine`.
const STRAY_QUOTE_BYTES: usize = 1 << 20;

/// Bytes kept of a record that is longer than allowed.
const HEAD_BYTES: usize = 1 << 10;

/// Reads records one after the other. One that is longer than allowed is passed without being held.
pub(super) struct Records {
    input: Input,
    dialect: Dialect,
    fields: Vec<Field>,
    scratch: Vec<u8>,
    /// The first bytes of the last record that was longer than allowed.
    head: Vec<u8>,
    /// Fields to keep; further ones are only counted.
    keep: usize,
    /// Fields a record should have; `usize::MAX` as long as nobody knows.
    expected: usize,
    /// Lines before the window.
    lines: u64,
    /// Whether text follows a closing quote in the last record.
    odd: bool,
    /// Bytes of the last record, still in the window, to be consumed before the next.
    used: usize,
    started: bool,
}

/// One record. Texts are bytes of the file, not checked in any way.
pub(super) struct Record<'a> {
    /// Line at which it begins, from 1.
    pub(super) line: u64,
    /// The text of the record without its line end; of one longer than allowed the beginning.
    pub(super) raw: &'a [u8],
    /// How many fields it has, kept or not.
    pub(super) count: usize,
    /// What is wrong with it as a whole.
    pub(super) damage: Option<Damage>,
    /// It has a quote in a place where one is an error, whatever the mode.
    pub(super) forbidden_quote: bool,
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

/// What can be wrong with a record before anybody looks at its fields.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    /// Something about its quotes.
    Quotes(&'static str),
    /// It has so many bytes, more than allowed, and no fields.
    Length { bytes: u64, limit: usize },
}

impl Damage {
    /// One phrase for people.
    pub(super) fn reason(self) -> String {
        match self {
            Self::Quotes(reason) => reason.to_owned(),
            Self::Length { bytes, limit } => too_long(bytes, limit),
        }
    }
}

/// The first line of the window.
enum Line {
    /// Its length without and with its end.
    Whole { length: usize, next: usize },
    /// So many bytes, longer than allowed; its first ones are in `head`.
    Long(u64),
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

impl Records {
    pub(super) fn new(input: Input, dialect: Dialect) -> Self {
        Self {
            input,
            dialect,
            fields: Vec::new(),
            scratch: Vec::new(),
            head: Vec::new(),
            keep: usize::MAX,
            expected: usize::MAX,
            lines: 0,
            odd: false,
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
            let (length, next) = match self.line()? {
                None => return Ok(None),
                Some(Line::Whole { length, next }) => (length, next),
                Some(Line::Long(bytes)) => {
                    self.lines += 1;
                    if self.is_comment(&self.head) {
                        continue;
                    }
                    return Ok(Some(self.long(bytes)));
                }
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
            self.odd = false;
            let (end, count, quotes) = if quotes {
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
                damage: quotes.map(Damage::Quotes),
                forbidden_quote: self.odd
                    && self.dialect.unescaped_quotes == UnescapedQuotes::RaiseError,
                fields: &self.fields,
                scratch: &self.scratch,
            }));
        }
    }

    /// The record that was passed last.
    fn long(&mut self, bytes: u64) -> Record<'_> {
        self.fields.clear();
        let limit = self.input.limit();
        Record {
            line: self.lines,
            raw: &self.head,
            count: 0,
            damage: Some(Damage::Length { bytes, limit }),
            forbidden_quote: false,
            fields: &self.fields,
            scratch: &self.scratch,
        }
    }

    /// The first line of the window; one that is longer than allowed is passed.
    fn line(&mut self) -> Result<Option<Line>, DecodeError> {
        let mut searched = 0;
        loop {
            let window = self.input.window();
            match self.dialect.line_end(window, searched, self.input.ended()) {
                Some((length, next)) => return Ok(Some(Line::Whole { length, next })),
                None if self.input.ended() => {
                    let (length, next) = (window.len(), window.len());
                    return Ok((length > 0).then_some(Line::Whole { length, next }));
                }
                None if window.len() > self.input.limit() => return self.pass().map(Some),
                // A carriage return at the very end has to be looked at again.
                None => searched = window.len().saturating_sub(1),
            }
            self.input.more(self.lines + 1)?;
        }
    }

    /// Passes the line at the front of the window, of which only the first bytes are kept.
    fn pass(&mut self) -> Result<Line, DecodeError> {
        let window = self.input.window();
        self.head.clear();
        self.head
            .extend_from_slice(&window[..HEAD_BYTES.min(window.len())]);
        let mut passed = 0;
        loop {
            let (window, ended) = (self.input.window(), self.input.ended());
            let end = self.dialect.line_end(window, 0, ended);
            if end.is_some() || ended {
                let (length, next) = end.unwrap_or((window.len(), window.len()));
                self.used = next;
                return Ok(Line::Long(passed + length as u64));
            }
            // A carriage return at the very end has to be looked at again.
            let looked_at = window.len().saturating_sub(1);
            self.input.consume(looked_at);
            passed += looked_at as u64;
            self.input.more(self.lines + 1)?;
        }
    }

    fn is_comment(&self, line: &[u8]) -> bool {
        self.dialect.comment.is_some() && line.first() == self.dialect.comment.as_ref()
    }

    fn is_skipped(&self, line: &[u8]) -> bool {
        let dialect = &self.dialect;
        match line.first() {
            None => true,
            Some(_) if self.is_comment(line) => true,
            Some(first) if *first > b' ' => false,
            Some(_) => line.iter().all(|b| *b <= b' ') && !dialect.sep.is_in(line),
        }
    }

    /// Cuts a line without quotes into fields and counts them.
    fn split(&mut self, length: usize) -> usize {
        let line = &self.input.window()[..length];
        let separator = self.dialect.sep.bytes();
        let cut = Cut {
            dialect: &self.dialect,
            line,
            keep: self.keep,
        };
        match separator {
            [byte] => cut.at(memchr_iter(*byte, line), &mut self.fields),
            bytes => cut.at(memmem::find_iter(line, bytes), &mut self.fields),
        }
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
            Some(true) => next.max(self.input.limit()),
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
        self.odd = false;
        let one_line = self.dialect.multi_line != Some(true);
        let text = &self.input.window()[..length];
        let dialect = &self.dialect;
        let (mut at, mut count) = (0, 0);
        loop {
            let quoted = dialect.quoted_field(text, at, last, &mut self.scratch);
            if let Some((
                _,
                Quoted::Odd(_) | Quoted::Open { odd: true } | Quoted::Closed { odd: true, .. },
            )) = quoted
            {
                self.odd = true;
            }
            let (field, after) = match quoted {
                // Nothing tells a quote that closes from a stray one any more.
                Some((_, Quoted::Open { odd: true })) if one_line && text.len() > first_line => {
                    return Scan::Stray;
                }
                Some((_, Quoted::Closed { after, odd: true }))
                    if one_line && after > first_line =>
                {
                    return Scan::Stray;
                }
                Some((_, Quoted::Open { .. })) if !last => return Scan::Open { count },
                Some((_, Quoted::Odd(close))) if close > first_line => return Scan::Stray,
                Some((field, Quoted::Closed { after, .. })) => (field, after),
                Some((field, Quoted::Open { .. })) => {
                    if count < self.keep {
                        self.fields.push(field);
                    }
                    return Scan::Open { count: count + 1 };
                }
                Some((_, Quoted::Odd(close))) => dialect.odd_field(text, at, close),
                None => dialect.unquoted_field(text, at, at),
            };
            if count < self.keep {
                self.fields.push(field);
            }
            count += 1;
            let carriage_return = !last && after + 1 == length && text[after] == b'\r';
            if !last && (after >= length || carriage_return) {
                return Scan::Open { count };
            }
            if after >= length || !dialect.sep.is_at(text, after) {
                let end = after.min(length);
                let next = dialect.after_line_end(text, end).min(length);
                return Scan::Complete { end, next, count };
            }
            at = after + dialect.sep.len();
            // Fields that are too many may not go on over lines: a chain of stray quotes would take the whole file.
            if count > self.expected && at > first_line {
                return Scan::Stray;
            }
        }
    }
}

/// A line that is cut into fields.
struct Cut<'a> {
    dialect: &'a Dialect,
    line: &'a [u8],
    keep: usize,
}

impl Cut<'_> {
    /// The fields between these separators; answers how many there are, kept or not.
    fn at(&self, separators: impl Iterator<Item = usize>, fields: &mut Vec<Field>) -> usize {
        fields.clear();
        let mut start = 0;
        let mut count = 0;
        for end in separators.chain([self.line.len()]) {
            if count < self.keep {
                fields.push(self.dialect.plain_field(self.line, start, end));
            }
            count += 1;
            start = end + self.dialect.sep.len();
        }
        count
    }
}
