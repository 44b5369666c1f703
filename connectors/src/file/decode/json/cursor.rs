//! Walking over the text of one record: blanks, punctuation, literals, strings.
//!
//! The text is UTF-8, checked before. Nothing here allocates except the scratch buffer of strings with escapes, and
//! nothing recurses.

use super::{super::parse::words, options::JsonOptions};

/// Why a text is not JSON; where is the cursor's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// The text ends inside a value.
    UnexpectedEnd,
    /// Another character was needed here.
    UnexpectedCharacter,
    /// A string without its closing quote.
    UnterminatedString,
    /// A control character inside a string.
    ControlCharacter,
    /// A backslash followed by something that needs none.
    BadEscape,
    /// Digits where none may stand, a missing digit, or a leading zero.
    BadNumber,
    /// A number longer than allowed.
    NumberTooLong,
    /// Objects and arrays inside each other deeper than allowed.
    TooDeep,
    /// More than 2 GiB of text in one column of one batch.
    BatchTooLarge,
}

impl Syntax {
    /// One phrase for people.
    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "the record ends inside a value",
            Self::UnexpectedCharacter => "unexpected character",
            Self::UnterminatedString => "text without closing quote",
            Self::ControlCharacter => "control character inside text",
            Self::BadEscape => "unknown escape",
            Self::BadNumber => "not a number",
            Self::NumberTooLong => "number longer than allowed",
            Self::TooDeep => "nesting deeper than allowed",
            Self::BatchTooLarge => "more than 2 GiB of text in one batch",
        }
    }
}

/// A string as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// Without escapes: the bytes between the quotes.
    Plain(&'a [u8]),
    /// With escapes: resolved into the scratch buffer.
    Resolved,
}

impl<'a> Text<'a> {
    /// The characters, given the scratch buffer the string was read with.
    pub(super) fn bytes<'s>(self, scratch: &'s [u8]) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Resolved => scratch,
        }
    }
}

