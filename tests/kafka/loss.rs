//! Records that are gone before they were read: never passed over in silence.

use std::time::Duration;

use weir::prelude::*;

use crate::support::{Kafka, Reading, last_with_rows, numbers, texts, warnings};

#[tokio::test]
async fn p089_expired_offsets_stop_the_query_or_are_counted() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p089", 1).await;
    kafka.send(&topic, &numbers(0, 20)).await;
    let mut reading = Reading::of(&kafka, &topic);
    reading.run().await.unwrap();
    kafka.send(&topic, &numbers(20, 100)).await;
    kafka.expire(&topic, 0, 60).await;
    let error = reading.run().await.unwrap_err();
    let lost = format!("{topic}-0: wanted 20, earliest 60, 40 offsets lost");
    assert!(error.message().contains(&lost), "{error}");
    assert_eq!(error.condition(), Some("KAFKA_DATA_LOSS"));
    assert_eq!(reading.values(), texts(0, 20), "nothing was committed");
    reading.set("failOnDataLoss", false);
    let warnings = warnings();
    let query = reading.run().await.unwrap();
    let mut expected = texts(0, 20);
    expected.extend(texts(60, 100));
    assert_eq!(reading.values(), expected);
    let source = &last_with_rows(&query).sources[0];
    assert_eq!(source.metrics["lostOffsets"], "40");
    assert_eq!(source.metrics["offsetOutOfRange"], "40");
    assert_eq!(source.metrics["dataLoss"], "1");
    assert_eq!(warnings.matching(&[&lost]).len(), 1);
    // The next run has nothing to complain about.
    kafka.send(&topic, &numbers(100, 101)).await;
    reading.set("failOnDataLoss", true);
    let query = reading.run().await.unwrap();
    assert_eq!(
        last_with_rows(&query).sources[0].metrics["lostOffsets"],
        "0"
    );
}

#[tokio::test]
async fn p089_offsets_that_expire_while_the_query_reads_are_not_passed_over() {
    for fail in [true, false] {
        let kafka = Kafka::shared();
        let topic = kafka.topic("p089-running", 1).await;
        kafka.send(&topic, &numbers(0, 50)).await;
        let reading = Reading::of(&kafka, &topic)
            .option("failOnDataLoss", fail)
            .option("maxOffsetsPerTrigger", 10)
            // Little is fetched ahead, so that the broker has to be asked again.
            .option("kafka.queued.min.messages", 1)
            .option("kafka.queued.max.messages.kbytes", 1)
            .option("kafka.max.partition.fetch.bytes", 100)
            .slow_sink(Duration::from_millis(800));
        let query = reading.start(Trigger::AvailableNow).await.unwrap();
        reading.wait_for_rows(&query, 10).await;
        kafka.expire(&topic, 0, 45).await;
        let result = query.await_termination().await;
        let values = reading.values();
        match fail {
            true => {
                let error = result.unwrap_err();
                assert!(error.message().contains("earliest 45"), "{error}");
                assert!(!values.contains(&"45".to_owned()));
            }
            false => {
                result.unwrap();
                assert!(values.ends_with(&texts(45, 50)), "{values:?}");
                let lost: u64 = query
                    .recent_progress()
                    .iter()
                    .map(|p| p.sources[0].metrics["lostOffsets"].parse::<u64>().unwrap())
                    .sum();
                assert_eq!(lost as usize + values.len(), 50, "read or counted as lost");
            }
        }
    }
}

#[tokio::test]
async fn a_replay_whose_rows_have_expired_is_a_loss() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p089-replay", 1).await;
    kafka.send(&topic, &numbers(0, 20)).await;
    let mut reading = Reading::of(&kafka, &topic);
    reading.run().await.unwrap();
    std::fs::remove_file(format!("{}/commits/0", reading.checkpoint())).unwrap();
    kafka.expire(&topic, 0, 12).await;
    let error = reading.run().await.unwrap_err();
    let lost = format!("{topic}-0: wanted 0, earliest 12, 12 offsets lost");
    assert!(error.message().contains(&lost), "{error}");
    reading.set("failOnDataLoss", false);
    let query = reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(12, 20));
    assert_eq!(
        last_with_rows(&query).sources[0].metrics["lostOffsets"],
        "12"
    );
}

#[tokio::test]
async fn p090_a_topic_that_was_created_again_and_is_shorter_is_found_out() {
    created_again("p090", 5).await;
}

#[tokio::test]
async fn p090_a_topic_that_was_created_again_and_is_longer_is_found_out() {
    created_again("p090-longer", 150).await;
}

#[tokio::test]
async fn p090_a_topic_that_was_created_again_and_is_as_long_is_found_out() {
    created_again("p090-same", 100).await;
}

