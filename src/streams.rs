//! Running queries: the handle a writer returns, and the session's list of them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;
use weir_runtime::{QueryEvent, QueryListener, Result, WeirError};

/// A running query: the engine's handle, whose methods it has, and the plans it was made from. Clones are the same query. The
/// session keeps it alive until it ends; dropping the session (and every handle) stops it.
#[derive(Clone, Debug)]
pub struct StreamingQuery {
    handle: weir_runtime::StreamingQuery,
    plans: Arc<Plans>,
}

/// What a query was made from, as text.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) logical: String,
    pub(crate) topology: String,
    pub(crate) mermaid: String,
    pub(crate) dot: String,
}

impl Deref for StreamingQuery {
    type Target = weir_runtime::StreamingQuery;

    fn deref(&self) -> &Self::Target {
        &self.handle
    }
}

impl StreamingQuery {
    pub(crate) fn new(handle: weir_runtime::StreamingQuery, plans: Plans) -> Self {
        Self {
            handle,
            plans: Arc::new(plans),
        }
    }

    /// The dataflow, one line per node; with `extended` also the logical plan and the dataflow as a Mermaid chart.
    pub fn explain(&self, extended: bool) -> String {
        if !extended {
            return self.plans.topology.clone();
        }
        let Plans {
            logical,
            topology,
            mermaid,
            ..
        } = self.plans.as_ref();
        format!(
            "== Logical plan ==\n{logical}\n\n== Topology ==\n{topology}\n== Mermaid ==\n{mermaid}"
        )
    }

    /// The dataflow in Graphviz' DOT language.
    pub fn to_dot(&self) -> &str {
        &self.plans.dot
    }

    /// The dataflow as a Mermaid flow chart.
    pub fn to_mermaid(&self) -> &str {
        &self.plans.mermaid
    }
}

/// The queries of a session, and the listeners that hear of all of them.
#[derive(Clone, Default)]
pub struct StreamingQueryManager {
    shared: Arc<Shared>,
}

/// Names a listener, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerId(u64);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// By run id.
    active: BTreeMap<Uuid, StreamingQuery>,
    /// Runs that ended before they could be added.
    ended_early: Vec<Uuid>,
    /// What the queries that are starting or running hold: names and checkpoint locations.
    claims: Vec<Claim>,
    /// How the queries ended that did so since the last reset.
    terminated: Vec<Option<WeirError>>,
    listeners: BTreeMap<ListenerId, Arc<dyn QueryListener>>,
    next_listener: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    number: u64,
    run: Option<Uuid>,
    name: Option<String>,
    checkpoint: Option<String>,
}

/// What a query that is being started holds; given back if it does not come up.
pub(crate) struct Starting {
    shared: Arc<Shared>,
    number: u64,
    kept: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, run: Uuid, exception: Option<WeirError>) {
        let removed = {
            let mut state = self.lock();
            state.terminated.push(exception);
            state.claims.retain(|claim| claim.run != Some(run));
            let removed = state.active.remove(&run);
            if removed.is_none() {
                state.ended_early.push(run);
            }
            removed
        };
        // The handle is dropped outside of the lock.
        drop(removed);
        self.ended.notify_waiters();
    }
}

impl StreamingQueryManager {
    /// The queries that run.
    pub fn active(&self) -> Vec<StreamingQuery> {
        let queries: Vec<_> = self.shared.lock().active.values().cloned().collect();
        queries
            .into_iter()
            .filter(|query| query.is_active())
            .collect()
    }

    /// The running query of this id (not run id).
    pub fn get(&self, id: Uuid) -> Option<StreamingQuery> {
        self.active().into_iter().find(|query| query.id() == id)
    }

