//! [`Ordered`]: tables whose entries are kept in key order, for reading a prefix.

mod cold;

use std::collections::{BTreeMap, HashMap};

use super::arena::{BLIND, CHANGED, DIRTY, IN_FILES, PRESENT};
use super::{Change, Entry, Visit};
use crate::error::Result;
use crate::files::{TableFiles, group_key, split_group_key};

/// Bytes an entry costs besides its key and value.
const OVERHEAD: usize = 96;

#[derive(Debug, Default)]
struct Held {
    value: Box<[u8]>,
    flags: u8,
    /// Epoch of the last use.
    stamp: u32,
}

/// Entries in order.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    entries: BTreeMap<Box<[u8]>, Held>,
    slots: Vec<Box<[u8]>>,
    index: HashMap<Box<[u8]>, usize>,
    /// Keys set or removed in the open epoch.
    changed: Vec<Box<[u8]>>,
    stamp: u32,
    bytes: usize,
    files: Option<TableFiles>,
    /// Entries of memory that have a value.
    held: u64,
    /// Slots looked up so far.
    loaded: usize,
    /// Keys set or removed without having been looked up.
    blind: Vec<Box<[u8]>>,
    /// Entries that exist, those only in files included.
    pub(crate) rows: u64,
    pub(crate) updated: u64,
    pub(crate) removed: u64,
}

impl Ordered {
    pub(crate) fn touch(&mut self, group: u16, key: &[u8]) -> usize {
        let full = group_key(group, key);
        if let Some(slot) = self.index.get(full.as_slice()) {
            return *slot;
        }
        if let Some(held) = self.entries.get_mut(full.as_slice()) {
            held.stamp = self.stamp;
        }
        let (slot, full) = (self.slots.len(), full.into_boxed_slice());
        self.slots.push(full.clone());
        self.index.insert(full, slot);
        slot
    }

    pub(crate) fn touched(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn value(&self, slot: usize) -> Option<&[u8]> {
        self.get(&self.slots[slot])
    }

    pub(crate) fn slot_key(&self, slot: usize) -> (u16, &[u8]) {
        split_group_key(&self.slots[slot])
    }

    pub(crate) fn set(&mut self, slot: usize, value: &[u8]) {
        let full = self.slots[slot].clone();
        self.put(&full, value);
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let full = self.slots[slot].clone();
        self.delete(&full);
    }

    /// What memory knows of a key.
    pub(crate) fn get(&self, full: &[u8]) -> Option<&[u8]> {
        let held = self.entries.get(full)?;
        (held.flags & PRESENT != 0).then_some(&*held.value)
    }

    /// The entry of a key, made if there is none; true if it may be that only files know of it.
    fn held(&mut self, full: &[u8]) -> (&mut Held, bool) {
        let absent = !self.entries.contains_key(full);
        let unknown = absent && self.held < self.rows;
        if absent {
            self.bytes += full.len() + OVERHEAD;
            let flags = if unknown { BLIND | IN_FILES } else { 0 };
            let made = Held {
                flags,
                ..Held::default()
            };
            self.entries.insert(full.into(), made);
        }
        let held = self.entries.get_mut(full);
        (held.expect("invariant: there or just made"), unknown)
    }

    pub(crate) fn put(&mut self, full: &[u8], value: &[u8]) {
        self.updated += 1;
        if self.get(full) == Some(value) {
            return;
        }
        let stamp = self.stamp;
        let (held, unknown) = self.held(full);
        let (is_new, is_first) = (held.flags & PRESENT == 0, held.flags & CHANGED == 0);
        let before = held.value.len();
        held.value = value.into();
        held.flags |= PRESENT | DIRTY | CHANGED;
        held.stamp = stamp;
        self.bytes = self.bytes + value.len() - before;
        self.held += u64::from(is_new);
        self.rows += u64::from(is_new);
        self.changed(full, is_first, unknown);
    }

    fn changed(&mut self, full: &[u8], is_first: bool, unknown: bool) {
        if is_first {
            self.changed.push(full.into());
        }
        if unknown {
            self.blind.push(full.into());
        }
    }

    pub(crate) fn delete(&mut self, full: &[u8]) {
        if !self.entries.contains_key(full) && self.held == self.rows {
            return;
        }
        let (held, unknown) = self.held(full);
        let is_there = held.flags & PRESENT != 0;
        if !is_there && !unknown {
            return;
        }
        let is_first = held.flags & CHANGED == 0;
        let before = std::mem::take(&mut held.value).len();
        held.flags = (held.flags | DIRTY | CHANGED) & !PRESENT;
        self.bytes -= before;
        if is_there {
            self.held -= 1;
            self.rows -= 1;
            self.removed += 1;
        }
        self.changed(full, is_first, unknown);
    }

    /// Entries whose full key starts with `prefix`, in order, until `visit` returns false.
    pub(crate) fn prefix(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let from = (
            std::ops::Bound::Included(prefix),
            std::ops::Bound::Unbounded,
        );
        let mut held = self
            .entries
            .range::<[u8], _>(from)
            .take_while(|(full, _)| full.starts_with(prefix))
            .filter(|(_, held)| held.flags & PRESENT != 0)
            .peekable();
        for row in self.cold(prefix) {
            let row = row?;
            let at = group_key(row.group, &row.key);
            while let Some((full, held)) = held.next_if(|(full, _)| ***full < *at) {
                if !visit(entry(full, &held.value))? {
                    return Ok(());
                }
            }
            if !visit(row.entry())? {
                return Ok(());
            }
        }
        for (full, held) in held {
            if !visit(entry(full, &held.value))? {
                return Ok(());
            }
        }
        Ok(())
    }

    pub(crate) fn scan(&self, visit: &mut Visit<'_>) -> Result<()> {
        self.prefix(&[], &mut |entry| visit(entry).map(|()| true))
    }

    pub(crate) fn each(&self, visit: &mut dyn FnMut(Entry<'_>)) {
        for (full, held) in &self.entries {
            if held.flags & PRESENT != 0 {
                visit(entry(full, &held.value));
            }
        }
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Ends the epoch: hands what changed to `changes` and voids the slots.
    ///
    /// # Errors
    /// Of the files.
    pub(crate) fn end_epoch(&mut self, changes: &mut dyn FnMut(Change<'_>)) -> Result<()> {
        self.settle_blind()?;
        for full in std::mem::take(&mut self.changed) {
            let Some(held) = self.entries.get_mut(&full) else {
                continue;
            };
            held.flags &= !CHANGED;
            let change = entry(&full, &held.value);
            if held.flags & PRESENT != 0 {
                changes(Change::Set(change));
                continue;
            }
            changes(Change::Removed(change));
            if held.flags & IN_FILES == 0 {
                self.entries.remove(&full);
                self.bytes -= full.len() + OVERHEAD;
            }
        }
        self.slots.clear();
        self.index.clear();
        self.loaded = 0;
        (self.updated, self.removed) = (0, 0);
        self.stamp = self.stamp.wrapping_add(1);
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

fn entry<'a>(full: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    let (group, key) = split_group_key(full);
    Entry {
        group: group.into(),
        time: 0,
        key,
        value,
    }
}
