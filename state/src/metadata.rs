//! [`Metadata`]: who a checkpoint belongs to, written once to `metadata` before anything else.
//!
//! The query id lives here and nowhere else: a new checkpoint is a new query, also at the same path, so
//! a sink that remembers (query id, epoch) never mistakes new data for a replay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Fingerprint;

/// Newest checkpoint format this crate writes; it reads every format up to this one.
pub const FORMAT_VERSION: u32 = 1;

/// Contents of the file `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Id of the query, the same for all its runs.
    #[serde(with = "crate::names::uuid_text")]
    pub id: Uuid,
    /// Format of the checkpoint, see [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Fingerprint of every operator by its uid.
    #[serde(default)]
    pub operators: BTreeMap<String, Fingerprint>,
}

impl Metadata {
    /// Metadata of a new query: a fresh random id, the newest format.
    #[must_use]
    pub fn new(operators: BTreeMap<String, Fingerprint>) -> Self {
        Self {
            id: Uuid::new_v4(),
            format_version: FORMAT_VERSION,
            operators,
        }
    }
}
