//! Sinks by format and options.

use std::sync::Arc;

use weir_connectors::console::ConsoleSink;
use weir_connectors::file::sink::{FileSink, FileSinkConfig};
use weir_connectors::kafka::sink::{KafkaSink, KafkaSinkConfig};
use weir_connectors::memory::MemorySink;
use weir_connectors::noop::NoopSink;
use weir_runtime::{ObjectStoreSettings, OutputMode, Result, Sink, WeirError};

use super::memory::MemoryTableProvider;
use super::start::together;
use crate::read::{OptionTexts, check_kafka_options};
use crate::session::{Session, TIME_ZONE};

/// Formats a stream can be written to.
const FORMATS: &str = "parquet, json, csv, avro, text, kafka, console, memory, noop";

/// What a sink is made from.
pub(super) struct Wanted<'a> {
    pub(super) session: &'a Session,
    pub(super) format: Option<&'a str>,
    pub(super) partition_by: &'a [String],
    pub(super) name: Option<&'a str>,
    pub(super) mode: OutputMode,
    pub(super) columns: arrow::datatypes::SchemaRef,
    pub(super) object_stores: &'a ObjectStoreSettings,
}

/// A sink, and the table that shows what it took.
pub(super) struct Made {
    pub(super) sink: Arc<dyn Sink>,
    /// Name and table, to be added to the session when the query is up.
    pub(super) table: Option<(String, Arc<MemoryTableProvider>)>,
}

impl From<Arc<dyn Sink>> for Made {
    fn from(sink: Arc<dyn Sink>) -> Self {
        Self { sink, table: None }
    }
}

impl Wanted<'_> {
    /// The sink of the format.
    pub(super) fn made(&self, mut options: OptionTexts) -> Result<Made> {
        let format = match self.format {
            Some(format) => format,
            None if options.get("path").is_some() => "parquet",
            None => {
                return Err(WeirError::config(format!(
                    "a query needs a sink: a format ({FORMATS}), foreach_batch, foreach or sink"
                )));
            }
        };
        match format.to_ascii_lowercase().as_str() {
            "parquet" | "json" | "csv" | "avro" | "text" => self.files(format, options).map(Made::from),
            "console" => {
                options.take("path");
                let zone = self.session.settings().get(TIME_ZONE).unwrap_or_default();
                let sink = ConsoleSink::from_options(options.texts())?.time_zone(&zone)?;
                Ok(Made::from(Arc::new(sink) as Arc<dyn Sink>))
            }
            "kafka" => {
                check_kafka_options(self.session, &options)?;
                let config = KafkaSinkConfig::from_options(options.texts())?;
                Ok(Made::from(Arc::new(KafkaSink::new(config)?) as Arc<dyn Sink>))
            }
            "memory" => self.memory(&options),
            "orc" => Err(orc_is_read_only()),
            "noop" => no_options("noop", &options).map(|()| Made::from(Arc::new(NoopSink::new()) as Arc<dyn Sink>)),
            _ => Err(WeirError::config(format!(
                "a stream cannot be written to format '{format}', allowed: {FORMATS}; other targets through foreach_batch"
            ))
            .with_condition("DATA_SOURCE_NOT_FOUND")),
        }
    }

    fn append_only(&self, format: &str) -> Result<()> {
        if self.mode == OutputMode::Append {
            return Ok(());
        }
        let message = format!(
            "output mode {} is not supported by the {format} sink, allowed: append",
            self.mode
        );
        Err(WeirError::plan(message).with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"))
    }

    fn files(&self, format: &str, mut options: OptionTexts) -> Result<Arc<dyn Sink>> {
        let path = options.take("path").ok_or_else(|| {
            WeirError::config(format!(
                "a {format} sink needs a path: start_path(path) or option 'path'"
            ))
        })?;
        if options.get("timeZone").is_none() {
            options.set(
                "timeZone",
                self.session.settings().get(TIME_ZONE).unwrap_or_default(),
            );
        }
        let config =
            FileSinkConfig::from_options(format, &path, self.partition_by, options.texts());
        let mut config = together(self.append_only(format), config)?;
        self.session.settings().set_up_sink(&mut config);
        config.object_stores = self.object_stores.clone();
        Ok(Arc::new(FileSink::new(config)?))
    }

    fn memory(&self, options: &OptionTexts) -> Result<Made> {
        no_options("memory", options)?;
        let name = self.name.ok_or_else(|| {
            WeirError::config(
                "the memory sink needs a query name, which becomes the name of its table",
            )
        })?;
        let sink = MemorySink::new();
        let table = MemoryTableProvider::new(sink.table(), Arc::clone(&self.columns));
        Ok(Made {
            sink: Arc::new(sink),
            table: Some((name.to_owned(), Arc::new(table))),
        })
    }
}

fn orc_is_read_only() -> WeirError {
    WeirError::config(
        "a stream cannot be written to format 'orc', which can be read only: its writer lacks DECIMAL and nested types; \
         allowed for files: parquet, json, csv, avro, text",
    )
    .with_condition("DATA_SOURCE_NOT_FOUND")
}

fn no_options(format: &str, options: &OptionTexts) -> Result<()> {
    match options.texts().keys().next() {
        Some(name) => Err(WeirError::config(format!(
            "sink '{format}' has no option '{name}', it has none at all"
        ))),
        None => Ok(()),
    }
}