    /// Waits until any query has ended since the session began or [`reset_terminated`](Self::reset_terminated) was called.
    ///
    /// # Errors
    /// The error of the first query that failed since then.
    pub async fn await_any_termination(&self) -> Result<()> {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(result) = self.outcome() {
                return result;
            }
            ended.await;
        }
    }

    /// Waits at most `timeout`; true if a query has ended.
    ///
    /// # Errors
    /// As [`await_any_termination`](Self::await_any_termination).
    pub async fn await_any_termination_timeout(&self, timeout: Duration) -> Result<bool> {
        match tokio::time::timeout(timeout, self.await_any_termination()).await {
            Ok(result) => result.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    fn outcome(&self) -> Option<Result<()>> {
        let state = self.shared.lock();
        let failed = state.terminated.iter().flatten().next().cloned();
        (!state.terminated.is_empty()).then(|| failed.map_or(Ok(()), Err))
    }

    /// Forgets the queries that have ended, so that waiting begins anew.
    pub fn reset_terminated(&self) {
        self.shared.lock().terminated.clear();
    }

    /// Adds a listener for the events of all queries of the session, those that run included. It is called from the queries'
    /// threads: return quickly.
    pub fn add_listener(&self, listener: impl QueryListener + 'static) -> ListenerId {
        let mut state = self.shared.lock();
        let id = ListenerId(state.next_listener);
        state.next_listener += 1;
        state.listeners.insert(id, Arc::new(listener));
        id
    }

    /// Removes a listener; false if there was none of this id.
    pub fn remove_listener(&self, id: ListenerId) -> bool {
        self.shared.lock().listeners.remove(&id).is_some()
    }

    /// What every query gets as its listener: it knows the session's listeners, and tells the manager when the query ends.
    pub(crate) fn fan_out(&self) -> Arc<dyn QueryListener> {
        Arc::new(FanOut(Arc::downgrade(&self.shared)))
    }

    /// Holds name and checkpoint location for a query that is about to start.
    ///
    /// # Errors
    /// If a query that runs or starts has one of them.
    pub(crate) fn claim(
        &self,
        name: Option<String>,
        checkpoint: Option<String>,
    ) -> Result<Starting> {
        let mut state = self.shared.lock();
        if let Some(name) = &name
            && state
                .claims
                .iter()
                .any(|claim| claim.name.as_ref() == Some(name))
        {
            return Err(WeirError::config(format!(
                "a query named '{name}' is active in this session: stop it first or choose another name"
            )));
        }
        if let Some(checkpoint) = &checkpoint
            && let Some(other) = state
                .claims
                .iter()
                .find(|claim| claim.checkpoint.as_ref() == Some(checkpoint))
        {
            let other = other
                .name
                .as_ref()
                .map_or_else(|| "without a name".to_owned(), |name| format!("'{name}'"));
            return Err(WeirError::config(format!(
                "checkpoint location '{checkpoint}' is in use by the active query {other}: every query needs its own; stop that one first"
            )));
        }
        let number = state.next_listener;
        state.next_listener += 1;
        state.claims.push(Claim {
            number,
            run: None,
            name,
            checkpoint,
        });
        Ok(Starting {
            shared: Arc::clone(&self.shared),
            number,
            kept: false,
        })
    }
}

impl Starting {
    /// The query is up.
    pub(crate) fn started(mut self, query: &StreamingQuery) {
        self.kept = true;
        let run = query.run_id();
        let mut state = self.shared.lock();
        if let Some(place) = state.ended_early.iter().position(|early| *early == run) {
            state.ended_early.swap_remove(place);
            state.claims.retain(|claim| claim.number != self.number);
            return;
        }
        if let Some(claim) = state
            .claims
            .iter_mut()
            .find(|claim| claim.number == self.number)
        {
            claim.run = Some(run);
        }
        state.active.insert(run, query.clone());
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.kept {
            self.shared
                .lock()
                .claims
                .retain(|claim| claim.number != self.number);
        }
    }
}

struct FanOut(Weak<Shared>);

impl QueryListener for FanOut {
    fn on_event(&self, event: &QueryEvent) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let listeners: Vec<_> = shared.lock().listeners.values().cloned().collect();
        for listener in listeners {
            listener.on_event(event);
        }
        if let QueryEvent::Terminated {
            run_id, exception, ..
        } = event
        {
            shared.end(*run_id, exception.clone());
        }
    }
}
