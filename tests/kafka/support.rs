//! Topics, records and queries for the tests.
#![allow(dead_code, reason = "themes use different parts")]

mod reading;
mod stranger;
mod warnings;

pub(crate) use reading::{Home, Reading, last_with_rows, seen, session};
pub(crate) use stranger::Stranger;
pub(crate) use warnings::{Warnings, warnings};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::TopicPartitionList;
use weir::prelude::*;

use crate::kafka_broker::Broker;

/// Longest wait for anything a broker does.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Time between two looks at what a broker does.
const PAUSE: Duration = Duration::from_millis(50);

/// A record to send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, Option<&'static str>)>,
    pub(crate) timestamp: Option<i64>,
}

/// A record with a value, for partition 0.
pub(crate) fn value(text: impl Into<String>) -> Record {
    Record {
        value: Some(text.into().into_bytes()),
        ..Record::default()
    }
}

impl Record {
    pub(crate) fn to(self, partition: i32) -> Self {
        Self { partition, ..self }
    }

    pub(crate) fn key(self, key: &str) -> Self {
        let key = Some(key.as_bytes().to_vec());
        Self { key, ..self }
    }

    pub(crate) fn at_ms(self, ms: i64) -> Self {
        Self {
            timestamp: Some(ms),
            ..self
        }
    }
}

/// Numbered values `from..to`.
pub(crate) fn numbers(from: i64, to: i64) -> Vec<Record> {
    (from..to).map(|number| value(number.to_string())).collect()
}

/// A cluster as administrators and producers see it. Its futures need no runtime.
pub(crate) struct Kafka {
    pub(crate) bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    /// Made when something is sent.
    producer: OnceLock<FutureProducer>,
}

impl Kafka {
    /// Clients of the broker that the tests of this process share.
    pub(crate) fn shared() -> Self {
        Self::at(Broker::shared().bootstrap())
    }

