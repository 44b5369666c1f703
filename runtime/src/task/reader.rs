//! The thread of a source reader: it blocks on files and clients, so it is no actor; a bounded channel couples it to one.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::mpsc;

use crate::error::{Result, WeirError, panic_message};
use crate::source::{Places, Polled, ReaderCounts, SourceReader, Split};

/// Rows asked of one poll: large enough that per-batch costs vanish, small enough to stay in the CPU's caches.
pub(crate) const MAX_ROWS: usize = 16_384;
/// Longest time one poll may wait for data; after it the thread looks whether it is still wanted.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Batches decoded ahead of the actor: one being made, one waiting.
const AHEAD: usize = 2;

/// What the reader thread sends.
pub(crate) enum ReadItem {
    Batch(RecordBatch, Option<Places>),
    Done(ReaderCounts),
    Failed(WeirError),
}

/// The actor's side of a reader thread; dropping it ends the thread after its current poll.
pub(crate) struct ReaderThread {
    splits: Sender<Split>,
    items: mpsc::Receiver<ReadItem>,
}

impl ReaderThread {
    pub(crate) fn spawn(
        name: String,
        reader: Box<dyn SourceReader>,
        alive: mpsc::Sender<()>,
    ) -> Result<Self> {
        let (splits, split_queue) = bounded(1);
        let (sender, items) = mpsc::channel(AHEAD);
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                serve(reader, &split_queue, &sender);
                drop(alive);
            })
            .map_err(|error| {
                WeirError::external(format!("no thread for reader '{name}'")).with_source(error)
            })?;
        Ok(Self { splits, items })
    }

    /// Begins a split; its rows follow from [`ReaderThread::next`].
    pub(crate) fn open(&self, split: &Split) -> Result<()> {
        self.splits
            .send(split.clone())
            .map_err(|_| WeirError::killed("the reader thread"))
    }

    pub(crate) async fn next(&mut self) -> Result<ReadItem> {
        self.items
            .recv()
            .await
            .ok_or_else(|| WeirError::killed("the reader thread"))
    }
}

fn serve(
    mut reader: Box<dyn SourceReader>,
    splits: &Receiver<Split>,
    items: &mpsc::Sender<ReadItem>,
) {
    while let Ok(split) = splits.recv() {
        let read = std::panic::catch_unwind(AssertUnwindSafe(|| {
            read_split(reader.as_mut(), &split, items)
        }));
        let failure = match read {
            Ok(Ok(true)) => continue,
            Ok(Ok(false)) => return,
            Ok(Err(error)) => error.at_position(split.name),
            Err(panic) => WeirError::internal(format!(
                "panic in a source reader: {}",
                panic_message(panic.as_ref())
            ))
            .at_position(split.name),
        };
        // Nobody listens any more if this fails: the generation is gone.
        let _gone = items.blocking_send(ReadItem::Failed(failure)).is_err();
        return;
    }
}

/// False when nobody wants the rows any more.
fn read_split(
    reader: &mut dyn SourceReader,
    split: &Split,
    items: &mpsc::Sender<ReadItem>,
) -> Result<bool> {
    reader.open(split)?;
    loop {
        let item = match reader.poll(MAX_ROWS, MAX_WAIT)? {
            Polled::Batch(batch) if batch.num_rows() == 0 => continue,
            Polled::Batch(batch) => ReadItem::Batch(batch, reader.places()),
            Polled::Idle if items.is_closed() => return Ok(false),
            Polled::Idle => continue,
            Polled::Done => {
                return Ok(items.blocking_send(ReadItem::Done(reader.counts())).is_ok());
            }
        };
        if items.blocking_send(item).is_err() {
            return Ok(false);
        }
    }
}
