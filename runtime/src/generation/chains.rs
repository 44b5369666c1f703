//! The operators of a subtask, with the state of the last committed epoch given back to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_state::{Manifest, OperatorState, SnapshotRef, StateConfig};

use super::{Builder, control};
use crate::chain::{Chain, ChainEnv, Port};
use crate::error::{Fault, Result, WeirError};
use crate::operator::OperatorSpec;
use crate::partitioner::{KEY_GROUPS, key_groups_of};
use crate::protocol::SubtaskId;
use crate::task::outputs::Outputs;

impl Builder<'_> {
    /// The chain of a subtask, ready for its first row.
    pub(super) async fn chain(&self, id: SubtaskId, outputs: &Outputs) -> Result<Chain> {
        let layout = &self.layout.tasks[id.task];
        let mut chain = Chain::create(
            &layout.operators,
            id.subtask,
            layout.parallelism,
            self.chain_env(),
        )?;
        for output in &outputs.0 {
            if let Port::Late(index) = output.port {
                chain.read_late(index);
            }
        }
        for (uid, metrics) in chain.metrics() {
            self.shared.metrics.add_operator(uid, id.subtask, metrics);
        }
        for (uid, spec) in &layout.operators {
            if spec.tables.is_empty() {
                self.restore(&mut chain, uid, id).await?;
            } else {
                let state = self.state(uid, spec, id).await?;
                chain.open(uid, state)?;
            }
        }
        Ok(chain)
    }

    fn chain_env(&self) -> ChainEnv {
        let config = &self.shared.config;
        let last = self.recovered.last.as_ref();
        let defined = !control::definers(self.topology).is_empty();
        ChainEnv {
            facts: Arc::clone(&self.facts),
            clock: Arc::clone(&config.clock),
            late_watermark_ms: match defined {
                true => last.map_or(0, |(_, plan)| plan.watermark_ms),
                false => i64::MIN,
            },
            times_by_split: config.watermark.per_split,
        }
    }

    /// The tables of one operator subtask as the last committed epoch left them, whoever of how many subtasks wrote them.
    async fn state(&self, uid: &str, spec: &OperatorSpec, id: SubtaskId) -> Result<OperatorState> {
        let layout = &self.layout.tasks[id.task];
        if !self.layout.is_keyed(id.task) {
            return Err(WeirError::plan(format!(
                "operator '{uid}' keeps state by key in {} subtasks and gets its rows in no such order: distribute its input by key, or set its parallelism to 1",
                layout.parallelism
            ))
            .at(uid, id.subtask));
        }
        let snapshots = self.snapshots_of(uid);
        let groups = key_groups_of(id.subtask, layout.parallelism);
        let config = self.state_config(uid, id.subtask);
        let state = OperatorState::restore(config, &spec.tables, groups, snapshots).await;
        state.map_err(|error| WeirError::from(error).at(uid, id.subtask))
    }

    fn snapshots_of(&self, uid: &str) -> &[SnapshotRef] {
        let last = self.recovered.last.as_ref();
        last.and_then(|(manifest, _)| manifest.snapshots.get(uid))
            .map_or(&[], Vec::as_slice)
    }

    fn state_config(&self, uid: &str, subtask: usize) -> StateConfig {
        let config = &self.shared.config;
        let location = self.recovered.location.clone();
        let failpoints = Arc::clone(&config.failpoints);
        let hit = move |point: &str| {
            let hit = failpoints.hit(known_point(point));
            hit.map_err(|crash| weir_state::StateError::Io {
                action: "commit",
                path: point.to_owned(),
                source: std::io::Error::other(crash),
            })
        };
        StateConfig {
            memory_budget: config.state.memory_budget / self.stateful_subtasks().max(1),
            max_chain: config.state.max_chain,
            compression: config.state.compression,
            local_dir: config.state.local_dir.clone(),
            hit: Some(Arc::new(hit)),
            ..StateConfig::new(location, uid, subtask as u32, self.recovered.generation)
        }
    }

    /// Number of operator subtasks that share the query's memory for state.
    fn stateful_subtasks(&self) -> usize {
        let tasks = self.layout.tasks.iter();
        let subtasks = tasks.map(|task| {
            let stateful = task.operators.iter();
            let stateful = stateful.filter(|(_, spec)| !spec.tables.is_empty());
            stateful.count() * task.parallelism
        });
        subtasks.sum()
    }

    /// What the checkpoint says of state must fit the operators before any of them starts.
    pub(super) fn check_state(&self) -> Result<()> {
        let Some((manifest, _)) = &self.recovered.last else {
            return Ok(());
        };
        let refuse = |problem: String| {
            Err(WeirError::new(
                Fault::Checkpoint,
                format!("{problem}; restore the old definition or start with a new checkpoint"),
            ))
        };
        let tasks = self.layout.tasks.iter();
        let operators: BTreeMap<&String, &OperatorSpec> = tasks
            .flat_map(|task| task.operators.iter().map(|(uid, spec)| (uid, spec)))
            .collect();
        for (uid, snapshots) in &manifest.snapshots {
            let Some(spec) = operators.get(uid) else {
                return refuse(format!(
                    "epoch {} has state of an operator '{uid}', which the program does not have",
                    manifest.epoch
                ));
            };
            let in_tables = snapshots.iter().any(|snapshot| snapshot.groups.is_some());
            if !snapshots.is_empty() && in_tables == spec.tables.is_empty() {
                return refuse(format!(
                    "operator '{uid}' has its state {} in the checkpoint and the other way in the program",
                    if in_tables {
                        "in tables"
                    } else {
                        "as one snapshot"
                    }
                ));
            }
        }
        for (uid, groups) in &manifest.key_groups {
            if *groups != KEY_GROUPS {
                return refuse(format!(
                    "operator '{uid}' has state in {groups} key groups, this version has {KEY_GROUPS}"
                ));
            }
        }
        Ok(())
    }

    /// Gives the operator what its `snapshot` returned for the last committed epoch. Such state is opaque: only as many subtasks as
    /// wrote it can take it back.
    async fn restore(&self, chain: &mut Chain, uid: &str, id: SubtaskId) -> Result<()> {
        let Some((manifest, _)) = &self.recovered.last else {
            return Ok(());
        };
        let Some(references) = manifest.snapshots.get(uid) else {
            return Ok(());
        };
        let layout = &self.layout.tasks[id.task];
        let before = self.subtasks_before(manifest, uid, &layout.uid, references);
        if before != layout.parallelism {
            return Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "operator '{uid}' has state of {before} subtasks and would run with {}: set its parallelism to {before}",
                    layout.parallelism
                ),
            ));
        }
        for reference in references {
            if reference.subtask as usize == id.subtask {
                let bytes = self.snapshots.read(reference).await?;
                chain.restore(uid, &bytes)?;
            }
        }
        Ok(())
    }

    /// Number of subtasks of an operator when the manifest was written; early manifests tell it of the task only.
    fn subtasks_before(
        &self,
        manifest: &Manifest,
        uid: &str,
        task: &str,
        references: &[SnapshotRef],
    ) -> usize {
        let subtasks = manifest.parallelism.get(uid);
        subtasks
            .or_else(|| manifest.parallelism.get(task))
            .map_or(references.len(), |subtasks| *subtasks as usize)
    }
}

/// The name of a fault point inside the state.
fn known_point(point: &str) -> &'static str {
    match point {
        "state:before" => "state:before",
        "state:written" => "state:written",
        _ => "state:files",
    }
}
