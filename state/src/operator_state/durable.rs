//! [`Durable`]: what makes the tables of a subtask survive, epoch by epoch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

use super::StateConfig;
use crate::base::{self, Anchor, Base};
use crate::changelog::{FileHeader, FileWriter, Link};
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::files::{Files, WorkDir};
use crate::manifest::SnapshotRef;
use crate::names::segment;
use crate::snapshot;
use crate::table::{Change, Table, TableSpec};

/// Changes below this many bytes never lead to a full file or a base.
const CHAIN_BYTES_MIN: u64 = 1 << 20;
/// State above this many bytes is not written as a whole because of many small files: what changed goes into files, and a base
/// of them into the checkpoint.
const FULL_BYTES_MAX: u64 = 16 << 20;

/// What only state has that survives.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) config: StateConfig,
    /// Key groups of the subtask.
    pub(super) groups: Range<u32>,
    pub(super) chain: Chain,
    /// Bytes the last commit wrote.
    pub(super) written: u64,
    /// The files below memory, once memory did not suffice.
    pub(super) files: Option<Arc<Files>>,
    /// The newest base of this subtask.
    pub(super) anchor: Option<Anchor>,
    upload: Option<Upload>,
    /// Epochs a failed upload is not tried again for.
    pause: u32,
}

/// The files that make up the state as last committed.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The newest file, once this subtask has one.
    pub(super) last: Option<SnapshotRef>,
    /// Until then: the newest files of earlier subtasks, whose groups this one has taken over.
    pub(super) parents: Vec<Link>,
    /// Oldest epoch any of the files is of.
    pub(super) since: Option<Epoch>,
    /// Bases the chain starts from: that of this subtask, or those of earlier ones.
    pub(super) bases: Vec<String>,
    /// Epoch and bytes, before compression, of each file of changes since everything was written.
    pub(super) changes: VecDeque<(Epoch, u64)>,
}

