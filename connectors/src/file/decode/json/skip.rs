//! Passing over a value nobody asked for, with its syntax checked, without recursion.

use super::{
    cursor::{Cursor, Syntax},
    number::starts_number,
    render::Sink,
};

/// The buffers a decoder keeps between values.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The last string with escapes, resolved.
    pub(super) text: Vec<u8>,
    /// Closing brackets still due.
    brackets: Vec<u8>,
}

impl Cursor<'_> {
    /// Passes the value at the position.
    pub(super) fn skip(&mut self, scratch: &mut Scratch) -> Result<(), Syntax> {
        // Text without escapes and short whole numbers are most of what is skipped.
        let end = match self.token()? {
            b'"' => self.plain_string_end(),
            b'-' | b'0'..=b'9' => self.short_whole_number().map(|(_, end)| end),
            _ => None,
        };
        match end {
            Some(end) => {
                self.pos = end;
                Ok(())
            }
            None => self.walk(scratch, &mut ()),
        }
    }

    /// Passes the value at the position and tells `sink` everything in it.
    pub(super) fn walk<S: Sink>(
        &mut self,
        scratch: &mut Scratch,
        sink: &mut S,
    ) -> Result<(), Syntax> {
        let Scratch { text, brackets } = scratch;
        brackets.clear();
        let depth = self.depth;
        loop {
            let opened = match self.token()? {
                b'{' => Some(b'}'),
                b'[' => Some(b']'),
                byte => {
                    self.scalar(byte, text, sink)?;
                    None
                }
            };
            if let Some(close) = opened {
                sink.open(close);
                self.enter()?;
                brackets.push(close);
                if !self.empty(close)? {
                    self.member(close, text, sink)?;
                    continue;
                }
                self.leave(brackets, sink);
            }
            // A value has ended: close what ends with it, then go on behind the comma.
            loop {
                let Some(&close) = brackets.last() else {
                    self.depth = depth;
                    return Ok(());
                };
                if self.more(close)? {
                    sink.comma();
                    self.member(close, text, sink)?;
                    break;
                }
                self.leave(brackets, sink);
            }
        }
    }

    fn leave<S: Sink>(&mut self, brackets: &mut Vec<u8>, sink: &mut S) {
        self.depth -= 1;
        if let Some(close) = brackets.pop() {
            sink.close(close);
        }
    }

    /// In an object, passes the name and the colon before a value.
    fn member<S: Sink>(
        &mut self,
        close: u8,
        text: &mut Vec<u8>,
        sink: &mut S,
    ) -> Result<(), Syntax> {
        if close == b'}' {
            let name = self.name(text)?;
            sink.name(name.bytes(text));
            self.colon()?;
        }
        Ok(())
    }

    fn scalar<S: Sink>(
        &mut self,
        byte: u8,
        text: &mut Vec<u8>,
        sink: &mut S,
    ) -> Result<(), Syntax> {
        match byte {
            _ if self.is_quote(byte) => {
                let string = self.string(byte, text)?;
                sink.string(string.bytes(text));
            }
            b't' => self.literal(b"true", sink)?,
            b'f' => self.literal(b"false", sink)?,
            b'n' => self.literal(b"null", sink)?,
            _ if starts_number(byte) => {
                let number = self.number()?;
                sink.number(number);
            }
            _ => return Err(Syntax::UnexpectedCharacter),
        }
        Ok(())
    }

    fn literal<S: Sink>(&mut self, word: &[u8], sink: &mut S) -> Result<(), Syntax> {
        self.word(word)?;
        sink.literal(word);
        Ok(())
    }
}
