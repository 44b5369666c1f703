//! Files of state: what an epoch changed in the tables of one subtask, or all they hold.
//!
//! ```text
//! envelope (magic, version, length, checksum)      as of every binary file of a checkpoint
//! format version, 1 byte
//! length of the header, u32; the header            who wrote it, the tables, the files it continues
//! blocks: raw length, stored length, bytes         LZ4 if the stored length is the smaller one
//! ```
//!
//! The blocks hold records, one after another: a table, a bound up to which everything expired, an entry set, an entry removed.
//! Lengths and numbers are varints, times are differences to the time before, so that 20 bytes of key and value cost 24 or 25.

mod read;
mod write;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::manifest::SnapshotRef;
use crate::table::TableSpec;

pub(crate) use read::{Record, StateFile};
pub(crate) use write::FileWriter;

/// Version of the layout described above.
const FORMAT_VERSION: u8 = 1;
/// Version of the header's record.
const HEADER_VERSION: u8 = 1;
/// Bytes of a block before compression; a record is never cut.
const BLOCK: usize = 128 << 10;

const TAG_TABLE: u8 = 1;
const TAG_SET: u8 = 2;
const TAG_REMOVED: u8 = 3;
const TAG_EXPIRED: u8 = 4;

/// How the blocks of state files are written.
///
/// LZ4 is the default because it pays: keys of 20 and values of 16 bytes became less than half as long, for 70 ns an entry when
/// everything is written and nothing to be seen when it is restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4, per block, where it makes the block smaller.
    #[default]
    Lz4,
}

/// A file and how to tell that it is the one meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Name inside the checkpoint location.
    pub(crate) file: String,
    /// CRC-32 of the content without the envelope.
    pub(crate) crc32: u32,
    /// Bytes of the content.
    pub(crate) bytes: u64,
}

impl From<&SnapshotRef> for Link {
    fn from(snapshot: &SnapshotRef) -> Self {
        Self {
            file: snapshot.file.clone(),
            crc32: snapshot.crc32,
            bytes: snapshot.bytes,
        }
    }
}

/// The first part of a state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileHeader {
    /// Epoch whose end the file describes.
    pub(crate) epoch: u64,
    /// Generation that wrote it.
    pub(crate) generation: u64,
    /// Subtask that wrote it.
    pub(crate) subtask: u32,
    /// Key groups of that subtask.
    pub(crate) groups: Range<u32>,
    /// All entries rather than changes.
    pub(crate) full: bool,
    /// The tables, in order; records name them by index.
    pub(crate) tables: Vec<TableSpec>,
    /// The files whose state this one changes: that of an earlier epoch of the same subtask, or, after a change of parallelism,
    /// one of each earlier subtask.
    pub(crate) parents: Vec<Link>,
    /// Everything up to the epoch of this base is in it: files of that epoch and older need not be read.
    pub(crate) base: Option<Link>,
}
