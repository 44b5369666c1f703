//! Executes the actions of the epoch protocol: all I/O of the coordinator, one action at a time, without actors.

mod assign;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Addr;
use serde_json::Value;
use weir_state::{
    CheckpointLog, Clock, Epoch, Manifest, Plan, Retention, SnapshotRef, SourceRange,
};

use crate::error::{Result, WeirError};
use crate::failpoint::FailPoints;
use crate::listener::QueryEvent;
use crate::progress::iso;
use crate::protocol::Action;
use crate::shared::QueryShared;
use crate::sink::{CommitOutcome, SinkCommitter};
use crate::source::{Admission, Offset};
use crate::task::{BeginEpoch, TaskAck, TaskActor};
use crate::topology::SharedSource;
use crate::trigger::Trigger;
use crate::watermark::WatermarkTracker;

/// Epochs between two looks for old files of the checkpoint.
const PRUNE_EVERY: u64 = 16;

/// A source and its subtasks.
pub(crate) struct SourceSlot {
    pub(crate) uid: String,
    pub(crate) description: String,
    pub(crate) source: SharedSource,
    pub(crate) task: usize,
    pub(crate) actors: Vec<Addr<TaskActor>>,
    /// End of the last planned epoch.
    pub(crate) position: Option<Offset>,
}

/// A sink and its committer.
pub(crate) struct SinkSlot {
    pub(crate) uid: String,
    pub(crate) description: String,
    pub(crate) delivery: String,
    pub(crate) task: usize,
    pub(crate) committer: Box<dyn SinkCommitter>,
}

/// What an action gave back.
pub(crate) enum Done {
    Planned { work: bool },
    Logged,
    Begun,
    SinksCommitted,
    Published,
    Announced,
}

/// The epoch that is open.
struct OpenEpoch {
    plan: Plan,
    /// Manifest under construction.
    acks: Vec<TaskAck>,
    summaries: BTreeMap<String, Value>,
    splits: Vec<usize>,
    next_watermark_ms: i64,
}

/// All a generation needs to run epochs.
pub(crate) struct Executor {
    pub(crate) shared: Arc<QueryShared>,
    pub(crate) log: Arc<CheckpointLog>,
    pub(crate) generation: u64,
    pub(crate) sources: Vec<SourceSlot>,
    pub(crate) sinks: Vec<SinkSlot>,
    pub(crate) watermarks: WatermarkTracker,
    pub(crate) watermark_ms: i64,
    pub(crate) parallelism: BTreeMap<String, u32>,
    pub(crate) timing: Timing,
    open: Option<OpenEpoch>,
}

/// When things started and how long they took; milliseconds.
#[derive(Default)]
pub(crate) struct Timing {
    pub(crate) trigger_ms: i64,
    pub(crate) previous_trigger_ms: Option<i64>,
    durations: BTreeMap<String, f64>,
}

impl Timing {
    fn add(&mut self, phase: &str, clock: &dyn Clock, since: std::time::Duration) {
        let elapsed = clock.monotonic().saturating_sub(since);
        *self.durations.entry(phase.to_owned()).or_default() += elapsed.as_secs_f64() * 1000.0;
    }
}

