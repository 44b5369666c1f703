//! Single values, as `from_json` reads them.

use arrow::{
    array::Array,
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    super::{
        super::{DecodeSettings, ParseMode},
        JsonOptions, ValueDecoder, Verdict,
    },
    list, map, record, settings, timestamp,
};

fn values_in(
    mode: ParseMode,
    data_type: &DataType,
    texts: &[Option<&str>],
) -> (Vec<String>, Vec<Verdict>) {
    let settings = DecodeSettings {
        mode,
        ..settings(&[])
    };
    let mut decoder = ValueDecoder::new(data_type, &settings, JsonOptions::for_function()).unwrap();
    let verdicts = texts
        .iter()
        .map(|text| decoder.append(text.map(str::as_bytes)))
        .collect();
    let array = decoder.finish().unwrap();
    assert_eq!((array.len(), array.data_type()), (texts.len(), data_type));
    let options = FormatOptions::default().with_null("null");
    let shown = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
    (
        (0..array.len())
            .map(|row| shown.value(row).to_string())
            .collect(),
        verdicts,
    )
}

fn values(data_type: &DataType, texts: &[&str]) -> Vec<String> {
    let texts: Vec<Option<&str>> = texts.iter().map(|text| Some(*text)).collect();
    values_in(ParseMode::Permissive, data_type, &texts).0
}

#[test]
fn struct_values_of_all_scalar_types() {
    let data_type = record(&[
        ("b", DataType::Boolean),
        ("d", DataType::Decimal128(10, 2)),
        ("dt", DataType::Date32),
        ("t", timestamp()),
        ("s", DataType::Utf8),
        ("l", DataType::Int64),
        ("x", DataType::Float64),
    ]);
    let texts = [
        r#"{"b": true, "d": 1.005, "dt": "2026-01-02", "t": "2026-01-02T03:04:05.123456Z", "s": 12.50, "l": 9223372036854775807, "x": 1e3}"#,
        r#"{"b": "true", "d": "3.14", "dt": "02.01.2026", "t": "2026-01-02 03:04:05", "s": {"k": [1, 2]}, "l": "5", "x": "NaN"}"#,
        r#"{"b": 1, "d": 123456789.123, "t": 1, "dt": 1, "s": true, "l": 1.0, "x": "Infinity"}"#,
    ];
    assert_eq!(
        values(&data_type, &texts),
        [
            "{b: true, d: 1.01, dt: 2026-01-02, t: 2026-01-02T03:04:05.123456Z, s: 12.5, l: 9223372036854775807, x: 1000.0}",
            r#"{b: null, d: 3.14, dt: null, t: 2026-01-02T03:04:05Z, s: {"k":[1,2]}, l: null, x: NaN}"#,
            "{b: null, d: null, dt: null, t: 1970-01-01T00:00:01Z, s: true, l: null, x: inf}",
        ]
    );
}

#[test]
fn text_fields_are_rewritten_in_compact_form() {
    let data_type = record(&[("s", DataType::Utf8)]);
    let texts = [
        r#"{"s": 1.50}"#,
        r#"{"s": 1e3}"#,
        r#"{"s": 100000000000000000000}"#,
        r#"{"s": {"b" : [1,  2.0, {}, [ ], "é\u0041\/\n"], 'c': null}}"#,
        r#"{"s": NaN}"#,
    ];
    let expected = [
        "{s: 1.5}",
        "{s: 1000.0}",
        "{s: 100000000000000000000}",
        r#"{s: {"b":[1,2.0,{},[],"éA/\n"],"c":null}}"#,
        "{s: \"NaN\"}",
    ];
    assert_eq!(values(&data_type, &texts), expected);
}

#[test]
fn corrupt_field_takes_the_text() {
    let data_type = record(&[("a", DataType::Int32), ("_corrupt_record", DataType::Utf8)]);
    assert_eq!(
        values(
            &data_type,
            &[
                r#"{"a": 1}"#,
                r#"{"a": "x"}"#,
                "nope",
                r#"{"a": 1, "extra": true}"#,
                "[1]",
                ""
            ]
        ),
        [
            "{a: 1, _corrupt_record: null}",
            r#"{a: null, _corrupt_record: {"a": "x"}}"#,
            "{a: null, _corrupt_record: nope}",
            "{a: 1, _corrupt_record: null}",
            "{a: null, _corrupt_record: [1]}",
            "null",
        ]
    );
}

#[test]
fn every_text_gives_one_value_in_every_mode() {
    let data_type = record(&[("a", DataType::Int32)]);
    let texts = [
        None,
        Some(" "),
        Some(r#"{"a": 1}"#),
        Some(r#"{"a": "x"}"#),
        Some("{"),
    ];
    let verdicts = [
        Verdict::Blank,
        Verdict::Blank,
        Verdict::Good,
        Verdict::Bad,
        Verdict::Bad,
    ];
    let permissive = values_in(ParseMode::Permissive, &data_type, &texts);
    assert_eq!(
        permissive.0,
        ["null", "null", "{a: 1}", "{a: null}", "{a: null}"]
    );
    assert_eq!(permissive.1, verdicts);
    let strict = values_in(ParseMode::FailFast, &data_type, &texts);
    assert_eq!(strict.0, ["null", "null", "{a: 1}", "null", "null"]);
    assert_eq!(strict.1, verdicts);
}

#[test]
fn arrays_and_maps_at_the_top() {
    let records = list(record(&[("i", DataType::Int32)]));
    let texts = [
        r#"[{"i": 1}, {"i": "x"}]"#,
        r#"{"i": 4}"#,
        "[]",
        "[1]",
        "null",
        "",
        "[{",
        "5",
    ];
    let expected = [
        "[{i: 1}, {i: null}]",
        "[{i: 4}]",
        "[]",
        "null",
        "null",
        "null",
        "null",
        "null",
    ];
    assert_eq!(values(&records, &texts), expected);
    assert_eq!(
        values(&list(DataType::Int32), &["[1, 2]", "{}", r#"[1, "x"]"#]),
        ["[1, 2]", "null", "null"]
    );
    assert_eq!(
        values(
            &map(DataType::Int32),
            &[r#"{"a": 1}"#, r#"{"a": "x"}"#, "[]"]
        ),
        ["{a: 1}", "null", "null"]
    );
    let error = ValueDecoder::new(
        &DataType::Int32,
        &settings(&[]),
        JsonOptions::for_function(),
    )
    .err()
    .unwrap();
    assert!(error.to_string().contains("allowed: STRUCT, ARRAY, MAP"));
}
