//! What moves: edges, actors and the epoch protocol; the code-defined [`Topology`] and the running [`StreamingQuery`].
//!
//! A program describes a dataflow with [`TopologyBuilder`], starts it with [`StreamingQuery::start`], and gets a handle. Each source
//! reader, chain of operators and sink writer is an actor with two sides: a mailbox for control (begin an epoch, end) and
//! bounded edges for data (epoch-tagged Arrow batches, watermarks, barriers). A coordinator actor plans epochs, collects
//! acknowledgements and commits; what it decides is the pure state machine in `protocol`.
//!
//! Authors of sources, operators and sinks implement [`Source`], [`Operator`] and [`Sink`], which know nothing of actors.

mod align;
mod chain;
mod config;
mod coordinator;
mod edge;
mod error;
mod executor;
mod facts;
mod failpoint;
mod generation;
mod key;
mod layout;
mod listener;
mod malformed;
mod message;
mod metrics;
mod no_data;
mod operator;
mod partitioner;
mod progress;
mod protocol;
mod query;
mod restart;
mod shared;
mod sink;
mod source;
mod supervisor;
mod system;
mod task;
mod topology;
mod trigger;
mod watermark;

pub use align::{Aligner, Alignment};
pub use config::{QueryConfig, StateSettings};
pub use edge::{EdgeBudget, EdgeMetrics, EdgeReceiver, EdgeSender, edge};
pub use error::{Fault, Result, WeirError, root_cause};
pub use failpoint::FailPoints;
pub use key::normal_key;
pub use listener::{QueryEvent, QueryListener, RecipientListener};
pub use malformed::report_malformed;
pub use message::{Barrier, ChangelogMode, EpochBatch, Message, Origin, RowKind, Rows};
pub use metrics::{EdgeCounts, QueryMetrics};
pub use no_data::{NoDataFacts, no_data_epoch_is_due};
pub use operator::{
    EventTimeStats, Operator, OperatorContext, OperatorCounts, OperatorMetrics, OperatorSpec,
    Outbox, SplitEventTimes,
};
pub use partitioner::{KEY_GROUPS, Partitioning, key_group, key_groups_of, subtask_of};
pub use progress::{
    QueryProgress, QueryStatus, SinkProgress, SourceProgress, StateOperatorProgress,
};
pub use protocol::{Action, Event, Protocol, SubtaskId};
pub use query::StreamingQuery;
pub use restart::RestartPolicy;
pub use sink::{
    CommitOutcome, Committable, Delivery, OutputMode, Sink, SinkCommitter, SinkContext, SinkWriter,
    UnfinishedEpoch,
};
pub use source::{
    Admission, Backlog, Offset, Places, Polled, ReaderCounts, Source, SourceContext, SourceReader,
    Split, WakeHandle, offset_as_u64,
};
pub use supervisor::{GetLastProgress, GetStatus, ProcessAllAvailable, QueryActor, Stop};
pub use topology::{Input, Stream, Topology, TopologyBuilder};
pub use trigger::{NextStart, Trigger, next_start, parse_interval_ms};
pub use watermark::{WatermarkPolicy, WatermarkSettings, WatermarkTracker, merge_event_times};
pub use weir_state::{
    Clock, Compression, Epoch, Fingerprint, ManualClock, ObjectStoreSettings, OperatorState,
    StateEntry, StateStats, SystemClock, Table, TableKind, TableSpec, TableStats,
};
