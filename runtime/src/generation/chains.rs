//! The operators of a subtask, with the state of the last committed epoch given back to them.

use weir_state::{Manifest, OperatorState, SnapshotRef};

use super::{Builder, control};
use crate::chain::{Chain, ChainEnv, Port};
use crate::error::{Fault, Result, WeirError};
use crate::operator::OperatorSpec;
use crate::protocol::SubtaskId;
use crate::task::outputs::Outputs;
use std::sync::Arc;

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

    /// The tables of one operator subtask as the last committed epoch left them.
    #[allow(clippy::unused_async, reason = "restoring reads the checkpoint")]
    async fn state(
        &self,
        _uid: &str,
        spec: &OperatorSpec,
        _id: SubtaskId,
    ) -> Result<OperatorState> {
        Ok(OperatorState::in_memory(&spec.tables))
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
