//! [`Hashed`]: tables whose entries are found by hash: keyed, timed, expiring.
//!
//! A keyed or expiring table has one shard. A timed one has a shard per bucket of time, so that what expires goes as whole
//! shards; only in the bucket the bound cuts are entries looked at.
//!
//! Memory is newer than the files below it ([`cold`]). A shard knows how many entries it has in all and how many of them are in
//! memory: while the numbers are equal, what memory does not have does not exist.

mod cold;
mod epoch;
mod expire;
mod scan;
mod touch;

use std::collections::BTreeMap;

use super::TableKind;
use super::arena::{BLIND, CHANGED, DIRTY, Header, PRESENT, UNKNOWN};
use super::expiry::ExpiryIndex;
use super::shard::Shard;
use crate::files::TableFiles;

/// Most bytes of shards that are kept for others to come.
const SPARE_MAX: usize = 32 << 20;
/// Room made for the value of a new entry before any value was seen.
const FIRST_VALUE_CAP: u32 = 16;
/// Most room made for a value nobody has set yet.
const VALUE_CAP_MAX: u32 = 128;

/// A touched entry.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    shard: u32,
    address: u32,
}

/// The shard used last and the times it covers, both ends included.
#[derive(Debug, Clone, Copy)]
struct Last {
    from: i64,
    to: i64,
    shard: u32,
}

/// Entries found by hash.
#[derive(Debug)]
pub(crate) struct Hashed {
    kind: TableKind,
    shards: Vec<Shard>,
    /// Places in `shards` that are free; what is there is empty.
    free: Vec<u32>,
    /// Bytes of the shards there.
    spare: usize,
    /// Shards of a timed table by bucket.
    buckets: BTreeMap<i64, u32>,
    last: Option<Last>,
    expiries: ExpiryIndex,
    slots: Vec<Slot>,
    /// The open epoch, counted from 1.
    stamp: u32,
    /// Room to make for the value of a new entry: the length of the value set last.
    value_cap: u32,
    /// Entries that exist.
    pub(crate) rows: u64,
    pub(crate) updated: u64,
    pub(crate) removed: u64,
    /// Highest bound expired in the open epoch.
    bound: Option<i64>,
    /// The open epoch has changed an entry.
    changed: bool,
    files: Option<TableFiles>,
    /// Highest bound expired since the last flush: what files hold up to it does not exist.
    pending: Option<i64>,
    /// Slots memory does not know enough of.
    unknown: Vec<u32>,
    /// Slots set or removed without having been looked up.
    blind: Vec<u32>,
}

impl Hashed {
    pub(crate) fn new(kind: TableKind) -> Self {
        let shards = match kind {
            TableKind::Timed { .. } => Vec::new(),
            _ => vec![Shard::lasting()],
        };
        Self {
            kind,
            shards,
            free: Vec::new(),
            spare: 0,
            buckets: BTreeMap::new(),
            last: None,
            expiries: ExpiryIndex::default(),
            slots: Vec::new(),
            stamp: 1,
            value_cap: FIRST_VALUE_CAP,
            rows: 0,
            updated: 0,
            removed: 0,
            bound: None,
            changed: false,
            files: None,
            pending: None,
            unknown: Vec::new(),
            blind: Vec::new(),
        }
    }

    fn timed(&self) -> bool {
        matches!(self.kind, TableKind::Timed { .. })
    }

    fn expiring(&self) -> bool {
        self.kind == TableKind::Expiring
    }

    /// The shard of a time, made if there is none.
    fn shard_of(&mut self, time: i64) -> u32 {
        let TableKind::Timed { bucket } = self.kind else {
            return 0;
        };
        if let Some(last) = self.last
            && last.from <= time
            && time <= last.to
        {
            return last.shard;
        }
        let (number, from, to) = bucket_of(time, bucket);
        let shard = match self.buckets.get(&number) {
            Some(shard) => *shard,
            None => self.make_shard(number),
        };
        self.last = Some(Last { from, to, shard });
        shard
    }

    fn make_shard(&mut self, number: i64) -> u32 {
        let shard = match self.free.pop() {
            Some(place) => {
                self.spare -= self.shards[place as usize].memory_bytes();
                place
            }
            None => {
                self.shards.push(Shard::default());
                (self.shards.len() - 1) as u32
            }
        };
        self.buckets.insert(number, shard);
        shard
    }

