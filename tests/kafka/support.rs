//! Topics, records and queries for the tests.
#![allow(dead_code, reason = "themes use different parts")]

mod stranger;
mod warnings;

pub(crate) use stranger::Stranger;
pub(crate) use warnings::warnings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::TopicPartitionList;
use tempfile::TempDir;
use weir::prelude::*;
use weir::runtime::FailPoints;

use crate::kafka_broker::Broker;

/// Longest wait for anything a broker does.
pub(crate) const LONG: Duration = Duration::from_secs(60);

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

/// A cluster as administrators and producers see it.
pub(crate) struct Kafka {
    pub(crate) bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    producer: FutureProducer,
}

impl Kafka {
    /// Clients of the broker that the tests of this process share.
    pub(crate) fn shared() -> Self {
        Self::at(Broker::shared().bootstrap())
    }

    pub(crate) fn at(bootstrap: &str) -> Self {
        let mut config = config(bootstrap);
        config
            .set("message.max.bytes", "20000000")
            .set("linger.ms", "0");
        Self {
            bootstrap: bootstrap.to_owned(),
            admin: config.create().unwrap(),
            producer: config.create().unwrap(),
        }
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
        self.wait_for(name, |partitions_now| {
            partitions_now == Some(partitions as usize)
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
        self.wait_for(name, |partitions| partitions.is_none()).await;
    }

    pub(crate) async fn grow(&self, name: &str, partitions: usize) {
        let more = NewPartitions::new(name, partitions);
        let made = self
            .admin
            .create_partitions([&more], &options())
            .await
            .unwrap();
        made[0].as_ref().unwrap();
        self.wait_for(name, |now| now == Some(partitions)).await;
    }

    /// Waits until the brokers say what they were told.
    async fn wait_for(&self, name: &str, is_so: impl Fn(Option<usize>) -> bool) {
        for _ in 0..200 {
            // All topics are asked for: asking for one by its name may create it.
            let all = self.admin.inner().fetch_metadata(None, LONG).unwrap();
            let topic = all.topics().iter().find(|topic| topic.name() == name);
            if is_so(topic.map(|topic| topic.partitions().len())) {
                // The producer is to know as well.
                let client = self.producer.client();
                let _known = client.fetch_metadata(Some(name), LONG).is_ok();
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the brokers did not learn about topic {name}");
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
        for _ in 0..6 {
            let _known = self.admin.inner().fetch_metadata(None, LONG).is_ok();
            match act().await {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the brokers do not do it: {last:?}");
    }

    /// Where a partition begins and ends.
    pub(crate) fn watermarks(&self, name: &str, partition: i32) -> (i64, i64) {
        let client = self.producer.client();
        client.fetch_watermarks(name, partition, LONG).unwrap()
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
                self.producer
                    .send_result(message)
                    .map_err(|(error, _)| error)
                    .unwrap(),
            );
        }
        for sent in sent {
            sent.await.unwrap().map_err(|(error, _)| error).unwrap();
        }
    }

    /// A producer of transactions.
    pub(crate) fn transactional(&self, id: &str) -> BaseProducer {
        let mut config = config(&self.bootstrap);
        config.set("transactional.id", id).set("linger.ms", "0");
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

/// A directory that goes away with the test.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

pub(crate) fn session() -> Session {
    Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .build()
        .unwrap()
}

/// A record as it came out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) value: Option<String>,
}

/// Rows of the source's columns.
pub(crate) fn seen(batches: &[RecordBatch]) -> Vec<Seen> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |name| -> &ArrayRef { batch.column_by_name(name).unwrap() };
        let topics = column("topic").as_string::<i32>();
        let partitions = column("partition").as_primitive::<Int32Type>();
        let offsets = column("offset").as_primitive::<Int64Type>();
        let values = column("value").as_binary::<i32>();
        for row in 0..batch.num_rows() {
            let value = values.is_valid(row).then(|| values.value(row));
            rows.push(Seen {
                topic: topics.value(row).to_owned(),
                partition: partitions.value(row),
                offset: offsets.value(row),
                value: value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            });
        }
    }
    rows
}

/// Rows of each epoch; a replay takes the place of what it repeats.
pub(crate) type Epochs = BTreeMap<u64, Vec<Seen>>;

/// A query over topics that remembers its rows by epoch, over restarts too.
pub(crate) struct Reading {
    pub(crate) session: Session,
    home: Home,
    options: HashMap<String, String>,
    epochs: Arc<Mutex<Epochs>>,
    sink_pause: Duration,
    failpoints: Arc<FailPoints>,
}

impl Reading {
    /// From the earliest offsets.
    pub(crate) fn of(kafka: &Kafka, topic: &str) -> Self {
        Self::bare(kafka)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
    }

    /// Without any topics.
    pub(crate) fn bare(kafka: &Kafka) -> Self {
        Self {
            session: session(),
            home: Home::new(),
            options: HashMap::from([(
                "kafka.bootstrap.servers".to_owned(),
                kafka.bootstrap.clone(),
            )]),
            epochs: Arc::default(),
            sink_pause: Duration::ZERO,
            failpoints: Arc::default(),
        }
    }

    /// The same query with other fault points.
    pub(crate) fn with_failpoints(mut self, failpoints: &Arc<FailPoints>) -> Self {
        self.failpoints = Arc::clone(failpoints);
        self
    }

    pub(crate) fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.options.insert(name.to_owned(), value.to_string());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.options.remove(name);
    }

    /// Every epoch takes so long to write.
    pub(crate) fn slow_sink(mut self, pause: Duration) -> Self {
        self.sink_pause = pause;
        self
    }

    pub(crate) fn frame(&self) -> Result<DataFrame> {
        let reader = self.session.read_stream().format("kafka");
        reader.options(self.options.clone()).open()
    }

    pub(crate) fn checkpoint(&self) -> String {
        self.home.text("checkpoint")
    }

    /// Starts, or starts again.
    pub(crate) async fn start(&self, trigger: Trigger) -> Result<StreamingQuery> {
        self.start_frame(self.frame()?, trigger).await
    }

    pub(crate) async fn start_frame(
        &self,
        frame: DataFrame,
        trigger: Trigger,
    ) -> Result<StreamingQuery> {
        let (epochs, pause) = (Arc::clone(&self.epochs), self.sink_pause);
        frame
            .write_stream()
            .trigger(trigger)
            .checkpoint(&self.checkpoint())
            .engine(QueryConfig {
                failpoints: Arc::clone(&self.failpoints),
                parallelism: 2,
                ..QueryConfig::default()
            })
            .foreach_batch(move |frame, epoch| {
                let epochs = Arc::clone(&epochs);
                async move {
                    let rows = seen(&frame.collect().await?);
                    tokio::time::sleep(pause).await;
                    epochs.lock().unwrap().insert(epoch, rows);
                    Ok(())
                }
            })
            .start()
            .await
    }

    /// Reads everything there is.
    pub(crate) async fn run(&self) -> Result<StreamingQuery> {
        let query = self.start(Trigger::AvailableNow).await?;
        query.await_termination().await?;
        Ok(query)
    }

    pub(crate) fn epochs(&self) -> Epochs {
        self.epochs.lock().unwrap().clone()
    }

    /// Rows of all epochs, in order of partition and offset.
    pub(crate) fn rows(&self) -> Vec<Seen> {
        let mut rows: Vec<Seen> = self.epochs().into_values().flatten().collect();
        rows.sort();
        rows
    }

    /// Values of all rows, in the same order.
    pub(crate) fn values(&self) -> Vec<String> {
        let rows = self.rows().into_iter();
        rows.map(|row| row.value.unwrap_or_else(|| "NULL".to_owned()))
            .collect()
    }

    /// Waits until there are so many rows.
    pub(crate) async fn wait_for_rows(&self, query: &StreamingQuery, count: usize) {
        for _ in 0..LONG.as_millis() / 20 {
            let rows = self.rows().len();
            assert!(rows <= count, "{rows} rows, more than {count}");
            if rows == count {
                return;
            }
            if let Some(error) = query.exception() {
                panic!("the query ended with {} of {count} rows: {error:?}", rows);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "only {} of {count} rows came; status: {:?}",
            self.rows().len(),
            query.status()
        );
    }
}

/// Texts of numbers `from..to`.
pub(crate) fn texts(from: i64, to: i64) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

/// The same texts as a set, for rows whose order does not matter.
pub(crate) fn set(texts: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    texts.into_iter().collect()
}

/// The last progress that read rows.
pub(crate) fn last_with_rows(query: &StreamingQuery) -> QueryProgress {
    let all = query.recent_progress().into_iter();
    all.rev()
        .find(|progress| progress.num_input_rows > 0)
        .expect("an epoch with rows")
}
