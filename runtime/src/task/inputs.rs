//! The incoming side of a subtask: fair reading of several edges, with alignment applied.

use std::future::poll_fn;
use std::task::{Context, Poll};

use weir_state::Epoch;

use crate::align::{Aligner, Alignment};
use crate::edge::EdgeReceiver;
use crate::error::{Result, WeirError};
use crate::message::{EpochBatch, Message};

/// One edge and the number the operator knows it by.
pub(crate) struct Input {
    pub(crate) receiver: EdgeReceiver,
    pub(crate) index: usize,
}

/// What the inputs together say.
pub(crate) enum InputEvent {
    Batch {
        input: usize,
        batch: EpochBatch,
    },
    Watermark(i64),
    /// All rows of the epoch have been received.
    Complete(Epoch),
    End,
}

/// The aligned inputs of a subtask.
pub(crate) struct Inputs {
    inputs: Vec<Input>,
    aligner: Aligner,
    /// Number of distinct operator inputs, to tell the branches of a union apart.
    branches: u32,
    next: usize,
}

impl Inputs {
    pub(crate) fn new(inputs: Vec<Input>) -> Self {
        let branches = inputs
            .iter()
            .map(|input| input.index as u32 + 1)
            .max()
            .unwrap_or(1);
        Self {
            aligner: Aligner::new(inputs.len()),
            branches,
            inputs,
            next: 0,
        }
    }

    pub(crate) async fn recv(&mut self) -> Result<InputEvent> {
        loop {
            let (position, message) = poll_fn(|cx| self.poll_any(cx)).await?;
            if let Some(event) = self.apply(position, message)? {
                return Ok(event);
            }
        }
    }

    /// The next message of an input that is not blocked, in turn.
    fn poll_any(&mut self, cx: &mut Context<'_>) -> Poll<Result<(usize, Message)>> {
        let count = self.inputs.len();
        for offset in 0..count {
            let position = (self.next + offset) % count;
            if self.aligner.is_blocked(position) {
                continue;
            }
            if let Poll::Ready(message) = self.inputs[position].receiver.poll_recv(cx) {
                self.next = (position + 1) % count;
                let message = message.ok_or_else(|| WeirError::killed("the sender of an edge"));
                return Poll::Ready(message.map(|message| (position, message)));
            }
        }
        Poll::Pending
    }

    fn apply(&mut self, position: usize, message: Message) -> Result<Option<InputEvent>> {
        match message {
            Message::Batch(mut batch) => {
                self.aligner.batch(position, batch.epoch)?;
                let input = self.inputs[position].index;
                if self.branches > 1 {
                    batch.origin.branch = batch.origin.branch * self.branches + input as u32;
                }
                Ok(Some(InputEvent::Batch { input, batch }))
            }
            Message::Watermark(watermark_ms) => Ok(self
                .aligner
                .watermark(position, watermark_ms)
                .map(InputEvent::Watermark)),
            Message::Barrier(barrier) => {
                Ok(match self.aligner.barrier(position, barrier.epoch)? {
                    Alignment::Complete(epoch) => Some(InputEvent::Complete(epoch)),
                    Alignment::Waiting => None,
                })
            }
            Message::End => Ok(match self.aligner.end(position) {
                Alignment::Complete(epoch) => Some(InputEvent::Complete(epoch)),
                Alignment::Waiting if self.aligner.all_ended() => Some(InputEvent::End),
                Alignment::Waiting => None,
            }),
        }
    }
}
