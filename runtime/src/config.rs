//! How a query runs, apart from what it computes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_state::{Clock, Compression, ObjectStoreSettings, SystemClock};

use crate::edge::EdgeBudget;
use crate::failpoint::FailPoints;
use crate::listener::QueryListener;
use crate::restart::RestartPolicy;
use crate::trigger::Trigger;
use crate::watermark::WatermarkSettings;

/// Where and how the state tables of a query's operators are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSettings {
    /// Bytes of memory all state of the query may keep between epochs, shared evenly by its stateful subtasks; what does not fit goes to
    /// local files.
    pub memory_budget: usize,
    /// Files a restore has to read per subtask at most, roughly (`minDeltasForSnapshot`).
    pub max_chain: u32,
    /// How state files in the checkpoint are compressed.
    pub compression: Compression,
    /// Directory for state that does not fit in memory; `None`: the system's directory for temporary files.
    pub local_dir: Option<PathBuf>,
}

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            memory_budget: 1 << 30,
            max_chain: 32,
            compression: Compression::default(),
            local_dir: None,
        }
    }
}

/// Settings of one query. `Default` is ready to use for queries whose sink needs no checkpoint.
#[derive(Clone)]
pub struct QueryConfig {
    /// Name; unique among the active queries of a session.
    pub name: Option<String>,
    /// When epochs are planned.
    pub trigger: Trigger,
    /// Checkpoint location: a path, or a URL of an object store. `None` keeps it in memory for this run only.
    pub checkpoint: Option<String>,
    /// How an object store is reached that the checkpoint is in; what is not set comes from the environment.
    pub object_stores: ObjectStoreSettings,
    /// Subtasks per task, unless a node says otherwise. Default: the number of cores.
    pub parallelism: usize,
    /// Bound of every edge.
    pub edge_budget: EdgeBudget,
    /// What happens after a failure.
    pub restart: RestartPolicy,
    /// How event times become the watermark.
    pub watermark: WatermarkSettings,
    /// Epochs without new rows run when the watermark has moved and closes something (`noDataMicroBatches.enabled`).
    pub no_data_epochs: bool,
    /// Where and how operators keep state.
    pub state: StateSettings,
    /// Epochs whose plans, manifests and snapshots are kept (`minBatchesToRetain`).
    pub min_epochs_to_retain: u64,
    /// Wait before looking again when nothing was there (`pollingDelay`).
    pub polling_delay: Duration,
    /// Silence after which listeners get an idle event (`noDataProgressEventInterval`).
    pub no_data_progress_interval: Duration,
    /// Number of progress records kept (`numRecentProgressUpdates`).
    pub recent_progress: usize,
    /// Settings that results depend on; frozen into every plan.
    pub frozen: BTreeMap<String, String>,
    /// Get the query's events.
    pub listeners: Vec<Arc<dyn QueryListener>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Fault points; off unless a test turns them on.
    pub failpoints: Arc<FailPoints>,
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self {
            name: None,
            trigger: Trigger::Default,
            checkpoint: None,
            object_stores: ObjectStoreSettings::default(),
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            edge_budget: EdgeBudget::default(),
            restart: RestartPolicy::default(),
            watermark: WatermarkSettings::default(),
            no_data_epochs: true,
            state: StateSettings::default(),
            min_epochs_to_retain: 100,
            polling_delay: Duration::from_millis(10),
            no_data_progress_interval: Duration::from_secs(10),
            recent_progress: 100,
            frozen: BTreeMap::new(),
            listeners: Vec::new(),
            clock: Arc::new(SystemClock::default()),
            failpoints: Arc::default(),
        }
    }
}