async fn created_again(what: &str, length: i64) {
    let kafka = Kafka::shared();
    let topic = kafka.topic(what, 1).await;
    kafka.send(&topic, &numbers(0, 100)).await;
    let mut reading = Reading::of(&kafka, &topic);
    reading.run().await.unwrap();
    kafka.delete(&topic).await;
    kafka.create(&topic, 1, &[]).await;
    kafka.send(&topic, &numbers(1000, 1000 + length)).await;
    let error = reading.run().await.unwrap_err();
    let found = format!("{topic}-0: wanted 100, but topic '{topic}' was deleted and created again");
    assert!(error.message().contains(&found), "{error}");
    assert!(
        error.message().contains(&format!("offsets 0 to {length}")),
        "{error}"
    );
    reading.set("failOnDataLoss", false);
    let warnings = warnings();
    reading.run().await.unwrap();
    let epochs = reading.epochs();
    let rows = epochs.range(1..).flat_map(|(_, rows)| rows);
    let mut new: Vec<i64> = rows
        .map(|row| row.value.as_ref().unwrap().parse().unwrap())
        .collect();
    new.sort_unstable();
    assert_eq!(new, (1000..1000 + length).collect::<Vec<_>>());
    assert_eq!(warnings.matching(&[&found]).len(), 1);
    // From now on it is this topic.
    reading.set("failOnDataLoss", true);
    kafka.send(&topic, &numbers(5000, 5001)).await;
    reading.run().await.unwrap();
    assert_eq!(reading.rows().len() as i64, 100 + length + 1);
}

#[tokio::test]
async fn p090_a_topic_created_again_while_the_query_runs_is_found_out() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p090-running", 1).await;
    kafka.send(&topic, &numbers(0, 10)).await;
    let reading = Reading::of(&kafka, &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    reading.wait_for_rows(&query, 10).await;
    kafka.delete(&topic).await;
    kafka.create(&topic, 1, &[]).await;
    kafka.send(&topic, &numbers(100, 103)).await;
    let ended = query
        .await_termination_timeout(Duration::from_secs(30))
        .await;
    let error = ended.unwrap_err();
    assert!(
        error.message().contains(&format!("{topic}-0: wanted 10")),
        "{error}"
    );
    assert_eq!(reading.values(), texts(0, 10));
}

#[tokio::test]
async fn p091_a_topic_that_has_fewer_partitions_than_before_is_a_loss() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p091-fewer", 2).await;
    let both = |from: i64| {
        let records = (0..).zip(numbers(from, from + 6));
        let records = records.map(|(n, record)| record.to(n % 2));
        records.collect::<Vec<_>>()
    };
    kafka.send(&topic, &both(0)).await;
    let mut reading = Reading::of(&kafka, &topic);
    reading.run().await.unwrap();
    kafka.delete(&topic).await;
    kafka.create(&topic, 1, &[]).await;
    kafka.send(&topic, &numbers(6, 8)).await;
    let error = reading.run().await.unwrap_err();
    let gone = format!("{topic}-1: wanted 3, but the partition does not exist any more");
    let another = format!("{topic}-0: wanted 3, but topic '{topic}' was deleted and created again");
    for lost in [&gone, &another] {
        assert!(error.message().contains(lost), "{error}");
    }
    assert_eq!(reading.numbers(), (0..6).collect::<Vec<_>>());
    reading.set("failOnDataLoss", false);
    reading.run().await.unwrap();
    assert_eq!(reading.numbers(), (0..8).collect::<Vec<_>>());
    // A partition of that number that comes later is a new one.
    kafka.grow(&topic, 2).await;
    kafka.send(&topic, &both(8)).await;
    reading.set("failOnDataLoss", true);
    reading.run().await.unwrap();
    assert_eq!(reading.numbers(), (0..14).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_a_loss_or_no_longer_read() {
    let kafka = Kafka::shared();
    let (gone, stays) = (kafka.topic("gone", 1).await, kafka.topic("stays", 1).await);
    kafka.send(&gone, &numbers(0, 3)).await;
    kafka.send(&stays, &numbers(10, 13)).await;
    let mut reading = Reading::of(&kafka, &format!("{gone},{stays}"));
    reading.run().await.unwrap();
    kafka.delete(&gone).await;
    kafka.send(&stays, &numbers(13, 14)).await;
    let error = reading.run().await.unwrap_err();
    let lost = format!("{gone}-0: wanted 3, but the partition does not exist any more");
    assert!(error.message().contains(&lost), "{error}");
    reading.set("failOnDataLoss", false);
    reading.run().await.unwrap();
    assert_eq!(reading.rows().len(), 7);
    let plan = std::fs::read_to_string(format!("{}/offsets/1", reading.checkpoint())).unwrap();
    let plan: String = plan.split_whitespace().collect();
    let end = format!("\"end\":{{\"{stays}\":{{\"0\":4}}}}");
    assert!(plan.contains(&end), "{plan}");
    // A topic of that name that comes later is a new one.
    kafka.create(&gone, 1, &[]).await;
    kafka.send(&gone, &numbers(20, 22)).await;
    reading.set("failOnDataLoss", true);
    reading.run().await.unwrap();
    assert_eq!(reading.rows().len(), 9);
}
