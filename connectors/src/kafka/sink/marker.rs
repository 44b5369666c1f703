//! What the target remembers of an exactly-once sink: the newest epoch it holds, kept as a committed offset of a consumer group
//! that has no consumers, and written in the transaction that brings the epoch's rows. Decisions are pure; the I/O is in
//! [`super::group`].
//!
//! Brokers forget offsets of a group without consumers (`offsets.retention.minutes`, seven days unless set). A marker that is
//! gone says something only while it could not have been forgotten: an epoch planned later than the retention ago would have
//! left one. Beyond that nobody can tell, and the user decides ([`LostMarker`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weir_runtime::{Epoch, Fault, Result, UnfinishedEpoch, WeirError};

use super::config::LostMarker;

/// The metadata of the committed offset; the offset itself is the next epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    /// Id of the query.
    pub(super) query: String,
    /// Id of the sink in its topology.
    pub(super) sink: String,
    /// The newest epoch the target holds.
    pub(super) epoch: Epoch,
}

impl Marker {
    /// The committed offset that stands for the epoch.
    pub(super) fn offset(&self) -> i64 {
        i64::try_from(self.epoch.0.saturating_add(1)).unwrap_or(i64::MAX)
    }

    /// As text.
    ///
    /// # Errors
    /// Never, as far as JSON is concerned.
    pub(super) fn metadata(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| {
            WeirError::internal("the marker of an epoch cannot be written as JSON")
                .with_source(error)
        })
    }

    /// Of a committed offset and its metadata.
    ///
    /// # Errors
    /// If somebody else has written it.
    pub(super) fn parse(
        group: &str,
        offset: i64,
        metadata: &str,
        query: Uuid,
        sink: &str,
    ) -> Result<Self> {
        let foreign = |why: String| {
            WeirError::new(
                Fault::Conflict,
                format!(
                    "consumer group '{group}' belongs to the Kafka sink of this query, but somebody else has committed offset {offset} \
                     with metadata '{metadata}' to it: {why}; set option 'transactionalIdPrefix' to a name of its own"
                ),
            )
        };
        let marker: Self =
            serde_json::from_str(metadata).map_err(|error| foreign(error.to_string()))?;
        if marker.query != query.to_string() || marker.sink != sink {
            return Err(foreign("that is another query or sink".to_owned()));
        }
        if marker.offset() != offset {
            return Err(foreign("epoch and offset do not go together".to_owned()));
        }
        Ok(marker)
    }
}

/// What is known when a generation starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// What the target says.
    pub(super) marker: Option<&'a Marker>,
    /// What the checkpoint says.
    pub(super) committed: Option<Epoch>,
    /// The epoch an earlier run began.
    pub(super) unfinished: Option<UnfinishedEpoch>,
    /// Unix milliseconds.
    pub(super) now_ms: i64,
    /// How long the target remembers; looked up only where it matters.
    pub(super) retention: Duration,
    /// What the user wants where nobody can tell.
    pub(super) policy: LostMarker,
}

impl Known<'_> {
    /// True if it depends on the retention what the target holds.
    pub(super) fn depends_on_retention(&self) -> bool {
        self.marker.is_none() && self.unfinished.is_some()
    }

    /// The newest epoch the target holds; `None` if it holds none that may come again.
    ///
    /// # Errors
    /// If the checkpoint was set back behind the target, or nobody can tell.
    pub(super) fn held(&self, group: &str) -> Result<Option<Epoch>> {
        let planned = self
            .unfinished
            .map(|unfinished| unfinished.epoch)
            .max(self.committed);
        match (self.marker, self.unfinished) {
            (Some(marker), _) if Some(marker.epoch) > planned => {
                Err(set_back(group, marker.epoch, planned))
            }
            (Some(marker), _) => Ok(Some(marker.epoch)),
            (None, None) => Ok(None),
            (None, Some(unfinished)) => self.without_marker(group, unfinished),
        }
    }

    fn without_marker(&self, group: &str, unfinished: UnfinishedEpoch) -> Result<Option<Epoch>> {
        let age_ms = self.now_ms.saturating_sub(unfinished.planned_ms);
        let retention_ms = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        // A tenth less than the broker's, for clocks that differ.
        if age_ms < retention_ms / 10 * 9 {
            return Ok(None);
        }
        match self.policy {
            LostMarker::Write => Ok(None),
            LostMarker::Discard => Ok(Some(unfinished.epoch)),
            LostMarker::Fail => Err(lost(group, unfinished.epoch, age_ms, self.retention)),
        }
    }
}

