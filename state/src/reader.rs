//! [`StateReader`]: the state in a checkpoint, read from outside while the query runs or after.
//!
//! Reads what a manifest names and nothing else; takes no lease and writes nothing. Retention of the running query may delete an
//! old epoch under a reader's eyes: that is an error naming the file, never half a table.

use crate::changelog::{Link, StateFile};
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::location::CheckpointLocation;
use crate::log::CheckpointLog;
use crate::manifest::{Manifest, SnapshotRef};
use crate::operator_state::{OperatorState, StateConfig};
use crate::table::{Entry, TableSpec};

/// The state of one committed epoch.
#[derive(Debug)]
pub struct StateReader {
    location: CheckpointLocation,
    manifest: Manifest,
}

impl StateReader {
    /// Opens the state after `epoch`, after the newest committed epoch if there is none given.
    ///
    /// # Errors
    /// [`StateError::Missing`] when the epoch is not (or no longer) in the checkpoint, [`StateError::Damaged`], the storage's own.
    pub async fn open(location: CheckpointLocation, epoch: Option<Epoch>) -> Result<Self> {
        let log = CheckpointLog::new(location.clone());
        let kept = log.list_epochs().await?.manifests;
        let wanted = epoch.or(kept.last().copied());
        let manifest = match wanted {
            Some(epoch) if kept.contains(&epoch) => log.read_manifest(epoch).await?,
            _ => None,
        };
        let Some(manifest) = manifest else {
            let reason = match (kept.first(), kept.last()) {
                (Some(first), Some(last)) => {
                    format!("the checkpoint holds the state of the epochs {first} to {last}")
                }
                _ => "no epoch was committed yet".to_string(),
            };
            let name = format!("commits/{}", wanted.unwrap_or(Epoch::FIRST));
            return Err(StateError::Missing {
                path: location.display_of(&name),
                epoch: wanted,
                reason,
                remedy: "ask for an epoch that is there",
            });
        };
        Ok(Self { location, manifest })
    }

