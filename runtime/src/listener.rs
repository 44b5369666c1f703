//! What a query reports while it runs: to callbacks and to actors.

use actix::prelude::*;
use uuid::Uuid;

use crate::error::WeirError;
use crate::progress::QueryProgress;

/// Something happened to a query.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub enum QueryEvent {
    /// It runs; sent before `start` returns.
    Started {
        /// Id of the query.
        id: Uuid,
        /// Id of this run.
        run_id: Uuid,
        /// Its name.
        name: Option<String>,
        /// When, ISO 8601.
        timestamp: String,
    },
    /// An epoch was committed.
    Progress(Box<QueryProgress>),
    /// Nothing arrived for a while.
    Idle {
        /// Id of the query.
        id: Uuid,
        /// Id of this run.
        run_id: Uuid,
        /// When, ISO 8601.
        timestamp: String,
    },
    /// It ended.
    Terminated {
        /// Id of the query.
        id: Uuid,
        /// Id of this run.
        run_id: Uuid,
        /// Why, if it failed.
        exception: Option<WeirError>,
    },
}

/// Gets the events of queries, in order, from the coordinator's thread: return quickly.
pub trait QueryListener: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &QueryEvent);
}

impl<F: Fn(&QueryEvent) + Send + Sync> QueryListener for F {
    fn on_event(&self, event: &QueryEvent) {
        self(event);
    }
}

/// An actor as a listener.
pub struct RecipientListener(pub Recipient<QueryEvent>);

impl QueryListener for RecipientListener {
    fn on_event(&self, event: &QueryEvent) {
        self.0.do_send(event.clone());
    }
}