fn set_back(group: &str, held: Epoch, planned: Option<Epoch>) -> WeirError {
    let checkpoint = planned.map_or("none".to_owned(), |epoch| format!("up to {epoch}"));
    WeirError::new(
        Fault::Checkpoint,
        format!(
            "the target of the Kafka sink holds the epochs of this query up to {held}, the checkpoint knows {checkpoint}: it was set \
             back, and the epochs that follow may have other rows. Restore the newest checkpoint or start with a new one; to write the \
             epochs after it a second time, delete consumer group '{group}'"
        ),
    )
}

fn lost(group: &str, epoch: Epoch, age_ms: i64, retention: Duration) -> WeirError {
    WeirError::new(
        Fault::Checkpoint,
        format!(
            "epoch {epoch} was begun {} minutes ago and not finished, and whether its rows are in the target nobody can tell: consumer \
             group '{group}' has no marker, and the broker keeps one for {} minutes only ('offsets.retention.minutes'). Look at the \
             target, then set option 'lostMarker' to 'write' (they are not there) or 'discard' (they are) for one start",
            age_ms / 60_000,
            retention.as_secs() / 60
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn marker(epoch: u64) -> Marker {
        Marker {
            query: Uuid::from_u128(7).to_string(),
            sink: "out".to_owned(),
            epoch: Epoch(epoch),
        }
    }

    fn known(
        marker: Option<&Marker>,
        committed: Option<u64>,
        unfinished: Option<u64>,
    ) -> Known<'_> {
        Known {
            marker,
            committed: committed.map(Epoch),
            unfinished: unfinished.map(|epoch| UnfinishedEpoch {
                epoch: Epoch(epoch),
                planned_ms: 0,
            }),
            now_ms: 0,
            retention: Duration::from_millis(7 * DAY_MS as u64),
            policy: LostMarker::Fail,
        }
    }

    #[test]
    fn metadata_of_a_marker_is_read_back_and_that_of_others_is_refused() {
        let marker = marker(4);
        let text = marker.metadata().expect("JSON");
        let parse = |offset, metadata, query| {
            Marker::parse("g", offset, metadata, Uuid::from_u128(query), "out")
        };
        assert_eq!(parse(5, text.as_str(), 7).expect("ours"), marker);
        for (offset, metadata, query) in [(6, text.as_str(), 7), (5, &text, 8), (5, "", 7)] {
            let error = parse(offset, metadata, query).expect_err("not ours");
            assert_eq!(error.fault(), Fault::Conflict);
            assert!(error.message().contains("'g'"), "{error}");
        }
    }

    #[test]
    fn an_epoch_is_held_if_the_marker_has_reached_it() {
        let marker = marker(4);
        for (committed, unfinished) in [(Some(3), Some(4)), (Some(4), None), (Some(9), Some(10))] {
            let held = known(Some(&marker), committed, unfinished).held("g");
            assert_eq!(held.expect("clear"), Some(Epoch(4)));
        }
        assert_eq!(known(None, None, None).held("g").expect("new"), None);
        assert_eq!(known(None, Some(8), None).held("g").expect("idle"), None);
    }

    #[test]
    fn a_checkpoint_behind_the_target_is_refused() {
        let marker = marker(4);
        for (committed, unfinished) in [(None, None), (Some(2), Some(3)), (Some(3), None)] {
            let error = known(Some(&marker), committed, unfinished).held("g");
            let error = error.expect_err("set back");
            assert_eq!(error.fault(), Fault::Checkpoint);
        }
    }

    #[test]
    fn a_missing_marker_means_not_written_while_it_could_not_have_expired() {
        for (committed, unfinished) in [(None, 0), (Some(8), 9)] {
            let young = Known {
                now_ms: 6 * DAY_MS,
                ..known(None, committed, Some(unfinished))
            };
            assert!(young.depends_on_retention());
            assert_eq!(young.held("g").expect("young"), None);
        }
    }

    #[test]
    fn a_marker_that_may_have_expired_leaves_the_decision_to_the_user() {
        let old = Known {
            now_ms: 7 * DAY_MS,
            ..known(None, Some(8), Some(9))
        };
        let error = old.held("g").expect_err("nobody can tell");
        assert!(error.message().contains("epoch 9"), "{error}");
        let policy = |policy| Known { policy, ..old }.held("g").expect("decided");
        assert_eq!(policy(LostMarker::Write), None);
        assert_eq!(policy(LostMarker::Discard), Some(Epoch(9)));
    }
}
