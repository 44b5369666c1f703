//! What a file source is told: where, what format, which columns, how much at a time. From option text or from typed builders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_runtime::{Result, WeirError};

use super::format::ReadFormat;
use crate::file::decode::parse::Zone;
use crate::file::decode::{DecodeSettings, ParseMode, nullable_schema};
use crate::file::options::{Options, source_options};

/// Age at which files are too old, unless told otherwise (Spark's `maxFileAge`).
const MAX_FILE_AGE: Duration = Duration::from_secs(7 * 86_400);

/// Everything a file source is told. The defaults are Spark's; the names of Spark's options stand at the fields.
#[derive(Debug, Clone)]
pub struct FileSourceConfig {
    /// `path`: a directory or a glob of directories. A path that exists is taken letter by letter, whatever characters it has.
    pub path: String,
    /// Format of the files, with its own options.
    pub format: ReadFormat,
    /// Columns to read. Every column counts as nullable, nested ones too.
    pub schema: SchemaRef,
    /// `maxFilesPerTrigger`: most new files of an epoch.
    pub max_files_per_trigger: Option<u64>,
    /// `maxBytesPerTrigger`: most bytes of new files of an epoch, but at least one file.
    pub max_bytes_per_trigger: Option<u64>,
    /// `latestFirst`: take the newest files first.
    pub latest_first: bool,
    /// `maxFileAge`: leave out files this much older than the newest one seen. Not applied to the first listing, nor
    /// when `latest_first` and a limit are both set.
    pub max_file_age: Duration,
    /// `fileNameOnly`: two files of the same name are the same file, whatever their directory.
    pub file_name_only: bool,
    /// `maxCachedFiles`: most listed files kept for later epochs.
    pub max_cached_files: usize,
    /// `discardCachedInputRatio`: list again when fewer than this part of an epoch's limit is kept.
    pub discard_cached_input_ratio: f64,
    /// `pathGlobFilter`: read only files whose name matches.
    pub path_glob_filter: Option<String>,
    /// `recursiveFileLookup`: read directories inside of the directory too.
    pub recursive_file_lookup: bool,
    /// `mode`: what happens to bad records.
    pub mode: ParseMode,
    /// `columnNameOfCorruptRecord`: the STRING column that takes the text of bad records.
    pub corrupt_column: String,
    /// `timeZone`: zone of timestamps that name none.
    pub time_zone: Zone,
}

impl FileSourceConfig {
    /// A source with Spark's defaults.
    pub fn new(path: impl Into<String>, format: ReadFormat, schema: SchemaRef) -> Self {
        Self {
            path: path.into(),
            format,
            schema,
            max_files_per_trigger: None,
            max_bytes_per_trigger: None,
            latest_first: false,
            max_file_age: MAX_FILE_AGE,
            file_name_only: false,
            max_cached_files: 10_000,
            discard_cached_input_ratio: 0.2,
            path_glob_filter: None,
            recursive_file_lookup: false,
            mode: ParseMode::default(),
            corrupt_column: "_corrupt_record".to_owned(),
            time_zone: Zone::default(),
        }
    }

    /// A source as a stream reader describes it: format (`json`, `csv`, `parquet`, `text`), path, columns and options by
    /// Spark's names in any letter case (the table is [`crate::file::options::source_options`]).
    ///
    /// Only `text` may go without a schema; it then has its one column `value`.
    ///
    /// # Errors
    /// If the format or an option is unknown, a value is not allowed, or the schema is missing.
    pub fn from_options(
        format: &str,
        path: &str,
        schema: Option<SchemaRef>,
        options: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let name = format.to_ascii_lowercase();
        let Some(known) = source_options(&name) else {
            return Err(WeirError::config(format!(
                "format '{format}' cannot be read from files, allowed: json, csv, parquet, text"
            ))
            .with_condition("DATA_SOURCE_NOT_FOUND"));
        };
        let given = Options::check(
            &format!("the file source of format '{name}'"),
            options,
            &known,
        )?;
        given.check_path(path)?;
        let format = ReadFormat::from_options(&name, &given, options)?;
        let schema = match schema {
            Some(schema) => schema,
            None if name == "text" => text_schema(),
            None => return Err(missing_schema(&name)),
        };
        let mut config = Self::new(path, format, schema);
        config.read_limits(&given)?;
        config.read_listing(&given)?;
        config.mode = given.mode()?;
        config.time_zone = given.time_zone()?;
        if let Some(column) = given.get("columnNameOfCorruptRecord") {
            config.corrupt_column = column.to_owned();
        }
        config.validate()?;
        Ok(config)
    }

