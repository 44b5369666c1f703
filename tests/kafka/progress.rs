//! What a query tells about its topics.

use std::time::Duration;

use weir::prelude::*;

use crate::support::{Kafka, Reading, last_with_rows, numbers};

#[tokio::test]
async fn lag_is_told_per_partition_as_least_most_and_average() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("lag", 3).await;
    let mut records = numbers(0, 60);
    records.extend(numbers(60, 90).into_iter().map(|record| record.to(1)));
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic)
        .option("maxOffsetsPerTrigger", 30)
        .slow_sink(Duration::from_millis(50));
    let query = reading.run().await.unwrap();
    let all = query.recent_progress();
    let first = &all.iter().find(|p| p.num_input_rows > 0).unwrap().sources[0];
    assert_eq!(first.description, format!("KafkaV2[Subscribe[{topic}]]"));
    let metric = |name: &str| first.metrics[name].as_str();
    assert_eq!(metric("minOffsetsBehindLatest"), "0");
    assert_eq!(metric("maxOffsetsBehindLatest"), "40");
    assert_eq!(metric("avgOffsetsBehindLatest"), "20.0");
    assert_eq!((metric("lostOffsets"), metric("dataLoss")), ("0", "0"));
    assert_eq!(
        first.end_offset,
        Some(format!("{{\"{topic}\":{{\"0\":20,\"1\":10,\"2\":0}}}}"))
    );
    assert_eq!(
        first.latest_offset,
        Some(format!("{{\"{topic}\":{{\"0\":60,\"1\":30,\"2\":0}}}}"))
    );
    let last = &last_with_rows(&query).sources[0];
    assert_eq!(last.metrics["maxOffsetsBehindLatest"], "0");
    let rows: u64 = all.iter().map(|progress| progress.num_input_rows).sum();
    assert_eq!(rows, 90);
    assert_eq!(
        query.backlog().map(|b| (b.done, b.total, b.unit)),
        Some((90, 90, "records"))
    );
}

#[tokio::test]
async fn partitions_are_watched_one_by_one_where_watermarks_are() {
    // With a watermark for each partition, one that is behind holds the others back.
    let kafka = Kafka::shared();
    let topic = kafka.topic("per-split", 2).await;
    let session = Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .config("weir.watermark.perSplit", true)
        .build()
        .unwrap();
    let frame = kafka
        .stream(&session, &topic)
        .with_watermark("timestamp", "0 seconds")
        .unwrap();
    let query = frame.write_stream().format("noop").start().await.unwrap();
    let at = |seconds: i64| crate::support::value("x").at_ms(seconds * 1000);
    kafka.send(&topic, &[at(100), at(40).to(1)]).await;
    query.process_all_available().await.unwrap();
    kafka.send(&topic, &[at(101), at(41).to(1)]).await;
    query.process_all_available().await.unwrap();
    let progress = last_with_rows(&query);
    assert_eq!(progress.event_time["watermark"], "1970-01-01T00:00:40.000Z");
    query.stop().await;
}
