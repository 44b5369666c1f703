//! [`StateFile`]: a state file taken apart. Damage is an error that says what is wrong; it never panics.

use bytes::Bytes;

use super::{
    FORMAT_VERSION, FileHeader, HEADER_VERSION, TAG_EXPIRED, TAG_REMOVED, TAG_SET, TAG_TABLE,
};
use crate::codec;
use crate::error::{Result, StateError};
use crate::location::CheckpointLocation;
use crate::snapshot;
use crate::table::{Change, Entry};

use super::Link;

/// Largest block accepted, before compression: a record may be as large as a value.
const BLOCK_MAX: u64 = 4 << 30;

/// What stands in a state file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Record<'a> {
    /// The records that follow are of the table of this index.
    Table(usize),
    /// A change.
    Change(Change<'a>),
}

/// A state file whose checksum fits.
#[derive(Debug)]
pub(crate) struct StateFile {
    /// Full name, for messages.
    path: String,
    pub(crate) header: FileHeader,
    blocks: Bytes,
}

impl StateFile {
    /// Reads the file a link means.
    ///
    /// # Errors
    /// [`StateError::Missing`], [`StateError::Damaged`], [`StateError::UnsupportedVersion`], the storage's own.
    pub(crate) async fn read(
        location: &CheckpointLocation,
        link: &Link,
        named_by: &str,
    ) -> Result<Self> {
        let content = snapshot::read_named(location, link, named_by).await?;
        Self::parse(location.display_of(&link.file), content)
    }

    /// Full name, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn parse(path: String, content: Bytes) -> Result<Self> {
        let damaged = |reason: &str| snapshot::damaged(path.clone(), reason.to_string());
        match content.first() {
            Some(&FORMAT_VERSION) => {}
            Some(&found) if found > FORMAT_VERSION => {
                return Err(StateError::UnsupportedVersion {
                    path,
                    found: found.into(),
                    max: FORMAT_VERSION.into(),
                });
            }
            _ => return Err(damaged("it is no file of state tables")),
        }
        let (length, rest) = content[1..]
            .split_first_chunk::<4>()
            .ok_or_else(|| damaged("it ends in its header"))?;
        let (header, blocks) = rest
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(|| damaged("it ends in its header"))?;
        let header = codec::decode("header of a state file", HEADER_VERSION, header)
            .map_err(|e| damaged(&e.to_string()))?;
        Ok(Self {
            header,
            blocks: content.slice_ref(blocks),
            path,
        })
    }

    /// Hands over every record in order; returns their bytes before compression.
    ///
    /// # Errors
    /// [`StateError::Damaged`], those of `visit`.
    pub(crate) fn records(&self, visit: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<u64> {
        let damaged = || {
            let reason = "its records cannot be read".to_string();
            snapshot::damaged(self.path.clone(), reason)
        };
        let mut rest = Input(&self.blocks);
        let (mut time, mut bytes) = (0, 0);
        while !rest.0.is_empty() {
            let raw_length = rest.varint().ok_or_else(damaged)?;
            let stored = rest.bytes().ok_or_else(damaged)?;
            let unpacked;
            let block = if stored.len() as u64 == raw_length {
                stored
            } else if raw_length > BLOCK_MAX {
                return Err(damaged());
            } else {
                unpacked = lz4_flex::block::decompress(stored, raw_length as usize)
                    .map_err(|_| damaged())?;
                if unpacked.len() as u64 != raw_length {
                    return Err(damaged());
                }
                &unpacked
            };
            let mut block = Input(block);
            while !block.0.is_empty() {
                let record = block.record(&mut time).ok_or_else(damaged)?;
                visit(record)?;
            }
            bytes += raw_length;
        }
        Ok(bytes)
    }
}

/// Bytes still to be read. Nothing is returned when they do not suffice.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn record(&mut self, time: &mut i64) -> Option<Record<'a>> {
        Some(match self.byte()? {
            TAG_TABLE => {
                *time = 0;
                Record::Table(usize::try_from(self.varint()?).ok()?)
            }
            TAG_SET => {
                let mut entry = self.identity(time)?;
                entry.value = self.bytes()?;
                Record::Change(Change::Set(entry))
            }
            TAG_REMOVED => Record::Change(Change::Removed(self.identity(time)?)),
            TAG_EXPIRED => Record::Change(Change::Expired(unzigzag(self.varint()?))),
            _ => return None,
        })
    }

    fn identity(&mut self, time: &mut i64) -> Option<Entry<'a>> {
        let group = u32::from(u16::try_from(self.varint()?).ok()?);
        *time = time.wrapping_add(unzigzag(self.varint()?));
        let key = self.bytes()?;
        Some(Entry {
            group,
            time: *time,
            key,
            value: &[],
        })
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
