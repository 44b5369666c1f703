//! Files found and not taken up yet, in the order in which they will be, and how many of them an epoch takes.

use std::collections::VecDeque;

use super::config::FileSourceConfig;
use super::files::FoundFile;

/// How much an epoch takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Files(u64),
    Bytes(u64),
}

impl Limit {
    pub(crate) fn of(config: &FileSourceConfig) -> Self {
        match (config.max_files_per_trigger, config.max_bytes_per_trigger) {
            (Some(files), _) => Self::Files(files),
            (None, Some(bytes)) => Self::Bytes(bytes),
            (None, None) => Self::None,
        }
    }
}

/// The queue of files to be read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    files: VecDeque<FoundFile>,
}

impl Unread {
    /// Puts found files into order: by time and path, or the newest first.
    pub(crate) fn new(mut found: Vec<FoundFile>, latest_first: bool) -> Self {
        if latest_first {
            found.sort_unstable_by(FoundFile::latest_first);
        } else {
            found.sort_unstable_by(FoundFile::arrival);
        }
        Self {
            files: found.into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Takes what one epoch may read: at least one file if there is one, so that a file larger than the limit does not stand
    /// in the way for ever.
    pub(crate) fn take(&mut self, limit: Limit) -> Vec<FoundFile> {
        let count = match limit {
            Limit::None => self.files.len(),
            Limit::Files(files) => self
                .files
                .len()
                .min(usize::try_from(files).unwrap_or(usize::MAX)),
            Limit::Bytes(bytes) => {
                let mut total = 0_u64;
                let fits = self.files.iter().take_while(|file| {
                    total = total.saturating_add(file.size);
                    total <= bytes
                });
                fits.count().max(1).min(self.files.len())
            }
        };
        self.files.drain(..count).collect()
    }

    /// Gives back what was taken, to its place at the front.
    pub(crate) fn put_back(&mut self, files: Vec<FoundFile>) {
        for file in files.into_iter().rev() {
            self.files.push_front(file);
        }
    }

    /// Whether what is left is worth another epoch without a new listing (Spark's `discardCachedInputRatio`).
    pub(crate) fn is_enough(&self, limit: Limit, ratio: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a rough comparison of counts")]
        let part = |have: u64, of: u64| have as f64 >= of as f64 * ratio;
        match limit {
            _ if self.files.is_empty() => false,
            Limit::None => false,
            Limit::Files(files) => part(self.files.len() as u64, files),
            Limit::Bytes(bytes) => part(self.files.iter().map(|file| file.size).sum(), bytes),
        }
    }

    /// Keeps at most this many; the others are found again by the next listing.
    pub(crate) fn truncate(&mut self, files: usize) {
        self.files.truncate(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(latest_first: bool) -> Unread {
        let file = |path: &str, mtime_ms, size| FoundFile {
            path: path.into(),
            mtime_ms,
            size,
        };
        Unread::new(
            vec![file("/b", 5, 300), file("/c", 1, 100), file("/a", 5, 200)],
            latest_first,
        )
    }

    fn names(files: &[FoundFile]) -> String {
        files
            .iter()
            .map(|file| file.path.display().to_string())
            .collect()
    }

    #[test]
    fn take_orders_by_time_then_path() {
        assert_eq!(names(&unread(false).take(Limit::None)), "/c/a/b");
        assert_eq!(names(&unread(true).take(Limit::None)), "/a/b/c");
    }

    #[test]
    fn take_obeys_limits_but_takes_at_least_one_file() {
        assert_eq!(names(&unread(false).take(Limit::Files(2))), "/c/a");
        assert_eq!(names(&unread(false).take(Limit::Bytes(300))), "/c/a");
        assert_eq!(names(&unread(false).take(Limit::Bytes(299))), "/c");
        assert_eq!(names(&unread(true).take(Limit::Bytes(1))), "/a");
        assert_eq!(names(&Unread::default().take(Limit::Bytes(1))), "");
    }

    #[test]
    fn put_back_restores_the_order() {
        let mut queue = unread(false);
        let taken = queue.take(Limit::Files(2));
        queue.put_back(taken);
        assert_eq!(names(&queue.take(Limit::None)), "/c/a/b");
    }

    #[test]
    fn is_enough_compares_the_rest_with_the_limit() {
        assert!(unread(false).is_enough(Limit::Files(15), 0.2));
        assert!(!unread(false).is_enough(Limit::Files(16), 0.2));
        assert!(unread(false).is_enough(Limit::Bytes(600), 1.0));
        assert!(!unread(false).is_enough(Limit::None, 0.2));
        assert!(!Unread::default().is_enough(Limit::Files(1), 0.0));
    }
}