    fn read_limits(&mut self, given: &Options<'_>) -> Result<()> {
        self.max_files_per_trigger = given.positive("maxFilesPerTrigger")?;
        self.max_bytes_per_trigger = given.positive("maxBytesPerTrigger")?;
        self.latest_first = given.flag("latestFirst")?.unwrap_or(self.latest_first);
        self.max_file_age = given.duration("maxFileAge")?.unwrap_or(self.max_file_age);
        self.file_name_only = given.flag("fileNameOnly")?.unwrap_or(self.file_name_only);
        if let Some(files) = given.natural("maxCachedFiles")? {
            self.max_cached_files = usize::try_from(files).unwrap_or(usize::MAX);
        }
        let ratio = given.parse("discardCachedInputRatio", "a number from 0 to 1", |text| {
            text.parse().ok()
        })?;
        self.discard_cached_input_ratio = ratio.unwrap_or(self.discard_cached_input_ratio);
        Ok(())
    }

    fn read_listing(&mut self, given: &Options<'_>) -> Result<()> {
        self.path_glob_filter = given.get("pathGlobFilter").map(str::to_owned);
        self.recursive_file_lookup = given.flag("recursiveFileLookup")?.unwrap_or(false);
        given.parse("cleanSource", "off", |text| {
            text.eq_ignore_ascii_case("off").then_some(())
        })?;
        Ok(())
    }

    /// Checks what types cannot: limits above zero, not both limits, a ratio in range, columns the format can read.
    ///
    /// # Errors
    /// Names the setting and what is allowed.
    pub fn validate(&self) -> Result<()> {
        for (name, limit) in self.limits() {
            if limit == Some(0) {
                return Err(WeirError::invalid_option(
                    name,
                    "0",
                    "a whole number above 0",
                ));
            }
        }
        if self.max_files_per_trigger.is_some() && self.max_bytes_per_trigger.is_some() {
            return Err(WeirError::config(
                "options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' exclude each other: give one of them",
            ));
        }
        if !(0.0..=1.0).contains(&self.discard_cached_input_ratio) {
            let value = self.discard_cached_input_ratio.to_string();
            return Err(WeirError::invalid_option(
                "discardCachedInputRatio",
                &value,
                "a number from 0 to 1",
            ));
        }
        self.format.check(&self.decode_settings())
    }

    fn limits(&self) -> [(&'static str, Option<u64>); 2] {
        [
            ("maxFilesPerTrigger", self.max_files_per_trigger),
            ("maxBytesPerTrigger", self.max_bytes_per_trigger),
        ]
    }

    /// Columns the source gives: those of the schema, all nullable.
    pub(crate) fn output_schema(&self) -> SchemaRef {
        nullable_schema(&self.schema)
    }

    pub(crate) fn decode_settings(&self) -> DecodeSettings {
        let mut settings = DecodeSettings::new(&self.schema);
        settings.mode = self.mode;
        settings.corrupt_column.clone_from(&self.corrupt_column);
        settings.time_zone = self.time_zone;
        settings
    }

    /// The age limit that holds, if one does.
    pub(crate) fn age_limit_ms(&self) -> Option<i64> {
        let limited = self.max_files_per_trigger.is_some() || self.max_bytes_per_trigger.is_some();
        if self.latest_first && limited {
            return None;
        }
        i64::try_from(self.max_file_age.as_millis()).ok()
    }
}

/// The columns of the text format when nobody names them.
pub(crate) fn text_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8, true)]))
}

/// The error Spark gives for a stream of files without a schema.
pub(crate) fn missing_schema(format: &str) -> WeirError {
    WeirError::config(format!(
        "schema must be specified when creating a streaming source of format '{format}': files that are not there yet cannot be asked for it"
    ))
}
