//! Avro in a schema registry's wire format against a real registry, which `scripts/kafka/registry` starts.

#![allow(clippy::unwrap_used)]

mod server;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use serde_json::{Value, json};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use server::Server;

const V1: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"customer","type":"string"}]}"#;
const V2: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"customer","type":"string"},{"name":"amount","type":["null","double"],"default":null}]}"#;

const V3: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"gift","type":"boolean","default":false},{"name":"id","type":"long"},{"name":"customer","type":"string"},{"name":"amount","type":["null","double"],"default":null}]}"#;

/// 7, "Anna" in the first version, 8, "Bo", 1.5 in the second, and 9, "Cy", a gift, in the third.
const FIRST: &[u8] = b"\x0e\x08Anna";
const SECOND: &[u8] = b"\x10\x04Bo\x02\x00\x00\x00\x00\x00\x00\xf8\x3f";

const THIRD: &[u8] = b"\x01\x12\x04Cy\x00";

fn framed(id: u32, body: &[u8]) -> Option<Vec<u8>> {
    Some([&[0][..], &id.to_be_bytes(), body].concat())
}

fn frame(session: &Session, payloads: &[Option<Vec<u8>>]) -> DataFrame {
    let column: BinaryArray = payloads.iter().map(|p| p.as_deref()).collect();
    let batch = RecordBatch::try_from_iter([("value", Arc::new(column) as ArrayRef)]).unwrap();
    session.create_dataframe([batch]).unwrap()
}

