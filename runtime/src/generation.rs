//! One generation: everything that runs between two restarts, built from a topology and its newest manifest.

mod chains;
mod control;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};
use weir_state::{CheckpointLocation, CheckpointLog, Epoch, Manifest, Plan, SnapshotStore};

use crate::coordinator::{Coordinator, GenerationEnd, Wake};
use crate::error::{Result, WeirError};
use crate::executor::{SinkSlot, SourceSlot};
use crate::facts::OpenFacts;
use crate::layout::{Layout, Role};
use crate::protocol::{Protocol, SubtaskId};
use crate::shared::QueryShared;
use crate::sink::{Sink, SinkContext, UnfinishedEpoch};
use crate::source::{SourceContext, WakeHandle};
use crate::task::inputs::{Input, Inputs};
use crate::task::outputs::Outputs;
use crate::task::reader::ReaderThread;
use crate::task::{
    Finish, Kill, Task, TaskActor, TaskEnv, chain::ChainTask, sink::SinkTask, source::SourceTask,
};
use crate::topology::{NodeKind, SharedSource, Topology};

/// Longest wait for tasks to end in order, and for killed ones to be gone.
const END_GRACE: Duration = Duration::from_secs(10);

/// What the checkpoint says about where to go on.
pub(crate) struct Recovered {
    pub(crate) log: Arc<CheckpointLog>,
    pub(crate) location: CheckpointLocation,
    pub(crate) generation: u64,
    pub(crate) query_id: uuid::Uuid,
    pub(crate) next_epoch: Epoch,
    /// The newest manifest and the plan it committed.
    pub(crate) last: Option<(Manifest, Plan)>,
    /// A plan without manifest.
    pub(crate) replay: Option<Plan>,
}

/// A running generation.
pub(crate) struct Generation {
    pub(crate) coordinator: Addr<Coordinator>,
    pub(crate) ended: oneshot::Receiver<GenerationEnd>,
    actors: Vec<Addr<TaskActor>>,
    alive: mpsc::Receiver<()>,
}

impl Generation {
    /// Ends all tasks, in order or at once, and waits until nothing of them is left.
    pub(crate) async fn shut_down(mut self, orderly: bool) {
        if orderly {
            self.actors.iter().for_each(|actor| actor.do_send(Finish));
            if tokio::time::timeout(END_GRACE, self.alive.recv())
                .await
                .is_ok()
            {
                return;
            }
        }
        self.actors.iter().for_each(|actor| actor.do_send(Kill));
        if tokio::time::timeout(END_GRACE, self.alive.recv())
            .await
            .is_err()
        {
            tracing::warn!("a task did not end in time; a reader or sink blocks");
        }
    }
}

/// Builds a generation and starts its actors, downstream first. Must run on the control arbiter.
pub(crate) async fn start(
    topology: &Topology,
    shared: &Arc<QueryShared>,
    recovered: Recovered,
    arbiters: &[ArbiterHandle],
) -> Result<Generation> {
    let context = Context::<Coordinator>::new();
    let mut builder = Builder::new(topology, shared, &recovered, arbiters, context.address());
    builder.check_state()?;
    let sinks = builder.open_sinks().await?;
    builder.open_sources().await?;
    builder.spawn_tasks().await?;
    let Builder {
        layout,
        facts,
        actors,
        alive,
        ..
    } = builder;
    let actor_list: Vec<_> = actors.values().cloned().collect();
    let sources = source_slots(topology, &layout, &actors, &recovered);
    let parts = control::Parts {
        topology,
        layout: &layout,
        recovered: &recovered,
        facts,
    };
    let executor = parts.executor(shared, sources, sinks);
    let (ended_sender, ended) = oneshot::channel();
    let protocol = Protocol::new(
        shared.config.trigger,
        actors.keys().copied().collect::<BTreeSet<_>>(),
        recovered.next_epoch,
    )
    .logging_beside(hides_until_commit(topology));
    let coordinator = match recovered.replay {
        None => Coordinator::new(protocol, executor, false, ended_sender),
        Some(plan) => {
            let mut executor = executor;
            executor.adopt(plan);
            Coordinator::new(protocol, executor, true, ended_sender)
        }
    };
    Ok(Generation {
        coordinator: context.run(coordinator),
        ended,
        actors: actor_list,
        alive,
    })
}

