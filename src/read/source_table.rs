//! A source of streams read as a table: everything that is there when the table is read, as one epoch of a query without a checkpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use tokio::sync::mpsc::Sender;
use weir_runtime::{
    Admission, Epoch, FailPoints, Polled, Result, Source, SourceContext, SourceReader, Split,
    SystemClock, WakeHandle, WeirError,
};
use weir_state::CheckpointLocation;

use crate::plan::plan_error;

/// Rows asked of a reader at a time.
const BATCH_ROWS: usize = 8192;

type MakeSource = dyn Fn() -> Result<Box<dyn Source>> + Send + Sync;
type Rows = datafusion::common::Result<RecordBatch>;
/// A reader with the splits it reads.
type Work = (Box<dyn SourceReader>, Vec<Split>);

/// One partition that reads a source, made anew each time.
pub(super) struct SourceTable {
    schema: SchemaRef,
    readers: usize,
    make: Arc<MakeSource>,
}

impl SourceTable {
    /// With more than one reader, rows of different splits come in any order.
    pub(super) fn new<F>(schema: SchemaRef, readers: usize, make: F) -> Self
    where
        F: Fn() -> Result<Box<dyn Source>> + Send + Sync + 'static,
    {
        Self {
            schema,
            readers: readers.max(1),
            make: Arc::new(make),
        }
    }

    pub(super) fn table(self) -> Result<Arc<StreamingTable>> {
        let schema = Arc::clone(&self.schema);
        let table = StreamingTable::try_new(schema, vec![Arc::new(self)]).map_err(plan_error)?;
        Ok(Arc::new(table))
    }
}

impl fmt::Debug for SourceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceTable")
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

impl PartitionStream for SourceTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), 2);
        let (make, readers, sender) = (Arc::clone(&self.make), self.readers, builder.tx());
        builder.spawn(async move {
            let work = open(make().map_err(external)?, readers)
                .await
                .map_err(external)?;
            let reads = work.into_iter().map(|(reader, splits)| {
                let sender = sender.clone();
                tokio::task::spawn_blocking(move || read(reader, &splits, &sender))
            });
            for read in futures::future::join_all(reads).await {
                read.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
                    .map_err(external)?;
            }
            Ok(())
        });
        builder.build()
    }
}

fn external(error: WeirError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Everything that is there, spread over readers.
async fn open(mut source: Box<dyn Source>, readers: usize) -> Result<Vec<Work>> {
    let context = SourceContext {
        uid: "table".to_owned(),
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
        return Ok(Vec::new());
    };
    source.log(Epoch::FIRST, None, &end).await?;
    let splits = source.splits(Epoch::FIRST, None, &end).await?;
    let readers = readers.min(splits.len()).max(1);
    let mut work = Vec::with_capacity(readers);
    for subtask in 0..readers {
        work.push((source.reader(subtask)?, Vec::new()));
    }
    for (index, split) in splits.into_iter().enumerate() {
        work[index % readers].1.push(split);
    }
    Ok(work)
}

fn read(mut reader: Box<dyn SourceReader>, splits: &[Split], sender: &Sender<Rows>) -> Result<()> {
    for split in splits {
        let failed = |error: WeirError| error.at_position(&split.name);
        reader.open(split).map_err(failed)?;
        loop {
            match reader
                .poll(BATCH_ROWS, Duration::from_millis(100))
                .map_err(failed)?
            {
                Polled::Batch(batch) => {
                    if sender.blocking_send(Ok(batch)).is_err() {
                        return Ok(());
                    }
                }
                Polled::Idle if sender.is_closed() => return Ok(()),
                Polled::Idle => {}
                Polled::Done => break,
            }
        }
    }
    Ok(())
}
