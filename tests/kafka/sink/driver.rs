//! A sink driven by hand, as the engine drives it: generations, writers, a committer.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use uuid::Uuid;
use weir::connectors::kafka::sink::{KafkaSink, KafkaSinkBuilder};
use weir::prelude::*;
use weir::runtime::{
    Clock, CommitOutcome, Epoch, EpochBatch, FailPoints, Origin, Rows, SinkCommitter, SinkContext,
    SinkWriter, SystemClock, UnfinishedEpoch,
};

/// Rows of a key and a value.
pub(crate) fn rows(values: &[&str]) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter([("key", Arc::clone(&column)), ("value", column)]).expect("a batch")
}

/// What a query tells its sink.
pub(crate) struct Query {
    id: Uuid,
    schema: SchemaRef,
    generation: u64,
    pub(crate) parallelism: usize,
    pub(crate) committed: Option<u64>,
    pub(crate) unfinished: Option<UnfinishedEpoch>,
    pub(crate) failpoints: Arc<FailPoints>,
}

impl Query {
    /// A new query of rows as [`rows`] makes them.
    pub(crate) fn new() -> Self {
        Self::of(rows(&[]).schema())
    }

    pub(crate) fn of(schema: SchemaRef) -> Self {
        Self {
            id: Uuid::new_v4(),
            schema,
            generation: 0,
            parallelism: 2,
            committed: None,
            unfinished: None,
            failpoints: Arc::default(),
        }
    }

    /// An earlier run began this epoch just now.
    pub(crate) fn unfinished(&mut self, epoch: u64) {
        self.began(epoch, SystemClock::new().now_ms());
    }

    /// An earlier run began this epoch at that time.
    pub(crate) fn began(&mut self, epoch: u64, planned_ms: i64) {
        self.unfinished = Some(UnfinishedEpoch {
            epoch: Epoch(epoch),
            planned_ms,
        });
    }

    /// The consumer group of its sink.
    pub(crate) fn group(&self) -> String {
        format!("weir-{}-out", self.id)
    }

    fn context(&self) -> SinkContext {
        SinkContext {
            uid: "out".to_owned(),
            query_id: self.id,
            generation: self.generation,
            schema: Arc::clone(&self.schema),
            mode: OutputMode::Append,
            key_columns: Vec::new(),
            parallelism: self.parallelism,
            committed_epoch: self.committed.map(Epoch),
            unfinished: self.unfinished,
            clock: Arc::new(SystemClock::new()),
            failpoints: Arc::clone(&self.failpoints),
        }
    }

    /// Starts a generation with a sink of its own, as another process would have.
    pub(crate) async fn open(&mut self, sink: KafkaSinkBuilder) -> Result<Generation> {
        let sink = sink.build()?;
        self.generation += 1;
        let context = self.context();
        sink.open(&context).await?;
        let committer = sink.committer(&context)?;
        let writers = (0..self.parallelism).map(|subtask| sink.writer(&context, subtask));
        Ok(Generation {
            writers: writers.collect::<Result<_>>()?,
            committer,
            _sink: sink,
        })
    }
}

/// One generation of a sink.
pub(crate) struct Generation {
    writers: Vec<Box<dyn SinkWriter>>,
    committer: Box<dyn SinkCommitter>,
    _sink: KafkaSink,
}

impl Generation {
    pub(crate) async fn write(
        &mut self,
        subtask: usize,
        epoch: u64,
        rows: RecordBatch,
    ) -> Result<()> {
        let batch = EpochBatch {
            epoch: Epoch(epoch),
            origin: Origin::default(),
            rows: Rows::inserts(rows),
        };
        self.writers[subtask].write(batch).await
    }

    pub(crate) async fn prepare(&mut self, epoch: u64) -> Result<Vec<serde_json::Value>> {
        let mut committables = Vec::new();
        for writer in &mut self.writers {
            committables.push(writer.prepare(Epoch(epoch)).await?);
        }
        Ok(committables)
    }

    pub(crate) async fn commit(&mut self, epoch: u64) -> Result<CommitOutcome> {
        let committables = self.prepare(epoch).await?;
        self.committer.commit(Epoch(epoch), committables).await
    }

    /// An epoch of these values, all by subtask 0.
    pub(crate) async fn epoch(&mut self, epoch: u64, values: &[&str]) -> Result<CommitOutcome> {
        self.write(0, epoch, rows(values)).await?;
        self.commit(epoch).await
    }

    /// Sums of what the writers counted.
    pub(crate) fn metric(&mut self, name: &str) -> u64 {
        let counted = self
            .writers
            .iter_mut()
            .flat_map(|writer| writer.take_metrics());
        counted
            .filter(|(found, _)| *found == name)
            .map(|(_, count)| count)
            .sum()
    }
}
