//! One generation of a file source: which files were seen, which are planned, which wait.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use weir_runtime::{
    Admission, Clock, Epoch, Fault, Offset, Result, SourceContext, Split, WeirError,
};
use weir_state::{Cleanup, SourceLog};

use super::config::FileSourceConfig;
use super::files::{FileEntry, FoundFile, log_offset, offset};
use super::glance::Glance;
use super::listing::Listing;
use super::seen::{Novelty, SeenFiles};
use super::unread::{Limit, Unread};
use crate::file::store::Store;

/// Files chosen for the next epoch whose plan is not logged yet.
struct Pending {
    log_offset: u64,
    files: Vec<FoundFile>,
}

/// State of the source between `open` and the end of the generation.
pub(super) struct Run {
    config: Arc<FileSourceConfig>,
    listing: Arc<Listing>,
    uid: String,
    log: SourceLog<FileEntry>,
    seen: SeenFiles,
    /// Logged files of epochs that are not committed, oldest first.
    planned: VecDeque<FileEntry>,
    pending: Option<Pending>,
    unread: Unread,
    /// No file that arrives from now on is taken up.
    fixed: bool,
    /// Log offset of the newest logged epoch with files.
    newest: Option<u64>,
    /// Files left out for their age by the last listing.
    pub(super) too_old: usize,
    glance: Glance,
    clock: Arc<dyn Clock>,
    /// How often the directory was listed.
    pub(super) listings: u64,
}

impl Run {
    /// Reads the log up to the newest planned epoch; answers the files of the newest committed one as well, which may have to be
    /// cleaned still.
    pub(super) async fn start(
        config: Arc<FileSourceConfig>,
        listing: Arc<Listing>,
        context: SourceContext,
    ) -> Result<(Self, Vec<FileEntry>)> {
        let mut log: SourceLog<FileEntry> = SourceLog::open(
            context.checkpoint,
            &context.index.to_string(),
            config.log.compact_interval,
        )
        .await?
        .with_cleanup(cleanup(&config, &context.clock));
        let committed = context
            .committed
            .as_ref()
            .map(|end| log_offset(&context.uid, end))
            .transpose()?;
        let mut seen = SeenFiles::new(
            config.file_name_only,
            config.allow_overwrites,
            config.age_limit_ms(),
        );
        let mut planned = VecDeque::new();
        let mut last_committed = Vec::new();
        let mut newest = None;
        for logged in log.load(context.planned_epoch).await? {
            let entry = logged.entry;
            seen.add(&entry.local_path()?, entry.timestamp, entry.size);
            newest = newest.max(Some(entry.log_offset));
            if Some(entry.log_offset) > committed {
                planned.push_back(entry);
            } else if Some(entry.log_offset) == committed {
                last_committed.push(entry);
            }
        }
        seen.purge();
        let run = Self {
            config,
            listing,
            uid: context.uid,
            log,
            seen,
            planned,
            pending: None,
            unread: Unread::default(),
            fixed: false,
            newest,
            too_old: 0,
            glance: Glance::default(),
            clock: context.clock,
            listings: 0,
        };
        Ok((run, last_committed))
    }

