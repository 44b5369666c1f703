//! [`Hashed`]: tables whose entries are found by hash: keyed, timed, expiring.
//!
//! A keyed or expiring table has one shard. A timed one has a shard per bucket of time, so that what expires goes as whole
//! shards; only in the bucket the bound cuts are entries looked at.

use std::collections::BTreeMap;

use super::arena::{BLIND, CHANGED, DIRTY, Header, IN_FILES, PRESENT, UNKNOWN};
use super::expiry::ExpiryIndex;
use super::order::{Place, sort};
use super::shard::{Id, Mark, Shard, Touch};
use super::{Change, Entry, TableKind, Visit};
use crate::error::Result;

/// Room made for the value of a new entry before any value was seen.
const FIRST_VALUE_CAP: u32 = 16;
/// Most room made for a value nobody has set yet.
const VALUE_CAP_MAX: u32 = 128;

/// A touched entry.
#[derive(Debug, Clone, Copy)]
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
    /// Places in `shards` that are free.
    free: Vec<u32>,
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
}

impl Hashed {
    pub(crate) fn new(kind: TableKind) -> Self {
        let shards = match kind {
            TableKind::Timed { .. } => Vec::new(),
            _ => vec![Shard::default()],
        };
        Self {
            kind,
            shards,
            free: Vec::new(),
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
                self.shards[place as usize] = Shard::default();
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

    pub(crate) fn touch(&mut self, group: u16, time: i64, key: &[u8]) -> usize {
        let timed = self.timed();
        let number = self.shard_of(time);
        let shard = &mut self.shards[number as usize];
        shard.revive(self.stamp);
        let slot = self.slots.len();
        let id = Id {
            timed,
            group,
            time,
            key,
        };
        let mark = Mark {
            stamp: self.stamp,
            slot: slot as u32,
            flags: 0,
            value_cap: self.value_cap,
        };
        match shard.touch(id, mark) {
            Touch::Again(slot) => slot as usize,
            Touch::First(address) | Touch::Made(address) => {
                self.slots.push(Slot {
                    shard: number,
                    address,
                });
                slot
            }
        }
    }

    pub(crate) fn touched(&self) -> usize {
        self.slots.len()
    }

    fn entry(&self, slot: usize) -> (&Shard, Header, &[u8], &[u8]) {
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
        let (timed, expiring) = (self.timed(), self.expiring());
        let Slot { shard, address } = self.slots[slot];
        let shard = &mut self.shards[shard as usize];
        shard.revive(self.stamp);
        let (header, _, old) = shard.arena().entry(address);
        let time = if expiring { expires } else { header.time };
        let present = header.is(PRESENT);
        if present && old == value && header.time == time {
            return;
        }
        self.changed = true;
        let mut flags = (header.flags | PRESENT | DIRTY | CHANGED) & !UNKNOWN;
        if header.is(UNKNOWN) {
            flags |= BLIND;
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
        if expiring {
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
        }
        shard
            .arena_mut()
            .set_header(address, Header { flags, ..header });
    }

    pub(crate) fn expire(&mut self, bound: i64, visit: Option<&mut Visit<'_>>) -> Result<u64> {
        self.bound = self.bound.max(Some(bound));
        let expired = if self.expiring() {
            self.expire_entries(bound, visit)?
        } else if let TableKind::Timed { bucket } = self.kind {
            self.expire_buckets(bound, bucket, visit)?
        } else {
            0
        };
        self.rows -= expired;
        self.removed += expired;
        self.changed |= expired > 0;
        Ok(expired)
    }

    fn expire_buckets(
        &mut self,
        bound: i64,
        bucket: i64,
        visit: Option<&mut Visit<'_>>,
    ) -> Result<u64> {
        let (cut, _, to) = bucket_of(bound, bucket);
        let whole = if to <= bound { ..=cut } else { ..=cut - 1 };
        let whole: Vec<(i64, u32)> = self.buckets.range(whole).map(|(b, s)| (*b, *s)).collect();
        let part = self.buckets.get(&cut).copied().filter(|_| to > bound);
        if let Some(visit) = visit {
            let mut due = Vec::new();
            for (_, shard) in &whole {
                self.places(*shard, &mut due, |_| true);
            }
            if let Some(shard) = part {
                self.places(shard, &mut due, |header| header.time <= bound);
            }
            self.visit(due, visit)?;
        }
        let mut expired = 0;
        for (number, shard) in whole {
            expired += self.shards[shard as usize].total;
            self.drop_shard(number, shard);
        }
        if let Some(shard) = part {
            expired += self.cut_shard(shard, bound);
        }
        Ok(expired)
    }

    /// Drops a shard; one the epoch has touched stays, dead, for the sake of its slots.
    fn drop_shard(&mut self, number: i64, place: u32) {
        let shard = &mut self.shards[place as usize];
        if shard.stamp == self.stamp {
            shard.dead = true;
            (shard.rows, shard.total) = (0, 0);
            return;
        }
        *shard = Shard::default();
        self.buckets.remove(&number);
        self.free.push(place);
        if self.last.is_some_and(|last| last.shard == place) {
            self.last = None;
        }
    }

    /// Expires the entries of one shard up to the bound.
    fn cut_shard(&mut self, place: u32, bound: i64) -> u64 {
        let stamp = self.stamp;
        let shard = &mut self.shards[place as usize];
        if shard.dead {
            return 0;
        }
        let due: Vec<(u32, Header)> = shard
            .arena()
            .walk()
            .filter(|(_, header)| header.time <= bound)
            .collect();
        let mut expired = 0;
        for (address, header) in due {
            expired += u64::from(header.is(PRESENT));
            if header.stamp == stamp {
                let flags = 0;
                shard
                    .arena_mut()
                    .set_header(address, Header { flags, ..header });
            } else {
                shard.forget(address, true);
            }
        }
        shard.rows -= expired;
        shard.total -= expired;
        expired
    }

    fn expire_entries(&mut self, bound: i64, visit: Option<&mut Visit<'_>>) -> Result<u64> {
        let arena = self.shards[0].arena();
        let due = self.expiries.take_due(bound, |address| {
            let header = arena.header(address);
            (header.is(PRESENT) && arena.is_live(address)).then_some(header.time)
        });
        if let Some(visit) = visit {
            let places = due
                .iter()
                .map(|(time, address)| Place::new(*time, arena.key(*address), 0, *address))
                .collect();
            self.visit(places, visit)?;
        }
        let shard = &mut self.shards[0];
        for (_, address) in &due {
            let header = shard.arena().header(*address);
            let tombstone = header.is(DIRTY) && header.is(IN_FILES);
            if header.stamp == self.stamp || tombstone {
                let flags = (header.flags | DIRTY | CHANGED) & !PRESENT;
                shard
                    .arena_mut()
                    .set_header(*address, Header { flags, ..header });
            } else {
                shard.forget(*address, false);
            }
        }
        let expired = due.len() as u64;
        shard.rows -= expired;
        shard.total -= expired;
        Ok(expired)
    }

    /// Collects entries of a shard that have a value.
    fn places(&self, shard: u32, into: &mut Vec<Place>, wanted: impl Fn(&Header) -> bool) {
        let held = &self.shards[shard as usize];
        if held.dead {
            return;
        }
        let by_time = self.timed();
        for (address, header) in held.arena().walk() {
            if header.is(PRESENT) && wanted(&header) {
                let major = if by_time {
                    header.time
                } else {
                    header.group.into()
                };
                into.push(Place::new(major, held.arena().key(address), shard, address));
            }
        }
    }

    fn visit(&self, mut places: Vec<Place>, visit: &mut Visit<'_>) -> Result<()> {
        sort(&mut places, &self.shards);
        for place in places {
            visit(self.entry_at(place.shard, place.address))?;
        }
        Ok(())
    }

    fn entry_at(&self, shard: u32, address: u32) -> Entry<'_> {
        let (header, key, value) = self.shards[shard as usize].arena().entry(address);
        Entry {
            group: header.group.into(),
            time: header.time,
            key,
            value,
        }
    }

    /// Every entry, in order.
    pub(crate) fn scan(&self, visit: &mut Visit<'_>) -> Result<()> {
        if !self.timed() {
            let mut places = Vec::new();
            self.places(0, &mut places, |_| true);
            return self.visit(places, visit);
        }
        for shard in self.buckets.values() {
            let mut places = Vec::new();
            self.places(*shard, &mut places, |_| true);
            self.visit(places, visit)?;
        }
        Ok(())
    }

    /// Every entry of memory, in no order.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(Entry<'_>)) {
        for shard in self.shards.iter().filter(|shard| !shard.dead) {
            for (address, header) in shard.arena().walk() {
                if header.is(PRESENT) {
                    let (header, key, value) = shard.arena().entry(address);
                    visit(Entry {
                        group: header.group.into(),
                        time: header.time,
                        key,
                        value,
                    });
                }
            }
        }
    }

    /// True if the open epoch changed anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.changed
    }

