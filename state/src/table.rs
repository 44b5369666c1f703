//! [`Table`]: the keyed state of one operator subtask, and [`OperatorState`]: its tables together.
//!
//! An operator *touches* the keys an epoch concerns; each gets a slot (0, 1, 2 … in order of first touch) that stays valid
//! until the epoch's end. Old values are looked up once per touched key ([`Table::load`]), new ones are set once.

use std::collections::{BTreeMap, HashMap};

use crate::error::Result;

/// How the entries of a table are found and when they go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// By key; entries stay until removed.
    Keyed,
    /// By (time, key): the time is part of the identity and never changes. Everything up to a bound goes at once, as whole
    /// buckets of `bucket` time units.
    Timed {
        /// Width of a bucket, in the units of the times (1 or more).
        bucket: i64,
    },
    /// By key; each value carries a time at which it expires.
    Expiring,
    /// By key, in key order: entries of one key group that share a prefix can be read in order.
    Ordered,
}

/// What a table is called and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// Name, unique in the operator: letters, digits, `-`, `_`.
    pub name: String,
    /// How entries are found.
    pub kind: TableKind,
    /// Version of the layout of keys and values; a checkpoint of another version is refused.
    pub version: u16,
    /// Columns of the key as text, for readers of the checkpoint.
    pub key: String,
    /// Columns of the value as text, for readers of the checkpoint.
    pub value: String,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Key group the key belongs to.
    pub group: u32,
    /// Time of the identity (timed) or of the expiry (expiring); 0 in other tables.
    pub time: i64,
    /// Key.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// Counters of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Entries now.
    pub rows: u64,
    /// Entries set in the open epoch.
    pub updated: u64,
    /// Entries removed in the open epoch.
    pub removed: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

type Id = (u32, i64, Vec<u8>);

/// The keyed state of one operator subtask.
#[derive(Debug)]
pub struct Table {
    kind: TableKind,
    entries: BTreeMap<Id, (Vec<u8>, i64)>,
    slots: Vec<Id>,
    index: HashMap<Id, usize>,
    updated: u64,
    removed: u64,
}

impl Table {
    fn new(spec: &TableSpec) -> Self {
        Self {
            kind: spec.kind,
            entries: BTreeMap::new(),
            slots: Vec::new(),
            index: HashMap::new(),
            updated: 0,
            removed: 0,
        }
    }

    /// Slot of (time, key) in the open epoch: 0, 1, 2 … in order of first touch.
    pub fn touch(&mut self, group: u32, time: i64, key: &[u8]) -> usize {
        let time = if matches!(self.kind, TableKind::Timed { .. }) {
            time
        } else {
            0
        };
        let id = (group, time, key.to_vec());
        let next = self.slots.len();
        let slot = *self.index.entry(id.clone()).or_insert(next);
        if slot == next {
            self.slots.push(id);
        }
        slot
    }

    /// Number of slots of the open epoch.
    pub fn touched(&self) -> usize {
        self.slots.len()
    }

    /// Looks up what memory does not know of the touched slots.
    ///
    /// # Errors
    /// Of the store.
    pub fn load(&mut self) -> Result<()> {
        Ok(())
    }

