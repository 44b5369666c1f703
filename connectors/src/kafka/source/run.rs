//! One generation of a Kafka source: what it knows of the cluster, where it stands, and what the next epoch reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use weir_runtime::{
    Admission, Backlog, Clock, Epoch, Fault, Offset, Result, SourceContext, Split, WeirError,
};

use super::cluster::{Cluster, View};
use super::config::{KafkaSourceConfig, OWNER};
use super::limits;
use super::log::{StartLog, Starts};
use super::loss::Loss;
use super::offsets::{Offsets, TopicPartition};
use super::outlook::Outlook;
use super::shared::Shared;
use super::start;

/// How old what is known of topics, partitions and their beginnings may be; ends are asked for every time.
const DISCOVERY: Duration = Duration::from_secs(1);
/// Age after which it is looked up beside the epochs, so that none of them waits for it.
const DISCOVERY_BESIDE: Duration = Duration::from_millis(500);

/// Wait before asking again about what is missing.
const PAUSE: Duration = Duration::from_millis(300);
/// How often it is asked for again.
const CONFIRMATIONS: u32 = 8;

/// An epoch that was planned but not logged.
struct Pending {
    end: Offset,
    starts: Starts,
}

/// The cluster cannot be asked.
struct Outage {
    since: Duration,
    problem: String,
}

/// State of the source between `open` and the end of the generation.
pub(super) struct Run {
    config: Arc<KafkaSourceConfig>,
    uid: String,
    clock: Arc<dyn Clock>,
    cluster: Arc<Cluster>,
    log: StartLog,
    /// Where a query without committed epochs begins.
    initial: Option<Offsets>,
    view: Option<View>,
    /// When the view was made as a whole.
    viewed: Option<Duration>,
    /// The next one, and when it was begun.
    discovery: Option<(Duration, JoinHandle<Result<View>>)>,
    /// End of a bounded run, and where the run began.
    fixed: Option<Offsets>,
    began: Option<Offsets>,
    reached: Option<Offsets>,
    pending: Option<Pending>,
    last_epoch: Option<Duration>,
    outage: Option<Outage>,
    warned_of_losses: String,
    shared: Arc<Shared>,
}

impl Run {
    /// Reads the log; a new query looks up where it begins and makes that durable.
    pub(super) async fn start(
        config: Arc<KafkaSourceConfig>,
        shared: Arc<Shared>,
        context: SourceContext,
    ) -> Result<Self> {
        let committed = context
            .committed
            .as_ref()
            .map(|end| offsets(&context.uid, end))
            .transpose()?;
        let planned = context.planned_epoch;
        let log = StartLog::open(context.checkpoint, context.index, planned).await?;
        let initial = log.initial()?;
        let mut run = Self {
            cluster: Arc::new(Cluster::new(&config)),
            config,
            uid: context.uid,
            clock: context.clock,
            log,
            began: committed.clone(),
            reached: committed.clone(),
            initial,
            view: None,
            viewed: None,
            discovery: None,
            fixed: None,
            pending: None,
            last_epoch: None,
            outage: None,
            warned_of_losses: String::new(),
            shared,
        };
        if committed.is_some() || run.initial.is_some() {
            run.warn_of_ignored_start();
        } else if planned.is_none() {
            run.find_first().await?;
        }
        run.began = run.began.or_else(|| run.initial.clone());
        Ok(run)
    }

    fn warn_of_ignored_start(&self) {
        if self.config.starting_given && self.shared.warn_once() {
            tracing::warn!(
                source = %self.config.description(),
                "the options that say where to start are ignored: the checkpoint says where the query goes on; a query with another \
                 start needs another checkpoint"
            );
        }
    }

