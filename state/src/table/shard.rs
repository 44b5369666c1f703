//! [`Shard`]: a hash index over an arena of entries.
//!
//! The index holds 8 bytes per entry: 32 bits of the hash, which settle nearly all collisions without looking at the entry, and
//! the entry's address. A touch is one probe: found or inserted, and stamped.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::arena::{Arena, Header, PRESENT};

/// Seed of the hash; nothing that is written depends on it.
const HASHER: FixedState = FixedState::with_seed(0x57E1_57A7_E5EE_D001);
/// Spreads 32 bits of hash over the 64 the index wants: it takes its place from the low bits and a tag from the high ones.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What an entry is known by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id<'a> {
    /// True: by (time, key). False: by (group, key).
    pub(crate) timed: bool,
    pub(crate) group: u16,
    pub(crate) time: i64,
    pub(crate) key: &'a [u8],
}

impl Id<'_> {
    pub(crate) fn hash(&self) -> u32 {
        let mut hasher = HASHER.build_hasher();
        hasher.write_u64(if self.timed {
            self.time as u64
        } else {
            u64::from(self.group)
        });
        hasher.write(self.key);
        let hash = hasher.finish();
        (hash ^ (hash >> 32)) as u32
    }

    fn is(&self, header: &Header, key: &[u8]) -> bool {
        let same = if self.timed {
            header.time == self.time
        } else {
            header.group == self.group
        };
        same && key == self.key
    }
}

/// Where a touch found the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Touched before in this epoch, under this slot.
    Again(u32),
    /// First touch of an entry there was.
    First(u32),
    /// No entry: one without value was made.
    Made(u32),
}

/// How a touch marks an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// The open epoch, as counted by the table.
    pub(crate) stamp: u32,
    /// The slot to give if the entry has none in this epoch.
    pub(crate) slot: u32,
    /// Flags of an entry that is made.
    pub(crate) flags: u8,
    /// Bytes to have ready for the value of an entry that is made.
    pub(crate) value_cap: u32,
}

/// Entries with their index.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    index: HashTable<u64>,
    arena: Arena,
    /// Entries of memory that have a value.
    pub(crate) rows: u64,
    /// Entries that exist, those only in files included.
    pub(crate) total: u64,
    /// Epoch of the last touch.
    pub(crate) stamp: u32,
    /// All entries expired in the open epoch, which has touched some of them: kept for its slots, none of them has a value.
    pub(crate) dead: bool,
}

fn item(hash: u32, address: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(address)
}

fn place(item: &u64) -> u64 {
    (item >> 32).wrapping_mul(SPREAD)
}

impl Shard {
    /// The only shard of a table: its entries stay.
    pub(crate) fn lasting() -> Self {
        Self {
            arena: Arena::new(true),
            ..Self::default()
        }
    }

    /// As if it were new, but with the memory it has.
    pub(crate) fn reset(&mut self) {
        self.index.clear();
        self.arena.reset();
        (self.rows, self.total) = (0, 0);
        (self.stamp, self.dead) = (0, false);
    }

    /// Finds or makes the entry of an id, whose hash is given.
    pub(crate) fn touch(&mut self, id: &Id<'_>, hash: u32, mark: Mark) -> Touch {
        self.stamp = mark.stamp;
        let Self { index, arena, .. } = self;
        let found = index.entry(
            place(&item(hash, 0)),
            |&item| {
                (item >> 32) as u32 == hash && {
                    let (header, key, _) = arena.entry(item as u32);
                    id.is(&header, key)
                }
            },
            place,
        );
        match found {
            Entry::Occupied(entry) => {
                let address = *entry.get() as u32;
                let header = arena.header(address);
                if header.stamp == mark.stamp {
                    return Touch::Again(header.slot);
                }
                arena.stamp(address, mark.stamp, mark.slot);
                Touch::First(address)
            }
            Entry::Vacant(entry) => {
                let address = arena.push(new_header(id, &mark), id.key);
                entry.insert(item(hash, address));
                Touch::Made(address)
            }
        }
    }

    /// The address of an entry, if memory has it.
    pub(crate) fn find(&self, id: Id<'_>) -> Option<u32> {
        let hash = id.hash();
        let same = |item: &u64| {
            (item >> 32) as u32 == hash && {
                let (header, key, _) = self.arena.entry(*item as u32);
                id.is(&header, key)
            }
        };
        self.index
            .find(place(&item(hash, 0)), same)
            .map(|item| *item as u32)
    }

