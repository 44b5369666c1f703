//! [`SourceLog`]: what a source has already taken up, epoch by epoch (for the file source: the files seen).
//!
//! One small file per epoch; every few epochs a compact file with everything still live, so that a start reads
//! few files and a listing stays short. A compact is the only copy of what it holds: the files it replaces
//! are therefore kept until the next compact is durable.
//!
//! Call order in an epoch: `append(N)`, then publish plan N. A file of an epoch without a plan is void: it
//! is not read, and [`SourceLog::load`] deletes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::envelope;
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::location::CheckpointLocation;
use crate::names::segment;

/// Number of epochs between two compact files when the caller has no opinion (Spark's
/// `fileSource.log.compactInterval`).
pub const COMPACT_INTERVAL: NonZeroU32 = NonZeroU32::new(10).expect("invariant: 10 is not 0");

const DIR: &str = "sources";
const COMPACT: &str = ".compact";
/// Files read at the same time from a store that is far away.
const READS: usize = 16;
const REMEDY: &str = "restore it from a copy of the checkpoint; without it the source cannot know what was read already";

/// An entry with the epoch it was appended in; one line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged<T> {
    /// The epoch.
    pub epoch: Epoch,
    /// The source's own entry.
    pub entry: T,
}

/// When files are deleted that newer compact files hold.
#[derive(Debug, Clone, Default)]
pub enum Cleanup {
    /// As soon as they are held twice.
    #[default]
    AtOnce,
    /// With the first append that comes this long after that, by the wall clock and, for files of earlier runs, their times of
    /// modification.
    After(Duration, Arc<dyn Clock>),
    /// Never.
    Never,
}

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Epoch of the file before this one.
    previous: Option<Epoch>,
}

/// A file that was read.
#[derive(Debug)]
struct SourceFile<T> {
    previous: Option<Epoch>,
    entries: Vec<Logged<T>>,
}

