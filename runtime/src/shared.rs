//! What a query's actors write and its handles read; outlives generations.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use uuid::Uuid;

use crate::config::QueryConfig;
use crate::error::WeirError;
use crate::listener::QueryEvent;
use crate::metrics::QueryMetrics;
use crate::progress::{QueryProgress, QueryStatus};
use crate::source::Backlog;

/// State of a query that outlives its generations; written by its actors, read by handles.
pub(crate) struct QueryShared {
    pub(crate) run_id: Uuid,
    pub(crate) config: QueryConfig,
    pub(crate) metrics: QueryMetrics,
    stopping: AtomicBool,
    inner: Mutex<Inner>,
    ended: watch::Sender<bool>,
}

struct Inner {
    id: Option<Uuid>,
    status: QueryStatus,
    recent: VecDeque<QueryProgress>,
    exception: Option<WeirError>,
    backlog: Option<Backlog>,
}

impl QueryShared {
    pub(crate) fn new(config: QueryConfig) -> Self {
        let status = QueryStatus {
            message: "Initializing sources".to_owned(),
            is_data_available: false,
            is_trigger_active: false,
        };
        Self {
            run_id: Uuid::new_v4(),
            config,
            metrics: QueryMetrics::default(),
            stopping: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                id: None,
                status,
                recent: VecDeque::new(),
                exception: None,
                backlog: None,
            }),
            ended: watch::Sender::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> Uuid {
        self.lock().id.unwrap_or(self.run_id)
    }

    pub(crate) fn set_id(&self, id: Uuid) {
        self.lock().id = Some(id);
    }

    pub(crate) fn set_status(
        &self,
        message: impl Into<String>,
        is_data_available: bool,
        is_trigger_active: bool,
    ) {
        self.lock().status = QueryStatus {
            message: message.into(),
            is_data_available,
            is_trigger_active,
        };
    }

    pub(crate) fn status(&self) -> QueryStatus {
        self.lock().status.clone()
    }

    pub(crate) fn last_progress(&self) -> Option<QueryProgress> {
        self.lock().recent.back().cloned()
    }

    pub(crate) fn recent_progress(&self) -> Vec<QueryProgress> {
        self.lock().recent.iter().cloned().collect()
    }

    pub(crate) fn exception(&self) -> Option<WeirError> {
        self.lock().exception.clone()
    }

    pub(crate) fn backlog(&self) -> Option<Backlog> {
        self.lock().backlog.clone()
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as this state, so waiting cannot fail.
        let _ended = ended.wait_for(|ended| *ended).await.is_ok();
    }

    pub(crate) fn set_backlog(&self, backlog: Option<Backlog>) {
        self.lock().backlog = backlog;
    }

    pub(crate) fn push_progress(&self, progress: QueryProgress) {
        {
            let mut inner = self.lock();
            if inner.recent.len() >= self.config.recent_progress.max(1) {
                inner.recent.pop_front();
            }
            inner.recent.push_back(progress.clone());
        }
        self.emit(&QueryEvent::Progress(Box::new(progress)));
    }

    pub(crate) fn emit(&self, event: &QueryEvent) {
        for listener in &self.config.listeners {
            listener.on_event(event);
        }
    }

    /// The query has ended; the first reason counts.
    pub(crate) fn end(&self, exception: Option<WeirError>) {
        if self.has_ended() {
            return;
        }
        let message = match &exception {
            None => "Stopped".to_owned(),
            Some(error) => format!("Terminated with exception: {error}"),
        };
        self.set_status(message, false, false);
        self.lock().exception.clone_from(&exception);
        self.emit(&QueryEvent::Terminated {
            id: self.id(),
            run_id: self.run_id,
            exception,
        });
        self.ended.send_replace(true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// The user wants the query to end.
    pub(crate) fn request_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