    /// The address of an entry that most probably is the one with this hash.
    pub(crate) fn candidate(&self, hash: u32) -> Option<u32> {
        let same = |item: &u64| (item >> 32) as u32 == hash;
        let found = self.index.find(place(&item(hash, 0)), same);
        found.map(|item| *item as u32)
    }

    /// Entries in the index.
    pub(crate) fn indexed(&self) -> usize {
        self.index.len()
    }

    /// Overwrites header and value, moving the entry if the value needs more room; returns its address.
    pub(crate) fn write(&mut self, address: u32, header: Header, timed: bool, value: &[u8]) -> u32 {
        if self.arena.write(address, header, value) {
            return address;
        }
        // A value that grew once will grow again: leave room for that.
        let needed = super::arena::length(value);
        let cap = if header.is(PRESENT) {
            needed.max(header.value_cap.saturating_add(header.value_cap / 2))
        } else {
            needed
        };
        let hash = self.hash_at(address, timed);
        let moved = self.arena.grow(address, header, cap);
        if let Some(found) = self
            .index
            .find_mut(place(&item(hash, 0)), |i| *i == item(hash, address))
        {
            *found = item(hash, moved);
        }
        let header = Header {
            flags: header.flags,
            time: header.time,
            ..self.arena.header(moved)
        };
        let written = self.arena.write(moved, header, value);
        debug_assert!(written, "room was made");
        moved
    }

    /// Takes an entry out of index and arena.
    pub(crate) fn forget(&mut self, address: u32, timed: bool) {
        let hash = self.hash_at(address, timed);
        let wanted = item(hash, address);
        if let Ok(entry) = self.index.find_entry(place(&wanted), |i| *i == wanted) {
            entry.remove();
        }
        self.arena.kill(address);
    }

    fn hash_at(&self, address: u32, timed: bool) -> u32 {
        let (header, key, _) = self.arena.entry(address);
        Id {
            timed,
            group: header.group,
            time: header.time,
            key,
        }
        .hash()
    }

    /// Makes a dead shard usable again: its entries are gone but for those touched in this epoch, which have no value.
    pub(crate) fn revive(&mut self, stamp: u32) {
        if !std::mem::take(&mut self.dead) {
            return;
        }
        let entries: Vec<_> = self.arena.walk().collect();
        for (address, header) in entries {
            if header.stamp == stamp {
                let flags = 0;
                self.arena.set_header(address, Header { flags, ..header });
            } else {
                self.forget(address, true);
            }
        }
    }

    /// True if there is nothing in the shard, nor in files.
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0 && self.arena.live_bytes() == 0
    }

    /// Builds the shard anew with the entries `keep` wants, giving the old memory back piece by piece.
    pub(crate) fn rebuild(&mut self, timed: bool, mut keep: impl FnMut(&Header) -> bool) {
        let old = self.arena.take();
        let mut index = HashTable::new();
        let mut rows = 0;
        old.drain(|header, key, value| {
            if !keep(&header) {
                return;
            }
            rows += u64::from(header.is(PRESENT));
            let id = Id {
                timed,
                group: header.group,
                time: header.time,
                key,
            };
            let hash = id.hash();
            let address = self.arena.push(header, key);
            if header.is(PRESENT) {
                let made = self.arena.header(address);
                self.arena.write(address, made, value);
            }
            index.insert_unique(place(&item(hash, 0)), item(hash, address), place);
        });
        self.arena.shrink();
        self.index = index;
        self.rows = rows;
    }

    /// True when more than half of the arena is garbage, and enough of it to matter.
    pub(crate) fn wants_compaction(&self) -> bool {
        let garbage = self.arena.garbage();
        garbage > 64 << 10 && garbage > self.arena.live_bytes()
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn arena_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.arena.allocated() + self.index.allocation_size()
    }
}

fn new_header(id: &Id<'_>, mark: &Mark) -> Header {
    Header {
        stamp: mark.stamp,
        slot: mark.slot,
        time: if id.timed { id.time } else { 0 },
        key_len: 0,
        value_len: 0,
        value_cap: mark.value_cap,
        group: id.group,
        flags: mark.flags,
    }
}
