//! What a file source is told: where, what format, which columns, how much at a time. From option text or from typed builders.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use weir_runtime::{ObjectStoreSettings, Result, WeirError};

use super::clean::CleanSource;
use super::files::FoundFile;
use super::format::ReadFormat;
use super::listing::Listing;
use super::partition::{self, PartitionRows};
use crate::file::charset::Charset;
use crate::file::decode::parse::Zone;
use crate::file::decode::{DecodeSettings, ParseMode, TimePatterns, nullable_schema};
use crate::file::logs::LogSettings;
use crate::file::options::{NO_SUCH_TYPE, READ_FORMATS, source_options};
use crate::file::pattern::TimePattern;
use crate::file::uri;
use crate::options::Options;

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
    /// `dateFormat`, `timestampFormat`, `timestampNTZFormat`.
    pub patterns: TimePatterns,
    /// `encoding`: charset of files made of text.
    pub charset: Charset,
    /// `allowOverwrites`: read a file again when it has changed.
    pub allow_overwrites: bool,
    /// `cleanSource`: what becomes of files that were read.
    pub clean_source: CleanSource,
    /// `ignoreCorruptFiles`: leave out files, or the rest of files, that cannot be decoded.
    pub ignore_corrupt_files: bool,
    /// `badRecordsPath`: directory that takes bad records instead of rows.
    pub bad_records_path: Option<String>,
    /// `fileStreamSink.ignoreMetadata`: list the output of a file sink as any directory, with files of epochs that are not committed.
    pub ignore_manifests: bool,
    /// `fileSource.log.*`: how the log of the files that were seen is kept.
    pub log: LogSettings,
    /// `fileSource.cleaner.numThreads`: threads that move or delete files that were read; with 0 the planning of the next epoch waits
    /// for it.
    pub cleaner_threads: usize,
    /// `fs.s3a.*`: how the object store is reached that the path is in.
    pub object_stores: ObjectStoreSettings,
    /// Columns that are known to stand in the names of directories.
    pub(crate) partition_columns: Vec<String>,
    /// All files there are, where nobody shall look for them again.
    pub(super) found: Option<Arc<Vec<FoundFile>>>,
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
            patterns: TimePatterns::default(),
            charset: Charset::default(),
            allow_overwrites: false,
            clean_source: CleanSource::default(),
            ignore_corrupt_files: false,
            bad_records_path: None,
            ignore_manifests: false,
            log: LogSettings::default(),
            cleaner_threads: 1,
            object_stores: ObjectStoreSettings::default(),
            partition_columns: Vec::new(),
            found: None,
        }
    }

    /// A source as a stream reader describes it: format (one of [`crate::file::options::READ_FORMATS`]), path, columns and options by
    /// Spark's names in any letter case (the table is [`crate::file::options::source_options`]).
    ///
    /// Only `text` may go without a schema, which then has its one column `value`, and `avro` with the option `avroSchema`.
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
                "format '{format}' cannot be read from files, allowed: {}",
                READ_FORMATS.join(", ")
            ))
            .with_condition("DATA_SOURCE_NOT_FOUND"));
        };
        let owner = format!("the file source of format '{name}'");
        let given = Options::new(&owner, &known, options)?;
        given.check_path(path)?;
        let format = ReadFormat::of(&name, &given)?;
        let schema = match schema {
            Some(schema) => schema,
            None => format.columns()?.ok_or_else(|| missing_schema(&name))?,
        };
        let mut config = Self::new(path, format, schema);
        config.read_limits(&given)?;
        config.read_listing(&given)?;
        config.time_zone = given.time_zone()?.unwrap_or_default();
        config.object_stores = given.object_stores()?;
        if config.format.is_text() {
            config.charset = given.charset()?;
            given.codec()?;
            given.only("locale", "en-US")?;
        }
        if config.format.has_records() {
            config.read_records(&given)?;
        }
        config.validate_settings()?;
        Ok(config)
    }

    fn read_limits(&mut self, given: &Options<'_>) -> Result<()> {
        self.max_files_per_trigger = given.positive("maxFilesPerTrigger")?;
        self.max_bytes_per_trigger = given.positive("maxBytesPerTrigger")?;
        self.latest_first = given.flag("latestFirst")?.unwrap_or(self.latest_first);
        self.max_file_age = given.duration("maxFileAge")?.unwrap_or(self.max_file_age);
        if let Some(files) = given.natural("maxCachedFiles")? {
            self.max_cached_files = usize::try_from(files).unwrap_or(usize::MAX);
        }
        let ratio = given.parse("discardCachedInputRatio", "a number from 0 to 1")?;
        self.discard_cached_input_ratio = ratio.unwrap_or(self.discard_cached_input_ratio);
        Ok(())
    }

    fn read_listing(&mut self, given: &Options<'_>) -> Result<()> {
        let flag = |name| given.flag(name).map(Option::unwrap_or_default);
        self.file_name_only = flag("fileNameOnly")?;
        self.allow_overwrites = flag("allowOverwrites")?;
        self.path_glob_filter = given.text("pathGlobFilter").map(str::to_owned);
        self.recursive_file_lookup = flag("recursiveFileLookup")?;
        self.ignore_corrupt_files = flag("ignoreCorruptFiles")?;
        let archive = given.text("sourceArchiveDir");
        let clean = given.parse_with("cleanSource", "off, archive, delete", |text| {
            Some(match text.to_ascii_lowercase().as_str() {
                "off" => CleanSource::Off,
                "delete" => CleanSource::Delete,
                "archive" => CleanSource::Archive(archive.unwrap_or_default().to_owned()),
                _ => return None,
            })
        })?;
        self.clean_source = clean.unwrap_or_default();
        match (&self.clean_source, archive) {
            (CleanSource::Archive(_), None) => Err(WeirError::config(
                "option 'cleanSource' is 'archive', which needs option 'sourceArchiveDir': the directory files are moved to",
            )),
            _ => Ok(()),
        }
    }

    fn read_records(&mut self, given: &Options<'_>) -> Result<()> {
        given.refuse(NO_SUCH_TYPE)?;
        let mode = given.mode()?;
        self.mode = mode.unwrap_or_default();
        if let Some(column) = given.text("columnNameOfCorruptRecord") {
            self.corrupt_column = column.to_owned();
        }
        self.bad_records_path = given.text("badRecordsPath").map(str::to_owned);
        if let (Some(mode), true) = (mode, self.bad_records_path.is_some()) {
            return Err(WeirError::config(format!(
                "options 'badRecordsPath' and 'mode' ({mode:?}) exclude each other: bad records go to that path and not into rows"
            )));
        }
        let pattern = |name| {
            let pattern = given.pattern(name, TimePattern::for_reading)?;
            Ok::<_, WeirError>(pattern.map(Arc::new))
        };
        self.patterns = TimePatterns {
            date: pattern("dateFormat")?,
            timestamp: pattern("timestampFormat")?,
            local: pattern("timestampNTZFormat")?,
            fallback: given
                .flag("enableDateTimeParsingFallback")?
                .unwrap_or_default(),
        };
        Ok(())
    }

    /// Adds the columns that stand in the names of directories, `column=value`, and are not in the schema, with types that fit the
    /// directories that are there now. Without such directories, or if directories are looked up recursively, nothing changes.
    ///
    /// # Errors
    /// If the path cannot be listed.
    pub fn add_partition_columns(mut self) -> Result<Self> {
        let found = Listing::new(&self)?.partition_values()?;
        let mut fields: Vec<FieldRef> = self.schema.fields().iter().cloned().collect();
        for field in partition::columns(&found) {
            self.partition_columns.push(field.name().clone());
            let same = |known: &FieldRef| known.name().eq_ignore_ascii_case(field.name());
            if !fields.iter().any(same) {
                fields.push(Arc::new(field));
            }
        }
        self.schema = Arc::new(Schema::new_with_metadata(
            fields,
            self.schema.metadata().clone(),
        ));
        Ok(self)
    }

    /// Columns that stand in the names of directories, as far as [`FileSourceConfig::add_partition_columns`] found them.
    pub fn partition_columns(&self) -> &[String] {
        &self.partition_columns
    }

    /// What the names of directories say about these columns.
    ///
    /// # Errors
    /// If a column is not one of the schema, or the path is none.
    pub fn partition_rows(&self, columns: &[&str]) -> Result<PartitionRows> {
        let depth = Listing::new(self)?.depth();
        PartitionRows::new(columns, depth, self.decode_settings())
    }

    /// The same with the files that are there now in those directories for which `reads` answers true, each asked about once. What is
    /// made of it reads these files and looks for no others.
    ///
    /// # Errors
    /// If the path is not there or cannot be listed.
    pub fn with_files_found(mut self, mut reads: impl FnMut(&Path) -> bool) -> Result<Self> {
        let mut known: HashMap<PathBuf, bool> = HashMap::new();
        let mut wanted = |path: &Path| {
            let directory = path.parent().unwrap_or(path);
            if let Some(known) = known.get(directory) {
                return *known;
            }
            let answer = reads(directory);
            known.insert(directory.to_owned(), answer);
            answer
        };
        let listed = Listing::new(&self)?.list(&mut wanted)?;
        self.found = Some(Arc::new(listed.files));
        Ok(self)
    }

    /// Checks what types cannot: limits above zero, not both limits, a ratio in range, an archive outside of the path, columns
    /// the format can read.
    ///
    /// # Errors
    /// Names the setting and what is allowed.
    pub fn validate(&self) -> Result<()> {
        self.validate_settings()?;
        let root = uri::any_path("the file source", &self.path)?;
        self.clean_source.check(&root)?;
        let mut settings = self.decode_settings();
        settings.schema = self.data_schema();
        self.format.check(&settings)
    }

    /// Columns that are in files as far as is known.
    fn data_schema(&self) -> SchemaRef {
        let in_path = |field: &&FieldRef| {
            let mut names = self.partition_columns.iter();
            names.any(|name| name.eq_ignore_ascii_case(field.name()))
        };
        let schema = self.output_schema();
        let fields: Vec<FieldRef> = schema
            .fields()
            .iter()
            .filter(|field| !in_path(field))
            .cloned()
            .collect();
        Arc::new(Schema::new(fields))
    }

    fn validate_settings(&self) -> Result<()> {
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
        Ok(())
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
        settings.patterns = self.patterns.clone();
        if self.bad_records_path.is_some() {
            settings.mode = ParseMode::DropMalformed;
        }
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
