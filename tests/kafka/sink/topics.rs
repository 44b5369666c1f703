//! Topics as other clients see them: made and deleted by an administrator, read to their end by a consumer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::support::{self, Kafka, LONG};

/// What a consumer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// What is committed, once no transaction is open any more: brokers say that a transaction is committed a moment before they
    /// say so in the partitions it has written to, and until then the topic seems to end before it.
    Committed,
    /// What is committed by now; transactions may be open.
    CommittedSoFar,
    /// Everything.
    Uncommitted,
}

impl Isolation {
    fn level(self) -> &'static str {
        match self {
            Self::Committed | Self::CommittedSoFar => "read_committed",
            Self::Uncommitted => "read_uncommitted",
        }
    }
}

/// A message as it stands in a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    pub(crate) fn key(&self) -> Option<String> {
        self.key.as_deref().map(text)
    }

    pub(crate) fn value(&self) -> Option<String> {
        self.value.as_deref().map(text)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A client of the cluster of these servers, with more settings if it is secured.
pub(crate) fn client(servers: &str, more: &[(&str, &str)]) -> ClientConfig {
    let mut config = support::config(servers);
    more.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    config
}

/// Makes a topic with a name nobody else uses.
pub(crate) fn create(
    servers: &str,
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> String {
    let name = Kafka::name(name);
    block_on(Kafka::known(servers).create(&name, partitions, settings));
    name
}

/// Deletes a topic, so that a broker many tests share does not fill up with them.
pub(crate) fn delete(servers: &str, topic: &str) {
    block_on(Kafka::known(servers).delete(topic));
}

/// Deletes a consumer group.
pub(crate) fn delete_group(servers: &str, group: &str) {
    block_on(Kafka::known(servers).delete_group(group));
}

/// Everything in a topic that a consumer of this isolation gets, by partition and offset.
pub(crate) fn read(servers: &str, topic: &str, isolation: Isolation) -> Vec<Record> {
    read_as(&client(servers, &[]), topic, isolation)
}

/// As [`read`], with a client of these settings.
pub(crate) fn read_as(client: &ClientConfig, topic: &str, isolation: Isolation) -> Vec<Record> {
    let consumer = consumer(client, isolation.level());
    let metadata = consumer
        .fetch_metadata(Some(topic), LONG)
        .expect("the topic");
    let partitions = 0..i32::try_from(metadata.topics()[0].partitions().len()).expect("few");
    if isolation == Isolation::Committed {
        wait_until_nothing_is_open(client, &consumer, topic, partitions.clone());
    }
    let mut assigned = TopicPartitionList::new();
    for partition in partitions.clone() {
        let element = assigned.add_partition_offset(topic, partition, Offset::Beginning);
        element.expect("an offset");
    }
    consumer.assign(&assigned).expect("assigned");
    let (mut records, mut ended) = (Vec::new(), BTreeSet::new());
    let deadline = Deadline::new();
    while ended.len() < partitions.len() {
        deadline.check(|| format!("topic {topic} has no end"));
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                ended.remove(&message.partition());
                records.push(record(&message));
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Err(error)) => panic!("cannot read {topic}: {error}"),
            None => {}
        }
    }
    records.sort();
    records
}

fn consumer(client: &ClientConfig, isolation: &str) -> BaseConsumer {
    let mut config = client.clone();
    config
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50")
        .set("isolation.level", isolation);
    config.create().expect("a consumer")
}

/// Waits until the partitions end for readers of committed messages where they end for all.
fn wait_until_nothing_is_open(
    client: &ClientConfig,
    committed: &BaseConsumer,
    topic: &str,
    partitions: std::ops::Range<i32>,
) {
    let all = consumer(client, Isolation::Uncommitted.level());
    let end = |consumer: &BaseConsumer, partition| {
        let (_, end) = consumer
            .fetch_watermarks(topic, partition, LONG)
            .expect("an end");
        end
    };
    let deadline = Deadline::new();
    for partition in partitions {
        while end(committed, partition) < end(&all, partition) {
            deadline.check(|| format!("a transaction stays open in {topic}-{partition}"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The end of the longest wait.
struct Deadline(Instant);

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "a deadline for a consumer")]
    fn new() -> Self {
        Self(Instant::now() + LONG)
    }

    #[allow(clippy::disallowed_methods, reason = "a deadline for a consumer")]
    fn check(&self, what: impl Fn() -> String) {
        assert!(Instant::now() < self.0, "{}", what());
    }
}

fn record(message: &impl Message) -> Record {
    let headers = message.headers().into_iter().flat_map(|headers| {
        headers.iter().map(|header| {
            let value = header.value.map(<[u8]>::to_vec);
            (header.key.to_owned(), value)
        })
    });
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.collect(),
    }
}

/// The values of a topic's committed messages, sorted. No transaction may stay open.
pub(crate) fn committed_values(servers: &str, topic: &str) -> Vec<String> {
    values(&read(servers, topic, Isolation::Committed))
}

/// The values of the messages that are committed by now, sorted.
pub(crate) fn values_so_far(servers: &str, topic: &str) -> Vec<String> {
    values(&read(servers, topic, Isolation::CommittedSoFar))
}

/// The values, sorted; a null is `null`.
pub(crate) fn values(records: &[Record]) -> Vec<String> {
    let values = records
        .iter()
        .map(|record| record.value().unwrap_or("null".to_owned()));
    let mut values: Vec<String> = values.collect();
    values.sort();
    values
}
