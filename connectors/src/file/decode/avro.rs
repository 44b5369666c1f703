//! Avro object container files.
//!
//! The library decodes blocks, or [`crate::avro`] does where schemas have to be resolved; their framing is checked here, because the
//! library takes a file that is cut off for a shorter one. Columns are found by name and may differ in type as [`super::adapt`] says. A
//! damaged file is an error, never fewer rows.

mod options;
mod positions;
mod resolved;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow_avro::reader::{ReaderBuilder, read_header_info};

pub use self::options::AvroOptions;
use self::positions::renamed;
use self::resolved::Resolved;
use super::adapt::Columns;
use super::{BadRecords, BatchReader, DecodeError, DecodeSettings};

const FORMAT: &str = "avro";
/// Bytes between two blocks.
const SYNC_BYTES: usize = 16;
/// Bytes of a block, at most: what a writer buffers, and a guard against lengths that are damage.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// Reads one Avro file, block after block; holds one.
pub struct AvroReader {
    file: Arc<str>,
    input: BufReader<File>,
    decoder: Decoder,
    sync: [u8; SYNC_BYTES],
    columns: Columns,
    /// Bytes of the file before the block that comes next.
    at: u64,
    bad: BadRecords,
}

/// What makes columns of a block.
enum Decoder {
    /// The library, which wants to see the bytes before the first block before each.
    Library(Vec<u8>),
    Resolved(Box<Resolved>),
}

/// A block as it is in the file.
struct Block {
    rows: usize,
    /// Its bytes, framing included.
    bytes: Vec<u8>,
    /// Where its data begin; they go on to the mark of the file.
    data: usize,
}

/// A file without rows.
#[derive(Default)]
pub(crate) struct NoRows(BadRecords);

impl BatchReader for NoRows {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        Ok(None)
    }

    fn bad_records(&self) -> &BadRecords {
        &self.0
    }
}

impl AvroReader {
    /// A reader of a local file; `name` is the name used in errors.
    ///
    /// # Errors
    /// The file is no Avro file, or a column does not fit the schema.
    pub fn from_file(
        file: File,
        name: &str,
        settings: &DecodeSettings,
        options: &AvroOptions,
    ) -> Result<Self, DecodeError> {
        let name: Arc<str> = name.into();
        let damaged = |reason: String| damaged(&name, reason);
        let read_failed = |source| DecodeError::Read {
            file: Arc::clone(&name),
            line: 0,
            source,
        };
        let info = read_header_info(BufReader::new(file.try_clone().map_err(read_failed)?))
            .map_err(|error| damaged(error.to_string()))?;
        let length = usize::try_from(info.header_len()).unwrap_or(usize::MAX);
        let mut input = BufReader::new(file);
        rewind(&mut input).map_err(read_failed)?;
        let mut header = vec![0; length];
        input.read_exact(&mut header).map_err(read_failed)?;
        let resolved = Resolved::of(&info, options).map_err(|reason| DecodeError::Schema {
            file: Arc::clone(&name),
            reason,
        })?;
        let (found, decoder) = match resolved {
            Some(resolved) => (
                Arc::clone(resolved.schema()),
                Decoder::Resolved(Box::new(resolved)),
            ),
            None => {
                let reader = ReaderBuilder::new()
                    .build(header.as_slice())
                    .map_err(|error| damaged(error.to_string()))?;
                (reader.schema(), Decoder::Library(header))
            }
        };
        let columns = match options.by_position {
            true => Columns::plan(&renamed(&found, &settings.schema), &settings.schema, &name),
            false => Columns::plan(&found, &settings.schema, &name),
        };
        Ok(Self {
            columns: columns?,
            at: info.header_len(),
            sync: info.sync(),
            decoder,
            input,
            bad: BadRecords::default(),
            file: name,
        })
    }

