//! The files below memory: looking up what memory does not know, flushing what it knows better, forgetting what is cold.

use super::{Hashed, Slot};
use crate::error::Result;
use crate::files::{Stored, TableFiles, Write, file_key};
use crate::table::arena::{BLIND, DIRTY, Header, IN_FILES, PRESENT, UNKNOWN};
use crate::table::order::{Place, sort};
use crate::table::shard::Shard;
use crate::table::{Entry, TableKind};

/// Entries sorted and written at once; what that needs of memory comes on top of the budget.
const RUN: usize = 1 << 17;
/// Bytes an entry costs besides those of the arena.
const INDEX_BYTES: usize = 16;

impl Hashed {
    pub(crate) fn is_loaded(&self) -> bool {
        self.unknown.is_empty() && self.blind.is_empty()
    }

    /// Looks up what memory does not know of the touched slots.
    pub(crate) fn load(&mut self) -> Result<()> {
        if self.is_loaded() {
            return Ok(());
        }
        let unknown = std::mem::take(&mut self.unknown);
        self.look_up(unknown, UNKNOWN, Self::learn)?;
        self.settle_blind()
    }

    /// Settles whether what was set or removed blindly had existed.
    pub(crate) fn settle_blind(&mut self) -> Result<()> {
        if self.blind.is_empty() {
            return Ok(());
        }
        let blind = std::mem::take(&mut self.blind);
        self.look_up(blind, BLIND, Self::learn_existence)
    }

