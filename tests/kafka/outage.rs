//! Brokers that go away and come back. These tests have brokers of their own.

use std::sync::Arc;
use std::time::Duration;

use weir::prelude::*;

use crate::kafka_broker::Broker;
use crate::support::{Kafka, LONG, Reading, Warnings, numbers, texts, warnings};

#[tokio::test]
async fn p098_rows_flow_again_after_the_broker_was_stopped_and_killed() {
    let broker = Broker::start();
    let kafka = Kafka::at(broker.bootstrap());
    let topic = kafka.topic("p098", 2).await;
    let spread = |from: i64| -> Vec<_> {
        let records = (0..).zip(numbers(from, from + 100));
        records.map(|(n, record)| record.to(n % 2)).collect()
    };
    kafka.send(&topic, &spread(0)).await;
    let warnings = warnings();
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 100).await;
    broker.stop(1);
    // Noticed when a question has gone unanswered for long enough, which it may do several times.
    let seen = || {
        query
            .status()
            .message
            .starts_with("Source unavailable: KafkaV2[Subscribe[")
    };
    for _ in 0..LONG.as_millis() / 100 {
        if seen() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(seen(), "{}", query.status().message);
    // WEIR_OUTAGE_SECONDS=90 for the length users reported.
    let seconds = std::env::var("WEIR_OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(5))).await;
    assert!(query.is_active(), "{:?}", query.exception());
    assert!(seen(), "{}", query.status().message);
    broker.restart(1);
    kafka.send(&topic, &spread(100)).await;
    reading.wait_for_rows(&query, 200).await;
    broker.kill(1);
    broker.restart(1);
    kafka.send(&topic, &spread(200)).await;
    reading.wait_for_rows(&query, 300).await;
    assert_eq!(reading.numbers(), (0..300).collect::<Vec<_>>());
    assert!(!query.status().message.starts_with("Source unavailable"));
    assert!(
        !warnings
            .matching(&["the source is unavailable", &topic])
            .is_empty()
    );
    query.stop().await;
}

#[tokio::test]
async fn p098_a_broker_that_is_killed_in_the_middle_of_an_epoch_loses_nothing() {
    let broker = Broker::start();
    let kafka = Kafka::at(broker.bootstrap());
    let topic = kafka.topic("p098-middle", 2).await;
    let records = (0..).zip(numbers(0, 40_000));
    let records: Vec<_> = records
        .map(|(n, mut record)| {
            record.key = Some(vec![b'k'; 500]);
            record.to(n % 2)
        })
        .collect();
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic)
        .option("maxOffsetsPerTrigger", 4000)
        // Little is fetched ahead, so that most is still to be fetched when the broker dies.
        .option("kafka.queued.max.messages.kbytes", 256)
        .option("kafka.max.partition.fetch.bytes", 65_536)
        .slow_sink(Duration::from_millis(100));
    let query = reading.start(Trigger::AvailableNow).await.unwrap();
    for _ in 0..200 {
        if reading.rows().len() >= 4000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    broker.kill(1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    broker.restart(1);
    query.await_termination().await.unwrap();
    assert_eq!(reading.numbers(), (0..40_000).collect::<Vec<_>>());
}

/// Records of the topic of a [`Held`] query.
const HELD: i64 = 60_000;

/// A query whose broker is held in the middle of its one epoch, while most records are still to be fetched.
struct Held {
    broker: Broker,
    reading: Reading,
    query: StreamingQuery,
    topic: String,
    warnings: Warnings,
}

impl Held {
    async fn with_patience(poll_timeout_ms: u64) -> Self {
        let broker = Broker::start();
        let kafka = Kafka::at(broker.bootstrap());
        let topic = kafka.topic("held", 1).await;
        let mut records = numbers(0, HELD);
        for record in &mut records {
            record.key = Some(vec![b'k'; 1000]);
        }
        kafka.send(&topic, &records).await;
        let warnings = warnings();
        let reading = Reading::of(&kafka, &topic)
            .option("kafkaConsumer.pollTimeoutMs", poll_timeout_ms)
            .option("kafka.queued.max.messages.kbytes", 256)
            .option("kafka.max.partition.fetch.bytes", 65_536);
        let query = reading.start(Trigger::AvailableNow).await.unwrap();
        let under_way = || query.metrics().edges().iter().any(|edge| edge.rows > 0);
        for _ in 0..LONG.as_millis() / 5 {
            if under_way() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        broker.pause(1);
        Self {
            broker,
            reading,
            query,
            topic,
            warnings,
        }
    }

    /// Waits until it is warned of that, then lets the broker go on.
    async fn resume_after(&self, warning: &str) {
        let texts = [warning, &self.topic];
        for _ in 0..LONG.as_millis() / 100 {
            if !self.warnings.matching(&texts).is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.broker.resume(1);
        let said = self.warnings.matching(&texts);
        assert!(!said.is_empty(), "{:?}", self.query.status());
    }

    fn assert_read_once(&self) {
        assert_eq!(self.reading.numbers(), (0..HELD).collect::<Vec<_>>());
        assert_eq!(self.reading.epochs().len(), 1);
    }
}

#[tokio::test]
async fn p098_a_client_that_hears_nothing_for_long_is_made_anew_and_reads_on_where_it_was() {
    let held = Held::with_patience(120_000).await;
    held.resume_after("is made anew").await;
    held.query.await_termination().await.unwrap();
    held.assert_read_once();
}

#[tokio::test]
async fn patience_of_readers_ends_with_the_place_and_the_epoch_is_read_again() {
    let held = Held::with_patience(2_000).await;
    held.resume_after("ms although it reaches to 60000 (kafkaConsumer.pollTimeoutMs)")
        .await;
    // By itself, or, if its attempts were used up, by the next start.
    if let Err(error) = held.query.await_termination().await {
        assert_eq!(error.fault(), weir::Fault::External, "{error:?}");
        held.reading.run().await.unwrap();
    }
    held.assert_read_once();
}

#[tokio::test]
async fn patience_with_silent_brokers_is_bounded_and_the_error_names_the_cause() {
    let broker = Broker::start();
    let kafka = Kafka::at(broker.bootstrap());
    let topic = kafka.topic("patience", 1).await;
    kafka.send(&topic, &numbers(0, 1)).await;
    let reading = Reading::of(&kafka, &topic).option("kafkaConsumer.pollTimeoutMs", 2000);
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 1).await;
    broker.kill(1);
    let ended = query
        .await_termination_timeout(Duration::from_secs(90))
        .await;
    let error = ended.unwrap_err();
    assert_eq!(error.fault(), weir::Fault::External, "{error:?}");
    assert!(error.message().contains(broker.bootstrap()), "{error}");
    // The checkpoint is in order: with the broker the query goes on.
    broker.restart(1);
    kafka.send(&topic, &numbers(1, 3)).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(0, 3));
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_an_error_at_the_start() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("nowhere", 1).await;
    let reading = Reading::of(&kafka, &topic)
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafkaConsumer.pollTimeoutMs", 1000)
        .option("fetchOffset.numRetries", 0);
    let error = reading.run().await.unwrap_err();
    assert!(error.message().contains("127.0.0.1:1"), "{error}");
    assert!(
        error.message().contains("Connect"),
        "the client's own report: {error}"
    );
}

#[tokio::test]
async fn leaders_that_move_to_other_brokers_are_followed() {
    let broker = Broker::start_three();
    let kafka = Kafka::at(broker.bootstrap());
    let topic = Kafka::name("leaders");
    kafka
        .create_replicated(&topic, 3, 3, &[("min.insync.replicas", "1")])
        .await;
    let spread = |from: i64| -> Vec<_> {
        let records = (0..).zip(numbers(from, from + 300));
        records.map(|(n, record)| record.to(n % 3)).collect()
    };
    kafka.send(&topic, &spread(0)).await;
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 300).await;
    broker.stop(2);
    kafka.send(&topic, &spread(300)).await;
    reading.wait_for_rows(&query, 600).await;
    broker.restart(2);
    broker.kill(3);
    kafka.send(&topic, &spread(600)).await;
    reading.wait_for_rows(&query, 900).await;
    assert_eq!(reading.numbers(), (0..900).collect::<Vec<_>>());
    query.stop().await;
}

#[tokio::test]
async fn offsets_that_nobody_tells_are_asked_for_again_as_often_and_as_late_as_was_said() {
    let broker = Arc::new(Broker::start_three());
    let kafka = Kafka::at(broker.bootstrap());
    let topic = Kafka::name("retries");
    // Each broker leads one partition, and nobody else has it: while broker 2 is away, nobody tells where its partition ends.
    kafka.create_replicated(&topic, 3, 1, &[]).await;
    let records = (0..).zip(numbers(0, 30));
    let records: Vec<_> = records.map(|(n, record)| record.to(n % 3)).collect();
    kafka.send(&topic, &records).await;
    broker.stop(2);
    let reading = |retries: u32, interval_ms: u32| {
        Reading::of(&kafka, &topic)
            .option("fetchOffset.numRetries", retries)
            .option("fetchOffset.retryIntervalMs", interval_ms)
    };
    #[allow(clippy::disallowed_methods, reason = "real waits are measured")]
    let began = std::time::Instant::now();
    let error = reading(2, 1500).run().await.unwrap_err();
    assert!(error.message().contains("offsets"), "{error}");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(3000), "two waits: {took:?}");
    let back = Arc::clone(&broker);
    let back = tokio::task::spawn_blocking(move || back.restart(2));
    let patient = reading(12, 4000);
    patient.run().await.unwrap();
    back.await.unwrap();
    assert_eq!(patient.numbers(), (0..30).collect::<Vec<_>>());
}
