//! [`ObjectRequests`]: requests to one object store, run on a thread of their own.
//!
//! Whoever asks waits in its own way: tasks await, readers block. A connection belongs to the thread it was opened on; were that
//! one of those that compute, an answer could not come in while they do.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use tokio::sync::{mpsc, oneshot};

use super::settings::Secrets;
use crate::error::{Result, StateError};

type Job = Box<dyn FnOnce(Arc<dyn ObjectStore>) -> BoxFuture<'static, ()> + Send>;

/// Requests to one object store; cheap to clone. Its thread ends with the last clone.
#[derive(Clone)]
pub struct ObjectRequests {
    jobs: mpsc::UnboundedSender<Job>,
    secrets: Secrets,
}

impl ObjectRequests {
    /// Starts the thread.
    pub(super) fn of(store: Arc<dyn ObjectStore>, secrets: Secrets) -> Result<Self> {
        let failed = |source| StateError::Io {
            action: "start a thread for",
            path: "object store".to_owned(),
            source,
        };
        let (jobs, mut waiting) = mpsc::unbounded_channel::<Job>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let work = move || {
            runtime.block_on(async {
                while let Some(job) = waiting.recv().await {
                    tokio::spawn(job(Arc::clone(&store)));
                }
            });
        };
        let thread = std::thread::Builder::new().name("weir-objects".to_owned());
        thread.spawn(work).map_err(failed)?;
        Ok(Self { jobs, secrets })
    }

    /// What `work` gives, done on the thread of the store.
    pub(super) async fn ask<T, F>(&self, work: F) -> object_store::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn ObjectStore>) -> BoxFuture<'static, object_store::Result<T>>
            + Send
            + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(|store| {
            async move {
                // Nobody may be waiting any more.
                drop(answer.send(work(store).await));
            }
            .boxed()
        });
        let ended = || object_store::Error::Generic {
            store: "objects",
            source: "the thread of an object store has ended".into(),
        };
        self.jobs.send(job).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// What `work` gives, done on the thread of the store; `action` (a verb) and `path` are for the error.
    ///
    /// # Errors
    /// The store's own.
    pub async fn run<T, F>(&self, action: &'static str, path: &str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn ObjectStore>) -> BoxFuture<'static, object_store::Result<T>>
            + Send
            + 'static,
    {
        let answer = self.ask(work).await;
        answer.map_err(|error| self.error(action, path.to_owned(), error))
    }

    /// The error to show.
    pub(super) fn error(
        &self,
        action: &'static str,
        path: String,
        error: object_store::Error,
    ) -> StateError {
        error_of(&self.secrets, action, path, error)
    }
}

impl fmt::Debug for ObjectRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectRequests").finish_non_exhaustive()
    }
}

/// What is not there is no error; a bucket that is not there is one.
///
/// # Errors
/// All others.
pub fn found<T>(result: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error @ object_store::Error::NotFound { .. }) if is_missing_bucket(&error) => {
            Err(error)
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the store says that there is no such bucket (or container).
pub(super) fn is_missing_bucket(error: &object_store::Error) -> bool {
    let text = error.to_string();
    ["NoSuchBucket", "ContainerNotFound"]
        .iter()
        .any(|code| text.contains(code))
}

/// The error to show: without secrets, and with the way out where there is one.
pub(super) fn error_of(
    secrets: &Secrets,
    action: &'static str,
    path: String,
    error: object_store::Error,
) -> StateError {
    if is_missing_bucket(&error) {
        return StateError::NoBucket { path };
    }
    let error = match secrets.mask(&format!("{error} {error:?}")) {
        None => error,
        Some(_) => object_store::Error::Generic {
            store: "objects",
            source: secrets.mask(&error.to_string()).unwrap_or_default().into(),
        },
    };
    let source = Box::new(error);
    match source.to_string().contains("/latest/api/token") {
        // Where keys of a machine come from, which is asked when nobody gave any.
        true => StateError::NoCredentials { path, source },
        false => StateError::Store {
            action,
            path,
            source,
        },
    }
}
