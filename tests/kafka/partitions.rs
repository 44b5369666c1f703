//! Which partitions are read: lists, patterns, assignments, and those that come or go while a query runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use weir::prelude::*;

use crate::support::{Home, Kafka, LONG, Reading, numbers, texts, value};

#[tokio::test]
async fn several_topics_are_read_by_list_and_by_pattern() {
    let kafka = Kafka::shared();
    let prefix = Kafka::name("several");
    let (a, b, other) = (
        format!("{prefix}-a"),
        format!("{prefix}-b"),
        format!("x{prefix}-a"),
    );
    for (topic, text) in [(&a, "1"), (&b, "2"), (&other, "3")] {
        kafka.create(topic, 1, &[]).await;
        kafka.send(topic, &[value(text)]).await;
    }
    let reading = Reading::of(&kafka, &format!(" {b} ,{a}"));
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["1", "2"]);
    let reading = Reading::bare(&kafka)
        .option("subscribePattern", format!("{prefix}-[ab]"))
        .option("startingOffsets", "earliest");
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["1", "2"], "a pattern is for whole names");
}

#[tokio::test]
async fn assigned_partitions_are_read_and_no_others() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("assigned", 3).await;
    for (partition, record) in (0..).zip(numbers(0, 3)) {
        kafka.send(&topic, &[record.to(partition)]).await;
    }
    let reading = Reading::bare(&kafka)
        .option("assign", format!("{{\"{topic}\":[0,2]}}"))
        .option("startingOffsets", "earliest");
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["0", "2"]);
    kafka.grow(&topic, 4).await;
    kafka
        .send(&topic, &[value("new").to(3), value("3").to(2)])
        .await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["0", "2", "3"]);
}

#[tokio::test]
async fn p091_partitions_that_are_added_are_read_from_their_beginning() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p091", 1).await;
    let reading = Reading::bare(&kafka).option("subscribe", &topic);
    let query = reading.start(Trigger::Default).await.unwrap();
    kafka.send(&topic, &numbers(0, 1)).await;
    reading.wait_for_rows(&query, 1).await;
    kafka.grow(&topic, 2).await;
    let more: Vec<_> = numbers(1, 11)
        .into_iter()
        .map(|record| record.to(1))
        .collect();
    kafka.send(&topic, &more).await;
    reading.wait_for_rows(&query, 11).await;
    query.stop().await;
    // And those added while it is down.
    kafka.grow(&topic, 3).await;
    let more: Vec<_> = numbers(11, 15)
        .into_iter()
        .map(|record| record.to(2))
        .collect();
    kafka.send(&topic, &more).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(0, 15));
}

#[tokio::test]
async fn p091_where_a_new_partition_begins_survives_a_replay() {
    // The new partition has lost its first records before it was found: its beginning is durable, not guessed at again.
    let kafka = Kafka::shared();
    let topic = kafka.topic("p091-replay", 1).await;
    let reading = Reading::bare(&kafka).option("subscribe", &topic);
    reading.run().await.unwrap();
    kafka.grow(&topic, 2).await;
    let more: Vec<_> = numbers(0, 10)
        .into_iter()
        .map(|record| record.to(1))
        .collect();
    kafka.send(&topic, &more).await;
    kafka.expire(&topic, 1, 4).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(4, 10));
    // Without its manifest the epoch runs again, by its plan and the source's log.
    std::fs::remove_file(format!("{}/commits/0", reading.checkpoint())).unwrap();
    reading.run().await.unwrap();
    assert_eq!(reading.values(), texts(4, 10));
    assert_eq!(reading.epochs().len(), 1);
}

#[tokio::test]
async fn topics_that_are_created_later_are_found_by_their_pattern() {
    let kafka = Kafka::shared();
    let prefix = Kafka::name("later");
    let reading = Reading::bare(&kafka).option("subscribePattern", format!("{prefix}-.*"));
    let query = reading.start(Trigger::Default).await.unwrap();
    query.process_all_available().await.unwrap();
    for (number, name) in ["a", "b"].iter().enumerate() {
        let topic = format!("{prefix}-{name}");
        kafka.create(&topic, 2, &[]).await;
        let number = number as i64;
        let records = numbers(number * 10, number * 10 + 10).into_iter();
        let records: Vec<_> = records.map(|record| record.to(1)).collect();
        kafka.send(&topic, &records).await;
        reading
            .wait_for_rows(&query, 10 * (number as usize + 1))
            .await;
    }
    query.stop().await;
    assert_eq!(reading.values(), texts(0, 20));
}

