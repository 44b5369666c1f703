//! The commit of an epoch: one file with what changed, or with everything when that costs no more.

use super::{Chain, Durable, OperatorState};
use crate::changelog::{FileHeader, FileWriter, Link};
use crate::epoch::Epoch;
use crate::error::Result;
use crate::manifest::SnapshotRef;
use crate::names::segment;
use crate::snapshot;
use crate::table::{Change, Table, TableSpec};

/// Changes below this many bytes never lead to a full file.
const FULL_BYTES_MIN: u64 = 1 << 20;

impl OperatorState {
    /// Makes the state at the end of `epoch` durable and ends the epoch: slots are void. Returns what the manifest is to name:
    /// the same as before if nothing changed, nothing if there is no state yet or nothing is made durable.
    ///
    /// # Errors
    /// Of the checkpoint location and of the files. After an error the state cannot be used any more: restore it.
    pub async fn commit(&mut self, epoch: Epoch) -> Result<Option<SnapshotRef>> {
        let Some(mut durable) = self.durable.take() else {
            self.end_epoch();
            return Ok(None);
        };
        let committed = self.commit_to(&mut durable, epoch).await;
        self.durable = Some(durable);
        committed
    }

    async fn commit_to(
        &mut self,
        durable: &mut Durable,
        epoch: Epoch,
    ) -> Result<Option<SnapshotRef>> {
        durable.written = 0;
        let inherits = durable.chain.last.is_none() && !durable.chain.parents.is_empty();
        if !inherits && !self.tables.iter().any(Table::has_changes) {
            self.end_epoch();
            return Ok(durable.chain.last.clone());
        }
        let full = self.wants_full(durable);
        self.write(durable, epoch, full).await?;
        Ok(durable.chain.last.clone())
    }

    fn wants_full(&self, durable: &Durable) -> bool {
        let chain = &durable.chain;
        let is_first = chain.last.is_none() && chain.parents.is_empty();
        is_first
            || self.tables.iter().any(Table::was_rewritten)
            || chain.bytes > FULL_BYTES_MIN.max(self.live_bytes())
            || chain.files >= durable.config.max_chain
    }

    async fn write(&mut self, durable: &mut Durable, epoch: Epoch, full: bool) -> Result<()> {
        let config = &durable.config;
        config.hit("state:before")?;
        let header = FileHeader {
            epoch: epoch.0,
            generation: config.generation,
            subtask: config.subtask,
            groups: self.groups.clone(),
            full,
            tables: self.specs(),
            parents: if full {
                Vec::new()
            } else {
                durable.chain.links()
            },
            base: None,
        };
        let mut writer = FileWriter::new(&header, config.compression)?;
        self.fill(&mut writer, full);
        let raw_bytes = writer.raw_bytes();
        let finished = writer.finish();
        let file = format!(
            "{}/{}/{}/{epoch}.{}",
            snapshot::DIR,
            segment(&config.operator),
            config.subtask,
            config.generation
        );
        durable.written = finished.length;
        config.location.put(&file, finished.bytes).await?;
        config.hit("state:written")?;
        let since = durable.chain.since.filter(|_| !full).unwrap_or(epoch);
        let written = SnapshotRef {
            subtask: config.subtask,
            file,
            crc32: finished.crc32,
            bytes: finished.length,
            since: Some(since),
            base: None,
            groups: Some((self.groups.start, self.groups.end)),
        };
        durable.chain.continue_with(written, full, raw_bytes);
        Ok(())
    }

    fn fill(&mut self, writer: &mut FileWriter, full: bool) {
        for (index, table) in self.tables.iter_mut().enumerate() {
            if full {
                writer.table(index);
                table.each(&mut |entry| writer.change(Change::Set(entry)));
                table.end_epoch(&mut |_| {});
                continue;
            }
            if table.has_changes() {
                writer.table(index);
            }
            table.end_epoch(&mut |change| writer.change(change));
        }
    }

    pub(super) fn end_epoch(&mut self) {
        for table in &mut self.tables {
            table.end_epoch(&mut |_| {});
        }
    }

    fn specs(&self) -> Vec<TableSpec> {
        self.tables.iter().map(|t| t.spec().clone()).collect()
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

    fn continue_with(&mut self, written: SnapshotRef, full: bool, raw_bytes: u64) {
        if full {
            (self.files, self.bytes) = (0, 0);
        } else {
            self.files += 1;
            self.bytes += raw_bytes;
        }
        self.since = written.since;
        self.last = Some(written);
        self.parents.clear();
    }
}
