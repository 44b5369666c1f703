//! What the examples with Kafka need around their query: a broker, a topic with records in it, and a reader of committed records.

#![allow(dead_code, reason = "each example uses a part of it")]

#[path = "../../tests/support/kafka_broker.rs"]
mod kafka_broker;

#[path = "cluster.rs"]
mod cluster;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer};
use weir::prelude::*;

use cluster::{PATIENCE, is_passing, kafka};
use kafka_broker::Broker;

/// A broker: the example's own, which ends with it, or one that is there.
pub(crate) struct Kafka {
    servers: String,
    _own: Option<Broker>,
}

/// One record to send.
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) key: Option<String>,
    pub(crate) value: String,
    /// Unix milliseconds; the time of sending unless given.
    pub(crate) timestamp: Option<i64>,
}

impl Kafka {
    /// The broker that `--bootstrap HOST:PORT` names; without arguments a new one, which takes a second or two to start.
    ///
    /// # Errors
    /// If there are other arguments.
    pub(crate) fn of_arguments() -> Result<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.as_slice() {
            [] => Ok(Self::start()),
            [name, servers] if name == "--bootstrap" => Ok(Self {
                servers: servers.clone(),
                _own: None,
            }),
            _ => Err(WeirError::config(
                "give no argument to start a broker, or --bootstrap HOST:PORT to use one",
            )),
        }
    }

    /// A broker by `scripts/kafka/broker`, in a temporary directory.
    pub(crate) fn start() -> Self {
        println!("starting a broker ...");
        let own = Broker::start();
        Self {
            servers: own.bootstrap().to_owned(),
            _own: Some(own),
        }
    }

    /// `host:port`.
    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    /// Makes a topic that keeps records of any age, with a name of this run's own.
    pub(crate) async fn topic(&self, name: &str, partitions: i32) -> Result<String> {
        let name = format!("{name}-{}", std::process::id());
        cluster::create(&self.servers, &name, partitions).await?;
        Ok(name)
    }

    /// Sends records; returns when the broker has them all.
    pub(crate) fn send(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<()> {
        let producer = cluster::producer(&self.servers, &[])?;
        for record in records {
            let mut message = BaseRecord::<str, str>::to(topic)
                .partition(record.partition)
                .payload(&record.value);
            message.key = record.key.as_deref();
            message.timestamp = record.timestamp;
            producer.send(message).map_err(|(error, _)| kafka(error))?;
        }
        producer.flush(PATIENCE).map_err(kafka)
    }

    /// Keys and values of the committed records of a topic, each partition's in order.
    pub(crate) fn committed(&self, topic: &str) -> Result<Vec<(String, String)>> {
        let partitions = self.partitions(topic)?;
        cluster::wait_until_committed(&self.servers, topic, partitions)?;
        let consumer = cluster::reader(&self.servers, topic, partitions, &[])?;
        let (mut records, mut ended) = (Vec::new(), 0);
        while ended < partitions {
            match consumer.poll(PATIENCE) {
                None => return Err(WeirError::external("the broker sends nothing")),
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                // The client connects again by itself; what it was asked for comes then.
                Some(Err(error)) if is_passing(&error) => {}
                Some(Err(error)) => return Err(kafka(error)),
                Some(Ok(message)) => records.push((text(message.key()), text(message.payload()))),
            }
        }
        Ok(records)
    }

    fn partitions(&self, topic: &str) -> Result<i32> {
        let consumer: BaseConsumer = cluster::reader(&self.servers, topic, 0, &[])?;
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE);
        let partitions = metadata.map_err(kafka)?.topics()[0].partitions().len();
        i32::try_from(partitions).map_err(|_| WeirError::internal("too many partitions"))
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}
