//! Reading entries in order: those of memory, sorted where they lie, merged with those only files have.

use std::cmp::Ordering;

use super::expire::memory_knows;
use super::{Hashed, times_of};
use crate::error::Result;
use crate::files::Row;
use crate::table::arena::{Header, PRESENT};
use crate::table::order::{Place, sort};
use crate::table::shard::Id;
use crate::table::{Entry, TableKind, Visit};

impl Hashed {
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

    /// Visits entries of memory and rows of files, which are in the order of `major_of` and key, in that order together.
    pub(super) fn visit(
        &self,
        mut places: Vec<Place>,
        rows: impl Iterator<Item = Result<Row>>,
        major_of: impl Fn(&Row) -> i64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        sort(&mut places, &self.shards);
        let mut places = places.into_iter().peekable();
        for row in rows {
            let row = row?;
            while let Some(place) = places.next_if(|place| {
                let key = self.entry_at(place.shard, place.address).key;
                (place.major, key).cmp(&(major_of(&row), &row.key)) == Ordering::Less
            }) {
                visit(self.entry_at(place.shard, place.address))?;
            }
            visit(row.entry())?;
        }
        for place in places {
            visit(self.entry_at(place.shard, place.address))?;
        }
        Ok(())
    }

    /// Visits the entries of a shard of a timed table, of times up to `to`.
    pub(super) fn visit_bucket(
        &self,
        shard: u32,
        from: i64,
        to: i64,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut places = Vec::new();
        self.places(shard, &mut places, |header| header.time <= to);
        let rows = self.cold_between(shard, from, to);
        self.visit(places, rows, |row| row.time, visit)
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
        if let TableKind::Timed { bucket } = self.kind {
            for (number, shard) in &self.buckets {
                let (from, to) = times_of(*number, bucket);
                self.visit_bucket(*shard, from, to, visit)?;
            }
            return Ok(());
        }
        let mut places = Vec::new();
        self.places(0, &mut places, |_| true);
        self.visit(places, self.cold_rows(), |row| row.group.into(), visit)
    }

    /// What only files have of a keyed or expiring table, in order.
    pub(super) fn cold_rows(&self) -> Box<dyn Iterator<Item = Result<Row>> + '_> {
        let shard = &self.shards[0];
        let Some(files) = self.files.as_ref().filter(|_| shard.total > shard.rows) else {
            return Box::new(std::iter::empty());
        };
        let pending = self.pending.filter(|_| self.expiring());
        Box::new(files.rows(&[], None).filter(move |row| {
            row.as_ref().map_or(true, |row| {
                let id = Id {
                    timed: false,
                    group: row.group,
                    time: 0,
                    key: &row.key,
                };
                pending.is_none_or(|bound| row.time > bound) && !memory_knows(shard, id)
            })
        }))
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
}
