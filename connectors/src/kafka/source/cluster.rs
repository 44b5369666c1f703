//! [`Cluster`]: what planning asks the brokers. Calls block and have a time limit; [`Cluster::ask`] runs them on a thread for such.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::JoinHandle;
use weir_runtime::{Fault, Result, WeirError};

use super::config::{EARLIEST, KafkaSourceConfig, LATEST, Subscription};
use super::describe::{TopicInfo, describe};
use super::loss::Bounds;
use super::offsets::{Offsets, TopicPartition};
use crate::kafka::client::{
    ClientSettings, Context, client_error, fault_of, patiently, was_silent,
};

/// Longest wait for one answer. Brokers answer in milliseconds; the rest of the patience is the planner's.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Reports and log lines taken from the client at a time.
const SERVED: usize = 64;

/// What the cluster had at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub(crate) topics: BTreeMap<String, TopicInfo>,
    /// The partitions that are read, as far as they exist.
    pub(crate) bounds: BTreeMap<TopicPartition, Bounds>,
}

impl View {
    pub(crate) fn latest(&self) -> Offsets {
        let bounds = self.bounds.iter();
        bounds
            .map(|(at, bounds)| (at.clone(), bounds.latest))
            .collect()
    }

    pub(crate) fn earliest(&self) -> Offsets {
        let bounds = self.bounds.iter();
        bounds
            .map(|(at, bounds)| (at.clone(), bounds.earliest))
            .collect()
    }
}

/// The client that planning uses; it never fetches records.
pub(crate) struct Cluster {
    settings: ClientSettings,
    context: Context,
    retries: u32,
    interval: Duration,
    timeout: Duration,
    client: Mutex<Option<Arc<BaseConsumer<Context>>>>,
}

impl Cluster {
    pub(crate) fn new(config: &KafkaSourceConfig) -> Self {
        Self {
            context: config.client.context(),
            settings: config.client.clone(),
            retries: config.num_retries,
            interval: config.retry_interval,
            timeout: config
                .poll_timeout
                .min(REQUEST_TIMEOUT)
                .max(Duration::from_secs(1)),
            client: Mutex::default(),
        }
    }

    /// Runs a call that blocks on a thread for such calls.
    pub(crate) async fn ask<T, F>(self: &Arc<Self>, call: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Cluster) -> Result<T> + Send + 'static,
    {
        self.start(call).await.map_err(|error| {
            WeirError::internal("a question to the kafka cluster did not end").with_source(error)
        })?
    }

