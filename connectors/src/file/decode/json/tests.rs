//! The rules of the JSON format, one test each; the properties stand in `properties`.

#![allow(clippy::unwrap_used)]

mod properties;
mod values;

use std::sync::Arc;

use arrow::{
    datatypes::{DataType, Field, Fields, Schema, TimeUnit},
    record_batch::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    super::{BatchReader, DecodeError, DecodeSettings, ParseMode, parse::Zone},
    JsonOptions, JsonReader, RecordDecoder, Verdict,
};

pub(super) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(super) fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}

pub(super) fn record(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(
        fields
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
            .collect(),
    )
}

pub(super) fn map(value: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", value, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

pub(super) fn settings(columns: &[(&str, DataType)]) -> DecodeSettings {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
        .collect();
    DecodeSettings::new(&Schema::new(fields))
}

pub(super) fn reader(bytes: &[u8], settings: DecodeSettings, options: JsonOptions) -> JsonReader {
    JsonReader::new(
        Box::new(std::io::Cursor::new(bytes.to_vec())),
        "in/a.json",
        settings,
        options,
    )
    .unwrap()
}

/// The rows as text, columns joined by `|`.
pub(super) fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect()
}

pub(super) fn drain(reader: &mut JsonReader) -> Result<Vec<String>, DecodeError> {
    let mut rows = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!(batch.num_rows() > 0);
        rows.extend(rows_of(&batch));
    }
    assert!(reader.next_batch()?.is_none());
    Ok(rows)
}

pub(super) fn read(columns: &[(&str, DataType)], text: &str) -> Vec<String> {
    read_with(columns, text, JsonOptions::default())
}

fn read_with(columns: &[(&str, DataType)], text: &str, options: JsonOptions) -> Vec<String> {
    drain(&mut reader(text.as_bytes(), settings(columns), options)).unwrap()
}

