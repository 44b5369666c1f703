//! Executes the actions of the epoch protocol: all I/O of the coordinator, one action at a time, without actors.

mod assign;
mod planning;
mod report;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Addr;
use serde_json::Value;
use weir_state::{CheckpointLog, Clock, Epoch, Manifest, Plan, Retention, SnapshotRef};

use crate::error::{Result, WeirError};
use crate::facts::{Facts, OpenFacts};
use crate::failpoint::FailPoints;
use crate::listener::QueryEvent;
use crate::progress::iso;
use crate::protocol::Action;
use crate::shared::QueryShared;
use crate::sink::{CommitOutcome, SinkCommitter};
use crate::source::{Offset, Split};
use crate::task::{BeginEpoch, TaskAck, TaskActor};
use crate::topology::SharedSource;
use crate::watermark::WatermarkTracker;

/// Epochs between two looks for old files of the checkpoint.
const PRUNE_EVERY: u64 = 16;

/// A source and its subtasks.
pub(crate) struct SourceSlot {
    pub(crate) uid: String,
    pub(crate) description: String,
    pub(crate) source: SharedSource,
    /// Index of the node, as rows know it (`Origin::source`).
    pub(crate) node: u32,
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

/// A stateful operator, for progress.
pub(crate) struct StatefulSlot {
    pub(crate) uid: String,
    /// Name under which progress shows it.
    pub(crate) name: String,
    /// Operators without tables between it and the stateful ones before it: rows they drop as late count as its.
    pub(crate) feeders: Vec<String>,
    pub(crate) tables: u64,
    pub(crate) subtasks: u64,
}

/// What stays the same while a generation runs.
pub(crate) struct Fixed {
    pub(crate) generation: u64,
    /// Number of subtasks by node id.
    pub(crate) parallelism: BTreeMap<String, u32>,
    /// Number of key groups by id of an operator with state tables.
    pub(crate) key_groups: BTreeMap<String, u32>,
    /// Some operator has work to do when the watermark moves without new rows.
    pub(crate) watermark_epochs: bool,
    /// The one nearest to the sink first.
    pub(crate) stateful: Vec<StatefulSlot>,
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
    /// Names by (source node, index), where splits have watermarks of their own.
    split_names: BTreeMap<(u32, u32), String>,
    next_watermark_ms: i64,
}

/// All a generation needs to run epochs.
pub(crate) struct Executor {
    pub(crate) shared: Arc<QueryShared>,
    pub(crate) log: Arc<CheckpointLog>,
    fixed: Fixed,
    sources: Vec<SourceSlot>,
    sinks: Vec<SinkSlot>,
    watermarks: WatermarkTracker,
    /// Watermark the last committed epoch ran with.
    last_watermark_ms: Option<i64>,
    facts: Arc<OpenFacts>,
    pub(crate) timing: Timing,
    open: Option<OpenEpoch>,
    /// Why a source cannot be asked at the moment.
    pub(crate) problem: Option<String>,
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
        fixed: Fixed,
        sources: Vec<SourceSlot>,
        sinks: Vec<SinkSlot>,
        watermarks: WatermarkTracker,
        last_watermark_ms: Option<i64>,
        facts: Arc<OpenFacts>,
    ) -> Self {
        Self {
            shared,
            log,
            fixed,
            sources,
            sinks,
            watermarks,
            last_watermark_ms,
            facts,
            timing: Timing::default(),
            open: None,
            problem: None,
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
        self.watermarks.raise(plan.watermark_ms);
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
            Action::BeginAndLog(epoch) => ("walCommit", self.begin_and_log(epoch).await?),
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

    async fn report_backlog(&self) {
        if let Some(slot) = self.sources.first() {
            self.shared.set_backlog(slot.source.lock().await.backlog());
        }
    }

    async fn begin(&mut self, epoch: Epoch) -> Result<Done> {
        self.shared.set_status("Processing new data", true, true);
        self.failpoints().hit("begin:before")?;
        let plan = self.open(epoch)?.plan.clone();
        self.facts.set(Facts::of(&plan));
        self.know_splits(plan.batch_timestamp_ms).await;
        let watermark_ms = match self.watermarks.is_defined() {
            true => plan.watermark_ms,
            false => i64::MIN,
        };
        let by_split = self.shared.config.watermark.per_split;
        let mut counts = Vec::with_capacity(self.sources.len());
        let mut names = BTreeMap::new();
        for slot in &mut self.sources {
            let range = plan
                .source(&slot.uid)
                .ok_or_else(|| missing_range(&slot.uid, epoch))?;
            let end = offset(&range.end).cloned();
            let mut source = slot.source.lock().await;
            let splits = match &end {
                Some(end) if Some(end) != range.start.as_ref() => {
                    let splits = source.splits(epoch, range.start.as_ref(), end).await;
                    splits.map_err(|error| error.at(&slot.uid, 0))?
                }
                _ => Vec::new(),
            };
            counts.push(splits.len());
            if by_split {
                let numbered = (0_u32..).zip(&splits);
                names.extend(
                    numbered.map(|(index, split)| ((slot.node, index), split.name.clone())),
                );
            }
            let subtasks = slot.actors.len();
            let home = |split: &Split| source.home(split, subtasks);
            for (actor, splits) in slot
                .actors
                .iter()
                .zip(assign::assign(splits, subtasks, home))
            {
                actor.do_send(BeginEpoch {
                    epoch,
                    watermark_ms,
                    splits,
                });
            }
            slot.position = end;
        }
        let open = self.open(epoch)?;
        open.splits = counts;
        open.split_names = names;
        Ok(Done::Begun)
    }

    async fn commit_sinks(&mut self, epoch: Epoch, acks: Vec<TaskAck>) -> Result<Done> {
        let failpoints = self.failpoints();
        let next_watermark_ms = self.observe(epoch, &acks)?;
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
        open.next_watermark_ms = next_watermark_ms;
        open.summaries = outcome_rows
            .into_iter()
            .map(|(uid, rows)| (uid, serde_json::json!({ "rows": rows })))
            .collect();
        open.acks = acks;
        Ok(Done::SinksCommitted)
    }

    /// Moves the watermark by the event times of the epoch; in force from the next one on.
    fn observe(&mut self, epoch: Epoch, acks: &[TaskAck]) -> Result<i64> {
        let open = self.open(epoch)?;
        let now_ms = open.plan.batch_timestamp_ms;
        let before_ms = open.plan.watermark_ms;
        let names = std::mem::take(&mut open.split_names);
        for ack in acks {
            for (uid, stats) in &ack.event_times {
                self.watermarks.observe(uid, stats, now_ms);
            }
            for (uid, times) in &ack.split_times {
                let slot = self.sources.iter().find(|slot| slot.node == times.source);
                let name = names.get(&(times.source, times.split));
                if let (Some(slot), Some(name)) = (slot, name) {
                    self.watermarks
                        .observe_split(uid, &slot.uid, name, &times.stats, now_ms);
                }
            }
        }
        let next_ms = self.watermarks.at(now_ms);
        report::warn_of_jump(epoch, before_ms, next_ms, acks);
        Ok(next_ms)
    }

    async fn publish(&mut self, epoch: Epoch) -> Result<Done> {
        let failpoints = self.failpoints();
        let (generation, parts) = (self.fixed.generation, self.watermarks.parts());
        let open = self.open(epoch)?;
        let mut manifest = Manifest::new(epoch, generation, open.next_watermark_ms);
        let watermark_ms = open.plan.watermark_ms;
        manifest.snapshots = snapshots(&open.acks);
        manifest.committables = open.summaries.clone();
        manifest.watermarks = parts;
        manifest.parallelism = self.fixed.parallelism.clone();
        manifest.key_groups = self.fixed.key_groups.clone();
        failpoints.hit("manifest:before")?;
        self.log.publish_manifest(&manifest).await?;
        failpoints.hit("manifest:after")?;
        self.last_watermark_ms = Some(watermark_ms);
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
        let config = &self.shared.config;
        // What only this run can restore needs no past.
        let kept = match config.checkpoint {
            Some(_) => config.min_epochs_to_retain,
            None => config.min_epochs_to_retain.min(2),
        };
        let Some(min_epochs) = std::num::NonZeroU64::new(kept) else {
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
            split_names: BTreeMap::new(),
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
