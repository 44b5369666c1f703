//! Why an ORC file cannot be read on.

use std::io;
use std::sync::Arc;

use orc_rust::error::OrcError;

use super::FORMAT;
use crate::file::decode::DecodeError;

/// What is wrong, without the name of the file.
#[derive(Debug)]
pub(super) enum Problem {
    /// The bytes are none of an undamaged file.
    Damage(String),
    /// A sound file that we cannot read.
    Unreadable(String),
    /// The disk does not give the bytes.
    Disk(io::Error),
}

pub(super) type Result<T> = std::result::Result<T, Problem>;

pub(super) fn damage<T>(reason: impl Into<String>) -> Result<T> {
    Err(Problem::Damage(reason.into()))
}

impl Problem {
    pub(super) fn into_error(self, file: &Arc<str>) -> DecodeError {
        let file = Arc::clone(file);
        match self {
            Self::Damage(reason) => DecodeError::Damaged {
                file,
                format: FORMAT,
                reason,
            },
            Self::Unreadable(reason) => DecodeError::Unreadable {
                file,
                format: FORMAT,
                reason,
            },
            Self::Disk(source) => DecodeError::Read {
                file,
                line: 0,
                source,
            },
        }
    }
}

impl From<io::Error> for Problem {
    /// What the disk says has a number; everything else is about what was read.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => Self::Disk(error),
            None => Self::Damage(error.to_string()),
        }
    }
}

impl From<OrcError> for Problem {
    fn from(error: OrcError) -> Self {
        match error {
            OrcError::IoError { source, .. } => source.into(),
            other => Self::Damage(other.to_string()),
        }
    }
}