/// The log of one source, `sources/<source>/`, with entries of type `T`.
#[derive(Debug)]
pub struct SourceLog<T> {
    location: CheckpointLocation,
    dir: String,
    interval: NonZeroU32,
    /// Epochs with a small file.
    small: BTreeSet<Epoch>,
    /// Epochs with a compact file.
    compact: BTreeSet<Epoch>,
    cleanup: Cleanup,
    /// Compact files with what they hold to be deleted, and since when they could be, unix milliseconds.
    covered: VecDeque<(i64, Epoch)>,
    entries: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> SourceLog<T> {
    /// Opens the log of `source` (its index or uid); lists, reads nothing.
    ///
    /// # Errors
    /// The storage's own.
    pub async fn open(
        location: CheckpointLocation,
        source: &str,
        compact_interval: NonZeroU32,
    ) -> Result<Self> {
        let mut log = Self {
            location,
            dir: format!("{DIR}/{}", segment(source)),
            interval: compact_interval,
            small: BTreeSet::new(),
            compact: BTreeSet::new(),
            cleanup: Cleanup::default(),
            covered: VecDeque::new(),
            entries: PhantomData,
        };
        let mut written = BTreeMap::new();
        for file in log.location.list(&log.dir).await? {
            match (
                Epoch::from_file_name(&file.name),
                file.name
                    .strip_suffix(COMPACT)
                    .and_then(Epoch::from_file_name),
            ) {
                (Some(epoch), _) => drop(log.small.insert(epoch)),
                (_, Some(epoch)) => drop(written.insert(epoch, file.modified_ms)),
                _ => tracing::debug!(dir = %log.dir, name = %file.name, "unknown file ignored"),
            }
        }
        let newer = written.values().skip(1);
        log.covered = newer.copied().zip(written.keys().copied()).collect();
        log.compact = written.into_keys().collect();
        Ok(log)
    }

    /// The same log with another rule for files nobody reads any more.
    #[must_use]
    pub fn with_cleanup(mut self, cleanup: Cleanup) -> Self {
        self.cleanup = cleanup;
        self
    }

    /// All live entries of epochs up to and including `up_to`, the newest epoch that has a plan
    /// ([`crate::Recovery::newest_planned`]), in the order of appending. Files of later epochs, torn or not, are
    /// void and deleted with a warning. Call it once at start, as the holder of the lease.
    ///
    /// # Errors
    /// [`StateError::Damaged`] for a torn file of a planned epoch, [`StateError::UnsupportedVersion`], the
    /// storage's own.
    pub async fn load(&mut self, up_to: Option<Epoch>) -> Result<Vec<Logged<T>>> {
        self.discard_after(up_to).await?;
        match up_to {
            Some(epoch) => self.read(epoch).await,
            None => Ok(Vec::new()),
        }
    }

    /// All live entries of epochs up to and including `up_to`, without changing anything.
    ///
    /// # Errors
    /// As [`SourceLog::load`].
    pub async fn read(&self, up_to: Epoch) -> Result<Vec<Logged<T>>> {
        let (base, small) = self.files_up_to(up_to);
        let names = base.map(|epoch| (epoch, self.compact_name(epoch)));
        let names = names
            .into_iter()
            .chain(small.iter().map(|epoch| (*epoch, self.small_name(*epoch))));
        let reads: Vec<_> = names
            .map(|(epoch, name)| self.read_file(epoch, name))
            .collect();
        let files: Vec<SourceFile<T>> = futures::stream::iter(reads)
            .buffered(READS)
            .try_collect()
            .await?;
        let small_files = &files[usize::from(base.is_some())..];
        self.check_chain(base, &small, small_files)?;
        let mut entries: Vec<Logged<T>> = files.into_iter().flat_map(|f| f.entries).collect();
        entries.retain(|logged| logged.epoch <= up_to);
        Ok(entries)
    }

    /// Each small file names the one before it: a missing one is an error, not a source that reads its files
    /// twice.
    fn check_chain(
        &self,
        base: Option<Epoch>,
        epochs: &[Epoch],
        files: &[SourceFile<T>],
    ) -> Result<()> {
        let mut before = base;
        for (epoch, file) in epochs.iter().zip(files) {
            if let Some(missing) = file.previous.filter(|_| file.previous != before) {
                return Err(StateError::Missing {
                    path: self.location.display_of(&self.small_name(missing)),
                    epoch: Some(missing),
                    reason: format!("`{}` follows it", self.small_name(*epoch)),
                    remedy: REMEDY,
                });
            }
            before = Some(*epoch);
        }
        Ok(())
    }

    /// Appends the entries of `epoch` durably, before its plan is published. The same epoch may be written
    /// again as long as it has no plan. Every `compact_interval`-th file is a compact one: it carries on
    /// the earlier entries for which `keep` answers true.
    ///
    /// # Errors
    /// [`StateError::OutOfOrder`] when a later epoch is there, [`StateError::Damaged`] when a file to be
    /// compacted is, the storage's own.
    pub async fn append(
        &mut self,
        epoch: Epoch,
        entries: Vec<T>,
        mut keep: impl FnMut(&T) -> bool,
    ) -> Result<()> {
        let newest = self.small.last().max(self.compact.last()).copied();
        if let Some(newest) = newest.filter(|newest| *newest > epoch) {
            return Err(StateError::OutOfOrder {
                path: self.location.display_of(&self.dir),
                epoch,
                newest,
            });
        }
        self.discard(epoch).await?;
        let previous = self.small.last().max(self.compact.last()).copied();
        let new = entries.into_iter().map(|entry| Logged { epoch, entry });
        if !self.compaction_is_due() {
            let new: Vec<Logged<T>> = new.collect();
            self.write(&self.small_name(epoch), previous, &new).await?;
            self.small.insert(epoch);
            return self.clean(None).await;
        }
        let mut all = match previous {
            Some(previous) => self.read(previous).await?,
            None => Vec::new(),
        };
        all.retain(|logged| keep(&logged.entry));
        all.extend(new);
        self.write(&self.compact_name(epoch), previous, &all)
            .await?;
        let base = self.compact.last().copied();
        self.compact.insert(epoch);
        self.clean(base).await
    }

    /// Deletes what may go by now; `base` is a compact file that a newer one has just replaced.
    async fn clean(&mut self, base: Option<Epoch>) -> Result<()> {
        let (delay_ms, now_ms) = match &self.cleanup {
            Cleanup::Never => return Ok(()),
            Cleanup::AtOnce => (0, i64::MAX),
            Cleanup::After(delay, clock) => (
                i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
                clock.now_ms(),
            ),
        };
        self.covered.extend(base.map(|base| (now_ms, base)));
        while let Some((_, base)) = self
            .covered
            .pop_front_if(|(since, _)| now_ms.saturating_sub(*since) >= delay_ms)
        {
            // The one that replaced it may have been void.
            if self.compact.range(base.next()..).next().is_some() {
                self.delete_covered_by(base).await?;
            }
        }
        Ok(())
    }

    /// True when the next file completes an interval: as many small files since the last compact as it takes.
    fn compaction_is_due(&self) -> bool {
        let since = match self.compact.last() {
            Some(last) => self.small.range(last.next()..).count(),
            None => self.small.len(),
        };
        since + 1 >= self.interval.get() as usize
    }

    /// The compact to start from and the small files to read after it. A compact that is newer than `up_to` also
    /// holds what is asked for, with later epochs to be left out.
    fn files_up_to(&self, up_to: Epoch) -> (Option<Epoch>, Vec<Epoch>) {
        if let Some(epoch) = self.compact.range(up_to..).next() {
            return (Some(*epoch), Vec::new());
        }
        let base = self.compact.range(..up_to).next_back().copied();
        let from = base.map_or(Epoch::FIRST, Epoch::next);
        (base, self.small.range(from..=up_to).copied().collect())
    }

    async fn discard_after(&mut self, up_to: Option<Epoch>) -> Result<()> {
        let from = up_to.map_or(Epoch::FIRST, Epoch::next);
        let void: BTreeSet<Epoch> = self
            .small
            .range(from..)
            .chain(self.compact.range(from..))
            .copied()
            .collect();
        for epoch in void {
            tracing::warn!(
                dir = %self.location.display_of(&self.dir),
                epoch = epoch.0,
                "source log of an epoch that was never planned is discarded"
            );
            self.discard(epoch).await?;
        }
        // An epoch in which the source has nothing new writes no file: a void one must not come back then.
        self.location.sync(&self.dir)
    }

    /// Deletes both kinds of file of `epoch`.
    async fn discard(&mut self, epoch: Epoch) -> Result<()> {
        if self.small.contains(&epoch) {
            self.location.delete(&self.small_name(epoch)).await?;
            self.small.remove(&epoch);
        }
        if self.compact.contains(&epoch) {
            self.location.delete(&self.compact_name(epoch)).await?;
            self.compact.remove(&epoch);
        }
        Ok(())
    }

    /// Deletes, oldest first, what compact `base` holds.
    async fn delete_covered_by(&mut self, base: Epoch) -> Result<()> {
        while let Some(epoch) = self.small.first().copied().filter(|epoch| *epoch <= base) {
            self.location.delete(&self.small_name(epoch)).await?;
            self.small.remove(&epoch);
        }
        while let Some(epoch) = self.compact.first().copied().filter(|epoch| *epoch < base) {
            self.location.delete(&self.compact_name(epoch)).await?;
            self.compact.remove(&epoch);
        }
        Ok(())
    }

    async fn write(
        &self,
        name: &str,
        previous: Option<Epoch>,
        entries: &[Logged<T>],
    ) -> Result<()> {
        let mut body = Vec::new();
        write_line(name, &mut body, &Head { previous })?;
        for logged in entries {
            write_line(name, &mut body, logged)?;
        }
        self.location.put(name, envelope::encode_text(&body)).await
    }

    async fn read_file(&self, epoch: Epoch, name: String) -> Result<SourceFile<T>> {
        let path = self.location.display_of(&name);
        let Some(file) = self.location.get(&name).await? else {
            return Err(StateError::Missing {
                path,
                epoch: Some(epoch),
                reason: "it was listed a moment ago".to_string(),
                remedy: REMEDY,
            });
        };
        let body = envelope::decode_text(&file)
            .map_err(|e| e.into_error(path.clone(), Some(epoch), REMEDY))?;
        parse(body).map_err(|e| StateError::Damaged {
            path,
            epoch: Some(epoch),
            reason: format!("its content is not understood: {e}"),
            remedy: REMEDY,
        })
    }

    fn small_name(&self, epoch: Epoch) -> String {
        format!("{}/{epoch}", self.dir)
    }

    fn compact_name(&self, epoch: Epoch) -> String {
        format!("{}/{epoch}{COMPACT}", self.dir)
    }
}

fn write_line<V: Serialize>(name: &str, body: &mut Vec<u8>, line: &V) -> Result<()> {
    serde_json::to_writer(&mut *body, line).map_err(|e| StateError::Codec {
        what: format!("an entry of the source log `{name}`"),
        reason: e.to_string(),
    })?;
    body.push(b'\n');
    Ok(())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<SourceFile<T>> {
    let mut lines = body.split(|&b| b == b'\n');
    let head: Head = serde_json::from_slice(lines.next().unwrap_or_default())?;
    let entries = lines
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect::<serde_json::Result<_>>()?;
    Ok(SourceFile {
        previous: head.previous,
        entries,
    })
}

#[cfg(test)]
mod tests;