#[tokio::test]
async fn p015_a_partition_without_records_does_not_hold_back_the_watermark() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p015", 2).await;
    let time = |seconds: u32| value(format!("2024-06-10 10:00:{seconds:02}"));
    let session = crate::support::session();
    let frame = kafka.stream(&session, &topic);
    let counted = frame
        .select_expr(&["CAST(CAST(value AS STRING) AS TIMESTAMP) AS ts"])
        .unwrap()
        .with_watermark("ts", "5 seconds")
        .unwrap()
        .group_by([expr("window(ts, '10 seconds')")])
        .unwrap()
        .count()
        .unwrap();
    let query = counted
        .write_stream()
        .format("memory")
        .query_name("p015")
        .start()
        .await
        .unwrap();
    kafka.send(&topic, &[time(1), time(2)]).await;
    query.process_all_available().await.unwrap();
    // Inside of the delay, from the partition that was silent.
    kafka.send(&topic, &[time(3).to(1)]).await;
    query.process_all_available().await.unwrap();
    kafka.send(&topic, &[time(30)]).await;
    query.process_all_available().await.unwrap();
    let rows = session
        .sql("SELECT count FROM p015")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let counts: Vec<i64> = rows
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert_eq!(counts, [3]);
    query.stop().await;
}

/// Counts of windows of ten seconds over the times that are a topic's values, five seconds of delay, by a query that may be started
/// again.
struct Windows<'a> {
    kafka: &'a Kafka,
    topic: &'a str,
    session: Session,
    home: Home,
    counts: Arc<Mutex<Vec<i64>>>,
}

impl Windows<'_> {
    async fn start(&self) -> StreamingQuery {
        let counts = Arc::clone(&self.counts);
        self.kafka
            .stream(&self.session, self.topic)
            .select_expr(&["CAST(CAST(value AS STRING) AS TIMESTAMP) AS ts"])
            .unwrap()
            .with_watermark("ts", "5 seconds")
            .unwrap()
            .group_by([expr("window(ts, '10 seconds')")])
            .unwrap()
            .count()
            .unwrap()
            .select_expr(&["count"])
            .unwrap()
            .write_stream()
            .checkpoint(&self.home.text("checkpoint"))
            .foreach_batch(move |frame, _| {
                let counts = Arc::clone(&counts);
                async move {
                    for batch in frame.collect().await? {
                        let found = batch.column(0).as_primitive::<Int64Type>();
                        counts.lock().unwrap().extend(found.values().iter());
                    }
                    Ok(())
                }
            })
            .start()
            .await
            .unwrap()
    }

    async fn wait_for(&self, expected: &[i64]) {
        for _ in 0..LONG.as_millis() / 50 {
            if self.counts.lock().unwrap().len() >= expected.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(*self.counts.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn p015_a_partition_with_its_own_watermark_is_left_out_while_it_is_silent_and_loses_nothing()
{
    let kafka = Kafka::shared();
    let topic = kafka.topic("p015-own", 2).await;
    let time = |seconds: u32| value(format!("2024-06-10 10:00:{seconds:02}"));
    let windows = Windows {
        kafka: &kafka,
        topic: &topic,
        session: Session::builder()
            .parallelism(2)
            .config("weir.progressBar", false)
            .config("weir.watermark.perSplit", true)
            .config("weir.watermark.idleTimeout", "400ms")
            .build()
            .unwrap(),
        home: Home::new(),
        counts: Arc::default(),
    };
    let query = windows.start().await;
    kafka.send(&topic, &[time(1), time(2)]).await;
    query.process_all_available().await.unwrap();
    // Inside of the delay, from the partition that was silent.
    kafka.send(&topic, &[time(3).to(1)]).await;
    query.process_all_available().await.unwrap();
    query.stop().await;
    let query = windows.start().await;
    kafka.send(&topic, &[time(30)]).await;
    windows.wait_for(&[3]).await;
    // It wakes up, again inside of the delay.
    kafka.send(&topic, &[time(26).to(1)]).await;
    query.process_all_available().await.unwrap();
    kafka.send(&topic, &[time(59)]).await;
    windows.wait_for(&[3, 1, 1]).await;
    query.stop().await;
}

#[tokio::test]
async fn another_subscription_is_another_query() {
    let kafka = Kafka::shared();
    let (a, b) = (kafka.topic("sub-a", 1).await, kafka.topic("sub-b", 1).await);
    let mut reading = Reading::of(&kafka, &a);
    kafka.send(&a, &[value("1")]).await;
    reading.run().await.unwrap();
    reading.set("subscribe", format!("{a},{b}"));
    let error = reading.run().await.unwrap_err().to_string();
    assert!(error.contains("subscribe"), "{error}");
    // Limits, headers and servers may change.
    reading.set("subscribe", &a);
    reading.set("maxOffsetsPerTrigger", 5);
    reading.set("kafka.client.id", "another");
    kafka.send(&a, &[value("2")]).await;
    reading.run().await.unwrap();
    assert_eq!(reading.values(), ["1", "2"]);
}