/// A base on its way into the checkpoint.
#[derive(Debug)]
struct Upload {
    task: JoinHandle<Result<Anchor>>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Durable {
    pub(super) fn new(config: StateConfig, groups: Range<u32>) -> Self {
        Self {
            config,
            groups,
            chain: Chain::default(),
            written: 0,
            files: None,
            anchor: None,
            upload: None,
            pause: 0,
        }
    }

    pub(super) async fn commit(
        &mut self,
        tables: &mut [Table],
        epoch: Epoch,
    ) -> Result<Option<SnapshotRef>> {
        self.written = 0;
        self.pause = self.pause.saturating_sub(1);
        self.take_up_base(false).await;
        let inherits = self.chain.last.is_none() && !self.chain.parents.is_empty();
        if !inherits && !tables.iter().any(Table::has_changes) {
            end_epoch(tables)?;
            return Ok(self.chain.last.clone());
        }
        tables.iter_mut().try_for_each(Table::settle)?;
        let is_complete = tables.iter().all(Table::is_complete);
        let was_rewritten = tables.iter().any(Table::was_rewritten);
        if was_rewritten && !is_complete {
            self.write_rewritten(tables, epoch).await?;
        }
        let full = is_complete && (was_rewritten || self.wants_full(tables));
        self.write(tables, epoch, full).await?;
        if full && self.files.is_some() && memory(tables) <= self.config.memory_budget / 2 {
            tables.iter_mut().for_each(Table::detach);
            (self.files, self.anchor, self.upload) = (None, None, None);
        }
        self.spill(tables)?;
        if self.wants_base(tables) && self.pause == 0 {
            self.start_base(tables, epoch)?;
        }
        Ok(self.chain.last.clone())
    }

    /// Values rewritten in files are in no file of changes: their base must be there before anything names them.
    async fn write_rewritten(&mut self, tables: &mut [Table], epoch: Epoch) -> Result<()> {
        end_epoch(tables)?;
        self.take_up_base(true).await;
        self.start_base(tables, epoch)?;
        self.take_up_base(true).await;
        if self.anchor.as_ref().is_some_and(|a| a.epoch == epoch) {
            return Ok(());
        }
        Err(StateError::Files {
            action: "copy into the checkpoint",
            path: self.config.location.display(),
            reason: "rewritten values have to be there before the epoch is committed; the log has the cause"
                .to_string(),
        })
    }

    fn wants_full(&self, tables: &[Table]) -> bool {
        let is_first = self.chain.last.is_none() && self.chain.parents.is_empty();
        let whole = live(tables);
        is_first || self.outweighs(whole) || self.has_many_files() && whole <= FULL_BYTES_MAX
    }

    /// State without files that is small enough is written as a whole instead, with the next epoch.
    fn wants_base(&self, tables: &[Table]) -> bool {
        match &self.files {
            Some(_) => self.has_many_files() || self.outweighs(self.files_bytes()),
            None => self.has_many_files() && live(tables) > FULL_BYTES_MAX,
        }
    }

    /// True if writing everything, `whole` bytes, costs no more than what was written since it was done last.
    fn outweighs(&self, whole: u64) -> bool {
        let bytes: u64 = self.chain.changes.iter().map(|(_, bytes)| bytes).sum();
        bytes > CHAIN_BYTES_MIN.max(whole)
    }

    fn has_many_files(&self) -> bool {
        self.chain.changes.len() >= self.config.max_chain as usize
    }

    pub(super) fn files_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.bytes())
    }

    fn dir(&self) -> String {
        let operator = segment(&self.config.operator);
        format!("{}/{operator}/{}", snapshot::DIR, self.config.subtask)
    }

    async fn write(&mut self, tables: &mut [Table], epoch: Epoch, full: bool) -> Result<()> {
        let config = &self.config;
        config.hit("state:before")?;
        let anchor = self.anchor.as_ref().filter(|_| !full);
        let header = FileHeader {
            epoch: epoch.0,
            generation: config.generation,
            subtask: config.subtask,
            groups: self.groups.clone(),
            full,
            tables: specs(tables),
            parents: if full { Vec::new() } else { self.chain.links() },
            base: anchor.map(|anchor| anchor.link.clone()),
        };
        let mut writer = FileWriter::new(&header, config.compression)?;
        fill(tables, &mut writer, full)?;
        let raw_bytes = writer.raw_bytes();
        let finished = writer.finish();
        let file = format!("{}/{epoch}.{}", self.dir(), config.generation);
        self.written = finished.length;
        config.location.put(&file, finished.bytes).await?;
        config.hit("state:written")?;
        self.chain.grow(epoch, full, raw_bytes);
        self.chain.last = Some(SnapshotRef {
            subtask: config.subtask,
            file,
            crc32: finished.crc32,
            bytes: finished.length,
            since: self.chain.since,
            bases: self.chain.bases.clone(),
            groups: Some((self.groups.start, self.groups.end)),
        });
        Ok(())
    }

    /// Makes room if memory is over its budget: what is dirty goes into files, then the coldest entries are forgotten.
    pub(super) fn spill(&mut self, tables: &mut [Table]) -> Result<()> {
        let budget = self.config.memory_budget;
        if memory(tables) <= budget {
            return Ok(());
        }
        tables.iter_mut().for_each(Table::release);
        if memory(tables) <= budget {
            return Ok(());
        }
        self.flush(tables)?;
        forget(tables, budget / 10 * 6);
        Ok(())
    }

    fn flush(&mut self, tables: &mut [Table]) -> Result<()> {
        let files = self.files(tables)?;
        for (index, table) in tables.iter_mut().enumerate() {
            table.flush(&files.table(index))?;
        }
        Ok(())
    }

    fn files(&mut self, tables: &[Table]) -> Result<Arc<Files>> {
        if let Some(files) = &self.files {
            return Ok(Arc::clone(files));
        }
        let dir = Arc::new(WorkDir::create(self.config.local_dir.as_deref())?);
        let files = Files::open(dir, &specs(tables))?;
        self.files = Some(Arc::clone(&files));
        Ok(files)
    }

    /// Starts copying the files as of this epoch into the checkpoint, in the background. Between epochs.
    fn start_base(&mut self, tables: &mut [Table], epoch: Epoch) -> Result<()> {
        if self.upload.is_some() {
            return Ok(());
        }
        let runtime = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime,
            Err(error) => {
                self.base_failed(&error);
                return Ok(());
            }
        };
        self.flush(tables)?;
        let files = self.files(tables)?;
        let local = files.checkpoint(&format!("base-{epoch}"))?;
        let base = Base {
            epoch: epoch.0,
            generation: self.config.generation,
            subtask: self.config.subtask,
            groups: self.groups.clone(),
            tables: specs(tables),
            totals: tables.iter().map(Table::totals).collect(),
            data: self
                .anchor
                .as_ref()
                .map_or_else(Default::default, |a| a.data.clone()),
            small: Vec::new(),
        };
        let (config, dir) = (self.config.clone(), self.dir());
        let work_dir = Arc::clone(files.dir());
        let cancelled = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&cancelled);
        let copy = async move {
            config.hit("state:base")?;
            let done = base::upload(&config.location, &local, &dir, base, &stop).await;
            if let Err(error) = std::fs::remove_dir_all(&local) {
                tracing::debug!(path = %local.display(), %error, "local copy left behind");
            }
            drop(work_dir);
            done
        };
        let task = tokio::task::spawn_blocking(move || runtime.block_on(copy));
        self.upload = Some(Upload { task, cancelled });
        Ok(())
    }

    /// If a base has arrived, later files start from it. A failed one delays that and loses nothing.
    pub(super) async fn take_up_base(&mut self, wait: bool) {
        let Some(mut upload) = self.upload.take_if(|u| wait || u.task.is_finished()) else {
            return;
        };
        match (&mut upload.task).await {
            Ok(Ok(anchor)) => {
                self.chain.start_from(&anchor);
                self.anchor = Some(anchor);
            }
            Ok(Err(error)) => self.base_failed(&error),
            Err(error) => self.base_failed(&error),
        }
    }

    fn base_failed(&mut self, error: &dyn std::fmt::Display) {
        tracing::warn!(
            operator = %self.config.operator,
            subtask = self.config.subtask,
            %error,
            "state files could not be copied into the checkpoint; restoring has more files to read until they are"
        );
        self.pause = self.config.max_chain;
    }
}

