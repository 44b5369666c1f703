//! [`Row`]: an entry as it lies in files; [`Rows`]: rows in order.

use rocksdb::{DBRawIterator, ReadOptions};

use super::{LOOKUPS, TableFiles};
use crate::error::{Result, StateError};
use crate::table::{Entry, TableKind};

/// An entry read from files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) group: u16,
    /// Time of the identity or of the expiry.
    pub(crate) time: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Row {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            group: self.group.into(),
            time: self.time,
            key: &self.key,
            value: &self.value,
        }
    }
}

/// A time as bytes in its order.
pub(crate) fn time_bytes(time: i64) -> [u8; 8] {
    ((time as u64) ^ (1 << 63)).to_be_bytes()
}

fn time_of(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

/// Group, big-endian, and key.
pub(crate) fn group_key(group: u16, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(2 + key.len());
    full.extend_from_slice(&group.to_be_bytes());
    full.extend_from_slice(key);
    full
}

/// Takes group and key apart.
pub(crate) fn split_group_key(full: &[u8]) -> (u16, &[u8]) {
    match full.split_first_chunk::<2>() {
        Some((group, key)) => (u16::from_be_bytes(*group), key),
        None => (0, full),
    }
}

fn time_key(time: i64, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(8 + key.len());
    full.extend_from_slice(&time_bytes(time));
    full.extend_from_slice(key);
    full
}

/// Key of an entry in files.
pub(crate) fn file_key(timed: bool, group: u16, time: i64, key: &[u8]) -> Vec<u8> {
    if timed {
        time_key(time, key)
    } else {
        group_key(group, key)
    }
}

/// Key of an entry in the index by expiry.
pub(super) fn index_key(entry: &Entry<'_>) -> Vec<u8> {
    time_key(entry.time, entry.key)
}

/// Value of an entry in files.
pub(super) fn file_value(kind: TableKind, entry: &Entry<'_>, out: &mut Vec<u8>) {
    out.clear();
    match kind {
        TableKind::Timed { .. } => out.extend_from_slice(&(entry.group as u16).to_be_bytes()),
        TableKind::Expiring => out.extend_from_slice(&time_bytes(entry.time)),
        TableKind::Keyed | TableKind::Ordered => {}
    }
    out.extend_from_slice(entry.value);
}

/// The parts of a stored value: group or expiry where the kind has them there, and the value.
pub(crate) struct Stored<'a> {
    pub(crate) group: Option<u16>,
    pub(crate) expires: Option<i64>,
    pub(crate) value: &'a [u8],
}

impl TableFiles {
    /// Takes a stored value apart.
    pub(crate) fn stored<'a>(&self, value: &'a [u8]) -> Result<Stored<'a>> {
        let (mut group, mut expires) = (None, None);
        let value = match self.kind() {
            TableKind::Timed { .. } => {
                let (first, rest) = value.split_first_chunk::<2>().ok_or_else(|| self.torn())?;
                group = Some(u16::from_be_bytes(*first));
                rest
            }
            TableKind::Expiring => {
                let (first, rest) = value.split_first_chunk::<8>().ok_or_else(|| self.torn())?;
                expires = Some(time_of(*first));
                rest
            }
            TableKind::Keyed | TableKind::Ordered => value,
        };
        Ok(Stored {
            group,
            expires,
            value,
        })
    }

    fn row(&self, key: &[u8], value: &[u8]) -> Result<Row> {
        let stored = self.stored(value)?;
        let (group, time, key) = match stored.group {
            Some(group) => {
                let (time, key) = key.split_first_chunk::<8>().ok_or_else(|| self.torn())?;
                (group, time_of(*time), key)
            }
            None => {
                let (group, key) = split_group_key(key);
                (group, stored.expires.unwrap_or(0), key)
            }
        };
        Ok(Row {
            group,
            time,
            key: key.to_vec(),
            value: stored.value.to_vec(),
        })
    }

    fn torn(&self) -> StateError {
        StateError::Files {
            action: "read",
            path: self.files.dir.path().display().to_string(),
            reason: format!("an entry of table `{}` is too short", self.spec().name),
        }
    }

    /// Rows whose key in files is at or after `from` and before `to`, in order.
    pub(crate) fn rows(&self, from: &[u8], to: Option<Vec<u8>>) -> Rows<'_> {
        Rows {
            files: self,
            cursor: self.cursor(self.family(), from, to),
        }
    }

    fn cursor(
        &self,
        family: &rocksdb::ColumnFamily,
        from: &[u8],
        to: Option<Vec<u8>>,
    ) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        let mut cursor = self.files.db.raw_iterator_cf_opt(family, options);
        cursor.seek(from);
        cursor
    }

    /// Rows of a timed table with times from `from` to `to`, both included.
    pub(crate) fn between(&self, from: i64, to: i64) -> Rows<'_> {
        self.rows(&time_bytes(from), after(to))
    }

    /// Rows of an expiring table that expire at or after `from` and at or before `to`, in order of (expiry, key), without those
    /// `skip` knows better.
    pub(crate) fn expiring<'f>(
        &'f self,
        from: i64,
        to: i64,
        skip: impl Fn(u16, &[u8]) -> bool + 'f,
    ) -> impl Iterator<Item = Result<Row>> + 'f {
        let mut index = self.cursor(self.index_family(), &time_bytes(from), after(to));
        let mut ready = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(row) = ready.next() {
                    return Some(Ok(row));
                }
                if !index.valid() {
                    return index
                        .status()
                        .err()
                        .map(|e| Err(self.files.error("read", &e)));
                }
                match self.next_expiring(&mut index, &skip) {
                    Ok(rows) => ready = rows.into_iter(),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// The rows of the next notes of the index. A note whose entry expires at another time is stale.
    fn next_expiring(
        &self,
        index: &mut DBRawIterator<'_>,
        skip: &impl Fn(u16, &[u8]) -> bool,
    ) -> Result<Vec<Row>> {
        let mut noted = Vec::with_capacity(LOOKUPS);
        while noted.len() < LOOKUPS
            && let Some((key, group)) = index.item()
        {
            let (time, key) = key.split_first_chunk::<8>().ok_or_else(|| self.torn())?;
            let group = group.first_chunk::<2>().ok_or_else(|| self.torn())?;
            let group = u16::from_be_bytes(*group);
            if !skip(group, key) {
                noted.push((group_key(group, key), time_of(*time)));
            }
            index.next();
        }
        let mut order: Vec<usize> = (0..noted.len()).collect();
        order.sort_unstable_by(|a, b| noted[*a].0.cmp(&noted[*b].0));
        let keys: Vec<&[u8]> = order.iter().map(|at| &*noted[*at].0).collect();
        let mut rows = vec![None; noted.len()];
        self.look_up(&keys, |at, value| {
            let (full, time) = &noted[order[at]];
            if let Some(value) = value
                && self.stored(value)?.expires == Some(*time)
            {
                rows[order[at]] = Some(self.row(full, value)?);
            }
            Ok(())
        })?;
        Ok(rows.into_iter().flatten().collect())
    }
}

/// The first key after all of a time.
pub(super) fn after(time: i64) -> Option<Vec<u8>> {
    time.checked_add(1).map(|next| time_bytes(next).to_vec())
}

/// Rows in the order of their keys.
pub(crate) struct Rows<'f> {
    files: &'f TableFiles,
    cursor: DBRawIterator<'f>,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((key, value)) = self.cursor.item() else {
            let status = self.cursor.status().err()?;
            return Some(Err(self.files.files.error("read", &status)));
        };
        let row = self.files.row(key, value);
        self.cursor.next();
        Some(row)
    }
}
