//! The formats a file source reads, and how a file of each is opened.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use arrow::datatypes::SchemaRef;
use weir_runtime::{Result, WeirError};

use super::config::text_schema;
use super::orc;
use crate::file::charset::Charset;
use crate::file::codec::{self, Codec};
use crate::file::decode::{
    AvroOptions, AvroReader, BatchReader, CsvOptions, CsvReader, DecodeError, DecodeSettings,
    JsonOptions, JsonReader, NoRows, ParquetReader, TextOptions, TextReader,
};
use crate::options::Options;

/// Condition of the error about a record in mode FAILFAST.
pub(super) const MALFORMED_RECORD: &str = "MALFORMED_RECORD_IN_PARSING";

/// Options of the Parquet format when reading: there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParquetOptions;

/// A format with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFormat {
    /// One JSON document for each line, or for each file.
    Json(JsonOptions),
    /// Separated values.
    Csv(CsvOptions),
    /// Apache Parquet.
    Parquet(ParquetOptions),
    /// One STRING column, a row for each line.
    Text(TextOptions),
    /// Apache Avro, object container files.
    Avro(AvroOptions),
    /// Apache ORC; needs the feature `orc`.
    Orc(OrcOptions),
}

/// Options of the ORC format when reading: there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrcOptions;

impl From<AvroOptions> for ReadFormat {
    fn from(options: AvroOptions) -> Self {
        Self::Avro(options)
    }
}

impl From<OrcOptions> for ReadFormat {
    fn from(options: OrcOptions) -> Self {
        Self::Orc(options)
    }
}

impl From<JsonOptions> for ReadFormat {
    fn from(options: JsonOptions) -> Self {
        Self::Json(options)
    }
}

impl From<CsvOptions> for ReadFormat {
    fn from(options: CsvOptions) -> Self {
        Self::Csv(options)
    }
}

impl From<ParquetOptions> for ReadFormat {
    fn from(options: ParquetOptions) -> Self {
        Self::Parquet(options)
    }
}

impl From<TextOptions> for ReadFormat {
    fn from(options: TextOptions) -> Self {
        Self::Text(options)
    }
}

impl ReadFormat {
    /// `json`, `csv`, `parquet`, `text`, `avro` or `orc`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::Csv(_) => "csv",
            Self::Parquet(_) => "parquet",
            Self::Text(_) => "text",
            Self::Avro(_) => "avro",
            Self::Orc(_) => "orc",
        }
    }

    /// The format called `name` (lower case), its options out of those given.
    pub(crate) fn of(name: &str, given: &Options<'_>) -> Result<Self> {
        match name {
            "json" => json_options(given).map(Self::Json),
            "csv" => CsvOptions::of(given).map(Self::Csv),
            "parquet" => {
                given.flag("mergeSchema")?;
                given.only("datetimeRebaseMode", "CORRECTED")?;
                given.only("int96RebaseMode", "CORRECTED")?;
                Ok(Self::Parquet(ParquetOptions))
            }
            "avro" => AvroOptions::of(given).map(Self::Avro),
            "orc" => {
                given.flag("mergeSchema")?;
                orc::require()?;
                Ok(Self::Orc(OrcOptions))
            }
            "text" => Ok(Self::Text(TextOptions {
                whole_text: given.flag("wholetext")?.unwrap_or_default(),
                line_separator: line_separator(given)?,
            })),
            other => Err(WeirError::internal(format!(
                "format '{other}' has options but no reader"
            ))),
        }
    }

    /// The columns that the options describe, if they do.
    pub(crate) fn columns(&self) -> Result<Option<SchemaRef>> {
        match self {
            Self::Text(_) => Ok(Some(text_schema())),
            Self::Avro(options) => options.columns(),
            _ => Ok(None),
        }
    }

    /// Whether files are text, which has a charset and may be compressed as a whole.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Csv(_) | Self::Text(_))
    }

    /// Whether records may be bad.
    pub(crate) fn has_records(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Csv(_))
    }

    /// Refuses columns the format cannot give, before any file is there.
    pub(crate) fn check(&self, settings: &DecodeSettings) -> Result<()> {
        match self {
            Self::Parquet(_) => Ok(()),
            Self::Avro(options) => options.columns().map(|_| ()),
            Self::Orc(_) => orc::require(),
            _ => self
                .text_reader(Box::new(std::io::empty()), "", settings.clone())
                .map(|_| ())
                .map_err(config_error),
        }
    }

    /// A reader of one file; `name` is the one used in errors.
    pub(crate) fn open(
        &self,
        path: &Path,
        name: &str,
        charset: Charset,
        settings: DecodeSettings,
    ) -> Result<Box<dyn BatchReader>> {
        let file = File::open(path).map_err(|error| {
            WeirError::external(format!("cannot open file '{name}'")).with_source(error)
        })?;
        self.open_file(file, path, name, charset, settings)
    }

    /// A reader of a file that is open; the end of its path tells the compression.
    pub(crate) fn open_file(
        &self,
        file: File,
        path: &Path,
        name: &str,
        charset: Charset,
        settings: DecodeSettings,
    ) -> Result<Box<dyn BatchReader>> {
        let reader = match self {
            Self::Parquet(_) => ParquetReader::from_file(file, name, &settings)
                .map(|reader| Box::new(reader) as Box<dyn BatchReader>),
            Self::Avro(options) if !options.takes(path) => {
                Ok(Box::new(NoRows::default()) as Box<dyn BatchReader>)
            }
            Self::Avro(options) => AvroReader::from_file(file, name, &settings, options)
                .map(|reader| Box::new(reader) as Box<dyn BatchReader>),
            Self::Orc(_) => orc::reader(file, name, &settings),
            _ => {
                let input = charset.reader(decompressed(file, path, name)?);
                self.text_reader(input, name, settings)
            }
        };
        reader.map_err(decode_error)
    }

    fn text_reader(
        &self,
        input: Box<dyn Read + Send>,
        name: &str,
        settings: DecodeSettings,
    ) -> Result<Box<dyn BatchReader>, DecodeError> {
        Ok(match self {
            Self::Json(options) => {
                Box::new(JsonReader::new(input, name, settings, options.clone())?)
            }
            Self::Csv(options) => Box::new(CsvReader::new(input, name, settings, options.clone())?),
            Self::Text(options) => Box::new(TextReader::new(input, name, settings, options)?),
            Self::Parquet(_) | Self::Avro(_) | Self::Orc(_) => {
                unreachable!("invariant: files that are no text are opened by themselves")
            }
        })
    }
}

