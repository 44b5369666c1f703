//! What the files look like, format by format; that they come back is tested with the readers.

#![allow(clippy::unwrap_used)]

mod avro;
mod csv;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use uuid::Uuid;

use super::*;
use crate::file::sink::FileSinkConfig;

/// An output whose bytes can be looked at after the writer took it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An output that refuses everything.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("disk full"))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn format(name: &str, options: &[(&str, &str)]) -> WriteFormat {
    try_format(name, options).unwrap()
}

fn try_format(name: &str, options: &[(&str, &str)]) -> weir_runtime::Result<WriteFormat> {
    let options: BTreeMap<String, String> = options
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    FileSinkConfig::from_options(name, "/out", &[], &options).map(|config| config.format)
}

fn try_encode(format: &WriteFormat, batches: &[RecordBatch]) -> Result<Vec<u8>, EncodeError> {
    let out = Shared::default();
    let mut writer = new_writer(format, batches[0].schema(), Box::new(out.clone()))?;
    for batch in batches {
        writer.write(batch)?;
    }
    let before = writer.bytes_written();
    let stats = writer.finish()?;
    let bytes = out.0.lock().unwrap().clone();
    assert_eq!(stats.bytes, bytes.len() as u64);
    assert_eq!(
        stats.rows,
        batches.iter().map(|b| b.num_rows() as u64).sum::<u64>()
    );
    if !matches!(format, WriteFormat::Parquet(_)) {
        assert_eq!(before, stats.bytes);
    }
    Ok(bytes)
}

fn encode(format: &WriteFormat, batch: &RecordBatch) -> String {
    String::from_utf8(try_encode(format, std::slice::from_ref(batch)).unwrap()).unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn instants(micros: &[Option<i64>]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("UTC"))
}

fn map_of_ints(rows: &[&[(&str, Option<i32>)]]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in rows {
        for (key, value) in *row {
            builder.keys().append_value(key);
            builder.values().append_option(*value);
        }
        builder.append(true).unwrap();
    }
    Arc::new(builder.finish())
}

// --- names and options -------------------------------------------------------------------------

#[test]
fn file_name_is_the_one_spark_gives() {
    let id = Uuid::nil();
    let parquet = format("parquet", &[]);
    assert_eq!(
        parquet.part_file_name(0, id, 0, false),
        "part-00000-00000000-0000-0000-0000-000000000000-c000.snappy.parquet"
    );
    assert_eq!(
        format("JSON", &[]).part_file_name(12, id, 1, true),
        "part-00012-00000000-0000-0000-0000-000000000000.c001.json"
    );
    let none = format("parquet", &[("Compression", "none")]);
    assert_eq!(none.extension(), "parquet");
    assert_eq!(format("csv", &[]).extension(), "csv");
    assert_eq!(format("text", &[]).extension(), "txt");
}

#[test]
fn option_with_a_wrong_value_names_itself_and_what_is_allowed() {
    for (name, option, value) in [
        ("parquet", "compression", "brotli"),
        ("json", "ignoreNullFields", "yes"),
        ("json", "timestampFormat", "dd.MM.YYYY"),
        ("json", "timeZone", "Europe/Nowhere"),
        ("csv", "sep", "\\q"),
        ("csv", "dateFormat", "dd/MM/yyyy HH"),
        ("csv", "lineSep", ""),
        ("text", "compression", "brotli"),
    ] {
        let message = try_format(name, &[(option, value)])
            .unwrap_err()
            .to_string();
        assert!(message.contains(option), "{message}");
        assert!(message.contains(value), "{message}");
    }
    let message = try_format("xml", &[]).unwrap_err().to_string();
    assert!(
        message.contains("json, csv, parquet, avro, text"),
        "{message}"
    );
}

#[test]
fn unsupported_type_names_column_type_and_format() {
    let item = Field::new("item", DataType::Int32, true);
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new(
        "s",
        DataType::Struct(vec![Field::new("l", DataType::List(Arc::new(item)), true)].into()),
        true,
    )]));
    let csv = new_writer(&format("csv", &[]), Arc::clone(&schema), Box::new(Full));
    let message = csv.err().unwrap().to_string();
    assert!(
        message.contains("'csv'") && message.contains("'s"),
        "{message}"
    );
    let void = Arc::new(Schema::new(vec![Field::new("v", DataType::Null, true)]));
    let parquet = new_writer(&format("parquet", &[]), void, Box::new(Full));
    assert!(
        parquet
            .err()
            .unwrap()
            .to_string()
            .contains("'v' of type Null")
    );
}

#[test]
fn batch_with_other_columns_is_refused() {
    let first = batch(vec![("a", strings(&[Some("x")]))]);
    let other = batch(vec![("b", strings(&[Some("x")]))]);
    for name in ["parquet", "json", "csv", "text"] {
        let error = try_encode(&format(name, &[]), &[first.clone(), other.clone()]).unwrap_err();
        assert!(
            matches!(error, EncodeError::SchemaMismatch { .. }),
            "{error}"
        );
    }
}

