//! Every column of the Kafka sink, and every output mode, through a session into a real topic.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use weir::Fault;
use weir::connectors::kafka::sink::KafkaSink;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use super::driver::Query;
use super::servers;
use super::topics::{Isolation, Record, committed_values, create, read, values};
use crate::kafka_broker::Broker;

/// A stream of these columns.
fn stream(session: &Session, columns: &str) -> (MemoryStream, DataFrame) {
    let stream = MemoryStream::new(weir::types::parse_schema(columns).unwrap());
    let reading = stream.clone();
    let frame = session
        .read_stream()
        .source_fn(move || Ok(reading.source()));
    (stream, frame.unwrap())
}

fn session() -> Session {
    Session::builder().parallelism(2).build().unwrap()
}

/// A writer to Kafka with a checkpoint of its own.
fn writer(frame: DataFrame, home: &tempfile::TempDir) -> weir::DataStreamWriter {
    let checkpoint = home.path().join("checkpoint").display().to_string();
    frame
        .write_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", servers())
        .option("checkpointLocation", checkpoint)
}

/// Runs a query until it has taken all of the stream.
async fn run(writer: weir::DataStreamWriter) -> Result<()> {
    let query = writer.trigger(Trigger::AvailableNow).start().await?;
    query.await_termination().await
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// What stands in the topic after a query that selects `select` from rows of one text `t`: a, empty and null.
async fn written(select: &str, options: &[(&str, &str)], topic: &str) -> Result<Vec<Record>> {
    let (session, home) = (session(), tempfile::tempdir().unwrap());
    let (stream, frame) = stream(&session, "t STRING");
    frame.create_or_replace_temp_view("rows")?;
    stream.add_columns(vec![texts(&[Some("a"), Some(""), None])])?;
    let frame = session.sql(&format!("SELECT {select} FROM rows")).await?;
    run(writer(frame, &home).options(options.iter().copied())).await?;
    let mut records = read(servers(), topic, Isolation::Committed);
    records.sort_by_key(|record| (record.value.clone(), record.key.clone()));
    Ok(records)
}

fn pairs(records: &[Record]) -> Vec<(Option<String>, Option<String>)> {
    records
        .iter()
        .map(|record| (record.key(), record.value()))
        .collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn key_and_value_as_text_and_as_bytes_keep_nulls_apart_from_empty_values() {
    for cast in ["STRING", "BINARY"] {
        let topic = create(servers(), "types", 1, &[]);
        let select = format!("CAST(t AS {cast}) AS value, CAST(t AS {cast}) AS key");
        let records = written(&select, &[("topic", &topic)], &topic)
            .await
            .unwrap();
        let expected = [(None, None), (some(""), some("")), (some("a"), some("a"))];
        assert_eq!(pairs(&records), expected, "{cast}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p095_null_value_is_a_tombstone_and_a_missing_key_is_null() {
    let topic = create(servers(), "tombstone", 1, &[]);
    let records = written("t AS value", &[("topic", &topic)], &topic)
        .await
        .unwrap();
    assert_eq!(
        pairs(&records),
        [(None, None), (None, some("")), (None, some("a"))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_comes_from_the_column_unless_the_option_says_so() {
    let [column, option] = ["column", "option"].map(|name| create(servers(), name, 1, &[]));
    let select = format!("t AS value, '{column}' AS topic");
    assert_eq!(written(&select, &[], &column).await.unwrap().len(), 3);
    assert_eq!(
        written(&select, &[("topic", &option)], &option)
            .await
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        read(servers(), &column, Isolation::Committed).len(),
        3,
        "the option wins"
    );
    let topic_of_null = "t AS value, t AS topic";
    let error = written(topic_of_null, &[], &column)
        .await
        .expect_err("no such topic or none");
    assert!(!error.is_retryable(), "{error}");
    let error = written("t AS value", &[], &column)
        .await
        .expect_err("nowhere to go");
    assert!(error.message().contains("option 'topic'"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_comes_from_the_column_where_it_is_not_null() {
    let topic = create(servers(), "partition", 4, &[]);
    let select =
        "t AS value, CASE WHEN t = 'a' THEN 3 WHEN t = '' THEN 1 END AS partition, 'k' AS key";
    let records = written(select, &[("topic", &topic)], &topic).await.unwrap();
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.value(), record.partition))
        .collect();
    assert_eq!(found[1..], [(some(""), 1), (some("a"), 3)]);
    assert!((0..4).contains(&found[0].1), "the partitioner's choice");
}

#[tokio::test(flavor = "multi_thread")]
async fn p097_headers_keep_order_repeated_names_null_and_empty_values() {
    let topic = create(servers(), "headers", 1, &[]);
    let select = "t AS value, array(
        named_struct('key', 'trace', 'value', CAST('a' AS BINARY)),
        named_struct('key', 'trace', 'value', CAST('b' AS BINARY)),
        named_struct('key', 'n', 'value', CAST(NULL AS BINARY)),
        named_struct('key', 'e', 'value', CAST('' AS BINARY))) AS headers";
    let records = written(select, &[("topic", &topic)], &topic).await.unwrap();
    let header = |name: &str, value: Option<&str>| {
        (
            name.to_owned(),
            value.map(|value| value.as_bytes().to_vec()),
        )
    };
    for record in &records {
        let expected = [
            header("trace", Some("a")),
            header("trace", Some("b")),
            header("n", None),
            header("e", Some("")),
        ];
        assert_eq!(record.headers, expected);
    }
    let off = [("topic", topic.as_str()), ("includeHeaders", "false")];
    let records = written(select, &off, &topic).await.unwrap();
    assert_eq!(
        records
            .iter()
            .filter(|record| record.headers.is_empty())
            .count(),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_do_not_fit_are_refused_when_the_query_starts() {
    let topic = create(servers(), "refused", 1, &[]);
    let cases = [
        ("1 AS value", "column 'value' has the type"),
        ("t AS value, 1 AS key", "column 'key' has the type"),
        (
            "t AS value, 1L AS partition",
            "column 'partition' has the type",
        ),
        ("t AS value, t AS headers", "column 'headers' has the type"),
        ("t AS key", "column 'value' is missing"),
        ("t AS value, t AS user", "'user'"),
    ];
    for (select, told) in cases {
        let error = written(select, &[("topic", &topic)], &topic)
            .await
            .expect_err(select);
        assert!(error.message().contains(told), "{select}: {error}");
        assert_eq!(error.fault(), Fault::Plan);
    }
    assert!(committed_values(servers(), &topic).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_needs_a_checkpoint_and_refuses_unknown_options() {
    let session = session();
    let (_stream, frame) = stream(&session, "value STRING");
    let start = |options: &[(&str, &str)]| {
        let servers = ("kafka.bootstrap.servers", servers());
        let options = options.iter().copied().chain([servers, ("topic", "t")]);
        frame
            .write_stream()
            .format("kafka")
            .options(options)
            .start()
    };
    let error = start(&[]).await.expect_err("no checkpoint");
    assert!(error.message().contains("checkpointLocation"), "{error}");
    let error = start(&[("checkpointLocation", "memory://x"), ("acks", "1")]).await;
    assert!(error.expect_err("unknown").message().contains("'acks'"));
    let setting = "spark.sql.kafka.disallowedOptions";
    session
        .conf()
        .set(setting, "client.id, lostMarker")
        .unwrap();
    for name in ["kafka.client.id", "LOSTMARKER"] {
        let error = start(&[("checkpointLocation", "memory://x"), (name, "write")]).await;
        let error = error.expect_err("not allowed");
        assert!(error.message().contains(setting), "{error}");
    }
    for name in ["key.serializer", "value.serializer"] {
        let name = format!("kafka.{name}");
        let error = start(&[("checkpointLocation", "memory://x"), (&name, "x")]).await;
        let error = error.expect_err("the sink's own");
        assert!(error.message().contains(&name), "{error}");
    }
}

/// Numbers by key in output mode `mode`, in two epochs: (a, 1), (b, 2), then (a, 10).
async fn sums(mode: &str, topic: &str) {
    let (session, home) = (session(), tempfile::tempdir().unwrap());
    let (stream, frame) = stream(&session, "k STRING, n BIGINT");
    frame.create_or_replace_temp_view("numbers").unwrap();
    let sums = "SELECT k AS key, CAST(sum(n) AS STRING) AS value FROM numbers GROUP BY k";
    let frame = session.sql(sums).await.unwrap();
    let writing = || {
        writer(frame.clone(), &home)
            .output_mode(mode)
            .option("topic", topic)
    };
    let numbers = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    stream
        .add_columns(vec![texts(&[Some("a"), Some("b")]), numbers(&[1, 2])])
        .unwrap();
    let query = writing().start().await.unwrap();
    query.process_all_available().await.unwrap();
    stream
        .add_columns(vec![texts(&[Some("a")]), numbers(&[10])])
        .unwrap();
    query.process_all_available().await.unwrap();
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn update_mode_writes_changed_rows_and_complete_mode_the_whole_result() {
    let expected = [
        ("update", vec!["1", "11", "2"]),
        ("complete", vec!["1", "11", "2", "2"]),
    ];
    for (mode, expected) in expected {
        let topic = create(servers(), mode, 1, &[]);
        sums(mode, &topic).await;
        assert_eq!(committed_values(servers(), &topic), expected, "{mode}");
    }
}

/// How many keys have which sum, in mode update over two epochs: a has 1, then 11.
async fn keys_by_sum(select: &str, topic: &str) -> Result<()> {
    let (session, home) = (session(), tempfile::tempdir().unwrap());
    let (stream, frame) = stream(&session, "k STRING, n BIGINT");
    frame.create_or_replace_temp_view("numbers")?;
    let counts = format!(
        "SELECT {select} FROM (SELECT s, count(*) AS c
         FROM (SELECT k, sum(n) AS s FROM numbers GROUP BY k) GROUP BY s)"
    );
    let frame = session.sql(&counts).await?;
    let query = writer(frame, &home)
        .output_mode("update")
        .option("topic", topic)
        .start()
        .await?;
    for number in [1, 10] {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![number]));
        stream.add_columns(vec![texts(&[Some("a")]), numbers])?;
        query.process_all_available().await?;
    }
    query.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_is_gone_becomes_a_tombstone_for_its_key() {
    let topic = create(servers(), "gone", 1, &[]);
    keys_by_sum(
        "CAST(s AS STRING) AS key, CAST(c AS STRING) AS value",
        &topic,
    )
    .await
    .unwrap();
    let mut found = pairs(&read(servers(), &topic, Isolation::Committed));
    found.sort();
    let expected = [
        (some("1"), None),
        (some("1"), some("1")),
        (some("11"), some("1")),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_is_gone_and_has_no_key_fails_and_says_what_to_add() {
    let topic = create(servers(), "keyless", 1, &[]);
    let error = keys_by_sum("CAST(c AS STRING) AS value", &topic)
        .await
        .expect_err("no key");
    assert!(error.message().contains("column 'key'"), "{error}");
    assert_eq!(committed_values(servers(), &topic), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_to_the_partitions_where_the_java_client_puts_them() {
    let [ours, java] = ["ours", "java"].map(|name| create(servers(), name, 5, &[]));
    let keys: Vec<String> = (0..40).map(|number| format!("key-{number}")).collect();
    let lines: Vec<String> = keys.iter().map(|key| format!("{key}:{key}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Broker::shared().produce(&java, Some(":"), &lines);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut generation = Query::new()
        .open(KafkaSink::builder(servers()).topic(&ours))
        .await
        .unwrap();
    generation.epoch(0, &keys).await.unwrap();
    let partitions = |topic: &str| {
        let records = read(servers(), topic, Isolation::Committed);
        let partitions = records
            .iter()
            .map(|record| (record.key(), record.partition));
        partitions.collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(partitions(&ours).len(), 40);
    assert_eq!(partitions(&ours), partitions(&java));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_says_what_was_written_and_promised_and_empty_epochs_write_nothing() {
    let (session, home) = (session(), tempfile::tempdir().unwrap());
    let topic = create(servers(), "progress", 2, &[]);
    let (stream, frame) = stream(&session, "value STRING");
    let frame = frame.filter("value <> 'none'").unwrap();
    let query = writer(frame, &home)
        .option("topic", &topic)
        .start()
        .await
        .unwrap();
    for value in ["a", "none", "b"] {
        stream.add_columns(vec![texts(&[Some(value)])]).unwrap();
        query.process_all_available().await.unwrap();
    }
    let progress = query.recent_progress();
    let messages: Vec<&str> = progress
        .iter()
        .map(|epoch| epoch.sink.metrics["messages"].as_str())
        .collect();
    assert_eq!(messages, ["1", "0", "1"]);
    let sink = &progress[0].sink;
    assert_eq!(sink.description, format!("KafkaSink[{topic}]"));
    assert_eq!(sink.metrics["delivery"], "exactly-once");
    query.stop().await;
    assert_eq!(
        values(&read(servers(), &topic, Isolation::Committed)),
        ["a", "b"]
    );
}
