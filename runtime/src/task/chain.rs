//! The loop of a subtask that only computes: aligned inputs, fused operators, outputs.

use weir_state::Epoch;

use crate::chain::Chain;
use crate::error::Result;
use crate::message::{Barrier, Message};
use crate::task::inputs::{InputEvent, Inputs};
use crate::task::outputs::Outputs;
use crate::task::{TaskEnv, TaskEvent};

pub(crate) struct ChainTask {
    pub(crate) env: TaskEnv,
    pub(crate) inputs: Inputs,
    pub(crate) chain: Chain,
    pub(crate) outputs: Outputs,
}

impl ChainTask {
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut out = Vec::new();
        // The merged watermark applies when the epoch is complete, not between its rows.
        let mut watermark = None;
        loop {
            match self.inputs.recv().await? {
                InputEvent::Batch { input, batch } => {
                    self.chain.process(input, batch, &mut out)?;
                    self.outputs.send_all(&mut out).await?;
                }
                InputEvent::Watermark(watermark_ms) => watermark = Some(watermark_ms),
                InputEvent::Complete(epoch) => self.close(epoch, watermark.take()).await?,
                InputEvent::End => return self.outputs.control(&Message::End).await,
            }
        }
    }

    async fn close(&mut self, epoch: Epoch, watermark: Option<i64>) -> Result<()> {
        let mut out = Vec::new();
        self.chain.close(epoch, watermark, &mut out)?;
        self.outputs.send_all(&mut out).await?;
        let ack = self.env.close(&mut self.chain, epoch).await?;
        self.env.report(TaskEvent::Ack(Box::new(ack)));
        if let Some(watermark_ms) = watermark {
            self.outputs
                .control(&Message::Watermark(watermark_ms))
                .await?;
        }
        self.env.failpoints.hit("chain:barrier")?;
        self.outputs
            .control(&Message::Barrier(Barrier { epoch }))
            .await
    }
}
