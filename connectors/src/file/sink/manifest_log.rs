//! Adds epochs to the manifest, each atomically and only once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use weir_runtime::{Epoch, Result, WeirError};
use weir_state::{CheckpointLocation, CreateOutcome};

use super::config::FileSinkConfig;
use super::manifest::{self, Line, Numbers, Owner};
use crate::file::logs::LogSettings;
use crate::file::source::files::FoundFile;
use crate::file::store::Store;

/// Most times another writer may be faster before this one gives up.
const ATTEMPTS: usize = 100;

/// What an addition did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// The lines are in the manifest now.
    Now,
    /// The epoch was there already; the lines are not added.
    Before,
}

/// The manifest as its writer sees it. Knows the numbers of the files and the newest epoch of its owner, not the lines: its
/// size does not grow.
#[derive(Debug)]
pub(super) struct ManifestLog {
    dir: PathBuf,
    location: CheckpointLocation,
    store: Store,
    owner: Owner,
    numbers: Numbers,
    newest: Option<Epoch>,
    /// Whether the manifest was read.
    is_known: bool,
    retention: Option<Duration>,
    settings: LogSettings,
    /// Since when compact files are there, unix milliseconds, as far as it was asked for.
    written: BTreeMap<u64, i64>,
}

impl ManifestLog {
    /// The manifest of the output directory `root`.
    pub(super) fn open(
        root: &Path,
        store: Store,
        owner: Owner,
        config: &FileSinkConfig,
    ) -> Result<Self> {
        let dir = root.join(manifest::DIR);
        let mut log = Self {
            location: store.location(&dir)?,
            store,
            dir,
            owner,
            numbers: Numbers::default(),
            newest: None,
            retention: config.retention,
            settings: config.log,
            written: BTreeMap::new(),
            is_known: false,
        };
        // An object store is asked when there is something to commit.
        log.reload().now_or_never().transpose()?;
        Ok(log)
    }

    async fn reload(&mut self) -> Result<()> {
        let numbers = Numbers::list(&self.store, &self.dir).await?;
        self.numbers = numbers.unwrap_or_default();
        self.numbers.compact_every(self.settings.compact_interval);
        let owner = self.owner.clone();
        let newest = |newest: &mut Option<Epoch>, line: Line| {
            *newest = (*newest).max(line.epoch_of(&owner));
        };
        let newest = manifest::fold(&self.store, &self.dir, newest).await?;
        self.is_known = true;
        self.newest = newest.flatten();
        Ok(())
    }

    /// Whether the epoch was added, or a later one: epochs come in order.
    ///
    /// # Errors
    /// If the manifest grew by another writer and cannot be read.
    pub(super) async fn holds(&mut self, epoch: Epoch) -> Result<bool> {
        if !self.is_known {
            self.reload().await?;
        }
        let next = self.numbers.next();
        let name = manifest::file_name(next, self.numbers.is_compact(next));
        if self.store.exists(&self.dir.join(name)).await? {
            self.reload().await?;
        }
        Ok(self.newest.is_some_and(|newest| epoch <= newest))
    }

