//! What each column type takes.

#![allow(clippy::unwrap_used)]

use arrow::datatypes::{DataType, TimeUnit};

use super::{
    super::{
        super::{DecodeSettings, parse::Zone},
        JsonOptions, JsonReader,
    },
    drain, kv, list, map, read, read_with, reader, record, settings, timestamp,
};

#[test]
fn whole_numbers_take_only_whole_numbers_in_range() {
    let columns = [
        ("t", DataType::Int8),
        ("s", DataType::Int16),
        ("i", DataType::Int32),
        ("l", DataType::Int64),
    ];
    let text = r#"{"t": 127, "s": 32767, "i": 2147483647, "l": 9223372036854775807}
{"t": -128, "s": -32768, "i": -2147483648, "l": -9223372036854775808}
{"t": 128, "s": 40000, "i": 2147483648, "l": 1}
{"t": 256, "s": 1.0, "i": "7", "l": 9223372036854775808}
{"t": 1e1, "s": true, "i": {"a": 1}, "l": 1.5}
{"t": -0, "s": 0, "i": [1], "l": 12345678901234567890123}
{"l": 1234567, "i": 12345678, "s": null, "t": 1}"#;
    let expected = [
        "127|32767|2147483647|9223372036854775807",
        "-128|-32768|-2147483648|-9223372036854775808",
        "-128|null|null|1",
        "null|null|null|null",
        "null|null|null|null",
        "0|0|null|null",
        "1|null|12345678|1234567",
    ];
    assert_eq!(read(&columns, text), expected);
}

#[test]
fn numbers_with_broken_syntax_spoil_the_record() {
    for number in [
        "01",
        "-",
        "+1",
        ".5",
        "5.",
        "1e",
        "1e+",
        "12ii",
        "0x1",
        "--1",
        "1.5.2",
        "00",
        &"1".repeat(1001),
    ] {
        let text = format!("{{\"k\": \"a\", \"v\": {number}}}\n{{\"k\": \"b\", \"v\": 2}}");
        assert_eq!(read(&kv(), &text), ["null|null", "b|2"], "{number}");
    }
}

#[test]
fn floats_booleans_and_special_numbers() {
    let columns = [
        ("x", DataType::Float64),
        ("y", DataType::Float32),
        ("b", DataType::Boolean),
    ];
    let text = r#"{"x": 1e3, "y": 1.5, "b": true}
{"x": 7, "y": -0.25, "b": false}
{"x": "NaN", "y": "-INF", "b": "true"}
{"x": NaN, "y": -Infinity, "b": 1}
{"x": "INF", "y": "1.5", "b": null}
{"x": "+Infinity", "y": "", "b": []}
{"x": 0.1, "y": 16777217, "b": true, "x": 0.3}"#;
    let expected = [
        "1000.0|1.5|true",
        "7.0|-0.25|false",
        "NaN|-inf|null",
        "NaN|-inf|null",
        "null|null|null",
        "inf|null|null",
        "0.3|16777216.0|true",
    ];
    assert_eq!(read(&columns, text), expected);
    let strict = JsonOptions {
        allow_non_numeric_numbers: false,
        ..JsonOptions::default()
    };
    assert_eq!(
        read_with(
            &columns,
            "{\"y\": 1, \"x\": \"NaN\"}\n{\"y\": 1, \"x\": NaN}",
            strict
        ),
        ["null|1.0|null", "null|null|null"]
    );
}

#[test]
fn dates_decimals_and_binary() {
    let columns = [
        ("d", DataType::Date32),
        ("n", DataType::Decimal128(7, 2)),
        ("x", DataType::Binary),
    ];
    let text = r#"{"d": "2026-01-02", "n": 12.345, "x": "SGVsbG8="}
{"d": "2026-01-02T10:00:00Z", "n": "12.344", "x": ""}
{"d": "02/01/2026", "n": 1234567.1, "x": "***"}
{"d": 20000, "n": 99999.995, "x": "SGVsbG8"}
{"d": null, "n": -0.005, "x": null}
{"d": "100", "n": "1,234.5", "x": 5}
{"d": "", "n": "", "x": "SGVs\u0062G8="}"#;
    let expected = [
        "2026-01-02|12.35|48656c6c6f",
        "2026-01-02|12.34|",
        "null|null|null",
        "null|null|null",
        "null|-0.01|null",
        "1970-04-11|1234.50|null",
        "null|null|48656c6c6f",
    ];
    assert_eq!(read(&columns, text), expected);
}

