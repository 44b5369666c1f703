//! What the state of an operator does with its tables: ends epochs, does them again, brings files up to date, forgets.

use std::ops::Range;

use super::{Change, Entry, Store, Table};
use crate::error::Result;
use crate::files::TableFiles;

impl Table {
    /// Does again what an epoch did, to the entries of these key groups.
    pub(crate) fn apply(&mut self, change: Change<'_>, groups: &Range<u32>) -> Result<()> {
        match change {
            Change::Set(entry) if groups.contains(&entry.group) => {
                let slot = self.touch(entry.group, entry.time, entry.key);
                self.set_expiring(slot, entry.value, entry.time);
            }
            Change::Removed(entry) if groups.contains(&entry.group) => {
                let slot = self.touch(entry.group, entry.time, entry.key);
                self.remove(slot);
            }
            Change::Expired(bound) => {
                self.expire_silently(bound)?;
            }
            Change::Set(_) | Change::Removed(_) => {}
        }
        Ok(())
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.rewritten
            || match &self.store {
                Store::Hashed(table) => table.has_changes(),
                Store::Ordered(table) => table.has_changes(),
            }
    }

    /// True if only a full file can say what the epoch did.
    pub(crate) fn was_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Every entry of memory, in no order.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(Entry<'_>)) {
        match &self.store {
            Store::Hashed(table) => table.each(visit),
            Store::Ordered(table) => table.each(visit),
        }
    }

    /// Ends the epoch, handing on what it changed. Slots are void.
    pub(crate) fn end_epoch(&mut self, changes: &mut dyn FnMut(Change<'_>)) -> Result<()> {
        self.rewritten = false;
        match &mut self.store {
            Store::Hashed(table) => table.end_epoch(changes),
            Store::Ordered(table) => table.end_epoch(changes),
        }
    }

    /// Gives back memory that is kept for entries to come.
    pub(crate) fn release(&mut self) {
        if let Store::Hashed(table) = &mut self.store {
            table.release();
        }
    }

    /// Settles the counts of entries that were set or removed without being looked up.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match &mut self.store {
            Store::Hashed(table) => table.settle_blind(),
            Store::Ordered(table) => table.settle_blind(),
        }
    }

    /// True if memory has every entry.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.store {
            Store::Hashed(table) => table.rows_in_memory() == table.rows,
            Store::Ordered(table) => table.rows_in_memory() == table.rows,
        }
    }

    /// Brings the files to the state of memory. Between epochs.
    pub(crate) fn flush(&mut self, files: &TableFiles) -> Result<()> {
        match &mut self.store {
            Store::Hashed(table) => table.flush(files),
            Store::Ordered(table) => table.flush(files),
        }
    }

    /// Hands on age, in epochs, and bytes of every entry in memory.
    pub(crate) fn ages(&self, visit: &mut dyn FnMut(u32, usize)) {
        match &self.store {
            Store::Hashed(table) => table.ages(visit),
            Store::Ordered(table) => table.ages(visit),
        }
    }

    /// Forgets the entries `keep` does not want, given age and bytes. After a flush.
    pub(crate) fn forget(&mut self, keep: &mut dyn FnMut(u32, usize) -> bool) {
        match &mut self.store {
            Store::Hashed(table) => table.forget(keep),
            Store::Ordered(table) => table.forget(keep),
        }
    }

    /// Number of entries by bucket of time; one bucket 0 if the table is not timed.
    pub(crate) fn totals(&self) -> Vec<(i64, u64)> {
        match &self.store {
            Store::Hashed(table) => table.totals(),
            Store::Ordered(table) => vec![(0, table.rows)],
        }
    }

    /// Takes over files that hold so many entries. On an empty table.
    pub(crate) fn attach(&mut self, files: TableFiles, totals: &[(i64, u64)]) {
        match &mut self.store {
            Store::Hashed(table) => table.attach(files, totals),
            Store::Ordered(table) => table.attach(files, totals.iter().map(|(_, n)| n).sum()),
        }
    }

    /// Lets go of the files: memory has everything.
    pub(crate) fn detach(&mut self) {
        match &mut self.store {
            Store::Hashed(table) => table.detach(),
            Store::Ordered(table) => table.detach(),
        }
    }

    /// Bytes of entries in memory.
    pub(crate) fn live_bytes(&self) -> usize {
        match &self.store {
            Store::Hashed(table) => table.live_bytes(),
            Store::Ordered(table) => table.memory_bytes(),
        }
    }
}
