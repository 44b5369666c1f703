//! [`Chunk`]: memory for entries.
//!
//! Small tables, and parts of tables that soon go as a whole, take theirs from the allocator, which has it ready again. Large tables
//! that stay map theirs: such a chunk begins at a line of the processor's caches, so that an entry of 64 bytes lies in one line, and
//! asks for huge pages, without which a look at an entry far away first waits for the look at its page's address.

use memmap2::MmapMut;

/// Most bytes of a chunk, unless one entry needs more: those of a huge page.
pub(super) const CHUNK: usize = 2 << 20;
/// Bytes of a chunk from the allocator.
const ALLOCATED: usize = 256 << 10;
/// The first chunk of an arena begins this small and grows: tables often have many small shards.
const FIRST: usize = 1024;

/// Bytes that are filled from the start to the end.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: Memory,
    used: usize,
    /// Bytes that can be used.
    size: usize,
}

#[derive(Debug)]
enum Memory {
    Allocated(Vec<u8>),
    Mapped { map: MmapMut, huge: bool },
}

impl Chunk {
    /// From the allocator, for at least `size` bytes; the first one of an arena grows as it is filled.
    pub(super) fn allocated(first: bool, size: usize) -> Self {
        let size = size.max(ALLOCATED);
        Self {
            memory: Memory::Allocated(Vec::with_capacity(if first { 0 } else { size })),
            used: 0,
            size,
        }
    }

    /// Mapped, for at least `size` bytes; what cannot be mapped is left to the allocator, whose failures are those of every other
    /// allocation.
    pub(super) fn mapped(size: usize) -> Self {
        let length = size.next_multiple_of(CHUNK);
        let Ok(map) = MmapMut::map_anon(length) else {
            return Self::allocated(false, size);
        };
        let huge = ask_for_huge_pages(&map);
        Self {
            memory: Memory::Mapped { map, huge },
            used: 0,
            size: length,
        }
    }

    /// Empties it, so that it can be filled again; nothing for mapped ones.
    pub(super) fn emptied(mut self) -> Option<Self> {
        let Memory::Allocated(bytes) = &mut self.memory else {
            return None;
        };
        bytes.clear();
        self.used = 0;
        Some(self)
    }

    pub(super) fn fits(&self, size: usize) -> bool {
        self.used + size <= self.size
    }

    /// Takes the next `size` bytes, which must fit; returns where they begin.
    pub(super) fn take(&mut self, size: usize) -> usize {
        let from = self.used;
        self.used += size;
        if let Memory::Allocated(bytes) = &mut self.memory {
            if bytes.capacity() == 0 {
                bytes.reserve_exact(size.max(FIRST));
            }
            bytes.resize(self.used, 0);
        }
        from
    }

    /// The bytes taken, and perhaps more behind them.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Allocated(bytes) => bytes,
            Memory::Mapped { map, .. } => map,
        }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Allocated(bytes) => bytes,
            Memory::Mapped { map, .. } => map,
        }
    }

    /// The bytes taken.
    pub(super) fn used(&self) -> &[u8] {
        &self.bytes()[..self.used]
    }

    pub(super) fn used_mut(&mut self) -> &mut [u8] {
        let used = self.used;
        &mut self.bytes_mut()[..used]
    }

    /// Gives back what is ready for entries to come.
    pub(super) fn shrink(&mut self) {
        if let Memory::Allocated(bytes) = &mut self.memory {
            bytes.shrink_to_fit();
        }
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.memory {
            Memory::Allocated(bytes) => bytes.capacity(),
            Memory::Mapped { map, huge: true } => map.len(),
            Memory::Mapped { huge: false, .. } => self.used,
        }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(map: &MmapMut) -> bool {
    map.advise(memmap2::Advice::HugePage).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_map: &MmapMut) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(size: usize) -> [Chunk; 3] {
        [
            Chunk::allocated(true, size),
            Chunk::allocated(false, size),
            Chunk::mapped(size),
        ]
    }

    #[test]
    fn chunk_takes_bytes_one_behind_the_other_until_it_is_full() {
        for (number, mut chunk) in (1..).zip(kinds(64)) {
            let mut at = 0;
            while chunk.fits(4096) {
                assert_eq!(chunk.take(4096), at);
                chunk.bytes_mut()[at..at + 4096].fill(number);
                at += 4096;
            }
            assert!(at >= ALLOCATED && chunk.used().len() == at);
            assert!(chunk.used().iter().all(|byte| *byte == number));
            assert!(chunk.memory_bytes() >= at);
        }
    }

    #[test]
    fn chunk_for_one_large_entry_has_room_for_it() {
        let size = 3 * CHUNK + 8;
        for mut chunk in kinds(size) {
            assert!(chunk.fits(size));
            chunk.take(size);
            assert_eq!(chunk.used_mut().len(), size);
        }
    }

    #[test]
    fn chunk_of_a_small_table_takes_little_memory() {
        let mut chunk = Chunk::allocated(true, 64);
        chunk.take(64);
        assert!(chunk.memory_bytes() <= 2 * FIRST);
    }

    #[test]
    fn chunk_that_is_mapped_begins_at_a_line_of_the_caches() {
        let chunk = Chunk::mapped(64);
        assert_eq!(chunk.bytes().as_ptr() as usize % 64, 0);
    }
}
