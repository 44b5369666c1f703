//! What the tests of this crate share: contexts as the engine would hand them out, batches, and a loop that reads splits.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use uuid::Uuid;
use weir_runtime::{
    CommitOutcome, Epoch, EpochBatch, FailPoints, ManualClock, Offset, Origin, OutputMode, Polled,
    Rows, Sink, SinkCommitter, SinkContext, SinkWriter, SourceContext, SourceReader, Split,
    WakeHandle,
};
use weir_state::CheckpointLocation;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A checkpoint in memory that no other test uses.
pub(crate) fn checkpoint() -> CheckpointLocation {
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    CheckpointLocation::open(&format!("memory://connectors-{number}")).unwrap()
}

/// A source context of a query whose last committed epoch ended at `committed`.
pub(crate) fn source_context(
    checkpoint: &CheckpointLocation,
    clock: &Arc<ManualClock>,
    committed: Option<Offset>,
) -> SourceContext {
    let epoch = committed.as_ref().map(|_| Epoch(0));
    SourceContext {
        uid: "source-0".to_owned(),
        index: 0,
        checkpoint: checkpoint.clone(),
        committed,
        committed_epoch: epoch,
        planned_epoch: epoch,
        clock: Arc::clone(clock) as Arc<dyn weir_runtime::Clock>,
        failpoints: Arc::new(FailPoints::default()),
        wake: WakeHandle::new(|| {}),
    }
}

/// The sink context of generation `generation` of query `query`.
pub(crate) fn sink_context(
    query: u128,
    generation: u64,
    mode: OutputMode,
    committed: Option<u64>,
) -> SinkContext {
    SinkContext {
        uid: "sink-0".to_owned(),
        query_id: Uuid::from_u128(query),
        generation,
        schema: numbers_schema(),
        mode,
        key_columns: Vec::new(),
        parallelism: 2,
        committed_epoch: committed.map(Epoch),
        unfinished: None,
        clock: Arc::new(ManualClock::new(0)),
        failpoints: Arc::new(FailPoints::default()),
    }
}

/// A sink context in output mode update whose rows are told apart by `v`.
pub(crate) fn keyed_context(query: u128) -> SinkContext {
    SinkContext {
        key_columns: vec!["v".to_owned()],
        ..sink_context(query, 1, OutputMode::Update, None)
    }
}

/// One BIGINT column `v`.
pub(crate) fn numbers_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]))
}

/// Rows of [`numbers_schema`].
pub(crate) fn numbers(values: &[i64]) -> RecordBatch {
    RecordBatch::try_new(
        numbers_schema(),
        vec![Arc::new(Int64Array::from(values.to_vec()))],
    )
    .unwrap()
}

/// The values of column 0 of all batches, in order.
pub(crate) fn values(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Int64Type>());
    columns
        .flat_map(|column| column.values().to_vec())
        .collect()
}

/// Rows of `epoch`, from batch `sequence` of split `split`.
pub(crate) fn rows(epoch: u64, split: u32, sequence: u64, values: &[i64]) -> EpochBatch {
    let origin = Origin {
        split,
        sequence,
        ..Origin::default()
    };
    EpochBatch {
        epoch: Epoch(epoch),
        origin,
        rows: Rows::inserts(numbers(values)),
    }
}

/// Rows with kinds.
pub(crate) fn changes(epoch: u64, values: &[i64], kinds: &[u8]) -> EpochBatch {
    let rows = Rows::with_kinds(numbers(values), UInt8Array::from(kinds.to_vec())).unwrap();
    EpochBatch {
        epoch: Epoch(epoch),
        origin: Origin::default(),
        rows,
    }
}

/// All batches of the splits, read one after the other in pieces of at most `max_rows` rows.
pub(crate) fn read(
    reader: &mut dyn SourceReader,
    splits: &[Split],
    max_rows: usize,
) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for split in splits {
        reader.open(split).unwrap();
        loop {
            match reader.poll(max_rows, Duration::ZERO).unwrap() {
                Polled::Batch(batch) => batches.push(batch),
                Polled::Idle => {}
                Polled::Done => break,
            }
        }
    }
    batches
}

/// One generation of a sink, driven as the engine drives it.
pub(crate) struct Generation {
    writers: Vec<Box<dyn SinkWriter>>,
    committer: Box<dyn SinkCommitter>,
}

impl Generation {
    pub(crate) async fn open(sink: &dyn Sink, context: &SinkContext) -> weir_runtime::Result<Self> {
        sink.open(context).await?;
        let writers = (0..context.parallelism).map(|subtask| sink.writer(context, subtask));
        Ok(Self {
            writers: writers.collect::<Result<_, _>>()?,
            committer: sink.committer(context)?,
        })
    }

    /// Writes to one subtask.
    pub(crate) async fn write(
        &mut self,
        subtask: usize,
        batch: EpochBatch,
    ) -> weir_runtime::Result<()> {
        self.writers[subtask].write(batch).await
    }

    /// Prepares all writers and commits.
    pub(crate) async fn finish(&mut self, epoch: u64) -> weir_runtime::Result<CommitOutcome> {
        let mut committables = Vec::new();
        for writer in &mut self.writers {
            committables.push(writer.prepare(Epoch(epoch)).await?);
        }
        self.committer.commit(Epoch(epoch), committables).await
    }

    /// Writes batches, each to the subtask named with it, and finishes the epoch.
    pub(crate) async fn epoch(
        &mut self,
        epoch: u64,
        batches: Vec<(usize, EpochBatch)>,
    ) -> weir_runtime::Result<CommitOutcome> {
        for (subtask, batch) in batches {
            self.write(subtask, batch).await?;
        }
        self.finish(epoch).await
    }
}
