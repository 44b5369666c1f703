//! What survives a crash: the checkpoint location and everything written into it.
//!
//! A checkpoint is a directory (or an object store prefix) that people can read:
//!
//! ```text
//! metadata                           query id, format version, fingerprint of every operator
//! lease                              who writes here now, and under which generation
//! offsets/N                          plan of epoch N: what it reads, under which watermark and config
//! commits/N                          manifest of epoch N: the only commit point
//! sources/<source>/N, N.compact      what a source has already taken up, per epoch
//! state/<operator>/<subtask>/N.g     state of one subtask after epoch N, or what N changed in it, by generation g
//! ```
//!
//! The crate knows nothing of data flow: it makes bytes durable, decides what a directory means after a
//! crash ([`recovery`], a pure function), and refuses a second writer ([`lease`]).

mod base;
mod changelog;
pub mod clock;
pub mod codec;
pub mod envelope;
pub mod epoch;
pub mod error;
mod files;
pub mod fingerprint;
pub mod lease;
pub mod location;
pub mod log;
pub mod manifest;
pub mod metadata;
mod names;
mod operator_state;
pub mod owner;
pub mod plan;
pub mod reader;
pub mod recovery;
pub mod retention;
pub mod snapshot;
pub mod source_log;
pub mod table;
pub mod typed;

pub use changelog::Compression;
pub use clock::{Clock, ManualClock, SystemClock};
pub use epoch::Epoch;
pub use error::{Result, StateError};
pub use fingerprint::{Change, Fingerprint, Incompatible, Problem, check_compatible};
pub use lease::{Lease, LeaseOptions};
pub use location::{CheckpointLocation, CreateOutcome, Entry, ObjectStoreSettings};
pub use log::{CheckpointLog, LogEpochs};
pub use manifest::{Manifest, SnapshotRef, WatermarkPart};
pub use metadata::Metadata;
pub use operator_state::{Hit, StateConfig, StateStats};
pub use owner::OwnerInfo;
pub use plan::{Plan, SourceRange};
pub use reader::StateReader;
pub use recovery::{Recovery, TornManifest};
pub use retention::{Pruned, Retention};
pub use snapshot::SnapshotStore;
pub use source_log::{Cleanup, Logged, SourceLog};
pub use table::{Entry as StateEntry, OperatorState, Table, TableKind, TableSpec, TableStats};
