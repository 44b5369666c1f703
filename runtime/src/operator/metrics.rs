//! Counters of one operator subtask.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_state::StateStats;

/// Counters of one operator subtask, so that rows in = rows used + late + duplicate + bad + filtered (invariant E9).
#[derive(Debug, Default)]
pub struct OperatorMetrics {
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    late: AtomicU64,
    duplicate: AtomicU64,
    bad: AtomicU64,
    filtered: AtomicU64,
    future: AtomicU64,
    malformed: AtomicU64,
    removal_ns: AtomicU64,
    state_rows: AtomicU64,
    state_bytes: AtomicU64,
}

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

impl OperatorMetrics {
    pub(crate) fn add_in(&self, rows: usize) {
        add(&self.rows_in, rows);
    }

    pub(crate) fn add_out(&self, rows: usize) {
        add(&self.rows_out, rows);
    }

    /// Counts rows that came too late.
    pub fn add_late(&self, rows: usize) {
        add(&self.late, rows);
    }

    /// Counts rows dropped as duplicates.
    pub fn add_duplicate(&self, rows: usize) {
        add(&self.duplicate, rows);
    }

    /// Counts rows that could not be used.
    pub fn add_bad(&self, rows: usize) {
        add(&self.bad, rows);
    }

    /// Counts rows a condition removed.
    pub fn add_filtered(&self, rows: usize) {
        add(&self.filtered, rows);
    }

    /// Counts rows whose event time lies too far ahead to move the watermark; they are used all the same.
    pub fn add_future(&self, rows: usize) {
        add(&self.future, rows);
    }

    pub(crate) fn add_malformed(&self, values: u64) {
        self.malformed.fetch_add(values, Ordering::Relaxed);
    }

    /// Adds time spent on removing state, which progress shows apart from the time of updates.
    pub fn add_removal_time(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.removal_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn removal_time(&self) -> Duration {
        Duration::from_nanos(self.removal_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_state(&self, stats: &StateStats) {
        self.state_rows.store(stats.rows, Ordering::Relaxed);
        self.state_bytes
            .store(stats.memory_bytes, Ordering::Relaxed);
    }

    /// The counters now.
    pub fn snapshot(&self) -> OperatorCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OperatorCounts {
            rows_in: read(&self.rows_in),
            rows_out: read(&self.rows_out),
            late: read(&self.late),
            duplicate: read(&self.duplicate),
            bad: read(&self.bad),
            filtered: read(&self.filtered),
            future: read(&self.future),
            malformed: read(&self.malformed),
            state_rows: read(&self.state_rows),
            state_bytes: read(&self.state_bytes),
        }
    }
}

/// Counters at one moment, since the start of the generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorCounts {
    /// Rows that entered.
    pub rows_in: u64,
    /// Rows that left.
    pub rows_out: u64,
    /// Rows dropped as late.
    pub late: u64,
    /// Rows dropped as duplicates.
    pub duplicate: u64,
    /// Rows that could not be used.
    pub bad: u64,
    /// Rows removed by a condition.
    pub filtered: u64,
    /// Rows used whose event time was too far ahead to move the watermark.
    pub future: u64,
    /// Values that an expression could not read and made NULL ([`report_malformed`](crate::report_malformed)); their rows are used.
    pub malformed: u64,
    /// Entries of the state tables at the end of the last epoch.
    pub state_rows: u64,
    /// Bytes of memory the state tables held at the end of the last epoch.
    pub state_bytes: u64,
}
