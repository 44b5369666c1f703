//! `session.read()`: opens bounded data. Text formats are read by the same decoders as streams, Parquet by DataFusion.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::ParquetReadOptions;
use tokio::sync::mpsc::Sender;
use weir_connectors::file::sink::manifest::committed_files;
use weir_connectors::file::source::{FileSource, FileSourceConfig};
use weir_runtime::{
    Admission, Epoch, FailPoints, Polled, Result, Source, SourceContext, SourceReader, Split,
    SystemClock, WakeHandle, WeirError,
};
use weir_state::CheckpointLocation;

use super::{IntoSchema, OptionTexts, state};
use crate::dataframe::DataFrame;
use crate::plan::plan_error;
use crate::session::{Session, TIME_ZONE};

/// Rows asked of a reader at a time.
const BATCH_ROWS: usize = 8192;

/// Describes a bounded table in files.
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

    /// The format: json, csv, parquet or text; `statestore` and `state-metadata` over the checkpoint of a query, running or not.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// The columns; required for json and csv.
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
        let format = self.format.take().ok_or_else(|| {
            WeirError::config(
                "a table needs a format, allowed: json, csv, parquet, text, statestore, state-metadata",
            )
        })?;
        match format.to_ascii_lowercase().as_str() {
            "statestore" => return state::entries(&self.session, path, &self.options).await,
            "state-metadata" => return state::metadata(&self.session, path, &self.options).await,
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
        let (directory, only) = place(path);
        let mut config = FileSourceConfig::from_options(
            &format,
            &directory,
            self.schema.clone(),
            self.options.texts(),
        )?;
        if let Some(only) = only {
            config.path_glob_filter = Some(only);
        }
        let source = FileSource::new(config.clone())?;
        source.check_path()?;
        let schema = source.schema();
        let files = Files {
            config,
            schema: Arc::clone(&schema),
        };
        let table = StreamingTable::try_new(schema, vec![Arc::new(files)]).map_err(plan_error)?;
        self.session
            .frame_over(&format.to_ascii_lowercase(), Arc::new(table))
    }

    async fn load_parquet(self, path: &str) -> Result<DataFrame> {
        if let Some(name) = self.options.texts().keys().next() {
            return Err(WeirError::unknown_option("the parquet reader", name, &[]));
        }
        let files = match committed_files(Path::new(path))? {
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

    /// Shorthand for `format("text").load(path)`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn text(self, path: &str) -> Result<DataFrame> {
        self.format("text").load(path).await
    }
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

/// The files of a directory as they are when they are read, as one partition.
struct Files {
    config: FileSourceConfig,
    schema: SchemaRef,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("path", &self.config.path)
            .finish_non_exhaustive()
    }
}

impl PartitionStream for Files {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), 2);
        let (config, sender) = (self.config.clone(), builder.tx());
        builder.spawn(async move {
            let (reader, splits) = open(config).await.map_err(external)?;
            let read = tokio::task::spawn_blocking(move || read(reader, &splits, &sender));
            read.await
                .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
                .map_err(external)
        });
        builder.build()
    }
}

fn external(error: WeirError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Everything that is there, as one epoch of a query that has no checkpoint.
async fn open(config: FileSourceConfig) -> Result<(Box<dyn SourceReader>, Vec<Split>)> {
    let mut source = FileSource::new(config)?;
    let context = SourceContext {
        uid: "files".to_owned(),
        index: 0,
        checkpoint: CheckpointLocation::open(&format!("memory://weir-{}", uuid::Uuid::new_v4()))?,
        committed: None,
        committed_epoch: None,
        planned_epoch: None,
        clock: Arc::new(SystemClock::default()),
        failpoints: Arc::new(FailPoints::default()),
        wake: WakeHandle::new(|| {}),
    };
    source.open(context).await?;
    source.fix_end().await?;
    let Some(end) = source.latest(None, Admission::Everything).await? else {
        return Ok((source.reader(0)?, Vec::new()));
    };
    source.log(Epoch::FIRST, None, &end).await?;
    let splits = source.splits(Epoch::FIRST, None, &end).await?;
    Ok((source.reader(0)?, splits))
}

fn read(
    mut reader: Box<dyn SourceReader>,
    splits: &[Split],
    sender: &Sender<datafusion::common::Result<RecordBatch>>,
) -> Result<()> {
    for split in splits {
        reader.open(split)?;
        loop {
            match reader.poll(BATCH_ROWS, Duration::from_millis(100))? {
                Polled::Batch(batch) => {
                    if sender.blocking_send(Ok(batch)).is_err() {
                        return Ok(());
                    }
                }
                Polled::Idle => {}
                Polled::Done => break,
            }
        }
    }
    Ok(())
}
