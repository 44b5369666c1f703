//! [`OwnerInfo`]: which run of which query, so that an error can say whom to stop.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Clock;

/// Longest host name kept, in bytes.
const HOST_BYTES_MAX: usize = 128;

/// A run of a query, as written in a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerInfo {
    /// Id of the run (or of the query, as the caller likes it); random.
    #[serde(with = "crate::names::uuid_text")]
    pub id: Uuid,
    /// Process id.
    pub pid: u32,
    /// Name of the host.
    pub host: String,
    /// When the run started, unix milliseconds.
    pub started_ms: i64,
}

impl OwnerInfo {
    /// This process, started now by `clock`.
    #[must_use]
    pub fn current(id: Uuid, clock: &dyn Clock) -> Self {
        Self {
            id,
            pid: std::process::id(),
            host: host_name(),
            started_ms: clock.now_ms(),
        }
    }
}

impl fmt::Display for OwnerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = time_text(self.started_ms);
        let Self { id, pid, host, .. } = self;
        write!(f, "query {id} (pid {pid} on host `{host}`) since {since}")
    }
}

/// Unix milliseconds as a person reads them, in UTC.
pub(crate) fn time_text(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms).map_or_else(
        || format!("{ms} ms"),
        |time| time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    )
}

fn host_name() -> String {
    let mut name = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_string());
    while name.len() > HOST_BYTES_MAX {
        name.pop();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn owner_shown_names_id_pid_host_and_start() {
        let clock = ManualClock::new(1_780_000_000_123);
        let owner = OwnerInfo {
            host: "box".into(),
            pid: 42,
            ..OwnerInfo::current(Uuid::nil(), &clock)
        };
        assert_eq!(
            owner.to_string(),
            "query 00000000-0000-0000-0000-000000000000 (pid 42 on host `box`) since 2026-05-28T20:26:40.123Z"
        );
    }

    #[test]
    fn owner_current_has_this_process_and_a_host() {
        let owner = OwnerInfo::current(Uuid::new_v4(), &ManualClock::new(0));
        assert_eq!(owner.pid, std::process::id());
        assert!(!owner.host.is_empty());
    }
}
