//! Whether and when a failed query starts its next generation: a pure policy.

use std::time::Duration;

use crate::error::WeirError;

/// How often a query may be restarted from its newest manifest after a failure that can go away by itself.
///
/// Faults of the data, the options or the plan are never retried: the same epoch would fail the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts without a committed epoch between them before giving up.
    pub max_attempts: u32,
    /// Wait before the first restart; doubles with each.
    pub initial_backoff: Duration,
    /// Longest wait.
    pub max_backoff: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(30),
        }
    }
}

impl RestartPolicy {
    /// Fail at the first failure.
    pub fn never() -> Self {
        Self {
            max_attempts: 0,
            ..Self::default()
        }
    }

    /// The wait before restart number `attempt` (from 0) after this error, or `None` to give up.
    pub fn backoff(&self, error: &WeirError, attempt: u32) -> Option<Duration> {
        if !error.is_retryable() || attempt >= self.max_attempts {
            return None;
        }
        let factor = 1_u32.checked_shl(attempt.min(20)).unwrap_or(u32::MAX);
        Some(
            self.initial_backoff
                .saturating_mul(factor)
                .min(self.max_backoff),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_longest_and_ends_after_the_attempts() {
        let policy = RestartPolicy {
            max_attempts: 4,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_millis(300),
        };
        let error = WeirError::external("disk full");
        let waits: Vec<_> = (0..5)
            .map(|attempt| policy.backoff(&error, attempt).map(|wait| wait.as_millis()))
            .collect();
        assert_eq!(waits, [Some(100), Some(200), Some(300), Some(300), None]);
    }

    #[test]
    fn faults_of_data_and_options_are_never_retried() {
        let policy = RestartPolicy::default();
        for error in [
            WeirError::data("1/0"),
            WeirError::config("x"),
            WeirError::plan("y"),
            WeirError::internal("panic"),
        ] {
            assert_eq!(policy.backoff(&error, 0), None);
        }
    }
}
