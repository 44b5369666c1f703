//! A cluster as administrators, producers and readers see it.

#![allow(dead_code, reason = "each example uses a part of it")]

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::BaseProducer;
use rdkafka::{Offset, TopicPartitionList};
use weir::prelude::*;

/// Longest wait for anything a broker does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn config(servers: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

/// An administrator, and how long it waits.
pub(crate) fn admin(servers: &str) -> Result<(AdminClient<DefaultClientContext>, AdminOptions)> {
    let options = AdminOptions::new()
        .operation_timeout(Some(PATIENCE))
        .request_timeout(Some(PATIENCE));
    Ok((config(servers, &[]).create().map_err(kafka)?, options))
}

/// Makes a topic that keeps records of any age. False if it was there.
pub(crate) async fn create(servers: &str, name: &str, partitions: i32) -> Result<bool> {
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let topic = topic.set("retention.ms", "-1");
    let (admin, options) = admin(servers)?;
    let made = admin.create_topics([&topic], &options).await;
    match made.map_err(kafka)?.pop() {
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
        Some(Err((_, code))) => Err(kafka(KafkaError::AdminOp(code))),
        _ => Ok(true),
    }
}

/// A producer that writes each record once; `settings` go before its own.
pub(crate) fn producer(servers: &str, settings: &[(&str, &str)]) -> Result<BaseProducer> {
    let own = [
        ("enable.idempotence", "true"),
        // A broker that has just become the leader of a partition may refuse one request and take the next, which vouches for both.
        ("max.in.flight.requests.per.connection", "1"),
    ];
    config(servers, &[&own[..], settings].concat())
        .create()
        .map_err(kafka)
}

/// A consumer of committed records that stands at the beginning of all partitions.
pub(crate) fn reader(
    servers: &str,
    topic: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> Result<BaseConsumer> {
    let own = [
        ("group.id", "weir-examples"),
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
        ("enable.partition.eof", "true"),
    ];
    let consumer: BaseConsumer = config(servers, &[&own[..], settings].concat())
        .create()
        .map_err(kafka)?;
    let mut from = TopicPartitionList::new();
    for partition in 0..partitions {
        let added = from.add_partition_offset(topic, partition, Offset::Beginning);
        added.map_err(kafka)?;
    }
    consumer.assign(&from).map_err(kafka)?;
    Ok(consumer)
}

/// Waits until readers of committed records see everything: brokers say that a transaction is committed a moment before they say so
/// in the partitions it has written to.
pub(crate) fn wait_until_committed(servers: &str, topic: &str, partitions: i32) -> Result<()> {
    let ends_for = |isolation| -> Result<i64> {
        let consumer: BaseConsumer = config(servers, &[("isolation.level", isolation)])
            .create()
            .map_err(kafka)?;
        let ends = (0..partitions).map(|partition| {
            let bounds = consumer.fetch_watermarks(topic, partition, PATIENCE);
            bounds.map(|(_, end)| end).map_err(kafka)
        });
        ends.sum()
    };
    let all = ends_for("read_uncommitted")?;
    for _ in 0..600 {
        if ends_for("read_committed")? >= all {
            return Ok(());
        }
        std::thread::sleep(PATIENCE / 600);
    }
    Err(WeirError::external(format!(
        "a transaction stays open in topic '{topic}'"
    )))
}

/// The client connects again by itself; what it was asked for comes then.
pub(crate) fn is_passing(error: &KafkaError) -> bool {
    let passing = [
        RDKafkaErrorCode::AllBrokersDown,
        RDKafkaErrorCode::BrokerTransportFailure,
    ];
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| passing.contains(&code))
}

/// An error of the client library as one of the engine.
pub(crate) fn kafka(error: KafkaError) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
