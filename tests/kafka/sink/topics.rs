//! Topics as other clients see them: made and deleted by an admin client, read to their end by a consumer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const PATIENCE: Duration = Duration::from_secs(60);

/// What a consumer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    Committed,
    Uncommitted,
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
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    more.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    config
}

fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
    client(servers, &[]).create().expect("an admin client")
}

/// Makes a topic with a name nobody else uses.
pub(crate) fn create(
    servers: &str,
    name: &str,
    partitions: i32,
    config: &[(&str, &str)],
) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    let name = format!("{name}-{}-{number}", std::process::id());
    let mut topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    for (key, value) in config {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new()
        .request_timeout(Some(PATIENCE))
        .operation_timeout(Some(PATIENCE));
    let admin = admin(servers);
    for _ in 0..100 {
        let made = futures::executor::block_on(admin.create_topics([&topic], &options));
        match made.expect("the cluster answers").pop().expect("one topic") {
            Ok(_) => {
                wait_for(&admin, &name, partitions);
                return name;
            }
            // A busy machine lets brokers seem dead for a moment.
            Err((_, RDKafkaErrorCode::InvalidReplicationFactor)) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            Err((_, error)) => panic!("topic {name} is not made: {error}"),
        }
    }
    panic!("no broker for topic {name}")
}

/// Waits until the broker tells clients of the topic.
fn wait_for(admin: &AdminClient<DefaultClientContext>, name: &str, partitions: i32) {
    for _ in 0..200 {
        let metadata = admin.inner().fetch_metadata(Some(name), PATIENCE);
        let metadata = metadata.expect("the cluster answers");
        let led = metadata.topics()[0].partitions().iter();
        let led = led.filter(|partition| partition.leader() >= 0).count();
        if i32::try_from(led) == Ok(partitions) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("topic {name} has no leaders")
}

/// Deletes a topic, so that a broker many tests share does not fill up with them.
pub(crate) fn delete(servers: &str, topic: &str) {
    let options = AdminOptions::new();
    let deleted = futures::executor::block_on(admin(servers).delete_topics(&[topic], &options));
    deleted
        .expect("the cluster answers")
        .pop()
        .expect("one topic")
        .expect("the topic is deleted");
}

/// Deletes a consumer group.
pub(crate) fn delete_group(servers: &str, group: &str) {
    let options = AdminOptions::new();
    let deleted = futures::executor::block_on(admin(servers).delete_groups(&[group], &options));
    deleted
        .expect("the cluster answers")
        .pop()
        .expect("one group")
        .expect("the group is deleted");
}

/// Sends values, to all partitions in turn and each partition's in order; returns when the broker has them.
pub(crate) fn produce(servers: &str, topic: &str, values: &[String]) {
    let producer: BaseProducer = client(servers, &[])
        .set("linger.ms", "0")
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer");
    let metadata = producer.client().fetch_metadata(Some(topic), PATIENCE);
    let partitions = metadata.expect("the topic").topics()[0].partitions().len();
    for (row, value) in values.iter().enumerate() {
        let partition = i32::try_from(row % partitions).expect("few partitions");
        let record = BaseRecord::<(), String>::to(topic).payload(value);
        let sent = producer.send(record.partition(partition));
        sent.map_err(|(error, _)| error).expect("there is room");
    }
    producer.flush(PATIENCE).expect("the broker takes them");
}

/// Everything in a topic that a consumer of this isolation gets, by partition and offset.
pub(crate) fn read(servers: &str, topic: &str, isolation: Isolation) -> Vec<Record> {
    read_as(&client(servers, &[]), topic, isolation)
}

/// As [`read`], with a client of these settings.
#[allow(clippy::disallowed_methods, reason = "a deadline for a consumer")]
pub(crate) fn read_as(client: &ClientConfig, topic: &str, isolation: Isolation) -> Vec<Record> {
    let consumer: BaseConsumer = client
        .clone()
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50")
        .set(
            "isolation.level",
            match isolation {
                Isolation::Committed => "read_committed",
                Isolation::Uncommitted => "read_uncommitted",
            },
        )
        .create()
        .expect("a consumer");
    let metadata = consumer
        .fetch_metadata(Some(topic), PATIENCE)
        .expect("the topic");
    let partitions = metadata.topics()[0].partitions().len();
    let mut assigned = TopicPartitionList::new();
    for partition in 0..partitions {
        let partition = i32::try_from(partition).expect("few partitions");
        assigned
            .add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&assigned).expect("assigned");
    let (mut records, mut ended) = (Vec::new(), BTreeMap::new());
    let deadline = std::time::Instant::now() + PATIENCE;
    while ended.len() < partitions {
        assert!(
            std::time::Instant::now() < deadline,
            "topic {topic} has no end"
        );
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                ended.remove(&message.partition());
                records.push(record(&message));
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition, ());
            }
            Some(Err(error)) => panic!("cannot read {topic}: {error}"),
            None => {}
        }
    }
    records.sort();
    records
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

/// The values of a topic's committed messages, sorted.
pub(crate) fn committed_values(servers: &str, topic: &str) -> Vec<String> {
    values(&read(servers, topic, Isolation::Committed))
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
