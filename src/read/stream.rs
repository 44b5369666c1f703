//! `session.read_stream()`: opens a stream by format and options, or over a source of the user.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use weir_connectors::file::decode::ParseMode;
use weir_connectors::file::source::{FileSource, FileSourceConfig, ReadFormat};
use weir_connectors::kafka::source::{KafkaSource, KafkaSourceConfig};
use weir_connectors::rate::{RateMicroBatchSource, RateSource};
use weir_connectors::socket::SocketSource;
use weir_runtime::{Result, Source, WeirError};

use super::{IntoSchema, OptionTexts, check_kafka_options};
use crate::dataframe::DataFrame;
use crate::plan::{StreamLeaf, plan_error};
use crate::session::{Session, TIME_ZONE};

/// Formats a stream can be read from.
const FORMATS: &str = "json, csv, parquet, avro, orc, text, kafka, rate, rate-micro-batch, socket";

/// Describes a stream. Nothing is read before a query starts; mistakes in schema and options are reported by `load`.
#[derive(Clone)]
pub struct DataStreamReader {
    session: Session,
    format: Option<String>,
    schema: Option<SchemaRef>,
    problem: Option<WeirError>,
    options: OptionTexts,
    name: Option<String>,
}

impl DataStreamReader {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            format: None,
            schema: None,
            problem: None,
            options: OptionTexts::default(),
            name: None,
        }
    }

    /// The format: json, csv, parquet, avro, orc (with the feature of that name), text, kafka, rate, rate-micro-batch or socket.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// The columns: `"user_id STRING, ts TIMESTAMP"` or an Arrow schema. Required for files other than text, and avro with the option
    /// `avroSchema`.
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

    /// The id of the source in the query and its checkpoint; `source-0`, `source-1`, … unless set.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The stream of the files in a directory.
    ///
    /// # Errors
    /// If format, schema or an option is missing, unknown or not allowed, or the path does not exist.
    pub fn load(mut self, path: &str) -> Result<DataFrame> {
        self.options.set("path", path);
        self.open()
    }

    /// The stream, where the format needs no path or the option `path` names it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn open(mut self) -> Result<DataFrame> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let format = self.format.take().ok_or_else(|| {
            WeirError::config(format!("a stream needs a format, allowed: {FORMATS}"))
        })?;
        let leaf = match format.to_ascii_lowercase().as_str() {
            "json" | "csv" | "parquet" | "avro" | "orc" | "text" => self.files(&format)?,
            "kafka" => self.kafka()?,
            "rate" => self.without_path(&format, RateSource::from_options)?,
            "rate-micro-batch" => self.without_path(&format, RateMicroBatchSource::from_options)?,
            "socket" => self.without_path(&format, SocketSource::from_options)?,
            _ => return Err(unknown_format(&format)),
        };
        self.frame(&format, leaf)
    }

    /// The stream behind a view of this session, in any letter case.
    ///
    /// # Errors
    /// If there is none of that name, it is a bounded table, or format, schema, options or a name were given, which a stream that is
    /// open already does not take.
    pub async fn table(mut self, name: &str) -> Result<DataFrame> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        self.refuse_options()?;
        if self.format.is_some() || self.schema.is_some() || self.name.is_some() {
            return Err(WeirError::config(format!(
                "table('{name}') takes no format, schema or name: the stream behind it has them"
            )));
        }
        let frame = self.session.table(name).await?;
        match frame.is_streaming() {
            true => Ok(frame),
            false => Err(WeirError::plan(format!(
                "table or view '{name}' is bounded and cannot be read as a stream: read its files with format(..).load(path)"
            ))),
        }
    }

    /// Shorthand for `format("json").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn json(self, path: &str) -> Result<DataFrame> {
        self.format("json").load(path)
    }

    /// Shorthand for `format("csv").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn csv(self, path: &str) -> Result<DataFrame> {
        self.format("csv").load(path)
    }

    /// Shorthand for `format("parquet").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parquet(self, path: &str) -> Result<DataFrame> {
        self.format("parquet").load(path)
    }

    /// Shorthand for `format("avro").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn avro(self, path: &str) -> Result<DataFrame> {
        self.format("avro").load(path)
    }

    /// Shorthand for `format("orc").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn orc(self, path: &str) -> Result<DataFrame> {
        self.format("orc").load(path)
    }

    /// Shorthand for `format("text").load(path)`: one column `value`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn text(self, path: &str) -> Result<DataFrame> {
        self.format("text").load(path)
    }

    /// A stream over a source of the user, which the first query of the frame takes; see [`source_fn`](Self::source_fn) for
    /// frames that several queries or restarts use.
    ///
    /// # Errors
    /// If options were given, which only formats read.
    pub fn source(self, source: impl Source + 'static) -> Result<DataFrame> {
        self.refuse_options()?;
        let leaf = StreamLeaf::once(Box::new(source), self.name.clone());
        self.frame("source", leaf)
    }

    /// A stream over sources that `make` makes, one for each query.
    ///
    /// # Errors
    /// What `make` reports, and options, which only formats read.
    pub fn source_fn<S, F>(self, make: F) -> Result<DataFrame>
    where
        S: Source + 'static,
        F: Fn() -> Result<S> + Send + Sync + 'static,
    {
        self.refuse_options()?;
        let example = make()?;
        let (schema, description) = (example.schema(), example.description());
        let leaf = StreamLeaf::new(schema, self.name.clone(), description, false, move |_| {
            Ok(Box::new(make()?))
        });
        self.frame("source", leaf)
    }

    fn refuse_options(&self) -> Result<()> {
        match self.options.texts().keys().next() {
            Some(name) => Err(WeirError::config(format!(
                "option '{name}' has no meaning for a source that is made already"
            ))),
            None => Ok(()),
        }
    }

    fn frame(self, kind: &str, leaf: StreamLeaf) -> Result<DataFrame> {
        let plan = leaf
            .scan(&self.session.anonymous_name(kind))
            .map_err(plan_error)?;
        Ok(DataFrame::new(self.session, plan))
    }

    fn files(&mut self, format: &str) -> Result<StreamLeaf> {
        let path = self.options.take("path").ok_or_else(|| {
            WeirError::config(format!(
                "a stream of {format} files needs a path: load(path) or option 'path'"
            ))
        })?;
        if self.options.get("timeZone").is_none() {
            self.options.set(
                "timeZone",
                self.session.settings().get(TIME_ZONE).unwrap_or_default(),
            );
        }
        let mut config = FileSourceConfig::from_options(
            format,
            &path,
            self.schema.clone(),
            self.options.texts(),
        )?;
        self.session.settings().set_up_source(&mut config);
        let config = config.add_partition_columns()?;
        let source = FileSource::new(config.clone())?;
        source.check_path()?;
        let (schema, description) = (source.schema(), source.description());
        let prunable = prunable(&config);
        Ok(StreamLeaf::new(
            schema,
            self.name.clone(),
            description,
            prunable,
            move |wanted| {
                let mut config = config.clone();
                if let Some(wanted) = wanted {
                    config.schema = wanted;
                }
                Ok(Box::new(FileSource::new(config)?))
            },
        ))
    }

    fn kafka(&self) -> Result<StreamLeaf> {
        if self.schema.is_some() {
            return Err(fixed_schema("kafka"));
        }
        check_kafka_options(&self.session, &self.options)?;
        let config = KafkaSourceConfig::stream(self.options.texts())?;
        let source = KafkaSource::new(config.clone());
        Ok(StreamLeaf::new(
            source.schema(),
            self.name.clone(),
            source.description(),
            true,
            move |wanted| {
                let source = KafkaSource::new(config.clone());
                Ok(Box::new(match wanted {
                    Some(wanted) => source.with_columns(wanted)?,
                    None => source,
                }))
            },
        ))
    }

    fn without_path<S: Source + 'static>(
        &self,
        format: &str,
        make: fn(&BTreeMap<String, String>) -> Result<S>,
    ) -> Result<StreamLeaf> {
        if self.schema.is_some() {
            return Err(fixed_schema(format));
        }
        let options = self.options.texts().clone();
        let example = make(&options)?;
        let (schema, description) = (example.schema(), example.description());
        Ok(StreamLeaf::new(
            schema,
            self.name.clone(),
            description,
            false,
            move |_| Ok(Box::new(make(&options)?)),
        ))
    }
}

/// Whether reading fewer columns changes neither the values of the others nor which records count as bad: columns must be found
/// by name, and nobody may ask for records that fit in some columns only.
pub(super) fn prunable(config: &FileSourceConfig) -> bool {
    let has_corrupt_column = config.schema.index_of(&config.corrupt_column).is_ok();
    match &config.format {
        ReadFormat::Parquet(_) | ReadFormat::Orc(_) => true,
        ReadFormat::Avro(options) => !options.by_position,
        ReadFormat::Json(_) => {
            config.mode == ParseMode::Permissive
                && config.bad_records_path.is_none()
                && !has_corrupt_column
        }
        _ => false,
    }
}

/// A schema was given for a format that has its own columns.
pub(super) fn fixed_schema(format: &str) -> WeirError {
    WeirError::plan(format!(
        "format '{format}' has its own columns and takes no schema; decode the column 'value' to give it one"
    ))
}

fn unknown_format(format: &str) -> WeirError {
    WeirError::config(format!(
        "a stream cannot be read from format '{format}', allowed: {FORMATS}"
    ))
    .with_condition("DATA_SOURCE_NOT_FOUND")
}
