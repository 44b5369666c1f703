//! What a source and its readers know of each other: counters of losses, and which reader a partition belongs to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::offsets::TopicPartition;

/// Shared by a source and its readers.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Offsets lost in the epoch.
    lost: AtomicU64,
    /// Partitions in which something was lost in the epoch.
    losses: AtomicU64,
    readers: AtomicUsize,
    warned: AtomicBool,
    warned_of_group: AtomicBool,
    /// Numbers of the partitions in the order in which they were found: a partition stays with its reader, whatever comes later.
    homes: Mutex<BTreeMap<TopicPartition, usize>>,
}

impl Shared {
    /// True the first time.
    pub(crate) fn warn_once(&self) -> bool {
        !self.warned.swap(true, Ordering::SeqCst)
    }

    /// True the first time.
    pub(crate) fn warn_once_of_group(&self) -> bool {
        !self.warned_of_group.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn begin_epoch(&self, (lost, losses): (u64, u64)) {
        self.lost.store(lost, Ordering::SeqCst);
        self.losses.store(losses, Ordering::SeqCst);
    }

    /// A reader found that `offsets` of a partition are gone.
    pub(crate) fn count_loss(&self, offsets: u64) {
        self.lost.fetch_add(offsets, Ordering::SeqCst);
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn losses(&self) -> BTreeMap<String, String> {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst).to_string();
        BTreeMap::from([
            ("lostOffsets".to_owned(), count(&self.lost)),
            // What Spark calls it.
            ("offsetOutOfRange".to_owned(), count(&self.lost)),
            ("dataLoss".to_owned(), count(&self.losses)),
        ])
    }

    pub(crate) fn forget_readers(&self) {
        self.readers.store(0, Ordering::SeqCst);
    }

    pub(crate) fn note_reader(&self, subtask: usize) {
        self.readers.fetch_max(subtask + 1, Ordering::SeqCst);
    }

    pub(crate) fn know_partitions<'a>(
        &self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) {
        let mut homes = self.homes();
        for at in partitions {
            if !homes.contains_key(at) {
                let number = homes.len();
                homes.insert(at.clone(), number);
            }
        }
    }

    /// The reader of a partition, of `readers`.
    pub(crate) fn home(&self, at: &TopicPartition, readers: usize) -> Option<usize> {
        Some(self.homes().get(at)? % readers.max(1))
    }

    /// Partitions of one reader, about.
    pub(crate) fn partitions_per_reader(&self) -> usize {
        let readers = self.readers.load(Ordering::SeqCst).max(1);
        self.homes().len().div_ceil(readers).max(1)
    }

    fn homes(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, usize>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
