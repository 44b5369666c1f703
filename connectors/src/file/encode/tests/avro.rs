//! Avro files in a schema that is given.

use std::io::Seek;

use super::*;
use crate::file::decode::{AvroOptions, AvroReader, BatchReader, DecodeSettings};

const EVENT: &str = r#"{"type": "record", "name": "Event", "namespace": "shop", "fields": [
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
    {"name": "id", "type": "int", "doc": "number of the event"},
    {"name": "note", "type": ["null", "string"], "default": null}]}"#;

fn events(ids: std::ops::Range<i32>, kind: Option<&str>) -> RecordBatch {
    let kinds: StringArray = ids.clone().map(|_| kind).collect();
    batch(vec![
        ("ID", Arc::new(Int32Array::from_iter_values(ids))),
        ("kind", Arc::new(kinds)),
    ])
}

#[test]
fn avro_in_a_given_schema_comes_back_in_every_compression() {
    for codec in ["none", "snappy", "deflate", "zstandard"] {
        let format = format("avro", &[("avroSchema", EVENT), ("compression", codec)]);
        let batches = [
            events(0..5_000, Some("SELL")),
            events(5_000..5_001, Some("BUY")),
        ];
        let bytes = try_encode(&format, &batches).unwrap();
        let text = String::from_utf8_lossy(&bytes[..EVENT.len() + 100]).into_owned();
        assert!(text.contains(EVENT), "letter by letter: {text}");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("kind", DataType::Utf8, true),
            Field::new("note", DataType::Utf8, true),
        ]);
        let settings = DecodeSettings::new(&schema);
        let mut reader =
            AvroReader::from_file(file, "f", &settings, &AvroOptions::default()).unwrap();
        let (mut ids, mut kinds) = (Vec::new(), Vec::new());
        while let Some(batch) = reader.next_batch().unwrap() {
            let column = batch
                .column(0)
                .as_primitive::<arrow::datatypes::Int64Type>();
            ids.extend(column.iter().flatten());
            let column = batch.column(1).as_string::<i32>();
            kinds.extend(column.iter().flatten().map(str::to_owned));
            assert_eq!(batch.column(2).null_count(), batch.num_rows());
        }
        assert_eq!(ids, (0..5_001).collect::<Vec<i64>>(), "{codec}");
        assert_eq!(
            (kinds[4_999].as_str(), kinds[5_000].as_str()),
            ("SELL", "BUY")
        );
    }
}

#[test]
fn avro_schema_that_the_rows_do_not_fit_is_an_error_that_says_where() {
    let given = format("avro", &[("avroSchema", EVENT)]);
    for (rows, part) in [
        (events(0..1, Some("LEND")), "field kind is 'LEND'"),
        (events(0..1, None), "field kind is NULL"),
    ] {
        let error = try_encode(&given, &[rows]).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("avroSchema"),
            "{error}"
        );
    }
    let rows = events(0..1, Some("BUY"));
    let text_id = EVENT.replace("\"int\"", "\"string\"");
    for (schema, part) in [
        ("\"int\"", "allowed: a record"),
        ("{", "no JSON"),
        (
            r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}"#,
            "no field for kind",
        ),
        (text_id.as_str(), "field id is Int32"),
    ] {
        let given = format("avro", &[("avroSchema", schema)]);
        let error = try_encode(&given, std::slice::from_ref(&rows))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(try_format("avro", &[("positionalFieldMatching", "true")]).is_err());
}
