//! [`Manifest`]: the commit point of an epoch (invariant E2).
//!
//! `commits/N` is created atomically and only if absent. It names every snapshot of N; an epoch without
//! it never happened.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Epoch;

/// The manifest of one epoch, `commits/N`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The epoch committed; also the file name.
    pub epoch: Epoch,
    /// Generation of the run that committed it.
    pub generation: u64,
    /// Watermark that plan N+1 starts from, unix milliseconds (Spark's `nextBatchWatermarkMs`).
    pub next_watermark_ms: i64,
    /// Snapshots by operator uid; an operator without state has no entry.
    #[serde(default)]
    pub snapshots: BTreeMap<String, Vec<SnapshotRef>>,
    /// What each sink committed, by sink uid: a short summary for people and for checks, in the sink's own JSON.
    #[serde(default)]
    pub committables: BTreeMap<String, serde_json::Value>,
    /// Number of key groups by operator uid; fixed for the life of the operator's state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub key_groups: BTreeMap<String, u32>,
    /// Number of subtasks by operator uid when the epoch ran; may differ at the next start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parallelism: BTreeMap<String, u32>,
    /// What the watermark is merged from, where a restart has to know more than the merged value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watermarks: Vec<WatermarkPart>,
}

/// How far one operator that defines a watermark was, or one split it follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkPart {
    /// Uid of the operator.
    pub operator: String,
    /// Uid of the source of the split; `None` for the operator as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Name of the split; `None` for the operator as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Its watermark, unix milliseconds.
    pub watermark_ms: i64,
    /// Processing time of the epoch that last had an event time of it, unix milliseconds.
    pub active_ms: i64,
}

impl Manifest {
    /// A manifest without snapshots or committables.
    #[must_use]
    pub fn new(epoch: Epoch, generation: u64, next_watermark_ms: i64) -> Self {
        Self {
            epoch,
            generation,
            next_watermark_ms,
            snapshots: BTreeMap::new(),
            committables: BTreeMap::new(),
            key_groups: BTreeMap::new(),
            parallelism: BTreeMap::new(),
            watermarks: Vec::new(),
        }
    }

    /// Every file the manifest needs to be restored.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.snapshots.values().flatten().map(|s| s.file.as_str())
    }
}

/// Where the snapshot of one subtask lies and how to tell that it is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRef {
    /// Index of the subtask, from 0.
    pub subtask: u32,
    /// Name of the file inside the checkpoint location.
    pub file: String,
    /// CRC-32 (IEEE) of the snapshot's payload, without the file's envelope.
    pub crc32: u32,
    /// Length of the payload in bytes.
    pub bytes: u64,
    /// State tables only: the oldest epoch whose files are still needed to restore from this one. All files of the operator
    /// from that epoch to the manifest's are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Epoch>,
    /// State tables only: the bases the files since then build on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// State tables only: the first key group of the subtask and the one after its last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<(u32, u32)>,
}
