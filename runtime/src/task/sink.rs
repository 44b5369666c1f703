//! The loop of a sink subtask: aligned inputs into a writer; at the end of an epoch what was written becomes durable.

use weir_state::Epoch;

use crate::error::Result;
use crate::sink::SinkWriter;
use crate::task::inputs::{InputEvent, Inputs};
use crate::task::{TaskAck, TaskEnv, TaskEvent};

pub(crate) struct SinkTask {
    pub(crate) env: TaskEnv,
    pub(crate) inputs: Inputs,
    pub(crate) writer: Box<dyn SinkWriter>,
}

impl SinkTask {
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut rows = 0;
        loop {
            match self.inputs.recv().await? {
                InputEvent::Batch { batch, .. } => {
                    rows += batch.rows.num_rows() as u64;
                    self.env.failpoints.hit("sink:write")?;
                    self.writer.write(batch).await?;
                }
                InputEvent::Watermark(_) => {}
                InputEvent::Complete(epoch) => {
                    self.prepare(epoch, std::mem::take(&mut rows)).await?
                }
                InputEvent::End => return Ok(()),
            }
        }
    }

    async fn prepare(&mut self, epoch: Epoch, rows: u64) -> Result<()> {
        self.env.failpoints.hit("sink:prepare")?;
        let committable = self.writer.prepare(epoch).await?;
        self.env.failpoints.hit("sink:prepared")?;
        self.env.report(TaskEvent::Ack(Box::new(TaskAck {
            committable: Some(committable),
            sink_metrics: self.writer.take_metrics(),
            rows,
            ..TaskAck::new(self.env.id, epoch)
        })));
        Ok(())
    }
}
