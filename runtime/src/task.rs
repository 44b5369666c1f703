//! Tasks: what a subtask needs to run, and the actor shell around its loop. The three loops are in the files below; they hold
//! the only awaits of the data path.

pub(crate) mod chain;
pub(crate) mod inputs;
pub(crate) mod outputs;
pub(crate) mod reader;
pub(crate) mod sink;
pub(crate) mod source;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix::prelude::*;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::mpsc;
use weir_state::{Clock, Epoch, SnapshotRef, SnapshotStore};

use crate::chain::{Chain, Link, StateReport};
use crate::error::{Result, WeirError, panic_message};
use crate::failpoint::FailPoints;
use crate::operator::{EventTimeStats, SplitEventTimes};
use crate::protocol::SubtaskId;
use crate::sink::Committable;
use crate::source::Split;

/// An epoch for one source subtask: what it reads, in order.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub(crate) struct BeginEpoch {
    pub(crate) epoch: Epoch,
    pub(crate) watermark_ms: i64,
    /// (index in the epoch's plan, split).
    pub(crate) splits: Vec<(u32, Split)>,
}

/// A subtask has everything of an epoch durable.
#[derive(Debug)]
pub(crate) struct TaskAck {
    pub(crate) id: SubtaskId,
    pub(crate) epoch: Epoch,
    /// By operator id.
    pub(crate) snapshots: Vec<(String, SnapshotRef)>,
    pub(crate) states: Vec<StateReport>,
    /// Late rows that operators without tables dropped, by operator id.
    pub(crate) late: Vec<(String, u64)>,
    pub(crate) event_times: Vec<(String, EventTimeStats)>,
    pub(crate) split_times: Vec<(String, SplitEventTimes)>,
    pub(crate) committable: Option<Committable>,
    /// Counters of the sink's writer, by name.
    pub(crate) sink_metrics: Vec<(&'static str, u64)>,
    /// Rows read (source) or written (sink) in the epoch.
    pub(crate) rows: u64,
    /// Records the source's reader could not use.
    pub(crate) bad_records: u64,
    /// Values that expressions could not read, by the source of their rows (as in `Origin::source`).
    pub(crate) malformed: BTreeMap<u32, u64>,
}

impl TaskAck {
    /// Of a subtask that had nothing to make durable.
    pub(crate) fn new(id: SubtaskId, epoch: Epoch) -> Self {
        Self {
            id,
            epoch,
            snapshots: Vec::new(),
            states: Vec::new(),
            late: Vec::new(),
            event_times: Vec::new(),
            split_times: Vec::new(),
            committable: None,
            sink_metrics: Vec::new(),
            rows: 0,
            bad_records: 0,
            malformed: BTreeMap::new(),
        }
    }
}

/// What a task tells the coordinator.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum TaskEvent {
    Ack(Box<TaskAck>),
    Exited(SubtaskId, Result<()>),
}

/// What every loop needs.
#[derive(Clone)]
pub(crate) struct TaskEnv {
    pub(crate) id: SubtaskId,
    pub(crate) uid: String,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) failpoints: Arc<FailPoints>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reporter: Recipient<TaskEvent>,
}

impl TaskEnv {
    pub(crate) fn report(&self, event: TaskEvent) {
        self.reporter.do_send(event);
    }

    /// Makes the chain's state after `epoch` durable; returns the acknowledgement of the epoch.
    pub(crate) async fn close(&self, chain: &mut Chain, epoch: Epoch) -> Result<TaskAck> {
        let mut ack = TaskAck::new(self.id, epoch);
        self.failpoints.hit("snapshot:before")?;
        let commits = chain.stateful().map(|link| self.commit(link, epoch));
        for (reference, report) in futures::future::try_join_all(commits).await? {
            ack.snapshots.extend(reference);
            ack.states.push(report);
        }
        for snapshot in chain.snapshot(epoch)? {
            let written = self
                .snapshots
                .write(
                    &snapshot.uid,
                    self.id.subtask as u32,
                    epoch,
                    &snapshot.bytes,
                )
                .await?;
            self.failpoints.hit("snapshot:written")?;
            ack.snapshots.push((snapshot.uid, written));
        }
        ack.late = chain.take_late();
        ack.malformed = chain.take_malformed();
        ack.event_times = chain.take_event_times();
        ack.split_times = chain.take_split_event_times();
        Ok(ack)
    }

