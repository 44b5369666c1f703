//! [`ActorSource`]: batches other code of the process sends, as a source.
//!
//! **What may be lost.** A batch that was accepted stays in memory until the epoch that read it is committed, so it
//! survives errors and restarts of the query inside the process. It does not survive the process: rows that were sent
//! and not yet committed are gone with it, unless the sender sends them again. A sender that must not lose rows keeps
//! them until it sees them in a committed result. An epoch that was planned over rows lost that way is replayed without
//! them, with a warning.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use uuid::Uuid;
use weir_runtime::{
    Admission, Backlog, Epoch, Fault, Fingerprint, Offset, Result, Source, SourceContext,
    SourceReader, Split, WeirError,
};

use crate::memory::{Buffer, Feed};

/// A source and the handle that feeds it. At most `capacity_rows` rows (at least 1) are accepted and not committed; one
/// batch is always admitted when nothing else is there, however large.
#[must_use]
pub fn channel(schema: SchemaRef, capacity_rows: u32) -> (ActorHandle, ActorSource) {
    let buffer = Arc::new(Buffer::new("actor source", schema));
    let capacity = capacity_rows.max(1);
    let room = Arc::new(Semaphore::new(
        usize::try_from(capacity).unwrap_or(usize::MAX >> 3),
    ));
    let source = ActorSource {
        feed: Feed::new(Arc::clone(&buffer)),
        room: Arc::clone(&room),
        stream: Uuid::new_v4(),
    };
    (
        ActorHandle {
            buffer,
            room,
            capacity,
        },
        source,
    )
}

/// The sending side. Clones send to the same source; batches of one sender arrive in the order it sent them.
#[derive(Debug, Clone)]
pub struct ActorHandle {
    buffer: Arc<Buffer>,
    room: Arc<Semaphore>,
    capacity: u32,
}

/// Why a batch was not accepted at once.
#[derive(Debug, thiserror::Error)]
pub enum TrySendError {
    /// The query is behind; the batch comes back.
    #[error("the actor source is full: {capacity_rows} rows are waiting to be committed")]
    Full {
        /// The batch that was not accepted.
        batch: RecordBatch,
        /// The source's capacity.
        capacity_rows: u32,
    },
    /// The batch will never be accepted.
    #[error(transparent)]
    Refused(#[from] WeirError),
}

impl ActorHandle {
    /// Columns a batch must have.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.buffer.schema())
    }

    /// Sends a batch; waits while the source is full. When it returns, the batch is accepted, not yet committed.
    ///
    /// # Errors
    /// If the columns do not fit, the handle was closed or the query is gone.
    pub async fn send(&self, batch: RecordBatch) -> Result<()> {
        let batch = self.buffer.conform(batch)?;
        let room = Arc::clone(&self.room)
            .acquire_many_owned(self.size(&batch))
            .await;
        self.accept(batch, room.map_err(|_| closed())?)
    }

    /// Sends a batch if there is room for it now.
    ///
    /// # Errors
    /// [`TrySendError::Full`] with the batch, or as [`ActorHandle::send`].
    pub fn try_send(&self, batch: RecordBatch) -> Result<(), TrySendError> {
        let batch = self.buffer.conform(batch)?;
        match Arc::clone(&self.room).try_acquire_many_owned(self.size(&batch)) {
            Ok(room) => Ok(self.accept(batch, room)?),
            Err(TryAcquireError::Closed) => Err(closed().into()),
            Err(TryAcquireError::NoPermits) => Err(TrySendError::Full {
                batch,
                capacity_rows: self.capacity,
            }),
        }
    }

    /// Nothing can be sent any more through any clone; whoever waits gets an error. What was accepted is still read.
    pub fn close(&self) {
        self.room.close();
    }

    /// True if the handle was closed or the query is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    /// Number of rows accepted and not yet committed.
    #[must_use]
    pub fn rows_waiting(&self) -> usize {
        self.buffer.held().1
    }

