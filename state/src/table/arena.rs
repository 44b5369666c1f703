//! [`Arena`]: the entries of a shard, one after another in chunks of bytes.
//!
//! An entry is one contiguous piece (header, key, value), so that one look at an entry is one look at memory. Addresses count
//! units of 8 bytes and stay valid until the arena is rebuilt; what is replaced stays behind as garbage, marked dead, so that the
//! arena can be walked from its start to its end without an index. An entry of just the size of a dead one takes its place.

use std::hint::black_box;

use super::chunk::{CHUNK, Chunk};

/// Bytes of a unit: entries begin at multiples of it.
const UNIT: usize = 8;
/// Units of a chunk, as a power of two. A larger entry gets a chunk of its own, longer than the others.
const CHUNK_UNITS_LOG2: u32 = (CHUNK / UNIT).ilog2();
/// Bytes of a header.
const HEADER: usize = 32;
/// Bytes of a line of cache.
const LINE: usize = 64;
/// Entries looked at ahead: enough for their looks to overlap, few enough to stay in the nearest cache until they are used.
pub(crate) const AHEAD: usize = 64;
/// Units of the largest dead entries whose places are remembered.
const REUSED_UNITS: usize = 64;
/// Where the flags are in it.
const FLAGS: usize = 30;

/// The entry has a value.
pub(crate) const PRESENT: u8 = 1;
/// Memory does not know yet whether the entry exists.
pub(crate) const UNKNOWN: u8 = 2;
/// Differs from what the files of RocksDB hold.
pub(crate) const DIRTY: u8 = 4;
/// Set or removed in the epoch of the last touch.
pub(crate) const CHANGED: u8 = 8;
/// The files of RocksDB may hold a value.
pub(crate) const IN_FILES: u8 = 16;
/// Set or removed without having been looked up: whether it existed is settled at the epoch's end.
pub(crate) const BLIND: u8 = 32;
/// Garbage.
const DEAD: u8 = 128;

/// What is known of an entry besides key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Epoch (as counted by the table) of the last touch.
    pub(crate) stamp: u32,
    /// Slot, valid if `stamp` is that of the open epoch.
    pub(crate) slot: u32,
    /// Time of the identity, or of the expiry.
    pub(crate) time: i64,
    pub(crate) key_len: u32,
    pub(crate) value_len: u32,
    /// Bytes there are for the value.
    pub(crate) value_cap: u32,
    pub(crate) group: u16,
    pub(crate) flags: u8,
}

impl Header {
    #[inline]
    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.value_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.value_cap.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.group.to_le_bytes());
        bytes[FLAGS] = self.flags;
        bytes
    }

    #[inline]
    fn from_bytes(b: &[u8; HEADER]) -> Self {
        Self {
            stamp: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            slot: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            time: i64::from_le_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
            key_len: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
            value_len: u32::from_le_bytes([b[20], b[21], b[22], b[23]]),
            value_cap: u32::from_le_bytes([b[24], b[25], b[26], b[27]]),
            group: u16::from_le_bytes([b[28], b[29]]),
            flags: b[FLAGS],
        }
    }

    /// Bytes of the whole entry, a multiple of the unit.
    pub(crate) fn size(&self) -> usize {
        HEADER + (self.key_len as usize + self.value_cap as usize).next_multiple_of(UNIT)
    }
}

/// Length of a key or value as stored.
pub(crate) fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("invariant: a key or value has less than 4 GiB")
}

/// Bytes of entries. Addresses are of 32 bits: 32 GiB for one shard.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    /// Empty ones, to be filled next.
    spare: Vec<Chunk>,
    /// The entries stay, many of them perhaps.
    lasting: bool,
    used: usize,
    garbage: usize,
    /// Dead entries, by size in units.
    dead: Vec<Vec<u32>>,
}

impl Arena {
    /// An arena for entries that stay, or for ones that go together before long.
    pub(crate) fn new(lasting: bool) -> Self {
        Self {
            lasting,
            ..Self::default()
        }
    }

