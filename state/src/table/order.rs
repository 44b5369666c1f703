//! [`Place`]: entries of memory are put in the order of the table without copying them.

use super::shard::Shard;

/// One entry to be put in order: first by `major` (time, expiry or group), then by key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// First bytes of the key: settles most comparisons without a look at the entry.
    prefix: u128,
    pub(crate) major: i64,
    pub(crate) shard: u32,
    pub(crate) address: u32,
}

impl Place {
    pub(crate) fn new(major: i64, key: &[u8], shard: u32, address: u32) -> Self {
        Self {
            prefix: prefix_of(key),
            major,
            shard,
            address,
        }
    }
}

fn prefix_of(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let mut bytes = [0; 16];
    bytes[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(bytes)
}

/// Sorts by (major, key).
pub(crate) fn sort(places: &mut [Place], shards: &[Shard]) {
    let key = |place: &Place| shards[place.shard as usize].arena().key(place.address);
    places.sort_unstable_by(|a, b| {
        (a.major, a.prefix)
            .cmp(&(b.major, b.prefix))
            .then_with(|| key(a).cmp(key(b)))
    });
}
