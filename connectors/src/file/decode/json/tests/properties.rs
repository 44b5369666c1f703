//! Properties: no bytes make the decoder panic, bad lines never change other lines, where batches and chunks are cut does
//! not matter, and valid records mean what `serde_json` says they mean.

use arrow::{
    array::{Array, AsArray},
    datatypes::{DataType, Float64Type, Int64Type},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        super::{BatchReader, DecodeSettings, lines::tests::Dribble},
        JsonOptions, JsonReader,
    },
    drain, list, map, reader, record, settings, timestamp,
};

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("x", DataType::Float64),
        ("ok", DataType::Boolean),
        ("when", timestamp()),
        ("tags", list(DataType::Utf8)),
        (
            "o",
            record(&[("a", DataType::Int32), ("m", map(list(DataType::Int64)))]),
        ),
        ("_corrupt_record", DataType::Utf8),
    ]
}

/// Pieces that go wrong in interesting ways when they are put together at random.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"\"id\":",
        b"\"name\":",
        b"\"tags\":[",
        b"\"o\":{\"m\":{",
        b"1",
        b"-",
        b"1.5e3",
        b"true",
        b"null",
        b"\"x\"",
        b"\\u00e9",
        b"\\ud83d",
        b"\xFF",
        b"\xC3\xA9",
        b" ",
        b"\t",
        b"'",
        b"NaN",
        b"12345678901234567890",
        b"\"2026-01-02T03:04:05Z\"",
        b"/*",
        b"\x00",
    ];
    prop_oneof![
        6 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

/// One line of garbage: no line ends in it.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(fragment(), 0..24).prop_map(|pieces| {
        let mut bytes = pieces.concat();
        bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        bytes
    })
}

fn lenient() -> JsonOptions {
    JsonOptions {
        allow_comments: true,
        allow_unquoted_field_names: true,
        allow_numeric_leading_zeros: true,
        allow_backslash_escaping_any_character: true,
        allow_unquoted_control_chars: true,
        exact_text: false,
        ..JsonOptions::default()
    }
}

/// Any JSON value, not too deep.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Quarters: serde_json reads them exactly without its slower float parser.
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"é\\\\]{0,4}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bad_lines_never_panic_nor_change_their_neighbours(lines in prop::collection::vec(garbage(), 1..4), strict: bool) {
        let good = br#"{"id": 7, "name": "n", "x": 1.5, "ok": true, "tags": ["t"], "o": {"a": 1, "m": {"k": [1]}}}"#;
        let options = if strict { JsonOptions::default() } else { lenient() };
        let alone = drain(&mut reader(good, settings(&columns()), options.clone())).unwrap();
        let mut text = Vec::new();
        for line in &lines {
            text.extend_from_slice(good);
            text.push(b'\n');
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text.extend_from_slice(good);
        let rows = drain(&mut reader(&text, settings(&columns()), options.clone())).unwrap();
        let mut expected = alone.clone();
        for line in &lines {
            expected.extend(drain(&mut reader(line, settings(&columns()), options.clone())).unwrap());
            expected.extend(alone.clone());
        }
        prop_assert_eq!(rows, expected);
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), multi_line: bool) {
        let options = JsonOptions { multi_line, ..lenient() };
        prop_assert!(drain(&mut reader(&bytes, settings(&columns()), options)).is_ok());
    }

    #[test]
    fn rows_do_not_depend_on_where_chunks_and_batches_are_cut(
        lines in prop::collection::vec(garbage(), 0..8), step in 1usize..50, batch_rows in 1usize..5,
    ) {
        let text = lines.join(&b"\r\n"[..]);
        let whole = drain(&mut reader(&text, settings(&columns()), JsonOptions::default())).unwrap();
        let input = Dribble { bytes: text, at: 0, step };
        let settings = DecodeSettings { batch_rows, ..settings(&columns()) };
        let mut cut = JsonReader::new(Box::new(input), "f", settings, JsonOptions::default()).unwrap();
        prop_assert_eq!(drain(&mut cut).unwrap(), whole);
    }

    #[test]
    fn valid_records_mean_what_serde_json_says(
        id: i64, x in any::<f64>().prop_filter("finite", |x| x.is_finite()), name in ".{0,20}", extra in value(), pretty: bool,
    ) {
        let expected = json!({"extra": extra, "name": name, "id": id, "x": x, "raw": extra});
        let text = if pretty {
            serde_json::to_string_pretty(&expected).unwrap().replace('\n', " ")
        } else {
            expected.to_string()
        };
        let columns =
            [("id", DataType::Int64), ("name", DataType::Utf8), ("x", DataType::Float64), ("raw", DataType::Utf8)];
        let mut reader = reader(text.as_bytes(), settings(&columns), JsonOptions::default());
        let batch = reader.next_batch().unwrap().unwrap();
        prop_assert_eq!(reader.bad_records().count, 0);
        prop_assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), id);
        prop_assert_eq!(batch.column(1).as_string::<i32>().value(0), name);
        prop_assert_eq!(batch.column(2).as_primitive::<Float64Type>().value(0), x);
        let raw = batch.column(3).as_string::<i32>();
        if let Value::String(text) = &extra {
            prop_assert_eq!(raw.value(0), text);
        } else if extra.is_null() {
            prop_assert!(raw.is_null(0));
        } else {
            prop_assert_eq!(serde_json::from_str::<Value>(raw.value(0)).unwrap(), extra);
        }
    }

    #[test]
    fn text_that_serde_json_refuses_is_bad(text in "[{}\\[\\],:\"a1e. -]{0,16}") {
        let record = format!("{{\"x\":{text}}}");
        let valid = serde_json::from_str::<Value>(&record).is_ok();
        let mut reader = reader(record.as_bytes(), settings(&[("v", DataType::Int32)]), JsonOptions::default());
        drain(&mut reader).unwrap();
        // A record that ends before the text does is good here (Spark) and refused there.
        prop_assert!(reader.bad_records().count == 0 || !valid);
        if !valid && serde_json::Deserializer::from_str(&record).into_iter::<Value>().next().is_some_and(|first| first.is_err()) {
            prop_assert_eq!(reader.bad_records().count, 1);
        }
    }
}
