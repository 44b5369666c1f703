//! [`RecipientSink`]: every epoch as one message to an actor.

use std::fmt;

use actix::prelude::*;
use arrow::array::{RecordBatch, UInt8Array};
use async_trait::async_trait;
use weir_runtime::{
    Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, Sink, SinkCommitter, SinkContext,
    SinkWriter, WeirError,
};

use crate::collect::Collector;

/// All rows of an epoch. An error as the answer ends the epoch: it is replayed or the query fails.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), WeirError>")]
pub struct EpochDelivery {
    /// The epoch. A receiver that remembers the last one it took can ignore what is delivered again.
    pub epoch: Epoch,
    /// The rows: by source, split and position, the same order in every replay.
    pub batches: Vec<RecordBatch>,
    /// For each batch the kind of each of its rows (as [`weir_runtime::RowKind`]); `None` means that all are inserts.
    pub kinds: Vec<Option<UInt8Array>>,
    /// Columns that together tell the rows of the result apart, as [`SinkContext::key_columns`].
    pub key_columns: Vec<String>,
}

impl EpochDelivery {
    fn new(epoch: Epoch, key_columns: Vec<String>, rows: Vec<EpochBatch>) -> Self {
        let kinds = rows
            .iter()
            .map(|batch| batch.rows.kinds().cloned())
            .collect();
        let batches = rows
            .into_iter()
            .map(|batch| batch.rows.into_batch())
            .collect();
        Self {
            epoch,
            batches,
            kinds,
            key_columns,
        }
    }
}

/// Delivers every epoch, also one without rows, to an actor and waits for its answer before the epoch is committed, so
/// a slow receiver slows the query. At least once: after a crash between the answer and the commit, the epoch is
/// delivered again with the same number and rows.
#[derive(Clone)]
pub struct RecipientSink {
    recipient: Recipient<EpochDelivery>,
    collector: Collector,
}

impl fmt::Debug for RecipientSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecipientSink").finish_non_exhaustive()
    }
}

impl RecipientSink {
    /// A sink that delivers to `recipient`.
    #[must_use]
    pub fn new(recipient: Recipient<EpochDelivery>) -> Self {
        Self {
            recipient,
            collector: Collector::new(),
        }
    }
}

async fn deliver(recipient: Recipient<EpochDelivery>, delivery: EpochDelivery) -> Result<()> {
    let epoch = delivery.epoch;
    recipient.send(delivery).await.unwrap_or_else(|error| {
        let message = format!("epoch {epoch} cannot be delivered: the receiving actor is gone");
        Err(WeirError::config(message).with_source(error))
    })
}

#[async_trait]
impl Sink for RecipientSink {
    fn description(&self) -> String {
        "RecipientSink".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("recipient_sink")
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.collector.open(context);
        Ok(())
    }

    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(self.collector.writer(context, subtask))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        let (recipient, keys) = (self.recipient.clone(), context.key_columns.clone());
        Ok(self.collector.committer(context, move |epoch, batches| {
            Box::pin(deliver(
                recipient.clone(),
                EpochDelivery::new(epoch, keys.clone(), batches),
            ))
        }))
    }
}
