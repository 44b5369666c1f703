//! State for operators written by users: values, maps, lists and timers of Rust types, on top of tables of bytes.
//!
//! Each type is a table of its own, declared by its `spec` and used through a short borrow of the table: `ValueState::on(table)`.
//! Keys and values are anything serde can write. Values carry the version byte of the codec.
//!
//! ```
//! use weir_state::typed::{ListState, MapState, Timers, ValueState};
//! use weir_state::OperatorState;
//!
//! let mut state = OperatorState::in_memory(&[
//!     ValueState::<u64>::spec("visits", 1),
//!     MapState::<String, u64>::spec("pages", 1),
//!     ListState::<String>::spec("history", 1),
//!     Timers::spec("timers", 1),
//! ]);
//! // The key of the row being processed and its key group.
//! let (group, user) = (7, b"alice");
//!
//! let mut visits = ValueState::<u64>::on(state.table(0));
//! let count = visits.get(group, user)?.unwrap_or(0) + 1;
//! visits.set(group, user, &count)?;
//!
//! let mut pages = MapState::<String, u64>::on(state.table(1));
//! pages.put(group, user, &"/home".to_string(), &1)?;
//! assert_eq!(pages.get(group, user, &"/home".to_string())?, Some(1));
//! assert_eq!(pages.entries(group, user)?, [("/home".to_string(), 1)]);
//!
//! let mut history = ListState::<String>::on(state.table(2));
//! history.push(group, user, &"/home".to_string())?;
//! history.push(group, user, &"/cart".to_string())?;
//! assert_eq!(history.all(group, user)?, ["/home", "/cart"]);
//!
//! let mut timers = Timers::on(state.table(3));
//! timers.set(group, 1_000, user);
//! let mut fired = Vec::new();
//! timers.fire(1_500, &mut |timer| {
//!     fired.push((timer.time, timer.key.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(fired, [(1_000, b"alice".to_vec())]);
//! # Ok::<(), weir_state::StateError>(())
//! ```

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::error::{Result, StateError};
use crate::table::{Table, TableKind, TableSpec};

/// Version of the codec's records.
const VERSION: u8 = 1;
/// Width of the buckets of timers, in the units of their times: a second of microseconds.
const TIMER_BUCKET: i64 = 1_000_000;

fn spec(name: &str, kind: TableKind, version: u16, key: &str, value: &str) -> TableSpec {
    TableSpec {
        name: name.to_string(),
        kind,
        version,
        key: key.to_string(),
        value: value.to_string(),
    }
}

fn encoded<T: Serialize>(table: &Table, value: &T) -> Result<Vec<u8>> {
    codec::encode(
        &format!("a value of state `{}`", table.spec().name),
        VERSION,
        value,
    )
}

fn decoded<T: DeserializeOwned>(table: &Table, bytes: &[u8]) -> Result<T> {
    codec::decode(
        &format!("a value of state `{}`", table.spec().name),
        VERSION,
        bytes,
    )
}

/// The key with its length in front, so that no key's entries begin like those of another.
fn prefix_of(key: &[u8]) -> Vec<u8> {
    let mut prefix = (key.len() as u64).to_be_bytes().to_vec();
    prefix.extend_from_slice(key);
    prefix
}

/// One value for each key.
#[derive(Debug)]
pub struct ValueState<'t, V> {
    table: &'t mut Table,
    value: PhantomData<V>,
}

impl<'t, V: Serialize + DeserializeOwned> ValueState<'t, V> {
    /// The table to declare. Raise `version` when `V` changes.
    #[must_use]
    pub fn spec(name: &str, version: u16) -> TableSpec {
        spec(
            name,
            TableKind::Keyed,
            version,
            "key",
            std::any::type_name::<V>(),
        )
    }

    /// On the table declared by [`spec`](Self::spec).
    pub fn on(table: &'t mut Table) -> Self {
        Self {
            table,
            value: PhantomData,
        }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`] when the bytes are no `V`.
    pub fn get(&mut self, group: u32, key: &[u8]) -> Result<Option<V>> {
        let bytes = self.table.get(group, key)?;
        bytes.map(|bytes| decoded(self.table, &bytes)).transpose()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`] when serde cannot write `V`.
    pub fn set(&mut self, group: u32, key: &[u8], value: &V) -> Result<()> {
        let bytes = encoded(self.table, value)?;
        self.table.put(group, key, &bytes)
    }

    /// Removes the value of a key.
    ///
    /// # Errors
    /// Of the table.
    pub fn clear(&mut self, group: u32, key: &[u8]) -> Result<()> {
        self.table.delete(group, key)
    }
}

/// A map for each key.
#[derive(Debug)]
pub struct MapState<'t, K, V> {
    table: &'t mut Table,
    entry: PhantomData<(K, V)>,
}

