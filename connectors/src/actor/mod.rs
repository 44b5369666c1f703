//! Queries among other actors: any actor can feed a query and any actor can take what it produces.
//!
//! - [`channel`] makes an [`ActorSource`] and the [`ActorHandle`] that feeds it; sending waits while the query is behind.
//!   [`FeedActor`] puts the handle behind an actix address.
//! - [`RecipientSink`] delivers every epoch to an actix `Recipient`; the query waits while the receiver is behind.

mod feed;
mod recipient;
mod source;
#[cfg(test)]
mod tests;

pub use feed::{FeedActor, SendBatch};
pub use recipient::{EpochDelivery, RecipientSink};
pub use source::{ActorHandle, ActorSource, TrySendError, channel};