fn kv() -> [(&'static str, DataType); 2] {
    [("k", DataType::Utf8), ("v", DataType::Int32)]
}

fn kvc() -> [(&'static str, DataType); 3] {
    [
        ("k", DataType::Utf8),
        ("v", DataType::Int32),
        ("_corrupt_record", DataType::Utf8),
    ]
}

const BAD_LINES: &str = r#"{"k": "a", "v": 1}
{"k": "b", "v"
{"k": "c", "v": "x"}

[1, 2]
{"k": 5, "v": 2, "extra": {"deep": [1]}}
null
"#;

#[test]
fn permissive_mode_keeps_good_fields_and_neighbours() {
    let mut reader = reader(
        BAD_LINES.as_bytes(),
        settings(&kvc()),
        JsonOptions::default(),
    );
    assert_eq!(
        drain(&mut reader).unwrap(),
        [
            "a|1|null",
            r#"null|null|{"k": "b", "v""#,
            r#"c|null|{"k": "c", "v": "x"}"#,
            "null|null|[1, 2]",
            "5|2|null",
            "null|null|null",
        ]
    );
    let bad = reader.bad_records();
    assert_eq!(bad.count, 4);
    let first = bad.first.as_ref().unwrap();
    assert_eq!(
        (first.line, first.reason.as_str()),
        (2, "the record ends inside a value at byte 14")
    );
}

#[test]
fn drop_mode_leaves_bad_records_out() {
    let settings = DecodeSettings {
        mode: ParseMode::DropMalformed,
        ..settings(&kv())
    };
    let mut reader = reader(BAD_LINES.as_bytes(), settings, JsonOptions::default());
    assert_eq!(drain(&mut reader).unwrap(), ["a|1", "5|2"]);
    assert_eq!(reader.bad_records().count, 4);
}

#[test]
fn fail_mode_names_file_line_column_and_value() {
    let text = "{\"k\": \"a\"}\n{\"k\": \"b\", \"v\": \"x\"}\n";
    let settings = DecodeSettings {
        mode: ParseMode::FailFast,
        ..settings(&kv())
    };
    let error = drain(&mut reader(
        text.as_bytes(),
        settings,
        JsonOptions::default(),
    ))
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "file \"in/a.json\", line 2: malformed record in FAILFAST mode: column \"v\": \"x\" is no INT \
         (mode PERMISSIVE makes bad fields null, DROPMALFORMED leaves the record out)"
    );
}

#[test]
fn names_missing_extra_in_any_order_and_in_another_case() {
    let text = r#"{"k": "a"}
{}
{"v": 1, "other": {"deep": 1}}
{"K": "upper"}
{ "v" : 2 , "x" : [ { } , [ ] , "}" , -1.5e3 , true , null ] , "k" : "b" }
{"\u006b": "escaped name"}"#;
    assert_eq!(
        read(&kv(), text),
        [
            "a|null",
            "null|null",
            "null|1",
            "null|null",
            "b|2",
            "escaped name|null"
        ]
    );
}

#[test]
fn names_that_come_twice_take_the_last_good_value() {
    let text = r#"{"v": 1, "k": "a", "v": 2}
{"v": 1, "v": "x"}
{"v": 1, "v": null}
{"k": "a", "k": "b", "v": 3}"#;
    assert_eq!(read(&kv(), text), ["a|2", "null|1", "null|null", "b|3"]);
    let nested = [
        ("a", list(DataType::Int32)),
        ("o", record(&[("x", DataType::Int32)])),
    ];
    let text = r#"{"a": [1, 2], "o": {"x": 1, "x": 2}, "a": [3], "o": {"x": 9}}"#;
    assert_eq!(read(&nested, text), ["[3]|{x: 9}"]);
}

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
fn records_of_every_broken_kind_leave_their_neighbours_alone() {
    let columns = [
        ("k", DataType::Utf8),
        ("a", list(record(&[("x", DataType::Utf8)]))),
        ("m", map(DataType::Utf8)),
    ];
    let good = r#"{"k": "good", "a": [{"x": "1"}], "m": {"p": "q"}}"#;
    let expected = "good|[{x: 1}]|{p: q}";
    for bad in [
        "not json",
        "{",
        "}",
        "{\"k\"",
        "{\"k\":",
        "{\"k\": \"a",
        "{\"k\": \"a\\",
        "{\"k\": \"\\u12",
        "{\"k\": \"\\x\"}",
        "{\"k\": \"a\"",
        "{\"k\": \"a\",}",
        "{,}",
        "{\"a\": [{\"x\": \"1\"}",
        "{\"a\": [{\"x\": \"1\"},]}",
        "{\"a\": [{\"x\"",
        "{\"m\": {\"p\": \"q\"",
        "{\"m\": {\"p\" \"q\"}}",
        "{\"k\": tru}",
        "{\"k\": nul",
        "{k: 1}",
        "{\"k\": \"tab\there\"}",
        "{\"q\": [1, {\"z\": }]}",
        "\"text\"",
        "42",
        "null",
        "{\"k\" 1}",
        "/* comment */ {}",
        "{\"k\": \"a\"]",
    ] {
        let text = format!("{good}\n{bad}\n{good}\n");
        assert_eq!(
            read(&columns, &text),
            [expected, "null|null|null", expected],
            "{bad}"
        );
    }
}

#[test]
fn record_that_is_not_utf8_is_bad_and_its_neighbours_are_kept() {
    let text = b"{\"k\": \"a\"}\n{\"k\": \"\xFF\xFE\"}\n{\"k\": \"c\"}";
    let mut reader = reader(text, settings(&kvc()), JsonOptions::default());
    assert_eq!(
        drain(&mut reader).unwrap(),
        [
            "a|null|null",
            "null|null|{\"k\": \"\u{FFFD}\u{FFFD}\"}",
            "c|null|null"
        ]
    );
    assert_eq!(
        reader.bad_records().first.as_ref().unwrap().reason,
        "not UTF-8 at byte 7"
    );
}

#[test]
fn nesting_deeper_than_allowed_is_bad_and_does_not_overflow_the_stack() {
    for (depth, good) in [(999, true), (1000, false), (200_000, false)] {
        let deep = format!(
            "{{\"x\": {}{}, \"v\": 1}}",
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let expected = if good { "null|1" } else { "null|null" };
        assert_eq!(read(&kv(), &deep), [expected], "{depth}");
    }
}

#[test]
fn top_level_arrays_are_one_row_for_each_object() {
    let text = r#"[{"k": "a", "v": 1}, {"k": "b", "v": "x"}]
[]
[{"k": "c"}, 5]
[{"k": "d"}, {"k":]"#;
    let corrupt = r#"[{"k": "a", "v": 1}, {"k": "b", "v": "x"}]"#;
    assert_eq!(
        read(&kvc(), text),
        [
            format!("a|1|{corrupt}"),
            format!("b|null|{corrupt}"),
            "null|null|[{\"k\": \"c\"}, 5]".to_owned(),
            "null|null|[{\"k\": \"d\"}, {\"k\":]".to_owned(),
        ]
    );
    let strict = JsonOptions {
        arrays_as_rows: false,
        ..JsonOptions::default()
    };
    assert_eq!(read_with(&kv(), "[{\"k\": \"a\"}]", strict), ["null|null"]);
}

#[test]
fn text_behind_the_first_value_is_not_looked_at() {
    assert_eq!(
        read(
            &kv(),
            "{\"k\": \"a\"} {\"k\": \"b\"}\n{\"k\": \"c\"}garbage"
        ),
        ["a|null", "c|null"]
    );
}

#[test]
fn multi_line_documents_are_one_object_or_an_array_of_them() {
    let options = JsonOptions {
        multi_line: true,
        ..JsonOptions::default()
    };
    let text = "[\n  {\"k\": \"a\",\n \"v\": 1},\r\n  {\"k\": \"b\"}, {\"k\": \"c\"}\n]\n";
    let settings = DecodeSettings {
        batch_rows: 2,
        ..settings(&kv())
    };
    let mut array = reader(text.as_bytes(), settings, options.clone());
    assert_eq!(array.next_batch().unwrap().unwrap().num_rows(), 2);
    assert_eq!(drain(&mut array).unwrap(), ["c|null"]);
    assert_eq!(
        read_with(&kv(), "\u{FEFF}{\n\"v\":\n 5}", options.clone()),
        ["null|5"]
    );
    assert!(read_with(&kv(), " \n ", options).is_empty());
}

#[test]
fn lines_with_byte_order_mark_crlf_and_blanks() {
    let text = "\u{FEFF}{\"v\": 1}\r\n\r\n   \t\n{\"v\": 2}\r\n  {\"v\": 3}  ";
    assert_eq!(read(&kv(), text), ["null|1", "null|2", "null|3"]);
    let options = JsonOptions {
        line_separator: Some(b"||".to_vec()),
        ..JsonOptions::default()
    };
    assert_eq!(
        read_with(&kv(), "{\"v\": 1}||{\"v\":\n 2}||", options),
        ["null|1", "null|2"]
    );
}

#[test]
fn options_allow_what_json_does_not() {
    let read = |options: JsonOptions, text: &str| read_with(&kv(), text, options).remove(0);
    let default = JsonOptions::default;
    assert_eq!(
        read(default(), "{'k': 'it\\'s \"a\"', 'v': 1}"),
        "it's \"a\"|1"
    );
    assert_eq!(
        read(
            JsonOptions {
                allow_single_quotes: false,
                ..default()
            },
            "{'k': 'a'}"
        ),
        "null|null"
    );
    let comments = JsonOptions {
        allow_comments: true,
        ..default()
    };
    assert_eq!(
        read(
            comments.clone(),
            "/* x */ {\"k\" /* y */ : \"/*a*/\", // z\r\"v\": 1}"
        ),
        "null|null"
    );
    assert_eq!(
        read(
            comments.clone(),
            "/* x */ {\"k\" /* y */ : \"/*a*/\", /**/\"v\": 1}"
        ),
        "/*a*/|1"
    );
    assert!(read_with(&kv(), "// nothing\n", comments).is_empty());
    let names = JsonOptions {
        allow_unquoted_field_names: true,
        ..default()
    };
    assert_eq!(read(names, "{k: \"a\", v: 1}"), "a|1");
    let zeros = JsonOptions {
        allow_numeric_leading_zeros: true,
        ..default()
    };
    assert_eq!(read(zeros, "{\"k\": 007, \"v\": 007}"), "007|7");
    let escapes = JsonOptions {
        allow_backslash_escaping_any_character: true,
        ..default()
    };
    assert_eq!(read(escapes, "{\"k\": \"\\a\\$\"}"), "a$|null");
    let controls = JsonOptions {
        allow_unquoted_control_chars: true,
        ..default()
    };
    assert_eq!(read(controls, "{\"k\": \"a\tb\"}"), "a\tb|null");
}

#[test]
fn batches_are_cut_by_rows_and_by_bytes() {
    let text = "{\"v\": 1}\n".repeat(10);
    let by_rows = DecodeSettings {
        batch_rows: 4,
        ..settings(&kv())
    };
    let mut four = reader(text.as_bytes(), by_rows, JsonOptions::default());
    let sizes: Vec<usize> = std::iter::from_fn(|| four.next_batch().unwrap())
        .map(|batch| batch.num_rows())
        .collect();
    assert_eq!(sizes, [4, 4, 2]);
    let by_bytes = DecodeSettings {
        batch_bytes: 20,
        ..settings(&kv())
    };
    let mut three = reader(text.as_bytes(), by_bytes, JsonOptions::default());
    assert_eq!(three.next_batch().unwrap().unwrap().num_rows(), 3);
}

#[test]
fn corrupt_column_is_never_filled_by_a_field_of_its_name() {
    let text = "{\"_corrupt_record\": \"mine\", \"k\": \"a\"}";
    assert_eq!(read(&kvc(), text), ["a|null|null"]);
}

#[test]
fn many_columns_are_found_by_name_in_any_order() {
    let names: Vec<String> = (0..40).map(|index| format!("column_{index}")).collect();
    let columns: Vec<(&str, DataType)> = names
        .iter()
        .map(|name| (name.as_str(), DataType::Int64))
        .collect();
    let members: Vec<String> = (0..40)
        .rev()
        .map(|index| format!("\"column_{index}\": {index}"))
        .collect();
    let text = format!("{{\"none\": 1, {}}}", members.join(", "));
    let expected: Vec<String> = (0..40).map(|index| index.to_string()).collect();
    assert_eq!(read(&columns, &text), [expected.join("|")]);
}

#[test]
fn schema_without_columns_counts_records() {
    let mut reader = reader(b"{\"v\": 1}\n{}\n", settings(&[]), JsonOptions::default());
    assert_eq!(reader.next_batch().unwrap().unwrap().num_rows(), 2);
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

#[test]
fn decoder_takes_single_messages_and_goes_on_after_bad_ones() {
    let settings = DecodeSettings {
        mode: ParseMode::DropMalformed,
        ..settings(&kv())
    };
    let mut decoder = RecordDecoder::new(&settings, JsonOptions::default()).unwrap();
    let messages = ["{\"v\": 1}", "{\"v\": 12ii}", " ", "{\"v\": 3}"];
    let verdicts = messages.map(|message| decoder.append(message.as_bytes()));
    assert_eq!(
        verdicts,
        [Verdict::Good, Verdict::Bad, Verdict::Blank, Verdict::Good]
    );
    assert_eq!(
        rows_of(&decoder.finish(&settings.schema).unwrap()),
        ["null|1", "null|3"]
    );
    assert_eq!(decoder.rows(), 0);
    assert_eq!(
        decoder.reason(messages[1].as_bytes()),
        "unexpected character at byte 8"
    );
}
