//! Records that are not what the schema or JSON asks for.

#![allow(clippy::unwrap_used)]

use arrow::datatypes::DataType;

use super::{
    super::{
        super::{BatchReader, DecodeSettings, ParseMode},
        JsonOptions,
    },
    drain, kv, kvc, list, map, read, read_with, reader, record, settings,
};

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
fn record_longer_than_allowed_is_bad_and_its_neighbours_are_kept() {
    let long = format!("{{\"k\": \"{}\", \"v\": 9}}", "x".repeat(5000));
    let text = format!("{{\"k\": \"a\"}}\n{long}\n{{\"k\": \"b\"}}\n");
    let limited = |mode| DecodeSettings {
        max_record_bytes: 2000,
        mode,
        ..settings(&kvc())
    };
    let mut permissive = reader(
        text.as_bytes(),
        limited(ParseMode::Permissive),
        JsonOptions::default(),
    );
    let beginning = &long[..1024];
    assert_eq!(
        drain(&mut permissive).unwrap(),
        [
            "a|null|null".to_owned(),
            format!("null|null|{beginning}"),
            "b|null|null".to_owned()
        ]
    );
    let first = permissive.bad_records().first.clone().unwrap();
    assert_eq!(
        (first.line, first.reason),
        (
            2,
            format!("the record has {} bytes, allowed are 2000", long.len())
        )
    );
    let mut drops = reader(
        text.as_bytes(),
        limited(ParseMode::DropMalformed),
        JsonOptions::default(),
    );
    assert_eq!(drain(&mut drops).unwrap(), ["a|null|null", "b|null|null"]);
    let mut fails = reader(
        text.as_bytes(),
        limited(ParseMode::FailFast),
        JsonOptions::default(),
    );
    let error = drain(&mut fails).unwrap_err().to_string();
    assert!(
        error.contains("line 2") && error.contains("allowed are 2000"),
        "{error}"
    );
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
fn p084_text_behind_a_record_makes_it_bad_and_leaves_its_fields() {
    let text = "{\"k\": \"a\"} {\"k\": \"b\"}\n{\"k\": \"c\"}garbage\n{\"k\": \"d\"} \n";
    let mut reader = reader(text.as_bytes(), settings(&kvc()), JsonOptions::default());
    assert_eq!(
        drain(&mut reader).unwrap(),
        [
            "a|null|{\"k\": \"a\"} {\"k\": \"b\"}",
            "c|null|{\"k\": \"c\"}garbage",
            "d|null|null"
        ]
    );
    let bad = reader.bad_records();
    assert_eq!(bad.count, 2);
    assert_eq!(
        bad.first.as_ref().unwrap().reason,
        "one record is read of a line, and {\"k\": \"b\"} follows it at byte 11"
    );
}
