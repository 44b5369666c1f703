//! Payloads that cannot be read: they end the query with their place, become NULL and are counted, or go to a topic of their own.

use arrow::array::{Array, AsArray};
use weir::Fault;
use weir::prelude::*;

use crate::sink::topics::{Isolation, create, read};
use crate::support::{Home, Kafka, Record, last_with_rows, session, value};

/// A long `id`.
const AVRO: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}"#;

/// The same as a message: one field, `id`, of number 1.
fn descriptor() -> String {
    let proto = "syntax = \"proto3\"; message Order { int64 id = 1; }";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("order.proto"), proto).unwrap();
    let mut compiler = protox::Compiler::new([home.path()]).unwrap();
    compiler.open_file("order.proto").unwrap();
    let bytes = compiler.encode_file_descriptor_set();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One way to write orders: how they are read (`MODE` stands for the mode), one with the id 3, and one that is bad.
struct Format {
    name: &'static str,
    read: String,
    good: &'static [u8],
    bad: &'static [u8],
}

fn formats() -> [Format; 3] {
    [
        Format {
            name: "json",
            read: "from_json(CAST(value AS STRING), 'id BIGINT', map('mode', 'MODE'))".to_owned(),
            good: br#"{"id":3}"#,
            bad: br#"{"id":"#,
        },
        Format {
            name: "avro",
            read: format!("from_avro(value, '{AVRO}', map('mode', 'MODE'))"),
            good: b"\x06",
            bad: b"\x06\x06",
        },
        Format {
            name: "protobuf",
            read: format!(
                "from_protobuf(value, 'Order', X'{}', map('mode', 'MODE'))",
                descriptor()
            ),
            good: b"\x08\x03",
            bad: b"\x08",
        },
    ]
}

fn bytes(payload: &[u8]) -> Record {
    Record {
        value: Some(payload.to_vec()),
        ..Record::default()
    }
}

/// The result of a query over the records of a topic, in memory.
async fn run(kafka: &Kafka, topic: &str, sql: &str) -> Result<(Session, StreamingQuery)> {
    let session = session();
    kafka
        .stream(&session, topic)
        .create_or_replace_temp_view("records")?;
    let query = session
        .sql(sql)
        .await?
        .write_stream()
        .format("memory")
        .query_name("result")
        .trigger(Trigger::AvailableNow)
        .start()
        .await?;
    query.await_termination().await?;
    Ok((session, query))
}

#[tokio::test]
async fn bad_payloads_end_the_query_with_topic_partition_and_offset() {
    let kafka = Kafka::shared();
    for Format {
        name,
        read,
        good,
        bad,
    } in formats()
    {
        let topic = kafka.topic(&format!("fail-{name}"), 2).await;
        let mut records = vec![bytes(good); 5];
        records.extend(vec![bytes(good).to(1); 40]);
        // A tombstone is not bad.
        records[7].value = None;
        records[42].value = Some(bad.to_vec());
        kafka.send(&topic, &records).await;
        let read = read.replace("MODE", "FAILFAST");
        let place = format!("{topic}-1-37, ");
        // Rows before it, rows left out before it, and a condition that reads it.
        for sql in [
            format!("SELECT {read}.id FROM records"),
            format!("SELECT offset, {read} AS o FROM records WHERE offset >= 20 AND partition = 1"),
            format!("SELECT key FROM records WHERE {read}.id > 1"),
            format!(
                "SELECT id FROM (SELECT {read}.id AS id FROM records WHERE partition = 1) WHERE id > 1"
            ),
        ] {
            let error = match run(&kafka, &topic, &sql).await {
                Err(error) => error,
                Ok(_) => panic!("{sql} reads a bad payload"),
            };
            assert_eq!(error.fault(), Fault::Data, "{sql}: {error:?}");
            let position = error.position().unwrap_or_default();
            assert!(position.starts_with(&place), "{sql}: {error}");
            assert!(error.message().contains(&format!("from_{name}")), "{error}");
        }
    }
}

#[tokio::test]
async fn p081_a_bad_payload_commits_nothing_and_bad_payloads_alone_are_read_to_their_end() {
    let kafka = Kafka::shared();
    for Format {
        name, read, bad, ..
    } in formats()
    {
        let topic = kafka.topic(&format!("poison-{name}"), 1).await;
        kafka.send(&topic, &vec![bytes(bad); 5]).await;
        let home = Home::new();
        let run = async |mode: &str| -> Result<StreamingQuery> {
            let session = session();
            let records = kafka.stream(&session, &topic);
            records.create_or_replace_temp_view("records")?;
            let sql = format!("SELECT {}.id FROM records", read.replace("MODE", mode));
            let query = session
                .sql(&sql)
                .await?
                .write_stream()
                .format("noop")
                .option("checkpointLocation", home.text("checkpoint"))
                .trigger(Trigger::AvailableNow)
                .start()
                .await?;
            query.await_termination().await?;
            Ok(query)
        };
        let error = run("FAILFAST").await.unwrap_err();
        let place = error.position().unwrap_or_default();
        assert!(place.starts_with(&format!("{topic}-0-0, ")), "{error}");
        let committed = home.text("checkpoint/commits/0");
        assert!(!std::path::Path::new(&committed).exists(), "{name}");
        let query = run("PERMISSIVE").await.unwrap();
        let progress = last_with_rows(&query);
        assert_eq!(progress.num_input_rows, 5, "{name}");
        assert_eq!(progress.sources[0].metrics["badRecords"], "5", "{name}");
        assert!(std::path::Path::new(&committed).exists(), "{name}");
    }
}