impl<'t, K, V> MapState<'t, K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    /// The table to declare. Raise `version` when `K` or `V` changes.
    #[must_use]
    pub fn spec(name: &str, version: u16) -> TableSpec {
        let key = format!("key, {}", std::any::type_name::<K>());
        spec(
            name,
            TableKind::Ordered,
            version,
            &key,
            std::any::type_name::<V>(),
        )
    }

    /// On the table declared by [`spec`](Self::spec).
    pub fn on(table: &'t mut Table) -> Self {
        Self {
            table,
            entry: PhantomData,
        }
    }

    fn full(&self, key: &[u8], entry: &K) -> Result<Vec<u8>> {
        let mut full = prefix_of(key);
        full.extend_from_slice(&encoded(self.table, entry)?);
        Ok(full)
    }

    /// The value of an entry of the map of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn get(&mut self, group: u32, key: &[u8], entry: &K) -> Result<Option<V>> {
        let full = self.full(key, entry)?;
        let bytes = self.table.get(group, &full)?;
        bytes.map(|bytes| decoded(self.table, &bytes)).transpose()
    }

    /// Sets an entry of the map of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn put(&mut self, group: u32, key: &[u8], entry: &K, value: &V) -> Result<()> {
        let full = self.full(key, entry)?;
        let bytes = encoded(self.table, value)?;
        self.table.put(group, &full, &bytes)
    }

    /// Removes an entry of the map of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn remove(&mut self, group: u32, key: &[u8], entry: &K) -> Result<()> {
        let full = self.full(key, entry)?;
        self.table.delete(group, &full)
    }

    /// All entries of the map of a key, in an order that is always the same but means nothing.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn entries(&mut self, group: u32, key: &[u8]) -> Result<Vec<(K, V)>> {
        let prefix = prefix_of(key);
        let mut raw = Vec::new();
        self.table.prefix(group, &prefix, &mut |entry| {
            raw.push((entry.key[prefix.len()..].to_vec(), entry.value.to_vec()));
            Ok(true)
        })?;
        raw.iter()
            .map(|(key, value)| Ok((decoded(self.table, key)?, decoded(self.table, value)?)))
            .collect()
    }

    /// Empties the map of a key.
    ///
    /// # Errors
    /// Of the table.
    pub fn clear(&mut self, group: u32, key: &[u8]) -> Result<()> {
        clear(self.table, group, &prefix_of(key))
    }
}

/// A list for each key: appending costs what is appended.
#[derive(Debug)]
pub struct ListState<'t, V> {
    table: &'t mut Table,
    value: PhantomData<V>,
}

impl<'t, V: Serialize + DeserializeOwned> ListState<'t, V> {
    /// The table to declare. Raise `version` when `V` changes.
    #[must_use]
    pub fn spec(name: &str, version: u16) -> TableSpec {
        let value = std::any::type_name::<V>();
        spec(name, TableKind::Ordered, version, "key, index", value)
    }

    /// On the table declared by [`spec`](Self::spec).
    pub fn on(table: &'t mut Table) -> Self {
        Self {
            table,
            value: PhantomData,
        }
    }

    /// Number of values in the list of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn len(&mut self, group: u32, key: &[u8]) -> Result<u64> {
        // The entry under the bare prefix, before all others, holds the length.
        let bytes = self.table.get(group, &prefix_of(key))?;
        let length = bytes.map(|bytes| decoded(self.table, &bytes)).transpose()?;
        Ok(length.unwrap_or(0))
    }

    /// True if the list of a key has no values.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn is_empty(&mut self, group: u32, key: &[u8]) -> Result<bool> {
        Ok(self.len(group, key)? == 0)
    }

    /// Appends a value to the list of a key.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn push(&mut self, group: u32, key: &[u8], value: &V) -> Result<()> {
        let length = self.len(group, key)?;
        let prefix = prefix_of(key);
        let at = [&prefix[..], &length.to_be_bytes()].concat();
        let bytes = encoded(self.table, value)?;
        self.table.put(group, &at, &bytes)?;
        let bytes = encoded(self.table, &(length + 1))?;
        self.table.put(group, &prefix, &bytes)
    }

    /// All values of the list of a key, in the order in which they were pushed.
    ///
    /// # Errors
    /// Of the table; [`StateError::Codec`].
    pub fn all(&mut self, group: u32, key: &[u8]) -> Result<Vec<V>> {
        let prefix = prefix_of(key);
        let mut raw = Vec::new();
        self.table.prefix(group, &prefix, &mut |entry| {
            if entry.key.len() > prefix.len() {
                raw.push(entry.value.to_vec());
            }
            Ok(true)
        })?;
        raw.iter().map(|value| decoded(self.table, value)).collect()
    }

    /// Empties the list of a key.
    ///
    /// # Errors
    /// Of the table.
    pub fn clear(&mut self, group: u32, key: &[u8]) -> Result<()> {
        clear(self.table, group, &prefix_of(key))
    }
}