    /// Asks the files for those of the slots that have the flag.
    fn look_up(
        &mut self,
        slots: Vec<u32>,
        flag: u8,
        learn: fn(&mut Self, u32, Option<&Stored<'_>>),
    ) -> Result<()> {
        let Some(files) = self.files.clone() else {
            return Ok(());
        };
        let timed = self.timed();
        let mut wanted: Vec<(Vec<u8>, u32)> = Vec::with_capacity(slots.len());
        for slot in slots {
            let (shard, header, key, _) = self.entry(slot as usize);
            if header.is(flag) && !shard.dead {
                wanted.push((file_key(timed, header.group, header.time, key), slot));
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| &key[..]).collect();
        files.look_up(&keys, |at, value| {
            let stored = value.map(|value| files.stored(value)).transpose()?;
            let bound = self.pending;
            let exists = stored
                .as_ref()
                .filter(|s| bound.is_none_or(|bound| s.expires.is_none_or(|time| time > bound)));
            learn(self, wanted[at].1, exists);
            Ok(())
        })
    }

    fn learn(&mut self, slot: u32, stored: Option<&Stored<'_>>) {
        let timed = self.timed();
        let Slot { shard, address } = self.slots[slot as usize];
        let shard = &mut self.shards[shard as usize];
        let header = shard.arena().header(address);
        let Some(stored) = stored else {
            let flags = 0;
            shard
                .arena_mut()
                .set_header(address, Header { flags, ..header });
            return;
        };
        let header = Header {
            flags: PRESENT | IN_FILES,
            time: stored.expires.unwrap_or(header.time),
            ..header
        };
        let moved = shard.write(address, header, timed, stored.value);
        shard.rows += 1;
        self.slots[slot as usize].address = moved;
        if let Some(time) = stored.expires {
            self.expiries.note(time, moved);
        }
    }

    fn learn_existence(&mut self, slot: u32, stored: Option<&Stored<'_>>) {
        let Slot { shard, address } = self.slots[slot as usize];
        let shard = &mut self.shards[shard as usize];
        let header = shard.arena().header(address);
        let mut flags = header.flags & !BLIND;
        if stored.is_some() {
            shard.total -= 1;
            self.rows -= 1;
            self.removed += u64::from(!header.is(PRESENT));
        } else {
            flags &= !IN_FILES;
        }
        shard
            .arena_mut()
            .set_header(address, Header { flags, ..header });
    }

    /// Brings the files to the state of memory. Between epochs.
    pub(crate) fn flush(&mut self, files: &TableFiles) -> Result<()> {
        self.files = Some(files.clone());
        if let Some(bound) = self.pending.take() {
            files.writer().expire(bound)?;
        }
        let order: Vec<u32> = match self.kind {
            TableKind::Timed { .. } => self.buckets.values().copied().collect(),
            _ => vec![0],
        };
        let mut run = Vec::new();
        for place in order {
            let arena = self.shards[place as usize].arena();
            for (address, header) in arena.walk() {
                if !header.is(DIRTY) || !header.is(PRESENT | IN_FILES) {
                    continue;
                }
                let major = if self.timed() {
                    header.time
                } else {
                    header.group.into()
                };
                run.push(Place::new(major, arena.key(address), place, address));
                if run.len() == RUN {
                    self.write_run(files, &mut run)?;
                }
            }
        }
        self.write_run(files, &mut run)?;
        let timed = self.timed();
        self.shards.iter_mut().for_each(|shard| clean(shard, timed));
        Ok(())
    }

    fn write_run(&self, files: &TableFiles, run: &mut Vec<Place>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        sort(run, &self.shards);
        let changes = run.iter().map(|place| {
            let (header, key, value) = self.shards[place.shard as usize]
                .arena()
                .entry(place.address);
            let entry = Entry {
                group: header.group.into(),
                time: header.time,
                key,
                value,
            };
            if header.is(PRESENT) {
                Write::Put(entry)
            } else {
                Write::Delete(entry)
            }
        });
        files.writer().run(run.len(), changes)?;
        run.clear();
        Ok(())
    }

    /// Replaces every value. Between epochs.
    pub(crate) fn rewrite(
        &mut self,
        rewrite: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<()> {
        if let Some(files) = self.files.clone() {
            // First what only files have, there: memory would not hold it.
            match self.kind {
                TableKind::Timed { bucket } => {
                    for (number, shard) in &self.buckets {
                        let (from, to) = super::times_of(*number, bucket);
                        files.rewrite(self.cold_between(*shard, from, to), rewrite)?;
                    }
                }
                _ => files.rewrite(self.cold_rows(), rewrite)?,
            }
        }
        let timed = self.timed();
        for shard in &mut self.shards {
            let held: Vec<(u32, Header)> = shard.arena().walk().collect();
            for (address, header) in held {
                if header.is(PRESENT) {
                    let value = rewrite(shard.arena().entry(address).2)?;
                    let flags = header.flags | DIRTY;
                    shard.write(address, Header { flags, ..header }, timed, &value);
                }
            }
        }
        if self.expiring() {
            self.note_expiries();
        }
        Ok(())
    }

    /// Hands on age, in epochs since the last touch, and bytes of every entry.
    pub(crate) fn ages(&self, visit: &mut dyn FnMut(u32, usize)) {
        for shard in &self.shards {
            for (_, header) in shard.arena().walk() {
                let age = self.stamp.wrapping_sub(header.stamp);
                visit(age, header.size() + INDEX_BYTES);
            }
        }
    }

    /// Forgets the entries `keep` does not want, given age and bytes. After a flush.
    pub(crate) fn forget(&mut self, keep: &mut dyn FnMut(u32, usize) -> bool) {
        let (timed, stamp) = (self.timed(), self.stamp);
        for shard in &mut self.shards {
            shard.rebuild(timed, |header| {
                keep(
                    stamp.wrapping_sub(header.stamp),
                    header.size() + INDEX_BYTES,
                )
            });
        }
        self.slots.shrink_to_fit();
        if self.expiring() {
            self.note_expiries();
        }
    }

    /// Entries of memory that have a value.
    pub(crate) fn rows_in_memory(&self) -> u64 {
        self.shards.iter().map(|shard| shard.rows).sum()
    }

    /// Number of entries by bucket of time (one bucket 0 in other tables).
    pub(crate) fn totals(&self) -> Vec<(i64, u64)> {
        if !self.timed() {
            return vec![(0, self.shards[0].total)];
        }
        let total = |(number, place): (&i64, &u32)| (*number, self.shards[*place as usize].total);
        self.buckets.iter().map(total).collect()
    }

    /// Takes over files another run has flushed, with their numbers of entries.
    pub(crate) fn attach(&mut self, files: TableFiles, totals: &[(i64, u64)]) {
        self.files = Some(files);
        for (number, total) in totals {
            let place = match self.kind {
                TableKind::Timed { bucket } => {
                    let (from, _) = super::times_of(*number, bucket);
                    self.shard_of(from)
                }
                _ => 0,
            };
            self.shards[place as usize].total += total;
            self.rows += total;
        }
    }

    /// Lets go of the files: memory has everything.
    pub(crate) fn detach(&mut self) {
        debug_assert_eq!(self.rows_in_memory(), self.rows);
        self.files = None;
        self.pending = None;
        let timed = self.timed();
        for shard in &mut self.shards {
            clean(shard, timed);
            shard.arena_mut().remark(|h| h.flags & !IN_FILES | DIRTY);
        }
    }
}

/// Marks every entry of a shard as being in the files as it is; what is not there any more goes.
fn clean(shard: &mut Shard, timed: bool) {
    let gone: Vec<u32> = shard
        .arena()
        .walk()
        .filter(|(_, header)| !header.is(PRESENT))
        .map(|(address, _)| address)
        .collect();
    for address in gone {
        shard.forget(address, timed);
    }
    shard.arena_mut().remark(|h| h.flags & !DIRTY | IN_FILES);
}
