//! Where the engine's actors live: the caller's actix `System` if there is one, else one of the engine's own on a background
//! thread that is started at first use and shared by all queries started outside of a system.

use std::sync::{Mutex, PoisonError, mpsc};

use actix::{Arbiter, System};
use tokio::sync::oneshot;

use crate::error::{Result, WeirError};

static BACKGROUND: Mutex<Option<System>> = Mutex::new(None);

/// A new arbiter (thread) of the current system, or of the background one.
pub(crate) async fn new_arbiter() -> Result<Arbiter> {
    if System::is_registered() {
        return Ok(Arbiter::new());
    }
    let system = background()?;
    let (reply, arbiter) = oneshot::channel();
    system.arbiter().spawn_fn(move || {
        // The caller may have given up waiting.
        let _gone = reply.send(Arbiter::new()).is_err();
    });
    arbiter
        .await
        .map_err(|_| WeirError::internal("the background actor system has ended"))
}

fn background() -> Result<System> {
    let mut slot = BACKGROUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(system) = slot.as_ref() {
        return Ok(system.clone());
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("weir-system".to_owned())
        .spawn(move || {
            let runner = System::new();
            // The receiver waits below.
            let _gone = sender.send(System::current()).is_err();
            if let Err(error) = runner.run() {
                tracing::error!(%error, "the background actor system ended with an error");
            }
        })
        .map_err(|error| {
            WeirError::external("no thread for the background actor system").with_source(error)
        })?;
    let system = receiver
        .recv()
        .map_err(|_| WeirError::internal("the background actor system did not start"))?;
    *slot = Some(system.clone());
    Ok(system)
}