    /// Room a batch takes: its rows, but never more than there is, and something even without rows.
    fn size(&self, batch: &RecordBatch) -> u32 {
        u32::try_from(batch.num_rows())
            .unwrap_or(u32::MAX)
            .clamp(1, self.capacity)
    }

    fn accept(&self, batch: RecordBatch, room: OwnedSemaphorePermit) -> Result<()> {
        self.buffer.add(batch, Some(room)).map(drop)
    }
}

fn closed() -> WeirError {
    WeirError::config(
        "the actor source takes no more batches: its handle was closed or its query is gone",
    )
}

/// Reads what is sent through the [`ActorHandle`]. It ends with its query; a later query needs a new channel.
///
/// Offsets are `{"stream": id of this channel, "batches": taken from it}`: a checkpoint may outlive many channels.
pub struct ActorSource {
    feed: Feed,
    room: Arc<Semaphore>,
    stream: Uuid,
}

impl Drop for ActorSource {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl ActorSource {
    /// At most this many rows per epoch; one batch is always taken, however many rows it has.
    #[must_use]
    pub fn max_rows_per_trigger(mut self, rows: u64) -> Self {
        self.feed.limits.rows = Some(rows);
        self
    }

    /// Number of readers (at least 1, the default): an epoch's batches are cut into as many runs of neighbours.
    #[must_use]
    pub fn parallelism(mut self, readers: usize) -> Self {
        self.feed.parallelism = readers.max(1);
        self
    }

    fn offset(&self, batches: u64) -> Offset {
        json!({ "stream": self.stream.to_string(), "batches": batches })
    }

    /// Where an offset is in this channel; `None` if it belongs to an earlier one.
    fn here(&self, offset: &Offset) -> Result<Option<u64>> {
        let stream = offset
            .get("stream")
            .and_then(Value::as_str)
            .map(Uuid::try_parse);
        match (stream, offset.get("batches").and_then(Value::as_u64)) {
            (Some(Ok(stream)), Some(batches)) => Ok((stream == self.stream).then_some(batches)),
            _ => Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "offset {offset} of source 'actor' is not of the form {{\"stream\":\"…\",\"batches\":0}}: the checkpoint belongs to another kind of source"
                ),
            )),
        }
    }

    /// Where reading goes on after an offset: after an offset of an earlier channel at the beginning of this one.
    fn start(&self, offset: Option<&Offset>) -> Result<u64> {
        Ok(offset
            .map(|offset| self.here(offset))
            .transpose()?
            .flatten()
            .unwrap_or(0))
    }
}

#[async_trait]
impl Source for ActorSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.feed.buffer().schema())
    }

    fn description(&self) -> String {
        "ActorSource".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("actor")
    }

    fn max_parallelism(&self) -> Option<usize> {
        Some(self.feed.parallelism)
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        let committed = self.start(context.committed.as_ref())?;
        self.feed.open(committed, context.wake)
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        let from = self.start(start)?;
        let end = self.feed.end_after(from, admission)?;
        Ok(if end == from {
            start.cloned()
        } else {
            Some(self.offset(end))
        })
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.feed.fix_end();
        Ok(())
    }

    async fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let Some(to) = self.here(end)? else {
            tracing::warn!(
                %epoch,
                "rows sent to an actor source of an earlier process were not committed and are lost; the epoch is replayed without them"
            );
            return Ok(Vec::new());
        };
        self.feed.splits(self.start(start)?, to)
    }

    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(self.feed.reader())
    }

    async fn committed(&mut self, _epoch: Epoch, end: &Offset) -> Result<()> {
        if let Some(end) = self.here(end)? {
            self.feed.committed(end);
        }
        Ok(())
    }

    fn newest(&self) -> Option<Offset> {
        Some(self.offset(self.feed.newest()))
    }

    fn backlog(&self) -> Option<Backlog> {
        self.feed.backlog()
    }
}
