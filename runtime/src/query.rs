//! The handle of a running query.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::config::QueryConfig;
use crate::error::{Result, WeirError};
use crate::metrics::QueryMetrics;
use crate::progress::{QueryProgress, QueryStatus};
use crate::shared::QueryShared;
use crate::source::Backlog;
use crate::supervisor::{ProcessAllAvailable, QueryActor, Stop};
use crate::topology::Topology;

/// Wait for the next generation of a query before it is asked what the last one left unanswered.
const ASKED_AGAIN: Duration = Duration::from_millis(10);

/// Stops the query when the last handle is dropped.
struct Owner {
    actor: Addr<QueryActor>,
    shared: Arc<QueryShared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.shared.has_ended() {
            self.shared.request_stop();
            self.actor.do_send(Stop);
        }
    }
}

/// A running query. Clones are the same query; dropping the last one stops it in order, as `stop` does without waiting.
#[derive(Clone)]
pub struct StreamingQuery {
    owner: Arc<Owner>,
}

impl StreamingQuery {
    /// Starts a topology. Returns when its first generation is up: the checkpoint is owned and read, sources and sinks are open.
    ///
    /// Inside an actix `System` the query lives on that system's arbiters' threads; outside of one it uses a system of the
    /// engine's own on a background thread. It never touches signals, loggers or other globals of the process.
    ///
    /// # Errors
    /// If the checkpoint is in use, damaged or of another query, or a source or sink cannot be opened.
    pub async fn start(topology: Topology, config: QueryConfig) -> Result<Self> {
        let shared = Arc::new(QueryShared::new(config));
        let (actor, ready) = QueryActor::spawn(topology, Arc::clone(&shared)).await?;
        let query = Self {
            owner: Arc::new(Owner { actor, shared }),
        };
        match ready.await {
            Ok(Ok(())) => Ok(query),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(query
                .exception()
                .unwrap_or_else(|| WeirError::killed("the query"))),
        }
    }

    fn shared(&self) -> &QueryShared {
        &self.owner.shared
    }

    /// Id of the query, kept in its checkpoint: the same over restarts.
    pub fn id(&self) -> Uuid {
        self.shared().id()
    }

    /// Id of this run.
    pub fn run_id(&self) -> Uuid {
        self.shared().run_id
    }

    /// Name given by the user.
    pub fn name(&self) -> Option<&str> {
        self.shared().config.name.as_deref()
    }

    /// True until the query has ended, in whatever way.
    pub fn is_active(&self) -> bool {
        !self.shared().has_ended()
    }

    /// What it does at the moment.
    pub fn status(&self) -> QueryStatus {
        self.shared().status()
    }

    /// Progress of the newest epoch.
    pub fn last_progress(&self) -> Option<QueryProgress> {
        self.shared().last_progress()
    }

    /// Progress of the newest epochs, oldest first (100 unless configured otherwise).
    pub fn recent_progress(&self) -> Vec<QueryProgress> {
        self.shared().recent_progress()
    }

    /// Why the query ended, if it failed.
    pub fn exception(&self) -> Option<WeirError> {
        self.shared().exception()
    }

    /// How much of the known input is done, where the source can tell.
    pub fn backlog(&self) -> Option<Backlog> {
        self.shared().backlog()
    }

    /// Counters of operators and edges of the current generation.
    pub fn metrics(&self) -> &QueryMetrics {
        &self.shared().metrics
    }

    /// The address of the query as an actor, for use inside larger actor systems.
    pub fn addr(&self) -> Addr<QueryActor> {
        self.owner.actor.clone()
    }

    /// Waits until the query has ended.
    ///
    /// # Errors
    /// The error it failed with.
    pub async fn await_termination(&self) -> Result<()> {
        self.shared().ended().await;
        self.exception().map_or(Ok(()), Err)
    }

    /// Waits at most `timeout`; true if the query has ended.
    ///
    /// # Errors
    /// The error it failed with.
    pub async fn await_termination_timeout(&self, timeout: Duration) -> Result<bool> {
        match tokio::time::timeout(timeout, self.await_termination()).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Waits until everything that was in the sources when this was called is committed, restarts of the query included. For tests.
    ///
    /// # Errors
    /// The error the query failed with, or `Killed` if it was stopped.
    pub async fn process_all_available(&self) -> Result<()> {
        loop {
            let (reply, done) = oneshot::channel();
            self.owner.actor.do_send(ProcessAllAvailable(reply));
            if done.await.is_ok() {
                return Ok(());
            }
            // Nobody answers if the generation has ended: with the query, or another one comes and is asked.
            if self.await_termination_timeout(ASKED_AGAIN).await? {
                return Err(WeirError::killed("the query"));
            }
        }
    }

    /// Ends the query: an epoch that sinks may hold already is finished, any other is given up and replayed by the next run.
    /// Returns when everything has ended; an error the query failed with before stays in `exception`.
    pub async fn stop(&self) {
        self.shared().request_stop();
        self.owner.actor.do_send(Stop);
        let _outcome = self.await_termination().await.is_ok();
    }

    /// Waits until the query has ended, or ends it on Ctrl-C or SIGTERM. Opt-in: the engine itself never handles signals.
    ///
    /// # Errors
    /// The error it failed with.
    pub async fn await_termination_or_signal(&self) -> Result<()> {
        tokio::select! {
            ended = self.await_termination() => ended,
            () = shutdown_signal() => {
                self.stop().await;
                self.exception().map_or(Ok(()), Err)
            }
        }
    }
}

async fn shutdown_signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending::<()>().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

impl std::fmt::Debug for StreamingQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamingQuery")
            .field("id", &self.id())
            .field("run_id", &self.run_id())
            .field("name", &self.name())
            .field("status", &self.status().message)
            .finish_non_exhaustive()
    }
}
