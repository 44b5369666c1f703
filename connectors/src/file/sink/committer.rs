//! Makes an epoch visible: final names, then the manifest, which is what counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use weir_runtime::{
    Clock, CommitOutcome, Committable, Epoch, FailPoints, Result, SinkCommitter, SinkContext,
    WeirError,
};

use super::config::FileSinkConfig;
use super::manifest::{Line, Owner};
use super::manifest_log::{Added, ManifestLog};
use super::staging::{Prepared, StagedFile, Staging};
use crate::file::store::Store;

/// The one committer of a file sink.
pub struct FileSinkCommitter {
    root: PathBuf,
    owner: Owner,
    staging: Staging,
    manifest: ManifestLog,
    clock: Arc<dyn Clock>,
    failpoints: Arc<FailPoints>,
}

/// A file and where it is now.
struct Move {
    from: PathBuf,
    to: PathBuf,
    file: StagedFile,
}

impl FileSinkCommitter {
    pub(super) fn new(
        root: &Path,
        staging: Staging,
        owner: Owner,
        config: &FileSinkConfig,
        context: &SinkContext,
    ) -> Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            manifest: ManifestLog::open(root, staging.store().clone(), owner.clone(), config)?,
            staging,
            owner,
            clock: Arc::clone(&context.clock),
            failpoints: Arc::clone(&context.failpoints),
        })
    }

    fn moves(&self, epoch: Epoch, prepared: &[Prepared]) -> Vec<Move> {
        let mut moves = Vec::new();
        for part in prepared {
            let dir = self.staging.epoch_dir(epoch, part.generation);
            let files = part.files.iter().cloned();
            moves.extend(files.map(|file| Move {
                from: dir.join(&file.path),
                to: self.root.join(&file.path),
                file,
            }));
        }
        moves.sort_by(|a, b| a.to.cmp(&b.to));
        moves
    }

    /// Gives the files their final names, durably.
    async fn publish(&self, epoch: Epoch, prepared: &[Prepared], moves: &mut [Move]) -> Result<()> {
        let intent_dir = self.staging.epoch_dir(
            epoch,
            prepared
                .iter()
                .map(|part| part.generation)
                .max()
                .unwrap_or_default(),
        );
        let names: Vec<String> = moves.iter().map(|entry| entry.file.path.clone()).collect();
        self.failpoints.hit("file-sink:intent:before")?;
        self.staging.write_intent(&intent_dir, &names).await?;
        self.failpoints.hit("file-sink:intent:after")?;
        let store = self.staging.store();
        let mut dirs = BTreeSet::new();
        for entry in moves {
            let dir = entry.to.parent().unwrap_or(&self.root).to_owned();
            if !dirs.contains(&dir) {
                store.make_dir(&dir)?;
                dirs.insert(dir);
            }
            self.failpoints.hit("file-sink:rename")?;
            entry.rename(store).await?;
        }
        self.failpoints.hit("file-sink:renamed")?;
        self.staging.sync_all(dirs.iter().map(PathBuf::as_path))?;
        self.failpoints.hit("file-sink:synced")
    }

    async fn discard(&self, epoch: Epoch, prepared: &[Prepared]) -> Result<()> {
        for generation in prepared
            .iter()
            .map(|part| part.generation)
            .collect::<BTreeSet<_>>()
        {
            let dir = self.staging.epoch_dir(epoch, generation);
            self.staging.store().remove_dir(&dir).await?;
        }
        Ok(())
    }

    /// Another run of the same query was faster: its files count, ours go.
    async fn withdraw(&self, moves: &[Move]) -> Result<()> {
        for entry in moves {
            self.staging.store().remove_file(&entry.to).await?;
        }
        Ok(())
    }
}

impl Move {
    async fn rename(&mut self, store: &Store) -> Result<()> {
        // Not there, and done: an earlier attempt of this commit got so far.
        if !store.rename(&self.from, &self.to).await?
            && store.size(&self.to).await? != Some(self.file.size)
        {
            return Err(WeirError::external(format!(
                "cannot rename '{}' to its final name: it is gone",
                self.from.display()
            )));
        }
        // In an object store the new name is a new object.
        if let Store::Remote(remote) = store
            && let Some(object) = remote.look(&self.to).await?
        {
            self.file.modified_ms = object.mtime_ms;
        }
        Ok(())
    }
}

#[async_trait]
impl SinkCommitter for FileSinkCommitter {
    async fn commit(
        &mut self,
        epoch: Epoch,
        committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        let prepared = committables.iter().map(parse).collect::<Result<Vec<_>>>()?;
        self.failpoints.hit("file-sink:commit")?;
        if self.manifest.holds(epoch).await? {
            self.discard(epoch, &prepared).await?;
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        let mut moves = self.moves(epoch, &prepared);
        if moves.is_empty() {
            return Ok(CommitOutcome::Committed);
        }
        self.publish(epoch, &prepared, &mut moves).await?;
        let lines: Vec<Line> = moves
            .iter()
            .map(|entry| {
                Line::add(
                    &entry.to,
                    entry.file.size,
                    entry.file.modified_ms,
                    &self.owner,
                    epoch,
                )
            })
            .collect();
        self.failpoints.hit("file-sink:manifest:before")?;
        let added = self
            .manifest
            .add(epoch, &lines, self.clock.now_ms())
            .await?;
        self.failpoints.hit("file-sink:manifest:after")?;
        if added == Added::Before {
            self.withdraw(&moves).await?;
        }
        self.discard(epoch, &prepared).await?;
        self.failpoints.hit("file-sink:cleaned")?;
        Ok(match added {
            Added::Now => CommitOutcome::Committed,
            Added::Before => CommitOutcome::AlreadyCommitted,
        })
    }
}

fn parse(committable: &Committable) -> Result<Prepared> {
    Prepared::deserialize(committable).map_err(|error| {
        WeirError::internal(format!(
            "committable {committable} is not one of a file sink"
        ))
        .with_source(error)
    })
}
