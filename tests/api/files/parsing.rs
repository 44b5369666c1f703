//! Field cases about what stands in files, as a user of a query sees them: P067 to P074, P083, P085 to P087.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use weir::prelude::*;

use super::{Reading, bad_records};
use crate::field::stage::{listen_to_warnings, texts, warnings_with};
use crate::support::{Home, session};

/// A directory of one file.
fn one_file(
    format: &'static str,
    schema: &'static str,
    options: &[(&'static str, &'static str)],
    file: impl AsRef<[u8]>,
) -> Reading {
    let mut reading = Reading::new(format, schema);
    for (name, value) in options {
        reading = reading.option(name, value);
    }
    reading.put("file", file);
    reading
}

const HEADER: &[(&str, &str)] = &[("header", "true")];

#[tokio::test]
async fn p067_a_byte_order_mark_is_part_of_no_name_and_no_record() {
    let columns = "id BIGINT, name STRING";
    for file in ["\u{FEFF}id,name\n1,a\n", "\u{FEFF}\"id\",\"name\"\n1,a\n"] {
        let rows = one_file("csv", columns, HEADER, file).read().await;
        assert_eq!(rows, ["1|a"], "{file}");
    }
    let rows = one_file("csv", columns, HEADER, "\u{FEFF}").read().await;
    assert!(rows.is_empty());
    let json = one_file("json", "id BIGINT", &[], "\u{FEFF}{\"id\":1}\n");
    assert_eq!(json.read().await, ["1"]);
}

#[tokio::test]
async fn p068_line_ends_inside_of_quotes_are_kept_and_others_belong_to_no_value() {
    let file = "id,s,p\r\n1,\"A\r\nB\",x\r\n2,plain,y\r\n";
    let options = [("header", "true"), ("multiLine", "true")];
    let reading = one_file("csv", "id BIGINT, s STRING, p STRING", &options, file);
    let reading = reading.select(&["id", "length(s) AS s", "length(p) AS p"]);
    assert_eq!(reading.read().await, ["1|4|1", "2|5|1"]);
}

#[tokio::test]
async fn p069_quotes_and_line_ends_in_quotes_are_read_and_never_shift_columns() {
    let file = "x,s\n1,\"new\nline, \"\"quoted\"\"\"\n2,\"with space\"\n3,\"\"\n";
    let columns = "x BIGINT, s STRING";
    let over_lines = [("header", "true"), ("multiLine", "true")];
    assert_eq!(
        one_file("csv", columns, &over_lines, file).read().await,
        ["1|new\nline, \"quoted\"", "2|with space", "3|"]
    );
    let lines_only = [("header", "true"), ("multiLine", "false")];
    let reading = one_file("csv", columns, &lines_only, file);
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(bad_records(&query), 1);
    assert_eq!(
        (rows.len(), &rows[1..]),
        (3, &["2|with space".to_owned(), "3|".to_owned()][..])
    );
}

#[tokio::test]
async fn p070_columns_are_those_of_the_header_and_differences_are_told() {
    listen_to_warnings();
    let reading = Reading::new("csv", "name STRING, age STRING").option("header", true);
    reading.put("a.csv", "name,age\nAnna,31\nBruno,45\n");
    reading.put("b.csv", "age,name\n54,Carla\n");
    reading.put("p070-other.csv", "name,agee\nDario,7\n");
    assert_eq!(
        reading.read().await,
        ["Anna|31", "Bruno|45", "Carla|54", "Dario|null"]
    );
    let warnings = warnings_with("p070-other.csv").join("\n");
    assert!(
        warnings.contains("lacks columns") && warnings.contains("\"agee\""),
        "{warnings}"
    );
    let twice = one_file("csv", "name STRING", HEADER, "name,name\na,b\n");
    let error = twice.failure().await.to_string();
    assert!(error.contains("\"name\" twice"), "{error}");
}

