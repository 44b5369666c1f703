//! What expires: whole shards of a timed table, noted entries of an expiring one, and what files alone know of.

use super::{Hashed, bucket_of};
use crate::error::Result;
use crate::files::Row;
use crate::table::arena::{AHEAD, CHANGED, DIRTY, Header, IN_FILES, PRESENT, UNKNOWN};
use crate::table::order::Place;
use crate::table::shard::{Id, Shard};
use crate::table::{TableKind, Visit};

impl Hashed {
    pub(crate) fn expire(&mut self, bound: i64, visit: Option<&mut Visit<'_>>) -> Result<u64> {
        self.settle_blind()?;
        let expired = match self.kind {
            TableKind::Expiring => self.expire_entries(bound, visit)?,
            TableKind::Timed { bucket } => self.expire_buckets(bound, bucket, visit)?,
            TableKind::Keyed | TableKind::Ordered => return Ok(0),
        };
        self.bound = self.bound.max(Some(bound));
        if self.files.is_some() {
            self.pending = self.pending.max(Some(bound));
        }
        self.rows -= expired;
        self.removed += expired;
        self.changed |= expired > 0;
        Ok(expired)
    }

    fn expire_buckets(
        &mut self,
        bound: i64,
        width: i64,
        mut visit: Option<&mut Visit<'_>>,
    ) -> Result<u64> {
        let (cut, ..) = bucket_of(bound, width);
        let due: Vec<(i64, u32)> = self.buckets.range(..=cut).map(|(b, s)| (*b, *s)).collect();
        let mut expired = 0;
        for (number, shard) in due {
            let (from, to) = super::times_of(number, width);
            if let Some(visit) = &mut visit {
                self.visit_bucket(shard, from, to.min(bound), &mut **visit)?;
            }
            if to <= bound {
                expired += self.shards[shard as usize].total;
                self.drop_shard(number, shard);
            } else {
                expired += self.count_cold(shard, from, bound)?;
                expired += self.cut_shard(shard, bound);
            }
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
        self.buckets.remove(&number);
        self.retire(place);
    }

    /// Counts, and takes off the total, what only files have of a shard up to the bound.
    fn count_cold(&mut self, place: u32, from: i64, bound: i64) -> Result<u64> {
        let mut count = 0;
        for row in self.cold_between(place, from, bound) {
            row?;
            count += 1;
        }
        self.shards[place as usize].total -= count;
        Ok(count)
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
        let ahead = |addresses: &[u32]| arena.glance_all(addresses.iter().copied());
        let due = self.expiries.take_due(bound, ahead, |address| {
            let header = arena.header(address);
            header.is(PRESENT).then_some(header.time)
        });
        let cold = self.visit_expiring(bound, &due, visit)?;
        let shard = &mut self.shards[0];
        for run in due.chunks(AHEAD) {
            let next = run.iter().map(|(_, address)| *address);
            shard.arena().glance_all(next.clone());
            for address in next {
                let header = shard.arena().header(address);
                let tombstone = header.is(DIRTY) && header.is(IN_FILES);
                if header.stamp == self.stamp || tombstone {
                    let flags = (header.flags | DIRTY | CHANGED) & !PRESENT;
                    let header = Header { flags, ..header };
                    shard.arena_mut().set_header(address, header);
                } else {
                    shard.forget(address, false);
                }
            }
        }
        let expired = due.len() as u64;
        shard.rows -= expired;
        shard.total -= expired + cold;
        Ok(expired + cold)
    }

    /// Visits what expires of an expiring table; returns how many of them only files have.
    fn visit_expiring(
        &self,
        bound: i64,
        due: &[(i64, u32)],
        visit: Option<&mut Visit<'_>>,
    ) -> Result<u64> {
        let mut cold = 0;
        let mut rows = self.cold_expiring(bound).inspect(|_| cold += 1);
        let Some(visit) = visit else {
            rows.try_for_each(|row| row.map(drop))?;
            return Ok(cold);
        };
        let arena = self.shards[0].arena();
        let places = due
            .iter()
            .map(|(time, address)| Place::new(*time, arena.key(*address), 0, *address))
            .collect();
        self.visit(places, rows, |row| row.time, visit)?;
        Ok(cold)
    }

    /// What only files have of an expiring table and expires up to the bound, in order of (expiry, key).
    fn cold_expiring(&self, bound: i64) -> Box<dyn Iterator<Item = Result<Row>> + '_> {
        let shard = &self.shards[0];
        let Some(files) = self.files.as_ref().filter(|_| shard.total > shard.rows) else {
            return Box::new(std::iter::empty());
        };
        let from = self.pending.map_or(i64::MIN, |b| b.saturating_add(1));
        Box::new(files.expiring(from, bound, |group, key| {
            let id = Id {
                timed: false,
                group,
                time: 0,
                key,
            };
            memory_knows(shard, id)
        }))
    }

    /// What only files have of a shard of a timed table, of these times, in order.
    pub(super) fn cold_between(
        &self,
        place: u32,
        from: i64,
        to: i64,
    ) -> Box<dyn Iterator<Item = Result<Row>> + '_> {
        let shard = &self.shards[place as usize];
        let from = self.pending.map_or(from, |b| from.max(b.saturating_add(1)));
        let Some(files) = self.files.as_ref().filter(|_| shard.total > shard.rows) else {
            return Box::new(std::iter::empty());
        };
        let only_there = move |row: &Result<Row>| {
            row.as_ref().map_or(true, |row| {
                let id = Id {
                    timed: true,
                    group: row.group,
                    time: row.time,
                    key: &row.key,
                };
                !memory_knows(shard, id)
            })
        };
        Box::new(files.between(from, to).filter(only_there))
    }
}

/// True if memory has an entry and knows what has become of it.
pub(super) fn memory_knows(shard: &Shard, id: Id<'_>) -> bool {
    shard
        .find(id)
        .is_some_and(|address| !shard.arena().header(address).is(UNKNOWN))
}
