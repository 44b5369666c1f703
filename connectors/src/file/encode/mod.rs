//! The writing side of the file sink: rows become the bytes of one file.
//!
//! A [`BatchWriter`] fills exactly one file and knows nothing about names, directories, visibility
//! or epochs; the sink gives it somewhere to write and decides when the file is done. What the
//! files look like follows Spark, so that either engine reads what the other wrote; where Spark's
//! default loses data (sub-millisecond timestamps, blanks and quotes in CSV) the writer keeps the
//! data, and Spark's spelling is an option away.

mod avro;
mod columns;
mod csv;
mod json;
mod lines;
mod options;
mod parquet;
mod text;
mod time;
mod value;

#[cfg(test)]
mod tests;

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use uuid::Uuid;

pub use self::avro::{AvroCompression, AvroWriteOptions};
pub use self::csv::CsvWriteOptions;
pub use self::json::JsonWriteOptions;
pub use self::lines::TextFile;
pub use self::parquet::{ParquetCompression, ParquetWriteOptions};
pub use self::text::TextWriteOptions;
pub use self::time::{Fraction, TimeText, TimestampFormat, TimestampText};

/// Fills one file with rows.
///
/// Call order: any number of `write`, then `finish`. After an error the file is damaged and must be
/// thrown away. Dropping a writer without `finish` leaves an incomplete file.
pub trait BatchWriter: Send {
    /// Appends the rows of `batch`, in order.
    ///
    /// # Errors
    /// The batch does not have the columns of the schema the writer was made with, a value cannot
    /// be stored in this format, or the output cannot be written.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError>;

    /// Bytes of the file so far: those handed to the output plus an estimate of what is still
    /// buffered. Good enough to decide when to begin a new file.
    fn bytes_written(&self) -> u64;

    /// Writes whatever is still buffered and closes the file.
    ///
    /// # Errors
    /// The output cannot be written.
    fn finish(self: Box<Self>) -> Result<FileStats, EncodeError>;
}

/// What a finished file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStats {
    /// Rows in the file.
    pub rows: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// A file format together with its options, as `format(..)` and `option(..)` of a stream writer set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteFormat {
    /// Apache Parquet.
    Parquet(ParquetWriteOptions),
    /// One JSON object for each line.
    Json(JsonWriteOptions),
    /// Separated values, one record for each row.
    Csv(CsvWriteOptions),
    /// The one STRING column, a line for each row.
    Text(TextWriteOptions),
    /// Apache Avro, object container files.
    Avro(AvroWriteOptions),
}

impl WriteFormat {
    /// The name that selects the format: `parquet`, `json`, `csv`, `text` or `avro`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Parquet(_) => parquet::FORMAT,
            Self::Json(_) => json::FORMAT,
            Self::Csv(_) => csv::FORMAT,
            Self::Text(_) => text::FORMAT,
            Self::Avro(_) => avro::FORMAT,
        }
    }

    /// What follows the first dot of a file's name, as Spark has it: `snappy.parquet`, `json`,
    /// `csv.gz`, `txt`.
    #[must_use]
    pub fn extension(&self) -> String {
        match self {
            Self::Parquet(options) => options.compression.extension().to_owned(),
            Self::Json(options) => options.file.extension("json"),
            Self::Csv(options) => options.file.extension(&options.extension),
            Self::Text(options) => options.file.extension("txt"),
            Self::Avro(_) => "avro".to_owned(),
        }
    }

    /// The name of the file that subtask `part` writes, as Spark has it: `part-00003-<id>-c000.json`,
    /// and `part-00003-<id>.c000.json` inside a partition directory. `id` is the same for all files
    /// of one job; `sequence` counts the files of one subtask from 0.
    #[must_use]
    pub fn part_file_name(&self, part: u32, id: Uuid, sequence: u32, partitioned: bool) -> String {
        let joint = if partitioned { '.' } else { '-' };
        format!(
            "part-{part:05}-{id}{joint}c{sequence:03}.{}",
            self.extension()
        )
    }
}

/// A writer of `format` for rows of `schema` that puts the file's bytes into `out`.
///
/// `out` need not be buffered: writers hand over blocks of many kilobytes. Nothing but `finish`
/// flushes it, and nobody syncs it.
///
/// # Errors
/// A column has a type the format cannot store; the error names the column, its type and what is
/// allowed.
pub fn new_writer(
    format: &WriteFormat,
    schema: SchemaRef,
    out: Box<dyn Write + Send>,
) -> Result<Box<dyn BatchWriter>, EncodeError> {
    Ok(match format {
        WriteFormat::Parquet(options) => {
            Box::new(parquet::ParquetWriter::new(options, &schema, out)?)
        }
        WriteFormat::Json(options) => Box::new(json::JsonWriter::new(options, &schema, out)?),
        WriteFormat::Csv(options) => Box::new(csv::CsvWriter::new(options, &schema, out)?),
        WriteFormat::Text(options) => Box::new(text::TextWriter::new(options, &schema, out)?),
        WriteFormat::Avro(options) => Box::new(avro::AvroWriter::new(options, &schema, out)?),
    })
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The output refused bytes.
    #[error("cannot write the {format} file")]
    Io {
        /// Format of the file.
        format: &'static str,
        /// What the output said.
        source: std::io::Error,
    },
    /// The Parquet encoder failed.
    #[error("cannot write the parquet file")]
    Parquet {
        /// What the encoder said.
        #[from]
        source: ::parquet::errors::ParquetError,
    },
    /// The Avro encoder failed.
    #[error("cannot write the avro file: {source}")]
    Avro {
        /// What the encoder said.
        source: arrow_avro::errors::AvroError,
    },
    /// The option `avroSchema` of the Avro format is no schema of the rows.
    #[error("option 'avroSchema' is no schema that the rows can be written in: {reason}")]
    AvroSchema {
        /// What is in the way.
        reason: String,
    },
    /// A value has no place in the schema of the option `avroSchema`.
    #[error("the schema of option 'avroSchema' has no place for a value: {path} {reason}")]
    AvroValue {
        /// Where the value stands, in words.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A column's type has no place in the format.
    #[error(
        "format '{format}' cannot store column '{column}' of type {data_type}; it stores {allowed}"
    )]
    UnsupportedType {
        /// Format of the file.
        format: &'static str,
        /// Path of the column; fields of structs after a dot.
        column: String,
        /// The column's type.
        data_type: Box<DataType>,
        /// The types the format takes.
        allowed: &'static str,
    },
    /// The text format was given something else than one STRING column.
    #[error("format 'text' stores exactly one column of type STRING, the rows have {found}")]
    TextColumns {
        /// Names and types of the columns.
        found: String,
    },
    /// The charset of the file lacks a character, or a value is not text.
    #[error(
        "option 'encoding' of format '{format}' names a charset that cannot hold the rows: {reason}"
    )]
    Charset {
        /// Format of the file.
        format: &'static str,
        /// What is in the way.
        reason: String,
    },
    /// A batch has other columns than the file.
    #[error(
        "rows do not fit the {format} file: it has the columns {expected}, the rows have {found}"
    )]
    SchemaMismatch {
        /// Format of the file.
        format: &'static str,
        /// Columns of the file.
        expected: String,
        /// Columns of the batch.
        found: String,
    },
    /// A value cannot be stored without changing it.
    #[error("format '{format}' cannot store a value of column '{column}': {reason}")]
    Value {
        /// Format of the file.
        format: &'static str,
        /// The column.
        column: String,
        /// What is in the way.
        reason: String,
    },
}