/// Compression is told by the end of the name, as in Spark.
fn decompressed(file: File, path: &Path, name: &str) -> Result<Box<dyn Read + Send>> {
    let codec = Codec::of_path(path).map_err(|codec| {
        WeirError::config(format!(
            "file '{name}' is compressed with a codec that cannot be read: '{codec}', allowed: {}",
            codec::ALLOWED
        ))
    })?;
    match codec {
        None => Ok(Box::new(file)),
        Some(codec) => codec.reader(Box::new(file)).map_err(|error| {
            WeirError::data(format!(
                "file '{name}' is not compressed with {codec:?}: {error}"
            ))
            .with_source(error)
        }),
    }
}

fn line_separator(given: &Options<'_>) -> Result<Option<Vec<u8>>> {
    let separator = given.line_separator()?;
    Ok(separator.map(|text| text.as_bytes().to_vec()))
}

fn json_options(given: &Options<'_>) -> Result<JsonOptions> {
    let default = JsonOptions::default();
    given.flag("useUnsafeRow")?;
    let field = given.parse_exactly("explodeEmbeddedArray", "the name of a field", |name| {
        (!name.is_empty()).then(|| name.to_owned())
    })?;
    let flag = |name, default| given.flag(name).map(|flag| flag.unwrap_or(default));
    Ok(JsonOptions {
        allow_comments: flag("allowComments", default.allow_comments)?,
        allow_unquoted_field_names: flag(
            "allowUnquotedFieldNames",
            default.allow_unquoted_field_names,
        )?,
        allow_single_quotes: flag("allowSingleQuotes", default.allow_single_quotes)?,
        allow_numeric_leading_zeros: flag(
            "allowNumericLeadingZeros",
            default.allow_numeric_leading_zeros,
        )?,
        allow_backslash_escaping_any_character: flag(
            "allowBackslashEscapingAnyCharacter",
            default.allow_backslash_escaping_any_character,
        )?,
        allow_unquoted_control_chars: flag(
            "allowUnquotedControlChars",
            default.allow_unquoted_control_chars,
        )?,
        allow_non_numeric_numbers: flag(
            "allowNonNumericNumbers",
            default.allow_non_numeric_numbers,
        )?,
        multi_line: flag("multiLine", default.multi_line)?,
        embedded_array: field,
        line_separator: line_separator(given)?,
        ..default
    })
}

fn config_error(error: DecodeError) -> WeirError {
    WeirError::config(error.to_string()).with_source(error)
}

/// An error of reading, with the place (file and line) where the error type wants it and the fault it is.
pub(crate) fn decode_error(error: DecodeError) -> WeirError {
    match &error {
        // What the disk says has a number; what is left is damaged compression.
        DecodeError::Read { file, line, source } => match source.raw_os_error() {
            Some(_) => WeirError::external("the file cannot be read"),
            None => WeirError::data(format!("the file is damaged or cut off: {source}"))
                .with_condition("FAILED_READ_FILE"),
        }
        .at_position(format!("{file}:{}", line + 1))
        .with_source(error),
        DecodeError::BadRecord { file, line, reason } => WeirError::data(format!(
            "malformed record in FAILFAST mode: {reason} (mode PERMISSIVE makes bad fields null, DROPMALFORMED leaves the record out)"
        ))
        .with_condition(MALFORMED_RECORD)
        .at_position(format!("{file}:{line}")),
        DecodeError::Damaged { .. }
        | DecodeError::Unreadable { .. }
        | DecodeError::UnescapedQuote { .. } => {
            WeirError::data(error.to_string()).with_condition("FAILED_READ_FILE").with_source(error)
        }
        DecodeError::BadRecordSink { .. } => WeirError::external(error.to_string()).with_source(error),
        DecodeError::RecordTooLong { file, line, limit_bytes } => {
            WeirError::data(format!("record longer than the allowed {limit_bytes} bytes"))
                .at_position(format!("{file}:{line}"))
        }
        DecodeError::Parquet { .. } => {
            WeirError::data(format!("not a valid parquet file: {error}")).with_condition("FAILED_READ_FILE").with_source(error)
        }
        _ => WeirError::data(error.to_string()).with_source(error),
    }
}
