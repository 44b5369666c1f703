//! Payloads that fastavro wrote (`tests/payloads`), broken ones, and what Spark answers.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use serde_json::Value;
use weir_connectors::avro::{Naming, Reader, Shape, column_type};

use super::super::testing::{as_json, column, error, hex, session, unhex};

const RECORD: &str = r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"s","type":["null","string"]}]}"#;

fn some(payloads: &[&str]) -> Vec<Option<Vec<u8>>> {
    payloads.iter().map(|p| Some(unhex(p))).collect()
}

/// Text inside an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn call(schema: &str, options: &[(&str, &str)]) -> String {
    let options = options
        .iter()
        .map(|(k, v)| format!("{}, {}", quoted(k), quoted(v)));
    let options = options.collect::<Vec<_>>().join(", ");
    format!("from_avro(b, {}, map({options}))", quoted(schema))
}

fn cases() -> Vec<Value> {
    let text = include_str!("../../../../tests/payloads/avro.json");
    serde_json::from_str(text).expect("fixtures")
}

#[tokio::test]
async fn payloads_of_another_implementation_become_sparks_columns() {
    for case in cases() {
        let name = case["name"].as_str().expect("name");
        let rows = case["rows"].as_array().expect("rows");
        let payloads: Vec<_> = rows
            .iter()
            .map(|r| Some(unhex(r["bytes"].as_str().expect("bytes"))))
            .collect();
        let mut options: Vec<(String, String)> = case["options"]
            .as_object()
            .expect("options")
            .iter()
            .map(|(k, v)| (k.clone(), v.as_str().expect("text").to_owned()))
            .collect();
        if !case["reader"].is_null() {
            options.push(("avroSchema".into(), case["reader"].to_string()));
        }
        let options: Vec<_> = options
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        let call = match options.is_empty() {
            true => format!("from_avro(b, {})", quoted(&case["writer"].to_string())),
            false => call(&case["writer"].to_string(), &options),
        };
        let (t, found) = as_json(&payloads, &call)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected: Vec<_> = rows
            .iter()
            .map(|r| r["json"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(
            (t.as_str(), found),
            (case["type"].as_str().expect("type"), expected),
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_was_read_is_written_as_it_was() {
    // Unions of several types cannot be written; everything else comes back byte for byte.
    let writable = |c: &&Value| {
        c["reader"].is_null()
            && !c["name"]
                .as_str()
                .is_some_and(|n| n.contains("union") || n.contains(" or ") || n == "null")
    };
    let mut seen = 0;
    for case in cases().iter().filter(writable) {
        let name = case["name"].as_str().expect("name");
        let rows = case["rows"].as_array().expect("rows");
        let bytes: Vec<_> = rows
            .iter()
            .map(|r| r["bytes"].as_str().expect("bytes").to_owned())
            .collect();
        let payloads: Vec<_> = bytes.iter().map(|b| Some(unhex(b))).collect();
        let schema = quoted(&case["writer"].to_string());
        let sql = format!("SELECT to_avro(from_avro(b, {schema}), {schema}) FROM t");
        let (_, values) = column(&session(&payloads, 1024), &sql)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let written = values
            .as_binary::<i32>()
            .iter()
            .map(|v| v.map(hex))
            .collect::<Vec<_>>();
        let nulls = rows.iter().map(|r| r["json"].is_null());
        let expected: Vec<_> = bytes
            .iter()
            .zip(nulls)
            .map(|(b, null)| (!null).then(|| b.clone()))
            .collect();
        assert_eq!(written, expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 10, "{seen} cases");
}

#[tokio::test]
async fn a_bad_payload_fails_with_its_row_and_reason() {
    let payloads = some(&["0200", "020240686969", "0200"]);
    let (condition, message) = error(&payloads, &format!("from_avro(b, '{RECORD}')")).await;
    assert_eq!(condition, "MALFORMED_AVRO_MESSAGE");
    assert!(message.contains("row 1 of the batch"), "{message}");
    assert!(
        message.contains("32 bytes expected, 3 are left"),
        "{message}"
    );
}

#[tokio::test]
async fn p080_bad_payloads_are_null_and_cost_nothing_but_themselves() {
    // Good, truncated, empty, good, wrong branch, left-over bytes, tombstone, no UTF-8, good.
    let bad = ["0202", "", "0206", "020077", "020204fffe"];
    let mut payloads = some(&["02020278", bad[0], bad[1], "0400", bad[2], bad[3]]);
    payloads.push(None);
    payloads.extend(some(&[
        bad[4],
        "060202ff7a".get(..8).expect("prefix"),
        "0802027a",
    ]));
    payloads[8] = Some(unhex("06020279"));
    let expected: Vec<Option<&str>> = vec![
        Some(r#"{"a":1,"s":"x"}"#),
        Some("{}"),
        Some("{}"),
        Some(r#"{"a":2}"#),
        Some("{}"),
        Some("{}"),
        None,
        Some("{}"),
        Some(r#"{"a":3,"s":"y"}"#),
        Some(r#"{"a":4,"s":"z"}"#),
    ];
    let call = call(RECORD, &[("mode", "PERMISSIVE")]);
    let (_, found) = as_json(&payloads, &call).await.expect("rows");
    assert_eq!(
        found,
        expected
            .iter()
            .map(|e| e.map(str::to_owned))
            .collect::<Vec<_>>()
    );
    // The same in any batches, and if all are bad.
    for rows in 1..4 {
        let sql = format!("SELECT to_json({call}) FROM t");
        let (_, again) = column(&session(&payloads, rows), &sql).await.expect("rows");
        let again: Vec<_> = again.as_string::<i32>().iter().collect();
        assert_eq!(again, expected, "batches of {rows}");
    }
    let (_, none) = as_json(&some(&bad), &call).await.expect("rows");
    assert_eq!(none, vec![Some("{}".to_owned()); bad.len()]);
}

#[tokio::test]
async fn a_bad_scalar_payload_is_null_in_permissive_mode() {
    let (t, found) = as_json(
        &some(&["02", "80", "04"]),
        &call("int", &[("mode", "permissive")]),
    )
    .await
    .expect("rows");
    assert_eq!(
        (t.as_str(), found),
        ("INT", vec![Some("1".into()), None, Some("2".into())])
    );
}

#[tokio::test]
async fn every_kind_of_damage_is_found() {
    let fixed_decimal =
        r#"{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":2,"scale":0}"#;
    let enumeration = r#"{"type":"enum","name":"e","symbols":["A","B"]}"#;
    let cases = [
        ("boolean", "02", "a boolean of 2"),
        ("int", "8080808020", "an int of"),
        ("long", "ffffffffffffffffff7f", "more than 64 bits"),
        ("string", "04c328", "no UTF-8"),
        ("string", "01", "a length of -1"),
        ("double", "0000", "8 bytes expected, 2 are left"),
        (enumeration, "04", "no symbol 2"),
        (enumeration, "01", "no symbol -1"),
        (r#"["null","int"]"#, "0402", "no branch 2"),
        (fixed_decimal, "0064", "more than 2 digits"),
        (
            r#"{"type":"array","items":"int"}"#,
            "0104020400",
            "a block that is not of the size",
        ),
        (
            r#"{"type":"map","values":"int"}"#,
            "0402610202610400",
            "'a' is twice",
        ),
        (
            r#"{"type":"long","logicalType":"timestamp-millis"}"#,
            "feffffffffffffffff01",
            "outside of the years",
        ),
        (
            "int",
            "0000000001",
            "begins like a payload of a schema registry",
        ),
        ("int", "", "1 bytes expected, 0 are left"),
        ("null", "00", "1 bytes are left"),
    ];
    for (schema, payload, reason) in cases {
        let call = format!("from_avro(b, {})", quoted(schema));
        let (condition, message) = error(&some(&[payload]), &call).await;
        assert_eq!(
            condition, "MALFORMED_AVRO_MESSAGE",
            "{schema} {payload}: {message}"
        );
        assert!(message.contains(reason), "{schema} {payload}: {message}");
    }
}

#[tokio::test]
async fn values_that_the_readers_schema_cannot_take_are_bad() {
    let cases = [
        (
            r#"["null","string"]"#,
            r#""string""#,
            "00",
            "data written as null",
        ),
        (
            r#"["int","string"]"#,
            r#""long""#,
            "020278",
            "data written as string cannot be read as long",
        ),
        (
            r#"{"type":"enum","name":"e","symbols":["A","B"]}"#,
            r#"{"type":"enum","name":"e","symbols":["A"]}"#,
            "02",
            "does not know symbol 1",
        ),
    ];
    for (writer, reader, payload, reason) in cases {
        let (condition, message) =
            error(&some(&[payload]), &call(writer, &[("avroSchema", reader)])).await;
        assert_eq!(condition, "MALFORMED_AVRO_MESSAGE", "{message}");
        assert!(message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn schemas_that_cannot_be_are_refused_with_the_reason() {
    let recursive =
        r#"{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}"#;
    let cases = [
        (recursive, "type n contains itself"),
        ("{", "no JSON"),
        (
            r#"{"type":"record","name":"r","fields":[]}"#,
            "record r has no fields",
        ),
        (r#"{"type":"array","items":"null"}"#, "array of null"),
        ("\"strin\"", "unknown type \"strin\""),
        (r#"["int","int"]"#, "two branches int"),
        (r#"["int",["null"]]"#, "a union directly inside a union"),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":39}"#,
            "1 to 38",
        ),
        (
            r#"{"type":"record","name":"r","fields":[{"name":"a"}]}"#,
            "field r.a: no type",
        ),
        (
            r#"{"type":"enum","name":"e","symbols":["A","A"]}"#,
            "distinct",
        ),
        (
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"r","size":1}}]}"#,
            "defined twice",
        ),
    ];
    for (schema, reason) in cases {
        let (condition, message) =
            error(&some(&[]), &format!("from_avro(b, {})", quoted(schema))).await;
        assert_eq!(condition, "AVRO_INCOMPATIBLE_SCHEMA", "{schema}: {message}");
        assert!(message.contains(reason), "{schema}: {message}");
    }
    let (_, message) = error(
        &some(&[]),
        &call(r#""int""#, &[("avroSchema", r#""string""#)]),
    )
    .await;
    assert!(
        message.contains("data written as int cannot be read as string"),
        "{message}"
    );
    let reader = r#"{"type":"record","name":"r","fields":[{"name":"new","type":"int"}]}"#;
    let (_, message) = error(&some(&[]), &call(RECORD, &[("avroSchema", reader)])).await;
    assert!(
        message.contains("field r.new: the data has no such field"),
        "{message}"
    );
}

#[tokio::test]
async fn options_and_arguments_are_checked() {
    let cases = [
        (
            call("int", &[("mode", "DROPMALFORMED")]),
            "PARSE_MODE_UNSUPPORTED",
        ),
        (
            call("int", &[("mod", "PERMISSIVE")]),
            "INVALID_OPTIONS.UNKNOWN",
        ),
        (
            call("int", &[("datetimeRebaseMode", "LEGACY")]),
            "INVALID_OPTIONS.VALUE",
        ),
        (
            call("int", &[("recursiveFieldMaxDepth", "3")]),
            "INVALID_OPTIONS.VALUE",
        ),
        (
            "from_avro(CAST(b AS STRING), 'int')".into(),
            "DATATYPE_MISMATCH",
        ),
        (
            "from_avro(b, CAST(b AS STRING))".into(),
            "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
        ),
        ("from_avro(b)".into(), "WRONG_NUM_ARGS"),
    ];
    for (call, expected) in cases {
        let (condition, message) = error(&some(&[]), &call).await;
        assert_eq!(condition, expected, "{call}: {message}");
    }
}

#[test]
fn fields_may_be_null_as_the_schema_says_unless_bad_payloads_become_null() {
    let shape = Shape::parse(RECORD).expect("schema");
    let nullable = |naming: &Naming| match column_type(&shape, naming) {
        arrow::datatypes::DataType::Struct(fields) => {
            fields.iter().map(|f| f.is_nullable()).collect::<Vec<_>>()
        }
        other => panic!("{other}"),
    };
    assert_eq!(nullable(&Naming::default()), [false, true]);
    let permissive = super::in_mode(Naming::default(), super::Mode::Permissive);
    assert_eq!(nullable(&permissive), [true, true]);
}

#[tokio::test]
async fn the_type_of_a_schema_is_told() {
    let sql = r#"SELECT schema_of_avro('{"type":"record","name":"r","fields":[{"name":"a","type":["null","int","string"]}]}')"#;
    let (_, values) = column(&session(&some(&[""]), 1), sql).await.expect("row");
    assert_eq!(
        values.as_string::<i32>().value(0),
        "STRUCT<a: STRUCT<member0: INT, member1: STRING>>"
    );
}

#[test]
fn a_reader_is_used_again_after_bad_payloads() {
    let shape = Shape::parse(RECORD).expect("schema");
    let reader = Reader::new(&shape, &shape, &Naming::default()).expect("reader");
    for _ in 0..3 {
        let payloads: Vec<Vec<u8>> = ["02020278", "0202", "0400"]
            .iter()
            .map(|p| unhex(p))
            .collect();
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let mut bad = vec![None; 3];
        let values = reader.read(&payloads, &mut bad).expect("rows");
        assert_eq!(
            bad.iter().map(Option::is_some).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert_eq!(
            (0..3).map(|i| values.is_valid(i)).collect::<Vec<_>>(),
            [true, false, true]
        );
    }
    let none: Arc<dyn Array> = reader.read(&[], &mut []).expect("nothing");
    assert_eq!(none.len(), 0);
}

proptest::proptest! {
    /// Whatever bytes come, they are a value that is written back to the same bytes, or a bad payload; nothing panics or hangs.
    #[test]
    fn any_bytes_are_a_value_or_a_bad_payload(bytes in proptest::collection::vec(0u8..8, 0..24)) {
        let schema = r#"{"type":"record","name":"r","fields":[
            {"name":"a","type":"int"},{"name":"u","type":["null","string"]},{"name":"b","type":"boolean"},
            {"name":"l","type":{"type":"array","items":{"type":"map","values":"long"}}},
            {"name":"e","type":{"type":"enum","name":"e","symbols":["A","B"]}}]}"#;
        let shape = Shape::parse(schema).expect("schema");
        let reader = Reader::new(&shape, &shape, &Naming::default()).expect("reader");
        let good = unhex("02000000");
        let good = [good.as_slice(), &[0]].concat();
        let mut bad = vec![None; 3];
        let values = reader.read(&[&good, &bytes, &good], &mut bad).expect("rows");
        assert!(bad[0].is_none() && bad[2].is_none() && values.is_valid(0) && values.is_valid(2), "{bad:?}");
        assert_eq!(bad[1].is_none(), values.is_valid(1));
        if bad[1].is_none() {
            let writer = super::encode::Writer::new(&shape, values.data_type()).expect("writer");
            let written = writer.write(&values.slice(1, 1), &[]).expect("payload");
            let mut again = vec![None];
            let reread = reader.read(&[written.value(0)], &mut again).expect("rows");
            assert_eq!(&values.slice(1, 1), &reread);
        }
    }
}
