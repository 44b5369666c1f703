//! Blocks whose records are read by our own schema resolution ([`crate::avro`]): as the record of the option `avroSchema`, or because
//! the library's types for what is in them are not Spark's.

use std::io::{self, Read};
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_avro::compression::CompressionCodec;
use arrow_avro::reader::HeaderInfo;
use serde_json::Value;

use super::MAX_BLOCK_BYTES;
use super::options::AvroOptions;
use crate::avro::{Reader, Shape, column_type, is_plain};

/// Bytes behind the data of a snappy block.
const SNAPPY_CRC_BYTES: usize = 4;

/// Logical types that become Spark's columns in the library too.
const SAME_IN_LIBRARY: [&str; 8] = [
    "date",
    "decimal",
    "timestamp-millis",
    "timestamp-micros",
    "timestamp-nanos",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "local-timestamp-nanos",
];

/// Reads the blocks of one file.
pub(super) struct Resolved {
    reader: Reader,
    schema: SchemaRef,
    codec: Option<CompressionCodec>,
}

impl Resolved {
    /// `None` where the library reads the file as Spark does.
    ///
    /// # Errors
    /// The file's schema cannot be read as the one that is wanted, or its codec not at all.
    pub(super) fn of(info: &HeaderInfo, options: &AvroOptions) -> Result<Option<Self>, String> {
        let text = info.writer_schema().map_err(|error| error.to_string())?;
        let text = text.json_string;
        let writer = match (Shape::parse(&text), &options.schema) {
            (Ok(writer), _) => writer,
            // The library may know better.
            (Err(_), None) => return Ok(None),
            (Err(why), Some(_)) => return Err(why),
        };
        let reader = match &options.schema {
            Some(text) => Shape::parse(text)?,
            None if is_plain(&writer) && same_in_library(&text) => return Ok(None),
            None => Arc::clone(&writer),
        };
        let naming = options.naming();
        let DataType::Struct(fields) = column_type(&reader, &naming) else {
            return Err(format!("{} is no record", reader.shown()));
        };
        let codec = info.compression().map_err(|error| error.to_string())?;
        Ok(Some(Self {
            reader: Reader::new(&writer, &reader, &naming)?,
            schema: Schema::new(fields).into(),
            codec,
        }))
    }

    /// Columns of the rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of the data of a block, as they are in the file.
    pub(super) fn rows(&self, data: &[u8], rows: usize) -> Result<RecordBatch, String> {
        let plain = plain(self.codec, data).map_err(|error| error.to_string())?;
        let records = self.reader.read_block(&plain, rows)?;
        Ok(RecordBatch::from(records.as_struct()))
    }
}

fn same_in_library(schema: &str) -> bool {
    fn same(json: &Value) -> bool {
        match json {
            Value::Array(parts) => parts.iter().all(same),
            Value::Object(object) => object.iter().all(|(key, part)| match part {
                Value::String(word) if key == "logicalType" => {
                    SAME_IN_LIBRARY.contains(&word.as_str())
                }
                // Defaults are values, whatever they look like.
                part => key == "default" || same(part),
            }),
            _ => true,
        }
    }
    serde_json::from_str(schema).is_ok_and(|json| same(&json))
}

/// The data of a block without its compression.
fn plain(codec: Option<CompressionCodec>, data: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        None => Ok(data.to_vec()),
        Some(CompressionCodec::Deflate) => all(flate2::read::DeflateDecoder::new(data)),
        Some(CompressionCodec::ZStandard) => all(zstd::stream::read::Decoder::new(data)?),
        Some(CompressionCodec::Bzip2) => all(bzip2::read::BzDecoder::new(data)),
        Some(CompressionCodec::Snappy) => snappy(data),
        Some(CompressionCodec::Xz) => Err(io::Error::other("blocks compressed with xz")),
    }
}

fn all(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(MAX_BLOCK_BYTES + 1).read_to_end(&mut plain)?;
    match plain.len() as u64 > MAX_BLOCK_BYTES {
        true => Err(too_large()),
        false => Ok(plain),
    }
}

fn snappy(data: &[u8]) -> io::Result<Vec<u8>> {
    let cut = || io::Error::other("a snappy block without its checksum");
    let data_bytes = data.len().checked_sub(SNAPPY_CRC_BYTES).ok_or_else(cut)?;
    let (data, checksum) = data.split_at(data_bytes);
    if snap::raw::decompress_len(data)? as u64 > MAX_BLOCK_BYTES {
        return Err(too_large());
    }
    let plain = snap::raw::Decoder::new().decompress_vec(data)?;
    let mut crc = flate2::Crc::new();
    crc.update(&plain);
    match crc.sum().to_be_bytes() == *checksum {
        true => Ok(plain),
        false => Err(io::Error::other("the checksum of a snappy block is wrong")),
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!("a block of more than {MAX_BLOCK_BYTES} bytes"))
}
