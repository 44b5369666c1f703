//! The Parquet format.
//!
//! Files are plain enough for every reader: all columns nullable, no unsigned numbers, timestamps
//! as microseconds (UTC-adjusted for TIMESTAMP, local for TIMESTAMP_NTZ), lists and maps in the
//! three-level layout with the standard names, and no Arrow schema hidden in the footer.
//!
//! Memory is bounded by the row group: it is written out when it has [`ROW_GROUP_ROWS`] rows or
//! about [`ROW_GROUP_BYTES`] bytes, whatever comes first.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::columns::Columns;
use super::value::is_scalar;
use super::{BatchWriter, EncodeError, FileStats};

pub(super) const FORMAT: &str = "parquet";

const ALLOWED: &str = "BOOLEAN, numbers, DECIMAL up to 38 digits, DATE, TIMESTAMP, STRING, BINARY, ARRAY, MAP, and \
     STRUCT with at least one field";

/// Most rows of a row group.
const ROW_GROUP_ROWS: usize = 1024 * 1024;
/// Encoded bytes after which a row group is written out.
const ROW_GROUP_BYTES: usize = 64 * 1024 * 1024;
/// Largest dictionary of a column: a column with more distinct values than fit is written plain from there on. Small, because
/// looking up values that hardly repeat costs more than writing them.
const DICTIONARY_BYTES: usize = 128 * 1024;
/// Rows encoded at a time within a column.
const WRITE_BATCH_ROWS: usize = 8 * 1024;

/// Codec of the pages of a Parquet file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParquetCompression {
    /// No compression.
    None,
    /// Snappy, Spark's and our default.
    #[default]
    Snappy,
    /// Zstandard.
    Zstd,
    /// LZ4 in the raw framing, the one Parquet defines.
    Lz4,
    /// Gzip.
    Gzip,
}

impl ParquetCompression {
    /// End of the name of files with this codec, as Spark has it.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::None => "parquet",
            Self::Snappy => "snappy.parquet",
            Self::Zstd => "zstd.parquet",
            Self::Lz4 => "lz4raw.parquet",
            Self::Gzip => "gz.parquet",
        }
    }

    fn codec(self) -> Compression {
        match self {
            Self::None => Compression::UNCOMPRESSED,
            Self::Snappy => Compression::SNAPPY,
            Self::Zstd => Compression::ZSTD(ZstdLevel::default()),
            Self::Lz4 => Compression::LZ4_RAW,
            Self::Gzip => Compression::GZIP(GzipLevel::default()),
        }
    }
}

/// Options of the Parquet format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParquetWriteOptions {
    /// `compression`; default snappy.
    pub compression: ParquetCompression,
}

/// Writes one Parquet file.
pub(super) struct ParquetWriter {
    columns: Columns,
    writer: ArrowWriter<Box<dyn Write + Send>>,
    rows: u64,
}

impl ParquetWriter {
    pub(super) fn new(
        options: &ParquetWriteOptions,
        schema: &SchemaRef,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let columns = Columns::new(FORMAT, schema, accepts, ALLOWED)?;
        let properties = WriterProperties::builder()
            .set_compression(options.compression.codec())
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_write_batch_size(WRITE_BATCH_ROWS)
            .set_dictionary_enabled(true)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            // Enough to skip whole row groups; page statistics cost time on every value.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_coerce_types(true)
            .set_created_by(concat!("weir version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer_options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true)
            .with_schema_root("spark_schema".to_owned());
        let writer =
            ArrowWriter::try_new_with_options(out, Arc::clone(columns.plain()), writer_options)?;
        Ok(Self {
            columns,
            writer,
            rows: 0,
        })
    }
}

impl BatchWriter for ParquetWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns = self.columns.adapt(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let schema = Arc::clone(self.columns.plain());
        let plain =
            RecordBatch::try_new(schema, columns).map_err(|source| EncodeError::Parquet {
                source: source.into(),
            })?;
        self.writer.write(&plain)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    fn finish(mut self: Box<Self>) -> Result<FileStats, EncodeError> {
        self.writer.finish()?;
        let bytes = self.writer.bytes_written() as u64;
        self.writer
            .inner_mut()
            .flush()
            .map_err(|source| EncodeError::Io {
                format: FORMAT,
                source,
            })?;
        Ok(FileStats {
            rows: self.rows,
            bytes,
        })
    }
}

fn accepts(data_type: &DataType) -> bool {
    match data_type {
        // Of unknown type, so no reader could give it one.
        DataType::Null => false,
        DataType::Struct(fields) => !fields.is_empty(),
        DataType::List(_) | DataType::Map(..) => true,
        scalar => is_scalar(scalar),
    }
}
