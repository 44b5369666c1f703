//! Which files were taken up already: 128 bits of hash and 16 bytes for each, whatever the length of the paths.

use std::collections::HashMap;
use std::path::Path;

use xxhash_rust::xxh64::xxh64;

use super::files::FoundFile;

/// Above this many files, a listing looks at the size and time of only a part of those that were seen.
const RECHECK_ALL: usize = 10_000;
/// Number of parts; each listing looks at the next one.
const RECHECK_PARTS: u128 = 16;

/// Size and time of a file when it was taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    mtime_ms: i64,
    size: u64,
}

/// What a found file is to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// Never taken up.
    New,
    /// Taken up before.
    Seen,
    /// Taken up before, when it had this size and time of modification.
    Changed {
        /// Bytes.
        size: u64,
        /// Unix milliseconds.
        mtime_ms: i64,
    },
    /// Older than the age limit, so that nobody knows whether it was taken up.
    TooOld,
}

/// The files taken up, with Spark's rule for forgetting old ones: the limit counts from the newest file seen, not from the
/// clock, and holds only after something was seen.
#[derive(Debug)]
pub(crate) struct SeenFiles {
    files: HashMap<u128, Version>,
    by_name: bool,
    /// A file that changed is a new one.
    by_version: bool,
    max_age_ms: Option<i64>,
    newest_ms: Option<i64>,
    /// Files older than this are too old.
    purged_ms: Option<i64>,
    round: u128,
}

impl SeenFiles {
    /// `by_name`: two files of one name are one; `by_version`: a file that changed is a new one; `max_age_ms`: age limit, `None`
    /// for none.
    pub(crate) fn new(by_name: bool, by_version: bool, max_age_ms: Option<i64>) -> Self {
        Self {
            files: HashMap::new(),
            by_name,
            by_version,
            max_age_ms,
            newest_ms: None,
            purged_ms: None,
            round: 0,
        }
    }

    fn key(&self, path: &Path) -> u128 {
        let identity = if self.by_name {
            path.file_name().unwrap_or(path.as_os_str())
        } else {
            path.as_os_str()
        };
        let bytes = identity.as_encoded_bytes();
        (u128::from(xxh64(bytes, 0)) << 64) | u128::from(xxh64(bytes, 1))
    }

    /// Takes a file up.
    pub(crate) fn add(&mut self, path: &Path, mtime_ms: i64, size: u64) {
        self.files
            .insert(self.key(path), Version { mtime_ms, size });
        self.newest_ms = self.newest_ms.max(Some(mtime_ms));
    }

    /// Forgets files that are older than the age limit.
    pub(crate) fn purge(&mut self) {
        let (Some(max_age), Some(newest)) = (self.max_age_ms, self.newest_ms) else {
            return;
        };
        let purged = newest.saturating_sub(max_age);
        self.purged_ms = Some(purged);
        self.files.retain(|_, version| version.mtime_ms >= purged);
    }

    /// Whether a file of this time is remembered at all.
    pub(crate) fn keeps(&self, mtime_ms: i64) -> bool {
        self.purged_ms.is_none_or(|purged| mtime_ms >= purged)
    }

    /// A new listing begins.
    pub(crate) fn begin_listing(&mut self) {
        self.round = (self.round + 1) % RECHECK_PARTS;
    }

    /// Whether a listing should look at the size and time of a file.
    pub(crate) fn wants(&self, path: &Path) -> bool {
        let key = self.key(path);
        !self.files.contains_key(&key)
            || ((!self.by_name || self.by_version)
                && (self.files.len() <= RECHECK_ALL || key % RECHECK_PARTS == self.round))
    }

    /// What the file is; a change is told once.
    pub(crate) fn classify(&mut self, file: &FoundFile) -> Novelty {
        let key = self.key(&file.path);
        let keeps = self.keeps(file.mtime_ms);
        let now = Version {
            mtime_ms: file.mtime_ms,
            size: file.size,
        };
        match self.files.get_mut(&key) {
            Some(version) if *version == now => Novelty::Seen,
            Some(_) if self.by_version && keeps => Novelty::New,
            Some(_) if self.by_name => Novelty::Seen,
            Some(version) => {
                let before = std::mem::replace(version, now);
                Novelty::Changed {
                    size: before.size,
                    mtime_ms: before.mtime_ms,
                }
            }
            None if keeps => Novelty::New,
            None => Novelty::TooOld,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(path: &str, mtime_ms: i64, size: u64) -> FoundFile {
        FoundFile {
            path: PathBuf::from(path),
            mtime_ms,
            size,
        }
    }

    #[test]
    fn seen_age_limit_counts_from_the_newest_file_and_not_on_the_first_listing() {
        let mut seen = SeenFiles::new(false, false, Some(100));
        assert_eq!(
            seen.classify(&file("/d/old", 1, 1)),
            Novelty::New,
            "nothing was seen yet"
        );
        seen.add(Path::new("/d/new"), 1_000, 1);
        seen.add(Path::new("/d/old"), 1, 1);
        seen.purge();
        assert_eq!(seen.classify(&file("/d/old", 1, 1)), Novelty::TooOld);
        assert_eq!(seen.classify(&file("/d/late", 900, 1)), Novelty::New);
        assert_eq!(seen.classify(&file("/d/new", 1_000, 1)), Novelty::Seen);
        assert!(!seen.keeps(899) && seen.keeps(900));
    }

    #[test]
    fn seen_file_that_changed_is_told_once_and_never_new() {
        let mut seen = SeenFiles::new(false, false, None);
        seen.add(Path::new("/d/a"), 10, 5);
        assert!(seen.wants(Path::new("/d/a")));
        assert_eq!(
            seen.classify(&file("/d/a", 20, 6)),
            Novelty::Changed {
                size: 5,
                mtime_ms: 10
            }
        );
        assert_eq!(seen.classify(&file("/d/a", 20, 6)), Novelty::Seen);
    }

    #[test]
    fn seen_by_version_takes_a_changed_file_until_it_is_taken_up() {
        let mut seen = SeenFiles::new(false, true, None);
        seen.add(Path::new("/d/a"), 10, 5);
        for _ in 0..2 {
            assert_eq!(seen.classify(&file("/d/a", 20, 6)), Novelty::New);
        }
        seen.add(Path::new("/d/a"), 20, 6);
        assert_eq!(seen.classify(&file("/d/a", 20, 6)), Novelty::Seen);
    }

    #[test]
    fn seen_by_name_ignores_directories() {
        let mut seen = SeenFiles::new(true, false, None);
        seen.add(Path::new("/d/x/a"), 10, 5);
        assert_eq!(seen.classify(&file("/d/y/a", 20, 6)), Novelty::Seen);
        assert!(!seen.wants(Path::new("/d/y/a")) && seen.wants(Path::new("/d/y/b")));
    }

    #[test]
    fn seen_many_files_are_looked_at_again_in_turns() {
        let mut seen = SeenFiles::new(false, false, None);
        let paths: Vec<PathBuf> = (0..RECHECK_ALL + 1_000)
            .map(|i| PathBuf::from(format!("/d/{i}")))
            .collect();
        for path in &paths {
            seen.add(path, 1, 1);
        }
        let mut looked = 0;
        for _ in 0..RECHECK_PARTS {
            seen.begin_listing();
            let now = paths.iter().filter(|path| seen.wants(path)).count();
            assert!(now < paths.len() / 8, "{now}");
            looked += now;
        }
        assert_eq!(looked, paths.len(), "each once");
    }
}