impl Executor {
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a generation, named once where it is built"
    )]
    pub(crate) fn new(
        shared: Arc<QueryShared>,
        log: Arc<CheckpointLog>,
        generation: u64,
        sources: Vec<SourceSlot>,
        sinks: Vec<SinkSlot>,
        watermarks: WatermarkTracker,
        watermark_ms: i64,
        parallelism: BTreeMap<String, u32>,
    ) -> Self {
        let timing = Timing::default();
        Self {
            shared,
            log,
            generation,
            sources,
            sinks,
            watermarks,
            watermark_ms,
            parallelism,
            timing,
            open: None,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.config.clock)
    }

    fn failpoints(&self) -> Arc<FailPoints> {
        Arc::clone(&self.shared.config.failpoints)
    }

    /// A new trigger begins now.
    pub(crate) fn start_trigger(&mut self) {
        self.timing.trigger_ms = self.clock().now_ms();
        self.timing.durations.clear();
    }

    /// The epoch an earlier run planned is the open one.
    pub(crate) fn adopt(&mut self, plan: Plan) {
        self.start_trigger();
        self.open = Some(OpenEpoch::new(plan));
    }

    /// Executes one action. `acks` are those of the open epoch, complete when the sinks are to commit.
    pub(crate) async fn execute(&mut self, action: Action, acks: Vec<TaskAck>) -> Result<Done> {
        let clock = self.clock();
        let since = clock.monotonic();
        let (phase, done) = match action {
            Action::Plan(epoch) => ("latestOffset", self.plan(epoch).await?),
            Action::Log(epoch) => ("walCommit", self.write_plan(epoch).await?),
            Action::Begin(epoch) => ("getBatch", self.begin(epoch).await?),
            Action::CommitSinks(epoch) => ("commitBatch", self.commit_sinks(epoch, acks).await?),
            Action::Publish(epoch) => ("commitOffsets", self.publish(epoch).await?),
            Action::Announce(epoch) => return self.announce(epoch).await.map(|()| Done::Announced),
            Action::Schedule { .. } | Action::Finish => {
                return Err(WeirError::internal(
                    "scheduling and finishing are the coordinator's own actions",
                ));
            }
        };
        self.timing.add(phase, clock.as_ref(), since);
        Ok(done)
    }

    fn open(&mut self, epoch: Epoch) -> Result<&mut OpenEpoch> {
        match &mut self.open {
            Some(open) if open.plan.epoch == epoch => Ok(open),
            _ => Err(WeirError::internal(format!(
                "epoch {epoch} is not the open one"
            ))),
        }
    }

    async fn plan(&mut self, epoch: Epoch) -> Result<Done> {
        self.start_trigger();
        self.failpoints().hit("plan:before")?;
        let once = self.shared.config.trigger == Trigger::Once;
        let admission = if once {
            Admission::Everything
        } else {
            Admission::Limited
        };
        let mut ranges = Vec::with_capacity(self.sources.len());
        let mut work = false;
        for slot in &mut self.sources {
            self.shared.set_status(
                format!("Getting offsets from {}", slot.description),
                false,
                true,
            );
            let mut source = slot.source.lock().await;
            let latest = source
                .latest(slot.position.as_ref(), admission)
                .await
                .map_err(|error| error.at(&slot.uid, 0))?;
            let end = latest.or_else(|| slot.position.clone());
            work |= end != slot.position;
            ranges.push(SourceRange {
                source: slot.uid.clone(),
                start: slot.position.clone(),
                end: end.unwrap_or(Value::Null),
            });
        }
        self.report_backlog().await;
        if !work {
            return Ok(Done::Planned { work });
        }
        self.open = Some(OpenEpoch::new(Plan {
            epoch,
            generation: self.generation,
            watermark_ms: self.watermark_ms,
            batch_timestamp_ms: self.timing.trigger_ms,
            config: self.shared.config.frozen.clone(),
            sources: ranges,
        }));
        Ok(Done::Planned { work })
    }

    async fn report_backlog(&self) {
        if let Some(slot) = self.sources.first() {
            self.shared.set_backlog(slot.source.lock().await.backlog());
        }
    }

    async fn write_plan(&mut self, epoch: Epoch) -> Result<Done> {
        self.shared.set_status("Writing offsets to log", true, true);
        let plan = self.open(epoch)?.plan.clone();
        let failpoints = self.failpoints();
        for (slot, range) in self.sources.iter().zip(&plan.sources) {
            failpoints.hit("source-log:before")?;
            if let Some(end) = offset(&range.end) {
                let mut source = slot.source.lock().await;
                source
                    .log(epoch, range.start.as_ref(), end)
                    .await
                    .map_err(|error| error.at(&slot.uid, 0))?;
            }
        }
        failpoints.hit("plan-log:before")?;
        self.log.publish_plan(&plan).await?;
        failpoints.hit("plan-log:after")?;
        Ok(Done::Logged)
    }

    async fn begin(&mut self, epoch: Epoch) -> Result<Done> {
        self.shared.set_status("Processing new data", true, true);
        self.failpoints().hit("begin:before")?;
        let plan = self.open(epoch)?.plan.clone();
        let mut counts = Vec::with_capacity(self.sources.len());
        for slot in &mut self.sources {
            let range = plan
                .source(&slot.uid)
                .ok_or_else(|| missing_range(&slot.uid, epoch))?;
            let end = offset(&range.end).cloned();
            let splits = match &end {
                Some(end) if Some(end) != range.start.as_ref() => {
                    let mut source = slot.source.lock().await;
                    let splits = source.splits(epoch, range.start.as_ref(), end).await;
                    splits.map_err(|error| error.at(&slot.uid, 0))?
                }
                _ => Vec::new(),
            };
            counts.push(splits.len());
            for (actor, splits) in slot
                .actors
                .iter()
                .zip(assign::assign(splits, slot.actors.len()))
            {
                actor.do_send(BeginEpoch {
                    epoch,
                    watermark_ms: plan.watermark_ms,
                    splits,
                });
            }
            slot.position = end;
        }
        self.open(epoch)?.splits = counts;
        Ok(Done::Begun)
    }

    async fn commit_sinks(&mut self, epoch: Epoch, acks: Vec<TaskAck>) -> Result<Done> {
        let failpoints = self.failpoints();
        let generation_watermark = self.observe(&acks);
        for slot in &mut self.sinks {
            failpoints.hit("sink-commit:before")?;
            let mut parts: Vec<_> = acks.iter().filter(|ack| ack.id.task == slot.task).collect();
            parts.sort_by_key(|ack| ack.id.subtask);
            let committables: Vec<Value> = parts
                .into_iter()
                .filter_map(|ack| ack.committable.clone())
                .collect();
            let outcome = slot
                .committer
                .commit(epoch, committables)
                .await
                .map_err(|error| error.at(&slot.uid, 0))?;
            failpoints.hit("sink-commit:after")?;
            if outcome == CommitOutcome::AlreadyCommitted {
                tracing::info!(sink = %slot.description, %epoch, "the sink holds this epoch already, replayed output discarded");
            }
        }
        let outcome_rows: Vec<(String, u64)> = self
            .sinks
            .iter()
            .map(|slot| (slot.uid.clone(), written(&acks, slot.task)))
            .collect();
        let open = self.open(epoch)?;
        open.next_watermark_ms = generation_watermark;
        open.summaries = outcome_rows
            .into_iter()
            .map(|(uid, rows)| (uid, serde_json::json!({ "rows": rows })))
            .collect();
        open.acks = acks;
        Ok(Done::SinksCommitted)
    }

    /// Moves the watermark by the event times of the epoch; in force from the next one on.
    fn observe(&mut self, acks: &[TaskAck]) -> i64 {
        for (uid, stats) in acks.iter().flat_map(|ack| &ack.event_times) {
            self.watermarks.observe(uid, stats);
        }
        self.watermarks.advance()
    }

    async fn publish(&mut self, epoch: Epoch) -> Result<Done> {
        let failpoints = self.failpoints();
        let (generation, parallelism) = (self.generation, self.parallelism.clone());
        let open = self.open(epoch)?;
        let mut manifest = Manifest::new(epoch, generation, open.next_watermark_ms);
        manifest.snapshots = snapshots(&open.acks);
        manifest.committables = open.summaries.clone();
        manifest.parallelism = parallelism;
        failpoints.hit("manifest:before")?;
        self.log.publish_manifest(&manifest).await?;
        failpoints.hit("manifest:after")?;
        self.watermark_ms = manifest.next_watermark_ms;
        Ok(Done::Published)
    }

    async fn announce(&mut self, epoch: Epoch) -> Result<()> {
        self.failpoints().hit("announce:before")?;
        let open = self
            .open
            .take()
            .ok_or_else(|| WeirError::internal("no epoch to announce"))?;
        for (slot, range) in self.sources.iter().zip(&open.plan.sources) {
            let Some(end) = offset(&range.end) else {
                continue;
            };
            if let Err(error) = slot.source.lock().await.committed(epoch, end).await {
                tracing::warn!(source = %slot.description, %epoch, %error, "the source could not tidy up after a committed epoch");
            }
        }
        self.prune(epoch).await;
        self.report_backlog().await;
        let progress = self.progress(&open).await;
        self.timing.previous_trigger_ms = Some(self.timing.trigger_ms);
        self.shared.push_progress(progress);
        self.failpoints().hit("announce:after")
    }

    /// Removes old epochs now and then: it has to list the checkpoint, which is not worth doing for every epoch.
    async fn prune(&self, epoch: Epoch) {
        let Some(min_epochs) = std::num::NonZeroU64::new(self.shared.config.min_epochs_to_retain)
        else {
            return;
        };
        if !epoch.0.is_multiple_of(PRUNE_EVERY) {
            return;
        }
        if let Err(error) = self.log.prune(Retention { min_epochs }).await {
            tracing::warn!(%epoch, %error, "old epochs could not be removed from the checkpoint");
        }
    }

    /// Nothing has arrived for a while.
    pub(crate) fn announce_idle(&self) {
        let timestamp = iso(self.clock().now_ms());
        self.shared.emit(&QueryEvent::Idle {
            id: self.shared.id(),
            run_id: self.shared.run_id,
            timestamp,
        });
    }
}

