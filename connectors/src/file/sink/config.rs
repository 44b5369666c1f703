//! What a file sink is told: where, what format, which directories, how large the files. From option text or from typed
//! builders.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_runtime::{ObjectStoreSettings, Result, WeirError};

use crate::file::decode::parse::Zone;
use crate::file::encode::WriteFormat;
use crate::file::logs::LogSettings;
use crate::file::options::{WRITE_FORMATS, sink_options};
use crate::options::Options;

/// Files a subtask writes at a time, unless told otherwise.
const MAX_OPEN_FILES: usize = 100;

/// Everything a file sink is told. The names of the options stand at the fields.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSinkConfig {
    /// `path`: the directory the files go to; made if it does not exist.
    pub path: String,
    /// Format of the files, with its own options.
    pub format: WriteFormat,
    /// `partitionBy`: columns whose values become directories `column=value` and are not in the files.
    pub partition_by: Vec<String>,
    /// `retention`: forget files older than this when the manifest is compacted. They stay on disk.
    pub retention: Option<Duration>,
    /// `maxRecordsPerFile`: begin a new file after this many rows.
    pub max_records_per_file: Option<u64>,
    /// `maxBytesPerFile`: begin a new file after about this many bytes.
    pub max_bytes_per_file: Option<u64>,
    /// `maxOpenFiles`: most files a subtask writes at a time. When there are more directories than that, the file not
    /// written to for the longest time is finished, and its directory gets another one if more rows come.
    pub max_open_files: usize,
    /// `timeZone`: zone in which timestamps become names of directories.
    pub time_zone: Zone,
    /// `fileSink.log.*`: how the manifest is kept.
    pub log: LogSettings,
    /// `fs.s3a.*`: how the object store is reached that the path is in.
    pub object_stores: ObjectStoreSettings,
}

impl FileSinkConfig {
    /// A sink without partition columns or limits.
    pub fn new(path: impl Into<String>, format: WriteFormat) -> Self {
        Self {
            path: path.into(),
            format,
            partition_by: Vec::new(),
            retention: None,
            max_records_per_file: None,
            max_bytes_per_file: None,
            max_open_files: MAX_OPEN_FILES,
            time_zone: Zone::default(),
            log: LogSettings::default(),
            object_stores: ObjectStoreSettings::default(),
        }
    }

    /// A sink as a stream writer describes it: format (`parquet`, `json`, `csv`, `text`), path, partition columns and
    /// options by Spark's names in any letter case (the table is [`crate::file::options::sink_options`]).
    ///
    /// # Errors
    /// If the format or an option is unknown, or a value is not allowed.
    pub fn from_options(
        format: &str,
        path: &str,
        partition_by: &[String],
        options: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let name = format.to_ascii_lowercase();
        let Some(known) = sink_options(&name) else {
            return Err(WeirError::config(format!(
                "format '{format}' cannot be written to files, allowed: {}",
                WRITE_FORMATS.join(", ")
            ))
            .with_condition("DATA_SOURCE_NOT_FOUND"));
        };
        let given = Options::new(
            &format!("the file sink of format '{name}'"),
            &known,
            options,
        )?;
        given.check_path(path)?;
        let time_zone = given.time_zone()?.unwrap_or_default();
        let format = WriteFormat::of(&name, &given, time_zone)?;
        let limit = |name| {
            given
                .natural(name)
                .map(|limit| limit.filter(|limit| *limit > 0))
        };
        let open_files = given
            .positive("maxOpenFiles")?
            .map(|files| usize::try_from(files).unwrap_or(usize::MAX));
        let config = Self {
            path: path.to_owned(),
            format,
            partition_by: partition_by.to_vec(),
            retention: given.duration("retention")?,
            max_records_per_file: limit("maxRecordsPerFile")?,
            max_bytes_per_file: limit("maxBytesPerFile")?,
            max_open_files: open_files.unwrap_or(MAX_OPEN_FILES),
            time_zone,
            log: LogSettings::default(),
            object_stores: given.object_stores()?,
        };
        config.validate()?;
        Ok(config)
    }

    /// Checks what types cannot: limits are above zero.
    ///
    /// # Errors
    /// Names the setting and what is allowed.
    pub fn validate(&self) -> Result<()> {
        let limits = [
            ("maxRecordsPerFile", self.max_records_per_file == Some(0)),
            ("maxBytesPerFile", self.max_bytes_per_file == Some(0)),
            ("maxOpenFiles", self.max_open_files == 0),
        ];
        match limits.iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(WeirError::invalid_option(
                name,
                "0",
                "a whole number above 0",
            )),
            None => Ok(()),
        }
    }
}
