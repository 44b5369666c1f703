//! Messages that Python's protobuf wrote (`tests/payloads`), broken ones, and the rules of Spark's options.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arrow::array::{Array, AsArray};
use serde_json::Value;

use super::super::testing::{as_json, column, error, hex, session, unhex};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/payloads");

/// The descriptor of both `.proto` files as an SQL literal.
static DESCRIPTOR: LazyLock<String> = LazyLock::new(|| format!("X'{}'", hex(&descriptor())));

fn descriptor() -> Vec<u8> {
    let mut compiler = protox::Compiler::new([DIRECTORY]).expect("compiler");
    compiler.include_imports(true);
    compiler
        .open_files(["shop.proto", "old.proto"])
        .expect("files");
    compiler.encode_file_descriptor_set()
}

fn payload(name: &str) -> Option<Vec<u8>> {
    let made: Value =
        serde_json::from_str(include_str!("../../../../tests/payloads/protobuf.json"))
            .expect("fixtures");
    Some(unhex(made[name].as_str().expect("a payload of this name")))
}

fn call(message: &str, options: &str) -> String {
    format!(
        "from_protobuf(b, '{message}', {}, map({options}))",
        *DESCRIPTOR
    )
}

async fn read(name: &str, message: &str, options: &str) -> String {
    let (_, rows) = as_json(&[payload(name)], &call(message, options))
        .await
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    rows[0].clone().expect("a message")
}

