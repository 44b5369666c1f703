//! Typed builders of file sources, one for each format: what would be option text is a method, so that a misspelt option
//! does not compile.

use std::time::Duration;

use arrow::datatypes::SchemaRef;
use weir_runtime::Result;

use super::FileSource;
use super::clean::CleanSource;
use super::config::{FileSourceConfig, missing_schema, text_schema};
use super::format::{OrcOptions, ParquetOptions, ReadFormat};
use crate::file::charset::Charset;
use crate::file::decode::parse::Zone;
use crate::file::decode::{
    AvroOptions, CsvOptions, JsonOptions, ParseMode, TextOptions, TimePatterns,
};

/// A source of JSON files.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::datatypes::{DataType, Field, Schema};
/// # use weir_connectors::file::source::JsonSource;
/// # fn main() -> weir_runtime::Result<()> {
/// let schema = Arc::new(Schema::new(vec![Field::new("action", DataType::Utf8, true)]));
/// let source = JsonSource::new("/data/in").schema(schema).max_files_per_trigger(10).build()?;
/// # let _ = source;
/// # Ok(())
/// # }
/// ```
pub type JsonSource = FileSourceBuilder<JsonOptions>;
/// A source of CSV files.
pub type CsvSource = FileSourceBuilder<CsvOptions>;
/// A source of Parquet files.
pub type ParquetSource = FileSourceBuilder<ParquetOptions>;
/// A source of Avro files.
pub type AvroSource = FileSourceBuilder<AvroOptions>;
/// A source of ORC files; needs the feature `orc`.
pub type OrcSource = FileSourceBuilder<OrcOptions>;
/// A source of text files: one row for each line in the column `value`, unless a schema names it otherwise.
pub type TextSource = FileSourceBuilder<TextOptions>;

/// Builds a [`FileSource`] of one format; see [`JsonSource`], [`CsvSource`], [`ParquetSource`], [`TextSource`].
#[derive(Debug, Clone)]
pub struct FileSourceBuilder<F> {
    config: FileSourceConfig,
    format: F,
    has_schema: bool,
}

impl<F: Default + Into<ReadFormat>> FileSourceBuilder<F> {
    /// A source of the files in this directory, with Spark's defaults.
    pub fn new(path: impl Into<String>) -> Self {
        let format = F::default().into();
        Self {
            config: FileSourceConfig::new(path, format, text_schema()),
            format: F::default(),
            has_schema: false,
        }
    }

    /// Columns to read.
    #[must_use]
    pub fn schema(mut self, schema: SchemaRef) -> Self {
        self.config.schema = schema;
        self.has_schema = true;
        self
    }

    /// Most new files of an epoch.
    #[must_use]
    pub fn max_files_per_trigger(mut self, files: u64) -> Self {
        self.config.max_files_per_trigger = Some(files);
        self
    }

    /// Most bytes of new files of an epoch, but at least one file.
    #[must_use]
    pub fn max_bytes_per_trigger(mut self, bytes: u64) -> Self {
        self.config.max_bytes_per_trigger = Some(bytes);
        self
    }

    /// Take the newest files first.
    #[must_use]
    pub fn latest_first(mut self, on: bool) -> Self {
        self.config.latest_first = on;
        self
    }

    /// Leave out files this much older than the newest one seen.
    #[must_use]
    pub fn max_file_age(mut self, age: Duration) -> Self {
        self.config.max_file_age = age;
        self
    }

    /// Two files of the same name are the same file, whatever their directory.
    #[must_use]
    pub fn file_name_only(mut self, on: bool) -> Self {
        self.config.file_name_only = on;
        self
    }

    /// Read only files whose name matches this glob.
    #[must_use]
    pub fn path_glob_filter(mut self, glob: impl Into<String>) -> Self {
        self.config.path_glob_filter = Some(glob.into());
        self
    }

    /// Read directories inside of the directory too.
    #[must_use]
    pub fn recursive_file_lookup(mut self, on: bool) -> Self {
        self.config.recursive_file_lookup = on;
        self
    }

    /// What becomes of files after the epoch that read them is committed.
    #[must_use]
    pub fn clean_source(mut self, clean: CleanSource) -> Self {
        self.config.clean_source = clean;
        self
    }

    /// Read a file again, as a new one, when it has changed.
    #[must_use]
    pub fn allow_overwrites(mut self, on: bool) -> Self {
        self.config.allow_overwrites = on;
        self
    }

    /// Leave out files, or the rest of files, that cannot be decoded.
    #[must_use]
    pub fn ignore_corrupt_files(mut self, on: bool) -> Self {
        self.config.ignore_corrupt_files = on;
        self
    }

    /// Zone of timestamps that name none.
    #[must_use]
    pub fn time_zone(mut self, zone: Zone) -> Self {
        self.config.time_zone = zone;
        self
    }

    /// The format's own options.
    #[must_use]
    pub fn format_options(mut self, options: F) -> Self {
        self.format = options;
        self
    }

    /// Everything set so far, as one value.
    ///
    /// # Errors
    /// If the schema is missing or a setting is not allowed.
    pub fn into_config(self) -> Result<FileSourceConfig> {
        let mut config = self.config;
        config.format = self.format.into();
        if !self.has_schema {
            let columns = config.format.columns()?;
            config.schema = columns.ok_or_else(|| missing_schema(config.format.name()))?;
        }
        config.validate()?;
        Ok(config)
    }

    /// The source.
    ///
    /// # Errors
    /// As [`FileSourceBuilder::into_config`], or if the path is not on the local disk.
    pub fn build(self) -> Result<FileSource> {
        FileSource::new(self.into_config()?)
    }
}

/// Formats with records that can be bad.
pub trait TextRecords {}
impl TextRecords for JsonOptions {}
impl TextRecords for CsvOptions {}

impl<F: TextRecords> FileSourceBuilder<F> {
    /// Bad records go to files in this directory, and not into rows.
    #[must_use]
    pub fn bad_records_path(mut self, dir: impl Into<String>) -> Self {
        self.config.bad_records_path = Some(dir.into());
        self
    }

    /// Spelling of dates and times.
    #[must_use]
    pub fn patterns(mut self, patterns: TimePatterns) -> Self {
        self.config.patterns = patterns;
        self
    }

    /// Charset of the files.
    #[must_use]
    pub fn charset(mut self, charset: Charset) -> Self {
        self.config.charset = charset;
        self
    }

    /// What happens to bad records.
    #[must_use]
    pub fn mode(mut self, mode: ParseMode) -> Self {
        self.config.mode = mode;
        self
    }

    /// The STRING column that takes the text of bad records, if the schema has it.
    #[must_use]
    pub fn corrupt_record_column(mut self, column: impl Into<String>) -> Self {
        self.config.corrupt_column = column.into();
        self
    }
}

impl FileSourceBuilder<CsvOptions> {
    /// The first record of every file names the columns.
    #[must_use]
    pub fn header(mut self, on: bool) -> Self {
        self.format.header = on;
        self
    }

    /// What stands between two fields: one or more characters.
    #[must_use]
    pub fn separator(mut self, separator: impl Into<String>) -> Self {
        self.format.sep = separator.into();
        self
    }
}

impl FileSourceBuilder<JsonOptions> {
    /// A file is one document, not one document for each line.
    #[must_use]
    pub fn multi_line(mut self, on: bool) -> Self {
        self.format.multi_line = on;
        self
    }
}

impl FileSourceBuilder<TextOptions> {
    /// A file is one value.
    #[must_use]
    pub fn whole_text(mut self, on: bool) -> Self {
        self.format.whole_text = on;
        self
    }
}
