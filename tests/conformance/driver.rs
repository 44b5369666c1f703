//! What the harness asks of an engine.
//!
//! Everything the harness knows about Weir's API stands behind these two traits; the rest of the harness
//! sees cases, epochs and rows.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use crate::case::{Case, EpochKind};

/// What the engine said when it refused or failed.
pub(crate) type EngineError = String;

/// An engine under test.
#[async_trait(?Send)]
pub(crate) trait Engine: Sync {
    /// Registers the sources (`input::source_directory`) and tables (`input::table_file`) of a case below
    /// `home`, runs its pipeline of relations, and does not start anything yet.
    async fn build(&self, case: &Case, home: &Path) -> Result<Box<dyn Query>, EngineError>;
}

/// The query of one case, running or not.
#[async_trait(?Send)]
pub(crate) trait Query {
    /// Columns and types of the result.
    fn schema(&self) -> SchemaRef;

    /// Starts it with so many subtasks, on its checkpoint if it ran before.
    async fn start(&mut self, parallelism: usize) -> Result<(), EngineError>;

    /// Waits until nothing is left to do in a step; for a trigger that ends by itself, until it has ended.
    async fn settle(&mut self) -> Result<(), EngineError>;

    /// The same after a start between two steps, with no new rows.
    async fn settle_between(&mut self) -> Result<(), EngineError> {
        self.settle().await
    }

    /// Stops it in an orderly way; does nothing if it is not running.
    async fn stop(&mut self) -> Result<(), EngineError>;

    /// Changes a setting, given below `spark.sql.streaming.`, for the next start.
    fn set_config(&mut self, key: &str, value: &str) -> Result<(), EngineError>;

    /// Forgets the newest commit of the stopped query, as if the process had died before it.
    fn lose_commit(&mut self) -> Result<(), EngineError>;

    /// The epochs the sink took since the last call, in the order it took them. A repeated epoch is there again.
    fn take_epochs(&mut self) -> Result<Vec<Epoch>, EngineError>;

    /// The watermark the next epoch will run with, in milliseconds since 1970; `None` before the first commit.
    fn next_watermark(&self) -> Result<Option<i64>, EngineError>;
}

/// What the sink took for one epoch.
pub(crate) struct Epoch {
    pub(crate) id: u64,
    pub(crate) kind: EpochKind,
    /// The watermark it ran with, in milliseconds since 1970.
    pub(crate) watermark: i64,
    pub(crate) batches: Vec<RecordBatch>,
}
