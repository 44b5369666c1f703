//! [`FeedActor`]: an [`ActorHandle`] behind an actix address, for actors that know only addresses.

use actix::prelude::*;
use arrow::array::RecordBatch;
use weir_runtime::WeirError;

use super::source::ActorHandle;

/// Rows for a query. The answer comes when the query has accepted them, which takes as long as it is behind.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), WeirError>")]
pub struct SendBatch(pub RecordBatch);

/// Feeds a query with the batches it is sent: `address.send(SendBatch(batch)).await`. Takes one message at a time, in
/// order; the answer must be awaited, or the mailbox grows without limit.
#[derive(Debug)]
pub struct FeedActor {
    handle: ActorHandle,
}

impl FeedActor {
    /// An actor that feeds through `handle`.
    #[must_use]
    pub fn new(handle: ActorHandle) -> Self {
        Self { handle }
    }
}

impl Actor for FeedActor {
    type Context = Context<Self>;
}

impl Handler<SendBatch> for FeedActor {
    type Result = AtomicResponse<Self, Result<(), WeirError>>;

    fn handle(&mut self, SendBatch(batch): SendBatch, _: &mut Self::Context) -> Self::Result {
        let handle = self.handle.clone();
        let sent = async move { handle.send(batch).await };
        AtomicResponse::new(Box::pin(sent.into_actor(self)))
    }
}
