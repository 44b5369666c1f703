//! Adds epochs to the manifest, each atomically and only once.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use weir_runtime::{Epoch, Result, WeirError};
use weir_state::{CheckpointLocation, CreateOutcome};

use super::config::FileSinkConfig;
use super::manifest::{self, Line, Numbers, Owner};
use crate::file::logs::LogSettings;
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
    /// Numbers before which nobody reads, and since when, unix milliseconds.
    obsolete: VecDeque<(i64, u64)>,
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
            obsolete: VecDeque::new(),
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
        let lines = manifest::read_all(&self.store, &self.dir).await?;
        let lines = lines.unwrap_or_default();
        self.is_known = true;
        self.newest = lines
            .iter()
            .filter_map(|line| line.epoch_of(&self.owner))
            .max();
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
            let carried = if is_compact {
                self.carried(now_ms).await?
            } else {
                String::new()
            };
            let name = manifest::file_name(number, is_compact);
            match self
                .location
                .create(&name, manifest::encode(&carried, lines)?)
                .await?
            {
                CreateOutcome::AlreadyExists => self.reload().await?,
                CreateOutcome::Created => {
                    self.numbers.insert(number, is_compact);
                    self.newest = Some(epoch);
                    if is_compact && self.settings.delete {
                        let before = self.numbers.previous_compact();
                        self.obsolete.extend(before.map(|number| (now_ms, number)));
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

    /// What a compact file takes over from those before it.
    async fn carried(&self, now_ms: i64) -> Result<String> {
        let mut carried = String::new();
        for name in self.numbers.names(&self.dir)? {
            carried.push_str(&manifest::read_body(&self.store, &self.dir, &name).await?);
            carried.push('\n');
        }
        match self.retention {
            None => Ok(carried),
            Some(retention) => self.retained(&carried, retention, now_ms),
        }
    }

    /// Leaves out what is too old, but never the newest epoch of a query: it says which epochs are committed.
    fn retained(&self, carried: &str, retention: Duration, now_ms: i64) -> Result<String> {
        let lines = manifest::parse(&self.dir, carried)?;
        let oldest_ms =
            now_ms.saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX));
        let mut newest = std::collections::BTreeMap::new();
        for (query, sink, epoch) in lines.iter().filter_map(Line::origin) {
            let known = newest.entry((query, sink)).or_insert(epoch);
            *known = epoch.max(*known);
        }
        let mut kept = String::new();
        for line in &lines {
            let is_newest = line
                .origin()
                .is_some_and(|(query, sink, epoch)| newest.get(&(query, sink)) == Some(&epoch));
            if is_newest || line.modified_ms() >= oldest_ms {
                kept.push_str(&manifest::line_text(line)?);
                kept.push('\n');
            }
        }
        Ok(kept)
    }

    /// Best effort: what stays is removed after the next compaction.
    async fn remove_obsolete(&mut self, now_ms: i64) {
        let delay = i64::try_from(self.settings.cleanup_delay.as_millis()).unwrap_or(i64::MAX);
        while let Some((_, number)) = self
            .obsolete
            .pop_front_if(|(since, _)| now_ms.saturating_sub(*since) >= delay)
        {
            for name in self.numbers.before(number) {
                if let Err(error) = self.location.delete(&name).await {
                    tracing::debug!(%name, %error, "obsolete manifest file stays");
                    return;
                }
                self.numbers.remove(&name);
            }
        }
    }
}
