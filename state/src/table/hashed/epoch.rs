//! The end of an epoch: what changed is handed on, slots are void, memory nobody needs goes back.

use super::{ExpiryIndex, Hashed, Slot};
use crate::error::Result;
use crate::table::arena::{CHANGED, DIRTY, IN_FILES, PRESENT};
use crate::table::shard::Shard;
use crate::table::{Change, Entry};

/// Slots whose memory is kept from epoch to epoch whatever the last one needed.
const SLOTS_KEPT: usize = 1 << 14;

impl Hashed {
    /// True if the open epoch changed anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.changed
    }

    /// Ends the epoch: hands what changed to `changes` (what expired first, as a bound), voids the slots and gives back memory
    /// nobody needs.
    ///
    /// # Errors
    /// Of the files.
    pub(crate) fn end_epoch(&mut self, changes: &mut dyn FnMut(Change<'_>)) -> Result<()> {
        self.settle_blind()?;
        if let Some(bound) = self.bound.filter(|_| self.changed) {
            changes(Change::Expired(bound));
        }
        for slot in 0..self.slots.len() {
            self.look_ahead(slot);
            self.settle(self.slots[slot], changes);
        }
        let mut slots = std::mem::take(&mut self.slots);
        if slots.capacity() > SLOTS_KEPT.max(4 * slots.len()) {
            slots.shrink_to(2 * slots.len());
        }
        slots.clear();
        self.slots = slots;
        self.unknown.clear();
        self.drop_empty();
        self.compact();
        self.bound = None;
        self.changed = false;
        (self.updated, self.removed) = (0, 0);
        self.stamp = self.stamp.wrapping_add(1);
        Ok(())
    }

    /// Hands on what happened to a touched entry; one that is not there goes.
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
            self.retire(place);
        }
    }

    pub(super) fn compact(&mut self) {
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

    pub(super) fn note_expiries(&mut self) {
        self.expiries = ExpiryIndex::default();
        for (address, header) in self.shards[0].arena().walk() {
            if header.is(PRESENT) {
                self.expiries.note(header.time, address);
            }
        }
    }
}