    /// Ends the epoch: hands what changed to `changes` (what expired first, as a bound), voids the slots and gives back memory
    /// nobody needs.
    pub(crate) fn end_epoch(&mut self, changes: &mut dyn FnMut(Change<'_>)) {
        if let Some(bound) = self.bound.filter(|_| self.changed) {
            changes(Change::Expired(bound));
        }
        for slot in std::mem::take(&mut self.slots) {
            self.settle(slot, changes);
        }
        self.drop_empty();
        self.compact();
        self.bound = None;
        self.changed = false;
        (self.updated, self.removed) = (0, 0);
        self.stamp = self.stamp.wrapping_add(1);
    }

    /// Hands on what happened to a touched entry and takes its marks of the epoch away.
    fn settle(&mut self, slot: Slot, changes: &mut dyn FnMut(Change<'_>)) {
        let timed = self.timed();
        let bound = self.bound.filter(|_| timed);
        let shard = &mut self.shards[slot.shard as usize];
        if shard.dead {
            return;
        }
        let (header, key, value) = shard.arena().entry(slot.address);
        let present = header.is(PRESENT);
        if header.is(CHANGED) {
            let entry = Entry {
                group: header.group.into(),
                time: if timed || present { header.time } else { 0 },
                key,
                value,
            };
            if present {
                changes(Change::Set(entry));
            } else if bound.is_none_or(|bound| header.time > bound) {
                changes(Change::Removed(entry));
            }
        }
        let tombstone = header.is(DIRTY) && header.is(IN_FILES);
        if !present && !tombstone {
            shard.forget(slot.address, timed);
        } else if header.is(CHANGED | BLIND) {
            let flags = header.flags & !(CHANGED | BLIND);
            shard
                .arena_mut()
                .set_header(slot.address, Header { flags, ..header });
        }
    }

    /// Drops the shards of buckets that have no entries.
    fn drop_empty(&mut self) {
        let shards = &mut self.shards;
        let gone = |shard: &Shard| shard.dead || shard.is_empty();
        let empty = self
            .buckets
            .extract_if(.., |_, place| gone(&shards[*place as usize]));
        let empty: Vec<u32> = empty.map(|(_, place)| place).collect();
        for place in empty {
            self.shards[place as usize] = Shard::default();
            self.free.push(place);
            self.last = None;
        }
    }

    fn compact(&mut self) {
        let timed = self.timed();
        let mut moved = false;
        for shard in self.shards.iter_mut().filter(|s| s.wants_compaction()) {
            shard.rebuild(timed, |_| true);
            moved = true;
        }
        if self.expiring() {
            let rows = self.shards[0].rows as usize;
            if moved || self.expiries.notes() > 2 * rows + 1024 {
                self.note_expiries();
            }
        }
    }

    fn note_expiries(&mut self) {
        self.expiries = ExpiryIndex::default();
        for (address, header) in self.shards[0].arena().walk() {
            if header.is(PRESENT) {
                self.expiries.note(header.time, address);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(Shard::memory_bytes).sum();
        shards + self.expiries.memory_bytes() + self.slots.capacity() * size_of::<Slot>()
    }

    /// Bytes of keys and values, with their headers.
    pub(crate) fn live_bytes(&self) -> usize {
        self.shards.iter().map(|s| s.arena().live_bytes()).sum()
    }
}

/// Number, first and last time of the bucket of a time.
fn bucket_of(time: i64, width: i64) -> (i64, i64, i64) {
    let width = width.max(1);
    let number = time.div_euclid(width);
    let clamp = |time: i128| time.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let from = i128::from(number) * i128::from(width);
    (number, clamp(from), clamp(from + i128::from(width) - 1))
}
