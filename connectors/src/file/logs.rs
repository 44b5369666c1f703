//! How the logs of files are kept: what a source has seen, and the manifest of a sink (Spark's settings
//! `spark.sql.streaming.fileSource.log.*` and `fileSink.log.*`).

use std::num::NonZeroU32;
use std::time::Duration;

use weir_state::source_log::COMPACT_INTERVAL;

/// How a log of files is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// `compactInterval`: every so manieth file holds all entries; 10.
    pub compact_interval: NonZeroU32,
    /// `deletion`: files that newer compact files hold are deleted; true.
    pub delete: bool,
    /// `cleanupDelay`: they are kept this long all the same; nothing. Spark waits ten minutes, for stores that list files late, as none
    /// does any more: a query of fast epochs would keep hundreds of compact files, each of which holds everything.
    pub cleanup_delay: Duration,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            compact_interval: COMPACT_INTERVAL,
            delete: true,
            cleanup_delay: Duration::ZERO,
        }
    }
}
