//! What the author of a sink implements: a [`SinkWriter`] per subtask that makes output durable but invisible, and one
//! [`SinkCommitter`] that makes an epoch visible. `commit` may run any number of times with the effect of one (invariant E3).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;
use weir_state::{Clock, Epoch, Fingerprint};

use crate::error::Result;
use crate::failpoint::FailPoints;
use crate::message::EpochBatch;

/// What a sink needs to finish an epoch after a crash: opaque JSON.
pub type Committable = Value;

/// What a sink promises about each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Visible exactly once, whatever crashes.
    ExactlyOnce,
    /// Visible at least once; a replayed epoch comes with the same id and rows.
    AtLeastOnce,
    /// As good as the user's code; a replayed epoch comes with the same id and rows.
    UserDefined,
}

impl std::fmt::Display for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ExactlyOnce => "exactly-once",
            Self::AtLeastOnce => "at-least-once",
            Self::UserDefined => "user-defined",
        })
    }
}

/// Which rows an epoch hands to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutputMode {
    /// New rows that will never change.
    #[default]
    Append,
    /// Rows that are new or have changed.
    Update,
    /// The whole result.
    Complete,
}

impl std::fmt::Display for OutputMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Update => "update",
            Self::Complete => "complete",
        })
    }
}

/// An epoch that an earlier run planned and did not finish: it comes again, with the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// When it was planned, unix milliseconds by the engine's clock: no row of it was written anywhere before.
    pub planned_ms: i64,
}

/// What a sink gets when a generation starts.
#[derive(Clone)]
pub struct SinkContext {
    /// Id of the sink in its topology.
    pub uid: String,
    /// Id of the query; stays the same over restarts.
    pub query_id: Uuid,
    /// Number of this generation; larger than that of every earlier one.
    pub generation: u64,
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Which rows an epoch hands over.
    pub mode: OutputMode,
    /// Columns that together tell the rows of the result apart, in the order of the key: in output mode update a row replaces
    /// the one with the same values in them. Empty if that is not known.
    pub key_columns: Vec<String>,
    /// Number of writers.
    pub parallelism: usize,
    /// Last committed epoch, or `None` if the query is new. Whatever the sink holds of later epochs is of a dead run.
    pub committed_epoch: Option<Epoch>,
    /// The epoch after it, if an earlier run began it. The target may hold its rows already.
    pub unfinished: Option<UnfinishedEpoch>,
    /// The engine's clock.
    pub clock: Arc<dyn Clock>,
    /// Fault points of this query.
    pub failpoints: Arc<FailPoints>,
}

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The epoch became visible now.
    Committed,
    /// The sink held the epoch already; the replayed output is discarded.
    AlreadyCommitted,
}

/// A place rows go to.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Name for progress and explain, such as `FileSink[file:/data/out]`.
    fn description(&self) -> String;

    /// What it promises.
    fn delivery(&self) -> Delivery;

    /// Whether it can take this mode.
    fn supports(&self, mode: OutputMode) -> bool;

    /// What it is, for the checkpoint's metadata.
    fn fingerprint(&self) -> Fingerprint;

    /// True if a restart without a durable checkpoint would lose or double rows, so that one must be named.
    fn needs_checkpoint(&self) -> bool {
        true
    }

    /// True if what a writer is given is no output before the epoch is committed, whatever crashes: nobody sees it but who asks for
    /// what is not committed. Rows may then come while the plan of their epoch is still being written; if it never is, the next
    /// generation plans an epoch of that number anew, with other rows.
    fn hides_until_commit(&self) -> bool {
        false
    }

    /// The most writers that make sense; `None` = as many as the query's parallelism.
    fn max_parallelism(&self) -> Option<usize> {
        None
    }

    /// A generation starts: check the target, remove what a dead run left behind.
    ///
    /// # Errors
    /// If the target is not there or does not fit the schema.
    async fn open(&self, context: &SinkContext) -> Result<()>;

    /// The writer of one subtask.
    ///
    /// # Errors
    /// If it cannot be made.
    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>>;

    /// The one committer.
    ///
    /// # Errors
    /// If it cannot be made.
    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>>;
}

/// Writes the rows of one subtask.
#[async_trait]
pub trait SinkWriter: Send {
    /// Takes rows of the open epoch.
    ///
    /// # Errors
    /// If they cannot be written; the epoch is replayed.
    async fn write(&mut self, batch: EpochBatch) -> Result<()>;

    /// The epoch's rows are complete: make them durable but invisible and say how to make them visible.
    ///
    /// # Errors
    /// If they cannot be made durable.
    async fn prepare(&mut self, epoch: Epoch) -> Result<Committable>;

    /// What the writer counted in the epoch it has just prepared, by name; progress shows the sums over all subtasks.
    fn take_metrics(&mut self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Makes epochs visible, one at a time, in order.
#[async_trait]
pub trait SinkCommitter: Send {
    /// Makes the epoch visible, recording its id with the data; answers `AlreadyCommitted` for an epoch the sink holds.
    /// `committables` has one entry per writer.
    ///
    /// # Errors
    /// If it cannot be made visible; the epoch is replayed.
    async fn commit(
        &mut self,
        epoch: Epoch,
        committables: Vec<Committable>,
    ) -> Result<CommitOutcome>;
}