    /// Makes the state tables of one operator durable.
    async fn commit(
        &self,
        link: &mut Link,
        epoch: Epoch,
    ) -> Result<(Option<(String, SnapshotRef)>, StateReport)> {
        let rows = link.operator.state_rows();
        let Some(state) = link.operator.state() else {
            return Err(WeirError::internal("state tables were given away")
                .at(&link.context.uid, link.context.subtask));
        };
        let mut stats = state.stats();
        stats.rows = rows.unwrap_or(stats.rows);
        self.failpoints.hit("state:commit")?;
        let since = self.clock.monotonic();
        let outcome = state.commit(epoch).await.map_err(WeirError::from);
        let time = self.clock.monotonic().saturating_sub(since);
        let written_bytes = state.stats().written_bytes;
        let reference =
            outcome.map_err(|error| error.at(&link.context.uid, link.context.subtask))?;
        self.failpoints.hit("state:committed")?;
        let named = reference.map(|reference| (link.context.uid.clone(), reference));
        Ok((named, link.report(stats, time, written_bytes)))
    }
}

/// A loop, ready to be started on its arbiter.
pub(crate) enum Task {
    Source(source::SourceTask),
    Chain(chain::ChainTask),
    Sink(sink::SinkTask),
}

impl Task {
    fn env(&self) -> &TaskEnv {
        match self {
            Self::Source(task) => &task.env,
            Self::Chain(task) => &task.env,
            Self::Sink(task) => &task.env,
        }
    }
}

/// The actor of a subtask: its mailbox takes control messages, its loop moves data.
pub(crate) struct TaskActor {
    env: TaskEnv,
    work: Option<LocalBoxFuture<'static, Result<()>>>,
    begin: Option<mpsc::UnboundedSender<BeginEpoch>>,
    /// While any clone exists, something of the generation is alive.
    _alive: mpsc::Sender<()>,
    finishing: bool,
}

impl TaskActor {
    pub(crate) fn new(task: Task, alive: mpsc::Sender<()>) -> Self {
        let env = task.env().clone();
        let (work, begin) = match task {
            Task::Source(task) => {
                // One epoch is open at a time, so the queue holds one message at most.
                let (begin, epochs) = mpsc::unbounded_channel();
                (task.run(epochs).boxed_local(), Some(begin))
            }
            Task::Chain(task) => (task.run().boxed_local(), None),
            Task::Sink(task) => (task.run().boxed_local(), None),
        };
        Self {
            env,
            work: Some(work),
            begin,
            _alive: alive,
            finishing: false,
        }
    }
}

impl Actor for TaskActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        let Some(work) = self.work.take() else { return };
        let guarded = AssertUnwindSafe(work).catch_unwind();
        context.spawn(guarded.into_actor(self).map(|outcome, actor, context| {
            let result = outcome.unwrap_or_else(|panic| {
                Err(WeirError::internal(format!(
                    "panic: {}",
                    panic_message(panic.as_ref())
                )))
            });
            let result = result.map_err(|error| error.at(&actor.env.uid, actor.env.id.subtask));
            if !(actor.finishing && result.is_ok()) {
                actor.env.report(TaskEvent::Exited(actor.env.id, result));
            }
            context.stop();
        }));
    }
}

impl Handler<BeginEpoch> for TaskActor {
    type Result = ();

    fn handle(&mut self, message: BeginEpoch, _: &mut Self::Context) {
        if let Some(begin) = &self.begin {
            // A closed loop has reported why it ended.
            let _closed = begin.send(message).is_err();
        }
    }
}

/// The generation ends in order: no epoch is open and none follows, so the sources send the end and every loop returns.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Finish;

impl Handler<Finish> for TaskActor {
    type Result = ();

    fn handle(&mut self, _: Finish, _: &mut Self::Context) {
        self.finishing = true;
        self.begin = None;
    }
}

/// The generation ends: the loop is dropped where it stands, and with it its edges and its reader.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Kill;

impl Handler<Kill> for TaskActor {
    type Result = ();

    fn handle(&mut self, _: Kill, context: &mut Self::Context) {
        self.begin = None;
        context.stop();
    }
}
