//! [`Ordered`]: tables whose entries are kept in key order, for reading a prefix.

use std::collections::{BTreeMap, HashMap};

use super::arena::{CHANGED, DIRTY, IN_FILES, PRESENT};
use super::{Change, Entry, Visit};
use crate::error::Result;

/// Bytes an entry costs besides its key and value.
const OVERHEAD: usize = 96;

/// Group, big-endian, and key: the order of these bytes is the order of the table.
pub(crate) fn full_key(group: u16, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(2 + key.len());
    full.extend_from_slice(&group.to_be_bytes());
    full.extend_from_slice(key);
    full
}

/// Takes a full key apart.
pub(crate) fn split_key(full: &[u8]) -> (u16, &[u8]) {
    match full.split_first_chunk::<2>() {
        Some((group, key)) => (u16::from_be_bytes(*group), key),
        None => (0, full),
    }
}

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
    pub(crate) rows: u64,
    pub(crate) updated: u64,
    pub(crate) removed: u64,
}

impl Ordered {
    pub(crate) fn touch(&mut self, group: u16, key: &[u8]) -> usize {
        let full = full_key(group, key);
        if let Some(slot) = self.index.get(full.as_slice()) {
            return *slot;
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
        split_key(&self.slots[slot])
    }

    pub(crate) fn set(&mut self, slot: usize, value: &[u8]) {
        let full = self.slots[slot].clone();
        self.put(&full, value);
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let full = self.slots[slot].clone();
        self.delete(&full);
    }

    pub(crate) fn get(&self, full: &[u8]) -> Option<&[u8]> {
        let held = self.entries.get(full)?;
        (held.flags & PRESENT != 0).then_some(&*held.value)
    }

    pub(crate) fn put(&mut self, full: &[u8], value: &[u8]) {
        self.updated += 1;
        if self.get(full) == Some(value) {
            return;
        }
        if !self.entries.contains_key(full) {
            self.bytes += full.len() + OVERHEAD;
            self.entries.insert(full.into(), Held::default());
        }
        let stamp = self.stamp;
        let held = self.entries.get_mut(full).expect("invariant: just made");
        self.rows += u64::from(held.flags & PRESENT == 0);
        if held.flags & CHANGED == 0 {
            self.changed.push(full.into());
        }
        self.bytes = self.bytes + value.len() - held.value.len();
        held.value = value.into();
        held.flags |= PRESENT | DIRTY | CHANGED;
        held.stamp = stamp;
    }

    pub(crate) fn delete(&mut self, full: &[u8]) {
        let Some(held) = self.entries.get_mut(full) else {
            return;
        };
        if held.flags & PRESENT == 0 {
            return;
        }
        if held.flags & CHANGED == 0 {
            self.changed.push(full.into());
        }
        self.bytes -= held.value.len();
        held.value = Box::default();
        held.flags = (held.flags | DIRTY | CHANGED) & !PRESENT;
        self.rows -= 1;
        self.removed += 1;
    }

    pub(crate) fn prefix(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let from = self.entries.range::<[u8], _>((
            std::ops::Bound::Included(prefix),
            std::ops::Bound::Unbounded,
        ));
        for (full, held) in from.take_while(|(full, _)| full.starts_with(prefix)) {
            if held.flags & PRESENT != 0 && !visit(entry(full, &held.value))? {
                break;
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

    pub(crate) fn end_epoch(&mut self, changes: &mut dyn FnMut(Change<'_>)) {
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
        (self.updated, self.removed) = (0, 0);
        self.stamp = self.stamp.wrapping_add(1);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

fn entry<'a>(full: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    let (group, key) = split_key(full);
    Entry {
        group: group.into(),
        time: 0,
        key,
        value,
    }
}
