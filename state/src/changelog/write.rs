//! [`FileWriter`]: builds a state file in memory.

use super::{
    BLOCK, Compression, FORMAT_VERSION, FileHeader, HEADER_VERSION, TAG_EXPIRED, TAG_REMOVED,
    TAG_SET, TAG_TABLE,
};
use crate::codec;
use crate::envelope::BinaryBuilder;
use crate::error::Result;
use crate::table::{Change, Entry};

/// A state file being written.
#[derive(Debug)]
pub(crate) struct FileWriter {
    file: BinaryBuilder,
    block: Vec<u8>,
    compression: Compression,
    time: i64,
    raw_bytes: u64,
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The bytes to write, envelope included.
    pub(crate) bytes: Vec<u8>,
    /// CRC-32 of the content.
    pub(crate) crc32: u32,
    /// Bytes of the content.
    pub(crate) length: u64,
}

impl FileWriter {
    pub(crate) fn new(header: &FileHeader, compression: Compression) -> Result<Self> {
        let header = codec::encode("header of a state file", HEADER_VERSION, header)?;
        let mut file = BinaryBuilder::default();
        let out = file.body();
        out.push(FORMAT_VERSION);
        let length = u32::try_from(header.len()).expect("invariant: records are limited");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&header);
        Ok(Self {
            file,
            block: Vec::new(),
            compression,
            time: 0,
            raw_bytes: 0,
        })
    }

    /// The records that follow are of this table.
    pub(crate) fn table(&mut self, index: usize) {
        self.block.push(TAG_TABLE);
        varint(&mut self.block, index as u64);
        self.time = 0;
    }

    pub(crate) fn change(&mut self, change: Change<'_>) {
        match change {
            Change::Set(entry) => self.set(entry),
            Change::Removed(entry) => {
                self.block.push(TAG_REMOVED);
                self.identity(entry);
            }
            Change::Expired(bound) => {
                self.block.push(TAG_EXPIRED);
                varint(&mut self.block, zigzag(bound));
            }
        }
        if self.block.len() >= BLOCK {
            self.end_block();
        }
    }

    fn set(&mut self, entry: Entry<'_>) {
        self.block.push(TAG_SET);
        self.identity(entry);
        varint(&mut self.block, entry.value.len() as u64);
        self.block.extend_from_slice(entry.value);
    }

    fn identity(&mut self, entry: Entry<'_>) {
        varint(&mut self.block, entry.group.into());
        varint(&mut self.block, zigzag(entry.time.wrapping_sub(self.time)));
        self.time = entry.time;
        varint(&mut self.block, entry.key.len() as u64);
        self.block.extend_from_slice(entry.key);
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        self.raw_bytes += self.block.len() as u64;
        let out = self.file.body();
        varint(out, self.block.len() as u64);
        if self.compression == Compression::Lz4 {
            let packed = lz4_flex::block::compress(&self.block);
            if packed.len() < self.block.len() {
                varint(out, packed.len() as u64);
                out.extend_from_slice(&packed);
                self.block.clear();
                return;
            }
        }
        varint(out, self.block.len() as u64);
        out.extend_from_slice(&self.block);
        self.block.clear();
    }

    /// Bytes of records so far, before compression.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes + self.block.len() as u64
    }

    pub(crate) fn finish(mut self) -> Finished {
        self.end_block();
        let length = self.file.body_len();
        let (bytes, crc32) = self.file.finish();
        Finished {
            bytes,
            crc32,
            length,
        }
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)) as u64
}
