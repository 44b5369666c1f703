//! `frame.write_stream()`: where a stream goes, when, and from which checkpoint.

mod changes;
mod checkpoint;
mod memory;
mod progress_bar;
mod sinks;
mod start;

use std::future::Future;
use std::sync::Arc;

use weir_connectors::foreach::{ForeachSink, ForeachWriter, RowRef};
use weir_connectors::foreach_batch::{EpochRows, ForeachBatchSink};
use weir_runtime::{Epoch, OutputMode, Result, Sink, Trigger, WeirError};

use crate::dataframe::DataFrame;
use crate::read::OptionTexts;
use crate::session::Session;
use crate::streams::StreamingQuery;

pub use changes::{CHANGE_TYPE, EpochChanges};

/// Describes a query: set what it needs, then [`start`](Self::start) it. Mistakes are reported by `start`.
#[derive(Clone)]
pub struct DataStreamWriter {
    frame: DataFrame,
    mode: OutputMode,
    format: Option<String>,
    sink: Option<Arc<dyn Sink>>,
    options: OptionTexts,
    partition_by: Vec<String>,
    cluster_by: Vec<String>,
    name: Option<String>,
    trigger: Trigger,
    config: Option<weir_runtime::QueryConfig>,
    problem: Option<WeirError>,
}

/// An output mode by value or by Spark's name.
pub trait IntoOutputMode {
    /// The mode.
    ///
    /// # Errors
    /// If the name is none of append, update and complete.
    fn into_output_mode(self) -> Result<OutputMode>;
}

impl IntoOutputMode for OutputMode {
    fn into_output_mode(self) -> Result<OutputMode> {
        Ok(self)
    }
}

impl IntoOutputMode for &str {
    fn into_output_mode(self) -> Result<OutputMode> {
        match self.trim().to_ascii_lowercase().as_str() {
            "append" => Ok(OutputMode::Append),
            "update" => Ok(OutputMode::Update),
            "complete" => Ok(OutputMode::Complete),
            _ => Err(WeirError::config(format!(
                "output mode '{self}' is unknown, allowed: append, update, complete"
            ))
            .with_condition("STREAMING_OUTPUT_MODE.INVALID")),
        }
    }
}

impl DataStreamWriter {
    pub(crate) fn new(frame: DataFrame) -> Self {
        Self {
            frame,
            mode: OutputMode::Append,
            format: None,
            sink: None,
            options: OptionTexts::default(),
            partition_by: Vec::new(),
            cluster_by: Vec::new(),
            name: None,
            trigger: Trigger::Default,
            config: None,
            problem: None,
        }
    }

    fn or_problem(mut self, set: impl FnOnce(&mut Self) -> Result<()>) -> Self {
        if let Err(error) = set(&mut self) {
            self.problem.get_or_insert(error);
        }
        self
    }

    /// Which rows an epoch hands over: append (unless set), update or complete.
    #[must_use]
    pub fn output_mode(self, mode: impl IntoOutputMode) -> Self {
        self.or_problem(|writer| {
            writer.mode = mode.into_output_mode()?;
            Ok(())
        })
    }

    /// The format of the sink: parquet, json, csv, avro, text, kafka, console, memory or noop. Parquet if a path is given and nothing else.
    #[must_use]
    pub fn format(mut self, format: impl Into<String>) -> Self {
        self.format = Some(format.into());
        self
    }

    /// One option by Spark's name, in any letter case. `checkpointLocation`, `path` and `queryName` belong to the query, `fs.s3a.*`
    /// (how object stores are reached) to the query's checkpoint and to a sink of files, others to the sink.
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

    /// Columns whose values become directories of a file sink.
    #[must_use]
    pub fn partition_by<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Columns by whose values rows should lie together; not together with [`partition_by`](Self::partition_by). That they are columns is
    /// checked, and no more: as in Spark, it is up to the format, and none of those written here keeps rows in an order.
    #[must_use]
    pub fn cluster_by<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.cluster_by = columns.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the query, unique among the active ones of the session; also the name of the memory sink's table.
    #[must_use]
    pub fn query_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// When epochs are planned.
    #[must_use]
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Where the query keeps what survives a crash; the same as option `checkpointLocation`.
    #[must_use]
    pub fn checkpoint(self, location: &str) -> Self {
        self.option("checkpointLocation", location)
    }

    /// Settings of the engine that have no name in Spark (edge budgets, restart policy, clock, fault points). Name, trigger,
    /// checkpoint and what the session's settings say are taken over from the writer and the session.
    #[must_use]
    pub fn engine(mut self, config: weir_runtime::QueryConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// A sink of the user, or a built-in one made in code.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Calls `function` with every row.
    #[must_use]
    pub fn foreach<F>(self, function: F) -> Self
    where
        F: FnMut(RowRef<'_>) -> Result<()> + Clone + Send + Sync + 'static,
    {
        self.sink(Arc::new(ForeachSink::rows(function)))
    }

    /// Gives every row to a writer that is opened and closed for each epoch; `factory` makes one per partition.
    #[must_use]
    pub fn foreach_writer<W, F>(self, factory: F) -> Self
    where
        W: ForeachWriter + 'static,
        F: Fn(usize) -> Result<W> + Send + Sync + 'static,
    {
        self.sink(Arc::new(ForeachSink::new(factory)))
    }

    /// Calls `function` with the rows of every epoch, as a bounded frame, and the epoch's number. The same number comes with the
    /// same rows whenever an epoch is replayed; a function that remembers the last number takes every row once. Needs a checkpoint
    /// location.
    ///
    /// In output mode update these are the new and the changed rows; rows that are gone (those of a top-N can be) come with
    /// [`foreach_batch_changes`](Self::foreach_batch_changes) only.
    #[must_use]
    pub fn foreach_batch<F, R>(self, function: F) -> Self
    where
        F: Fn(DataFrame, u64) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.foreach_rows(move |session, rows, epoch| {
            let schema = Arc::clone(&rows.schema);
            let frame = rows
                .current()
                .and_then(|batches| changes::frame(&session, &schema, batches));
            Ok(function(frame?, epoch))
        })
    }

    /// As [`foreach_batch`](Self::foreach_batch), for targets that are kept up to date row by row: what became of each row
    /// stands in a last column `_change_type`, and the columns that tell rows apart are named.
    #[must_use]
    pub fn foreach_batch_changes<F, R>(self, function: F) -> Self
    where
        F: Fn(EpochChanges, u64) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.foreach_rows(move |session, rows, epoch| {
            Ok(function(EpochChanges::new(&session, rows)?, epoch))
        })
    }

    fn foreach_rows<F, R>(self, call: F) -> Self
    where
        F: Fn(Session, EpochRows, u64) -> Result<R> + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let session = self.frame.session().downgrade();
        let call = Arc::new(call);
        let sink = ForeachBatchSink::new(move |rows: EpochRows, epoch: Epoch| {
            let (session, call) = (session.clone(), Arc::clone(&call));
            async move { call(session.upgrade()?, rows, epoch.0)?.await }
        });
        self.sink(Arc::new(sink))
    }

    /// Starts the query. Returns when it is up: the plan is checked, the checkpoint owned and read, source and sink open.
    ///
    /// # Errors
    /// Everything that streams cannot do, all at once; unknown options; a name or checkpoint location in use; a checkpoint that
    /// does not fit; sources or sinks that cannot be opened.
    pub async fn start(self) -> Result<StreamingQuery> {
        start::start(self).await
    }

    /// Starts the query with the option `path` set.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_path(mut self, path: &str) -> Result<StreamingQuery> {
        self.options.set("path", path);
        self.start().await
    }
}