    /// Chooses the files of the next epoch.
    pub(super) fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        let from = self.offset_of(start)?;
        if let Some(pending) = self.pending.take() {
            self.unread.put_back(pending.files);
        }
        let limit = match admission {
            Admission::Everything => Limit::None,
            Admission::Limited => Limit::of(&self.config),
        };
        let kept = self.fixed
            || self
                .unread
                .is_enough(limit, self.config.discard_cached_input_ratio);
        if !kept {
            self.unread = match self.glance.is_quiet() {
                true => Unread::default(),
                false => self.look()?,
            };
        }
        let files = self.take(limit, kept)?;
        if !self.fixed {
            self.unread.truncate(if self.config.latest_first {
                0
            } else {
                self.config.max_cached_files
            });
        }
        if files.is_empty() {
            return Ok(start.cloned());
        }
        let log_offset = from.map_or(0, |from| from + 1);
        self.pending = Some(Pending { log_offset, files });
        Ok(Some(offset(log_offset)))
    }

    /// Takes files of the queue; those of an earlier listing are looked at again, because they may be gone or grown by now.
    ///
    /// # Errors
    /// If one cannot be looked at: left out, it would be missing in a query that ends with the files that are there.
    fn take(&mut self, limit: Limit, looked_at_before: bool) -> Result<Vec<FoundFile>> {
        loop {
            let files = self.unread.take(limit);
            if !looked_at_before || files.is_empty() {
                return Ok(files);
            }
            let mut there = Vec::with_capacity(files.len());
            for file in &files {
                there.extend(look_again(self.listing.store(), &file.path)?);
            }
            if !there.is_empty() {
                return Ok(there);
            }
        }
    }

    fn look(&mut self) -> Result<Unread> {
        self.listings += 1;
        self.seen.begin_listing();
        let seen = &self.seen;
        let listed = self.listing.list(&mut |path| seen.wants(path))?;
        let mut found = listed.files;
        let mut too_old = 0;
        found.retain(|file| match self.seen.classify(file) {
            Novelty::New => true,
            Novelty::Seen => false,
            Novelty::TooOld => {
                too_old += 1;
                false
            }
            Novelty::Changed { size, mtime_ms } => {
                warn_changed(file, size, mtime_ms);
                false
            }
        });
        if too_old > self.too_old {
            tracing::warn!(
                source = %self.uid,
                files = too_old,
                max_file_age = ?self.config.max_file_age,
                "files are left out because they are older than the newest file by more than maxFileAge"
            );
        }
        self.too_old = too_old;
        // A file that grows in its place changes no directory.
        match found.is_empty() && too_old == 0 && !listed.waits && !self.config.allow_overwrites {
            true => self
                .glance
                .found_nothing(listed.stamps, self.clock.now_ms()),
            false => self.glance.forget(),
        }
        if self.config.file_name_only {
            self.drop_same_names(&mut found);
        }
        Ok(Unread::new(found, self.config.latest_first))
    }

    /// Of several new files with one name, the first in arrival order stands for all.
    fn drop_same_names(&self, found: &mut Vec<FoundFile>) {
        found.sort_unstable_by(FoundFile::arrival);
        let mut names = std::collections::HashSet::new();
        found.retain(|file| names.insert(file.path.file_name().map(std::ffi::OsStr::to_owned)));
    }

    /// Looks once more and then never again.
    pub(super) fn fix_end(&mut self) -> Result<()> {
        self.unread = self.look()?;
        self.pending = None;
        self.fixed = true;
        Ok(())
    }

    /// Writes the chosen files to the log; from then on they are seen.
    pub(super) async fn log(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<()> {
        let to = log_offset(&self.uid, end)?;
        if self.offset_of(start)? == Some(to)
            || self
                .planned
                .back()
                .is_some_and(|entry| entry.log_offset >= to)
        {
            return Ok(());
        }
        let Some(pending) = self
            .pending
            .as_ref()
            .filter(|pending| pending.log_offset == to)
        else {
            return Err(WeirError::internal(format!(
                "offset {end} of source '{}' was asked to be logged but was not handed out",
                self.uid
            )));
        };
        let entries: Vec<FileEntry> = pending
            .files
            .iter()
            .map(|file| FileEntry::new(file, to))
            .collect();
        let oldest = self.planned.front().map_or(to, |entry| entry.log_offset);
        let seen = &self.seen;
        let keep = |entry: &FileEntry| entry.log_offset >= oldest || seen.keeps(entry.timestamp);
        self.log.append(epoch, entries.clone(), keep).await?;
        for file in &pending.files {
            self.seen.add(&file.path, file.mtime_ms, file.size);
        }
        self.seen.purge();
        self.planned.extend(entries);
        self.newest = Some(to);
        self.pending = None;
        Ok(())
    }

    /// The logged files of (start, end], in the order in which they were chosen.
    pub(super) fn splits(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Split>> {
        let (from, to) = (self.offset_of(start)?, log_offset(&self.uid, end)?);
        let first = from.map_or(0, |from| from + 1);
        let mut next = first;
        let mut splits = Vec::new();
        for entry in self
            .planned
            .iter()
            .filter(|entry| (first..=to).contains(&entry.log_offset))
        {
            if entry.log_offset > next {
                break;
            }
            next = entry.log_offset + 1;
            splits.push(entry.split()?);
        }
        if next <= to {
            return Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "the log of source '{}' has no files for log offset {next}, but a plan reads from {first} to {to}; \
                     restore directory 'sources' of the checkpoint",
                    self.uid
                ),
            ));
        }
        Ok(splits)
    }

    /// Forgets the plan of committed epochs; answers their files.
    pub(super) fn committed(&mut self, end: &Offset) -> Result<Vec<FileEntry>> {
        let to = log_offset(&self.uid, end)?;
        let mut files = Vec::new();
        while let Some(entry) = self.planned.pop_front_if(|entry| entry.log_offset <= to) {
            files.push(entry);
        }
        Ok(files)
    }

    pub(super) fn newest(&self) -> Option<Offset> {
        self.newest.map(offset)
    }

    /// Files known and not committed.
    pub(super) fn left(&self) -> u64 {
        let pending = self
            .pending
            .as_ref()
            .map_or(0, |pending| pending.files.len());
        (self.planned.len() + pending + self.unread.len()) as u64
    }

    fn offset_of(&self, start: Option<&Offset>) -> Result<Option<u64>> {
        start.map(|start| log_offset(&self.uid, start)).transpose()
    }
}

fn cleanup(config: &FileSourceConfig, clock: &Arc<dyn Clock>) -> Cleanup {
    match config.log.delete {
        false => Cleanup::Never,
        true if config.log.cleanup_delay.is_zero() => Cleanup::AtOnce,
        true => Cleanup::After(config.log.cleanup_delay, Arc::clone(clock)),
    }
}

/// The file as it is now; `None` if it is gone, which is fine as long as no epoch is planned to read it.
fn look_again(store: &Store, path: &Path) -> Result<Option<FoundFile>> {
    let file = FoundFile::look(store, path)?;
    if file.is_none() {
        tracing::warn!(file = %path.display(), "file was listed and is gone, it is left out");
    }
    Ok(file)
}

fn warn_changed(file: &FoundFile, size: u64, mtime_ms: i64) {
    tracing::warn!(
        file = %file.path.display(),
        old_size = size,
        old_mtime_ms = mtime_ms,
        size = file.size,
        mtime_ms = file.mtime_ms,
        "file changed after it was read; it is not read again"
    );
}
