//! Makes an epoch visible: final names, then the manifest, which is what counts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use weir_runtime::{
    Clock, CommitOutcome, Committable, Epoch, FailPoints, Result, SinkCommitter, SinkContext,
    WeirError,
};

use super::manifest::{Line, Owner};
use super::manifest_log::{Added, ManifestLog};
use super::staging::{self, Prepared, StagedFile, Staging, io_error};

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
        owner: Owner,
        retention: Option<std::time::Duration>,
        context: &SinkContext,
    ) -> Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            staging: Staging::new(root, owner.clone()),
            manifest: ManifestLog::open(root, owner.clone(), retention)?,
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
    async fn publish(&self, epoch: Epoch, prepared: &[Prepared], moves: &[Move]) -> Result<()> {
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
        let mut dirs = BTreeSet::new();
        for entry in moves {
            let dir = entry.to.parent().unwrap_or(&self.root);
            if dirs.insert(dir) {
                fs::create_dir_all(dir).map_err(|error| io_error("make directory", dir, error))?;
            }
            self.failpoints.hit("file-sink:rename")?;
            entry.rename()?;
        }
        self.failpoints.hit("file-sink:renamed")?;
        staging::sync_all(dirs, &self.root)?;
        self.failpoints.hit("file-sink:synced")
    }

    fn discard(&self, epoch: Epoch, prepared: &[Prepared]) -> Result<()> {
        for generation in prepared
            .iter()
            .map(|part| part.generation)
            .collect::<BTreeSet<_>>()
        {
            staging::remove_dir(&self.staging.epoch_dir(epoch, generation))?;
        }
        Ok(())
    }

    /// Another run of the same query was faster: its files count, ours go.
    fn withdraw(moves: &[Move]) -> Result<()> {
        for entry in moves {
            staging::remove_file(&entry.to)?;
        }
        Ok(())
    }
}

impl Move {
    fn rename(&self) -> Result<()> {
        match fs::rename(&self.from, &self.to) {
            Ok(()) => Ok(()),
            // An earlier attempt of this commit got so far.
            Err(error) if staging::is_absent(&error) && self.is_done() => Ok(()),
            Err(error) => Err(io_error("rename to its final name", &self.from, error)),
        }
    }

    fn is_done(&self) -> bool {
        fs::metadata(&self.to).is_ok_and(|metadata| metadata.len() == self.file.size)
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
        if self.manifest.holds(epoch)? {
            self.discard(epoch, &prepared)?;
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        let moves = self.moves(epoch, &prepared);
        if moves.is_empty() {
            return Ok(CommitOutcome::Committed);
        }
        self.publish(epoch, &prepared, &moves).await?;
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
            Self::withdraw(&moves)?;
        }
        self.discard(epoch, &prepared)?;
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
