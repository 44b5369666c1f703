//! The loop of a source subtask: for each epoch read its splits, push the rows through the fused operators, close the epoch.

use arrow::array::RecordBatch;
use tokio::sync::mpsc;

use crate::chain::Chain;
use crate::error::{Fault, Result, WeirError};
use crate::message::{Barrier, EpochBatch, Message, Origin, Rows};
use crate::source::Places;
use crate::task::outputs::Outputs;
use crate::task::reader::{ReadItem, ReaderThread};
use crate::task::{BeginEpoch, TaskAck, TaskEnv, TaskEvent};

pub(crate) struct SourceTask {
    pub(crate) env: TaskEnv,
    /// Index of the source among the sources, for the order of rows.
    pub(crate) source: u32,
    pub(crate) reader: ReaderThread,
    pub(crate) chain: Chain,
    pub(crate) outputs: Outputs,
}

#[derive(Default)]
struct EpochCounts {
    rows: u64,
    bad_records: u64,
}

impl SourceTask {
    pub(crate) async fn run(
        mut self,
        mut epochs: mpsc::UnboundedReceiver<BeginEpoch>,
    ) -> Result<()> {
        while let Some(begin) = epochs.recv().await {
            let mut counts = EpochCounts::default();
            for (index, split) in &begin.splits {
                self.env.failpoints.hit("source:split")?;
                self.reader.open(split)?;
                let origin = Origin {
                    branch: 0,
                    source: self.source,
                    split: *index,
                    sequence: 0,
                };
                self.read(&begin, origin, &mut counts).await?;
            }
            self.close(&begin, counts).await?;
        }
        self.outputs.control(&Message::End).await
    }

    async fn read(
        &mut self,
        begin: &BeginEpoch,
        mut origin: Origin,
        counts: &mut EpochCounts,
    ) -> Result<()> {
        loop {
            match self.reader.next().await? {
                ReadItem::Batch(batch, places) => {
                    counts.rows += batch.num_rows() as u64;
                    self.push(begin, origin, batch, places).await?;
                    origin.sequence += 1;
                }
                ReadItem::Done(split) => {
                    counts.bad_records += split.bad_records;
                    return Ok(());
                }
                ReadItem::Failed(error) => return Err(error),
            }
        }
    }

    async fn push(
        &mut self,
        begin: &BeginEpoch,
        origin: Origin,
        batch: RecordBatch,
        places: Option<Places>,
    ) -> Result<()> {
        let mut out = Vec::new();
        let batch = EpochBatch {
            epoch: begin.epoch,
            origin,
            rows: Rows::inserts(batch),
        };
        let processed = self.chain.process(0, batch.clone(), &mut out);
        processed.map_err(|error| self.placed(error, &batch, places))?;
        self.outputs.send_all(&mut out).await
    }

    /// An error about the data, with the place of the row it is about.
    fn placed(
        &mut self,
        error: WeirError,
        batch: &EpochBatch,
        places: Option<Places>,
    ) -> WeirError {
        match places {
            Some(places) if error.fault() == Fault::Data => match self.chain.culprit(batch, &error)
            {
                Some(row) => error.found_at(places.of(row)),
                None => error,
            },
            _ => error,
        }
    }

    async fn close(&mut self, begin: &BeginEpoch, counts: EpochCounts) -> Result<()> {
        let mut out = Vec::new();
        self.chain
            .close(begin.epoch, Some(begin.watermark_ms), &mut out)?;
        self.outputs.send_all(&mut out).await?;
        let ack = self.env.close(&mut self.chain, begin.epoch).await?;
        self.env.report(TaskEvent::Ack(Box::new(TaskAck {
            rows: counts.rows,
            bad_records: counts.bad_records,
            ..ack
        })));
        self.outputs
            .control(&Message::Watermark(begin.watermark_ms))
            .await?;
        self.env.failpoints.hit("source:barrier")?;
        self.outputs
            .control(&Message::Barrier(Barrier { epoch: begin.epoch }))
            .await
    }
}