/// Whether every sink does.
fn hides_until_commit(topology: &Topology) -> bool {
    let mut nodes = topology.nodes.iter();
    nodes.all(|node| match &node.kind {
        NodeKind::Sink(sink) => sink.hides_until_commit(),
        _ => true,
    })
}

fn source_slots(
    topology: &Topology,
    layout: &Layout,
    actors: &BTreeMap<SubtaskId, Addr<TaskActor>>,
    recovered: &Recovered,
) -> Vec<SourceSlot> {
    let mut slots = Vec::new();
    for (task, task_layout) in layout.tasks.iter().enumerate() {
        let Role::Source(node) = task_layout.role else {
            continue;
        };
        let NodeKind::Source {
            source,
            description,
            ..
        } = &topology.nodes[node].kind
        else {
            continue;
        };
        let subtasks = (0..task_layout.parallelism)
            .filter_map(|subtask| actors.get(&SubtaskId { task, subtask }).cloned());
        slots.push(SourceSlot {
            uid: task_layout.uid.clone(),
            description: description.clone(),
            source: Arc::clone(source),
            node: node as u32,
            task,
            actors: subtasks.collect(),
            position: control::committed_offset(recovered, &task_layout.uid),
        });
    }
    slots
}

struct Builder<'a> {
    topology: &'a Topology,
    shared: &'a Arc<QueryShared>,
    recovered: &'a Recovered,
    arbiters: &'a [ArbiterHandle],
    coordinator: Addr<Coordinator>,
    layout: Layout,
    snapshots: Arc<SnapshotStore>,
    facts: Arc<OpenFacts>,
    actors: BTreeMap<SubtaskId, Addr<TaskActor>>,
    /// Handed to every task and reader; the builder's own goes when the generation is built.
    alive_token: mpsc::Sender<()>,
    alive: mpsc::Receiver<()>,
}

impl<'a> Builder<'a> {
    fn new(
        topology: &'a Topology,
        shared: &'a Arc<QueryShared>,
        recovered: &'a Recovered,
        arbiters: &'a [ArbiterHandle],
        coordinator: Addr<Coordinator>,
    ) -> Self {
        let (alive_token, alive) = mpsc::channel(1);
        Self {
            topology,
            shared,
            recovered,
            arbiters,
            coordinator,
            layout: Layout::new(topology, shared.config.parallelism.max(1)),
            snapshots: Arc::new(SnapshotStore::new(
                recovered.location.clone(),
                recovered.generation,
            )),
            facts: Arc::default(),
            actors: BTreeMap::new(),
            alive_token,
            alive,
        }
    }

    fn sink_context(&self, node: usize, parallelism: usize) -> SinkContext {
        SinkContext {
            uid: self.topology.nodes[node].uid.clone(),
            query_id: self.recovered.query_id,
            generation: self.recovered.generation,
            schema: Arc::clone(&self.topology.nodes[node].schema),
            mode: self.topology.mode,
            key_columns: self.topology.key_columns.clone(),
            parallelism,
            committed_epoch: self
                .recovered
                .last
                .as_ref()
                .map(|(manifest, _)| manifest.epoch),
            unfinished: self.recovered.replay.as_ref().map(|plan| UnfinishedEpoch {
                epoch: plan.epoch,
                planned_ms: plan.batch_timestamp_ms,
            }),
            clock: Arc::clone(&self.shared.config.clock),
            failpoints: Arc::clone(&self.shared.config.failpoints),
        }
    }

    fn sink(&self, node: usize) -> Result<&Arc<dyn Sink>> {
        match &self.topology.nodes[node].kind {
            NodeKind::Sink(sink) => Ok(sink),
            _ => Err(WeirError::internal("a sink task without a sink node")),
        }
    }

    async fn open_sinks(&self) -> Result<Vec<SinkSlot>> {
        let mut slots = Vec::new();
        for (task, layout) in self.layout.tasks.iter().enumerate() {
            let Role::Sink(node) = layout.role else {
                continue;
            };
            let sink = self.sink(node)?;
            let context = self.sink_context(node, layout.parallelism);
            sink.open(&context)
                .await
                .map_err(|error| error.at(&layout.uid, 0))?;
            slots.push(SinkSlot {
                uid: layout.uid.clone(),
                description: sink.description(),
                delivery: sink.delivery().to_string(),
                task,
                committer: sink
                    .committer(&context)
                    .map_err(|error| error.at(&layout.uid, 0))?,
            });
        }
        Ok(slots)
    }

