//! Sinks by format and options.

use std::sync::Arc;

use weir_connectors::console::ConsoleSink;
use weir_connectors::file::sink::{FileSink, FileSinkConfig};
use weir_connectors::memory::MemorySink;
use weir_connectors::noop::NoopSink;
use weir_runtime::{OutputMode, Result, Sink, WeirError};

use super::memory::MemoryTableProvider;
use crate::read::OptionTexts;
use crate::session::{Session, TIME_ZONE};

/// Formats a stream can be written to.
const FORMATS: &str = "parquet, json, csv, text, console, memory, noop";

/// What a sink is made from.
pub(super) struct Wanted<'a> {
    pub(super) session: &'a Session,
    pub(super) format: Option<&'a str>,
    pub(super) partition_by: &'a [String],
    pub(super) name: Option<&'a str>,
    pub(super) mode: OutputMode,
    pub(super) columns: arrow::datatypes::SchemaRef,
}

impl Wanted<'_> {
    /// The sink of the format.
    pub(super) fn sink(&self, mut options: OptionTexts) -> Result<Arc<dyn Sink>> {
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
            "parquet" | "json" | "csv" | "text" => self.files(format, options),
            "console" => {
                options.take("path");
                let zone = self.session.settings().get(TIME_ZONE).unwrap_or_default();
                Ok(Arc::new(ConsoleSink::from_options(options.texts())?.time_zone(&zone)?))
            }
            "memory" => self.memory(&options),
            "noop" => no_options("noop", &options).map(|()| Arc::new(NoopSink::new()) as Arc<dyn Sink>),
            _ => Err(WeirError::config(format!(
                "a stream cannot be written to format '{format}', allowed: {FORMATS}; other targets through foreach_batch"
            ))
            .with_condition("DATA_SOURCE_NOT_FOUND")),
        }
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
        if self.mode != OutputMode::Append {
            let message = format!(
                "output mode {} is not supported by the {format} sink, allowed: append",
                self.mode
            );
            return Err(WeirError::plan(message)
                .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
        }
        let config =
            FileSinkConfig::from_options(format, &path, self.partition_by, options.texts())?;
        Ok(Arc::new(FileSink::new(config)?))
    }

    fn memory(&self, options: &OptionTexts) -> Result<Arc<dyn Sink>> {
        no_options("memory", options)?;
        let name = self.name.ok_or_else(|| {
            WeirError::config(
                "the memory sink needs a query name, which becomes the name of its table",
            )
        })?;
        let sink = MemorySink::new();
        let table = MemoryTableProvider::new(sink.table(), Arc::clone(&self.columns));
        self.session.add_table(name, Arc::new(table))?;
        Ok(Arc::new(sink))
    }
}

fn no_options(format: &str, options: &OptionTexts) -> Result<()> {
    match options.texts().keys().next() {
        Some(name) => Err(WeirError::config(format!(
            "sink '{format}' has no option '{name}', it has none at all"
        ))),
        None => Ok(()),
    }
}