    /// Takes all entries out.
    pub(crate) fn take(&mut self) -> Self {
        let lasting = self.lasting;
        std::mem::replace(self, Self::new(lasting))
    }

    /// Forgets all entries and keeps the memory for others.
    pub(crate) fn reset(&mut self) {
        let chunks = std::mem::take(&mut self.chunks);
        self.spare
            .extend(chunks.into_iter().filter_map(Chunk::emptied));
        self.dead.clear();
        (self.used, self.garbage) = (0, 0);
    }

    /// Appends an entry with room for `value_cap` bytes or a little more; the value is not written.
    pub(crate) fn push(&mut self, mut header: Header, key: &[u8]) -> u32 {
        let body = (key.len() + header.value_cap as usize).next_multiple_of(UNIT);
        header.key_len = length(key);
        header.value_cap =
            u32::try_from(body - key.len()).expect("invariant: a key or value has less than 4 GiB");
        let size = HEADER + body;
        if let Some(address) = self.dead.get_mut(size / UNIT).and_then(Vec::pop) {
            self.garbage -= size;
            let entry = self.at_mut(address);
            entry[..HEADER].copy_from_slice(&header.to_bytes());
            entry[HEADER..HEADER + key.len()].copy_from_slice(key);
            return address;
        }
        let (index, chunk) = self.chunk_for(size);
        let offset = chunk.take(size);
        let entry = &mut chunk.bytes_mut()[offset..];
        entry[..HEADER].copy_from_slice(&header.to_bytes());
        entry[HEADER..HEADER + key.len()].copy_from_slice(key);
        self.used += size;
        u32::try_from((index << CHUNK_UNITS_LOG2) + offset / UNIT)
            .expect("invariant: a shard has less than 32 GiB")
    }

    fn chunk_for(&mut self, size: usize) -> (usize, &mut Chunk) {
        if !self.chunks.last().is_some_and(|chunk| chunk.fits(size)) {
            let first = self.chunks.is_empty();
            let spare = self.spare.pop_if(|spare| spare.fits(size));
            self.chunks.push(match spare {
                Some(spare) => spare,
                None if self.lasting && !first => Chunk::mapped(size),
                None => Chunk::allocated(first, size),
            });
        }
        let index = self.chunks.len() - 1;
        (index, &mut self.chunks[index])
    }

    #[inline]
    fn at(&self, address: u32) -> &[u8] {
        let offset = (address as usize & ((1 << CHUNK_UNITS_LOG2) - 1)) * UNIT;
        &self.chunks[(address >> CHUNK_UNITS_LOG2) as usize].bytes()[offset..]
    }

    #[inline]
    fn at_mut(&mut self, address: u32) -> &mut [u8] {
        let offset = (address as usize & ((1 << CHUNK_UNITS_LOG2) - 1)) * UNIT;
        &mut self.chunks[(address >> CHUNK_UNITS_LOG2) as usize].bytes_mut()[offset..]
    }

    #[inline]
    pub(crate) fn header(&self, address: u32) -> Header {
        header_of(self.at(address))
    }

    pub(crate) fn set_header(&mut self, address: u32, header: Header) {
        self.at_mut(address)[..HEADER].copy_from_slice(&header.to_bytes());
    }

    /// Looks at the memory of an entry and says something that depends on it, so that the look is not left out.
    #[inline]
    pub(crate) fn glance(&self, address: u32) -> u8 {
        let entry = self.at(address);
        // Most entries take two lines of cache at most.
        entry.first().copied().unwrap_or(0) ^ entry.get(LINE - 4).copied().unwrap_or(0)
    }

    /// Looks at entries, at most [`AHEAD`], that will be looked at one after the other.
    pub(crate) fn glance_all(&self, addresses: impl Iterator<Item = u32>) {
        black_box(addresses.fold(0, |all, address| all ^ self.glance(address)));
    }