#[test]
fn output_that_fails_is_reported_with_its_reason() {
    let rows = batch(vec![("value", strings(&[Some("x")]))]);
    for name in ["parquet", "json", "csv", "text"] {
        let made = new_writer(&format(name, &[]), rows.schema(), Box::new(Full));
        let error = made
            .and_then(|mut writer| {
                writer.write(&rows)?;
                writer.finish()
            })
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("disk full"), "{cause}");
    }
}

// --- json --------------------------------------------------------------------------------------

#[test]
fn json_leaves_null_fields_out_and_keeps_null_elements() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None]),
        Some(vec![]),
        None,
    ]);
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![Some(1), None, None])) as ArrayRef,
    )]);
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("l", Arc::new(list)),
        ("s", Arc::new(inner)),
        (
            "m",
            map_of_ints(&[&[("k", Some(1)), ("n", None)], &[], &[]]),
        ),
    ]);
    assert_eq!(
        encode(&format("json", &[]), &rows),
        "{\"id\":1,\"l\":[1,null],\"s\":{\"x\":1},\"m\":{\"k\":1,\"n\":null}}\n\
         {\"id\":2,\"l\":[],\"s\":{},\"m\":{}}\n\
         {\"id\":3,\"s\":{},\"m\":{}}\n"
    );
    let all = format("json", &[("ignoreNullFields", "false")]);
    assert!(encode(&all, &rows).ends_with("{\"id\":3,\"l\":null,\"s\":{\"x\":null},\"m\":{}}\n"));
}

#[test]
fn json_values_are_spelt_as_spark_spells_them() {
    let rows = batch(vec![
        ("b", Arc::new(BooleanArray::from(vec![true]))),
        ("d", Arc::new(Float64Array::from(vec![1e10]))),
        ("nan", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("inf", Arc::new(Float32Array::from(vec![f32::NEG_INFINITY]))),
        (
            "dec",
            Arc::new(
                Decimal128Array::from(vec![-5])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        ("bin", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))),
        ("date", Arc::new(Date32Array::from(vec![20_454]))),
        ("ts", instants(&[Some(1_767_225_601_000_000)])),
        (
            "ntz",
            Arc::new(TimestampMicrosecondArray::from(vec![1_767_225_601_000_001])),
        ),
    ]);
    assert_eq!(
        encode(&format("json", &[]), &rows),
        "{\"b\":true,\"d\":1.0E10,\"nan\":\"NaN\",\"inf\":\"-Infinity\",\"dec\":-0.05,\
         \"bin\":\"AP8=\",\"date\":\"2026-01-01\",\"ts\":\"2026-01-01T00:00:01.000Z\",\
         \"ntz\":\"2026-01-01T00:00:01.000001\"}\n"
    );
}

#[test]
fn json_text_escapes_quotes_backslashes_and_control_characters_only() {
    let rows = batch(vec![(
        "a\"b",
        strings(&[Some("\"\\/\n\t\u{1}\u{1f}é 日本 😀")]),
    )]);
    let line = encode(&format("json", &[]), &rows);
    assert_eq!(
        line,
        "{\"a\\\"b\":\"\\\"\\\\/\\n\\t\\u0001\\u001Fé 日本 😀\"}\n"
    );
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["a\"b"], "\"\\/\n\t\u{1}\u{1f}é 日本 😀");
}

/// As Spark 4.3.0 writes the same row.
#[test]
fn json_is_spread_sorted_and_ascii_as_spark_does_it() {
    let inner: ArrayRef = Arc::new(StructArray::from(vec![
        (
            Arc::new(Field::new("b", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("a", DataType::Utf8, true)),
            strings(&[None]),
        ),
    ]));
    let lists = |rows: Vec<Option<Vec<Option<i32>>>>| {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)) as ArrayRef
    };
    let rows = batch(vec![
        ("z", Arc::new(Int32Array::from(vec![1]))),
        ("s", inner),
        ("l", lists(vec![Some(vec![Some(1), Some(2)])])),
        ("e", lists(vec![Some(vec![])])),
        ("m", map_of_ints(&[&[("k2", Some(1)), ("k1", None)]])),
        ("em", map_of_ints(&[&[]])),
        ("t", strings(&[Some("é😀\"")])),
    ]);
    let one_line = "{\"z\":1,\"s\":{\"b\":1},\"l\":[1,2],\"e\":[],\"m\":{\"k2\":1,\"k1\":null},\"em\":{},\"t\":\"é😀\\\"\"}\n";
    assert_eq!(encode(&format("json", &[]), &rows), one_line);
    let ascii = [("writeNonAsciiCharacterAsCodePoint", "true")];
    assert_eq!(
        encode(&format("json", &ascii), &rows),
        one_line.replace("é😀", "\\u00E9\\uD83D\\uDE00")
    );
    assert_eq!(
        encode(&format("json", &[("sortKeys", "true")]), &rows),
        "{\"e\":[],\"em\":{},\"l\":[1,2],\"m\":{\"k1\":null,\"k2\":1},\"s\":{\"b\":1},\"t\":\"é😀\\\"\",\"z\":1}\n"
    );
    assert_eq!(
        encode(
            &format(
                "json",
                &[
                    ("pretty", "true"),
                    ("sortKeys", "true"),
                    ("ignoreNullFields", "false")
                ]
            ),
            &rows
        ),
        r#"{
  "e" : [ ],
  "em" : { },
  "l" : [ 1, 2 ],
  "m" : {
    "k1" : null,
    "k2" : 1
  },
  "s" : {
    "a" : null,
    "b" : 1
  },
  "t" : "é😀\"",
  "z" : 1
}
"#
    );
}

