//! A file as lines, read in chunks: the only place that knows about chunk borders.

use std::{io::Read, ops::Range, sync::Arc};

use memchr::{memchr2, memmem::Finder};

use super::DecodeError;

/// Bytes asked for at once; a few hundred records, still inside the second-level cache.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes kept of a line that is longer than allowed.
const HEAD_BYTES: usize = 1 << 10;

/// The byte-order mark of UTF-8.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// What ends a line.
enum Separator {
    /// `\n`, `\r\n` or `\r` (Spark's default).
    Newline,
    /// The text of the option `lineSep`.
    Text(Box<Finder<'static>>),
}

/// One line without its end.
pub(crate) struct Line<'a> {
    /// From 1; empty lines count.
    pub(crate) number: u64,
    /// The bytes, not checked in any way; of a line longer than allowed the first ones.
    pub(crate) bytes: &'a [u8],
    /// How many bytes the line has.
    pub(crate) length: u64,
}

impl Line<'_> {
    /// Whether the line is longer than allowed, so that most of it is not here.
    pub(crate) fn is_cut(&self) -> bool {
        self.length > self.bytes.len() as u64
    }
}

/// A line found.
enum Found {
    /// In these bytes of the buffer.
    Whole(Range<usize>),
    /// Of so many bytes, longer than allowed; its first ones are in `head`.
    Long(u64),
}

/// Reads lines one after the other; holds one chunk, or one line where a line is longer than that. A line longer than allowed is
/// passed without being held.
pub(crate) struct Lines {
    input: Box<dyn Read + Send>,
    file: Arc<str>,
    separator: Separator,
    max_line_bytes: usize,
    buffer: Vec<u8>,
    /// The first bytes of the last line that was longer than allowed.
    head: Vec<u8>,
    /// The unread part of `buffer`.
    unread: Range<usize>,
    /// Bytes of the unread part already searched for the separator.
    searched: usize,
    /// Lines handed out.
    number: u64,
    started: bool,
    ended: bool,
    /// The last line ended with `\r` at the very end of the chunk: a `\n` that follows belongs to it.
    pending_newline: bool,
}