impl OpenEpoch {
    fn new(plan: Plan) -> Self {
        let next_watermark_ms = plan.watermark_ms;
        Self {
            plan,
            acks: Vec::new(),
            summaries: BTreeMap::new(),
            splits: Vec::new(),
            next_watermark_ms,
        }
    }
}

/// A source that has never had anything stands as null in the plan.
fn offset(value: &Value) -> Option<&Offset> {
    (!value.is_null()).then_some(value)
}

fn missing_range(uid: &str, epoch: Epoch) -> WeirError {
    WeirError::new(
        crate::error::Fault::Checkpoint,
        format!("the plan of epoch {epoch} has no range for source '{uid}'"),
    )
}

fn written(acks: &[TaskAck], task: usize) -> u64 {
    acks.iter()
        .filter(|ack| ack.id.task == task)
        .map(|ack| ack.rows)
        .sum()
}

fn snapshots(acks: &[TaskAck]) -> BTreeMap<String, Vec<SnapshotRef>> {
    let mut snapshots: BTreeMap<String, Vec<SnapshotRef>> = BTreeMap::new();
    for (uid, reference) in acks.iter().flat_map(|ack| &ack.snapshots) {
        snapshots
            .entry(uid.clone())
            .or_default()
            .push(reference.clone());
    }
    for references in snapshots.values_mut() {
        references.sort_by_key(|reference| reference.subtask);
    }
    snapshots
}