#[tokio::test]
async fn a_message_of_another_implementation_becomes_columns() {
    let (t, rows) = as_json(
        &[payload("order"), payload("empty order"), None],
        &call("shop.Order", ""),
    )
    .await
    .expect("rows");
    assert_eq!(
        t,
        "STRUCT<id: BIGINT, customer: STRING, status: STRING, items: ARRAY<STRUCT<sku: STRING, quantity: INT>>, \
         stock: MAP<STRING, INT>, at: TIMESTAMP, took: INTERVAL DAY TO SECOND, card: STRING, cash: BIGINT, rating: INT, \
         numbers: ARRAY<INT>, history: ARRAY<STRING>, blob: BINARY, price: DOUBLE, weight: FLOAT, gift: BOOLEAN, small: INT, \
         large: BIGINT, delta: BIGINT, f32: INT, f64: BIGINT, main: STRUCT<sku: STRING, quantity: INT>, note: STRUCT<value: STRING>>"
    );
    let order = rows[0].as_deref().expect("an order");
    let expected = concat!(
        r#"{"id":7,"customer":"Anna","status":"PAID","items":[{"sku":"a","quantity":2},{}],"stock":{"b":0,"x":1},"#,
        r#""at":"2026-01-02T03:04:05.678Z","took":"INTERVAL '-0 00:00:01.5' DAY TO SECOND","card":"visa","rating":0,"numbers":[1,-1,300],"#,
        r#""history":["NEW","SHIPPED"],"blob":"AP8=","price":1.5,"weight":0.25,"gift":true,"small":-1,"large":-1,"delta":-3,"#,
        r#""f32":-294967296,"f64":-9,"main":{"sku":"m"},"note":{"value":"hello"}}"#
    );
    assert_eq!(order, expected);
    assert_eq!(
        rows[1].as_deref(),
        Some(r#"{"items":[],"stock":{},"numbers":[],"history":[]}"#)
    );
    assert_eq!(rows[2], None);
}

#[tokio::test]
async fn options_change_columns_as_in_spark() {
    let wide = read("order", "shop.Order", "'upcast.unsigned.ints', 'true'").await;
    assert!(
        wide.contains(r#""small":4294967295,"large":18446744073709551615"#),
        "{wide}"
    );
    assert!(wide.contains(r#""f32":4000000000"#), "{wide}");
    let numbers = read("order", "shop.Order", "'enums.as.ints', 'true'").await;
    assert!(
        numbers.contains(r#""status":1"#) && numbers.contains(r#""history":[0,2]"#),
        "{numbers}"
    );
    let plain = read(
        "order",
        "shop.Order",
        "'unwrap.primitive.wrapper.types', 'true'",
    )
    .await;
    assert!(plain.contains(r#""note":"hello""#), "{plain}");
    let defaults = read("empty order", "shop.Order", "'emit.default.values', 'true'").await;
    let expected = concat!(
        r#"{"id":0,"customer":"","status":"NEW","items":[],"stock":{},"numbers":[],"history":[],"blob":"","price":0.0,"#,
        r#""weight":0.0,"gift":false,"small":0,"large":0,"delta":0,"f32":0,"f64":0}"#
    );
    assert_eq!(defaults, expected);
    let any = read(
        "envelope",
        "shop.Envelope",
        "'convert.any.fields.to.json', 'true'",
    )
    .await;
    let any: Value = serde_json::from_str(&any).expect("JSON");
    let inside: Value = serde_json::from_str(any["payload"].as_str().expect("text")).expect("JSON");
    assert_eq!(
        inside,
        serde_json::json!({"@type": "type.googleapis.com/shop.Item", "sku": "a", "quantity": 2})
    );
}

#[tokio::test]
async fn messages_within_themselves_end_where_the_option_says() {
    let refused = error(&[payload("node")], &call("shop.Node", "")).await;
    assert!(
        refused.1.contains("shop.Node contains itself"),
        "{refused:?}"
    );
    let depths = [
        ("1", r#"{"value":1}"#),
        ("2", r#"{"value":1,"next":{"value":2}}"#),
        ("4", r#"{"value":1,"next":{"value":2,"next":{"value":3}}}"#),
    ];
    for (depth, expected) in depths {
        let found = read(
            "node",
            "Node",
            &format!("'recursive.fields.max.depth', '{depth}'"),
        )
        .await;
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn unknown_values_of_enums_are_open_in_proto3_and_absent_in_proto2() {
    let open = read("unknown enum", "shop.Order", "").await;
    assert!(
        open.contains(r#""status":"UNKNOWN_ENUM_VALUE_Status_9""#),
        "{open}"
    );
    assert!(
        open.contains(r#""history":["UNKNOWN_ENUM_VALUE_Status_9"]"#),
        "{open}"
    );
    let closed = read("loose", "old.Person", "").await;
    assert_eq!(closed, r#"{"name":"Bo","age":18,"grades":["LOW","HIGH"]}"#);
    let person = read("person", "old.Person", "").await;
    assert_eq!(
        person,
        r#"{"name":"Bo","age":18,"grade":"HIGH","grades":["LOW","HIGH"]}"#
    );
}

#[tokio::test]
async fn p080_bad_messages_fail_or_are_null_without_touching_their_neighbours() {
    let payloads = vec![
        payload("person"),
        Some(vec![0x0a, 0x40, 1]),
        payload("nameless"),
        None,
        payload("person"),
        Some(vec![0x08, 1]),
        Some(vec![]),
    ];
    let (condition, message) = error(&payloads, &call("old.Person", "")).await;
    assert_eq!(condition, "MALFORMED_PROTOBUF_MESSAGE");
    assert!(message.contains("row 1 of the batch"), "{message}");
    let (_, message) = error(&payloads[2..], &call("old.Person", "")).await;
    assert!(
        message.contains("row 0 of the batch")
            && message.contains("required field old.Person.name is missing"),
        "{message}"
    );
    let (_, rows) = as_json(&payloads, &call("old.Person", "'mode', 'PERMISSIVE'"))
        .await
        .expect("rows");
    let alive: Vec<bool> = rows.iter().map(Option::is_some).collect();
    assert_eq!(alive, [true, false, false, false, true, false, false]);
    assert_eq!(rows[0], rows[4]);
}

#[tokio::test]
async fn a_registrys_header_is_taken_off_and_checked() {
    let item = payload("outer").expect("payload");
    let framed = |path: &[u8], body: &[u8]| Some([&[0, 0, 0, 0, 7], path, body].concat());
    // Outer is the fifth message of its file (position 4), Inner its first.
    let outer = call("shop.Outer", "'schema.registry.wire.format', 'true'");
    let (_, rows) = as_json(&[framed(&[2, 8], &item)], &outer)
        .await
        .expect("rows");
    assert_eq!(rows[0].as_deref(), Some(r#"{"inner":{"x":5}}"#));
    let inner = call("shop.Outer.Inner", "'schema.registry.wire.format', 'true'");
    let (_, rows) = as_json(&[framed(&[4, 8, 0], &[8, 5])], &inner)
        .await
        .expect("rows");
    assert_eq!(rows[0].as_deref(), Some(r#"{"x":5}"#));
    let first = call("shop.Item", "'schema.registry.wire.format', 'true'");
    let (_, rows) = as_json(&[framed(&[0], &unhex("0a0161"))], &first)
        .await
        .expect("rows");
    assert_eq!(rows[0].as_deref(), Some(r#"{"sku":"a"}"#));
    let (_, message) = error(&[framed(&[0], &item)], &outer).await;
    assert!(
        message.contains("the header says message [0] of schema 7"),
        "{message}"
    );
    let (_, message) = error(&[Some(item)], &outer).await;
    assert!(message.contains("begins with byte 0"), "{message}");
}

#[tokio::test]
async fn what_was_read_is_written_as_it_was() {
    for (name, message) in [
        ("order", "shop.Order"),
        ("empty order", "shop.Order"),
        ("person", "old.Person"),
        ("outer", "shop.Outer"),
    ] {
        let sql = format!(
            "SELECT to_protobuf(from_protobuf(b, '{message}', {0}), '{message}', {0}) FROM t",
            *DESCRIPTOR
        );
        let bytes = payload(name);
        let (_, values) = column(&session(&[bytes.clone(), None], 8), &sql)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let values = values.as_binary::<i32>();
        let mut expected = hex(&bytes.expect("payload"));
        if name == "person" {
            // The default that reading filled in is written, as it is a value now.
            expected = expected.replace("1802", "10121802");
        }
        if name == "order" {
            assert_eq!(hex(values.value(0)).len(), expected.len());
        }
        assert_eq!(hex(values.value(0)), expected, "{name}");
        assert!(values.is_null(1));
    }
}

#[tokio::test]
async fn values_that_a_message_cannot_hold_are_refused() {
    let cases = [
        (
            "named_struct('status', 'GONE')",
            "shop.Order",
            "field status: 'GONE' is none of NEW, PAID, SHIPPED",
        ),
        (
            "named_struct('card', 'x', 'cash', 1L)",
            "shop.Order",
            "only one of the fields card, cash may have a value",
        ),
        (
            "named_struct('numbers', array(1, NULL))",
            "shop.Order",
            "element 1 is NULL",
        ),
        (
            "named_struct('nonsense', 1)",
            "shop.Order",
            "no field for nonsense",
        ),
        (
            "named_struct('id', 'x')",
            "shop.Order",
            "STRING cannot be written as it",
        ),
        (
            "named_struct('rating', 3000000000L)",
            "shop.Order",
            "3000000000 is outside of",
        ),
        (
            "named_struct('age', 1)",
            "old.Person",
            "no column for the required field old.Person.name",
        ),
        (
            "named_struct('name', CAST(NULL AS STRING))",
            "old.Person",
            "the required field name is NULL",
        ),
    ];
    for (value, message, reason) in cases {
        let call = format!("to_protobuf({value}, '{message}', {})", *DESCRIPTOR);
        let (_, found) = error(&[Some(vec![])], &call).await;
        assert!(found.contains(reason), "{value}: {found}");
    }
}

#[tokio::test]
async fn descriptors_and_messages_that_are_not_there_are_named() {
    let path: PathBuf = Path::new(DIRECTORY).join("nowhere.desc");
    let cases = [
        (
            format!("from_protobuf(b, 'Order', '{}')", path.display()),
            "PROTOBUF_DESCRIPTOR_FILE_NOT_FOUND",
        ),
        (
            format!("from_protobuf(b, 'Order', '{DIRECTORY}/shop.proto')"),
            "CANNOT_PARSE_PROTOBUF_DESCRIPTOR",
        ),
        (call("Ordr", ""), "PROTOBUF_MESSAGE_NOT_FOUND"),
        (
            call("Order", "'mode', 'DROPMALFORMED'"),
            "PARSE_MODE_UNSUPPORTED",
        ),
        (call("Order", "'nonsense', 'x'"), "INVALID_OPTIONS.UNKNOWN"),
    ];
    for (call, expected) in cases {
        let (condition, message) = error(&[], &call).await;
        assert_eq!(condition, expected, "{message}");
    }
    // The same message from a file.
    let file = tempfile::NamedTempFile::new().expect("file");
    std::fs::write(file.path(), descriptor()).expect("descriptor");
    let call = format!("from_protobuf(b, 'Outer', '{}')", file.path().display());
    let (_, rows) = as_json(&[payload("outer")], &call).await.expect("rows");
    assert_eq!(rows[0].as_deref(), Some(r#"{"inner":{"x":5}}"#));
}