#[test]
fn timestamps_from_text_and_seconds() {
    let columns = [
        ("t", timestamp()),
        ("n", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ];
    let text = r#"{"t": "2026-01-02T03:04:05.123456Z", "n": "2026-01-02T03:04:05"}
{"t": "2026-01-02 03:04:05", "n": "2026-01-02T03:04:05Z"}
{"t": 1767322800, "n": 1767322800}
{"t": 1.5, "n": "2026"}
{"t": 9223372036854775807, "n": null}"#;
    let expected = [
        "2026-01-02T03:04:05.123456Z|2026-01-02T03:04:05",
        "2026-01-02T03:04:05Z|null",
        "2026-01-02T03:00:00Z|null",
        "null|2026-01-01T00:00:00",
        "null|null",
    ];
    assert_eq!(read(&columns, text), expected);
    let rome = DecodeSettings {
        time_zone: Zone::from_name("Europe/Rome").unwrap(),
        ..settings(&columns)
    };
    let text = br#"{"t": "2026-07-01 12:00:00", "n": "2026-07-01 12:00:00"}"#;
    let rows = drain(&mut reader(text, rome, JsonOptions::default())).unwrap();
    assert_eq!(rows, ["2026-07-01T10:00:00Z|2026-07-01T12:00:00"]);
}

#[test]
fn text_columns_take_the_spelling_of_anything() {
    let text = r#"{"s": 1.50}
{"s": 1e3}
{"s": {"b" : [1,  2.0]}}
{"s": true}
{"s": null}
{"s": [ "x" ] }
{"s": "a\"b\\\/\n\u00e9\ud83d\ude00"}
{"s": "half \ud83d pair"}"#;
    let expected = [
        "1.50",
        "1e3",
        r#"{"b" : [1,  2.0]}"#,
        "true",
        "null",
        r#"[ "x" ]"#,
        "a\"b\\/\né😀",
        "half ? pair",
    ];
    assert_eq!(read(&[("s", DataType::Utf8)], text), expected);
}

#[test]
fn nested_values_keep_what_is_good_in_them() {
    let columns = [
        (
            "o",
            record(&[("id", DataType::Int64), ("n", DataType::Utf8)]),
        ),
        ("a", list(DataType::Int32)),
        ("m", map(DataType::Float64)),
        ("r", list(record(&[("x", DataType::Int32)]))),
    ];
    let text = r#"{"o": {"id": 7, "n": "x"}, "a": [1, null, 3], "m": {"k": 1, "j": 2.5}, "r": [{"x": 1}, null, {}]}
{"o": null, "a": [], "m": {}, "r": null}
{"o": 5, "a": "a", "m": [], "r": {}}
{"o": {"id": "7", "n": "y"}, "a": [1, "x", 3], "m": {"k": "x", "j": 1}, "r": [{"x": "bad"}, {"x": 2}]}
{"a": [4], "m": {"k": null, "k": 2}, "r": [5, {"x": 1}], "o": {"n": "z", "other": [[1]]}}"#;
    let expected = [
        "{id: 7, n: x}|[1, null, 3]|{k: 1.0, j: 2.5}|[{x: 1}, null, {x: null}]",
        "null|[]|{}|null",
        "null|null|null|null",
        "{id: null, n: y}|null|null|[{x: null}, {x: 2}]",
        "{id: null, n: z}|[4]|{k: null, k: 2.0}|null",
    ];
    assert_eq!(read(&columns, text), expected);
}

#[test]
fn other_arrow_types_are_refused_or_null() {
    let result = JsonReader::new(
        Box::new(std::io::empty()),
        "f",
        settings(&[("o", record(&[("u", DataType::UInt8)]))]),
        JsonOptions::default(),
    );
    assert!(
        result
            .err()
            .unwrap()
            .to_string()
            .starts_with("column \"o.u\": the json format cannot read type UInt8")
    );
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth);
    let columns = [
        ("i", interval),
        ("n", DataType::Null),
        ("v", DataType::LargeUtf8),
    ];
    assert_eq!(
        read(&columns, "{\"i\": \"1\", \"n\": [1], \"v\": \"x\"}"),
        ["null|null|x"]
    );
}
