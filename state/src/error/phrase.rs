//! What each [`StateError`] says.

use std::fmt;

use super::StateError;
use crate::location::feature_of;
use crate::owner::{OwnerInfo, time_text};

impl StateError {
    fn phrase(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                action,
                path,
                source,
            } => write!(f, "cannot {action} `{path}`: {source}"),
            Self::InvalidName { name } => {
                write!(f, "`{name}` is not a name for a file in a checkpoint")
            }
            Self::Damaged { path, reason, .. } => write!(f, "file `{path}` is damaged: {reason}"),
            Self::UnsupportedVersion { path, found, max } => write!(
                f,
                "file `{path}` has version {found}, this build reads versions up to {max}"
            ),
            Self::Missing { path, reason, .. } => {
                write!(f, "file `{path}` is missing: {reason}")
            }
            Self::TableMismatch {
                path,
                operator,
                table,
                stored,
                declared,
            } => write!(
                f,
                "table `{table}` of operator `{operator}` is {stored} in the checkpoint (file `{path}`), the program declares {declared}"
            ),
            Self::Unknown { what, name, known } => write!(
                f,
                "there is no {what} named `{name}`: there are `{}`",
                known.join("`, `")
            ),
            Self::WrongTable {
                table,
                kind,
                action,
            } => write!(f, "table `{table}` is {kind} and cannot be {action}"),
            Self::Files {
                action,
                path,
                reason,
            } => write!(
                f,
                "cannot {action} the local state files in `{path}`: {reason}"
            ),
            Self::Codec { what, reason } => {
                write!(f, "cannot encode or decode {what}: {reason}")
            }
            Self::Incompatible { path, source } => {
                write!(f, "checkpoint `{path}` cannot be continued: {source}")
            }
            other => other.phrase_of_store(f),
        }
    }

    fn phrase_of_store(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store {
                action,
                path,
                source,
            } => write!(f, "cannot {action} `{path}`: {source}"),
            Self::NoBucket { path } => write!(f, "the bucket of `{path}` does not exist"),
            Self::NoCredentials { path, source } => write!(
                f,
                "nobody said who asks for `{path}`, and this machine has no keys of its own ({source})"
            ),
            Self::InvalidSetting {
                name,
                reason,
                allowed,
            } => write!(f, "setting '{name}' {reason}, allowed: {allowed}"),
            Self::InvalidLocation { location, reason } => {
                write!(f, "location `{location}` cannot be used: {reason}")
            }
            Self::UnsupportedScheme { location, scheme } => match feature_of(scheme) {
                Some(feature) => write!(
                    f,
                    "location `{location}` has the scheme `{scheme}`, which is not compiled in: build weir with the feature `{feature}`"
                ),
                None => write!(
                    f,
                    "location `{location}` has the scheme `{scheme}`, which is unknown"
                ),
            },
            other => other.phrase_of_conflict(f),
        }
    }

    fn phrase_of_conflict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogsApart {
                path,
                newest_plan,
                newest_manifest,
            } => match newest_manifest {
                Some(m) => write!(
                    f,
                    "plan `{path}` is of epoch {newest_plan} but the newest manifest is of epoch {m}, at most one epoch may be open"
                ),
                None => write!(
                    f,
                    "plan `{path}` is of epoch {newest_plan} but there is no manifest at all, at most one epoch may be open"
                ),
            },
            Self::ForeignDirectory { path, found } => write!(
                f,
                "directory `{path}` is not a checkpoint and not empty: found `{}`",
                found.join("`, `")
            ),
            Self::CheckpointInUse {
                path,
                owner,
                generation,
                expires_ms,
            } => {
                write!(f, "checkpoint `{path}` is in use by {}", Named(owner))?;
                generation.map_or(Ok(()), |g| write!(f, ", generation {g}"))?;
                expires_ms.map_or(Ok(()), |ms| {
                    write!(
                        f,
                        ", its lease runs out at {} unless renewed",
                        time_text(ms)
                    )
                })
            }
            Self::LeaseLost {
                path,
                generation,
                owner,
            } => write!(
                f,
                "lease `{path}` of generation {generation} was taken over by {}",
                Named(owner)
            ),
            Self::ConcurrentWriter {
                path,
                ours,
                theirs,
                owner,
                ..
            } => {
                let shown = |g: &Option<u64>| g.map_or("unknown".to_string(), |g| g.to_string());
                write!(
                    f,
                    "file `{path}` was already written by generation {}, this run is generation {}, the lease is held by {}",
                    shown(theirs),
                    shown(ours),
                    Named(owner)
                )
            }
            Self::OutOfOrder {
                path,
                epoch,
                newest,
            } => write!(
                f,
                "epoch {epoch} cannot be written to `{path}` after epoch {newest}"
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.phrase(f)?;
        self.remedy()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

/// Shows an owner that may be unknown.
struct Named<'a>(&'a Option<Box<OwnerInfo>>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(owner) => owner.fmt(f),
            None => f.write_str("an unknown query"),
        }
    }
}