    /// Marks the entry as touched, and as not yet changed in this epoch.
    pub(crate) fn stamp(&mut self, address: u32, stamp: u32, slot: u32) {
        let entry = self.at_mut(address);
        entry[0..4].copy_from_slice(&stamp.to_le_bytes());
        entry[4..8].copy_from_slice(&slot.to_le_bytes());
        entry[FLAGS] &= !(CHANGED | BLIND);
    }

    pub(crate) fn key(&self, address: u32) -> &[u8] {
        let entry = self.at(address);
        let header = header_of(entry);
        &entry[HEADER..HEADER + header.key_len as usize]
    }

    /// Header, key, value; the value is meaningful if the entry is present.
    #[inline]
    pub(crate) fn entry(&self, address: u32) -> (Header, &[u8], &[u8]) {
        parts(self.at(address))
    }

    /// Overwrites header and value; false if the value does not fit (nothing is written).
    pub(crate) fn write(&mut self, address: u32, header: Header, value: &[u8]) -> bool {
        if value.len() > header.value_cap as usize {
            return false;
        }
        let header = Header {
            value_len: length(value),
            ..header
        };
        let entry = self.at_mut(address);
        entry[..HEADER].copy_from_slice(&header.to_bytes());
        let start = HEADER + header.key_len as usize;
        entry[start..start + value.len()].copy_from_slice(value);
        true
    }

    /// Moves an entry to a new place with room for `value_cap`, leaving the old one as garbage.
    pub(crate) fn grow(&mut self, address: u32, header: Header, value_cap: u32) -> u32 {
        let key = self.key(address).to_vec();
        self.kill(address);
        self.push(
            Header {
                value_cap,
                ..header
            },
            &key,
        )
    }

    /// Turns an entry into garbage.
    pub(crate) fn kill(&mut self, address: u32) {
        let header = self.header(address);
        let units = header.size() / UNIT;
        self.garbage += header.size();
        if units <= REUSED_UNITS {
            if self.dead.len() <= units {
                self.dead.resize_with(units + 1, Vec::new);
            }
            self.dead[units].push(address);
        }
        self.set_header(
            address,
            Header {
                flags: DEAD,
                ..header
            },
        );
    }

    /// Every live entry with its address, in the order of addresses.
    pub(crate) fn walk(&self) -> impl Iterator<Item = (u32, Header)> {
        self.chunks
            .iter()
            .enumerate()
            .flat_map(|(index, chunk)| walk_chunk(chunk.used(), (index << CHUNK_UNITS_LOG2) as u32))
    }

    /// Gives every live entry the flags `flags` makes of its header.
    pub(crate) fn remark(&mut self, flags: impl Fn(&Header) -> u8) {
        for chunk in &mut self.chunks {
            let chunk = chunk.used_mut();
            let mut offset = 0;
            while offset < chunk.len() {
                let header = header_of(&chunk[offset..]);
                if !header.is(DEAD) {
                    chunk[offset + FLAGS] = flags(&header);
                }
                offset += header.size();
            }
        }
    }

    /// Hands every live entry of an old arena to `keep`, giving memory back while it goes.
    pub(crate) fn drain(self, mut keep: impl FnMut(Header, &[u8], &[u8])) {
        for chunk in self.chunks {
            let bytes = chunk.used();
            for (address, _) in walk_chunk(bytes, 0) {
                let (header, key, value) = parts(&bytes[address as usize * UNIT..]);
                keep(header, key, value);
            }
        }
    }

    /// Gives back what the last chunk has ready for entries to come.
    pub(crate) fn shrink(&mut self) {
        if let Some(last) = self.chunks.last_mut() {
            last.shrink();
        }
    }

    /// Bytes of garbage.
    pub(crate) fn garbage(&self) -> usize {
        self.garbage
    }

    /// Bytes of entries that are not garbage.
    pub(crate) fn live_bytes(&self) -> usize {
        self.used - self.garbage
    }

    /// Bytes allocated.
    pub(crate) fn allocated(&self) -> usize {
        let chunks = self.chunks.iter().chain(&self.spare);
        let chunks: usize = chunks.map(Chunk::memory_bytes).sum();
        let dead = self
            .dead
            .iter()
            .map(|places| places.capacity() * size_of::<u32>());
        chunks + dead.sum::<usize>()
    }
}

