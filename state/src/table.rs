//! [`Table`]: part of the keyed state of one operator subtask.
//!
//! An operator *touches* the keys an epoch concerns; each gets a slot (0, 1, 2 … in order of first touch) that stays valid
//! until the epoch's end. Old values are looked up once per touched key ([`Table::load`]), new ones are set once.
//!
//! What an epoch touches is in memory: hash tables over arenas of bytes ([`Hashed`]), or a sorted map ([`Ordered`]).

mod arena;
mod chunk;
mod commit;
mod expiry;
mod hashed;
mod order;
mod ordered;
mod shard;
mod spec;

use self::hashed::Hashed;
use self::ordered::Ordered;
use crate::error::{Result, StateError};
use crate::files::group_key;

pub use self::spec::{Entry, TableKind, TableSpec, TableStats};
pub use crate::operator_state::OperatorState;

/// What is called with entries.
pub(crate) type Visit<'a> = dyn FnMut(Entry<'_>) -> Result<()> + 'a;

/// What an epoch did to a table, in the order in which it is to be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Every entry up to this time or expiry went. Comes before the other changes of its epoch.
    Expired(i64),
    /// The entry is there now, with this value.
    Set(Entry<'a>),
    /// The entry is not there any more; its value means nothing.
    Removed(Entry<'a>),
}

/// Part of the keyed state of one operator subtask.
///
/// ```
/// use weir_state::{OperatorState, TableKind, TableSpec};
///
/// let spec = TableSpec {
///     name: "sums".into(),
///     kind: TableKind::Keyed,
///     version: 1,
///     key: "word".into(),
///     value: "sum: i64".into(),
/// };
/// let mut state = OperatorState::in_memory(&[spec]);
/// let sums = state.table(0);
/// let slot = sums.touch(0, 0, b"weir");
/// sums.load()?;
/// assert_eq!(sums.value(slot), None);
/// sums.set(slot, &7_i64.to_le_bytes());
/// assert_eq!(sums.value(slot), Some(&7_i64.to_le_bytes()[..]));
/// # Ok::<(), weir_state::StateError>(())
/// ```
#[derive(Debug)]
pub struct Table {
    spec: TableSpec,
    store: Store,
    /// Values were rewritten in bulk: the next commit writes everything.
    rewritten: bool,
}

#[derive(Debug)]
enum Store {
    Hashed(Box<Hashed>),
    Ordered(Box<Ordered>),
}

impl Table {
    pub(crate) fn new(spec: &TableSpec) -> Self {
        let store = match spec.kind {
            TableKind::Ordered => Store::Ordered(Box::default()),
            kind => Store::Hashed(Box::new(Hashed::new(kind))),
        };
        Self {
            spec: spec.clone(),
            store,
            rewritten: false,
        }
    }

    /// What the table is called and holds.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Slot of (time, key) in the open epoch: 0, 1, 2 … in order of first touch, the same again for the same key.
    ///
    /// `group` is the key group of the partition key, a function of the key; below 65536. `time` counts in timed tables only.
    pub fn touch(&mut self, group: u32, time: i64, key: &[u8]) -> usize {
        let group = group_of(group);
        match &mut self.store {
            Store::Hashed(table) => table.touch(group, time, key),
            Store::Ordered(table) => table.touch(group, key),
        }
    }

    /// [`touch`](Self::touch) for many (group, time, key) at once, which is faster in a large table; appends their slots.
    pub fn touch_all<'k>(
        &mut self,
        keys: impl Iterator<Item = (u32, i64, &'k [u8])>,
        slots: &mut Vec<usize>,
    ) {
        let keys = keys.map(|(group, time, key)| (group_of(group), time, key));
        match &mut self.store {
            Store::Hashed(table) => table.touch_all(keys, slots),
            Store::Ordered(table) => {
                slots.extend(keys.map(|(group, _, key)| table.touch(group, key)))
            }
        }
    }

    /// Number of slots of the open epoch.
    pub fn touched(&self) -> usize {
        match &self.store {
            Store::Hashed(table) => table.touched(),
            Store::Ordered(table) => table.touched(),
        }
    }

    /// Looks up what memory does not know of the touched slots. To be called before the value of a slot is read; costs nothing
    /// when nothing is unknown.
    ///
    /// # Errors
    /// Of the files.
    pub fn load(&mut self) -> Result<()> {
        match &mut self.store {
            Store::Hashed(table) => table.load(),
            Store::Ordered(table) => table.load(),
        }
    }

    /// True if [`load`](Self::load) has nothing to look up.
    pub fn is_loaded(&self) -> bool {
        match &self.store {
            Store::Hashed(table) => table.is_loaded(),
            Store::Ordered(table) => table.is_loaded(),
        }
    }

    /// Value of a slot; `None` if there is no such entry.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        match &self.store {
            Store::Hashed(table) => table.value(slot),
            Store::Ordered(table) => table.value(slot),
        }
    }

    /// Key of a slot.
    pub fn key(&self, slot: usize) -> &[u8] {
        match &self.store {
            Store::Hashed(table) => table.key(slot),
            Store::Ordered(table) => table.slot_key(slot).1,
        }
    }

    /// Time of a slot: of its identity (timed) or its expiry (expiring); 0 in other tables and where there is no expiry.
    pub fn time(&self, slot: usize) -> i64 {
        match &self.store {
            Store::Hashed(table) => table.time(slot),
            Store::Ordered(_) => 0,
        }
    }

    /// Key group of a slot.
    pub fn group(&self, slot: usize) -> u32 {
        match &self.store {
            Store::Hashed(table) => table.group(slot),
            Store::Ordered(table) => table.slot_key(slot).0.into(),
        }
    }

    /// Sets the value of a slot. In an expiring table the expiry stays what it was; a new entry never expires.
    pub fn set(&mut self, slot: usize, value: &[u8]) {
        match &mut self.store {
            Store::Hashed(table) if self.spec.kind == TableKind::Expiring => {
                let expires = match table.value(slot) {
                    Some(_) => table.time(slot),
                    None => i64::MAX,
                };
                table.set(slot, value, expires);
            }
            Store::Hashed(table) => table.set(slot, value, i64::MAX),
            Store::Ordered(table) => table.set(slot, value),
        }
    }

    /// Sets the value of a slot and when it expires (expiring tables; in others the time is ignored).
    pub fn set_expiring(&mut self, slot: usize, value: &[u8], expires: i64) {
        match &mut self.store {
            Store::Hashed(table) => table.set(slot, value, expires),
            Store::Ordered(table) => table.set(slot, value),
        }
    }

    /// Removes the entry of a slot.
    pub fn remove(&mut self, slot: usize) {
        match &mut self.store {
            Store::Hashed(table) => table.remove(slot),
            Store::Ordered(table) => table.remove(slot),
        }
    }

    /// The entry of a slot came and went within the epoch, or goes instead of getting a last value: it is not there at the epoch's
    /// end, and counts as updated and as removed. The slot has been looked up ([`load`](Self::load)).
    pub fn pass(&mut self, slot: usize) {
        match &mut self.store {
            Store::Hashed(table) => {
                let removed = table.removed;
                table.remove(slot);
                (table.updated, table.removed) = (table.updated + 1, removed + 1);
            }
            Store::Ordered(table) => {
                let removed = table.removed;
                table.remove(slot);
                (table.updated, table.removed) = (table.updated + 1, removed + 1);
            }
        }
    }

    /// Removes every entry whose time (timed) or expiry (expiring) is at or before `bound`, handing each to `visit` in order of
    /// (time, key). Touched slots of removed entries read as absent afterwards. Other tables have nothing to expire.
    ///
    /// # Errors
    /// Of the files and of `visit`.
    pub fn expire(
        &mut self,
        bound: i64,
        visit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<u64> {
        match &mut self.store {
            Store::Hashed(table) => table.expire(bound, Some(visit)),
            Store::Ordered(_) => Ok(0),
        }
    }

    /// [`expire`](Self::expire) without looking at what goes: whole buckets are dropped.
    ///
    /// # Errors
    /// Of the files.
    pub fn expire_silently(&mut self, bound: i64) -> Result<u64> {
        match &mut self.store {
            Store::Hashed(table) => table.expire(bound, None),
            Store::Ordered(_) => Ok(0),
        }
    }

    /// Every entry, in order of (group, key), timed tables of (time, key).
    ///
    /// # Errors
    /// Of the files and of `visit`.
    pub fn scan(&mut self, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        match &mut self.store {
            Store::Hashed(table) => table.scan(visit),
            Store::Ordered(table) => table.scan(visit),
        }
    }

    /// Entries of `group` whose key starts with `prefix`, in key order, until `visit` returns false (ordered tables).
    ///
    /// # Errors
    /// [`StateError::WrongTable`] for other tables, those of the files and of `visit`.
    pub fn prefix(
        &mut self,
        group: u32,
        prefix: &[u8],
        visit: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let full = group_key(group_of(group), prefix);
        match &mut self.store {
            Store::Ordered(table) => table.prefix(&full, visit),
            Store::Hashed(_) => Err(self.wrong("read by prefix")),
        }
    }

    /// Value of a key (ordered and keyed tables).
    ///
    /// # Errors
    /// [`StateError::WrongTable`] for other tables, those of the files.
    pub fn get(&mut self, group: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Store::Ordered(table) = &mut self.store {
            let full = group_key(group_of(group), key);
            if table.get(&full).is_none() {
                table.look_up(vec![full.clone().into()])?;
            }
            return Ok(table.get(&full).map(Into::into));
        }
        let slot = self.slot_of(group, key, "read by key")?;
        self.load()?;
        Ok(self.value(slot).map(Into::into))
    }

    /// Sets the value of a key (ordered and keyed tables).
    ///
    /// # Errors
    /// [`StateError::WrongTable`] for other tables, those of the files.
    pub fn put(&mut self, group: u32, key: &[u8], value: &[u8]) -> Result<()> {
        if let Store::Ordered(table) = &mut self.store {
            table.put(&group_key(group_of(group), key), value);
            return Ok(());
        }
        let slot = self.slot_of(group, key, "written by key")?;
        self.set(slot, value);
        Ok(())
    }

    /// Removes a key (ordered and keyed tables).
    ///
    /// # Errors
    /// [`StateError::WrongTable`] for other tables, those of the files.
    pub fn delete(&mut self, group: u32, key: &[u8]) -> Result<()> {
        if let Store::Ordered(table) = &mut self.store {
            table.delete(&group_key(group_of(group), key));
            return Ok(());
        }
        let slot = self.slot_of(group, key, "written by key")?;
        self.load()?;
        self.remove(slot);
        Ok(())
    }

    fn slot_of(&mut self, group: u32, key: &[u8], action: &'static str) -> Result<usize> {
        match self.spec.kind {
            TableKind::Keyed => Ok(self.touch(group, 0, key)),
            _ => Err(self.wrong(action)),
        }
    }

    fn wrong(&self, action: &'static str) -> StateError {
        StateError::WrongTable {
            table: self.spec.name.clone(),
            kind: self.spec.kind.name(),
            action,
        }
    }

    /// Replaces the value of every entry by what `rewrite` makes of it: for operators whose layout of values has changed since
    /// the checkpoint was written. Slots are void; the next commit writes everything.
    ///
    /// # Errors
    /// Of the files and of `rewrite`.
    pub fn rewrite(&mut self, rewrite: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        self.end_epoch(&mut |_| {})?;
        match &mut self.store {
            Store::Hashed(table) => table.rewrite(rewrite)?,
            Store::Ordered(table) => table.rewrite(rewrite)?,
        }
        self.rewritten = true;
        Ok(())
    }

    /// Counters.
    pub fn stats(&self) -> TableStats {
        match &self.store {
            Store::Hashed(table) => TableStats {
                rows: table.rows,
                updated: table.updated,
                removed: table.removed,
                memory_bytes: table.memory_bytes() as u64,
            },
            Store::Ordered(table) => TableStats {
                rows: table.rows,
                updated: table.updated,
                removed: table.removed,
                memory_bytes: table.memory_bytes() as u64,
            },
        }
    }
}

fn group_of(group: u32) -> u16 {
    u16::try_from(group).expect("invariant: key groups are below 65536")
}
