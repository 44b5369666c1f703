//! Offsets that are no records: markers of transactions, aborted records, what compaction took away.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use weir::prelude::*;

use crate::support::{Kafka, LONG, Reading, config, last_with_rows, numbers, value};

fn add(producer: &BaseProducer, topic: &str, values: &[&str]) {
    for text in values {
        let record = BaseRecord::<(), str>::to(topic).partition(0).payload(text);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(LONG).unwrap();
}

fn transaction(producer: &BaseProducer, topic: &str, values: &[&str], commit: bool) {
    producer.begin_transaction().unwrap();
    add(producer, topic, values);
    match commit {
        true => producer.commit_transaction(LONG).unwrap(),
        false => producer.abort_transaction(LONG).unwrap(),
    }
}

#[tokio::test]
async fn p092_markers_and_aborted_records_are_neither_rows_nor_losses() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p092", 1).await;
    let producer = kafka.transactional(&topic);
    transaction(&producer, &topic, &["c1", "c2", "c3"], true);
    transaction(&producer, &topic, &["x1", "x2"], false);
    kafka.send(&topic, &[value("d1")]).await;
    transaction(&producer, &topic, &["x3"], false);
    let reading = Reading::of(&kafka, &topic);
    let query = reading.run().await.unwrap();
    assert_eq!(reading.values(), ["c1", "c2", "c3", "d1"]);
    let source = last_with_rows(&query).sources[0].clone();
    assert_eq!(source.metrics["maxOffsetsBehindLatest"], "0");
    let (_, end) = kafka.watermarks(&topic, 0);
    let end = format!("{{\"{topic}\":{{\"0\":{end}}}}}");
    assert_eq!(
        source.end_offset.as_deref(),
        Some(end.as_str()),
        "past the last marker"
    );
    reading.run().await.unwrap();
    assert_eq!(reading.epochs().len(), 1, "nothing new is no epoch");
    kafka.send(&topic, &[value("e1")]).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["c1", "c2", "c3", "d1", "e1"]);
    let uncommitted =
        Reading::of(&kafka, &topic).option("kafka.isolation.level", "read_uncommitted");
    uncommitted.run().await.unwrap();
    assert_eq!(
        uncommitted.values(),
        ["c1", "c2", "c3", "x1", "x2", "d1", "x3", "e1"]
    );
}

#[tokio::test]
async fn p092_epochs_that_end_in_the_middle_of_gaps_go_on() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p092-cut", 1).await;
    let producer = kafka.transactional(&topic);
    let mut expected = Vec::new();
    for round in 0..6 {
        let texts: Vec<String> = (0..3).map(|n| format!("{round}{n}")).collect();
        let values: Vec<&str> = texts.iter().map(String::as_str).collect();
        transaction(&producer, &topic, &values, round % 2 == 0);
        if round % 2 == 0 {
            expected.extend(texts);
        }
    }
    for limit in [1, 2, 5] {
        let reading = Reading::of(&kafka, &topic).option("maxOffsetsPerTrigger", limit);
        reading.run().await.unwrap();
        assert_eq!(reading.values(), expected, "limit {limit}");
    }
}

#[tokio::test]
async fn records_of_an_open_transaction_come_when_it_is_committed() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("open", 1).await;
    kafka.send(&topic, &[value("before")]).await;
    let producer = kafka.transactional(&topic);
    producer.begin_transaction().unwrap();
    add(&producer, &topic, &["open"]);
    kafka.send(&topic, &[value("after")]).await;
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        reading.values(),
        ["before"],
        "nothing overtakes an open transaction"
    );
    producer.commit_transaction(LONG).unwrap();
    reading.wait_for_rows(&query, 3).await;
    assert_eq!(reading.values(), ["before", "open", "after"]);
    query.stop().await;
}