    /// The next block; `None` at the end of the file.
    fn next_block(&mut self) -> Result<Option<Block>, DecodeError> {
        let mut block = Vec::new();
        let Some(rows) = self.long(&mut block, true)? else {
            return Ok(None);
        };
        let bytes = self.long(&mut block, false)?.unwrap_or(-1);
        let (Ok(rows), Ok(bytes)) = (usize::try_from(rows), u64::try_from(bytes)) else {
            return Err(self.damaged(format!("a block of {rows} rows and {bytes} bytes")));
        };
        if bytes > MAX_BLOCK_BYTES {
            return Err(self.damaged(format!("a block of {bytes} bytes")));
        }
        let data = block.len();
        let wanted = bytes + SYNC_BYTES as u64;
        let read = (&mut self.input).take(wanted).read_to_end(&mut block);
        if read.map_err(|source| self.read_failed(source))? as u64 != wanted {
            return Err(self.damaged("it is cut off in a block".to_owned()));
        }
        if !block.ends_with(&self.sync) {
            return Err(self.damaged("a block does not end with the mark of the file".to_owned()));
        }
        Ok(Some(Block {
            rows,
            bytes: block,
            data,
        }))
    }

    /// A number of variable length, its bytes added to `block`; `None` at the end of the file where that is allowed.
    fn long(&mut self, block: &mut Vec<u8>, may_end: bool) -> Result<Option<i64>, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            match self.input.read_exact(&mut byte) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return match may_end && shift == 0 {
                        true => Ok(None),
                        false => Err(self.damaged("it is cut off before a block".to_owned())),
                    };
                }
                Err(source) => return Err(self.read_failed(source)),
            }
            block.push(byte[0]);
            value |= u64::from(byte[0] & 0x7F) << shift;
            if byte[0] < 0x80 {
                let zigzag = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
                return Ok(Some(zigzag));
            }
        }
        Err(self.damaged("a number has too many bytes".to_owned()))
    }

    fn decode(&self, block: &Block) -> Result<Option<RecordBatch>, DecodeError> {
        let Block { rows, bytes, data } = block;
        let batch = match &self.decoder {
            Decoder::Library(header) => self.through_library(header, *rows, bytes)?,
            Decoder::Resolved(resolved) => {
                let data = &bytes[*data..bytes.len() - SYNC_BYTES];
                let batch = resolved.rows(data, *rows);
                Some(batch.map_err(|reason| self.damaged(reason))?)
            }
        };
        batch
            .map(|batch| self.columns.adapt(&batch, &self.file))
            .transpose()
    }

    fn through_library(
        &self,
        header: &[u8],
        rows: usize,
        block: &[u8],
    ) -> Result<Option<RecordBatch>, DecodeError> {
        let failed = |error: arrow::error::ArrowError| self.damaged(error.to_string());
        // A batch of exactly the block, so that the library never asks for more than there is.
        let mut reader = ReaderBuilder::new()
            .with_batch_size(rows)
            .build(header.chain(block))
            .map_err(failed)?;
        let Some(batch) = reader.next().transpose().map_err(failed)? else {
            return Ok(None);
        };
        if batch.num_rows() != rows {
            return Err(self.damaged(format!("a block of {rows} rows has {}", batch.num_rows())));
        }
        Ok(Some(batch))
    }

    fn damaged(&self, reason: String) -> DecodeError {
        damaged(&self.file, format!("{reason}, at byte {}", self.at))
    }

    fn read_failed(&self, source: std::io::Error) -> DecodeError {
        DecodeError::Read {
            file: Arc::clone(&self.file),
            line: 0,
            source,
        }
    }
}

fn rewind(input: &mut BufReader<File>) -> std::io::Result<()> {
    std::io::Seek::rewind(input)
}

fn damaged(file: &Arc<str>, reason: String) -> DecodeError {
    DecodeError::Damaged {
        file: Arc::clone(file),
        format: FORMAT,
        reason,
    }
}

impl BatchReader for AvroReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        while let Some(block) = self.next_block()? {
            let batch = match block.rows {
                0 => None,
                _ => self.decode(&block)?,
            };
            self.at += block.bytes.len() as u64;
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    fn bad_records(&self) -> &BadRecords {
        &self.bad
    }
}