    pub(crate) fn at(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
            admin: config(bootstrap).create().unwrap(),
            producer: OnceLock::new(),
        }
    }

    /// Clients that all tests share which speak to these brokers; making new ones takes longer than most of what they do.
    pub(crate) fn known(bootstrap: &str) -> Arc<Self> {
        static KNOWN: Mutex<BTreeMap<String, Arc<Kafka>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Self::at(bootstrap));
        Arc::clone(known.entry(bootstrap.to_owned()).or_insert_with(made))
    }

    fn producer(&self) -> &FutureProducer {
        self.producer.get_or_init(|| {
            let mut config = config(&self.bootstrap);
            config
                .set("message.max.bytes", "20000000")
                .set("linger.ms", "0")
                .set("enable.idempotence", "true")
                // A leader that does not know it yet refuses the first request and takes the second, which would vouch for both.
                .set("max.in.flight.requests.per.connection", "1");
            config.create().unwrap()
        })
    }

    /// A name nobody else uses.
    pub(crate) fn name(what: &str) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        format!("{what}-{}", NUMBER.fetch_add(1, Ordering::SeqCst))
    }

    /// A new topic with a name of its own that keeps records of any age.
    pub(crate) async fn topic(&self, what: &str, partitions: i32) -> String {
        let name = Self::name(what);
        self.create(&name, partitions, &[("retention.ms", "-1")])
            .await;
        name
    }

    pub(crate) async fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        self.create_replicated(name, partitions, 1, settings).await;
    }

    pub(crate) async fn create_replicated(
        &self,
        name: &str,
        partitions: i32,
        replicas: i32,
        settings: &[(&str, &str)],
    ) {
        self.order(name, partitions, replicas, settings).await;
        self.wait_for(name, |partitions_now| {
            partitions_now == Some(partitions as usize)
        });
    }

    /// Has a topic made, and does not wait until it is there.
    pub(crate) async fn order(
        &self,
        name: &str,
        partitions: i32,
        replicas: i32,
        settings: &[(&str, &str)],
    ) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        self.administer(async || {
            let made = self.admin.create_topics([&topic], &options()).await?;
            match made[0] {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
                Err((_, code)) => Err(KafkaError::AdminOp(code)),
            }
        })
        .await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.administer(async || {
            let gone = self.admin.delete_topics(&[name], &options()).await?;
            match gone[0] {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => Ok(()),
                Err((_, code)) => Err(KafkaError::AdminOp(code)),
            }
        })
        .await;
        self.wait_for(name, |partitions| partitions.is_none());
    }

    pub(crate) async fn grow(&self, name: &str, partitions: usize) {
        let more = NewPartitions::new(name, partitions);
        let made = self
            .admin
            .create_partitions([&more], &options())
            .await
            .unwrap();
        made[0].as_ref().unwrap();
        self.wait_for(name, |now| now == Some(partitions));
    }

    /// Waits until the brokers say what they were told: of a topic, how many of its partitions have a leader.
    fn wait_for(&self, name: &str, is_so: impl Fn(Option<usize>) -> bool) {
        let led = |topic: &MetadataTopic| {
            let partitions = topic.partitions().iter();
            partitions
                .filter(|partition| partition.leader() >= 0)
                .count()
        };
        for _ in 0..200 {
            // All topics are asked for: asking for one by its name may create it.
            let all = self.admin.inner().fetch_metadata(None, LONG).unwrap();
            let topic = all.topics().iter().find(|topic| topic.name() == name);
            if is_so(topic.map(led)) {
                // The producer is to know as well.
                if let Some(producer) = self.producer.get() {
                    let _known = producer.client().fetch_metadata(Some(name), LONG).is_ok();
                }
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the brokers did not learn about topic {name}");
    }

    /// Deletes a consumer group.
    pub(crate) async fn delete_group(&self, group: &str) {
        self.administer(async || {
            let gone = self.admin.delete_groups(&[group], &options()).await?;
            match gone[0] {
                Ok(_) | Err((_, RDKafkaErrorCode::GroupIdNotFound)) => Ok(()),
                Err((_, code)) => Err(KafkaError::AdminOp(code)),
            }
        })
        .await;
    }

    /// Deletes the records of a partition before an offset.
    pub(crate) async fn expire(&self, name: &str, partition: i32, before: i64) {
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset(name, partition, rdkafka::Offset::Offset(before))
            .unwrap();
        self.administer(async || {
            let done = self.admin.delete_records(&offsets, &options()).await?;
            done.elements()[0].error()
        })
        .await;
    }

    /// Does what can be repeated until it is done: the client asks the broker it takes for the controller, which may be another one by
    /// now.
    async fn administer(&self, act: impl AsyncFn() -> KafkaResult<()>) {
        let mut last = None;
        for _ in 0..20 {
            let _known = self.admin.inner().fetch_metadata(None, LONG).is_ok();
            match act().await {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
            std::thread::sleep(4 * PAUSE);
        }
        panic!("the brokers do not do it: {last:?}");
    }

    /// Where a partition begins and ends.
    pub(crate) fn watermarks(&self, name: &str, partition: i32) -> (i64, i64) {
        let client = self.admin.inner();
        client.fetch_watermarks(name, partition, LONG).unwrap()
    }

    /// The rows of a topic from its beginning, as a stream.
    pub(crate) fn stream(&self, session: &Session, topic: &str) -> DataFrame {
        session
            .read_stream()
            .format("kafka")
            .option("kafka.bootstrap.servers", &self.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .open()
            .unwrap()
    }

    /// Sends records, each partition's in order; returns when all are there.
    pub(crate) async fn send(&self, topic: &str, records: &[Record]) {
        let mut sent = Vec::with_capacity(records.len());
        for record in records {
            let mut message = FutureRecord::<[u8], [u8]>::to(topic).partition(record.partition);
            message.key = record.key.as_deref();
            message.payload = record.value.as_deref();
            message.timestamp = record.timestamp;
            message.headers = headers(record);
            sent.push(
                self.producer()
                    .send_result(message)
                    .map_err(|(error, _)| error)
                    .unwrap(),
            );
        }
        for sent in sent {
            let delivery = sent.await.unwrap().map_err(|(error, _)| error).unwrap();
            assert!(delivery.offset >= 0, "nobody knows where it is");
        }
    }

    /// A producer of transactions.
    pub(crate) fn transactional(&self, id: &str) -> BaseProducer {
        let mut config = config(&self.bootstrap);
        config
            .set("transactional.id", id)
            .set("linger.ms", "0")
            .set("max.in.flight.requests.per.connection", "1");
        let producer: BaseProducer = config.create().unwrap();
        producer.init_transactions(LONG).unwrap();
        producer
    }
}

fn headers(record: &Record) -> Option<OwnedHeaders> {
    if record.headers.is_empty() {
        return None;
    }
    let all = record.headers.iter();
    Some(all.fold(OwnedHeaders::new(), |headers, (key, value)| {
        let value = value.map(str::as_bytes);
        headers.insert(Header { key, value })
    }))
}

pub(crate) fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .operation_timeout(Some(LONG / 4))
        .request_timeout(Some(LONG / 4))
}

/// Texts of numbers `from..to`.
pub(crate) fn texts(from: i64, to: i64) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

/// The same texts as a set, for rows whose order does not matter.
pub(crate) fn set(texts: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    texts.into_iter().collect()
}
