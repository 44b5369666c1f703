//! What the writers write, the readers read back unchanged: the two halves of this folder against each other.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type};
use proptest::prelude::*;

use super::decode::ParseMode;
use super::encode::new_writer;
use super::options::{sink_options, source_options};
use super::sink::FileSinkConfig;
use super::source::FileSourceConfig;
use crate::options::OptionSpec;

/// Those of the options that a table has.
fn known(table: Option<Vec<OptionSpec>>, options: &[(&str, &str)]) -> BTreeMap<String, String> {
    let table = table.unwrap();
    options
        .iter()
        .filter(|(name, _)| table.iter().any(|spec| spec.name == *name))
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Writes one file the way the sink does and reads it the way the source does, with the same options.
fn there_and_back(batch: &RecordBatch, format: &str, options: &[(&str, &str)]) -> RecordBatch {
    let dir = tempfile::tempdir().unwrap();
    let options_of = |table| known(table, options);
    let sink = FileSinkConfig::from_options(format, "/", &[], &options_of(sink_options(format)));
    let sink = sink.unwrap();
    let path = dir.path().join(format!("f.{}", sink.format.extension()));
    let file = Box::new(File::create(&path).unwrap());
    let mut writer = new_writer(&sink.format, batch.schema(), file).unwrap();
    writer.write(batch).unwrap();
    let stats = writer.finish().unwrap();
    assert_eq!(stats.rows, batch.num_rows() as u64);
    assert_eq!(
        stats.bytes,
        std::fs::metadata(&path).unwrap().len(),
        "{format} {options:?}"
    );

    let mut given = options_of(source_options(format));
    given.remove("compression");
    let schema = Some(batch.schema());
    let source = FileSourceConfig::from_options(format, "/", schema, &given).unwrap();
    let mut settings = source.decode_settings();
    settings.mode = ParseMode::FailFast;
    let schema = Arc::clone(&settings.schema);
    let mut reader = source
        .format
        .open(&path, "f", source.charset, settings)
        .unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        batches.push(batch);
    }
    concat_batches(&schema, &batches).unwrap()
}

#[track_caller]
fn assert_round_trip(batch: &RecordBatch, format: &str, options: &[(&str, &str)]) {
    let back = there_and_back(batch, format, options);
    assert_eq!(back.columns(), batch.columns(), "{format} {options:?}");
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

/// Three values and NULL.
fn four<T>(a: T, b: T, c: T) -> Vec<Option<T>> {
    vec![Some(a), Some(b), Some(c), None]
}

/// A column of every scalar type with its limits, zero, and NULL.
fn scalars() -> Vec<(&'static str, ArrayRef)> {
    let micros = four(253_402_300_799_999_999, -1, 1_717_200_000_000_001);
    let instants = TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC");
    let decimals = Decimal128Array::from(four(10_i128.pow(38) - 1, 1 - 10_i128.pow(38), 5))
        .with_precision_and_scale(38, 10)
        .unwrap();
    let texts = four(
        "é 日本 😀 \u{0}\u{1}\u{7f}",
        "",
        " \"quoted\", \\back\\slash\\\r\nnew\tline ",
    );
    let doubles = four(f64::MAX, f64::NEG_INFINITY, -0.0);
    vec![
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4]))),
        (
            "bool",
            Arc::new(BooleanArray::from(four(true, false, true))),
        ),
        ("tiny", Arc::new(Int8Array::from(four(i8::MIN, i8::MAX, 0)))),
        (
            "small",
            Arc::new(Int16Array::from(four(i16::MIN, i16::MAX, 0))),
        ),
        (
            "int",
            Arc::new(Int32Array::from(four(i32::MIN, i32::MAX, 0))),
        ),
        (
            "long",
            Arc::new(Int64Array::from(four(i64::MIN, i64::MAX, 0))),
        ),
        (
            "float",
            Arc::new(Float32Array::from(four(f32::MIN, f32::INFINITY, 1e-45))),
        ),
        ("double", Arc::new(Float64Array::from(doubles))),
        ("dec", Arc::new(decimals)),
        (
            "date",
            Arc::new(Date32Array::from(four(-719_162, 2_932_896, 0))),
        ),
        ("ts", Arc::new(instants)),
        ("ntz", Arc::new(TimestampMicrosecondArray::from(micros))),
        ("text", Arc::new(StringArray::from(texts))),
    ]
}

