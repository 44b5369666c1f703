//! Makes an epoch visible: ends its transaction. At least once there is nothing to do, the rows are there.

use std::sync::Arc;

use async_trait::async_trait;
use weir_runtime::{CommitOutcome, Committable, Epoch, Result, SinkCommitter};

use super::Slot;
use super::connection::Connection;

/// The one committer of a Kafka sink.
pub struct KafkaSinkCommitter {
    connection: Arc<Connection>,
    slot: Slot,
}

impl KafkaSinkCommitter {
    pub(super) fn new(connection: Arc<Connection>, slot: Slot) -> Self {
        Self { connection, slot }
    }
}

#[async_trait]
impl SinkCommitter for KafkaSinkCommitter {
    async fn commit(
        &mut self,
        epoch: Epoch,
        _committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        self.connection.commit(epoch).await
    }
}

impl Drop for KafkaSinkCommitter {
    fn drop(&mut self) {
        self.slot.clear(&self.connection);
    }
}
