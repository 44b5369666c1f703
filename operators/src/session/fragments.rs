//! Fragments: the pieces of sessions that the rows of an epoch make.
//!
//! A row covers the time from its own to the end of its gap. A row that touches the fragment which its key got last extends it, any
//! other row begins a new one: no search, no sorting. Fragments of one key may overlap; which of them, and which stored sessions,
//! are one session is found at the end of the epoch ([`merge`](super::merge)), where all of a key is at hand.

/// Says that a slot has no fragment yet.
const NONE: u32 = u32::MAX;

/// All fragments of an epoch, by index.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Slot of the key.
    pub(super) slots: Vec<u32>,
    /// First moment, in microseconds.
    pub(super) starts: Vec<i64>,
    /// First moment after it.
    pub(super) ends: Vec<i64>,
    /// The fragment that each slot got last.
    last: Vec<u32>,
}

impl Fragments {
    /// Number of fragments.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The fragment of a row.
    pub(super) fn add(&mut self, slot: usize, start: i64, end: i64) -> usize {
        if slot >= self.last.len() {
            self.last.resize(slot + 1, NONE);
        }
        let last = self.last[slot] as usize;
        // Ranges that touch belong together.
        if last < self.len() && start <= self.ends[last] && self.starts[last] <= end {
            self.starts[last] = self.starts[last].min(start);
            self.ends[last] = self.ends[last].max(end);
            return last;
        }
        self.begin(slot, start, end)
    }

    /// A new fragment, whatever it touches.
    pub(super) fn begin(&mut self, slot: usize, start: i64, end: i64) -> usize {
        if slot >= self.last.len() {
            self.last.resize(slot + 1, NONE);
        }
        let next = self.len();
        self.last[slot] = index(next);
        self.slots.push(index(slot));
        self.starts.push(start);
        self.ends.push(end);
        next
    }

    /// The fragments of each slot, by start.
    pub(super) fn by_slot(&self, slots: usize) -> BySlot {
        let mut offsets = vec![0_u32; slots + 1];
        for slot in &self.slots {
            offsets[*slot as usize + 1] += 1;
        }
        for slot in 0..slots {
            offsets[slot + 1] += offsets[slot];
        }
        let mut next = offsets.clone();
        let mut fragments = vec![0_u32; self.len()];
        for (fragment, slot) in self.slots.iter().enumerate() {
            let place = &mut next[*slot as usize];
            fragments[*place as usize] = index(fragment);
            *place += 1;
        }
        for slot in 0..slots {
            let own = &mut fragments[offsets[slot] as usize..offsets[slot + 1] as usize];
            if own.len() > 1 {
                own.sort_by_key(|fragment| self.starts[*fragment as usize]);
            }
        }
        BySlot { offsets, fragments }
    }
}

/// Fragments grouped by slot.
pub(super) struct BySlot {
    offsets: Vec<u32>,
    fragments: Vec<u32>,
}

impl BySlot {
    /// The fragments of a slot, by start; equal starts in the order in which they came.
    pub(super) fn of(&self, slot: usize) -> &[u32] {
        &self.fragments[self.offsets[slot] as usize..self.offsets[slot + 1] as usize]
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("invariant: an epoch has fewer than 2^32 keys and fragments")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_touch_extend_and_others_begin() {
        let mut fragments = Fragments::default();
        let rows = [(0, 5, 10), (0, 10, 15), (0, 16, 20), (1, 5, 6), (0, 1, 5)];
        let found = rows.map(|(slot, start, end)| fragments.add(slot, start, end));
        assert_eq!(
            found,
            [0, 0, 1, 2, 3],
            "the last row touches no longer the last fragment"
        );
        assert_eq!((fragments.starts[0], fragments.ends[0]), (5, 15));
        let by_slot = fragments.by_slot(2);
        assert_eq!(by_slot.of(0), [3, 0, 1]);
        assert_eq!(by_slot.of(1), [2]);
    }

    #[test]
    fn an_earlier_row_moves_the_start_back() {
        let mut fragments = Fragments::default();
        fragments.add(0, 5, 10);
        assert_eq!(fragments.add(0, 0, 5), 0);
        assert_eq!((fragments.starts[0], fragments.ends[0]), (0, 10));
    }
}