    /// Value of a slot; `None` if there is no such entry.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.entries
            .get(&self.slots[slot])
            .map(|(value, _)| value.as_slice())
    }

    /// Key of a slot.
    pub fn key(&self, slot: usize) -> &[u8] {
        &self.slots[slot].2
    }

    /// Time of a slot: of its identity (timed) or its expiry (expiring).
    pub fn time(&self, slot: usize) -> i64 {
        match self.kind {
            TableKind::Timed { .. } => self.slots[slot].1,
            _ => self
                .entries
                .get(&self.slots[slot])
                .map_or(0, |(_, time)| *time),
        }
    }

    /// Key group of a slot.
    pub fn group(&self, slot: usize) -> u32 {
        self.slots[slot].0
    }

    /// Sets the value of a slot.
    pub fn set(&mut self, slot: usize, value: &[u8]) {
        let id = self.slots[slot].clone();
        let time = id.1;
        self.entries.insert(id, (value.to_vec(), time));
        self.updated += 1;
    }

    /// Sets the value of a slot and when it expires.
    pub fn set_expiring(&mut self, slot: usize, value: &[u8], expires: i64) {
        let id = self.slots[slot].clone();
        self.entries.insert(id, (value.to_vec(), expires));
        self.updated += 1;
    }

    /// Removes the entry of a slot.
    pub fn remove(&mut self, slot: usize) {
        if self.entries.remove(&self.slots[slot]).is_some() {
            self.removed += 1;
        }
    }

    /// Removes every entry whose time is at or before `bound`, handing each to `visit` in order of (time, key).
    ///
    /// # Errors
    /// Of the store and of `visit`.
    pub fn expire(
        &mut self,
        bound: i64,
        visit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut due: Vec<(Id, i64)> = self
            .entries
            .iter()
            .filter(|(_, (_, time))| *time <= bound)
            .map(|(id, (_, time))| (id.clone(), *time))
            .collect();
        due.sort_by(|a, b| (a.1, &a.0.2).cmp(&(b.1, &b.0.2)));
        for (id, time) in &due {
            if let Some((value, _)) = self.entries.remove(id) {
                visit(Entry {
                    group: id.0,
                    time: *time,
                    key: &id.2,
                    value: &value,
                })?;
            }
        }
        self.removed += due.len() as u64;
        Ok(due.len() as u64)
    }

    /// [`expire`](Self::expire) without looking at what goes.
    ///
    /// # Errors
    /// Of the store.
    pub fn expire_silently(&mut self, bound: i64) -> Result<u64> {
        self.expire(bound, &mut |_| Ok(()))
    }

    /// Every entry, in order of (group, key), timed tables of (time, key).
    ///
    /// # Errors
    /// Of the store and of `visit`.
    pub fn scan(&mut self, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        for (id, (value, time)) in &self.entries {
            visit(Entry {
                group: id.0,
                time: *time,
                key: &id.2,
                value,
            })?;
        }
        Ok(())
    }

    /// Entries of `group` whose key starts with `prefix`, in key order, until `visit` returns false (ordered tables).
    ///
    /// # Errors
    /// Of the store and of `visit`.
    pub fn prefix(
        &mut self,
        group: u32,
        prefix: &[u8],
        visit: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        for (id, (value, time)) in self.entries.range((group, 0, prefix.to_vec())..) {
            if id.0 != group || !id.2.starts_with(prefix) {
                break;
            }
            if !visit(Entry {
                group: id.0,
                time: *time,
                key: &id.2,
                value,
            })? {
                break;
            }
        }
        Ok(())
    }

    /// Value of a key (ordered tables).
    ///
    /// # Errors
    /// Of the store.
    pub fn get(&mut self, group: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self
            .entries
            .get(&(group, 0, key.to_vec()))
            .map(|(value, _)| value.clone()))
    }

    /// Sets the value of a key (ordered tables).
    ///
    /// # Errors
    /// Of the store.
    pub fn put(&mut self, group: u32, key: &[u8], value: &[u8]) -> Result<()> {
        self.entries
            .insert((group, 0, key.to_vec()), (value.to_vec(), 0));
        self.updated += 1;
        Ok(())
    }

    /// Removes a key (ordered tables).
    ///
    /// # Errors
    /// Of the store.
    pub fn delete(&mut self, group: u32, key: &[u8]) -> Result<()> {
        if self.entries.remove(&(group, 0, key.to_vec())).is_some() {
            self.removed += 1;
        }
        Ok(())
    }

    /// Counters.
    pub fn stats(&self) -> TableStats {
        TableStats {
            rows: self.entries.len() as u64,
            updated: self.updated,
            removed: self.removed,
            memory_bytes: 0,
        }
    }

    fn end_epoch(&mut self) {
        self.slots.clear();
        self.index.clear();
        self.updated = 0;
        self.removed = 0;
    }
}

/// All tables of one operator subtask, in the order of their specs.
#[derive(Debug)]
pub struct OperatorState {
    tables: Vec<Table>,
}

impl OperatorState {
    /// Empty tables in memory that nothing makes durable.
    pub fn in_memory(specs: &[TableSpec]) -> Self {
        Self {
            tables: specs.iter().map(Table::new).collect(),
        }
    }

    /// The table of this index of the specs.
    pub fn table(&mut self, index: usize) -> &mut Table {
        &mut self.tables[index]
    }

    /// All tables.
    pub fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }

    /// Counters of all tables together.
    pub fn stats(&self) -> TableStats {
        let mut total = TableStats::default();
        for stats in self.tables.iter().map(Table::stats) {
            total.rows += stats.rows;
            total.updated += stats.updated;
            total.removed += stats.removed;
            total.memory_bytes += stats.memory_bytes;
        }
        total
    }

    /// Ends the epoch; its slots are void.
    ///
    /// # Errors
    /// Of the checkpoint location.
    pub async fn commit(&mut self, epoch: crate::Epoch) -> Result<Option<crate::SnapshotRef>> {
        let _ = epoch;
        self.tables.iter_mut().for_each(Table::end_epoch);
        Ok(None)
    }
}
