//! The loop of a source subtask: for each epoch read its splits, push the rows through the fused operators, close the epoch.

use arrow::array::RecordBatch;
use tokio::sync::mpsc;

use crate::chain::Chain;
use crate::error::Result;
use crate::message::{Barrier, EpochBatch, Message, Origin, Rows};
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
    watermark_ms: i64,
}

#[derive(Default)]
struct EpochCounts {
    rows: u64,
    bad_records: u64,
}

impl SourceTask {
    pub(crate) fn new(
        env: TaskEnv,
        source: u32,
        reader: ReaderThread,
        chain: Chain,
        outputs: Outputs,
    ) -> Self {
        Self {
            env,
            source,
            reader,
            chain,
            outputs,
            watermark_ms: i64::MIN,
        }
    }

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
                ReadItem::Batch(batch) => {
                    counts.rows += batch.num_rows() as u64;
                    self.push(begin, origin, batch).await?;
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

    async fn push(&mut self, begin: &BeginEpoch, origin: Origin, batch: RecordBatch) -> Result<()> {
        let mut out = Vec::new();
        let batch = EpochBatch {
            epoch: begin.epoch,
            origin,
            rows: Rows::inserts(batch),
        };
        self.chain.process(0, batch, &mut out)?;
        self.outputs.send_all(&mut out).await
    }

    async fn close(&mut self, begin: &BeginEpoch, counts: EpochCounts) -> Result<()> {
        let mut out = Vec::new();
        if begin.watermark_ms > self.watermark_ms {
            self.watermark_ms = begin.watermark_ms;
            self.chain
                .on_watermark(begin.watermark_ms, begin.epoch, &mut out)?;
        }
        self.chain.on_epoch_end(begin.epoch, &mut out)?;
        self.outputs.send_all(&mut out).await?;
        let snapshots = self.env.snapshot(&mut self.chain, begin.epoch).await?;
        self.env.report(TaskEvent::Ack(TaskAck {
            id: self.env.id,
            epoch: begin.epoch,
            snapshots,
            event_times: self.chain.take_event_times(),
            committable: None,
            rows: counts.rows,
            bad_records: counts.bad_records,
        }));
        self.outputs
            .control(&Message::Watermark(begin.watermark_ms))
            .await?;
        self.env.failpoints.hit("source:barrier")?;
        self.outputs
            .control(&Message::Barrier(Barrier { epoch: begin.epoch }))
            .await
    }
}
