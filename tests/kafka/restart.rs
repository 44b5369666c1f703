//! Over restarts: what an epoch reads stays the same, and nothing is read twice or left out.

use std::sync::Arc;
use std::time::Duration;

use weir::prelude::*;
use weir::runtime::FailPoints;

use crate::support::{Kafka, Reading, numbers, value};

fn offset_files(checkpoint: &str) -> Vec<String> {
    let mut files: Vec<String> = std::fs::read_dir(format!("{checkpoint}/offsets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| std::fs::read_to_string(path).unwrap())
        .map(|text| text.split_whitespace().collect())
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_query_goes_on_where_it_was_and_its_plans_hold_sparks_offsets() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("goes-on", 2).await;
    let reading = Reading::of(&kafka, &topic);
    let mut expected = 0;
    for run in 0..4 {
        let more = (0..).zip(numbers(expected, expected + 10));
        let more: Vec<_> = more.map(|(n, record)| record.to((n + run) % 2)).collect();
        kafka.send(&topic, &more).await;
        expected += 10;
        reading.run().await.unwrap();
        let values = reading.numbers();
        assert_eq!(values, (0..expected).collect::<Vec<_>>());
    }
    let newest = offset_files(&reading.checkpoint()).join("\n");
    let end = format!("{{\"{topic}\":{{\"0\":20,\"1\":20}}}}");
    assert!(newest.contains(&end), "{newest}");
}

/// A topic of 20 records in two partitions, and a query that reads them in two epochs.
async fn two_epochs(kafka: &Kafka) -> (String, Reading) {
    let topic = kafka.topic("replay", 2).await;
    let records = (0..).zip(numbers(0, 20));
    let records: Vec<_> = records.map(|(n, record)| record.to(n % 2)).collect();
    kafka.send(&topic, &records).await;
    let reading = Reading::of(kafka, &topic).option("maxOffsetsPerTrigger", 12);
    (topic, reading)
}

#[tokio::test]
async fn an_epoch_is_replayed_with_the_same_rows_although_the_topic_grew() {
    let kafka = Kafka::shared();
    let counting = Arc::new(FailPoints::recording());
    let (_, reading) = two_epochs(&kafka).await;
    reading.with_failpoints(&counting).run().await.unwrap();
    let places = counting.names().len();
    assert!(places > 20, "{places}");
    let step = std::env::var("WEIR_CRASH_STEP").ok();
    let step = step.and_then(|step| step.parse().ok()).unwrap_or(3);
    for k in (0..places).step_by(step) {
        let (topic, reading) = two_epochs(&kafka).await;
        let crashing = reading.with_failpoints(&Arc::new(FailPoints::crash_at(k as u64)));
        // A crash is what this is about; it may come as early as the start.
        let crashed = crashing.run().await;
        assert!(crashed.is_err(), "no crash at place {k}");
        let before = crashing.epochs();
        kafka.send(&topic, &[value("20"), value("21").to(1)]).await;
        let whole = crashing.with_failpoints(&Arc::default());
        whole.run().await.unwrap();
        let values = whole.numbers();
        assert_eq!(values, (0..22).collect::<Vec<_>>(), "crash at place {k}");
        for (epoch, rows) in before {
            assert_eq!(
                whole.epochs()[&epoch],
                rows,
                "crash at place {k}, epoch {epoch}"
            );
        }
    }
}

#[tokio::test]
async fn p099_strangers_in_the_same_group_change_nothing() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p099", 2).await;
    let group = Kafka::name("group");
    let stranger = crate::support::Stranger::join(&kafka, &group, &topic);
    let warnings = crate::support::warnings();
    let reading = Reading::of(&kafka, &topic).option("kafka.group.id", &group);
    let query = reading.start(Trigger::Default).await.unwrap();
    let mut sent = 0;
    for round in 0..5 {
        let records = (0..).zip(numbers(sent, sent + 200));
        let records: Vec<_> = records.map(|(n, record)| record.to(n % 2)).collect();
        kafka.send(&topic, &records).await;
        sent += 200;
        if round == 2 {
            stranger.leave();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    reading.wait_for_rows(&query, 1000).await;
    query.stop().await;
    let values = reading.numbers();
    assert_eq!(values, (0..1000).collect::<Vec<_>>());
    let said = warnings.matching(&["the option 'kafka.group.id' is set", &topic]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[tokio::test]
async fn p100_a_slow_sink_does_not_lose_the_client_its_partitions() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p100", 2).await;
    let records = (0..).zip(numbers(0, 50));
    let records: Vec<_> = records.map(|(n, record)| record.to(n % 2)).collect();
    kafka.send(&topic, &records).await;
    let warnings = crate::support::warnings();
    let reading = Reading::of(&kafka, &topic)
        .option("maxOffsetsPerTrigger", 10)
        .option("kafka.max.poll.interval.ms", 1000)
        .option("kafka.session.timeout.ms", 1000)
        .slow_sink(Duration::from_secs(2));
    reading.run().await.unwrap();
    let sizes: Vec<usize> = reading.epochs().values().map(Vec::len).collect();
    assert_eq!(sizes, [10; 5]);
    assert_eq!(reading.rows().len(), 50);
    assert!(warnings.matching(&["MAXPOLL"]).is_empty());
}