async fn texts(frame: &DataFrame, column: &str) -> Vec<Option<String>> {
    let batches = frame
        .select([expr(column).alias("out")])
        .unwrap()
        .collect()
        .await
        .unwrap();
    let texts = |b: &RecordBatch| {
        b.column(0)
            .as_string::<i32>()
            .iter()
            .map(|v| v.map(str::to_owned))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(texts).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn payloads_of_many_schemas_are_read_in_the_newest() {
    let server = Server::shared();
    let (one, two) = (
        server.register("orders-value", V1),
        server.register("orders-value", V2),
    );
    assert_ne!(one, two);
    let session = Session::new().unwrap();
    let payloads = [
        framed(one, FIRST),
        framed(two, SECOND),
        None,
        framed(one, FIRST),
    ];
    let frame = frame(&session, &payloads);
    let read = format!(
        "from_avro(value, 'orders-value', map('schema.registry.url', '{}'))",
        server.url
    );
    let frame = frame.select([expr(&read).alias("order")]).unwrap();
    let first = r#"{"id":7,"customer":"Anna"}"#;
    let second = r#"{"id":8,"customer":"Bo","amount":1.5}"#;
    assert_eq!(
        texts(&frame, "to_json(order)").await,
        [some(first), some(second), None, some(first)]
    );
}

#[tokio::test]
async fn the_readers_version_can_be_chosen() {
    let server = Server::shared();
    let (one, two) = (
        server.register("pinned-value", V1),
        server.register("pinned-value", V2),
    );
    let session = Session::new().unwrap();
    let frame = frame(&session, &[framed(one, FIRST), framed(two, SECOND)]);
    let read = format!(
        "to_json(from_avro(value, '', map('schema.registry.url', '{}', 'schema.registry.subject', 'pinned-value', 'schema.registry.version', '1')))",
        server.url
    );
    let expected = [
        some(r#"{"id":7,"customer":"Anna"}"#),
        some(r#"{"id":8,"customer":"Bo"}"#),
    ];
    assert_eq!(texts(&frame, &read).await, expected);
    let own = r#"{"type":"record","name":"Order","fields":[{"name":"customer","type":"string"},{"name":"more","type":"int","default":5}]}"#;
    let read = format!(
        "to_json(from_avro(value, 'pinned-value', map('schema.registry.url', '{}', 'avroSchema', '{own}')))",
        server.url
    );
    let expected = [
        some(r#"{"customer":"Anna","more":5}"#),
        some(r#"{"customer":"Bo","more":5}"#),
    ];
    assert_eq!(texts(&frame, &read).await, expected);
}

#[tokio::test]
async fn payloads_that_no_schema_describes_follow_the_mode() {
    let server = Server::shared();
    let one = server.register("bad-value", V1);
    let session = Session::new().unwrap();
    let payloads = [
        framed(one, FIRST),
        framed(987_654, FIRST),
        Some(b"\x01rubbish".to_vec()),
        framed(one, &FIRST[..3]),
        Some(vec![]),
        framed(one, FIRST),
    ];
    let frame = frame(&session, &payloads);
    let read = |mode: &str| {
        format!(
            "from_avro(value, 'bad-value', map('schema.registry.url', '{}', 'mode', '{mode}'))",
            server.url
        )
    };
    let good = some(r#"{"id":7,"customer":"Anna"}"#);
    let bad = some("{}");
    let expected = [
        good.clone(),
        bad.clone(),
        bad.clone(),
        bad.clone(),
        bad,
        good,
    ];
    assert_eq!(
        texts(&frame, &format!("to_json({})", read("PERMISSIVE"))).await,
        expected
    );
    let failed = frame
        .select([expr(&read("FAILFAST"))])
        .unwrap()
        .collect()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("row 1 of the batch") && failed.contains("schema 987654"),
        "{failed}"
    );
    let reasons = texts(&frame, &format!("payload_error({})", read("FAILFAST"))).await;
    let said = [
        None,
        Some("schema 987654"),
        Some("byte 0"),
        Some("schema"),
        Some("no bytes"),
        None,
    ];
    for (reason, said) in reasons.iter().zip(said) {
        let reason = reason.as_deref();
        assert!(
            reason.is_some() == said.is_some()
                && reason
                    .unwrap_or_default()
                    .contains(said.unwrap_or_default()),
            "{reason:?} instead of {said:?}"
        );
    }
    let missing = read("FAILFAST', 'basic.auth.user.info', 'me:s3cret");
    let missing = missing.replace("bad-value", "nowhere-value");
    let failed = frame.select([expr(&missing)]).unwrap_err().to_string();
    assert!(
        failed.contains("nowhere-value") && failed.contains("404") && !failed.contains("s3cret"),
        "{failed}"
    );
}

#[tokio::test]
async fn values_are_written_under_a_schema_that_is_registered() {
    let server = Server::shared();
    let session = Session::new().unwrap();
    let frame = frame(&session, &[Some(b"x".to_vec()), None]);
    let row = "struct(CAST(value AS STRING) AS customer, length(value) AS n)";
    let write = |options: &str| {
        format!(
            "to_avro({row}, 'written-value', map('schema.registry.url', '{}'{options}))",
            server.url
        )
    };
    // Nothing is registered unless it may be.
    let refused = frame
        .select([expr(&write(", 'auto.register.schemas', 'false'"))])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("auto.register.schemas"), "{refused}");
    let written = frame.select([expr(&write("")).alias("value")]).unwrap();
    let known = server.get("subjects/written-value/versions/latest");
    let schema: Value = serde_json::from_str(known["schema"].as_str().unwrap()).unwrap();
    assert_eq!(
        schema["fields"][0],
        json!({"name": "customer", "type": ["string", "null"]})
    );
    let batches = written.collect().await.unwrap();
    let id = u32::try_from(known["id"].as_u64().unwrap()).unwrap();
    assert_eq!(
        batches[0].column(0).as_binary::<i32>().value(0),
        [&[0][..], &id.to_be_bytes(), b"\x00\x02x\x00\x02"].concat()
    );
    // What is registered is found again, and read back.
    let again = frame
        .select([expr(&write(", 'auto.register.schemas', 'false'")).alias("value")])
        .unwrap();
    assert_eq!(again.collect().await.unwrap(), batches);
    let read = format!(
        "to_json(from_avro(value, 'written-value', map('schema.registry.url', '{}')))",
        server.url
    );
    assert_eq!(
        texts(&written, &read).await,
        [some(r#"{"customer":"x","n":1}"#), some("{}")]
    );
    // An existing version can be written as it is.
    let pinned = frame
        .select([expr(&write(", 'schema.registry.version', '1'")).alias("value")])
        .unwrap();
    assert_eq!(pinned.collect().await.unwrap(), batches);
}

#[tokio::test]
async fn a_schema_that_the_registry_finds_incompatible_is_refused_with_its_reason() {
    let server = Server::shared();
    server.register("strict-value", V1);
    server.put("config/strict-value", &json!({"compatibility": "BACKWARD"}));
    let session = Session::new().unwrap();
    let frame = frame(&session, &[None]);
    let write = format!(
        "to_avro(struct(1 AS other), 'strict-value', map('schema.registry.url', '{}'))",
        server.url
    );
    let refused = frame.select([expr(&write)]).unwrap_err().to_string();
    assert!(
        refused.contains("409") && refused.contains("strict-value"),
        "{refused}"
    );
    // A schema that does not fit the column never reaches the registry.
    let before = server.get("subjects/strict-value/versions");
    let write = format!(
        "to_avro(1, 'strict-value', map('schema.registry.url', '{}', 'avroSchema', '{V2}'))",
        server.url
    );
    let refused = frame.select([expr(&write)]).unwrap_err().to_string();
    assert!(refused.contains("cannot be written as record"), "{refused}");
    assert_eq!(server.get("subjects/strict-value/versions"), before);
}

#[tokio::test]
async fn schemas_may_refer_to_schemas_of_other_subjects() {
    let server = Server::shared();
    let item = r#"{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"sku","type":"string"}]}"#;
    server.register("shop.Item", item);
    let basket = r#"{"type":"record","name":"Basket","namespace":"shop","fields":[{"name":"items","type":{"type":"array","items":"shop.Item"}}]}"#;
    let references = json!([{"name": "shop.Item", "subject": "shop.Item", "version": 1}]);
    let body = json!({"schema": basket, "references": references});
    let id = server.post("subjects/basket-value/versions", &body)["id"]
        .as_u64()
        .unwrap();
    let session = Session::new().unwrap();
    let frame = frame(
        &session,
        &[framed(u32::try_from(id).unwrap(), b"\x04\x02a\x02b\x00")],
    );
    let read = format!(
        "to_json(from_avro(value, 'basket-value', map('schema.registry.url', '{}')))",
        server.url
    );
    assert_eq!(
        texts(&frame, &read).await,
        [some(r#"{"items":[{"sku":"a"},{"sku":"b"}]}"#)]
    );
}

#[tokio::test]
async fn a_registry_that_is_gone_is_needed_for_new_schemas_only() {
    let mut server = Server::start();
    let (one, two) = (
        server.register("gone-value", V1),
        server.register("gone-value", V2),
    );
    let session = Session::new().unwrap();
    let options = format!(
        "map('schema.registry.url', '{}', 'mode', 'PERMISSIVE', 'schema.registry.retries', '1', 'schema.registry.timeout.ms', '1000')",
        server.url
    );
    let read = format!("to_json(from_avro(value, 'gone-value', {options}))");
    let known = frame(&session, &[framed(two, SECOND)])
        .select([expr(&read)])
        .unwrap();
    let new = frame(&session, &[framed(one, FIRST)])
        .select([expr(&read)])
        .unwrap();
    server.stop();
    assert_eq!(known.count().await.unwrap(), 1);
    let failed = new.collect().await.unwrap_err().to_string();
    assert!(failed.contains("no answer after 2 attempts"), "{failed}");
    assert_eq!(
        known.collect().await.unwrap()[0]
            .column(0)
            .as_string::<i32>()
            .value(0),
        r#"{"id":8,"customer":"Bo","amount":1.5}"#
    );
}

#[tokio::test]
async fn writers_move_on_while_a_query_runs_and_its_columns_stay() {
    let server = Server::shared();
    let (one, two) = (
        server.register("moving-value", V1),
        server.register("moving-value", V2),
    );
    let home = tempfile::tempdir().unwrap();
    let session = Session::new().unwrap();
    let stream = MemoryStream::new(weir::types::parse_schema("value BINARY").unwrap());
    let reading = stream.clone();
    let frame = session
        .read_stream()
        .source_fn(move || Ok(reading.source()))
        .unwrap();
    let read = format!(
        "to_json(from_avro(value, 'moving-value', map('schema.registry.url', '{}', 'mode', 'PERMISSIVE')))",
        server.url
    );
    let query = frame
        .select([expr(&read).alias("order")])
        .unwrap()
        .write_stream()
        .format("memory")
        .query_name("moving")
        .option("checkpointLocation", home.path().display())
        .start()
        .await
        .unwrap();
    let add = |payload: Option<Vec<u8>>| {
        let column: BinaryArray = [payload.as_deref()].into_iter().collect();
        stream.add_columns(vec![Arc::new(column)]).unwrap();
    };
    add(framed(one, FIRST));
    add(framed(two, SECOND));
    query.process_all_available().await.unwrap();
    let three = server.register("moving-value", V3);
    assert!(three != one && three != two);
    add(framed(three, THIRD));
    // An id of nobody, and half a payload.
    add(framed(987_654, FIRST));
    add(framed(three, &THIRD[..3]));
    add(None);
    query.process_all_available().await.unwrap();
    query.stop().await;
    let bad = |progress: &QueryProgress| -> u64 {
        progress.sources[0].metrics["badRecords"].parse().unwrap()
    };
    let bad: u64 = query.recent_progress().iter().map(bad).sum();
    assert_eq!(bad, 2, "the two that became NULL, not the one that was");
    let rows = session.table("moving").await.unwrap();
    let mut found = texts(&rows, "order").await;
    found.sort();
    let read = [
        r#"{"id":7,"customer":"Anna"}"#,
        r#"{"id":8,"customer":"Bo","amount":1.5}"#,
        r#"{"id":9,"customer":"Cy"}"#,
    ];
    let expected = [None]
        .into_iter()
        .chain(read.map(some))
        .chain(["{}"; 2].map(some));
    assert_eq!(found, expected.collect::<Vec<_>>());
}
