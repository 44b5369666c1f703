//! Code of the user for every epoch: Spark's `foreachBatch`.
//!
//! The function gets all rows of an epoch and the epoch's number, once per epoch and in order of epochs. It runs when
//! the rows are complete and before the epoch is committed; after a crash in between it is called again, in the next
//! process, with the same number and the same rows in the same order, so a target that remembers the number of the last
//! epoch it took gets every row once. What the function reads or ignores makes no difference to the query's state.

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt8Array};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::FutureExt;
use weir_runtime::{
    Delivery, Epoch, EpochBatch, Fault, Fingerprint, OutputMode, Result, Rows, Sink, SinkCommitter,
    SinkContext, SinkWriter, WeirError,
};

pub use crate::collect::BoxFuture;
use crate::collect::{Collector, current_rows, panic_text};

/// Condition of an error in the user's function; Spark's name.
const CONDITION: &str = "FOREACH_BATCH_USER_FUNCTION_ERROR";

/// All rows of one epoch.
#[derive(Debug, Clone)]
pub struct EpochRows {
    /// Columns, also when there are no rows.
    pub schema: SchemaRef,
    /// The rows: by source, split and position, the same order in every replay.
    pub batches: Vec<RecordBatch>,
    /// For each batch the kind of each of its rows (as [`weir_runtime::RowKind`]); `None` means that all are inserts.
    pub kinds: Vec<Option<UInt8Array>>,
    /// Columns that together tell the rows of the result apart, as [`SinkContext::key_columns`].
    pub key_columns: Vec<String>,
}

impl EpochRows {
    fn new(schema: SchemaRef, key_columns: Vec<String>, rows: Vec<EpochBatch>) -> Self {
        let kinds = rows
            .iter()
            .map(|batch| batch.rows.kinds().cloned())
            .collect();
        let batches = rows
            .into_iter()
            .map(|batch| batch.rows.into_batch())
            .collect();
        Self {
            schema,
            batches,
            kinds,
            key_columns,
        }
    }

    /// The rows that are part of the result after the epoch: inserts and the new values of changed rows.
    ///
    /// # Errors
    /// If the filter kernel fails.
    pub fn current(self) -> Result<Vec<RecordBatch>> {
        self.rows()
            .map(|rows| rows.and_then(|rows| current_rows(&rows)))
            .collect()
    }

    /// The rows with their kinds.
    pub fn rows(self) -> impl Iterator<Item = Result<Rows>> {
        let all = self.batches.into_iter().zip(self.kinds);
        all.map(|(batch, kinds)| match kinds {
            Some(kinds) => Rows::with_kinds(batch, kinds),
            None => Ok(Rows::inserts(batch)),
        })
    }

    /// Number of rows.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

type Function = dyn Fn(EpochRows, Epoch) -> BoxFuture<Result<()>> + Send + Sync;

/// Gives every epoch to a function of the user. Needs a checkpoint: without one a restart would give all rows again
/// under new numbers. (Spark starts such a query on a temporary directory.)
#[derive(Clone)]
pub struct ForeachBatchSink {
    function: Arc<Function>,
    collector: Collector,
}

impl fmt::Debug for ForeachBatchSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachBatchSink").finish_non_exhaustive()
    }
}

impl ForeachBatchSink {
    /// A sink that calls `function` for every epoch, also one without rows. The function is asynchronous: work that
    /// blocks belongs on a thread of its own (`spawn_blocking`).
    #[must_use]
    pub fn new<F, R>(function: F) -> Self
    where
        F: Fn(EpochRows, Epoch) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let function =
            move |rows, epoch| -> BoxFuture<Result<()>> { Box::pin(function(rows, epoch)) };
        Self {
            function: Arc::new(function),
            collector: Collector::new(),
        }
    }
}

/// Calls the user's function; its errors and panics become errors that name the epoch.
async fn call(function: Arc<Function>, rows: EpochRows, epoch: Epoch) -> Result<()> {
    let called = AssertUnwindSafe(async move { function(rows, epoch).await })
        .catch_unwind()
        .await;
    match called {
        Ok(Ok(())) => Ok(()),
        // The query is being stopped: nobody's fault.
        Ok(Err(error)) if matches!(error.fault(), Fault::Killed | Fault::Crash) => Err(error),
        Ok(Err(error)) => {
            let message = format!("the function of foreachBatch failed in epoch {epoch}: {error}");
            Err(WeirError::data(message)
                .with_condition(CONDITION)
                .with_source(error))
        }
        Err(panic) => {
            let text = panic_text(panic.as_ref());
            let message = format!("the function of foreachBatch panicked in epoch {epoch}: {text}");
            Err(WeirError::data(message).with_condition(CONDITION))
        }
    }
}

#[async_trait]
impl Sink for ForeachBatchSink {
    fn description(&self) -> String {
        "ForeachBatchSink".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::UserDefined
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("foreach_batch_sink")
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.collector.open(context);
        Ok(())
    }

    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(self.collector.writer(context, subtask))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        let (function, schema) = (Arc::clone(&self.function), Arc::clone(&context.schema));
        let keys = context.key_columns.clone();
        Ok(self.collector.committer(context, move |epoch, batches| {
            let rows = EpochRows::new(Arc::clone(&schema), keys.clone(), batches);
            Box::pin(call(Arc::clone(&function), rows, epoch))
        }))
    }
}