/// A position in the text of one record.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) pos: usize,
    pub(super) options: &'a JsonOptions,
    /// Objects and arrays around the position.
    pub(super) depth: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], options: &'a JsonOptions) -> Self {
        Self {
            text,
            pos: 0,
            options,
            depth: 0,
        }
    }

    /// The byte at the position.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    /// The first byte at or after the position that is no blank (and no comment); the position moves to it.
    #[inline]
    pub(super) fn peek_token(&mut self) -> Option<u8> {
        match self.peek() {
            Some(byte) if byte > b' ' && byte != b'/' => Some(byte),
            _ => self.skip_blanks(),
        }
    }

    #[cold]
    #[inline(never)]
    fn skip_comment(&mut self) {
        let rest = &self.text[self.pos..];
        let length = match rest {
            [b'/', b'/', body @ ..] => memchr::memchr2(b'\n', b'\r', body).map(|end| end + 2),
            [b'/', b'*', body @ ..] => memchr::memmem::find(body, b"*/").map(|end| end + 4),
            _ => Some(0),
        };
        self.pos += length.unwrap_or(rest.len());
    }

    fn skip_blanks(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\n' | b'\t' | b'\r' => self.pos += 1,
                b'/' if self.options.allow_comments => {
                    let before = self.pos;
                    self.skip_comment();
                    if self.pos == before {
                        return Some(b'/');
                    }
                }
                byte => return Some(byte),
            }
        }
    }

    /// As [`Cursor::peek_token`], where something must follow.
    #[inline]
    pub(super) fn token(&mut self) -> Result<u8, Syntax> {
        self.peek_token().ok_or(Syntax::UnexpectedEnd)
    }

    /// After an element: true at a comma (passed), false at `close` (passed).
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Syntax> {
        let byte = self.token()?;
        if byte != b',' && byte != close {
            return Err(Syntax::UnexpectedCharacter);
        }
        self.pos += 1;
        Ok(byte == b',')
    }

    /// After an opening bracket: true when the container is empty (the closing one is passed).
    #[inline]
    pub(super) fn empty(&mut self, close: u8) -> Result<bool, Syntax> {
        let empty = self.token()? == close;
        self.pos += usize::from(empty);
        Ok(empty)
    }

    /// Passes the opening bracket at the position.
    #[inline]
    pub(super) fn enter(&mut self) -> Result<(), Syntax> {
        self.pos += 1;
        self.depth += 1;
        if self.depth > self.options.max_nesting_depth {
            Err(Syntax::TooDeep)
        } else {
            Ok(())
        }
    }

    /// Passes the colon after a field name.
    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), Syntax> {
        if self.token()? != b':' {
            return Err(Syntax::UnexpectedCharacter);
        }
        self.pos += 1;
        Ok(())
    }

    /// Passes `word` (`true`, `false`, `null`).
    #[inline]
    pub(super) fn word(&mut self, word: &[u8]) -> Result<(), Syntax> {
        if !self.text[self.pos..].starts_with(word) {
            return Err(Syntax::UnexpectedCharacter);
        }
        self.pos += word.len();
        Ok(())
    }

    /// Whether `byte` opens a string here.
    #[inline]
    pub(super) fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || (byte == b'\'' && self.options.allow_single_quotes)
    }

    /// The string that begins with the quote at the position.
    #[inline]
    pub(super) fn string(&mut self, quote: u8, scratch: &mut Vec<u8>) -> Result<Text<'a>, Syntax> {
        let start = self.pos + 1;
        let end = plain_end(self.text, start, quote);
        if self.text.get(end) == Some(&quote) {
            self.pos = end + 1;
            return Ok(Text::Plain(&self.text[start..end]));
        }
        scratch.clear();
        scratch.extend_from_slice(&self.text[start..end]);
        self.pos = end;
        self.resolve(quote, scratch)?;
        Ok(Text::Resolved)
    }

    /// Where the string at the position ends, if it has no escapes.
    #[inline]
    pub(super) fn plain_string_end(&self) -> Option<usize> {
        let end = plain_end(self.text, self.pos + 1, b'"');
        (self.text.get(end) == Some(&b'"')).then_some(end + 1)
    }

    /// Reads on from an escape or control character up to the closing quote.
    #[cold]
    fn resolve(&mut self, quote: u8, scratch: &mut Vec<u8>) -> Result<(), Syntax> {
        loop {
            match self.peek().ok_or(Syntax::UnterminatedString)? {
                byte if byte == quote => {
                    self.pos += 1;
                    return Ok(());
                }
                b'\\' => self.escape(scratch)?,
                byte if byte < b' ' => {
                    if !self.options.allow_unquoted_control_chars {
                        return Err(Syntax::ControlCharacter);
                    }
                    scratch.push(byte);
                    self.pos += 1;
                }
                _ => {
                    let end = plain_end(self.text, self.pos, quote);
                    scratch.extend_from_slice(&self.text[self.pos..end]);
                    self.pos = end;
                }
            }
        }
    }

    fn escape(&mut self, scratch: &mut Vec<u8>) -> Result<(), Syntax> {
        let byte = *self
            .text
            .get(self.pos + 1)
            .ok_or(Syntax::UnterminatedString)?;
        let resolved = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode_escape(scratch),
            b'\'' if self.options.allow_single_quotes => byte,
            _ if self.options.allow_backslash_escaping_any_character => byte,
            _ => return Err(Syntax::BadEscape),
        };
        scratch.push(resolved);
        self.pos += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them that form a pair. Half a pair alone is written as `?`, as Java encodes it.
    fn unicode_escape(&mut self, scratch: &mut Vec<u8>) -> Result<(), Syntax> {
        let first = self.code_unit()?;
        let mut code = first;
        if (0xD800..0xDC00).contains(&first) && self.text[self.pos..].starts_with(b"\\u") {
            let before = self.pos;
            let second = self.code_unit()?;
            if (0xDC00..0xE000).contains(&second) {
                code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            } else {
                self.pos = before;
            }
        }
        let character = char::from_u32(code).unwrap_or('?');
        scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn code_unit(&mut self) -> Result<u32, Syntax> {
        let digits = self
            .text
            .get(self.pos + 2..self.pos + 6)
            .ok_or(Syntax::BadEscape)?;
        let unit = digits.iter().try_fold(0, |value, byte| {
            Some(value << 4 | char::from(*byte).to_digit(16)?)
        });
        self.pos += 6;
        unit.ok_or(Syntax::BadEscape)
    }

    /// The name of a field: quoted, or bare where allowed.
    pub(super) fn name(&mut self, scratch: &mut Vec<u8>) -> Result<Text<'a>, Syntax> {
        let byte = self.token()?;
        if self.is_quote(byte) {
            return self.string(byte, scratch);
        }
        if !self.options.allow_unquoted_field_names {
            return Err(Syntax::UnexpectedCharacter);
        }
        let rest = &self.text[self.pos..];
        let length = rest
            .iter()
            .position(|byte| !is_name_byte(*byte))
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(Syntax::UnexpectedCharacter);
        }
        self.pos += length;
        Ok(Text::Plain(&rest[..length]))
    }
}

/// Characters of bare field names, as Jackson takes them.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_$#@*+-".contains(&byte)
}

/// Where the plain run from `start` ends: at `quote`, a backslash, a control character, or the end of the text.
#[inline]
pub(super) fn plain_end(text: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while let Some(word) = words::word_at(text, at) {
        let special =
            words::equal_to(word, quote) | words::equal_to(word, b'\\') | words::below(word, b' ');
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if byte == quote || byte == b'\\' || byte < b' ' {
            return at;
        }
        at += 1;
    }
    at
}
