//! Counters of a running query, for people and exporters.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::edge::EdgeMetrics;
use crate::operator::{OperatorCounts, OperatorMetrics};

/// Counters of the current generation, by operator subtask and by edge.
#[derive(Debug, Default)]
pub struct QueryMetrics(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    operators: Vec<(String, usize, Arc<OperatorMetrics>)>,
    edges: Vec<(String, Arc<EdgeMetrics>)>,
}

/// Counters of one edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeCounts {
    /// `from[subtask] -> to[subtask]`.
    pub edge: String,
    /// Rows sent.
    pub rows: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time the sender was blocked, in nanoseconds.
    pub blocked_ns: u64,
    /// The most bytes that ever waited.
    pub max_queued_bytes: u64,
}

impl QueryMetrics {
    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn clear(&self) {
        *self.lock() = Registered::default();
    }

    pub(crate) fn add_operator(&self, uid: String, subtask: usize, metrics: Arc<OperatorMetrics>) {
        self.lock().operators.push((uid, subtask, metrics));
    }

    pub(crate) fn add_edge(&self, name: String, metrics: Arc<EdgeMetrics>) {
        self.lock().edges.push((name, metrics));
    }

    /// Row counters by (operator id, subtask), upstream first.
    pub fn operators(&self) -> Vec<(String, usize, OperatorCounts)> {
        let registered = self.lock();
        registered
            .operators
            .iter()
            .map(|(uid, subtask, metrics)| (uid.clone(), *subtask, metrics.snapshot()))
            .collect()
    }

    /// Counters by edge.
    pub fn edges(&self) -> Vec<EdgeCounts> {
        let registered = self.lock();
        let counts = registered.edges.iter().map(|(edge, metrics)| EdgeCounts {
            edge: edge.clone(),
            rows: metrics.rows(),
            bytes: metrics.bytes(),
            blocked_ns: metrics.blocked_ns(),
            max_queued_bytes: metrics.max_queued_bytes(),
        });
        counts.collect()
    }
}