    /// Empties a shard of no bucket. Its memory is kept for the next one, which saves the system the work of clearing pages.
    fn retire(&mut self, place: u32) {
        let shard = &mut self.shards[place as usize];
        let bytes = shard.memory_bytes();
        if self.spare + bytes <= SPARE_MAX {
            shard.reset();
        } else {
            *shard = Shard::default();
        }
        self.spare += shard.memory_bytes();
        self.free.push(place);
        if self.last.is_some_and(|last| last.shard == place) {
            self.last = None;
        }
    }

    /// Gives back the memory that is kept for shards to come.
    pub(crate) fn release(&mut self) {
        for place in &self.free {
            self.shards[*place as usize] = Shard::default();
        }
        self.spare = 0;
    }

    pub(crate) fn touched(&self) -> usize {
        self.slots.len()
    }

    fn entry(&self, slot: usize) -> (&Shard, Header, &[u8], &[u8]) {
        self.look_ahead(slot);
        let Slot { shard, address } = self.slots[slot];
        let shard = &self.shards[shard as usize];
        let (header, key, value) = shard.arena().entry(address);
        (shard, header, key, value)
    }

    pub(crate) fn value(&self, slot: usize) -> Option<&[u8]> {
        let (shard, header, _, value) = self.entry(slot);
        (header.is(PRESENT) && !shard.dead).then_some(value)
    }

    pub(crate) fn key(&self, slot: usize) -> &[u8] {
        self.entry(slot).2
    }

    pub(crate) fn time(&self, slot: usize) -> i64 {
        let (_, header, ..) = self.entry(slot);
        if self.timed() || header.is(PRESENT) {
            header.time
        } else {
            0
        }
    }

    pub(crate) fn group(&self, slot: usize) -> u32 {
        self.entry(slot).1.group.into()
    }

    /// Sets the value of a slot, and its expiry in an expiring table.
    pub(crate) fn set(&mut self, slot: usize, value: &[u8], expires: i64) {
        self.updated += 1;
        self.look_ahead(slot);
        let (timed, expiring) = (self.timed(), self.expiring());
        let Slot { shard, address } = self.slots[slot];
        let shard = &mut self.shards[shard as usize];
        if shard.dead {
            shard.revive(self.stamp);
        }
        let (header, _, old) = shard.arena().entry(address);
        let time = if expiring { expires } else { header.time };
        let noted = header.is(PRESENT) && header.time == time;
        let present = header.is(PRESENT);
        if present && old == value && header.time == time {
            return;
        }
        self.changed = true;
        let mut flags = (header.flags | PRESENT | DIRTY | CHANGED) & !UNKNOWN;
        if header.is(UNKNOWN) {
            flags |= BLIND;
            self.blind.push(slot as u32);
        }
        if !present {
            shard.rows += 1;
            shard.total += 1;
            self.rows += 1;
        }
        let header = Header {
            flags,
            time,
            ..header
        };
        let moved = shard.write(address, header, timed, value);
        self.slots[slot].address = moved;
        if expiring && !(noted && moved == address) {
            self.expiries.note(time, moved);
        }
        self.value_cap = super::arena::length(value).min(VALUE_CAP_MAX);
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        let Slot { shard, address } = self.slots[slot];
        let shard = &mut self.shards[shard as usize];
        let header = shard.arena().header(address);
        if shard.dead || !header.is(PRESENT | UNKNOWN) {
            return;
        }
        self.changed = true;
        let mut flags = (header.flags | DIRTY | CHANGED) & !(PRESENT | UNKNOWN);
        if header.is(PRESENT) {
            shard.rows -= 1;
            shard.total -= 1;
            self.rows -= 1;
            self.removed += 1;
        } else {
            flags |= BLIND;
            self.blind.push(slot as u32);
        }
        shard
            .arena_mut()
            .set_header(address, Header { flags, ..header });
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(Shard::memory_bytes).sum();
        let slots = self.slots.capacity() * size_of::<Slot>();
        shards + self.expiries.memory_bytes() + slots
    }

    /// Bytes of keys and values, with their headers.
    pub(crate) fn live_bytes(&self) -> usize {
        self.shards.iter().map(|s| s.arena().live_bytes()).sum()
    }
}

/// Number, first and last time of the bucket of a time.
fn bucket_of(time: i64, width: i64) -> (i64, i64, i64) {
    let number = time.div_euclid(width.max(1));
    let (from, to) = times_of(number, width);
    (number, from, to)
}

/// First and last time of a bucket.
fn times_of(number: i64, width: i64) -> (i64, i64) {
    let width = i128::from(width.max(1));
    let clamp = |time: i128| time.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let from = i128::from(number) * width;
    (clamp(from), clamp(from + width - 1))
}