#[tokio::test]
async fn bad_payloads_that_become_null_are_counted_in_progress_and_tombstones_are_not() {
    let kafka = Kafka::shared();
    for Format {
        name,
        read,
        good,
        bad,
    } in formats()
    {
        let topic = kafka.topic(&format!("null-{name}"), 2).await;
        let tombstone = Record::default();
        let records = [
            bytes(good),
            bytes(bad).to(1),
            tombstone.clone(),
            bytes(bad),
            tombstone.to(1),
        ];
        kafka.send(&topic, &records).await;
        let sql = format!(
            "SELECT value IS NULL AS nothing, {}.id AS id FROM records",
            read.replace("MODE", "PERMISSIVE")
        );
        let (session, query) = run(&kafka, &topic, &sql).await.unwrap();
        let ids = "SELECT count(*) AS n FROM result WHERE id = 3";
        let nulls = "SELECT count(*) AS n FROM result WHERE id IS NULL";
        for (sql, expected) in [(ids, 1), (nulls, 4)] {
            let counted = session.sql(sql).await.unwrap().collect().await.unwrap();
            let counted = counted[0]
                .column(0)
                .as_primitive::<arrow::datatypes::Int64Type>();
            assert_eq!(counted.value(0), expected, "{name}: {sql}");
        }
        let progress = last_with_rows(&query);
        assert_eq!(progress.num_input_rows, 5, "{name}");
        assert_eq!(progress.sources[0].metrics["badRecords"], "2", "{name}");
        let malformed: u64 = query
            .metrics()
            .operators()
            .into_iter()
            .map(|(_, _, counts)| counts.malformed)
            .sum();
        assert_eq!(malformed, 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_go_to_their_topic_in_the_transaction_of_the_good_rows() {
    let kafka = Kafka::shared();
    for Format {
        name,
        read: reading,
        good,
        bad,
    } in formats()
    {
        let topic = kafka.topic(&format!("letters-{name}"), 2).await;
        let [orders, dead] = ["orders", "dead"].map(|what| create(&kafka.bootstrap, what, 1, &[]));
        let records = [
            bytes(good).key("a"),
            bytes(bad).key("b"),
            Record::default().key("c"),
            bytes(bad).to(1).key("d"),
        ];
        kafka.send(&topic, &records).await;
        let (session, home) = (session(), Home::new());
        let records = kafka.stream(&session, &topic);
        records.create_or_replace_temp_view("records").unwrap();
        let sql = format!(
            "SELECT if(why IS NULL, '{orders}', '{dead}') AS topic, key, value,
                    if(why IS NULL, NULL, array(
                        named_struct('key', 'why', 'value', CAST(why AS BINARY)),
                        named_struct('key', 'from', 'value', CAST(from AS BINARY)))) AS headers
             FROM (SELECT key, value, concat_ws('-', topic, partition, offset) AS from,
                          payload_error({}) AS why FROM records)",
            reading.replace("MODE", "FAILFAST")
        );
        let query = session
            .sql(&sql)
            .await
            .unwrap()
            .write_stream()
            .format("kafka")
            .option("kafka.bootstrap.servers", &kafka.bootstrap)
            .option("checkpointLocation", home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start()
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        let [good_rows, letters] =
            [&orders, &dead].map(|topic| read(&kafka.bootstrap, topic, Isolation::Committed));
        let keys = |records: &[crate::sink::topics::Record]| {
            let mut keys: Vec<_> = records.iter().filter_map(|record| record.key()).collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&good_rows), ["a", "c"], "{name}");
        assert_eq!(keys(&letters), ["b", "d"], "{name}");
        for letter in &letters {
            assert_eq!(letter.value.as_deref(), Some(bad), "{name}: as it came");
            let header = |index: usize| {
                let (key, value) = &letter.headers[index];
                let text = String::from_utf8(value.clone().unwrap()).unwrap();
                (key.clone(), text)
            };
            let (why, from) = (header(0), header(1));
            assert!(why.0 == "why" && !why.1.is_empty(), "{name}: {why:?}");
            let place = match letter.key().as_deref() {
                Some("b") => format!("{topic}-0-1"),
                _ => format!("{topic}-1-0"),
            };
            assert_eq!(from, ("from".to_owned(), place), "{name}");
        }
    }
}

#[tokio::test]
async fn p095_nothing_is_no_bad_payload() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("nothing", 1).await;
    kafka.send(&topic, &[Record::default(), value("")]).await;
    let sql = "SELECT from_json(CAST(value AS STRING), 'id BIGINT', map('mode', 'FAILFAST')) AS o,
                      payload_error(from_json(CAST(value AS STRING), 'id BIGINT')) AS why FROM records";
    let (session, query) = run(&kafka, &topic, sql).await.unwrap();
    let rows = session.sql("SELECT * FROM result").await.unwrap();
    for batch in rows.collect().await.unwrap() {
        assert_eq!(batch.column(0).null_count(), batch.num_rows());
        assert_eq!(batch.column(1).null_count(), batch.num_rows());
    }
    assert_eq!(last_with_rows(&query).sources[0].metrics["badRecords"], "0");
}