fn nested() -> Vec<(&'static str, ArrayRef)> {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None]),
        Some(vec![]),
        None,
        Some(vec![None]),
    ]);
    let inner = StructArray::try_new(
        vec![
            Field::new("x", DataType::Int32, true),
            Field::new("ünïcode \"name\"", DataType::Utf8, true),
        ]
        .into(),
        vec![
            Arc::new(Int32Array::from(vec![Some(1), None, None, Some(4)])) as ArrayRef,
            Arc::new(StringArray::from(vec![Some("a"), Some(""), None, None])),
        ],
        Some(vec![true, true, false, true].into()),
    )
    .unwrap();
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in [
        &[("a", Some(1)), ("\"b\"", None)][..],
        &[],
        &[("c", Some(3))],
        &[],
    ] {
        for (key, value) in row {
            map.keys().append_value(key);
            map.values().append_option(*value);
        }
        map.append(true).unwrap();
    }
    vec![
        ("list", Arc::new(list)),
        ("struct", Arc::new(inner)),
        ("map", Arc::new(map.finish())),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![
                Some(&b"\x00\xff"[..]),
                Some(b""),
                Some(b"abc"),
                None,
            ])),
        ),
    ]
}

#[test]
fn parquet_of_every_codec_comes_back_as_it_was() {
    let rows = batch(scalars().into_iter().chain(nested()).collect());
    for codec in ["none", "snappy", "zstd", "lz4", "gzip"] {
        assert_round_trip(&rows, "parquet", &[("compression", codec)]);
    }
}

#[test]
fn text_formats_come_back_in_every_compression_and_charset() {
    let rows = batch(scalars());
    for format in ["json", "csv"] {
        for codec in ["gzip", "deflate", "bzip2", "zstd", "lz4", "snappy", "none"] {
            assert_round_trip(&rows, format, &[("compression", codec)]);
        }
        for charset in ["UTF-16", "UTF-16LE", "UTF-32", "GB18030"] {
            assert_round_trip(
                &rows,
                format,
                &[("encoding", charset), ("compression", "gzip")],
            );
        }
    }
    let lines = batch(vec![(
        "value",
        Arc::new(StringArray::from(vec!["a", "", "città 日本"])) as ArrayRef,
    )]);
    assert_round_trip(
        &lines,
        "text",
        &[("encoding", "UTF-16"), ("compression", "zstd")],
    );
}

#[test]
fn times_come_back_in_patterns_that_hold_them() {
    let columns = scalars()
        .into_iter()
        .filter(|(name, _)| ["id", "date", "ts", "ntz"].contains(name));
    let rows = batch(columns.collect());
    for format in ["json", "csv"] {
        assert_round_trip(
            &rows,
            format,
            &[
                ("dateFormat", "dd/MM/yyyy"),
                ("timestampFormat", "yyyyMMdd HHmmss.SSSSSS Z"),
                ("timestampNTZFormat", "d MMM yyyy, hh:mm:ss.SSSSSS a"),
                ("timeZone", "America/New_York"),
            ],
        );
    }
}

#[test]
fn json_comes_back_as_it_was() {
    let rows = batch(scalars().into_iter().chain(nested()).collect());
    for zone in ["UTC", "Europe/Rome", "-03:30"] {
        assert_round_trip(&rows, "json", &[("timeZone", zone)]);
        assert_round_trip(
            &rows,
            "json",
            &[("timeZone", zone), ("ignoreNullFields", "false")],
        );
    }
}

#[test]
fn csv_comes_back_as_it_was_with_any_separator_and_quote() {
    let rows = batch(scalars());
    for options in [
        &[][..],
        &[("header", "true")],
        &[("escape", "\"")],
        &[("escape", "\\")],
        &[("sep", "-"), ("header", "true")],
        &[("sep", "\\t"), ("quote", "'"), ("nullValue", "NULL")],
        &[("sep", "."), ("quote", "0")],
    ] {
        assert_round_trip(&rows, "csv", options);
    }
    assert_round_trip(&rows, "csv", &[("timeZone", "Europe/Rome")]);
}

#[test]
fn csv_texts_with_quotes_backslashes_and_blanks_come_back() {
    let texts = ["he said \"hi\"", "C:\\dir\\", "a\\\"b", "x,y\nz", " lead"];
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
        ("s", Arc::new(StringArray::from(texts.to_vec()))),
    ]);
    assert_round_trip(&rows, "csv", &[]);
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop_oneof![
        "[ab,\"\\\\\r\n \u{feff}é]{0,8}",
        any::<String>(),
    ])
}

proptest! {
    #[test]
    fn texts_come_back_from_every_format(rows in prop::collection::vec((text(), text(), any::<Option<f64>>()), 1..8)) {
        let a: StringArray = rows.iter().map(|row| row.0.clone()).collect();
        let b: StringArray = rows.iter().map(|row| row.1.clone()).collect();
        let numbers: Float64Array = rows.iter().map(|row| row.2.filter(|n| !n.is_nan())).collect();
        let rows = batch(vec![
            ("a", Arc::new(a)),
            ("b", Arc::new(b)),
            ("n", Arc::new(numbers)),
        ]);
        for format in ["parquet", "json", "csv"] {
            assert_round_trip(&rows, format, &[]);
        }
        assert_round_trip(&rows, "csv", &[("escape", "\""), ("multiLine", "true")]);
    }
}
