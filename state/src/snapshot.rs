//! [`SnapshotStore`]: small opaque snapshots of operators, one file per subtask and epoch.
//!
//! The generation is part of the file name, so a zombie of an earlier run that snapshots the same epoch again
//! cannot touch a file a manifest names. A manifest trusts a file by checksum and size, never by name.

use bytes::Bytes;

use crate::changelog::Link;
use crate::envelope;
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::location::CheckpointLocation;
use crate::manifest::SnapshotRef;
use crate::names::segment;

/// Directory of all snapshots.
pub(crate) const DIR: &str = "state";

const REMEDY: &str = "restore it from a copy of the checkpoint, or start with a new checkpoint";

/// Writes and reads snapshots under `state/<operator>/<subtask>/<epoch>.<generation>`.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    location: CheckpointLocation,
    generation: u64,
}

impl SnapshotStore {
    /// The snapshots at `location`, written as generation `generation`.
    #[must_use]
    pub fn new(location: CheckpointLocation, generation: u64) -> Self {
        Self {
            location,
            generation,
        }
    }

    /// Writes the snapshot of one subtask durably; what a failed attempt of this generation left is replaced.
    ///
    /// # Errors
    /// The storage's own.
    pub async fn write(
        &self,
        operator: &str,
        subtask: u32,
        epoch: Epoch,
        payload: &[u8],
    ) -> Result<SnapshotRef> {
        let dir = segment(operator);
        let file = format!("{DIR}/{dir}/{subtask}/{epoch}.{}", self.generation);
        self.location
            .put(&file, envelope::encode_binary(payload))
            .await?;
        Ok(SnapshotRef {
            subtask,
            file,
            crc32: crc32fast::hash(payload),
            bytes: payload.len() as u64,
            since: None,
            bases: Vec::new(),
            groups: None,
        })
    }

    /// Reads a snapshot a manifest names.
    ///
    /// # Errors
    /// [`StateError::Missing`], [`StateError::Damaged`] when the file is torn or is not the one the manifest
    /// means, [`StateError::UnsupportedVersion`], the storage's own.
    pub async fn read(&self, snapshot: &SnapshotRef) -> Result<Bytes> {
        read_named(&self.location, &Link::from(snapshot), "the manifest").await
    }

    /// Deletes a snapshot; a missing one is fine.
    ///
    /// # Errors
    /// The storage's own.
    pub async fn delete(&self, snapshot: &SnapshotRef) -> Result<()> {
        self.location.delete(&snapshot.file).await
    }
}

/// The content of a file that `named_by` names, checked.
///
/// # Errors
/// Those of [`SnapshotStore::read`].
pub(crate) async fn read_named(
    location: &CheckpointLocation,
    link: &Link,
    named_by: &str,
) -> Result<Bytes> {
    let epoch = epoch_of(&link.file);
    let path = location.display_of(&link.file);
    let Some(file) = location.get(&link.file).await? else {
        return Err(StateError::Missing {
            path,
            epoch,
            reason: format!("{named_by} names this snapshot"),
            remedy: REMEDY,
        });
    };
    let payload =
        envelope::decode_binary(&file).map_err(|e| e.into_error(path.clone(), epoch, REMEDY))?;
    let (crc32, bytes) = (crc32fast::hash(payload), payload.len() as u64);
    if (crc32, bytes) != (link.crc32, link.bytes) {
        return Err(StateError::Damaged {
            path,
            epoch,
            reason: format!(
                "it holds {bytes} bytes with checksum {crc32:08x}, {named_by} names {} bytes with checksum {:08x}",
                link.bytes, link.crc32
            ),
            remedy: REMEDY,
        });
    }
    Ok(file.slice_ref(payload))
}

/// The bytes of a data file, which has no envelope, checked.
///
/// # Errors
/// [`StateError::Missing`], [`StateError::Damaged`], the storage's own.
pub(crate) async fn read_data(
    location: &CheckpointLocation,
    link: &Link,
    named_by: &str,
) -> Result<Bytes> {
    let path = location.display_of(&link.file);
    let Some(bytes) = location.get(&link.file).await? else {
        return Err(StateError::Missing {
            path,
            epoch: None,
            reason: format!("{named_by} names this file"),
            remedy: REMEDY,
        });
    };
    let found = (crc32fast::hash(&bytes), bytes.len() as u64);
    if found != (link.crc32, link.bytes) {
        let reason = format!(
            "it has {} bytes with checksum {:08x}, {named_by} names {} bytes with checksum {:08x}",
            found.1, found.0, link.bytes, link.crc32
        );
        return Err(damaged(path, reason));
    }
    Ok(bytes)
}

