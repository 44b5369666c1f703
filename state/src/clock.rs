//! The only place this crate asks what time it is.
//!
//! Leases expire and owners are dated by a [`Clock`] that is handed in, so a test can move time by hand.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time. `now_ms` may jump (it is the host's wall clock); `monotonic` never goes back.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z by the wall clock.
    fn now_ms(&self) -> i64;

    /// Time passed since a fixed moment of this clock's choosing; only differences mean something.
    fn monotonic(&self) -> Duration;
}

/// The host's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that asks the host"
)]
impl SystemClock {
    /// A clock whose [`Clock::monotonic`] counts from now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that asks the host"
)]
impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that stands still until it is moved; for tests. Share it in an `Arc`.
#[derive(Debug, Default)]
pub struct ManualClock {
    state: Mutex<(i64, Duration)>,
}

impl ManualClock {
    /// A clock showing `now_ms` (unix milliseconds), its monotonic time at zero.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        Self {
            state: Mutex::new((now_ms, Duration::ZERO)),
        }
    }

    /// Moves both times forward by `by`.
    pub fn advance(&self, by: Duration) {
        let mut state = self.lock();
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        state.0 = state.0.saturating_add(by_ms);
        state.1 = state.1.saturating_add(by);
    }

    /// Sets the wall clock alone, as an administrator or NTP would; may go back.
    pub fn set_now_ms(&self, now_ms: i64) {
        self.lock().0 = now_ms;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (i64, Duration)> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.lock().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_advanced_moves_both_times() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_millis(250));
        assert_eq!(clock.now_ms(), 1_250);
        assert_eq!(clock.monotonic(), Duration::from_millis(250));
    }

    #[test]
    fn manual_clock_wall_set_back_leaves_monotonic_alone() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_millis(5));
        clock.set_now_ms(10);
        assert_eq!(clock.now_ms(), 10);
        assert_eq!(clock.monotonic(), Duration::from_millis(5));
    }

    #[test]
    fn system_clock_is_past_2020_and_monotonic() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.now_ms() > 1_577_836_800_000);
        assert!(clock.monotonic() >= first);
    }
}
