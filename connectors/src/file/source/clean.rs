//! What becomes of files once the epoch that read them is committed (Spark's `cleanSource`): moved away, or deleted.
//!
//! Best effort: a file that cannot be moved stays, with a warning. A file that is not the one that was read any more stays as well,
//! because its rows were never read.

use std::fs;
use std::path::{Component, Path, PathBuf};

use weir_runtime::{Result, WeirError};

use super::files::{FileEntry, FoundFile};
use super::glob::NameGlob;
use crate::file::remote::Address;
use crate::file::store::{Store, wait};
use crate::file::uri;

/// What to do with files that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CleanSource {
    /// Nothing.
    #[default]
    Off,
    /// Move them below this directory, where they keep their whole path (`/archive` and `/in/a` make `/archive/in/a`).
    Archive(String),
    /// Delete them.
    Delete,
}

impl CleanSource {
    /// Refuses an archive that the source would read again: one that its path matches, as far as both go.
    ///
    /// # Errors
    /// Names both.
    pub(super) fn check(&self, source: &Path) -> Result<()> {
        let Self::Archive(archive) = self else {
            return Ok(());
        };
        if Address::of(source).is_some() {
            return Err(WeirError::config(format!(
                "option 'cleanSource' is archive, and the source is '{}': in object stores only off and delete are allowed",
                source.display()
            )));
        }
        let archive = uri::local_path("option 'sourceArchiveDir'", archive)?;
        let mut same = true;
        for (pattern, name) in source.components().zip(archive.components()) {
            same &= matches(pattern, name)?;
        }
        match same {
            false => Ok(()),
            true => Err(WeirError::config(format!(
                "option 'sourceArchiveDir' is '{}', which lies in the path of the source or above it, '{}': archived files could be read \
                 again; allowed are directories outside of both",
                archive.display(),
                source.display()
            ))),
        }
    }

    /// Cleans files that were read. Blocks.
    pub(super) fn clean(&self, store: &Store, entries: &[FileEntry]) {
        for entry in entries {
            let Ok(path) = entry.local_path() else {
                continue;
            };
            if let Some(reason) = self.clean_file(store, entry, &path) {
                tracing::warn!(file = %path.display(), %reason, "file that was read stays where it is");
            }
        }
    }

    /// Answers why the file stays, if it does.
    fn clean_file(&self, store: &Store, entry: &FileEntry, path: &Path) -> Option<String> {
        match FoundFile::look(store, path) {
            // Cleaned by an earlier run, or by somebody else.
            Ok(None) => return None,
            Ok(Some(now)) if (now.mtime_ms, now.size) != (entry.timestamp, entry.size) => {
                return Some("it changed after it was read".to_owned());
            }
            Ok(Some(_)) => {}
            Err(error) => return Some(error.to_string()),
        }
        match self {
            Self::Off => None,
            Self::Delete => wait(store.remove_file(path))
                .err()
                .map(|error| error.to_string()),
            Self::Archive(archive) => match uri::local_path("option 'sourceArchiveDir'", archive) {
                Ok(archive) => archive_file(&archive, path)
                    .err()
                    .map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            },
        }
    }
}

fn archive_file(archive: &Path, path: &Path) -> std::io::Result<()> {
    let below: PathBuf = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .collect();
    let target = archive.join(below);
    if target.exists() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            format!("'{}' is in the archive already", target.display()),
        ));
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(path, target)
}

/// Whether a part of the source's path, which may be a glob, is or may be that name.
fn matches(pattern: Component<'_>, name: Component<'_>) -> Result<bool> {
    if pattern == name {
        return Ok(true);
    }
    let (Component::Normal(pattern), Component::Normal(name)) = (pattern, name) else {
        return Ok(false);
    };
    let pattern = pattern.to_string_lossy();
    match pattern.contains(['*', '?', '[', '{']) {
        true => Ok(NameGlob::new("the path of the file source", &pattern)?
            .is_match(&name.to_string_lossy())),
        false => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_in_the_path_of_the_source_is_refused() {
        let check = |source: &str, archive: &str| {
            CleanSource::Archive(archive.to_owned()).check(Path::new(source))
        };
        for (source, archive) in [
            ("/data/in", "/data/in"),
            ("/data/in", "/data/in/archive"),
            ("/data/in", "/data"),
            ("/data/*/in", "/data/archive"),
            ("/data/{in,archive}", "/data/archive/old"),
        ] {
            let error = check(source, archive).expect_err(archive);
            assert!(error.message().contains("sourceArchiveDir"), "{error}");
        }
        for (source, archive) in [
            ("/data/in", "/data/in-archive"),
            ("/data/in", "/archive"),
            ("/data/[ab]*/in", "/data/old"),
        ] {
            check(source, archive).expect(archive);
        }
        assert!(check("/data/in", "s3://bucket/archive").is_err());
    }
}
