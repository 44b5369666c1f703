//! How records, modes and options behave, one test for each rule; column types, single values and properties stand in
//! modules of their own.

#![allow(clippy::unwrap_used)]

mod broken;
mod properties;
mod types;
mod values;

use std::sync::Arc;

use arrow::{
    datatypes::{DataType, Field, Fields, Schema, TimeUnit},
    record_batch::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    super::{BatchReader, DecodeError, DecodeSettings, ParseMode},
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

pub(super) fn read_with(
    columns: &[(&str, DataType)],
    text: &str,
    options: JsonOptions,
) -> Vec<String> {
    drain(&mut reader(text.as_bytes(), settings(columns), options)).unwrap()
}

pub(super) fn kv() -> [(&'static str, DataType); 2] {
    [("k", DataType::Utf8), ("v", DataType::Int32)]
}

pub(super) fn kvc() -> [(&'static str, DataType); 3] {
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