    /// The epoch read.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.manifest.epoch
    }

    /// Uids of the operators that have state tables, sorted.
    #[must_use]
    pub fn operators(&self) -> Vec<&str> {
        let with_tables = self.manifest.snapshots.iter();
        with_tables
            .filter(|(_, snapshots)| snapshots.iter().any(|s| s.groups.is_some()))
            .map(|(uid, _)| uid.as_str())
            .collect()
    }

    /// Number of subtasks the operator ran with; those that never had state count if the manifest tells.
    ///
    /// # Errors
    /// [`StateError::Unknown`].
    pub fn subtasks(&self, uid: &str) -> Result<u32> {
        let named = self.snapshots(uid)?.iter().map(|s| s.subtask + 1).max();
        let told = self.manifest.parallelism.get(uid).copied();
        Ok(told.or(named).unwrap_or(0))
    }

    /// The tables of an operator.
    ///
    /// # Errors
    /// [`StateError::Unknown`], [`StateError::Missing`], [`StateError::Damaged`], the storage's own.
    pub async fn tables(&self, uid: &str) -> Result<Vec<TableSpec>> {
        match self.snapshots(uid)?.first() {
            Some(snapshot) => self.specs(snapshot).await,
            None => Ok(Vec::new()),
        }
    }

    /// Hands every entry of a table to `visit`, subtask by subtask, in the order of the table within each.
    ///
    /// # Errors
    /// [`StateError::Unknown`], [`StateError::Missing`], [`StateError::Damaged`], the storage's own, those of `visit`.
    pub async fn scan(
        &self,
        uid: &str,
        table: &str,
        visit: &mut (dyn FnMut(u32, Entry<'_>) -> Result<()> + Send),
    ) -> Result<()> {
        for snapshot in self.snapshots(uid)? {
            let specs = self.specs(snapshot).await?;
            let Some(index) = specs.iter().position(|spec| spec.name == table) else {
                return Err(StateError::Unknown {
                    what: format!("table of operator `{uid}`"),
                    name: table.to_string(),
                    known: specs.into_iter().map(|spec| spec.name).collect(),
                });
            };
            let (from, to) = snapshot.groups.unwrap_or((0, u32::MAX));
            let config = StateConfig::new(self.location.clone(), uid, snapshot.subtask, 0);
            let named = std::slice::from_ref(snapshot);
            let mut state = OperatorState::restore(config, &specs, from..to, named).await?;
            let subtask = snapshot.subtask;
            state
                .table(index)
                .scan(&mut |entry| visit(subtask, entry))?;
        }
        Ok(())
    }

    fn snapshots(&self, uid: &str) -> Result<&[SnapshotRef]> {
        if !self.operators().contains(&uid) {
            return Err(StateError::Unknown {
                what: "operator with state".to_string(),
                name: uid.to_string(),
                known: self.operators().into_iter().map(str::to_string).collect(),
            });
        }
        Ok(&self.manifest.snapshots[uid])
    }

    async fn specs(&self, snapshot: &SnapshotRef) -> Result<Vec<TableSpec>> {
        let link = Link::from(snapshot);
        let file = StateFile::read(&self.location, &link, "the manifest").await?;
        Ok(file.header.tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableKind;

    async fn written() -> CheckpointLocation {
        let location = CheckpointLocation::open("memory://state-reader-tests").expect("open");
        let spec = TableSpec {
            name: "counts".into(),
            kind: TableKind::Keyed,
            version: 1,
            key: "word: string".into(),
            value: "count: bigint".into(),
        };
        let log = CheckpointLog::new(location.clone());
        let mut subtasks: Vec<OperatorState> = (0..2)
            .map(|i| {
                let config = StateConfig::new(location.clone(), "agg", i, 1);
                let groups = i * 2048..(i + 1) * 2048;
                OperatorState::create(config, std::slice::from_ref(&spec), groups).expect("create")
            })
            .collect();
        for epoch in 0..3_u64 {
            let mut manifest = Manifest::new(Epoch(epoch), 1, 0);
            let mut refs = Vec::new();
            for (i, state) in subtasks.iter_mut().enumerate() {
                let table = state.table(0);
                let slot = table.touch(i as u32 * 2048, 0, format!("word-{i}").as_bytes());
                table.set(slot, &epoch.to_le_bytes());
                refs.extend(state.commit(Epoch(epoch)).await.expect("commit"));
            }
            manifest.snapshots.insert("agg".into(), refs);
            log.publish_manifest(&manifest).await.expect("publish");
        }
        location
    }

    #[tokio::test]
    async fn reader_shows_operators_tables_and_entries_of_any_kept_epoch() {
        let location = written().await;
        for (epoch, expected) in [(None, 2_u64), (Some(Epoch(1)), 1)] {
            let reader = StateReader::open(location.clone(), epoch)
                .await
                .expect("open");
            assert_eq!(reader.epoch(), Epoch(expected));
            assert_eq!(reader.operators(), ["agg"]);
            assert_eq!(reader.subtasks("agg").expect("subtasks"), 2);
            let tables = reader.tables("agg").await.expect("tables");
            assert_eq!(tables[0].value, "count: bigint");
            let mut seen = Vec::new();
            reader
                .scan("agg", "counts", &mut |subtask, entry| {
                    seen.push((subtask, entry.group, entry.value.to_vec()));
                    Ok(())
                })
                .await
                .expect("scan");
            let value = expected.to_le_bytes().to_vec();
            assert_eq!(seen, [(0, 0, value.clone()), (1, 2048, value)]);
        }
        let reader = StateReader::open(location.clone(), None)
            .await
            .expect("open");
        let error = reader
            .tables("other")
            .await
            .expect_err("unknown")
            .to_string();
        assert!(
            error.contains("`other`") && error.contains("agg"),
            "{error}"
        );
        let error = reader.scan("agg", "sums", &mut |_, _| Ok(())).await;
        let error = error.expect_err("unknown").to_string();
        assert!(
            error.contains("`sums`") && error.contains("counts"),
            "{error}"
        );
        let error = StateReader::open(location, Some(Epoch(9))).await;
        let error = error.expect_err("not there").to_string();
        assert!(
            error.contains("0 to 2") && error.contains("commits/9"),
            "{error}"
        );
    }
}
