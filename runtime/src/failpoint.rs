//! Fault points: named places where a test can make one query crash, without touching any other query of the process.
//!
//! A run is counted once with [`FailPoints::recording`]; then [`FailPoints::crash_at`] crashes at the k-th place it passed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Fault, Result, WeirError};

/// What happens at the chosen place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    Record,
    CrashAt(u64),
    AbortAt(u64),
}

/// The fault points of one query.
#[derive(Debug)]
pub struct FailPoints {
    mode: Mode,
    hits: AtomicU64,
    names: Mutex<Vec<&'static str>>,
}

impl Default for FailPoints {
    fn default() -> Self {
        Self::with(Mode::Off)
    }
}

impl FailPoints {
    fn with(mode: Mode) -> Self {
        Self {
            mode,
            hits: AtomicU64::new(0),
            names: Mutex::default(),
        }
    }

    /// Counts and names the places that are passed.
    pub fn recording() -> Self {
        Self::with(Mode::Record)
    }

    /// The k-th place (from 0), and every one after it, fails with a crash: the generation ends without any clean-up.
    pub fn crash_at(k: u64) -> Self {
        Self::with(Mode::CrashAt(k))
    }

    /// The process is ended at the k-th place (from 0), as by a power cut.
    pub fn abort_at(k: u64) -> Self {
        Self::with(Mode::AbortAt(k))
    }

    /// Passes a place.
    ///
    /// # Errors
    /// The injected crash.
    pub fn hit(&self, name: &'static str) -> Result<()> {
        if self.mode == Mode::Off {
            return Ok(());
        }
        let hit = self.hits.fetch_add(1, Ordering::SeqCst);
        match self.mode {
            Mode::Record => {
                self.names
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .push(name);
                Ok(())
            }
            Mode::CrashAt(k) if hit >= k => Err(WeirError::new(
                Fault::Crash,
                format!("injected crash {k} at '{name}'"),
            )),
            Mode::AbortAt(k) if hit >= k => std::process::abort(),
            _ => Ok(()),
        }
    }

    /// Places passed so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst)
    }

    /// Names of the places passed, in order (only when recording).
    pub fn names(&self) -> Vec<&'static str> {
        self.names
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_counts_and_crash_hits_the_chosen_place_and_all_later_ones() {
        let recording = FailPoints::recording();
        recording.hit("a").expect("recording never fails");
        recording.hit("b").expect("recording never fails");
        assert_eq!((recording.hits(), recording.names()), (2, vec!["a", "b"]));
        let crash = FailPoints::crash_at(1);
        assert!(crash.hit("a").is_ok());
        assert_eq!(crash.hit("b").expect_err("crash").fault(), Fault::Crash);
        assert!(crash.hit("c").is_err(), "a dead process does nothing more");
    }
}
