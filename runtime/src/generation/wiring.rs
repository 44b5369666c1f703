//! The edges of a generation: every link of the layout becomes edges between subtasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Builder;
use crate::edge::{EdgeReceiver, EdgeSender, edge};
use crate::error::Result;
use crate::partitioner::{Partitioner, Partitioning};
use crate::protocol::SubtaskId;
use crate::task::inputs::Input;
use crate::task::outputs::Output;

/// Edges of a layout, as the two sides take them.
#[derive(Default)]
pub(super) struct Wiring {
    pub(super) inputs: BTreeMap<SubtaskId, Vec<Input>>,
    pub(super) outputs: BTreeMap<SubtaskId, Vec<Output>>,
}

impl Builder<'_> {
    pub(super) fn wire(&self) -> Result<Wiring> {
        let mut wiring = Wiring::default();
        for (to, layout) in self.layout.tasks.iter().enumerate() {
            for (index, link) in layout.inputs.iter().enumerate() {
                for subtask in 0..self.layout.tasks[link.from].parallelism {
                    let from = SubtaskId {
                        task: link.from,
                        subtask,
                    };
                    let senders =
                        self.edges(from, to, &link.partitioning, index, &mut wiring.inputs);
                    let partitioner = Partitioner::new(
                        &link.partitioning,
                        &link.schema,
                        subtask,
                        layout.parallelism,
                    )?;
                    wiring.outputs.entry(from).or_default().push(Output {
                        port: link.port,
                        partitioner,
                        senders,
                    });
                }
            }
        }
        Ok(wiring)
    }

    fn edges(
        &self,
        from: SubtaskId,
        to: usize,
        partitioning: &Partitioning,
        index: usize,
        inputs: &mut BTreeMap<SubtaskId, Vec<Input>>,
    ) -> Vec<Option<EdgeSender>> {
        let target = &self.layout.tasks[to];
        let source = &self.layout.tasks[from.task];
        let mut senders = Vec::with_capacity(target.parallelism);
        for subtask in 0..target.parallelism {
            if *partitioning == Partitioning::Forward && subtask != from.subtask {
                senders.push(None);
                continue;
            }
            let (sender, receiver): (_, EdgeReceiver) = edge(
                self.shared.config.edge_budget,
                Arc::clone(&self.shared.config.clock),
            );
            let name = format!(
                "{}[{}] -> {}[{subtask}]",
                source.uid, from.subtask, target.uid
            );
            self.shared.metrics.add_edge(name, receiver.metrics());
            inputs
                .entry(SubtaskId { task: to, subtask })
                .or_default()
                .push(Input { receiver, index });
            senders.push(Some(sender));
        }
        senders
    }
}
