//! The lease on an object store: one object, replaced only by whoever knows its current version.
//!
//! It is never deleted, only marked as released, so that the generation goes on counting.

use object_store::UpdateVersion;

use super::{FILE, LeaseOptions, Record, in_use, next_generation, record};
use crate::envelope;
use crate::error::{Result, StateError};
use crate::location::{CheckpointLocation, ObjectLocation, Versioned};
use crate::owner::OwnerInfo;

/// How often a lost race for a free lease is tried again.
const ATTEMPTS: usize = 3;
const REMEDY: &str = "if no query uses the checkpoint, delete this file and start again";

/// The record this run wrote and the version it has in the store.
#[derive(Debug)]
pub(super) struct Taken {
    record: Record,
    version: UpdateVersion,
}

/// When a lease written now runs out, unix milliseconds.
pub(super) fn expiry(options: &LeaseOptions) -> i64 {
    let ttl_ms = i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX);
    options.clock.now_ms().saturating_add(ttl_ms)
}

/// Takes the lease if it is absent, released or has run out.
pub(super) async fn take(
    store: &ObjectLocation,
    location: &CheckpointLocation,
    owner: &OwnerInfo,
    options: &LeaseOptions,
) -> Result<(Taken, u64)> {
    let mut seen = None;
    for _ in 0..ATTEMPTS {
        let current = store.get_versioned(FILE).await?;
        let current = current.map(|found| read(location, found)).transpose()?;
        if let Some((held, _)) = &current {
            if !held.released && held.expires_ms > Some(options.clock.now_ms()) {
                return Err(in_use(location, Some(held.clone())));
            }
            seen = Some(held.clone());
        }
        let last = current.as_ref().map(|(held, _)| held);
        let generation = next_generation(location, last).await?;
        let next = record(owner, generation, Some(expiry(options)));
        let bytes = encode(&next)?.into();
        let version = match current {
            None => store.create_versioned(FILE, bytes).await?,
            Some((_, version)) => store.update_versioned(FILE, bytes, version).await?,
        };
        if let Some(version) = version {
            let record = next;
            return Ok((Taken { record, version }, generation));
        }
    }
    Err(in_use(location, seen))
}

impl Taken {
    pub(super) fn is_released(&self) -> bool {
        self.record.released
    }

    /// Replaces the record if it still is ours.
    pub(super) async fn replace(
        &mut self,
        store: &ObjectLocation,
        location: &CheckpointLocation,
        next: Record,
    ) -> Result<()> {
        let bytes = encode(&next)?;
        let updated = store
            .update_versioned(FILE, bytes.clone().into(), self.version.clone())
            .await?;
        let updated = match updated {
            Some(version) => Some(version),
            // The answer to an earlier renewal may have been lost on its way: then the record is ours.
            None => match self.version_if_ours(store, location).await? {
                Some(version) => store.update_versioned(FILE, bytes.into(), version).await?,
                None => None,
            },
        };
        let Some(version) = updated else {
            return Err(StateError::LeaseLost {
                path: location.display_of(FILE),
                generation: self.record.generation,
                owner: super::holder(location).await.map(Box::new),
            });
        };
        self.version = version;
        self.record = next;
        Ok(())
    }

    async fn version_if_ours(
        &self,
        store: &ObjectLocation,
        location: &CheckpointLocation,
    ) -> Result<Option<UpdateVersion>> {
        let Some(found) = store.get_versioned(FILE).await? else {
            return Ok(None);
        };
        let (held, version) = read(location, found)?;
        let ours = held.owner == self.record.owner && !held.released;
        Ok(ours.then_some(version))
    }
}

fn encode(record: &Record) -> Result<Vec<u8>> {
    let mut body = serde_json::to_vec_pretty(record).map_err(|e| StateError::Codec {
        what: "the lease".to_string(),
        reason: e.to_string(),
    })?;
    body.push(b'\n');
    Ok(envelope::encode_text(&body))
}

fn read(location: &CheckpointLocation, found: Versioned) -> Result<(Record, UpdateVersion)> {
    let record = decode(&found.bytes).map_err(|reason| StateError::Damaged {
        path: location.display_of(FILE),
        epoch: None,
        reason,
        remedy: REMEDY,
    })?;
    Ok((record, found.version))
}

/// The record in a lease object.
pub(super) fn decode(file: &[u8]) -> Result<Record, String> {
    let body = envelope::decode_text(file).map_err(|e| e.to_string())?;
    serde_json::from_slice(body).map_err(|e| format!("its content is not understood: {e}"))
}
