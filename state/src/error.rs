//! [`StateError`]: everything that can go wrong with a checkpoint, with the file, the epoch and the way out as
//! fields.
//!
//! A person reads these at a bad hour: each names the file, what is wrong with it and what can be done,
//! and none suggests deleting something that would lose data without saying so.

mod phrase;

use crate::epoch::Epoch;
use crate::fingerprint::Incompatible;
use crate::owner::OwnerInfo;

/// Result of this crate.
pub type Result<T, E = StateError> = std::result::Result<T, E>;

/// An error of the checkpoint location or of what is written in it.
///
/// `path` is the full path or url of the file; the text is one lower-case phrase ending in the way out
/// ([`StateError::remedy`]) where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file system refused (no space, no permission …).
    Io {
        /// What was tried, a verb: `write`, `read` …
        action: &'static str,
        /// The file or directory.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The object store refused.
    Store {
        /// What was tried, a verb.
        action: &'static str,
        /// The object.
        path: String,
        /// What the store said.
        source: Box<object_store::Error>,
    },
    /// There is no such bucket.
    NoBucket {
        /// What was asked for in it.
        path: String,
    },
    /// Nobody said who asks for an object, and the machine has no keys of its own.
    NoCredentials {
        /// The object.
        path: String,
        /// What became of the question for keys.
        source: Box<object_store::Error>,
    },
    /// A setting of object stores cannot be used.
    InvalidSetting {
        /// Its name.
        name: String,
        /// What is wrong with it, a verb first; without secrets.
        reason: String,
        /// What is allowed.
        allowed: String,
    },
    /// A name inside the checkpoint is malformed.
    InvalidName {
        /// As given.
        name: String,
    },
    /// The checkpoint location cannot be used as written.
    InvalidLocation {
        /// As given.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The url's scheme is unknown, or its object store is not compiled in.
    UnsupportedScheme {
        /// As given.
        location: String,
        /// The scheme found.
        scheme: String,
    },
    /// The file is torn (empty, cut short, checksum wrong) or does not hold what its name says.
    Damaged {
        /// The file.
        path: String,
        /// The epoch it belongs to, if it belongs to one.
        epoch: Option<Epoch>,
        /// What is wrong.
        reason: String,
        /// What can be done.
        remedy: &'static str,
    },
    /// The file was written by a newer version.
    UnsupportedVersion {
        /// The file.
        path: String,
        /// Version found.
        found: u32,
        /// Newest version this build reads.
        max: u32,
    },
    /// A file every restart needs is not there.
    Missing {
        /// The file.
        path: String,
        /// The epoch it belongs to, if it belongs to one.
        epoch: Option<Epoch>,
        /// Why it must be there.
        reason: String,
        /// What can be done.
        remedy: &'static str,
    },
    /// Plans run further ahead of the manifests than a crash can explain.
    LogsApart {
        /// The newest plan.
        path: String,
        /// Epoch of the newest plan.
        newest_plan: Epoch,
        /// Epoch of the newest manifest, if any.
        newest_manifest: Option<Epoch>,
    },
    /// First start on a directory that holds something else.
    ForeignDirectory {
        /// The location.
        path: String,
        /// Some of the names found.
        found: Vec<String>,
    },
    /// Another live query holds the lease.
    CheckpointInUse {
        /// The location.
        path: String,
        /// Who holds it, if the lease could be read.
        owner: Option<Box<OwnerInfo>>,
        /// The holder's generation, if the lease could be read.
        generation: Option<u64>,
        /// When the lease runs out unless it is renewed, unix milliseconds; `None` for a lock that the
        /// operating system releases when its process ends.
        expires_ms: Option<i64>,
    },
    /// This run held the lease and another run has it now.
    LeaseLost {
        /// The lease.
        path: String,
        /// Generation of this run.
        generation: u64,
        /// Who holds it now, if the lease could be read.
        owner: Option<Box<OwnerInfo>>,
    },
    /// The file this run wanted to publish is there already: another run writes to the same checkpoint.
    ConcurrentWriter {
        /// The file.
        path: String,
        /// The epoch it belongs to.
        epoch: Option<Epoch>,
        /// Generation of this run, if it has one yet.
        ours: Option<u64>,
        /// Generation of the run that wrote the file, if readable.
        theirs: Option<u64>,
        /// Who holds the lease now, if readable.
        owner: Option<Box<OwnerInfo>>,
    },
    /// An epoch was written out of order.
    OutOfOrder {
        /// The file.
        path: String,
        /// The epoch asked for.
        epoch: Epoch,
        /// The newest epoch already there.
        newest: Epoch,
    },
    /// The program's operators do not fit the checkpoint.
    Incompatible {
        /// The location.
        path: String,
        /// Every problem.
        source: Incompatible,
    },
    /// A table of an operator is not what the checkpoint holds.
    TableMismatch {
        /// The file that says what the checkpoint holds.
        path: String,
        /// Uid of the operator.
        operator: String,
        /// Name of the table.
        table: String,
        /// What the checkpoint has.
        stored: String,
        /// What the program declares.
        declared: String,
    },
    /// Something was asked for by a name that is not there.
    Unknown {
        /// What was asked for: `operator with state` …
        what: String,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A table was used in a way its kind does not offer.
    WrongTable {
        /// Name of the table.
        table: String,
        /// Its kind.
        kind: &'static str,
        /// What was asked for.
        action: &'static str,
    },
    /// The local files that state larger than memory is kept in failed.
    Files {
        /// What was tried, a verb.
        action: &'static str,
        /// The directory.
        path: String,
        /// What RocksDB said.
        reason: String,
    },
    /// A value could not be encoded or decoded.
    Codec {
        /// What was encoded or decoded.
        what: String,
        /// What is wrong.
        reason: String,
    },
}

impl StateError {
    /// The file, directory or url the error is about, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Io { path, .. }
            | Self::Store { path, .. }
            | Self::NoBucket { path }
            | Self::NoCredentials { path, .. }
            | Self::Damaged { path, .. }
            | Self::UnsupportedVersion { path, .. }
            | Self::Missing { path, .. }
            | Self::LogsApart { path, .. }
            | Self::ForeignDirectory { path, .. }
            | Self::CheckpointInUse { path, .. }
            | Self::LeaseLost { path, .. }
            | Self::ConcurrentWriter { path, .. }
            | Self::OutOfOrder { path, .. }
            | Self::TableMismatch { path, .. }
            | Self::Files { path, .. }
            | Self::Incompatible { path, .. } => Some(path),
            Self::InvalidLocation { location, .. } | Self::UnsupportedScheme { location, .. } => {
                Some(location)
            }
            Self::InvalidName { name } => Some(name),
            Self::Codec { .. }
            | Self::WrongTable { .. }
            | Self::Unknown { .. }
            | Self::InvalidSetting { .. } => None,
        }
    }

    /// The epoch the error is about, if there is one.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Damaged { epoch, .. }
            | Self::Missing { epoch, .. }
            | Self::ConcurrentWriter { epoch, .. } => *epoch,
            Self::LogsApart { newest_plan, .. } => Some(*newest_plan),
            Self::OutOfOrder { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// What can be done about it, if this crate knows.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Damaged { remedy, .. } | Self::Missing { remedy, .. } => Some(remedy),
            Self::InvalidName { .. } => Some(
                "allowed are non-empty segments separated by `/`, none of them hidden or temporary",
            ),
            Self::InvalidLocation { .. } => Some(
                "allowed are a plain path, `file://` + absolute path, `memory://name` or the url of an object store",
            ),
            Self::UnsupportedScheme { .. } => Some(
                "allowed are plain paths, `file`, `memory`, and with the feature in brackets `s3`, `s3a` (aws), \
                 `gs` (gcp), `az`, `abfs`, `abfss` (azure)",
            ),
            Self::NoBucket { .. } => Some("make it first, or name another one"),
            Self::NoCredentials { .. } => Some(
                "set `fs.s3a.access.key` and `fs.s3a.secret.key`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for public buckets \
                 `fs.s3a.aws.credentials.provider` to AnonymousAWSCredentialsProvider",
            ),
            Self::UnsupportedVersion { .. } => {
                Some("use the version that wrote the checkpoint or a newer one")
            }
            Self::LogsApart { .. } => Some(
                "restore the missing files under `commits`, or delete the plans after the newest manifest plus one \
                 if their epochs are known to have written nothing",
            ),
            Self::ForeignDirectory { .. } => {
                Some("give an empty or new directory, or the one this query was started with")
            }
            Self::CheckpointInUse { .. } => {
                Some("stop that query first or use another checkpoint location")
            }
            Self::LeaseLost { .. } | Self::ConcurrentWriter { .. } => Some(
                "only one run may use a checkpoint: stop one of them; nothing of this run's epoch was committed",
            ),
            Self::TableMismatch { .. } => Some(
                "allowed is a table of the same name, kind, version and key: go back to the program that wrote the checkpoint, \
                 or start with a new one",
            ),
            Self::WrongTable { .. } => Some(
                "by key are found entries of keyed and ordered tables, by prefix those of ordered ones",
            ),
            Self::Files { .. } => {
                Some("see that the disk has room and that its files are left alone")
            }
            Self::Io { .. }
            | Self::Store { .. }
            | Self::OutOfOrder { .. }
            | Self::Incompatible { .. }
            | Self::InvalidSetting { .. }
            | Self::Unknown { .. }
            | Self::Codec { .. } => None,
        }
    }

    /// True when the same call may succeed later without anyone changing anything: the storage failed, not the
    /// contents.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Io { .. } | Self::Store { .. } | Self::Files { .. }
        )
    }
}
