//! `session.read()`: opens bounded data. Files are read by the same decoders as streams, most Parquet by DataFusion.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::prelude::ParquetReadOptions;
use weir_connectors::file::sink::manifest::committed_files;
use weir_connectors::file::source::{FileSource, FileSourceConfig};
use weir_connectors::kafka::source::{KafkaSource, KafkaSourceConfig};
use weir_runtime::{Result, Source, WeirError};

use super::file_table::FileTable;
use super::source_table::SourceTable;
use super::stream::fixed_schema;
use super::{IntoSchema, OptionTexts, check_kafka_options, state};
use crate::dataframe::DataFrame;
use crate::plan::plan_error;
use crate::session::{Session, TIME_ZONE};

/// Describes a bounded table in files or topics.
#[derive(Clone)]
pub struct DataFrameReader {
    session: Session,
    format: Option<String>,
    schema: Option<SchemaRef>,
    problem: Option<WeirError>,
    options: OptionTexts,
}

impl DataFrameReader {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            format: None,
            schema: None,
            problem: None,
            options: OptionTexts::default(),
        }
    }

    /// The format: json, csv, parquet, avro, orc (with the feature of that name) or text; kafka, see [`open`](Self::open); `statestore` and `state-metadata` over the checkpoint of a query, running or not.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// The columns; required for json and csv, and for avro without the option `avroSchema`.
    #[must_use]
    pub fn schema(mut self, schema: impl IntoSchema) -> Self {
        match schema.into_schema() {
            Ok(schema) => self.schema = Some(schema),
            Err(error) => self.problem = Some(error),
        }
        self
    }

    /// One option by Spark's name, in any letter case.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.options.set(name, value);
        self
    }

    /// Several options.
    #[must_use]
    pub fn options<K: AsRef<str>, V: ToString>(
        mut self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        for (name, value) in options {
            self.options.set(name.as_ref(), value);
        }
        self
    }

    /// The table of one file or of the files in a directory. A directory that a file sink writes shows its committed epochs only.
    ///
    /// # Errors
    /// If format, schema or an option is missing, unknown or not allowed, or the path does not exist.
    pub async fn load(mut self, path: &str) -> Result<DataFrame> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let format = self.format.take().ok_or_else(no_format)?;
        match format.to_ascii_lowercase().as_str() {
            "statestore" => return state::entries(&self.session, path, &self.options).await,
            "state-metadata" => return state::metadata(&self.session, path, &self.options).await,
            "kafka" if path.is_empty() => return self.kafka(),
            "kafka" => {
                return Err(WeirError::config(format!(
                    "a table of format 'kafka' has no path such as '{path}': name topics by the option 'subscribe' and call open()"
                )));
            }
            _ => {}
        }
        if format.eq_ignore_ascii_case("parquet") {
            return self.load_parquet(path).await;
        }
        if self.options.get("timeZone").is_none() {
            self.options.set(
                "timeZone",
                self.session.settings().get(TIME_ZONE).unwrap_or_default(),
            );
        }
        if format.eq_ignore_ascii_case("orc") {
            return self.load_orc(path);
        }
        let config = self.config(&format, path, self.schema.clone())?;
        self.files(config.add_partition_columns()?, 1)
    }

    /// The source of a table; of one file only if that is what the path names.
    fn config(
        &self,
        format: &str,
        path: &str,
        schema: Option<SchemaRef>,
    ) -> Result<FileSourceConfig> {
        let (directory, only) = place(path);
        let options = self.options.texts();
        let mut config = FileSourceConfig::from_options(format, &directory, schema, options)?;
        self.session.settings().set_up_source(&mut config);
        config.path_glob_filter = only.or(config.path_glob_filter);
        Ok(config)
    }

    /// Without a schema the columns are those of the files.
    fn load_orc(self, path: &str) -> Result<DataFrame> {
        let given = self.schema.clone();
        let schema = given.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
        let mut config = self.config("orc", path, Some(schema))?;
        if given.is_none() {
            config.schema = config.orc_columns()?;
        }
        self.files(config.add_partition_columns()?, self.session.parallelism())
    }

    /// The table of a format that needs no path: kafka, from the earliest to the latest offsets unless options say otherwise. Each
    /// time the frame is read, the offsets are looked up anew.
    ///
    /// # Errors
    /// If the format is missing or needs a path, or an option is missing, unknown or not allowed.
    pub fn open(mut self) -> Result<DataFrame> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let format = self.format.take().ok_or_else(no_format)?;
        if !format.eq_ignore_ascii_case("kafka") {
            return Err(WeirError::config(format!(
                "a table of format '{format}' needs a path: load(path)"
            )));
        }
        self.kafka()
    }

    fn kafka(self) -> Result<DataFrame> {
        if self.schema.is_some() {
            return Err(fixed_schema("kafka"));
        }
        check_kafka_options(&self.session, &self.options)?;
        let config = KafkaSourceConfig::batch(self.options.texts())?;
        let schema = KafkaSource::new(config.clone()).schema();
        let readers = self.session.parallelism();
        let topics = SourceTable::new(schema, readers, move || {
            Ok(Box::new(KafkaSource::new(config.clone())))
        });
        self.session.frame_over("kafka", topics.table()?)
    }

    /// Files without partition columns are read by DataFusion, which leaves out what a query does not need.
    async fn load_parquet(self, path: &str) -> Result<DataFrame> {
        let given = self
            .schema
            .clone()
            .unwrap_or_else(|| Arc::new(Schema::empty()));
        let mut config = self.config("parquet", path, Some(given))?;
        let with_partitions = config.clone().add_partition_columns()?;
        let is_plain = with_partitions.partition_columns().is_empty()
            && self.options.texts().is_empty()
            && !is_remote(path);
        if is_plain {
            return self.load_plain_parquet(path, config.ignore_manifests).await;
        }
        if self.schema.is_none() {
            config.schema = config.parquet_columns()?;
        }
        self.files(config.add_partition_columns()?, self.session.parallelism())
    }

    async fn load_plain_parquet(self, path: &str, ignore_manifest: bool) -> Result<DataFrame> {
        let committed = match ignore_manifest {
            true => None,
            false => committed_files(Path::new(path))?,
        };
        let files = match committed {
            Some(files) => files
                .into_iter()
                .map(|file| file.display().to_string())
                .collect(),
            None => vec![path.to_owned()],
        };
        let schema = self.schema.clone();
        let mut options = ParquetReadOptions::default();
        if let Some(schema) = &schema {
            options = options.schema(schema);
        }
        let frame = self
            .session
            .context()
            .read_parquet(files, options)
            .await
            .map_err(plan_error)?;
        Ok(DataFrame::new(self.session, frame.into_unoptimized_plan()))
    }

    fn files(&self, config: FileSourceConfig, readers: usize) -> Result<DataFrame> {
        let source = FileSource::new(config.clone())?;
        source.check_path()?;
        let name = config.format.name();
        let files = FileTable::new(config, source.schema(), readers);
        self.session.frame_over(name, Arc::new(files))
    }

    /// Shorthand for `format("json").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn json(self, path: &str) -> Result<DataFrame> {
        self.format("json").load(path).await
    }

    /// Shorthand for `format("csv").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn csv(self, path: &str) -> Result<DataFrame> {
        self.format("csv").load(path).await
    }

    /// Shorthand for `format("parquet").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn parquet(self, path: &str) -> Result<DataFrame> {
        self.format("parquet").load(path).await
    }

    /// Shorthand for `format("orc").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn orc(self, path: &str) -> Result<DataFrame> {
        self.format("orc").load(path).await
    }

    /// Shorthand for `format("text").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn text(self, path: &str) -> Result<DataFrame> {
        self.format("text").load(path).await
    }
}

fn is_remote(path: &str) -> bool {
    path.contains("://") && !path.starts_with("file://")
}

fn no_format() -> WeirError {
    WeirError::config(
        "a table needs a format, allowed: json, csv, parquet, avro, orc, text, kafka, statestore, state-metadata",
    )
}

/// Directory and, for the path of a file, the pattern that matches only that file.
fn place(path: &str) -> (String, Option<String>) {
    let local = Path::new(path.strip_prefix("file://").unwrap_or(path));
    match (local.is_file(), local.parent(), local.file_name()) {
        (true, Some(parent), Some(name)) => {
            let parent = match parent.as_os_str().is_empty() {
                true => ".".to_owned(),
                false => parent.display().to_string(),
            };
            (parent, Some(literal(&name.to_string_lossy())))
        }
        _ => (path.to_owned(), None),
    }
}

/// A pattern that matches nothing but `name`.
fn literal(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        match letter {
            '*' | '?' | '[' | ']' | '{' | '}' => pattern.extend(['[', letter, ']']),
            '\\' => pattern.push_str("\\\\"),
            other => pattern.push(other),
        }
    }
    pattern
}
