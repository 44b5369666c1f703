//! How the clients of a query fetch: under which group, and without losing what they have fetched ahead.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use weir::prelude::*;

use crate::support::{Kafka, LONG, Reading, Warnings, config, numbers, warnings};

/// Groups a client has asked the broker about: names that begin with `prefix`.
fn groups(log: &Warnings, prefix: &str) -> BTreeSet<String> {
    let lines = log.said(&["querying for coordinator", prefix]);
    let groups = lines.iter().map(|line| {
        let from = line.find(prefix).unwrap();
        let until = line[from..].find('"').unwrap();
        line[from..from + until].to_owned()
    });
    groups.collect()
}

#[tokio::test]
async fn the_group_of_a_run_begins_with_its_prefix_and_is_of_that_run_alone() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("group", 1).await;
    let prefix = Kafka::name("prefix");
    let log = warnings();
    let reading = Reading::of(&kafka, &topic)
        .option("groupIdPrefix", &prefix)
        .option("kafka.debug", "cgrp");
    for run in 1..=2 {
        let query = reading.start(Trigger::Default).await.unwrap();
        // What a client says is taken from it while it reads.
        for number in 0..LONG.as_millis() as i64 / 50 {
            if groups(&log, &prefix).len() >= run {
                break;
            }
            kafka.send(&topic, &numbers(number, number + 1)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        query.stop().await;
        let groups = groups(&log, &prefix);
        assert_eq!(groups.len(), run, "{groups:?}");
    }
    let groups: Vec<String> = groups(&log, &prefix).into_iter().collect();
    let rest: Vec<&str> = groups
        .iter()
        .map(|group| group[prefix.len()..].strip_prefix('-').unwrap())
        .collect();
    let [(first, place), (second, same_place)] = [rest[0], rest[1]].map(|rest| rest.split_at(36));
    assert!(uuid::Uuid::try_parse(first).is_ok() && uuid::Uuid::try_parse(second).is_ok());
    assert_ne!(first, second);
    assert_eq!(place, same_place, "of one checkpoint");
    assert_eq!(place.len(), 17, "a dash and a hash: {place}");
}

#[tokio::test]
async fn records_that_trickle_in_are_fetched_without_beginning_anew() {
    const PORTIONS: usize = 20;
    // Between two of them the partition has an end, which is reported before the second. Whoever takes it for the end of the epoch
    // throws away what was fetched, and asks for it again.
    let kafka = Kafka::shared();
    let topic = kafka.topic("trickle", 2).await;
    let log = warnings();
    let reading = Reading::of(&kafka, &topic).option("kafka.debug", "cgrp");
    let query = reading.start(Trigger::Default).await.unwrap();
    // As many epochs as portions at least, however slow the machine is.
    for portion in 0..PORTIONS {
        let (from, to) = (20 * portion, 20 * (portion + 1));
        for (number, record) in (0..).zip(numbers(from as i64, to as i64)) {
            kafka.send(&topic, &[record.to(number % 2)]).await;
        }
        reading.wait_for_rows(&query, to).await;
    }
    query.stop().await;
    assert_eq!(
        reading.numbers(),
        (0..20 * PORTIONS as i64).collect::<Vec<_>>()
    );
    let begun = log.said(&["Starting pending assigned partition", &topic]);
    assert_eq!(begun.len(), 2, "once for each partition: {begun:#?}");
}

#[tokio::test]
async fn nothing_is_ever_committed_to_the_group() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("uncommitted", 2).await;
    let group = Kafka::name("bystander");
    let reading = Reading::of(&kafka, &topic)
        .option("kafka.group.id", &group)
        // A client that commits by itself would do so many times.
        .option("kafka.auto.commit.interval.ms", 20);
    let query = reading.start(Trigger::Default).await.unwrap();
    for round in 0..5 {
        let records = numbers(20 * round, 20 * (round + 1));
        let records: Vec<_> = (0..)
            .zip(records)
            .map(|(n, record)| record.to(n % 2))
            .collect();
        kafka.send(&topic, &records).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    reading.wait_for_rows(&query, 100).await;
    query.stop().await;
    let member: BaseConsumer = config(&kafka.bootstrap)
        .set("group.id", &group)
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_range(&topic, 0, 1);
    let committed = member.committed_offsets(partitions, LONG).unwrap();
    let committed: Vec<Offset> = committed.elements().iter().map(|at| at.offset()).collect();
    assert_eq!(committed, [Offset::Invalid; 2]);
}
