//! The unread part of a file, a window that grows when a record needs it to.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use crate::file::decode::DecodeError;

/// Smallest size of the window.
const WINDOW_BYTES: usize = 256 << 10;

/// The byte-order mark of UTF-8.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A window onto the file: bytes read and not yet consumed.
pub(super) struct Input {
    reader: Box<dyn Read + Send>,
    file: Arc<str>,
    buffer: Vec<u8>,
    /// The window is `buffer[start..end]`.
    start: usize,
    end: usize,
    ended: bool,
    limit: usize,
}

impl Input {
    /// `file` is the name used in errors; records are longer than allowed from `limit` bytes on.
    pub(super) fn new(reader: Box<dyn Read + Send>, file: &str, limit: usize) -> Self {
        Self {
            reader,
            file: file.into(),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            ended: false,
            limit,
        }
    }

    pub(super) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Most bytes of a record, give or take what the window has beyond it.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes read and not consumed.
    pub(super) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether the window reaches to the end of the file.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Takes `bytes` off the front of the window.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Drops a byte-order mark; to be called before anything else.
    pub(super) fn skip_bom(&mut self) -> Result<(), DecodeError> {
        self.more(0)?;
        if self.window().starts_with(BOM) {
            self.consume(BOM.len());
        }
        Ok(())
    }

    /// Makes the window longer, to its full size, or notes the end of the file. `line` is the line it begins at, from 1.
    pub(super) fn more(&mut self, line: u64) -> Result<(), DecodeError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // Twice the size each time, so that looking again at the whole window stays cheap.
        if self.end * 2 > self.buffer.len() || self.buffer.is_empty() {
            self.buffer
                .resize((self.buffer.len() * 2).max(WINDOW_BYTES), 0);
        }
        while self.end < self.buffer.len() && !self.ended {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(DecodeError::Read {
                        file: Arc::clone(&self.file),
                        line: line.saturating_sub(1),
                        source,
                    });
                }
            }
        }
        Ok(())
    }
}
