//! From topic to topic: what went in comes out, byte for byte.

use weir::prelude::*;

use super::topics::{Isolation, Record, create, read};
use crate::support::{self, Home, Kafka, session, value};

/// The records of a topic after a query has copied them, with their headers, from another topic with them.
async fn copied(name: &str, select: &str, records: &[support::Record]) -> Vec<Record> {
    let kafka = Kafka::shared();
    let from = kafka.topic(name, 1).await;
    let to = create(&kafka.bootstrap, &format!("{name}-copy"), 1, &[]);
    kafka.send(&from, records).await;
    let (session, home) = (session(), Home::new());
    let frame = session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("subscribe", &from)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", true)
        .open()
        .unwrap();
    frame.create_or_replace_temp_view("records").unwrap();
    let frame = session
        .sql(&format!("SELECT {select} FROM records"))
        .await
        .unwrap();
    let query = frame
        .write_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("topic", &to)
        .option("checkpointLocation", home.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    read(&kafka.bootstrap, &to, Isolation::Committed)
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn p095_tombstones_and_empty_values_go_from_topic_to_topic_as_they_are() {
    let tombstone = support::Record {
        key: bytes("a"),
        ..support::Record::default()
    };
    let records = [
        value("v").key("a"),
        tombstone,
        value("").key("b"),
        value("x"),
    ];
    let copies = copied("p095", "key, value", &records).await;
    let pairs: Vec<_> = copies
        .into_iter()
        .map(|record| (record.key, record.value))
        .collect();
    assert_eq!(
        pairs,
        [
            (bytes("a"), bytes("v")),
            (bytes("a"), None),
            (bytes("b"), bytes("")),
            (None, bytes("x")),
        ]
    );
    // What is computed of a tombstone is still nothing, not the text 'null'.
    let select = "key, CAST(from_json(CAST(value AS STRING), 'id BIGINT').id AS STRING) AS value";
    let records = [
        value(r#"{"id":7}"#).key("a"),
        support::Record::default().key("a"),
    ];
    let values: Vec<_> = copied("p095-json", select, &records)
        .await
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert_eq!(values, [bytes("7"), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p097_headers_go_from_topic_to_topic_as_they_are() {
    let mut record = value("x");
    record.headers = vec![
        ("trace", Some("a")),
        ("trace", Some("b")),
        ("n", None),
        ("e", Some("")),
    ];
    let copies = copied("p097", "key, value, headers", &[record, value("y")]).await;
    let header = |name: &str, value: Option<&str>| (name.to_owned(), value.and_then(bytes));
    assert_eq!(
        copies[0].headers,
        [
            header("trace", Some("a")),
            header("trace", Some("b")),
            header("n", None),
            header("e", Some("")),
        ]
    );
    assert_eq!(
        (&copies[1].headers, &copies[1].value),
        (&vec![], &bytes("y"))
    );
}
