//! Touching: finding or making the entries of keys.
//!
//! The entries of a large table lie scattered in memory, and a look at one that is in no cache of the processor takes as long as
//! some hundred instructions. Looks that do not wait for each other overlap; so a run of keys, or of slots, is first looked at in
//! loops that do nothing else.

use std::hint::black_box;

use super::{Hashed, Slot};
use crate::table::arena::{AHEAD, IN_FILES, UNKNOWN};
use crate::table::shard::{Id, Mark, Touch};

/// Entries that are in a near cache anyway.
const NEAR: usize = 4096;

/// A key about to be touched.
struct Planned<'k> {
    shard: u32,
    hash: u32,
    id: Id<'k>,
}

impl Hashed {
    pub(crate) fn touch(&mut self, group: u16, time: i64, key: &[u8]) -> usize {
        let planned = self.plan(group, time, key);
        self.touch_planned(&planned)
    }

    /// Touches many keys, appending their slots.
    pub(crate) fn touch_all<'k>(
        &mut self,
        mut keys: impl Iterator<Item = (u16, i64, &'k [u8])>,
        slots: &mut Vec<usize>,
    ) {
        let mut run = Vec::with_capacity(AHEAD);
        loop {
            let next = keys.by_ref().take(AHEAD);
            run.extend(next.map(|(group, time, key)| self.plan(group, time, key)));
            if run.is_empty() {
                return;
            }
            self.look_for(&run);
            slots.extend(run.iter().map(|planned| self.touch_planned(planned)));
            run.clear();
        }
    }

    fn plan<'k>(&mut self, group: u16, time: i64, key: &'k [u8]) -> Planned<'k> {
        let id = Id {
            timed: self.timed(),
            group,
            time,
            key,
        };
        Planned {
            shard: self.shard_of(time),
            hash: id.hash(),
            id,
        }
    }

    fn touch_planned(&mut self, planned: &Planned<'_>) -> usize {
        let Planned { shard, hash, id } = planned;
        let number = *shard;
        let shard = &mut self.shards[number as usize];
        if shard.dead {
            shard.revive(self.stamp);
        }
        let slot = self.slots.len();
        let expired = id.timed && self.pending.is_some_and(|bound| id.time <= bound);
        let known = shard.total == shard.rows || expired;
        let mark = Mark {
            stamp: self.stamp,
            slot: slot as u32,
            flags: if known { 0 } else { UNKNOWN | IN_FILES },
            value_cap: self.value_cap,
        };
        let address = match shard.touch(id, *hash, mark) {
            Touch::Again(slot) => return slot as usize,
            Touch::First(address) => address,
            Touch::Made(address) => {
                if !known {
                    self.unknown.push(slot as u32);
                }
                address
            }
        };
        self.slots.push(Slot {
            shard: number,
            address,
        });
        slot
    }

    /// Looks at the entries a run of keys probably has.
    fn look_for(&self, run: &[Planned<'_>]) {
        let mut found = [Slot::default(); AHEAD];
        let mut count = 0;
        for planned in run {
            let shard = &self.shards[planned.shard as usize];
            if shard.indexed() < NEAR {
                continue;
            }
            if let Some(address) = shard.candidate(planned.hash) {
                let shard = planned.shard;
                found[count] = Slot { shard, address };
                count += 1;
            }
        }
        self.glance(&found[..count]);
    }

    /// To be called with each slot before it is looked at: where slots are looked at in their order, those that come next are
    /// in the caches then.
    pub(super) fn look_ahead(&self, slot: usize) {
        if slot.is_multiple_of(AHEAD) && self.slots.len() > NEAR {
            let end = self.slots.len().min(slot + AHEAD);
            self.glance(self.slots.get(slot..end).unwrap_or_default());
        }
    }

    fn glance(&self, slots: &[Slot]) {
        let looks = slots.iter().map(|slot| {
            let shard = &self.shards[slot.shard as usize];
            match shard.dead {
                true => 0,
                false => shard.arena().glance(slot.address),
            }
        });
        black_box(looks.fold(0, |all, look| all ^ look));
    }
}
