//! [`ExpiryIndex`]: which entries of memory may have expired, by coarse buckets of expiry.
//!
//! Lazy: an entry whose expiry moves is noted again and its old note stays until its bucket comes due, where the entry itself is
//! asked. The width of the buckets doubles when there are too many, so that their number stays small whatever the unit of time.

use std::collections::BTreeMap;

use super::arena::AHEAD;

/// Buckets before the width doubles.
const BUCKETS_MAX: usize = 1024;

/// Notes (expiry, address of an entry).
#[derive(Debug, Default)]
pub(crate) struct ExpiryIndex {
    /// Width of a bucket as a power of two.
    shift: u32,
    buckets: BTreeMap<i64, Vec<u32>>,
    notes: usize,
}

impl ExpiryIndex {
    /// Notes that the entry at `address` expires at `time`.
    pub(crate) fn note(&mut self, time: i64, address: u32) {
        self.buckets
            .entry(time >> self.shift)
            .or_default()
            .push(address);
        self.notes += 1;
        while self.buckets.len() > BUCKETS_MAX {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let mut wide: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (bucket, mut notes) in std::mem::take(&mut self.buckets) {
            let into = wide.entry(bucket >> 1).or_default();
            if into.is_empty() {
                *into = notes;
            } else {
                into.append(&mut notes);
            }
        }
        self.buckets = wide;
    }

    /// Takes every note whose entry may expire at or before `bound`; `still` says what the entry at the address says now: its
    /// expiry, or nothing if it is gone; `ahead` hears of addresses before they are asked about. Notes of entries that expire later in
    /// the same bucket stay.
    pub(crate) fn take_due(
        &mut self,
        bound: i64,
        ahead: impl Fn(&[u32]),
        still: impl Fn(u32) -> Option<i64>,
    ) -> Vec<(i64, u32)> {
        let cut = bound >> self.shift;
        let later = match cut.checked_add(1) {
            Some(after) => self.buckets.split_off(&after),
            None => BTreeMap::new(),
        };
        let due = std::mem::replace(&mut self.buckets, later);
        let mut found = Vec::new();
        for (bucket, notes) in due {
            self.notes -= notes.len();
            let mut kept = Vec::new();
            for run in notes.chunks(AHEAD) {
                ahead(run);
                for address in run.iter().copied() {
                    match still(address) {
                        Some(time) if time >> self.shift != bucket => {}
                        Some(time) if time <= bound => found.push((time, address)),
                        Some(_) => kept.push(address),
                        None => {}
                    }
                }
            }
            if !kept.is_empty() {
                self.notes += kept.len();
                self.buckets.entry(bucket).or_default().extend(kept);
            }
        }
        // An entry noted twice under one bucket is due once.
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Number of notes, those of moved entries included.
    pub(crate) fn notes(&self) -> usize {
        self.notes
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.notes * size_of::<u32>() + self.buckets.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_notes_are_exact_whatever_the_width() {
        let times: Vec<i64> = (0..5000).map(|i| (i * 7919 % 10_007) - 5000).collect();
        let mut index = ExpiryIndex::default();
        for (address, time) in times.iter().enumerate() {
            index.note(*time, address as u32);
        }
        assert!(index.buckets.len() <= BUCKETS_MAX && index.shift > 0);
        let mut gone = -6000;
        for bound in [-5001, -4990, -1, 0, 1, 2500, 2501, 20_000] {
            let due = index.take_due(bound, |_| {}, |address| Some(times[address as usize]));
            let expected = times
                .iter()
                .filter(|time| **time > gone && **time <= bound)
                .count();
            assert_eq!(due.len(), expected, "bound {bound}");
            gone = bound;
        }
        assert_eq!(index.notes(), 0);
    }

    #[test]
    fn moved_entry_is_due_once_at_its_new_time() {
        let mut index = ExpiryIndex::default();
        index.note(5, 1);
        index.note(9, 1);
        index.note(5, 1);
        assert!(index.take_due(4, |_| {}, |_| Some(5)).is_empty());
        assert_eq!(index.take_due(9, |_| {}, |_| Some(5)), [(5, 1)]);
        assert!(index.take_due(i64::MAX, |_| {}, |_| None).is_empty());
    }
}