/// The error about a snapshot file whose checksum fits and whose content makes no sense.
pub(crate) fn damaged(path: String, reason: String) -> StateError {
    StateError::Damaged {
        epoch: epoch_of(&path),
        path,
        reason,
        remedy: REMEDY,
    }
}

/// The epoch in the name of a snapshot file, `None` for names this module does not give.
pub(crate) fn epoch_of(file: &str) -> Option<Epoch> {
    let (epoch, generation) = file.rsplit('/').next()?.split_once('.')?;
    Epoch::from_file_name(generation)?;
    Epoch::from_file_name(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &tempfile::TempDir, generation: u64) -> SnapshotStore {
        let path = dir.path().to_str().expect("unicode");
        SnapshotStore::new(CheckpointLocation::open(path).expect("open"), generation)
    }

    #[tokio::test]
    async fn snapshot_round_trip_keeps_the_bytes() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir, 4);
        for payload in [&b""[..], b"x", &[0xA5; 10_000]] {
            let snapshot = store
                .write("agg/1", 2, Epoch(7), payload)
                .await
                .expect("write");
            assert_eq!(snapshot.file, "state/agg%2F1/2/7.4");
            assert_eq!(snapshot.bytes, payload.len() as u64);
            assert_eq!(store.read(&snapshot).await.expect("read"), payload);
        }
    }

    #[tokio::test]
    async fn snapshot_of_a_zombie_generation_leaves_the_committed_one_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let (old, new) = (store(&dir, 1), store(&dir, 2));
        let committed = new.write("agg", 0, Epoch(7), b"new").await.expect("write");
        old.write("agg", 0, Epoch(7), b"zombie")
            .await
            .expect("write");
        assert_eq!(new.read(&committed).await.expect("read"), "new");
    }

    #[tokio::test]
    async fn snapshot_missing_or_deleted_is_an_error_naming_the_file() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir, 1);
        let snapshot = store.write("agg", 0, Epoch(3), b"x").await.expect("write");
        store.delete(&snapshot).await.expect("delete");
        store.delete(&snapshot).await.expect("again is fine");
        let error = store.read(&snapshot).await.expect_err("missing");
        assert!(matches!(
            error,
            StateError::Missing {
                epoch: Some(Epoch(3)),
                ..
            }
        ));
        assert!(error.to_string().contains("state/agg/0/3.1"));
    }

    #[tokio::test]
    async fn snapshot_truncated_anywhere_or_any_byte_flipped_is_damaged() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir, 1);
        let snapshot = store
            .write("agg", 0, Epoch(3), b"payload")
            .await
            .expect("write");
        let path = dir.path().join(&snapshot.file);
        let whole = std::fs::read(&path).expect("file");
        let truncated = (0..whole.len()).map(|len| whole[..len].to_vec());
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x11;
            bytes
        });
        for bytes in truncated.chain(flipped) {
            std::fs::write(&path, &bytes).expect("write");
            let error = store.read(&snapshot).await.expect_err("damaged");
            assert!(
                matches!(
                    error,
                    StateError::Damaged { .. } | StateError::UnsupportedVersion { .. }
                ),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn snapshot_whole_but_not_the_one_named_is_damaged() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir, 1);
        let snapshot = store
            .write("agg", 0, Epoch(3), b"first")
            .await
            .expect("write");
        store
            .write("agg", 0, Epoch(3), b"other")
            .await
            .expect("write");
        let error = store.read(&snapshot).await.expect_err("other content");
        assert!(
            error.to_string().contains("the manifest names 5 bytes"),
            "{error}"
        );
    }

    #[test]
    fn epoch_of_only_names_given_here() {
        assert_eq!(epoch_of("state/agg/0/12.3"), Some(Epoch(12)));
        for other in [
            "state/agg/0/12",
            "state/agg/0/12.sst",
            "state/agg/0/x.3",
            "",
        ] {
            assert_eq!(epoch_of(other), None, "{other}");
        }
    }
}