    async fn open_sources(&self) -> Result<()> {
        let committed_epoch = self
            .recovered
            .last
            .as_ref()
            .map(|(manifest, _)| manifest.epoch);
        let planned_epoch = self
            .recovered
            .replay
            .as_ref()
            .map(|plan| plan.epoch)
            .or(committed_epoch);
        let mut index = 0;
        for layout in &self.layout.tasks {
            let Role::Source(node) = layout.role else {
                continue;
            };
            let coordinator = self.coordinator.clone();
            let context = SourceContext {
                uid: layout.uid.clone(),
                index,
                checkpoint: self.recovered.location.clone(),
                committed: control::committed_offset(self.recovered, &layout.uid),
                committed_epoch,
                planned_epoch,
                clock: Arc::clone(&self.shared.config.clock),
                failpoints: Arc::clone(&self.shared.config.failpoints),
                wake: WakeHandle::new(move || coordinator.do_send(Wake)),
            };
            index += 1;
            let mut source = self.source(node)?.lock().await;
            source
                .open(context)
                .await
                .map_err(|error| error.at(&layout.uid, 0))?;
            if self.shared.config.trigger.is_bounded() {
                source
                    .fix_end()
                    .await
                    .map_err(|error| error.at(&layout.uid, 0))?;
            }
        }
        Ok(())
    }

    fn source(&self, node: usize) -> Result<&SharedSource> {
        match &self.topology.nodes[node].kind {
            NodeKind::Source { source, .. } => Ok(source),
            _ => Err(WeirError::internal("a source task without a source node")),
        }
    }

    async fn spawn_tasks(&mut self) -> Result<()> {
        self.shared.metrics.clear();
        let mut wiring = self.wire()?;
        for task in (0..self.layout.tasks.len()).rev() {
            for subtask in 0..self.layout.tasks[task].parallelism {
                let id = SubtaskId { task, subtask };
                let inputs = wiring.inputs.remove(&id).unwrap_or_default();
                let outputs = Outputs(wiring.outputs.remove(&id).unwrap_or_default());
                let work = self.task(id, inputs, outputs).await?;
                let arbiter = &self.arbiters[subtask % self.arbiters.len()];
                let token = self.alive_token.clone();
                let actor =
                    TaskActor::start_in_arbiter(arbiter, move |_| TaskActor::new(work, token));
                self.actors.insert(id, actor);
            }
        }
        Ok(())
    }

    async fn task(&self, id: SubtaskId, inputs: Vec<Input>, outputs: Outputs) -> Result<Task> {
        let layout = &self.layout.tasks[id.task];
        let env = TaskEnv {
            id,
            uid: layout.uid.clone(),
            snapshots: Arc::clone(&self.snapshots),
            failpoints: Arc::clone(&self.shared.config.failpoints),
            clock: Arc::clone(&self.shared.config.clock),
            reporter: self.coordinator.clone().recipient(),
        };
        match layout.role {
            Role::Sink(node) => {
                let context = self.sink_context(node, layout.parallelism);
                let writer = self
                    .sink(node)?
                    .writer(&context, id.subtask)
                    .map_err(|e| e.at(&layout.uid, id.subtask))?;
                Ok(Task::Sink(SinkTask {
                    env,
                    inputs: Inputs::new(inputs),
                    writer,
                }))
            }
            Role::Chain => {
                let chain = self.chain(id, &outputs).await?;
                Ok(Task::Chain(ChainTask {
                    env,
                    inputs: Inputs::new(inputs),
                    chain,
                    outputs,
                }))
            }
            Role::Source(node) => {
                let reader = self
                    .source(node)?
                    .lock()
                    .await
                    .reader(id.subtask)
                    .map_err(|e| e.at(&layout.uid, id.subtask))?;
                let name = format!("weir-{}-{}", layout.uid, id.subtask);
                let reader = ReaderThread::spawn(name, reader, self.alive_token.clone())?;
                let chain = self.chain(id, &outputs).await?;
                Ok(Task::Source(SourceTask {
                    env,
                    source: node as u32,
                    reader,
                    chain,
                    outputs,
                }))
            }
        }
    }
}
