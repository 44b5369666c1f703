//! [`Lease`]: at most one run writes to a checkpoint, and every run has a number of its own.
//!
//! Local disk: a lock of the operating system on the file `lease`, held as long as the [`Lease`] lives and
//! released by the system when the process dies, so a restart after a kill goes on at once. Object stores: an
//! object with an expiry, taken and renewed by conditional puts. Each acquisition raises the generation; it is
//! in every plan and manifest. A lease only makes the error early and clear: what keeps two writers from
//! harming each other is create-if-absent (invariant E6).

mod local;
mod object;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, SystemClock};
use crate::error::{Result, StateError};
use crate::location::{Backend, CheckpointLocation};
use crate::log::CheckpointLog;
use crate::owner::OwnerInfo;

/// Name of the lease in the checkpoint.
pub(crate) const FILE: &str = "lease";

/// How a lease is held.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// How long a lease on an object store lasts without renewal; it is judged by each host's wall clock, so
    /// clocks may differ by less than this.
    pub ttl: Duration,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for LeaseOptions {
    /// 15 seconds by the host's clock.
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// What is written in a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) generation: u64,
    pub(crate) owner: OwnerInfo,
    /// Object stores only: when the lease runs out, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<i64>,
    /// Object stores only: the holder gave it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) released: bool,
}

/// The right to write to a checkpoint, until it is dropped or released.
///
/// Dropping releases a local or in-memory lease. A lease on a remote store needs
/// [`Lease::release`]; dropped, it runs out by itself.
#[derive(Debug)]
pub struct Lease {
    location: CheckpointLocation,
    options: LeaseOptions,
    owner: OwnerInfo,
    generation: u64,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Local(local::Locked),
    Object(object::Taken),
}

impl Lease {
    /// Takes the lease of `location` with the default options.
    ///
    /// # Errors
    /// See [`Lease::acquire_with`].
    pub async fn acquire(location: &CheckpointLocation, owner: OwnerInfo) -> Result<Self> {
        Self::acquire_with(location, owner, LeaseOptions::default()).await
    }

    /// Takes the lease of `location` or fails at once; it never waits. As the new holder it also cleans up
    /// the temporary files of earlier runs. When it fails because the lease is held, nothing was changed.
    ///
    /// # Errors
    /// [`StateError::CheckpointInUse`] when another run (also of this process) holds it,
    /// [`StateError::ForeignDirectory`] or [`StateError::Missing`] when the location is not a checkpoint and not
    /// empty, the storage's own.
    pub async fn acquire_with(
        location: &CheckpointLocation,
        owner: OwnerInfo,
        options: LeaseOptions,
    ) -> Result<Self> {
        if location.get(FILE).await?.is_none() {
            CheckpointLog::new(location.clone())
                .refuse_foreign()
                .await?;
        }
        let (held, generation) = match location.backend() {
            Backend::Local(store) => {
                let mut locked = local::lock(store, location)?;
                let generation = next_generation(location, locked.last()).await?;
                locked.write(&record(&owner, generation, None))?;
                locked.clean_up(store)?;
                (Held::Local(locked), generation)
            }
            Backend::Object(store) => {
                let (taken, generation) = object::take(store, location, &owner, &options).await?;
                (Held::Object(taken), generation)
            }
        };
        Ok(Self {
            location: location.clone(),
            options,
            owner,
            generation,
            held,
        })
    }

    /// Number of this run: higher than that of every run before it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Who holds it.
    #[must_use]
    pub fn owner(&self) -> &OwnerInfo {
        &self.owner
    }

    /// How often to call [`Lease::renew`]: a third of the time the lease lasts. On the local disk renewing
    /// only checks that the lease file was not taken away.
    #[must_use]
    pub fn renew_every(&self) -> Duration {
        self.options.ttl / 3
    }

    /// Keeps the lease.
    ///
    /// # Errors
    /// [`StateError::LeaseLost`] when another run has it or the file is gone: stop at once. The storage's own:
    /// try again before the lease runs out.
    pub async fn renew(&mut self) -> Result<()> {
        self.rewrite(self.generation, false).await
    }

    /// Raises the generation without letting go of the lease: for a restart inside the process, so that what
    /// actors of the old generation still do can be told apart. Returns the new generation.
    ///
    /// # Errors
    /// As [`Lease::renew`].
    pub async fn advance(&mut self) -> Result<u64> {
        let next = self.generation + 1;
        self.rewrite(next, false).await?;
        self.generation = next;
        Ok(next)
    }

    /// Gives the lease back.
    ///
    /// # Errors
    /// As [`Lease::renew`]; a lease that could not be given back runs out by itself.
    pub async fn release(mut self) -> Result<()> {
        self.rewrite(self.generation, true).await
    }

    async fn rewrite(&mut self, generation: u64, released: bool) -> Result<()> {
        match (&mut self.held, self.location.backend()) {
            (Held::Local(locked), _) => {
                locked.check_still_there(self.generation)?;
                if generation != self.generation {
                    locked.write(&record(&self.owner, generation, None))?;
                }
                // Closing the file is what gives a local lease back.
                Ok(())
            }
            (Held::Object(taken), Backend::Object(store)) => {
                let expires_ms = Some(object::expiry(&self.options));
                let mut next = record(&self.owner, generation, expires_ms);
                next.released = released;
                taken.replace(store, &self.location, next).await
            }
            (Held::Object(_), Backend::Local(_)) => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let in_process = match self.location.backend() {
            Backend::Object(store) => store.is_in_process(),
            Backend::Local(_) => false,
        };
        if in_process && !self.is_released() {
            let released = futures::FutureExt::now_or_never(self.rewrite(self.generation, true));
            if let Some(Err(error)) = released {
                tracing::debug!(%error, "in-memory lease not given back");
            }
        }
    }
}

impl Lease {
    fn is_released(&self) -> bool {
        matches!(&self.held, Held::Object(taken) if taken.is_released())
    }
}

fn record(owner: &OwnerInfo, generation: u64, expires_ms: Option<i64>) -> Record {
    Record {
        generation,
        owner: owner.clone(),
        expires_ms,
        released: false,
    }
}

/// One above the last holder's generation. A lease that is missing or unreadable starts above what the logs name.
async fn next_generation(location: &CheckpointLocation, last: Option<&Record>) -> Result<u64> {
    let last = match last {
        Some(record) => record.generation,
        None => {
            CheckpointLog::new(location.clone())
                .newest_generation()
                .await?
        }
    };
    Ok(last + 1)
}

/// Who is written in the lease of `location`, for messages; `None` if nobody is or it cannot be read.
pub(crate) async fn holder(location: &CheckpointLocation) -> Option<OwnerInfo> {
    let file = location.get(FILE).await.ok().flatten()?;
    let record = match location.backend() {
        Backend::Local(_) => local::newest_record(&file),
        Backend::Object(_) => object::decode(&file).ok(),
    };
    record.map(|record| record.owner)
}

fn in_use(location: &CheckpointLocation, record: Option<Record>) -> StateError {
    StateError::CheckpointInUse {
        path: location.display(),
        generation: record.as_ref().map(|r| r.generation),
        expires_ms: record.as_ref().and_then(|r| r.expires_ms),
        owner: record.map(|r| Box::new(r.owner)),
    }
}

#[cfg(test)]
mod tests;
