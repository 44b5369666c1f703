//! Typed builders of file sinks, one for each format.

use std::marker::PhantomData;
use std::time::Duration;

use weir_runtime::Result;

use super::FileSink;
use super::config::FileSinkConfig;
use crate::file::decode::parse::Zone;
use crate::file::encode::{
    AvroWriteOptions, CsvWriteOptions, JsonWriteOptions, ParquetCompression, ParquetWriteOptions,
    TextWriteOptions, WriteFormat,
};

/// A sink of Parquet files.
///
/// ```
/// # use weir_connectors::file::sink::ParquetSink;
/// # fn main() -> weir_runtime::Result<()> {
/// let sink = ParquetSink::new("/data/out").partition_by(["dt", "action"]).build()?;
/// # let _ = sink;
/// # Ok(())
/// # }
/// ```
pub type ParquetSink = FileSinkBuilder<ParquetWriteOptions>;
/// A sink of JSON files.
pub type JsonSink = FileSinkBuilder<JsonWriteOptions>;
/// A sink of CSV files.
pub type CsvSink = FileSinkBuilder<CsvWriteOptions>;
/// A sink of Avro files.
pub type AvroSink = FileSinkBuilder<AvroWriteOptions>;
/// A sink of text files: rows must have one STRING column beside partition columns.
pub type TextSink = FileSinkBuilder<TextWriteOptions>;

/// Options of one format.
pub trait SinkFormat: Default {
    /// The format with these options.
    fn into_format(self) -> WriteFormat;
}

impl SinkFormat for ParquetWriteOptions {
    fn into_format(self) -> WriteFormat {
        WriteFormat::Parquet(self)
    }
}

impl SinkFormat for JsonWriteOptions {
    fn into_format(self) -> WriteFormat {
        WriteFormat::Json(self)
    }
}

impl SinkFormat for CsvWriteOptions {
    fn into_format(self) -> WriteFormat {
        WriteFormat::Csv(self)
    }
}

impl SinkFormat for AvroWriteOptions {
    fn into_format(self) -> WriteFormat {
        WriteFormat::Avro(self)
    }
}

impl SinkFormat for TextWriteOptions {
    fn into_format(self) -> WriteFormat {
        WriteFormat::Text(self)
    }
}

/// Builds a [`FileSink`] of one format; see [`ParquetSink`], [`JsonSink`], [`CsvSink`], [`TextSink`].
#[derive(Debug, Clone)]
pub struct FileSinkBuilder<F> {
    config: FileSinkConfig,
    format: PhantomData<F>,
}

impl<F: SinkFormat> FileSinkBuilder<F> {
    /// A sink into this directory.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            config: FileSinkConfig::new(path, F::default().into_format()),
            format: PhantomData,
        }
    }

    /// Columns whose values become directories `column=value`.
    #[must_use]
    pub fn partition_by<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.config.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Forget files older than this when the manifest is compacted.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.config.retention = Some(retention);
        self
    }

    /// Begin a new file after this many rows.
    #[must_use]
    pub fn max_records_per_file(mut self, rows: u64) -> Self {
        self.config.max_records_per_file = Some(rows);
        self
    }

    /// Begin a new file after about this many bytes.
    #[must_use]
    pub fn max_bytes_per_file(mut self, bytes: u64) -> Self {
        self.config.max_bytes_per_file = Some(bytes);
        self
    }

    /// Most files a subtask writes at a time.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Self {
        self.config.max_open_files = files;
        self
    }

    /// Zone in which timestamps become names of directories.
    #[must_use]
    pub fn time_zone(mut self, zone: Zone) -> Self {
        self.config.time_zone = zone;
        self
    }

    /// The format's own options.
    #[must_use]
    pub fn format_options(mut self, options: F) -> Self {
        self.config.format = options.into_format();
        self
    }

    /// The sink.
    ///
    /// # Errors
    /// If a setting is not allowed or the path is not on the local disk.
    pub fn build(self) -> Result<FileSink> {
        FileSink::new(self.config)
    }
}

impl FileSinkBuilder<ParquetWriteOptions> {
    /// Codec of the pages.
    #[must_use]
    pub fn compression(self, compression: ParquetCompression) -> Self {
        self.format_options(ParquetWriteOptions { compression })
    }
}
