//! What a record becomes: keys, values, headers, timestamps, sizes.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, TimeUnit, TimestampMicrosecondType};
use weir::connectors::kafka::source::KafkaSource;
use weir::prelude::*;

use crate::kafka_broker::Broker;
use crate::support::{Kafka, Reading, Record, session, value};

/// The rows of a topic, read as a table with its headers.
async fn table(kafka: &Kafka, topic: &str) -> RecordBatch {
    let frame = session()
        .read()
        .format("kafka")
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", true)
        .open()
        .unwrap();
    let schema = frame.schema();
    let batches = frame.collect().await.unwrap();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

#[tokio::test]
async fn columns_are_sparks() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("columns", 1).await;
    let reading = Reading::of(&kafka, &topic);
    assert_eq!(
        reading.frame().unwrap().columns(),
        [
            "key",
            "value",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "timestampType"
        ]
    );
    let frame = reading.option("includeHeaders", true).frame().unwrap();
    let schema = frame.schema();
    assert_eq!(schema.field(0).data_type(), &DataType::Binary);
    assert_eq!(schema.field(3).data_type(), &DataType::Int32);
    assert_eq!(
        schema.field(5).data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    );
    let text = frame.schema_text();
    let header = "\n |-- headers: array (nullable = true)\n |    |-- element: struct (nullable = true)\n |    |    |-- key: string \
                  (nullable = true)\n |    |    |-- value: binary (nullable = true)";
    assert!(text.trim_end().ends_with(header), "{text}");
}

#[tokio::test]
async fn p095_null_and_empty_keys_and_values_are_told_apart() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p095", 1).await;
    let records = [
        value("v").key("a"),
        Record {
            key: Some(b"a".to_vec()),
            ..Record::default()
        },
        value("").key("b"),
        value("x"),
    ];
    kafka.send(&topic, &records).await;
    let batch = table(&kafka, &topic).await;
    let (keys, values) = (
        batch.column(0).as_binary::<i32>(),
        batch.column(1).as_binary::<i32>(),
    );
    let keys: Vec<Option<&[u8]>> = keys.iter().collect();
    let values: Vec<Option<&[u8]>> = values.iter().collect();
    assert_eq!(keys, [Some(&b"a"[..]), Some(b"a"), Some(b"b"), None]);
    assert_eq!(values, [Some(&b"v"[..]), None, Some(b""), Some(b"x")]);
    let session = session();
    let reader = session.read().format("kafka");
    let frame = reader
        .option("kafka.bootstrap.servers", &kafka.bootstrap)
        .option("subscribe", &topic)
        .open()
        .unwrap();
    let counted = frame
        .filter("value IS NULL AND key IS NOT NULL")
        .unwrap()
        .count()
        .await
        .unwrap();
    assert_eq!(counted, 1);
}

#[tokio::test]
async fn p097_headers_keep_order_duplicates_nulls_and_empty_values() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p097", 1).await;
    let mut record = value("x");
    record.headers = vec![
        ("trace", Some("a")),
        ("trace", Some("b")),
        ("n", None),
        ("e", Some("")),
    ];
    kafka.send(&topic, &[record, value("y")]).await;
    let batch = table(&kafka, &topic).await;
    let headers = batch.column_by_name("headers").unwrap().as_list::<i32>();
    assert!(headers.is_null(1));
    let items = headers.value(0);
    let names: Vec<Option<&str>> = items
        .as_struct()
        .column(0)
        .as_string::<i32>()
        .iter()
        .collect();
    assert_eq!(names, [Some("trace"), Some("trace"), Some("n"), Some("e")]);
    let values = items.as_struct().column(1).as_binary::<i32>();
    let values: Vec<Option<&[u8]>> = values.iter().collect();
    assert_eq!(values, [Some(&b"a"[..]), Some(b"b"), None, Some(b"")]);
}

