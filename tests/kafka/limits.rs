//! How much an epoch takes and how it is cut.

use std::time::Duration;

use weir::prelude::*;

use crate::support::{Kafka, Reading, last_with_rows, numbers, set, texts};

fn sizes(reading: &Reading) -> Vec<usize> {
    reading.epochs().values().map(Vec::len).collect()
}

#[tokio::test]
async fn p102_every_partition_gets_a_share_and_the_end_of_a_bounded_run_is_fixed() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p102", 3).await;
    let mut records = numbers(0, 101);
    records.extend(numbers(101, 112).into_iter().map(|record| record.to(1)));
    records.extend(numbers(112, 113).into_iter().map(|record| record.to(2)));
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic).option("maxOffsetsPerTrigger", 10);
    let query = reading.start(Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    let first: Vec<i32> = reading.epochs()[&0]
        .iter()
        .map(|row| row.partition)
        .collect();
    let of = |partition| first.iter().filter(|p| **p == partition).count();
    assert_eq!((of(0), of(1), of(2)), (8, 1, 1));
    assert_eq!(set(reading.values()), set(texts(0, 113)));
    assert_eq!(reading.rows().len(), 113);
}

#[tokio::test]
async fn p102_available_now_leaves_what_comes_later_to_the_next_run() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p102-now", 1).await;
    kafka.send(&topic, &numbers(0, 100)).await;
    let reading = Reading::of(&kafka, &topic)
        .option("maxOffsetsPerTrigger", 20)
        .slow_sink(Duration::from_millis(200));
    let query = reading.start(Trigger::AvailableNow).await.unwrap();
    // Meanwhile the topic grows.
    kafka.send(&topic, &numbers(100, 110)).await;
    query.await_termination().await.unwrap();
    assert_eq!(sizes(&reading), [20, 20, 20, 20, 20]);
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(0, 110));
    assert_eq!(sizes(&reading), [20, 20, 20, 20, 20, 10]);
}

#[tokio::test]
async fn once_takes_everything_whatever_the_limit() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("once", 2).await;
    let records = numbers(0, 50).into_iter().zip(0..);
    let records: Vec<_> = records.map(|(record, n)| record.to(n % 2)).collect();
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic).option("maxOffsetsPerTrigger", 20);
    let query = reading.start(Trigger::Once).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(sizes(&reading), [50]);
}

#[tokio::test]
async fn min_offsets_delay_an_epoch_until_there_are_enough() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("min", 1).await;
    kafka.send(&topic, &numbers(0, 1)).await;
    let reading = Reading::of(&kafka, &topic)
        .option("minOffsetsPerTrigger", 10)
        .option("maxTriggerDelay", "10m");
    let query = reading.start(Trigger::Default).await.unwrap();
    // The first epoch never waits.
    reading.wait_for_rows(&query, 1).await;
    kafka.send(&topic, &numbers(1, 5)).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(reading.rows().len(), 1, "fewer than the minimum wait");
    kafka.send(&topic, &numbers(5, 12)).await;
    reading.wait_for_rows(&query, 12).await;
    assert_eq!(sizes(&reading), [1, 11]);
    query.stop().await;
}

#[tokio::test]
async fn after_the_longest_delay_one_record_is_enough() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("delay", 1).await;
    kafka.send(&topic, &numbers(0, 1)).await;
    let reading = Reading::of(&kafka, &topic)
        .option("minOffsetsPerTrigger", 10)
        .option("maxTriggerDelay", "2s");
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 1).await;
    kafka.send(&topic, &numbers(1, 2)).await;
    reading.wait_for_rows(&query, 2).await;
    query.stop().await;
}

#[tokio::test]
async fn a_bounded_run_does_not_wait_for_more_than_there_is() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("min-now", 1).await;
    kafka.send(&topic, &numbers(0, 25)).await;
    let reading = Reading::of(&kafka, &topic)
        .option("minOffsetsPerTrigger", 10)
        .option("maxOffsetsPerTrigger", 10)
        .option("maxTriggerDelay", "1h");
    reading.run().await.unwrap();
    assert_eq!(sizes(&reading), [10, 10, 5]);
}

#[tokio::test]
async fn partitions_are_cut_into_more_splits_on_request() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("cut", 2).await;
    let mut records = numbers(0, 90);
    records.extend(numbers(90, 100).into_iter().map(|record| record.to(1)));
    kafka.send(&topic, &records).await;
    let splits = async |options: &[(&str, u64)]| {
        let mut reading = Reading::of(&kafka, &topic);
        for (name, value) in options {
            reading.set(name, value);
        }
        let query = reading.run().await.unwrap();
        assert_eq!(
            reading.values(),
            texts(0, 100),
            "each record once, in order of offsets"
        );
        last_with_rows(&query).sources[0].metrics["splits"].clone()
    };
    assert_eq!(splits(&[]).await, "2");
    assert_eq!(splits(&[("maxRecordsPerPartition", 30)]).await, "4");
    assert_eq!(splits(&[("minPartitions", 5)]).await, "5");
    assert_eq!(
        splits(&[("minPartitions", 8), ("maxRecordsPerPartition", 45)]).await,
        "9",
        "halves of 45 are cut into four each, as 3.5 is rounded"
    );
}

#[tokio::test]
async fn p101_a_backlog_is_read_in_bounded_epochs() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p101", 2).await;
    let records = numbers(0, 20_000).into_iter().zip(0..);
    let records: Vec<_> = records.map(|(record, n)| record.to(n % 2)).collect();
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic).option("maxOffsetsPerTrigger", 1000);
    reading.run().await.unwrap();
    assert_eq!(sizes(&reading), vec![1000; 20]);
    assert_eq!(set(reading.values()), set(texts(0, 20_000)));
}