    /// Adds an epoch. Another query may add to the same directory meanwhile; both end up in the manifest.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) async fn add(&mut self, epoch: Epoch, lines: &[Line], now_ms: i64) -> Result<Added> {
        for _ in 0..ATTEMPTS {
            if self.holds(epoch).await? {
                return Ok(Added::Before);
            }
            let number = self.numbers.next();
            let is_compact = self.numbers.is_compact(number);
            let mut text = if is_compact {
                self.carried(now_ms).await?
            } else {
                manifest::HEADER.to_owned()
            };
            manifest::push(&mut text, lines)?;
            let name = manifest::file_name(number, is_compact);
            match self.location.create(&name, text).await? {
                CreateOutcome::AlreadyExists => self.reload().await?,
                CreateOutcome::Created => {
                    self.numbers.insert(number, is_compact);
                    self.newest = Some(epoch);
                    if is_compact {
                        self.written.insert(number, now_ms);
                    }
                    self.remove_obsolete(now_ms).await;
                    return Ok(Added::Now);
                }
            }
        }
        Err(WeirError::external(format!(
            "manifest '{}' was changed by other writers {ATTEMPTS} times in a row",
            self.dir.display()
        )))
    }

    /// What a compact file takes over from those before it: the text of the newest compact one, and what came after it.
    async fn carried(&self, now_ms: i64) -> Result<String> {
        let mut carried = String::new();
        for name in self.numbers.names(&self.dir)? {
            let text = manifest::read_text(&self.store, &self.dir, &name).await?;
            if carried.is_empty() {
                carried = text;
                carried.truncate(carried.trim_end().len());
                continue;
            }
            for line in manifest::line_texts(&text) {
                manifest::push_text(&mut carried, line);
            }
        }
        match self.retention {
            _ if carried.is_empty() => Ok(manifest::HEADER.to_owned()),
            None => Ok(carried),
            Some(retention) => self.retained(&carried, retention, now_ms),
        }
    }

    /// Leaves out what is too old, but never the newest epoch of a query: it says which epochs are committed.
    fn retained(&self, carried: &str, retention: Duration, now_ms: i64) -> Result<String> {
        let lines: Vec<Line> = manifest::line_texts(carried)
            .map(|line| manifest::parse(&self.dir, line))
            .collect::<Result<_>>()?;
        let oldest_ms =
            now_ms.saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX));
        let mut newest = BTreeMap::new();
        for (query, sink, epoch) in lines.iter().filter_map(Line::origin) {
            let known = newest.entry((query, sink)).or_insert(epoch);
            *known = epoch.max(*known);
        }
        let mut kept = manifest::HEADER.to_owned();
        for (line, text) in lines.iter().zip(manifest::line_texts(carried)) {
            let is_newest = line
                .origin()
                .is_some_and(|(query, sink, epoch)| newest.get(&(query, sink)) == Some(&epoch));
            if is_newest || line.modified_ms() >= oldest_ms {
                manifest::push_text(&mut kept, text);
            }
        }
        Ok(kept)
    }

    /// Best effort: what stays is removed with a later epoch.
    async fn remove_obsolete(&mut self, now_ms: i64) {
        if !self.settings.delete {
            return;
        }
        let Some(number) = self.obsolete_before(now_ms).await else {
            return;
        };
        for name in self.numbers.before(number) {
            if let Err(error) = self.location.delete(&name).await {
                tracing::debug!(%name, %error, "obsolete manifest file stays");
                return;
            }
            self.numbers.remove(&name);
        }
        self.written = self.written.split_off(&number);
    }

    /// The newest compact file that another one has followed for as long as `cleanupDelay` says.
    async fn obsolete_before(&mut self, now_ms: i64) -> Option<u64> {
        let delay = i64::try_from(self.settings.cleanup_delay.as_millis()).unwrap_or(i64::MAX);
        for (old, new) in self.numbers.replaced() {
            if delay == 0 || now_ms.saturating_sub(self.written_ms(new).await?) >= delay {
                return Some(old);
            }
        }
        None
    }

    /// When a compact file was written; of those of earlier runs the store is asked.
    async fn written_ms(&mut self, number: u64) -> Option<i64> {
        if let Some(written) = self.written.get(&number) {
            return Some(*written);
        }
        let path = self.dir.join(manifest::file_name(number, true));
        let found = match &self.store {
            Store::Remote(remote) => remote
                .look(&path)
                .await
                .map(|object| object.map(|object| object.mtime_ms)),
            Store::Local => {
                FoundFile::look(&self.store, &path).map(|file| file.map(|file| file.mtime_ms))
            }
        };
        let written = found.ok().flatten()?;
        self.written.insert(number, written);
        Some(written)
    }
}