    /// Begins a call that blocks on a thread for such calls.
    pub(crate) fn start<T, F>(self: &Arc<Self>, call: F) -> JoinHandle<Result<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Cluster) -> Result<T> + Send + 'static,
    {
        let cluster = Arc::clone(self);
        tokio::task::spawn_blocking(move || call(&cluster))
    }

    /// Topics, partitions and where they begin and end.
    pub(crate) fn view(&self, subscription: &Subscription) -> Result<View> {
        let topics = self.topics(subscription)?;
        let partitions = read_partitions(subscription, &topics);
        let earliest = self.offsets(partitions.iter().map(|at| (at.clone(), EARLIEST)))?;
        let latest = self.offsets(partitions.iter().map(|at| (at.clone(), LATEST)))?;
        let bounds = partitions.into_iter().filter_map(|at| {
            let bounds = Bounds {
                earliest: earliest.get(&at)?,
                latest: latest.get(&at)?,
            };
            Some((at, bounds))
        });
        Ok(View {
            bounds: bounds.collect(),
            topics,
        })
    }

    /// Only where the partitions of an earlier view end by now.
    pub(crate) fn refresh(&self, mut view: View) -> Result<View> {
        let latest = self.offsets(view.bounds.keys().map(|at| (at.clone(), LATEST)))?;
        for (at, bounds) in &mut view.bounds {
            bounds.latest = latest.get(at).unwrap_or(bounds.latest);
        }
        Ok(view)
    }

    fn topics(&self, subscription: &Subscription) -> Result<BTreeMap<String, TopicInfo>> {
        self.attempt("cannot read the topics of the cluster", |client| {
            let mut names: Vec<String> = match subscription {
                Subscription::Topics(topics) => topics.iter().cloned().collect(),
                Subscription::Partitions(partitions) => {
                    partitions.iter().map(|at| at.topic.clone()).collect()
                }
                Subscription::Pattern(_) => Vec::new(),
            };
            names.dedup();
            // Any broker that is up answers this; it is the one to be asked for more.
            let known = patiently(&self.context, self.timeout, |wait| {
                let known = client.fetch_metadata(names.first().map(String::as_str), wait);
                self.serve(client);
                known
            })?;
            if let Subscription::Pattern(pattern) = subscription {
                let all = known.topics().iter().map(|topic| topic.name());
                let matching = all.filter(|name| pattern.matches(name));
                names = matching.map(str::to_owned).collect();
            }
            describe(
                client.client(),
                known.orig_broker_id(),
                &names,
                self.timeout,
            )
        })
    }

    /// The first offset of each partition at or after a time, [`LATEST`] where there is none. Instead of a time, [`EARLIEST`] and
    /// [`LATEST`] ask for the beginning and the end; for readers of committed records that is the end of what is committed.
    pub(crate) fn offsets(
        &self,
        times: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> Result<Offsets> {
        let times: Vec<(TopicPartition, i64)> = times.into_iter().collect();
        if times.is_empty() {
            return Ok(Offsets::default());
        }
        self.attempt("cannot read the offsets of the partitions", |client| {
            let mut list = TopicPartitionList::with_capacity(times.len());
            for (at, time) in &times {
                list.add_partition_offset(&at.topic, at.partition, Offset::from_raw(*time))?;
            }
            let found = client.offsets_for_times(list, self.timeout)?;
            found.elements().iter().map(answer).collect()
        })
    }

    /// Where one partition begins and ends.
    pub(crate) fn bounds(&self, at: &TopicPartition) -> Result<Bounds> {
        let ends = [EARLIEST, LATEST].map(|end| self.offsets([(at.clone(), end)]));
        let [earliest, latest] = ends;
        let offset = |offsets: Offsets| {
            let missing = || WeirError::external(format!("the cluster told no offset of {at}"));
            offsets.get(at).ok_or_else(missing)
        };
        Ok(Bounds {
            earliest: offset(earliest?)?,
            latest: offset(latest?)?,
        })
    }

    /// Asks as often as the options allow, unless the answer would stay the same.
    fn attempt<T>(
        &self,
        what: &str,
        call: impl Fn(&BaseConsumer<Context>) -> KafkaResult<T>,
    ) -> Result<T> {
        let client = self.client()?;
        let mut attempt = 0;
        loop {
            let answer = call(&client);
            self.serve(&client);
            let error = match answer {
                Ok(answer) => {
                    self.context.forget_error();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if attempt == self.retries || !may_pass(&error) {
                let what = format!("{what} at {}", self.settings.bootstrap_servers());
                return Err(client_error(&what, &error, Some(&self.context)));
            }
            attempt += 1;
            std::thread::sleep(self.interval);
        }
    }

    /// Takes the client's reports: it has no subscription, so nothing else comes.
    fn serve(&self, client: &BaseConsumer<Context>) {
        for _ in 0..SERVED {
            drop(client.poll(Duration::ZERO));
        }
    }

    fn client(&self) -> Result<Arc<BaseConsumer<Context>>> {
        let mut slot = self.slot();
        if let Some(client) = &*slot {
            return Ok(Arc::clone(client));
        }
        let mut config = self.settings.client_config();
        config.remove("group.id");
        let client = config
            .create_with_context(self.context.clone())
            .map_err(|error| client_error("cannot make a kafka client", &error, None))?;
        let client = Arc::new(client);
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<BaseConsumer<Context>>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether asking again at once can help: not where the brokers were silent all the time.
fn may_pass(error: &KafkaError) -> bool {
    !was_silent(error) && fault_of(error) == Fault::External
}

fn answer(
    element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>,
) -> KafkaResult<(TopicPartition, i64)> {
    element.error()?;
    let at = TopicPartition::new(element.topic(), element.partition());
    match element.offset() {
        Offset::Offset(offset) => Ok((at, offset)),
        Offset::End => Ok((at, LATEST)),
        _ => Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NoOffset)),
    }
}

/// The partitions to read, of those that exist.
fn read_partitions(
    subscription: &Subscription,
    topics: &BTreeMap<String, TopicInfo>,
) -> Vec<TopicPartition> {
    let all = topics.iter().flat_map(|(name, info)| {
        let partitions = info.partitions.iter();
        partitions.map(move |partition| TopicPartition::new(name, *partition))
    });
    match subscription {
        Subscription::Partitions(wanted) => all.filter(|at| wanted.contains(at)).collect(),
        _ => all.collect(),
    }
}
