//! Time, memory and bytes of this process.

use std::path::Path;
use std::time::{Duration, Instant};

use weir::prelude::*;

/// Wall and CPU time of this process.
pub(crate) struct Usage {
    wall: Duration,
    cpu: Duration,
    at: Instant,
}

impl Usage {
    pub(crate) fn now() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").map_err(io)?;
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |index: usize| {
            fields
                .get(index)
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        // utime and stime, the 14th and 15th field of the line, in hundredths of a second.
        let cpu = Duration::from_millis((ticks(11) + ticks(12)) * 10);
        Ok(Self {
            wall: Duration::ZERO,
            cpu,
            at: now(),
        })
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            wall: self.at.duration_since(before.at),
            cpu: self.cpu.saturating_sub(before.cpu),
            at: self.at,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.cpu.as_secs_f64()
    }
}

#[allow(clippy::disallowed_methods, reason = "a bench measures the real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn status(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(io)?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

/// Most memory this process had, in bytes.
pub(crate) fn peak_rss() -> Result<u64> {
    status("VmHWM:")
}

/// Begins anew to take the most memory.
pub(crate) fn reset_peak_rss() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").map_err(io)
}

/// Memory this process has, in bytes.
pub(crate) fn rss() -> Result<u64> {
    status("VmRSS:")
}

/// Bytes of the files below a directory; files that go away meanwhile do not count.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        total += if metadata.is_dir() {
            size(&entry.path()).unwrap_or(0)
        } else {
            metadata.len()
        };
    }
    Ok(total)
}

pub(crate) fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
