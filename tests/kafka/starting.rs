//! Where a new query begins.

use weir::prelude::*;

use crate::support::{Kafka, Reading, numbers, texts, value};

/// A topic with the numbers 0..5 in partition 0 and 5..10 in partition 1, one second apart from 1,000 s on.
async fn filled(kafka: &Kafka, what: &str) -> String {
    let topic = kafka.topic(what, 2).await;
    let records: Vec<_> = numbers(0, 10)
        .into_iter()
        .zip(0..)
        .map(|(record, number)| {
            record
                .to(i32::from(number >= 5))
                .at_ms(1_000_000 + number * 1000)
        })
        .collect();
    kafka.send(&topic, &records).await;
    topic
}

async fn read_with(kafka: &Kafka, topic: &str, options: &[(&str, String)]) -> Vec<String> {
    let mut reading = Reading::bare(kafka).option("subscribe", topic);
    for (name, value) in options {
        reading.set(name, value);
    }
    reading.run().await.unwrap();
    reading.values()
}

#[tokio::test]
async fn starting_offsets_are_earliest_latest_or_numbers() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "starting").await;
    let starting = |text: &str| [("startingOffsets", text.to_owned())];
    assert_eq!(
        read_with(&kafka, &topic, &starting("earliest")).await,
        texts(0, 10)
    );
    assert_eq!(
        read_with(&kafka, &topic, &starting("latest")).await,
        texts(0, 0)
    );
    assert_eq!(read_with(&kafka, &topic, &[]).await, texts(0, 0));
    let json = format!("{{\"{topic}\":{{\"0\":3,\"1\":-2}}}}");
    assert_eq!(
        read_with(&kafka, &topic, &starting(&json)).await,
        texts(3, 10)
    );
    let json = format!("{{\"{topic}\":{{\"0\":-1,\"1\":4}}}}");
    assert_eq!(read_with(&kafka, &topic, &starting(&json)).await, ["9"]);
}

#[tokio::test]
async fn starting_offsets_that_leave_out_a_partition_are_refused() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "starting-some").await;
    let reading = Reading::of(&kafka, &topic)
        .option("startingOffsets", format!("{{\"{topic}\":{{\"0\":3}}}}"));
    let error = reading.run().await.unwrap_err().to_string();
    assert!(error.contains("'startingOffsets'"), "{error}");
    assert!(
        error.contains(&format!(
            "it names {topic}-0, read are {topic}-0, {topic}-1"
        )),
        "{error}"
    );
}

#[tokio::test]
async fn starting_offsets_that_are_not_there_are_a_loss() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "starting-beyond").await;
    let json = format!("{{\"{topic}\":{{\"0\":99,\"1\":0}}}}");
    let mut reading = Reading::of(&kafka, &topic).option("startingOffsets", &json);
    let error = reading.run().await.unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "{topic}-0: wanted 99, but the partition ends at 5"
        )),
        "{error}"
    );
    reading.set("failOnDataLoss", false);
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(0, 10));
}

#[tokio::test]
async fn starting_by_timestamp_takes_the_first_record_that_new() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "starting-time").await;
    let one = [
        ("startingTimestamp", "1003500".to_owned()),
        // Ranks lower and is ignored.
        ("startingOffsets", "latest".to_owned()),
    ];
    assert_eq!(read_with(&kafka, &topic, &one).await, texts(4, 10));
    let json = format!("{{\"{topic}\":{{\"0\":1001000,\"1\":1009000}}}}");
    let each = [("startingOffsetsByTimestamp", json)];
    assert_eq!(
        read_with(&kafka, &topic, &each).await,
        ["1", "2", "3", "4", "9"]
    );
}

#[tokio::test]
async fn p105_a_partition_without_a_record_that_new_fails_or_starts_at_its_end() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p105", 2).await;
    let (ten, twelve, thirteen) = (36_000_000, 43_200_000, 46_800_000);
    let records = [
        value("a").at_ms(ten),
        value("b").at_ms(twelve),
        value("c").to(1).at_ms(ten),
    ];
    kafka.send(&topic, &records).await;
    let mut reading = Reading::bare(&kafka)
        .option("subscribe", &topic)
        .option("startingTimestamp", 39_600_000);
    let error = reading.run().await.unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "{topic}-1 has no record with a timestamp of 39600000"
        )),
        "{error}"
    );
    reading.set("startingOffsetsByTimestampStrategy", "latest");
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["b"]);
    kafka
        .send(&topic, &[value("d").to(1).at_ms(thirteen)])
        .await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["b", "d"]);
}

#[tokio::test]
async fn p054_a_query_that_started_at_the_latest_offsets_keeps_them_over_a_restart() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p054", 1).await;
    kafka.send(&topic, &[value("before")]).await;
    let reading = Reading::bare(&kafka).option("subscribe", &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    query.process_all_available().await.unwrap();
    query.process_all_available().await.unwrap();
    query.stop().await;
    assert!(reading.epochs().is_empty());
    kafka.send(&topic, &[value("while down")]).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["while down"]);
}

#[tokio::test]
async fn the_offsets_of_a_checkpoint_win_over_the_options() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("ignored", 1).await;
    kafka.send(&topic, &numbers(0, 3)).await;
    let mut reading = Reading::of(&kafka, &topic);
    reading.run().await.unwrap();
    kafka.send(&topic, &numbers(3, 5)).await;
    reading.set("startingOffsets", "latest");
    let warnings = crate::support::warnings();
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(0, 5));
    let said = warnings.matching(&["the options that say where to start are ignored", &topic]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[tokio::test]
async fn topics_and_partitions_that_do_not_exist_are_refused_by_name() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("exists", 1).await;
    let reading = Reading::of(&kafka, &format!("{topic}, no-such-topic"));
    let error = reading.run().await.unwrap_err();
    assert_eq!(error.condition(), Some("UNKNOWN_TOPIC_OR_PARTITION"));
    assert!(error.message().contains("topic 'no-such-topic'"), "{error}");
    let reading = Reading::bare(&kafka).option("assign", format!("{{\"{topic}\":[0,7]}}"));
    let error = reading.run().await.unwrap_err().to_string();
    assert!(error.contains(&format!("partition {topic}-7")), "{error}");
}