#[inline]
fn header_of(entry: &[u8]) -> Header {
    let bytes = entry
        .first_chunk::<HEADER>()
        .expect("invariant: an address is that of an entry");
    Header::from_bytes(bytes)
}

#[inline]
fn parts(entry: &[u8]) -> (Header, &[u8], &[u8]) {
    let header = header_of(entry);
    let (key, rest) = entry[HEADER..].split_at(header.key_len as usize);
    (header, key, &rest[..header.value_len as usize])
}

fn walk_chunk(chunk: &[u8], base: u32) -> impl Iterator<Item = (u32, Header)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        while offset < chunk.len() {
            let header = header_of(&chunk[offset..]);
            let address = base + (offset / UNIT) as u32;
            offset += header.size();
            if !header.is(DEAD) {
                return Some((address, header));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value_cap: u32) -> Header {
        Header {
            stamp: 7,
            slot: 3,
            time: -5,
            key_len: 0,
            value_len: 0,
            value_cap,
            group: 4095,
            flags: PRESENT,
        }
    }

    #[test]
    fn arena_entries_of_all_sizes_keep_their_bytes() {
        let mut arena = Arena::default();
        let sizes = [0, 1, 7, 8, 9, 31, 1000, CHUNK - 40, CHUNK, 3 * CHUNK, 5];
        let mut placed = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let (key, value) = (vec![at as u8; at], vec![at as u8 + 100; *size]);
            let address = arena.push(header(length(&value)), &key);
            let head = arena.header(address);
            assert!(arena.write(address, head, &value));
            placed.push((address, key, value));
        }
        for (address, key, value) in &placed {
            let (head, k, v) = arena.entry(*address);
            assert_eq!((k, v), (&key[..], &value[..]));
            assert_eq!(
                (head.stamp, head.slot, head.time, head.group),
                (7, 3, -5, 4095)
            );
        }
        let walked: Vec<u32> = arena.walk().map(|(address, _)| address).collect();
        let addresses: Vec<u32> = placed.iter().map(|(address, ..)| *address).collect();
        assert_eq!(walked, addresses);
    }

    #[test]
    fn arena_entry_of_the_size_of_a_dead_one_takes_its_place() {
        let mut arena = Arena::default();
        let first = arena.push(header(8), b"abc");
        let second = arena.push(header(8), b"def");
        arena.kill(first);
        assert_ne!(arena.push(header(80), b"longer"), first);
        let garbage = arena.garbage();
        let again = arena.push(header(8), b"ghi");
        assert_eq!((again, arena.key(again)), (first, &b"ghi"[..]));
        assert!(garbage > 0 && arena.garbage() == 0);
        let (head, walked) = (arena.header(second), arena.walk().count());
        assert!(head.is(PRESENT) && walked == 3, "{walked} entries");
    }

    #[test]
    fn arena_grown_entry_leaves_garbage_that_walks_and_drains_skip() {
        let mut arena = Arena::default();
        let first = arena.push(header(4), b"key");
        let second = arena.push(header(4), b"other");
        let head = arena.header(first);
        assert!(!arena.write(first, head, &[1; 100]));
        let moved = arena.grow(first, head, 100);
        let head = arena.header(moved);
        assert!(arena.write(moved, head, &[1; 100]));
        assert!(arena.header(first).is(DEAD) && !arena.header(moved).is(DEAD));
        assert_eq!(arena.key(moved), b"key");
        let walked: Vec<u32> = arena.walk().map(|(address, _)| address).collect();
        assert_eq!(walked, [second, moved]);
        assert!(arena.garbage() > 0 && arena.live_bytes() < arena.allocated());
        let mut drained = Vec::new();
        arena.drain(|_, key, value| drained.push((key.to_vec(), value.len())));
        assert_eq!(drained, [(b"other".to_vec(), 0), (b"key".to_vec(), 100)]);
    }
}
