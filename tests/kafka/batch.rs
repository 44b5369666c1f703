//! Topics as tables.

use arrow::array::RecordBatch;
use weir::prelude::*;

use crate::support::{Kafka, numbers, seen, session, texts};

async fn filled(kafka: &Kafka, what: &str) -> String {
    let topic = kafka.topic(what, 2).await;
    let records = numbers(0, 20).into_iter().zip(0..);
    let records: Vec<_> = records
        .map(|(record, n)| record.to(i32::from(n >= 10)).at_ms(1_000_000 + n * 1000))
        .collect();
    kafka.send(&topic, &records).await;
    topic
}

async fn collect(
    kafka: &Kafka,
    topic: &str,
    options: &[(&str, String)],
) -> Result<Vec<RecordBatch>> {
    let mut reader = session()
        .read()
        .format("kafka")
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("subscribe", topic);
    for (name, value) in options {
        reader = reader.option(name, value);
    }
    reader.open()?.collect().await
}

async fn values(kafka: &Kafka, topic: &str, options: &[(&str, String)]) -> Vec<String> {
    let mut rows = seen(&collect(kafka, topic, options).await.unwrap());
    rows.sort();
    rows.into_iter().map(|row| row.value.unwrap()).collect()
}

#[tokio::test]
async fn tables_go_from_the_earliest_to_the_latest_unless_told_otherwise() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "batch").await;
    assert_eq!(values(&kafka, &topic, &[]).await, texts(0, 20));
    let json =
        |first: i64, second: i64| format!("{{\"{topic}\":{{\"0\":{first},\"1\":{second}}}}}");
    let options = [
        ("startingOffsets", json(3, -2)),
        ("endingOffsets", json(5, 2)),
    ];
    assert_eq!(
        values(&kafka, &topic, &options).await,
        ["3", "4", "10", "11"]
    );
    let options = [
        ("startingOffsets", json(8, 8)),
        ("endingOffsets", json(-1, 9)),
    ];
    assert_eq!(values(&kafka, &topic, &options).await, ["8", "9", "18"]);
    let options = [("endingTimestamp", "1003000".to_owned())];
    assert_eq!(values(&kafka, &topic, &options).await, ["0", "1", "2"]);
    // Where no record is that new, the end is the latest.
    let options = [("endingTimestamp", "1015000".to_owned())];
    assert_eq!(values(&kafka, &topic, &options).await, texts(0, 15));
    let options = [
        ("startingOffsetsByTimestamp", json(1_004_000, 1_012_000)),
        ("endingOffsetsByTimestamp", json(1_006_000, 1_013_000)),
    ];
    assert_eq!(values(&kafka, &topic, &options).await, ["4", "5", "12"]);
    // One time for all ranks before times by partition, and those before offsets.
    let ranked = [
        ("endingTimestamp", "1002000".to_owned()),
        ("endingOffsetsByTimestamp", json(9_000_000, 1_013_000)),
        ("endingOffsets", json(9, 9)),
    ];
    assert_eq!(values(&kafka, &topic, &ranked).await, ["0", "1"]);
    assert_eq!(values(&kafka, &topic, &ranked[1..]).await, texts(0, 13));
    let cut = [
        ("maxRecordsPerPartition", "3".to_owned()),
        ("minPartitions", "9".to_owned()),
    ];
    assert_eq!(values(&kafka, &topic, &cut).await, texts(0, 20));
}

#[tokio::test]
async fn ends_that_are_not_there_are_refused() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "batch-ends").await;
    let json = format!("{{\"{topic}\":{{\"0\":99,\"1\":1}}}}");
    let error = collect(&kafka, &topic, &[("endingOffsets", json)])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains(&format!(
            "ends {topic}-0 at 99, but the partition ends at 10"
        )),
        "{error}"
    );
    let json = format!("{{\"{topic}\":{{\"0\":1}}}}");
    let error = collect(&kafka, &topic, &[("endingOffsets", json)])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("'endingOffsets'"), "{error}");
    let error = collect(&kafka, &topic, &[("endingOffsets", "earliest".to_owned())])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("'endingOffsets'"), "{error}");
}

#[tokio::test]
async fn a_frame_reads_what_is_there_each_time() {
    let kafka = Kafka::shared();
    let topic = filled(&kafka, "batch-again").await;
    let session = session();
    let frame = session
        .read()
        .format("kafka")
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("subscribe", &topic)
        .open()
        .unwrap();
    assert_eq!(frame.count().await.unwrap(), 20);
    kafka.send(&topic, &numbers(20, 25)).await;
    assert_eq!(frame.count().await.unwrap(), 25);
    frame.create_or_replace_temp_view("records").unwrap();
    let few =
        session.sql("SELECT CAST(value AS STRING) AS v FROM records WHERE partition = 1 LIMIT 3");
    assert_eq!(few.await.unwrap().count().await.unwrap(), 3);
}

#[tokio::test]
async fn an_empty_topic_is_an_empty_table() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("batch-empty", 2).await;
    assert!(values(&kafka, &topic, &[]).await.is_empty());
}
