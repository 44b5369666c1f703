//! The outgoing side of a subtask: every reader of its output, with the partitioner of that edge.

use crate::chain::{Emitted, Port};
use crate::edge::EdgeSender;
use crate::error::Result;
use crate::message::{EpochBatch, Message};
use crate::partitioner::Partitioner;

/// Towards one downstream task.
pub(crate) struct Output {
    /// The output of the chain it takes.
    pub(crate) port: Port,
    pub(crate) partitioner: Partitioner,
    /// By target subtask; a forward edge has only its own.
    pub(crate) senders: Vec<Option<EdgeSender>>,
}

/// Towards all downstream tasks.
#[derive(Default)]
pub(crate) struct Outputs(pub(crate) Vec<Output>);

impl Outputs {
    pub(crate) async fn send(&mut self, port: Port, batch: EpochBatch) -> Result<()> {
        let EpochBatch {
            epoch,
            origin,
            rows,
        } = batch;
        for output in self.0.iter_mut().filter(|output| output.port == port) {
            for (target, rows) in output.partitioner.split(rows.clone())? {
                if let Some(sender) = output.senders.get_mut(target).and_then(Option::as_mut) {
                    sender
                        .send(Message::Batch(EpochBatch {
                            epoch,
                            origin,
                            rows,
                        }))
                        .await?;
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn send_all(&mut self, emitted: &mut Emitted) -> Result<()> {
        for (port, batch) in emitted.drain(..) {
            self.send(port, batch).await?;
        }
        Ok(())
    }

    /// Sends a control message to every target.
    pub(crate) async fn control(&mut self, message: &Message) -> Result<()> {
        for sender in self
            .0
            .iter_mut()
            .flat_map(|output| output.senders.iter_mut().flatten())
        {
            sender.send(message.clone()).await?;
        }
        Ok(())
    }
}
