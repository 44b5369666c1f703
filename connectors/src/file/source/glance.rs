//! Whether a directory needs to be listed at all: where nothing was new, and no directory has changed since, nothing is.
//!
//! A listing of 100 000 files costs what 100 000 files cost; a look at the time of modification of their directory costs the same for
//! any number. That time changes when a name appears, goes or is replaced, not when a file grows; and file systems differ in how
//! finely they tell time. So the answer holds only for directories that have been quiet for a while, and for some looks.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Looks at most that a listing stands for.
const LOOKS: u32 = 16;
/// How long ago a directory must have changed for its time to tell everything since.
const QUIET_MS: i64 = 2_000;

/// When directories changed, taken before they were listed; `None` for one that is not there.
pub(super) type Stamps = HashMap<PathBuf, Option<SystemTime>>;

/// When a directory changed.
pub(super) fn stamp(dir: &Path) -> Option<SystemTime> {
    fs::metadata(dir)
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// What is known of the newest listing.
#[derive(Debug, Default)]
pub(super) struct Glance {
    stamps: Stamps,
    /// Looks that the listing may still stand for.
    left: u32,
}

impl Glance {
    /// A listing at `now_ms` that found nothing new.
    pub(super) fn found_nothing(&mut self, stamps: Stamps, now_ms: i64) {
        let settled = stamps.values().flatten().all(|changed| {
            let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            let changed_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
            changed_ms < now_ms.saturating_sub(QUIET_MS)
        });
        self.left = if settled { LOOKS } else { 0 };
        self.stamps = stamps;
    }

    /// A listing that found something, or one that is not to be trusted.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a listing would find nothing again.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
            && self
                .stamps
                .iter()
                .all(|(dir, changed)| stamp(dir) == *changed)
    }
}