#[test]
fn json_zone_and_pattern_change_timestamps() {
    let rows = batch(vec![("ts", instants(&[Some(1_767_225_601_234_567)]))]);
    let options = [
        ("timeZone", "Europe/Rome"),
        ("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"),
    ];
    assert_eq!(
        encode(&format("json", &options), &rows),
        "{\"ts\":\"2026-01-01T01:00:01.234+01:00\"}\n"
    );
}

#[test]
fn json_slices_write_their_own_rows_only() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1)]),
        Some(vec![Some(2), Some(3)]),
        Some(vec![Some(4)]),
    ]);
    let rows = batch(vec![
        ("l", Arc::new(list)),
        (
            "m",
            map_of_ints(&[&[("a", Some(1))], &[("b", Some(2))], &[]]),
        ),
    ])
    .slice(1, 1);
    assert_eq!(
        encode(&format("json", &[]), &rows),
        "{\"l\":[2,3],\"m\":{\"b\":2}}\n"
    );
}

#[test]
fn json_unusual_layouts_are_written_like_the_usual_ones() {
    let dictionary: DictionaryArray<Int32Type> =
        vec![Some("x"), None, Some("x")].into_iter().collect();
    let rows = batch(vec![
        ("dict", Arc::new(dictionary)),
        ("view", Arc::new(StringViewArray::from(vec!["a", "b", "c"]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3]).with_timezone("Europe/Rome")),
        ),
    ]);
    let text = encode(&format("json", &[]), &rows);
    assert_eq!(
        text.lines().next().unwrap(),
        "{\"dict\":\"x\",\"view\":\"a\",\"u\":18446744073709551615,\"ms\":\"1970-01-01T00:00:00.001Z\"}"
    );
    assert!(text.lines().nth(1).unwrap().starts_with("{\"view\":\"b\""));
}

// --- text --------------------------------------------------------------------------------------

#[test]
fn text_is_a_line_for_each_row() {
    let rows = batch(vec![("value", strings(&[Some("a"), None, Some("日本")]))]);
    assert_eq!(encode(&format("text", &[]), &rows), "a\n\n日本\n");
    assert_eq!(
        encode(&format("text", &[("lineSep", "\r\n")]), &rows),
        "a\r\n\r\n日本\r\n"
    );
}

#[test]
fn text_with_other_columns_is_refused_naming_them() {
    let two = batch(vec![("a", strings(&[None])), ("b", strings(&[None]))]);
    let number = batch(vec![("n", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    for (rows, named) in [(two, "a Utf8, b Utf8"), (number, "n Int32")] {
        let error = try_encode(&format("text", &[]), &[rows]).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}

// --- parquet -----------------------------------------------------------------------------------

#[test]
fn parquet_schema_is_one_every_reader_knows() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::schema::printer::print_schema;

    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)])]);
    let rows = batch(vec![
        ("u8", Arc::new(UInt8Array::from(vec![255]))),
        ("ts", instants(&[Some(1)])),
        ("ns", Arc::new(TimestampNanosecondArray::from(vec![1_000]))),
        ("l", Arc::new(list)),
        ("m", map_of_ints(&[&[("k", Some(1))]])),
    ]);
    let bytes = try_encode(&format("parquet", &[]), &[rows]).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert!(metadata.key_value_metadata().is_none());
    let mut printed = Vec::new();
    print_schema(&mut printed, metadata.schema());
    let printed = String::from_utf8(printed).unwrap();
    for line in [
        "message spark_schema",
        "OPTIONAL INT32 u8 (INTEGER(16,true))",
        "OPTIONAL INT64 ts (TIMESTAMP(MICROS,true))",
        "OPTIONAL INT64 ns (TIMESTAMP(MICROS,false))",
        "REPEATED group list",
        "OPTIONAL INT32 element",
        "REPEATED group key_value",
        "REQUIRED BYTE_ARRAY key (STRING)",
        "OPTIONAL INT32 value",
    ] {
        assert!(printed.contains(line), "{line} is not in\n{printed}");
    }
}

#[test]
fn parquet_row_groups_are_cut_by_size() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    let rows: Vec<RecordBatch> = (0..90_i64)
        .map(|part| {
            let values: Vec<String> = (0..1000)
                .map(|row| format!("{:01000}", part * 1000 + row))
                .collect();
            batch(vec![("s", Arc::new(StringArray::from(values)) as ArrayRef)])
        })
        .collect();
    let none = format("parquet", &[("compression", "uncompressed")]);
    let bytes = try_encode(&none, &rows).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
}

#[test]
fn parquet_without_rows_is_still_a_file() {
    let rows = batch(vec![("a", strings(&[]))]);
    let bytes = try_encode(&format("parquet", &[]), &[rows]).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}
