//! Bytes of one file -> Arrow batches, with Spark's rules for bad records.
//!
//! Every format has a reader that is pulled: [`BatchReader::next_batch`] until it answers `None`. Readers hold one chunk of
//! the file and one batch, whatever the file's size, so decoding can run on any thread and stop between two batches.

mod adapt;
mod avro;
#[cfg(test)]
mod corpus_tests;
pub mod csv;
mod error;
pub mod json;
mod lines;
#[cfg(feature = "orc")]
pub mod orc;
pub(crate) mod parquet;
pub mod parse;
mod settings;
pub mod text;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

pub(crate) use avro::NoRows;
pub use avro::{AvroOptions, AvroReader};
pub use csv::{CsvOptions, CsvReader, UnescapedQuotes};
pub use error::DecodeError;
pub use json::{JsonOptions, JsonReader};
#[cfg(test)]
pub(crate) use lines::tests as lines_tests;
#[cfg(feature = "orc")]
pub use orc::OrcReader;
pub use parquet::ParquetReader;
pub use settings::{DecodeSettings, ParseMode, TimePatterns, nullable_schema};
pub use text::{TextOptions, TextReader};

/// Pull-style reader of one file: batches in file order, then `None` for ever.
pub trait BatchReader: Send {
    /// The next rows, at least one and normally at most `batch_rows`; `None` at the end of the file.
    ///
    /// # Errors
    /// [`DecodeError`]: the file cannot be read, or a record is bad in FAILFAST mode (or longer than allowed, where a file is one
    /// record or a line one value). A reader that failed must not be asked again.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError>;

    /// The bad records met so far; what happened to them depends on the mode.
    fn bad_records(&self) -> &BadRecords;
}

/// Account of the records that did not fit the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadRecords {
    /// How many there were.
    pub count: u64,
    /// The first of them, for the message a person reads.
    pub first: Option<BadRecord>,
}

/// Takes bad records instead of the rows of a table.
pub trait BadRecordSink: std::fmt::Debug + Send + Sync {
    /// One more: its line, from 1, what is wrong with it, and its bytes (the first ones, if it is longer than allowed).
    ///
    /// # Errors
    /// If it cannot be kept; reading stops.
    fn take(&self, line: u64, reason: &str, record: &[u8]) -> std::io::Result<()>;
}

/// Where a bad record stands and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Line of the file, from 1.
    pub line: u64,
    /// One phrase naming the column and the value, or the syntax error.
    pub reason: String,
}

/// What is wrong with a record of `length` bytes that was passed without being read.
pub(crate) fn too_long(length: u64, limit: usize) -> String {
    format!("the record has {length} bytes, allowed are {limit}")
}

impl BadRecords {
    /// Counts one more and hands it to the sink of the settings, if there is one. In mode FAILFAST it is an error. `reason` is
    /// asked only where somebody wants it.
    ///
    /// # Errors
    /// [`DecodeError::BadRecord`], [`DecodeError::BadRecordSink`].
    pub(crate) fn note(
        &mut self,
        settings: &DecodeSettings,
        file: &Arc<str>,
        line: u64,
        record: &[u8],
        reason: impl FnOnce() -> String,
    ) -> Result<(), DecodeError> {
        self.count += 1;
        let fails = settings.mode == ParseMode::FailFast;
        if self.first.is_some() && settings.bad_records.is_none() && !fails {
            return Ok(());
        }
        let reason = reason();
        if let Some(sink) = &settings.bad_records {
            sink.take(line, &reason, record)
                .map_err(|source| DecodeError::BadRecordSink {
                    file: Arc::clone(file),
                    line,
                    source,
                })?;
        }
        if fails {
            return Err(DecodeError::BadRecord {
                file: Arc::clone(file),
                line,
                reason,
            });
        }
        self.first.get_or_insert(BadRecord { line, reason });
        Ok(())
    }
}
