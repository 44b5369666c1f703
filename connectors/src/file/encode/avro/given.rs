//! Avro files in a schema that is given (option `avroSchema`): records are encoded by [`crate::avro::Writer`], and the framing of the
//! file is made here, because the library frames only what it encodes by a schema of its own.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray};
use arrow::datatypes::{DataType, Fields, Schema};
use datafusion::common::DataFusionError;

use super::{AvroCompression, BLOCK_ROWS, EncodeError, FORMAT};
use crate::avro::{NotWritten, Shape, Writer};
use crate::file::codec::Counted;

const MAGIC: &[u8] = b"Obj\x01";

/// Writes one file.
pub(super) struct GivenSchema {
    writer: Writer,
    fields: Fields,
    out: Counted,
    compression: AvroCompression,
    /// What stands behind each block, so that readers find their way in a damaged file.
    sync: [u8; 16],
}

impl GivenSchema {
    /// Begins a file of rows with these columns, which are found by name.
    ///
    /// # Errors
    /// The text is no schema of a record, or one that the columns do not fit.
    pub(super) fn new(
        text: &str,
        columns: &Schema,
        compression: AvroCompression,
        mut out: Counted,
    ) -> Result<Self, EncodeError> {
        let wrong = |reason| EncodeError::AvroSchema { reason };
        let shape = Shape::parse(text).map_err(wrong)?;
        if !matches!(*shape, Shape::Record(..)) {
            return Err(wrong(format!("it is {}, allowed: a record", shape.shown())));
        }
        let fields = columns.fields().clone();
        let rows = DataType::Struct(fields.clone());
        let writer = Writer::new(&shape, &rows, DataType::to_string).map_err(wrong)?;
        let sync = uuid::Uuid::new_v4().into_bytes();
        out.write_all(&header(text, compression, &sync))
            .map_err(io_failed)?;
        Ok(Self {
            writer,
            fields,
            out,
            compression,
            sync,
        })
    }

    /// Adds the rows of these columns.
    pub(super) fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), EncodeError> {
        let rows = StructArray::try_new(self.fields.clone(), columns, None)
            .map_err(|error| failed(&error.into()))?;
        for from in (0..rows.len()).step_by(BLOCK_ROWS) {
            let part = rows.slice(from, BLOCK_ROWS.min(rows.len() - from));
            self.write_block(Arc::new(part))?;
        }
        Ok(())
    }

    fn write_block(&mut self, rows: ArrayRef) -> Result<(), EncodeError> {
        let records = self.writer.write(&rows, &[]);
        let records = records.map_err(|error| failed(&error))?;
        let data = compressed(self.compression, records.value_data()).map_err(io_failed)?;
        let mut block = Vec::with_capacity(data.len() + 2 * 10 + self.sync.len());
        push_long(&mut block, rows.len());
        push_long(&mut block, data.len());
        block.extend_from_slice(&data);
        block.extend_from_slice(&self.sync);
        self.out.write_all(&block).map_err(io_failed)
    }

    pub(super) fn finish(&mut self) -> Result<(), EncodeError> {
        self.out.flush().map_err(io_failed)
    }
}

fn header(schema: &str, compression: AvroCompression, sync: &[u8]) -> Vec<u8> {
    let codec = match compression {
        AvroCompression::None => "null",
        AvroCompression::Snappy => "snappy",
        AvroCompression::Deflate => "deflate",
        AvroCompression::Zstd => "zstandard",
    };
    let mut out = MAGIC.to_vec();
    let entries = [("avro.schema", schema), ("avro.codec", codec)];
    push_long(&mut out, entries.len());
    for (key, value) in entries {
        for text in [key, value] {
            push_long(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
    push_long(&mut out, 0);
    out.extend_from_slice(sync);
    out
}

/// A length as Avro writes numbers: zigzag, seven bits to a byte.
fn push_long(out: &mut Vec<u8>, length: usize) {
    let mut rest = (length as u64) << 1;
    while rest >= 0x80 {
        out.push((rest & 0x7F) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn compressed(compression: AvroCompression, data: &[u8]) -> io::Result<Vec<u8>> {
    match compression {
        AvroCompression::None => Ok(data.to_vec()),
        AvroCompression::Deflate => {
            let out = Vec::with_capacity(data.len() / 2);
            let mut encoder = flate2::write::DeflateEncoder::new(out, Default::default());
            encoder.write_all(data)?;
            encoder.finish()
        }
        AvroCompression::Snappy => {
            let mut out = snap::raw::Encoder::new().compress_vec(data)?;
            let mut crc = flate2::Crc::new();
            crc.update(data);
            out.extend_from_slice(&crc.sum().to_be_bytes());
            Ok(out)
        }
        AvroCompression::Zstd => zstd::stream::encode_all(data, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}

fn io_failed(source: io::Error) -> EncodeError {
    EncodeError::Io {
        format: FORMAT,
        source,
    }
}

fn failed(error: &DataFusionError) -> EncodeError {
    match NotWritten::of(error) {
        Some(NotWritten { path, what, .. }) => EncodeError::AvroValue {
            path: path.clone(),
            reason: what.clone(),
        },
        None => EncodeError::AvroSchema {
            reason: error.to_string(),
        },
    }
}