#[tokio::test]
async fn records_behind_a_transaction_whose_producer_died_come_when_the_broker_has_ended_it() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("left-open", 1).await;
    kafka.send(&topic, &[value("before")]).await;
    let producer: BaseProducer = config(&kafka.bootstrap)
        .set("transactional.id", &topic)
        .set("transaction.timeout.ms", "10000")
        .create()
        .unwrap();
    producer.init_transactions(LONG).unwrap();
    producer.begin_transaction().unwrap();
    add(&producer, &topic, &["left open"]);
    // Neither commit nor abort.
    drop(producer);
    kafka.send(&topic, &[value("after")]).await;
    // What is there is read to its end, without a wait for the transaction.
    let reading = Reading::of(&kafka, &topic);
    let query = reading.run().await.unwrap();
    assert_eq!(reading.values(), ["before"]);
    let source = &last_with_rows(&query).sources[0];
    assert_eq!(source.metrics["maxOffsetsBehindLatest"], "0");
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 2).await;
    assert_eq!(reading.values(), ["before", "after"]);
    query.stop().await;
}

#[tokio::test]
async fn transactions_do_not_slow_epochs_down() {
    // Only a marker lies between the last record and the end of the epoch: that is seen at once, not after a long poll.
    let kafka = Kafka::shared();
    let topic = kafka.topic("marker", 1).await;
    let producer = kafka.transactional(&topic);
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    transaction(&producer, &topic, &["0"], true);
    reading.wait_for_rows(&query, 1).await;
    for round in 1..6 {
        transaction(&producer, &topic, &[&round.to_string()], true);
        reading.wait_for_rows(&query, round + 1).await;
    }
    query.process_all_available().await.unwrap();
    let longest = query
        .recent_progress()
        .iter()
        .filter(|progress| progress.num_input_rows > 0)
        .skip(1)
        .map(|progress| progress.batch_duration)
        .max();
    assert!(longest.unwrap() < 400, "{longest:?} ms");
    query.stop().await;
}

#[tokio::test]
async fn p093_compacted_topics_give_each_surviving_record_once() {
    let kafka = Kafka::shared();
    let topic = Kafka::name("p093");
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("max.compaction.lag.ms", "100"),
        ("min.compaction.lag.ms", "0"),
        ("delete.retention.ms", "0"),
    ];
    kafka.create(&topic, 1, &settings).await;
    // Of offsets 0 to 9, keys a, b, c survive at 6, 7, 8 and d at 9.
    let keys = ["a", "b", "c", "a", "b", "c", "a", "b", "c", "d"];
    for (number, key) in keys.iter().enumerate() {
        kafka
            .send(&topic, &[value(number.to_string()).key(key)])
            .await;
    }
    // The newest segment is never cleaned: time and one more record close it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    kafka.send(&topic, &[value("10").key("e")]).await;
    let expected = ["6", "7", "8", "9", "10"];
    let mut whole = Vec::new();
    for _ in 0..120 {
        let reading = Reading::of(&kafka, &topic);
        reading.run().await.unwrap();
        let rows = reading.rows().into_iter();
        whole = rows.map(|row| row.value.unwrap()).collect();
        if whole.len() == expected.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(whole, expected, "the broker has not cleaned the log");
    let reading = Reading::of(&kafka, &topic).option("maxOffsetsPerTrigger", 2);
    reading.run().await.unwrap();
    let values: Vec<String> = reading
        .rows()
        .into_iter()
        .map(|row| row.value.unwrap())
        .collect();
    assert_eq!(values, expected);
    assert_eq!(
        reading.epochs().len(),
        6,
        "offsets are counted, not records"
    );
    assert!(reading.epochs()[&0].is_empty(), "an epoch may find nothing");
}

#[tokio::test]
async fn reading_goes_on_after_long_silence_at_the_end() {
    // The end of the log was reported before; the report must not be taken for the end of a later epoch.
    let kafka = Kafka::shared();
    let topic = kafka.topic("silence", 1).await;
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    let mut sent = 0;
    for _ in 0..5 {
        kafka.send(&topic, &numbers(sent, sent + 3)).await;
        sent += 3;
        reading.wait_for_rows(&query, sent as usize).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let values = reading.numbers();
    assert_eq!(values, (0..15).collect::<Vec<_>>());
    query.stop().await;
}