    async fn find_first(&mut self) -> Result<()> {
        let config = Arc::clone(&self.config);
        let find = move |cluster: &Cluster| {
            let view = cluster.view(&config.subscription)?;
            let first = start::first(cluster, &config, &view)?;
            Ok((view, first))
        };
        let begun = self.clock.monotonic();
        let (view, first) = self.cluster.ask(find).await?;
        let ids = topic_ids(&view);
        self.see(view, begun);
        let first = self.log.write_initial(Starts::new(&first, ids)).await?;
        tracing::info!(source = %self.config.description(), offsets = %first, "a new query begins");
        self.initial = Some(first);
        Ok(())
    }

    /// From now on nothing that arrives later is planned.
    pub(super) async fn fix_end(&mut self) -> Result<()> {
        let config = Arc::clone(&self.config);
        let find = move |cluster: &Cluster| {
            let view = cluster.view(&config.subscription)?;
            let last = start::last(cluster, &config, &view)?;
            Ok((view, last))
        };
        let begun = self.clock.monotonic();
        let (view, last) = self.cluster.ask(find).await?;
        self.see(view, begun);
        self.fixed = Some(last);
        Ok(())
    }

    /// Where the next epoch ends.
    pub(super) async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        self.pending = None;
        let from = self.from(start)?;
        let Some(outlook) = self.patient_look(&from).await? else {
            return Ok(start.cloned());
        };
        if !outlook.losses.is_empty() {
            self.judge_losses(&outlook)?;
        }
        let available = outlook.available();
        if available == 0 && outlook.losses.is_empty() {
            return Ok(start.cloned());
        }
        if admission == Admission::Limited && self.waits(available) {
            return Ok(start.cloned());
        }
        let limit = self.config.max_offsets;
        let end = outlook.end_of_epoch(&from, limit.filter(|_| admission == Admission::Limited));
        self.last_epoch = Some(self.clock.monotonic());
        let mut starts = Starts::new(&outlook.starts, outlook.topic_ids.clone());
        starts.lost = outlook.lost();
        starts.losses = outlook.losses.len() as u64;
        let end = end.to_json();
        self.pending = Some(Pending {
            end: end.clone(),
            starts,
        });
        Ok(Some(end))
    }

    fn waits(&self, available: u64) -> bool {
        let Some(min) = self.config.min_offsets else {
            return false;
        };
        // A bounded run is to read everything, however little is left.
        let now = self.clock.monotonic();
        let since = self.last_epoch.map(|last| now.saturating_sub(last));
        self.fixed.is_none() && limits::waits(available, min, since, self.config.max_trigger_delay)
    }

    /// What could be read next; `None` if the brokers do not answer at the moment. They may come back: for some time that is no
    /// failure. A bounded run waits for them, because to it nothing new would be the end.
    async fn patient_look(&mut self, from: &Offsets) -> Result<Option<Outlook>> {
        loop {
            match self.look(from).await {
                Ok(outlook) => {
                    if self.outage.take().is_some() {
                        tracing::info!(source = %self.config.description(), "the source is available again");
                    }
                    return Ok(Some(outlook));
                }
                Err(error) => self.unavailable(error)?,
            }
            if self.fixed.is_none() {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What could be read next. Whatever seems to be lost is looked up again for a while: brokers that have just started or taken
    /// over a partition may know less than there is.
    async fn look(&mut self, from: &Offsets) -> Result<Outlook> {
        self.discover_beside().await;
        let mut outlook = self.look_once(from, self.is_older_than(DISCOVERY)).await?;
        let mut round = 0;
        while !outlook.losses.is_empty() && round < CONFIRMATIONS.max(self.config.num_retries) {
            // Where a log begins never goes back.
            if round > 0 && outlook.losses.iter().all(Loss::is_expiry) {
                break;
            }
            round += 1;
            tokio::time::sleep(self.config.retry_interval.max(PAUSE)).await;
            outlook = self.look_once(from, true).await?;
        }
        Ok(outlook)
    }

    /// Takes what was looked up beside the last epochs, and begins to look up what the next ones need. A failure is left to the look
    /// that cannot do without.
    async fn discover_beside(&mut self) {
        match self.discovery.take() {
            Some((begun, discovery)) if discovery.is_finished() => {
                if let Ok(Ok(view)) = discovery.await {
                    self.see(view, begun);
                }
            }
            Some(under_way) => self.discovery = Some(under_way),
            None if self.is_older_than(DISCOVERY_BESIDE) && !self.is_older_than(DISCOVERY) => {
                let config = Arc::clone(&self.config);
                let look = move |cluster: &Cluster| cluster.view(&config.subscription);
                self.discovery = Some((self.clock.monotonic(), self.cluster.start(look)));
            }
            None => {}
        }
    }

    /// Whether the view as a whole is of so long ago, or there is none.
    fn is_older_than(&self, age: Duration) -> bool {
        let now = self.clock.monotonic();
        self.viewed
            .is_none_or(|viewed| now.saturating_sub(viewed) >= age)
    }

    async fn look_once(&mut self, from: &Offsets, whole: bool) -> Result<Outlook> {
        let config = Arc::clone(&self.config);
        let before = self.view.clone().filter(|_| !whole);
        let refreshed = before.is_some();
        let look = move |cluster: &Cluster| match before {
            Some(view) => cluster.refresh(view),
            None => cluster.view(&config.subscription),
        };
        let begun = self.clock.monotonic();
        let view = self.cluster.ask(look).await?;
        let outlook = Outlook::of(from, &self.log.topic_ids, &view, self.fixed.as_ref());
        match refreshed {
            true => self.view = Some(view),
            false => self.see(view, begun),
        }
        Ok(outlook)
    }

    /// Takes a view as a whole that was begun at a time.
    fn see(&mut self, view: View, begun: Duration) {
        self.shared.know_partitions(view.bounds.keys());
        self.viewed = Some(begun);
        self.view = Some(view);
    }

    fn judge_losses(&mut self, outlook: &Outlook) -> Result<()> {
        if self.config.fail_on_data_loss {
            return Err(start::data_loss(&outlook.losses));
        }
        let texts: Vec<String> = outlook.losses.iter().map(ToString::to_string).collect();
        let text = texts.join("; ");
        // Once, not at every look until the epoch that takes note of it.
        if self.warned_of_losses != text {
            tracing::warn!(
                source = %self.config.description(),
                lost_offsets = outlook.lost(),
                "records that were not read yet are gone: {text}; failOnDataLoss is false, so the query goes on with what is there"
            );
            self.warned_of_losses = text;
        }
        Ok(())
    }

    /// Notes that the brokers do not answer; an error once that has lasted too long.
    fn unavailable(&mut self, error: WeirError) -> Result<()> {
        if error.fault() != Fault::External {
            return Err(error);
        }
        let now = self.clock.monotonic();
        let problem = error.message().to_owned();
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        if self.outage.is_none() {
            tracing::warn!(source = %self.config.description(), %error, "the source is unavailable");
        }
        self.outage = Some(Outage { since, problem });
        match now.saturating_sub(since) >= self.config.poll_timeout {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// Why the cluster cannot be asked at the moment.
    pub(super) fn problem(&self) -> Option<String> {
        self.outage.as_ref().map(|outage| outage.problem.clone())
    }

    /// Makes durable what does not follow from the plans.
    pub(super) async fn log(&mut self, epoch: Epoch, end: &Offset) -> Result<()> {
        let pending = self.pending.as_ref().filter(|pending| pending.end == *end);
        let Some(starts) = pending.map(|pending| pending.starts.clone()) else {
            return Ok(());
        };
        match starts.says_something() {
            true => self.log.append(epoch, starts).await,
            false => Ok(()),
        }
    }

    /// The splits of an epoch, by its plan and its log alone.
    pub(super) fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let mut begin = self.from(start)?;
        let end = offsets(&self.uid, end)?;
        let starts = self.log.of(epoch);
        if let Some(starts) = starts {
            begin.overlay(&starts.offsets()?);
        }
        self.shared
            .begin_epoch(starts.map_or((0, 0), |starts| (starts.lost, starts.losses)));
        if let Some(at) = end.partitions().find(|at| !begin.contains(at)) {
            return Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "the checkpoint does not say where partition {at} begins in epoch {epoch}: a file in 'sources' is missing"
                ),
            ));
        }
        self.shared.know_partitions(end.partitions());
        let config = &self.config;
        let ranges = limits::ranges(&begin, &end, config.min_partitions, config.max_records);
        self.reached = Some(end);
        Ok(ranges.iter().map(split).collect())
    }

    fn from(&self, start: Option<&Offset>) -> Result<Offsets> {
        match (start, &self.initial) {
            (Some(start), _) => offsets(&self.uid, start),
            (None, Some(initial)) => Ok(initial.clone()),
            (None, None) => Err(WeirError::new(
                Fault::Checkpoint,
                format!(
                    "the checkpoint does not say where source '{}' began: the file 'initial' in 'sources' is missing",
                    self.uid
                ),
            )),
        }
    }

    /// Names of all partitions, also of those without rows.
    pub(super) fn partitions(&self) -> Vec<String> {
        let view = self.view.iter().flat_map(|view| view.bounds.keys());
        let reached = self.reached.iter().flat_map(Offsets::partitions);
        let mut names: Vec<String> = view.chain(reached).map(ToString::to_string).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Where the partitions end, as far as is known.
    pub(super) fn newest(&self) -> Option<Offset> {
        self.view.as_ref().map(|view| view.latest().to_json())
    }

    /// How far the epoch that ended at `end` is behind, and what was lost on the way.
    pub(super) fn metrics(&self, end: &Offset) -> BTreeMap<String, String> {
        let mut metrics = self.shared.losses();
        let end = offsets(&self.uid, end).unwrap_or_default();
        let Some(view) = &self.view else {
            return metrics;
        };
        let behind = |(at, offset): (&TopicPartition, i64)| {
            let latest = view.bounds.get(at)?.latest;
            Some(u64::try_from(latest - offset).unwrap_or(0))
        };
        let lags: Vec<u64> = end.iter().filter_map(behind).collect();
        if let (Some(min), Some(max)) = (lags.iter().min(), lags.iter().max()) {
            let average = lags.iter().sum::<u64>() as f64 / lags.len() as f64;
            metrics.insert("minOffsetsBehindLatest".to_owned(), min.to_string());
            metrics.insert("maxOffsetsBehindLatest".to_owned(), max.to_string());
            metrics.insert("avgOffsetsBehindLatest".to_owned(), format!("{average:?}"));
        }
        metrics
    }

    /// Records of this run that are read, of those that are known.
    pub(super) fn backlog(&self) -> Option<Backlog> {
        let began = self.began.as_ref()?;
        let ends = match (&self.fixed, &self.view) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(view)) => view.latest(),
            (None, None) => return None,
        };
        let reached = self.reached.as_ref();
        Some(Backlog {
            done: reached.map_or(0, |reached| began.distance_to(reached)),
            total: began.distance_to(&ends),
            unit: "records",
        })
    }
}

/// The offsets of a plan.
fn offsets(uid: &str, offset: &Offset) -> Result<Offsets> {
    Offsets::from_json(offset).ok_or_else(|| {
        WeirError::new(
            Fault::Checkpoint,
            format!(
                "offset {offset} of source '{uid}' is not of the form {{\"topic\":{{\"0\":0}}}}: the checkpoint belongs to another kind \
                 of source than {OWNER}"
            ),
        )
    })
}

fn topic_ids(view: &View) -> BTreeMap<String, String> {
    let ids = view.topics.iter();
    ids.filter_map(|(topic, info)| Some((topic.clone(), info.id.clone()?)))
        .collect()
}

fn split(range: &limits::Range) -> Split {
    Split {
        name: range.at.to_string(),
        payload: json!({
            "topic": range.at.topic,
            "partition": range.at.partition,
            "from": range.from,
            "to": range.to,
            "whole": range.whole,
        }),
        weight: range.size(),
    }
}
