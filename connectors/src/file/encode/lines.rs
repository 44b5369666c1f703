//! The output of the formats made of lines: collects rows and hands them on in blocks, in the charset and compression of the file.

use std::io::Write;

use super::{EncodeError, FileStats};
use crate::file::charset::Charset;
use crate::file::codec::{Codec, Compressor};

/// Size at which collected bytes are handed to the output.
const BLOCK_BYTES: usize = 256 * 1024;

/// What all files made of lines have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// `compression`; default None.
    pub codec: Option<Codec>,
    /// `encoding`; default UTF-8.
    pub charset: Charset,
    /// `lineSep`: what ends a line or record; default a line feed.
    pub line_sep: String,
}

impl Default for TextFile {
    fn default() -> Self {
        Self {
            codec: None,
            charset: Charset::default(),
            line_sep: "\n".to_owned(),
        }
    }
}

impl TextFile {
    /// What follows the first dot of a file's name: `json`, `json.gz`.
    pub(super) fn extension(&self, format: &str) -> String {
        match self.codec {
            None => format.to_owned(),
            Some(codec) => format!("{format}.{}", codec.extension()),
        }
    }
}

/// A growing block in front of an output that need not be buffered itself.
pub(super) struct LineOutput {
    format: &'static str,
    out: Compressor,
    charset: Charset,
    compressed: bool,
    /// UTF-8.
    block: Vec<u8>,
    /// The block in the charset of the file.
    encoded: Vec<u8>,
    begun: bool,
    rows: u64,
}

impl LineOutput {
    pub(super) fn new(
        format: &'static str,
        file: &TextFile,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let failed = |source| EncodeError::Io { format, source };
        Ok(Self {
            format,
            out: Compressor::new(file.codec, out).map_err(failed)?,
            charset: file.charset,
            compressed: file.codec.is_some(),
            block: Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4),
            encoded: Vec::new(),
            begun: false,
            rows: 0,
        })
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

    /// Bytes of the file so far; what compression holds back is not among them.
    pub(super) fn bytes(&self) -> u64 {
        let waiting = if self.compressed { 0 } else { self.block.len() };
        self.out.bytes() + waiting as u64
    }

    pub(super) fn finish(mut self) -> Result<FileStats, EncodeError> {
        self.hand_over()?;
        let (format, rows) = (self.format, self.rows);
        let bytes = self
            .out
            .finish()
            .map_err(|source| EncodeError::Io { format, source })?;
        Ok(FileStats { rows, bytes })
    }

    fn hand_over(&mut self) -> Result<(), EncodeError> {
        let bytes = match self.charset {
            Charset::Utf8 => &self.block,
            charset => {
                self.encoded.clear();
                let first = !self.begun;
                encode(charset, &self.block, first, &mut self.encoded).map_err(|reason| {
                    EncodeError::Charset {
                        format: self.format,
                        reason,
                    }
                })?;
                &self.encoded
            }
        };
        self.out.write(bytes).map_err(|source| EncodeError::Io {
            format: self.format,
            source,
        })?;
        self.begun = true;
        self.block.clear();
        Ok(())
    }
}

fn encode(charset: Charset, block: &[u8], first: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let text = std::str::from_utf8(block).map_err(|error| error.to_string())?;
    charset
        .encode(text, first, out)
        .map_err(|c| format!("it has no character '{c}' (U+{:04X})", u32::from(c)))
}
