//! The output of the formats made of lines: collects rows and hands them on in blocks.

use std::io::Write;

use super::{EncodeError, FileStats};

/// Size at which collected bytes are handed to the output.
const BLOCK_BYTES: usize = 256 * 1024;

/// A growing block in front of an output that need not be buffered itself.
pub(super) struct LineOutput {
    format: &'static str,
    out: Box<dyn Write + Send>,
    block: Vec<u8>,
    handed_over: u64,
    rows: u64,
}

impl LineOutput {
    pub(super) fn new(format: &'static str, out: Box<dyn Write + Send>) -> Self {
        Self {
            format,
            out,
            block: Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4),
            handed_over: 0,
            rows: 0,
        }
    }

    /// Where the bytes of the next row go.
    pub(super) fn block(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    /// Ends a row whose bytes, line end included, are in the block.
    pub(super) fn end_row(&mut self) -> Result<(), EncodeError> {
        self.rows += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Bytes of the file so far.
    pub(super) fn bytes(&self) -> u64 {
        self.handed_over + self.block.len() as u64
    }

    pub(super) fn finish(mut self) -> Result<FileStats, EncodeError> {
        self.hand_over()?;
        self.out.flush().map_err(|source| self.failed(source))?;
        Ok(FileStats {
            rows: self.rows,
            bytes: self.handed_over,
        })
    }

    fn hand_over(&mut self) -> Result<(), EncodeError> {
        self.out
            .write_all(&self.block)
            .map_err(|source| self.failed(source))?;
        self.handed_over += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> EncodeError {
        EncodeError::Io {
            format: self.format,
            source,
        }
    }
}