fn clear(table: &mut Table, group: u32, prefix: &[u8]) -> Result<()> {
    let mut keys = Vec::new();
    table.prefix(group, prefix, &mut |entry| {
        keys.push(entry.key.to_vec());
        Ok(true)
    })?;
    keys.iter().try_for_each(|key| table.delete(group, key))
}

/// A timer that fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer<'a> {
    /// Key group of the key.
    pub group: u32,
    /// When it was to fire.
    pub time: i64,
    /// The key it was set for.
    pub key: &'a [u8],
}

/// Timers: for each key any number of times, each at most once.
#[derive(Debug)]
pub struct Timers<'t> {
    table: &'t mut Table,
}

impl<'t> Timers<'t> {
    /// The table to declare.
    #[must_use]
    pub fn spec(name: &str, version: u16) -> TableSpec {
        let kind = TableKind::Timed {
            bucket: TIMER_BUCKET,
        };
        spec(name, kind, version, "time, key", "")
    }

    /// On the table declared by [`spec`](Self::spec).
    pub fn on(table: &'t mut Table) -> Self {
        Self { table }
    }

    /// Sets a timer of a key. One that is set already stays.
    pub fn set(&mut self, group: u32, time: i64, key: &[u8]) {
        let slot = self.table.touch(group, time, key);
        self.table.set(slot, &[]);
    }

    /// Takes a timer of a key back; one that is not set is fine.
    pub fn unset(&mut self, group: u32, time: i64, key: &[u8]) {
        let slot = self.table.touch(group, time, key);
        self.table.remove(slot);
    }

    /// Fires the timers up to `now`, both ends included, in order of (time, key); they are gone then. Returns how many.
    ///
    /// # Errors
    /// Of the table and of `fire`.
    pub fn fire(
        &mut self,
        now: i64,
        fire: &mut dyn FnMut(Timer<'_>) -> Result<(), StateError>,
    ) -> Result<u64> {
        self.table.expire(now, &mut |entry| {
            fire(Timer {
                group: entry.group,
                time: entry.time,
                key: entry.key,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OperatorState;

    #[test]
    fn map_and_list_of_keys_that_begin_alike_stay_apart() {
        let mut state = OperatorState::in_memory(&[
            MapState::<u32, String>::spec("m", 1),
            ListState::<u32>::spec("l", 1),
        ]);
        let mut map = MapState::<u32, String>::on(state.table(0));
        for key in [&b""[..], b"a", b"ab"] {
            map.put(1, key, &7, &format!("{key:?}")).expect("put");
        }
        assert_eq!(map.entries(1, b"a").expect("entries").len(), 1);
        map.clear(1, b"a").expect("clear");
        assert_eq!(map.get(1, b"a", &7).expect("get"), None);
        assert!(map.get(1, b"ab", &7).expect("get").is_some());
        assert_eq!(map.get(2, b"ab", &7).expect("get"), None);

        let mut list = ListState::<u32>::on(state.table(1));
        for n in 0..300 {
            list.push(1, b"a", &n).expect("push");
        }
        list.push(1, b"ab", &1000).expect("push");
        assert_eq!(
            list.all(1, b"a").expect("all"),
            (0..300).collect::<Vec<_>>()
        );
        list.clear(1, b"a").expect("clear");
        assert!(list.is_empty(1, b"a").expect("empty"));
        assert_eq!(list.all(1, b"ab").expect("all"), [1000]);
    }

    #[test]
    fn value_of_another_type_is_an_error_naming_the_state() {
        let mut state = OperatorState::in_memory(&[ValueState::<u8>::spec("total", 1)]);
        ValueState::<u8>::on(state.table(0))
            .set(0, b"k", &1)
            .expect("set");
        let mut other = ValueState::<String>::on(state.table(0));
        let error = other.get(0, b"k").expect_err("no string").to_string();
        assert!(error.contains("state `total`"), "{error}");
    }

    #[test]
    fn timers_fire_once_in_order_unless_unset() {
        let mut state = OperatorState::in_memory(&[Timers::spec("t", 1)]);
        let mut timers = Timers::on(state.table(0));
        for (time, key) in [(5, b"b"), (5, b"a"), (3, b"c"), (9, b"d"), (5, b"a")] {
            timers.set(0, time, key);
        }
        timers.unset(0, 3, b"c");
        let mut fired = Vec::new();
        let mut fire = |timer: Timer<'_>| {
            fired.push((timer.time, timer.key.to_vec()));
            Ok(())
        };
        assert_eq!(timers.fire(5, &mut fire).expect("fire"), 2);
        assert_eq!(timers.fire(5, &mut fire).expect("fire"), 0);
        assert_eq!(fired, [(5, b"a".to_vec()), (5, b"b".to_vec())]);
    }
}
