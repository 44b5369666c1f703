//! How a topology runs: which nodes share a task (chaining), how many subtasks each task has, and which edges link them. Pure.
//!
//! Operators fuse into the task before them while the edge is `Forward`, nobody else reads it, and the number of subtasks is
//! the same. A sink is always a task of its own, because it waits for I/O.

use arrow::datatypes::SchemaRef;

use crate::chain::Port;
use crate::operator::OperatorSpec;
use crate::partitioner::Partitioning;
use crate::topology::{Input, NodeKind, Topology, output_schema};

/// Index of a task in the layout.
pub(crate) type TaskIndex = usize;

/// What a task does besides its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads the source node.
    Source(usize),
    /// Only its chain.
    Chain,
    /// Writes to the sink node.
    Sink(usize),
}

/// A task: one role and the operators fused into it, run as `parallelism` subtasks.
pub(crate) struct TaskLayout {
    /// Id of the node that heads the task; names its actors and threads.
    pub(crate) uid: String,
    pub(crate) role: Role,
    pub(crate) operators: Vec<(String, OperatorSpec)>,
    pub(crate) parallelism: usize,
    /// Inputs in the order the head operator numbers them.
    pub(crate) inputs: Vec<LinkLayout>,
}

/// A link from another task.
#[derive(Debug, Clone)]
pub(crate) struct LinkLayout {
    pub(crate) from: TaskIndex,
    /// Which of that task's outputs.
    pub(crate) port: Port,
    pub(crate) schema: SchemaRef,
    pub(crate) partitioning: Partitioning,
}

/// All tasks, upstream before downstream.
pub(crate) struct Layout {
    pub(crate) tasks: Vec<TaskLayout>,
}

impl Layout {
    /// Lays a topology out for this default parallelism.
    pub(crate) fn new(topology: &Topology, parallelism: usize) -> Self {
        let mut layout = Self { tasks: Vec::new() };
        let mut task_of = vec![usize::MAX; topology.nodes.len()];
        for index in 0..topology.nodes.len() {
            task_of[index] = layout.place(topology, index, parallelism, &task_of);
        }
        layout
    }

    /// True if equal keys meet in one subtask of the task: it has only one, or every input is distributed by key, itself or further
    /// up.
    pub(crate) fn is_keyed(&self, task: TaskIndex) -> bool {
        let TaskLayout {
            inputs,
            parallelism,
            ..
        } = &self.tasks[task];
        let keyed = |link: &LinkLayout| match &link.partitioning {
            Partitioning::Hash(_) => true,
            Partitioning::Forward => self.is_keyed(link.from),
            Partitioning::RoundRobin | Partitioning::Broadcast | Partitioning::Single => false,
        };
        *parallelism == 1 || (!inputs.is_empty() && inputs.iter().all(keyed))
    }

    fn place(
        &mut self,
        topology: &Topology,
        index: usize,
        parallelism: usize,
        task_of: &[usize],
    ) -> TaskIndex {
        let node = &topology.nodes[index];
        let subtasks = self.subtasks(topology, index, parallelism, task_of);
        if let NodeKind::Operator(spec) = &node.kind
            && let Some(task) = self.fusable(topology, index, subtasks, task_of)
        {
            self.tasks[task]
                .operators
                .push((node.uid.clone(), spec.clone()));
            return task;
        }
        let (role, operators) = match &node.kind {
            NodeKind::Source { .. } => (Role::Source(index), Vec::new()),
            NodeKind::Operator(spec) => (Role::Chain, vec![(node.uid.clone(), spec.clone())]),
            NodeKind::Sink(_) => (Role::Sink(index), Vec::new()),
        };
        let inputs = node.inputs.iter().map(|input| {
            let from = task_of[input.node];
            LinkLayout {
                from,
                port: self.port(topology, input, from),
                schema: output_schema(&topology.nodes, input),
                partitioning: self.effective(&input.partitioning, from, subtasks),
            }
        });
        let inputs = inputs.collect();
        self.tasks.push(TaskLayout {
            uid: node.uid.clone(),
            role,
            operators,
            parallelism: subtasks,
            inputs,
        });
        self.tasks.len() - 1
    }

    fn port(&self, topology: &Topology, input: &Input, from: TaskIndex) -> Port {
        let uid = &topology.nodes[input.node].uid;
        let operators = &self.tasks[from].operators;
        match operators.iter().position(|(operator, _)| operator == uid) {
            Some(index) if input.late => Port::Late(index),
            _ => Port::Main,
        }
    }

    /// `Forward` needs equal numbers of subtasks on both sides.
    fn effective(
        &self,
        partitioning: &Partitioning,
        from: TaskIndex,
        subtasks: usize,
    ) -> Partitioning {
        if *partitioning == Partitioning::Forward && self.tasks[from].parallelism != subtasks {
            return if subtasks == 1 {
                Partitioning::Single
            } else {
                Partitioning::RoundRobin
            };
        }
        partitioning.clone()
    }

    fn subtasks(
        &self,
        topology: &Topology,
        index: usize,
        parallelism: usize,
        task_of: &[usize],
    ) -> usize {
        let node = &topology.nodes[index];
        let limit = match &node.kind {
            NodeKind::Source {
                max_parallelism, ..
            } => *max_parallelism,
            NodeKind::Sink(sink) => sink.max_parallelism(),
            NodeKind::Operator(_) => None,
        };
        let forward = node
            .inputs
            .iter()
            .find(|input| input.partitioning == Partitioning::Forward);
        let inherited = forward.map(|input| self.tasks[task_of[input.node]].parallelism);
        let all_single = !node.inputs.is_empty()
            && node
                .inputs
                .iter()
                .all(|input| input.partitioning == Partitioning::Single);
        let wanted =
            node.parallelism
                .or(inherited)
                .unwrap_or(if all_single { 1 } else { parallelism });
        wanted.min(limit.unwrap_or(usize::MAX)).max(1)
    }

    fn fusable(
        &self,
        topology: &Topology,
        index: usize,
        subtasks: usize,
        task_of: &[usize],
    ) -> Option<TaskIndex> {
        let [input] = topology.nodes[index].inputs.as_slice() else {
            return None;
        };
        let readers = topology
            .nodes
            .iter()
            .flat_map(|node| &node.inputs)
            .filter(|other| other.node == input.node && !other.late)
            .count();
        let task = task_of[input.node];
        let same = self.tasks[task].parallelism == subtasks
            && !matches!(self.tasks[task].role, Role::Sink(_));
        let plain = input.partitioning == Partitioning::Forward && !input.late;
        (plain && readers == 1 && same).then_some(task)
    }
}
