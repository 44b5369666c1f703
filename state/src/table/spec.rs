//! What tables are called and hold: [`TableSpec`], [`TableKind`], [`Entry`], [`TableStats`].

use serde::{Deserialize, Serialize};

/// How the entries of a table are found and when they go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableKind {
    /// By key; entries stay until removed.
    Keyed,
    /// By (time, key): the time is part of the identity and never changes. Everything up to a bound goes at once, as whole
    /// buckets of `bucket` time units.
    Timed {
        /// Width of a bucket, in the units of the times (1 or more).
        bucket: i64,
    },
    /// By key; each value carries a time at which it expires.
    Expiring,
    /// By key, in key order: entries of one key group that share a prefix can be read in order.
    Ordered,
}

impl TableKind {
    /// The kind as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Timed { .. } => "timed",
            Self::Expiring => "expiring",
            Self::Ordered => "ordered",
        }
    }
}

/// What a table is called and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Name, unique in the operator: letters, digits, `-`, `_`.
    pub name: String,
    /// How entries are found.
    pub kind: TableKind,
    /// Version of the layout of keys and values; a checkpoint of another version is refused.
    pub version: u16,
    /// Columns of the key as text, for readers of the checkpoint.
    pub key: String,
    /// Columns of the value as text, for readers of the checkpoint.
    pub value: String,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Key group the key belongs to.
    pub group: u32,
    /// Time of the identity (timed) or of the expiry (expiring); 0 in other tables.
    pub time: i64,
    /// Key.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// Counters of one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Entries now.
    pub rows: u64,
    /// Entries set in the open epoch.
    pub updated: u64,
    /// Entries removed in the open epoch.
    pub removed: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}