impl Chain {
    /// The files a file of changes builds on.
    fn links(&self) -> Vec<Link> {
        match &self.last {
            Some(last) => vec![last.into()],
            None => self.parents.clone(),
        }
    }

    fn grow(&mut self, epoch: Epoch, full: bool, raw_bytes: u64) {
        if full {
            self.changes.clear();
            self.bases.clear();
            self.since = Some(epoch);
        } else {
            self.changes.push_back((epoch, raw_bytes));
            self.since = self.since.or(Some(epoch));
        }
        self.parents.clear();
    }

    fn start_from(&mut self, anchor: &Anchor) {
        while self
            .changes
            .front()
            .is_some_and(|(epoch, _)| *epoch <= anchor.epoch)
        {
            self.changes.pop_front();
        }
        self.since = Some(anchor.epoch);
        self.bases = vec![anchor.link.file.clone()];
    }
}

fn fill(tables: &mut [Table], writer: &mut FileWriter, full: bool) -> Result<()> {
    for (index, table) in tables.iter_mut().enumerate() {
        if full {
            writer.table(index);
            table.each(&mut |entry| writer.change(Change::Set(entry)));
            table.end_epoch(&mut |_| {})?;
            continue;
        }
        if table.has_changes() {
            writer.table(index);
        }
        table.end_epoch(&mut |change| writer.change(change))?;
    }
    Ok(())
}

/// Ends the epoch of tables nobody makes durable.
pub(super) fn end_epoch(tables: &mut [Table]) -> Result<()> {
    tables
        .iter_mut()
        .try_for_each(|table| table.end_epoch(&mut |_| {}))
}

/// Bytes of what memory has.
fn live(tables: &[Table]) -> u64 {
    tables.iter().map(|table| table.live_bytes() as u64).sum()
}

fn memory(tables: &[Table]) -> usize {
    tables.iter().map(|t| t.stats().memory_bytes as usize).sum()
}

pub(super) fn specs(tables: &[Table]) -> Vec<TableSpec> {
    tables.iter().map(|t| t.spec().clone()).collect()
}

/// Forgets the entries not touched for longest, so that about `target` bytes stay.
fn forget(tables: &mut [Table], target: usize) {
    let mut ages = std::collections::BTreeMap::new();
    for table in tables.iter() {
        table.ages(&mut |age, bytes| *ages.entry(age).or_insert(0) += bytes);
    }
    let mut room = target;
    let mut oldest = u32::MAX;
    for (age, bytes) in ages {
        oldest = age;
        match room.checked_sub(bytes) {
            Some(rest) => room = rest,
            // Of this age only some can stay.
            None => break,
        }
        oldest = age.saturating_add(1);
    }
    for table in tables {
        table.forget(&mut |age, bytes| {
            if age == oldest && bytes <= room {
                room -= bytes;
                return true;
            }
            age < oldest
        });
    }
}