#[tokio::test]
async fn timestamps_are_the_producers_or_the_brokers() {
    let kafka = Kafka::shared();
    let create = kafka.topic("created", 1).await;
    kafka
        .send(&create, &[value("x").at_ms(1_700_000_000_123)])
        .await;
    let batch = table(&kafka, &create).await;
    let times = batch.column(5).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.value(0), 1_700_000_000_123_000);
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().value(0), 0);
    let append = Kafka::name("appended");
    let settings = [("message.timestamp.type", "LogAppendTime")];
    kafka.create(&append, 1, &settings).await;
    kafka.send(&append, &[value("x").at_ms(1_000)]).await;
    let batch = table(&kafka, &append).await;
    let times = batch.column(5).as_primitive::<TimestampMicrosecondType>();
    assert!(times.value(0) > 1_000_000, "{}", times.value(0));
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().value(0), 1);
}

#[tokio::test]
async fn records_larger_than_a_fetch_come_whole() {
    let kafka = Kafka::shared();
    let topic = Kafka::name("large");
    kafka
        .create(&topic, 1, &[("max.message.bytes", "16000000")])
        .await;
    let large = |byte: u8, size: usize| Record {
        value: Some(vec![byte; size]),
        ..Record::default()
    };
    let records = [
        large(b'a', 10),
        large(b'b', 3_000_000),
        large(b'c', 12_000_000),
        large(b'd', 1),
    ];
    kafka.send(&topic, &records).await;
    let reading = Reading::of(&kafka, &topic).option("kafka.max.partition.fetch.bytes", 100_000);
    reading.run().await.unwrap();
    let lengths: Vec<usize> = reading.values().iter().map(String::len).collect();
    assert_eq!(lengths, [10, 3_000_000, 12_000_000, 1]);
}

#[tokio::test]
async fn records_of_kafkas_own_client_are_read_in_every_compression() {
    let kafka = Kafka::shared();
    let lines: Vec<String> = (0..300).map(|n| format!("key-{n:0>3}:value-{n}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for compression in ["gzip", "snappy", "lz4", "zstd"] {
        // The broker compresses for topics of a compression of their own.
        let topic = Kafka::name(compression);
        let settings = [("compression.type", compression)];
        kafka.create(&topic, 2, &settings).await;
        Broker::shared().produce(&topic, Some(":"), &lines);
        let batch = table(&kafka, &topic).await;
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        let (keys, values) = (batch.column(0), batch.column(1));
        let keys = keys.as_binary::<i32>().iter().map(text);
        let values = values.as_binary::<i32>().iter().map(text);
        let mut found: Vec<String> = keys.zip(values).map(|(k, v)| format!("{k}:{v}")).collect();
        found.sort();
        assert_eq!(found, lines, "{compression}");
    }
}

#[tokio::test]
async fn columns_that_nobody_reads_are_left_out_and_the_others_are_right() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("pruned", 2).await;
    kafka
        .send(&topic, &[value("x").key("k"), value("y").to(1)])
        .await;
    let session = session();
    let frame = kafka
        .stream(&session, &topic)
        .select_expr(&["CAST(value AS STRING) AS v", "partition AS p"])
        .unwrap();
    let query = frame
        .write_stream()
        .format("memory")
        .query_name("pruned")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let rows = session
        .sql("SELECT v, p FROM pruned ORDER BY p")
        .await
        .unwrap();
    let rows = rows.collect().await.unwrap();
    assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "x");
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

#[tokio::test]
async fn sources_made_in_code_read_the_same() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("in-code", 2).await;
    kafka
        .send(&topic, &[value("x"), value("y").to(1), value("z").to(1)])
        .await;
    let (servers, name) = (kafka.bootstrap.clone(), topic.clone());
    let reading = Reading::bare(&kafka);
    let frame = reading
        .session
        .read_stream()
        .source_fn(move || {
            KafkaSource::builder(&servers)
                .assign([(&name, 1)])
                .starting_offsets([(&name, 1, 1)])
                .build()
        })
        .unwrap();
    let query = reading
        .start_frame(frame, Trigger::AvailableNow)
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(reading.values(), ["z"]);
}
