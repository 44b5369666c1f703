//! The control side of a generation: what the executor needs to know of topology, layout and checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Recovered;
use crate::executor::{Executor, Fixed, SinkSlot, SourceSlot, StatefulSlot};
use crate::facts::OpenFacts;
use crate::layout::Layout;
use crate::partitioner::KEY_GROUPS;
use crate::shared::QueryShared;
use crate::topology::{Node, NodeKind, Topology};
use crate::watermark::WatermarkTracker;

/// What a generation is built from.
pub(super) struct Parts<'a> {
    pub(super) topology: &'a Topology,
    pub(super) layout: &'a Layout,
    pub(super) recovered: &'a Recovered,
    pub(super) facts: Arc<OpenFacts>,
}

impl Parts<'_> {
    pub(super) fn executor(
        self,
        shared: &Arc<QueryShared>,
        sources: Vec<SourceSlot>,
        sinks: Vec<SinkSlot>,
    ) -> Executor {
        let stateful = self.stateful();
        let groups = stateful.iter().map(|slot| (slot.uid.clone(), KEY_GROUPS));
        let fixed = Fixed {
            generation: self.recovered.generation,
            parallelism: self.parallelism(),
            key_groups: groups.collect(),
            watermark_epochs: self.topology.nodes.iter().any(
                |node| matches!(&node.kind, NodeKind::Operator(spec) if spec.watermark_epochs),
            ),
            stateful,
        };
        let last = self.recovered.last.as_ref();
        Executor::new(
            Arc::clone(shared),
            Arc::clone(&self.recovered.log),
            fixed,
            sources,
            sinks,
            self.watermarks(shared),
            last.map(|(_, plan)| plan.watermark_ms),
            self.facts,
        )
    }

    fn watermarks(&self, shared: &QueryShared) -> WatermarkTracker {
        let last = self.recovered.last.as_ref();
        let fixed = last
            .map(|(_, plan)| plan)
            .or(self.recovered.replay.as_ref());
        let mut tracker = WatermarkTracker::new(
            shared.config.watermark.under(fixed),
            definers(self.topology),
            last.map_or(0, |(manifest, _)| manifest.next_watermark_ms),
        );
        if let Some((manifest, _)) = last {
            tracker.restore(&manifest.watermarks);
        }
        tracker
    }

    /// Of every node, by its id.
    fn parallelism(&self) -> BTreeMap<String, u32> {
        let mut parallelism = BTreeMap::new();
        for task in &self.layout.tasks {
            let fused = task.operators.iter().map(|(uid, _)| uid);
            for uid in std::iter::once(&task.uid).chain(fused) {
                parallelism.insert(uid.clone(), task.parallelism as u32);
            }
        }
        parallelism
    }

    /// Operators with state tables, the one nearest to the sink first.
    fn stateful(&self) -> Vec<StatefulSlot> {
        let parallelism = self.parallelism();
        let mut seen = BTreeSet::new();
        let nodes = self.topology.nodes.iter().rev();
        let slots = nodes.filter_map(|node| match &node.kind {
            NodeKind::Operator(spec) if !spec.tables.is_empty() => Some(StatefulSlot {
                uid: node.uid.clone(),
                name: match spec.state_name.as_str() {
                    "" => spec.kind.clone(),
                    name => name.to_owned(),
                },
                feeders: feeders(self.topology, node, &mut seen),
                tables: spec.tables.len() as u64,
                subtasks: parallelism.get(&node.uid).copied().unwrap_or(1).into(),
            }),
            _ => None,
        });
        slots.collect()
    }
}

/// Operators without tables from which rows reach a stateful one directly, those in `seen` left out.
fn feeders(topology: &Topology, node: &Node, seen: &mut BTreeSet<usize>) -> Vec<String> {
    let mut feeders = Vec::new();
    let mut above: Vec<usize> = node.inputs.iter().map(|input| input.node).collect();
    while let Some(index) = above.pop() {
        let node = &topology.nodes[index];
        if let NodeKind::Operator(spec) = &node.kind
            && spec.tables.is_empty()
            && seen.insert(index)
        {
            feeders.push(node.uid.clone());
            above.extend(node.inputs.iter().map(|input| input.node));
        }
    }
    feeders
}

/// Operators that define a watermark, each with the sources whose rows reach it.
pub(super) fn definers(topology: &Topology) -> Vec<(String, Vec<String>)> {
    let nodes = topology.nodes.iter().enumerate();
    let definers =
        nodes.filter(|(_, node)| matches!(&node.kind, NodeKind::Operator(spec) if spec.event_time));
    definers
        .map(|(index, node)| (node.uid.clone(), sources_above(topology, index)))
        .collect()
}

fn sources_above(topology: &Topology, node: usize) -> Vec<String> {
    let (mut seen, mut open, mut sources) = (BTreeSet::new(), vec![node], Vec::new());
    while let Some(index) = open.pop() {
        if !seen.insert(index) {
            continue;
        }
        let node = &topology.nodes[index];
        if let NodeKind::Source { .. } = node.kind {
            sources.push(node.uid.clone());
        }
        open.extend(node.inputs.iter().map(|input| input.node));
    }
    sources
}

/// Where the last committed epoch ended for a source.
pub(super) fn committed_offset(recovered: &Recovered, uid: &str) -> Option<serde_json::Value> {
    let (_, plan) = recovered.last.as_ref()?;
    plan.source(uid)
        .map(|range| range.end.clone())
        .filter(|end| !end.is_null())
}