impl Lines {
    /// `file` is only used in errors. An empty or absent `separator` means the default one.
    pub(crate) fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        separator: Option<&[u8]>,
        max_line_bytes: usize,
    ) -> Self {
        let separator = match separator {
            Some(text) if !text.is_empty() => {
                Separator::Text(Box::new(Finder::new(text).into_owned()))
            }
            _ => Separator::Newline,
        };
        Self {
            input,
            file: file.into(),
            separator,
            max_line_bytes,
            buffer: Vec::new(),
            head: Vec::new(),
            unread: 0..0,
            searched: 0,
            number: 0,
            started: false,
            ended: false,
            pending_newline: false,
        }
    }

    /// The display name given at the start.
    pub(crate) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// The next line, `None` at the end. The last line may lack its end; an empty rest is not a line.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line<'_>>, DecodeError> {
        let Some(found) = self.find()? else {
            return Ok(None);
        };
        self.number += 1;
        let (bytes, length) = match found {
            Found::Whole(range) => (&self.buffer[range.clone()], range.len() as u64),
            Found::Long(length) => (&self.head[..], length),
        };
        Ok(Some(Line {
            number: self.number,
            bytes,
            length,
        }))
    }

    /// Everything that is left, as one line. `None` when nothing is.
    ///
    /// # Errors
    /// [`DecodeError::RecordTooLong`] if it is longer than allowed: nothing follows that could still be read.
    pub(crate) fn rest(&mut self) -> Result<Option<Line<'_>>, DecodeError> {
        self.start()?;
        while !self.ended && self.unread.len() <= self.max_line_bytes {
            self.fill()?;
        }
        if self.unread.is_empty() {
            return Ok(None);
        }
        if self.unread.len() > self.max_line_bytes {
            return Err(self.too_long(self.number + 1));
        }
        self.number += 1;
        let range = std::mem::replace(&mut self.unread, 0..0);
        let length = range.len() as u64;
        Ok(Some(Line {
            number: self.number,
            bytes: &self.buffer[range],
            length,
        }))
    }

    fn find(&mut self) -> Result<Option<Found>, DecodeError> {
        self.start()?;
        loop {
            if self.pending_newline && !self.unread.is_empty() {
                self.pending_newline = false;
                if self.buffer[self.unread.start] == b'\n' {
                    self.unread.start += 1;
                }
            }
            match self.find_end() {
                Some((length, end)) if length <= self.max_line_bytes => {
                    let start = self.unread.start;
                    self.unread.start = start + end;
                    self.searched = 0;
                    return Ok(Some(Found::Whole(start..start + length)));
                }
                None if self.searched <= self.max_line_bytes => {}
                _ => return self.pass().map(Some),
            }
            if self.ended {
                if self.unread.len() > self.max_line_bytes {
                    return self.pass().map(Some);
                }
                let range = std::mem::replace(&mut self.unread, 0..0);
                self.searched = 0;
                return Ok((!range.is_empty()).then_some(Found::Whole(range)));
            }
            self.fill()?;
        }
    }

    /// Passes the line at the front, which is longer than allowed.
    fn pass(&mut self) -> Result<Found, DecodeError> {
        let unread = &self.buffer[self.unread.clone()];
        let kept = HEAD_BYTES.min(self.max_line_bytes);
        self.head.clear();
        self.head.extend_from_slice(&unread[..kept]);
        let mut passed = 0;
        loop {
            if let Some((length, end)) = self.find_end() {
                self.unread.start += end;
                self.searched = 0;
                return Ok(Found::Long(passed + length as u64));
            }
            if self.ended {
                let rest = std::mem::replace(&mut self.unread, 0..0);
                self.searched = 0;
                return Ok(Found::Long(passed + rest.len() as u64));
            }
            // No separator begins in what was searched.
            passed += self.searched as u64;
            self.unread.start += self.searched;
            self.searched = 0;
            self.fill()?;
        }
    }

    /// Length of the first unread line and of the line with its end.
    fn find_end(&mut self) -> Option<(usize, usize)> {
        let unread = &self.buffer[self.unread.clone()];
        let fresh = &unread[self.searched..];
        match &self.separator {
            Separator::Newline => {
                let Some(found) = memchr2(b'\n', b'\r', fresh) else {
                    self.searched = unread.len();
                    return None;
                };
                let length = self.searched + found;
                if unread[length] == b'\n' {
                    return Some((length, length + 1));
                }
                let follower = unread.get(length + 1);
                self.pending_newline = follower.is_none();
                Some((length, length + 1 + usize::from(follower == Some(&b'\n'))))
            }
            Separator::Text(finder) => {
                let width = finder.needle().len();
                if let Some(found) = finder.find(fresh) {
                    return Some((self.searched + found, self.searched + found + width));
                }
                // The separator may have begun in the last bytes.
                self.searched = unread.len().saturating_sub(width - 1).max(self.searched);
                None
            }
        }
    }

    /// Reads far enough to drop a byte-order mark.
    fn start(&mut self) -> Result<(), DecodeError> {
        while !self.started {
            if self.unread.len() >= BOM.len() || self.ended {
                self.started = true;
                if self.buffer[self.unread.clone()].starts_with(&BOM) {
                    self.unread.start += BOM.len();
                }
            } else {
                self.fill()?;
            }
        }
        Ok(())
    }

    /// Adds at least one byte to the unread part or notes the end of the file.
    fn fill(&mut self) -> Result<(), DecodeError> {
        if self.unread.end == self.buffer.len() {
            self.make_room();
        }
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.unread.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(DecodeError::Read {
                        file: Arc::clone(&self.file),
                        line: self.number,
                        source,
                    });
                }
            }
            return Ok(());
        }
    }

    /// Moves the unread part to the front; a buffer that is still full grows.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.len() * 2 > self.buffer.len() || self.buffer.is_empty() {
            self.buffer
                .resize((self.buffer.len() * 2).max(CHUNK_BYTES), 0);
        }
    }

    /// The error of a line that is longer than allowed where such lines cannot be left out.
    pub(crate) fn too_long(&self, line: u64) -> DecodeError {
        DecodeError::RecordTooLong {
            file: Arc::clone(&self.file),
            line,
            limit_bytes: self.max_line_bytes,
        }
    }

    /// Most bytes of a line.
    pub(crate) fn limit(&self) -> usize {
        self.max_line_bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out at most `step` bytes per read.
    pub(crate) struct Dribble {
        pub(crate) bytes: Vec<u8>,
        pub(crate) at: usize,
        pub(crate) step: usize,
    }

    impl Read for Dribble {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = self.step.min(out.len()).min(self.bytes.len() - self.at);
            out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn lines_of(bytes: &[u8], step: usize, separator: Option<&[u8]>) -> Vec<Vec<u8>> {
        let input = Dribble {
            bytes: bytes.to_vec(),
            at: 0,
            step,
        };
        let mut lines = Lines::new(Box::new(input), "f", separator, 1 << 20);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().expect("readable") {
            all.push(line.bytes.to_vec());
            assert_eq!(line.number, all.len() as u64);
        }
        all
    }

    #[test]
    fn lines_end_with_any_newline_and_the_last_may_lack_it() {
        let expected: Vec<Vec<u8>> = ["a", "b", "", "c", "d"]
            .map(|line| line.as_bytes().to_vec())
            .to_vec();
        for step in 1..12 {
            assert_eq!(
                lines_of(b"\xEF\xBB\xBFa\nb\r\n\r\nc\rd", step, None),
                expected,
                "step {step}"
            );
        }
        assert!(lines_of(b"", 1, None).is_empty());
        assert!(lines_of(b"\xEF\xBB\xBF", 1, None).is_empty());
        assert_eq!(lines_of(b"a\n", 1, None), [b"a"]);
        assert_eq!(lines_of(b"\n\n", 1, None), [b"", b""]);
    }

    #[test]
    fn lines_end_with_the_given_text_only() {
        for step in 1..9 {
            assert_eq!(
                lines_of(b"a\n||b|c||", step, Some(b"||")),
                [&b"a\n"[..], b"b|c"],
                "step {step}"
            );
        }
    }

    #[test]
    fn line_longer_than_the_limit_is_passed_and_its_neighbours_are_read() {
        let separators: [&[u8]; 3] = [b"\n", b"\r\n", b"||"];
        for separator in separators {
            let long = vec![b'x'; (3 << 20) + 7];
            let text = [&b"short"[..], separator, &long[..], separator, b"next"].concat();
            let option = (separator == b"||").then_some(separator);
            for step in [999, 1 << 20, usize::MAX] {
                let bytes = text.clone();
                let input = Box::new(Dribble { bytes, at: 0, step });
                let mut lines = Lines::new(input, "f", option, 1000);
                let mut told = Vec::new();
                while let Some(line) = lines.next_line().expect("readable") {
                    told.push((line.number, line.bytes.len(), line.length, line.is_cut()));
                }
                let length = long.len() as u64;
                assert_eq!(
                    told,
                    [(1, 5, 5, false), (2, 1000, length, true), (3, 4, 4, false)]
                );
                assert!(
                    lines.buffer.len() <= 2 * CHUNK_BYTES,
                    "{}",
                    lines.buffer.len()
                );
            }
        }
        let mut last = Lines::new(Box::new(&b"a\nlong"[..]), "f", None, 3);
        assert!(!last.next_line().expect("fits").expect("a line").is_cut());
        let line = last.next_line().expect("passed").expect("a line");
        assert_eq!((line.bytes, line.length), (&b"lon"[..], 4));
        assert!(last.next_line().expect("the end").is_none());
    }

    #[test]
    fn line_that_goes_on_for_ever_does_not_fill_memory() {
        let endless = std::io::repeat(b'x').take(64 << 20);
        let mut lines = Lines::new(Box::new(endless), "f", None, 3 << 20);
        let line = lines.next_line().expect("passed").expect("a line");
        assert_eq!(line.length, 64 << 20);
        assert!(lines.buffer.len() <= 8 << 20);
    }

    #[test]
    fn rest_is_the_whole_file() {
        let input = Dribble {
            bytes: b"\xEF\xBB\xBFa\nb".to_vec(),
            at: 0,
            step: 1,
        };
        let mut lines = Lines::new(Box::new(input), "f", None, 100);
        assert_eq!(
            lines.rest().expect("readable").expect("something").bytes,
            b"a\nb"
        );
        assert!(lines.rest().expect("readable").is_none());
        let mut long = Lines::new(Box::new(&b"a\nb"[..]), "dir/f.json", None, 2);
        assert_eq!(
            long.rest().err().expect("too long").to_string(),
            "file \"dir/f.json\", line 1: record longer than the allowed 2 bytes"
        );
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_chunks(text in "[ab\r\n]{0,60}", step in 1usize..20) {
            prop_assert_eq!(lines_of(text.as_bytes(), step, None), lines_of(text.as_bytes(), 1000, None));
            prop_assert_eq!(lines_of(text.as_bytes(), step, Some(b"ab")), lines_of(text.as_bytes(), 1000, Some(b"ab")));
        }
    }
}
