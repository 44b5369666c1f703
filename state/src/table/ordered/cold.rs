//! The files below memory, as for tables found by hash.

use super::{Held, OVERHEAD, Ordered};
use crate::error::Result;
use crate::files::{Row, TableFiles, Write, group_key};
use crate::table::Entry;
use crate::table::arena::{BLIND, DIRTY, IN_FILES, PRESENT};

/// Entries written at once.
const RUN: usize = 1 << 17;

impl Ordered {
    /// Looks up what memory does not know of the touched slots.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded == self.slots.len() && self.blind.is_empty()
    }

    pub(crate) fn load(&mut self) -> Result<()> {
        let slots = self.slots[self.loaded..].to_vec();
        self.loaded = self.slots.len();
        self.look_up(slots)?;
        self.settle_blind()
    }

    /// Reads keys memory does not know into it.
    pub(crate) fn look_up(&mut self, mut keys: Vec<Box<[u8]>>) -> Result<()> {
        let Some(files) = self.files.clone().filter(|_| self.held < self.rows) else {
            return Ok(());
        };
        keys.retain(|full| !self.entries.contains_key(full));
        keys.sort_unstable();
        keys.dedup();
        let wanted: Vec<&[u8]> = keys.iter().map(|full| &**full).collect();
        files.look_up(&wanted, |at, value| {
            if let Some(value) = value {
                self.bytes += keys[at].len() + value.len() + OVERHEAD;
                self.held += 1;
                let held = Held {
                    value: value.into(),
                    flags: PRESENT | IN_FILES,
                    stamp: self.stamp,
                };
                self.entries.insert(keys[at].clone(), held);
            }
            Ok(())
        })
    }

    /// Settles whether what was set or removed blindly had existed.
    pub(crate) fn settle_blind(&mut self) -> Result<()> {
        let mut blind = std::mem::take(&mut self.blind);
        let Some(files) = self.files.clone().filter(|_| !blind.is_empty()) else {
            return Ok(());
        };
        blind.sort_unstable();
        let wanted: Vec<&[u8]> = blind.iter().map(|full| &**full).collect();
        files.look_up(&wanted, |at, value| {
            if let Some(held) = self.entries.get_mut(&blind[at]) {
                held.flags &= !BLIND;
                if value.is_some() {
                    self.rows -= 1;
                    self.removed += u64::from(held.flags & PRESENT == 0);
                } else {
                    held.flags &= !IN_FILES;
                }
            }
            Ok(())
        })
    }

    /// What only files have under a prefix, in order.
    pub(super) fn cold(&self, prefix: &[u8]) -> Box<dyn Iterator<Item = Result<Row>> + '_> {
        let Some(files) = self.files.as_ref().filter(|_| self.held < self.rows) else {
            return Box::new(std::iter::empty());
        };
        let rows = files.rows(prefix, after_prefix(prefix));
        Box::new(rows.filter(|row| {
            row.as_ref().map_or(true, |row| {
                let full = group_key(row.group, &row.key);
                !self.entries.contains_key(full.as_slice())
            })
        }))
    }

    /// Brings the files to the state of memory. Between epochs.
    pub(crate) fn flush(&mut self, files: &TableFiles) -> Result<()> {
        self.files = Some(files.clone());
        let dirty: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, held)| held.flags & DIRTY != 0 && held.flags & (PRESENT | IN_FILES) != 0)
            .collect();
        for run in dirty.chunks(RUN) {
            let changes = run.iter().map(|(full, held)| {
                let entry: Entry<'_> = super::entry(full, &held.value);
                if held.flags & PRESENT != 0 {
                    Write::Put(entry)
                } else {
                    Write::Delete(entry)
                }
            });
            files.writer().run(run.len(), changes)?;
        }
        self.keep(|held, _| held.flags & PRESENT != 0);
        for held in self.entries.values_mut() {
            held.flags = held.flags & !DIRTY | IN_FILES;
        }
        Ok(())
    }

    fn keep(&mut self, mut wanted: impl FnMut(&Held, usize) -> bool) {
        let (bytes, rows) = (&mut self.bytes, &mut self.held);
        self.entries.retain(|full, held| {
            let size = full.len() + held.value.len() + OVERHEAD;
            let keep = wanted(held, size);
            if !keep {
                *bytes -= size;
                *rows -= u64::from(held.flags & PRESENT != 0);
            }
            keep
        });
    }

    /// Replaces every value. Between epochs.
    pub(crate) fn rewrite(
        &mut self,
        rewrite: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<()> {
        if let Some(files) = self.files.clone() {
            files.rewrite(self.cold(&[]), rewrite)?;
        }
        for held in self.entries.values_mut() {
            if held.flags & PRESENT != 0 {
                let value = rewrite(&held.value)?;
                self.bytes = self.bytes + value.len() - held.value.len();
                held.value = value.into();
                held.flags |= DIRTY;
            }
        }
        Ok(())
    }

    /// Hands on age, in epochs since the last use, and bytes of every entry.
    pub(crate) fn ages(&self, visit: &mut dyn FnMut(u32, usize)) {
        for (full, held) in &self.entries {
            let age = self.stamp.wrapping_sub(held.stamp);
            visit(age, full.len() + held.value.len() + OVERHEAD);
        }
    }

    /// Forgets the entries `keep` does not want, given age and bytes. After a flush.
    pub(crate) fn forget(&mut self, keep: &mut dyn FnMut(u32, usize) -> bool) {
        let stamp = self.stamp;
        self.keep(|held, size| keep(stamp.wrapping_sub(held.stamp), size));
    }

    /// Entries of memory that have a value.
    pub(crate) fn rows_in_memory(&self) -> u64 {
        self.held
    }

    /// Takes over files another run has flushed.
    pub(crate) fn attach(&mut self, files: TableFiles, total: u64) {
        self.files = Some(files);
        self.rows += total;
    }

    /// Lets go of the files: memory has everything.
    pub(crate) fn detach(&mut self) {
        self.files = None;
        self.keep(|held, _| held.flags & PRESENT != 0);
        for held in self.entries.values_mut() {
            held.flags = held.flags & !IN_FILES | DIRTY;
        }
    }
}

/// The first key after all that start with `prefix`, `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xFF)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}