/// The rows of a stream after they were written to CSV files and read from them, with the options as they are but a header.
async fn through_csv(source: &Reading, schema: &str, columns: &[&'static str]) -> Vec<String> {
    let (session, out) = (session(), Home::new());
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("csv")
        .option("header", true)
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let table = session
        .read()
        .format("csv")
        .schema(schema)
        .option("header", true);
    let table = table.load(&out.text("out")).await.unwrap();
    let batches = table.select_expr(columns).unwrap().collect().await;
    let mut rows: Vec<String> = batches.unwrap().iter().flat_map(texts).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn p071_empty_text_and_null_are_two_things_also_after_a_round_trip() {
    const SCHEMA: &str = "id BIGINT, s STRING";
    const COLUMNS: &[&str] = &["id", "s", "s IS NULL AS missing"];
    let file = "id,s\n1,\n2,\"\"\n3,x\n4,null\n";
    let expected = ["1|null|true", "2||false", "3|x|false", "4|null|false"];
    let reading = one_file("csv", SCHEMA, HEADER, file).select(COLUMNS);
    assert_eq!(reading.read().await, expected);
    let source = one_file("csv", SCHEMA, HEADER, file);
    assert_eq!(through_csv(&source, SCHEMA, COLUMNS).await, expected);
}

#[tokio::test]
async fn p072_quotes_and_backslashes_come_back_from_csv() {
    const SCHEMA: &str = "id BIGINT, s STRING";
    let texts = ["he said \"hi\"", "C:\\dir\\", "a\\\"b", "x,y\nz", " lead"];
    let lines: Vec<String> = (1..)
        .zip(texts)
        .map(|(id, s)| serde_json::json!({"id": id, "s": s}).to_string())
        .collect();
    let source = one_file("json", SCHEMA, &[], lines.join("\n"));
    let expected: Vec<String> = (1..)
        .zip(texts)
        .map(|(id, s)| format!("{id}|{s}"))
        .collect();
    assert_eq!(source.read().await, expected);
    assert_eq!(through_csv(&source, SCHEMA, &["id", "s"]).await, expected);
}

#[tokio::test]
async fn p073_rows_with_too_few_or_too_many_fields_follow_the_mode() {
    let with = |mode: &'static str| {
        let reading = Reading::new("csv", "id BIGINT, x STRING, y STRING, _corrupt STRING")
            .option("header", true)
            .option("columnNameOfCorruptRecord", "_corrupt")
            .option("mode", mode);
        reading.put("ragged.csv", "id,x,y\n1,a\n2,b,c\n3,d,e,EXTRA\n");
        reading
    };
    assert_eq!(
        with("PERMISSIVE").read().await,
        ["1|a|null|1,a", "2|b|c|null", "3|d|e|3,d,e,EXTRA"]
    );
    assert_eq!(with("DROPMALFORMED").read().await, ["2|b|c|null"]);
    let error = with("FAILFAST").failure().await.to_string();
    assert!(error.contains("ragged.csv:2"), "{error}");
}

#[tokio::test]
async fn p074_blank_lines_are_no_records() {
    let columns = "id BIGINT, name STRING";
    let commas = "id,name\n\n1,a\n\n2,b\n\n";
    let rows = one_file("csv", columns, HEADER, commas).read().await;
    assert_eq!(rows, ["1|a", "2|b"]);
    let options = [("header", "true"), ("sep", ";")];
    let semicolons = one_file("csv", columns, &options, "id;name\n\n1;a\n2;b\n");
    assert_eq!(semicolons.read().await, ["1|a", "2|b"]);
    let single = one_file("csv", "s STRING", &[], "x\n\ny\n");
    assert_eq!(single.read().await, ["x", "y"]);
    let json = one_file("json", "id BIGINT", &[], "\n{\"id\":1}\n   \n{\"id\":2}\n");
    assert_eq!(json.read().await, ["1", "2"]);
}

#[tokio::test]
async fn p083_bytes_that_are_no_text_spoil_their_own_line_only() {
    let file = b"{\"id\":1}\n{\"id\":2,\"s\":\"\xff\"}\n{\"id\":3,\"s\":\"\xc3";
    let json = one_file("json", "id BIGINT", &[("mode", "DROPMALFORMED")], file);
    let (rows, query) = json.try_read().await.unwrap();
    assert_eq!((rows, bad_records(&query)), (vec!["1".to_owned()], 2));
    let text = one_file("text", "value STRING", &[], b"a\n\xff\nc");
    assert_eq!(text.read().await, ["a", "c", "\u{FFFD}"]);
}

#[tokio::test]
async fn p085_a_line_of_megabytes_is_one_row() {
    let long = format!("{{\"id\":1,\"s\":\"{}\"}}", "x".repeat(5 << 20));
    let file = format!("{long}\n{{\"id\":2,\"s\":\"y\"}}\n");
    let reading = one_file("json", "id BIGINT, s STRING", &[], file);
    let reading = reading.select(&["id", "length(s) AS letters"]);
    assert_eq!(reading.read().await, ["1|5242880", "2|1"]);
}

#[tokio::test]
async fn p086_deep_nesting_is_a_bad_record_and_the_next_row_is_read() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"id\":1,\"x\":{open}{close}}}\n")
    };
    let file = format!("{}{}{{\"id\":2}}\n", nested(100), nested(10_000));
    let reading = one_file("json", "id BIGINT", &[], file);
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(
        (rows, bad_records(&query)),
        (vec!["1".to_owned(), "2".to_owned(), "null".to_owned()], 1)
    );
}

fn parquet_file(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let columns = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn p087_parquet_files_of_other_columns_are_widened_or_refused_never_changed() {
    let long = |id: i64| Arc::new(Int64Array::from(vec![id])) as ArrayRef;
    let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let reading = Reading::new("parquet", "id BIGINT, name STRING");
    let int: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let extra: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    for (name, columns) in [
        (
            "int32.parquet",
            vec![("id", int), ("name", text(Some("a")))],
        ),
        ("noname.parquet", vec![("id", long(2))]),
        (
            "upper.parquet",
            vec![("id", long(3)), ("NAME", text(Some("c"))), ("extra", extra)],
        ),
        ("null.parquet", vec![("id", long(4)), ("name", text(None))]),
    ] {
        reading.put(name, parquet_file(columns));
    }
    assert_eq!(reading.read().await, ["1|a", "2|null", "3|c", "4|null"]);

    let session = session();
    let filtered = reading.frame(&session).unwrap().filter("name = 'c'");
    let query = filtered
        .unwrap()
        .write_stream()
        .format("memory")
        .query_name("filtered")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let table = session.table("filtered").await.unwrap();
    let batches = table.collect().await.unwrap();
    assert_eq!(batches.iter().flat_map(texts).collect::<Vec<_>>(), ["3|c"]);

    let narrow = Reading::new("parquet", "id INT");
    narrow.put("long.parquet", parquet_file(vec![("id", long(2))]));
    let error = narrow.failure().await.to_string();
    assert!(
        error.contains("long.parquet") && error.contains("\"id\""),
        "{error}"
    );
}
