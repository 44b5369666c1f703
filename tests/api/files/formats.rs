//! Every format there and back, compressed, in other charsets and patterns.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use weir::prelude::*;

use super::{Reading, bad_records, files_below};
use crate::field::stage::texts;
use crate::support::{Home, session};

const COLUMNS: &str = "id BIGINT, name STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP, ok BOOLEAN, tags ARRAY<STRING>";
const ROWS: &str = "{\"id\":1,\"name\":\"città\",\"price\":1.50,\"day\":\"2026-01-02\",\"at\":\"2026-01-02T03:04:05.123456Z\",\"ok\":true,\"tags\":[\"a\",null]}\n\
                    {\"id\":2,\"name\":\"\",\"price\":-0.01}\n\
                    {\"id\":3,\"tags\":[]}\n";

/// Writes the rows as a stream and reads the output as a stream and as a table.
async fn there_and_back(
    format: &'static str,
    columns: &'static [&'static str],
    options: &[(&str, &str)],
) {
    let source = Reading::new("json", COLUMNS).select(columns);
    source.put("a.json", ROWS);
    let expected = source.read().await;
    assert_eq!(expected.len(), 3);

    let session = session();
    let out = Home::new();
    let mut writer = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format(format)
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow);
    for (name, value) in options {
        writer = writer.option(name, value);
    }
    let query = writer.start_path(&out.text("in")).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(
        files_below(&out.path("in")).len(),
        1,
        "{format} {options:?}"
    );

    let schema = source.frame(&session).unwrap().schema();
    let mut reader = session.read_stream().format(format).schema(schema.clone());
    let mut table = session.read().format(format).schema(schema);
    for (name, value) in options.iter().filter(|(name, _)| *name != "compression") {
        reader = reader.option(name, value);
        table = table.option(name, value);
    }
    let table = table.load(&out.text("in")).await.unwrap();
    let mut rows: Vec<String> = table
        .collect()
        .await
        .unwrap()
        .iter()
        .flat_map(texts)
        .collect();
    rows.sort();
    assert_eq!(rows, expected, "{format} {options:?} as a table");
    let stream = reader.load(&out.text("in")).unwrap();
    let query = stream
        .write_stream()
        .format("memory")
        .query_name("back")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let back = session
        .table("back")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let mut rows: Vec<String> = back.iter().flat_map(texts).collect();
    rows.sort();
    assert_eq!(rows, expected, "{format} {options:?} as a stream");
}

#[tokio::test]
async fn formats_with_columns_come_back_in_every_compression() {
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"] {
        there_and_back("parquet", &["*"], &[("compression", codec)]).await;
    }
    for codec in ["none", "snappy", "deflate", "zstandard"] {
        there_and_back("avro", &["*"], &[("compression", codec)]).await;
    }
    for codec in ["none", "gzip", "deflate", "bzip2", "zstd", "lz4", "snappy"] {
        there_and_back("json", &["*"], &[("compression", codec)]).await;
        const FLAT: &[&str] = &["id", "name", "price", "day", "at", "ok"];
        there_and_back("csv", FLAT, &[("compression", codec), ("header", "true")]).await;
    }
    there_and_back(
        "text",
        &["coalesce(name, 'none') AS value"],
        &[("compression", "gzip")],
    )
    .await;
}

#[tokio::test]
async fn text_formats_come_back_in_other_charsets_and_patterns() {
    const FLAT: &[&str] = &["id", "name", "day", "at"];
    let options = [
        ("encoding", "UTF-16"),
        ("dateFormat", "dd/MM/yyyy"),
        ("timestampFormat", "d MMM yyyy hh:mm:ss.SSSSSS a"),
    ];
    there_and_back("json", FLAT, &options).await;
    there_and_back("csv", FLAT, &options).await;
}

#[tokio::test]
async fn character_that_the_charset_lacks_is_an_error_and_nothing_is_committed() {
    let source = Reading::new("json", "s STRING");
    source.put("a.json", "{\"s\":\"€\"}\n");
    let (session, out) = (session(), Home::new());
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("csv")
        .option("encoding", "ISO-8859-1")
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    let error = query.await_termination().await.unwrap_err().to_string();
    assert!(
        error.contains("encoding") && error.contains("U+20AC"),
        "{error}"
    );
    assert!(files_below(&out.path("out")).is_empty());
}

#[tokio::test]
async fn text_in_other_charsets_is_read_and_bytes_without_meaning_are_bad_records() {
    let latin = Reading::new("csv", "id INT, name STRING")
        .option("encoding", "ISO-8859-1")
        .option("header", true);
    latin.put("a.csv", b"id,name\r\n1,caff\xE8\r\n2,\xFC\r\n");
    assert_eq!(latin.read().await, ["1|caffè", "2|ü"]);

    let utf16 = Reading::new("json", "id INT, s STRING, _corrupt_record STRING")
        .option("encoding", "UTF-16LE");
    let mut bytes: Vec<u8> = vec![0xFF, 0xFE];
    for line in [
        "{\"id\":1,\"s\":\"è\"}\n",
        "{\"id\":2,\"s\":\"?\"}\n",
        "{\"id\":3,\"s\":\"日\"}\n",
    ] {
        // A lone surrogate takes the place of the question mark.
        for unit in line.encode_utf16().map(|unit| {
            if unit == u16::from(b'?') {
                0xD800
            } else {
                unit
            }
        }) {
            bytes.extend_from_slice(&unit.to_le_bytes());
        }
    }
    utf16.put("a.json", bytes);
    let (rows, query) = utf16.try_read().await.unwrap();
    assert_eq!(bad_records(&query), 1, "{rows:?}");
    assert!(
        rows.contains(&"1|è|null".to_owned()) && rows.contains(&"3|日|null".to_owned()),
        "{rows:?}"
    );
}

#[tokio::test]
async fn patterns_decide_what_a_date_is_and_the_mode_what_becomes_of_others() {
    for format in ["json", "csv"] {
        let file = match format {
            "json" => {
                "{\"id\":1,\"d\":\"31/12/2025\",\"t\":\"20260102 030405\"}\n{\"id\":2,\"d\":\"2025-12-31\",\"t\":\"20260102 030405\"}\n"
            }
            _ => "1,31/12/2025,20260102 030405\n2,2025-12-31,20260102 030405\n",
        };
        let reading = |mode: &str| {
            let reading = Reading::new(format, "id INT, d DATE, t TIMESTAMP")
                .option("dateFormat", "dd/MM/yyyy")
                .option("timestampFormat", "yyyyMMdd HHmmss")
                .option("timeZone", "Europe/Rome")
                .option("mode", mode);
            reading.put("a", file);
            reading
        };
        let (rows, query) = reading("PERMISSIVE").try_read().await.unwrap();
        assert_eq!(
            rows,
            [
                "1|2025-12-31|2026-01-02T02:04:05Z",
                "2|null|2026-01-02T02:04:05Z"
            ],
            "{format}"
        );
        assert_eq!(bad_records(&query), 1);
        assert_eq!(reading("DROPMALFORMED").read().await.len(), 1);
        let error = reading("FAILFAST").failure().await.to_string();
        assert!(
            error.contains("2025-12-31") && error.contains("a:2"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn columns_that_a_file_lacks_are_null_and_others_are_left_out() {
    for format in ["parquet", "avro", "json"] {
        let session = session();
        let out = Home::new();
        for (epoch, query) in [
            "CAST(1 AS INT) AS a, 'x' AS b",
            "CAST(2 AS INT) AS a, CAST(3.5 AS DOUBLE) AS c",
        ]
        .iter()
        .enumerate()
        {
            let source = Reading::new("json", "one INT");
            source.put("a.json", "{\"one\":1}\n");
            let frame = source.frame(&session).unwrap();
            frame.create_or_replace_temp_view("one").unwrap();
            let run = session
                .sql(&format!("SELECT {query} FROM one"))
                .await
                .unwrap()
                .write_stream()
                .format(format)
                .option("mergeSchema", true);
            // Sinks have no such option.
            assert!(
                run.clone()
                    .checkpoint(&out.text("refused"))
                    .start_path(&out.text("in"))
                    .await
                    .is_err()
            );
            let run = session
                .sql(&format!("SELECT {query} FROM one"))
                .await
                .unwrap()
                .write_stream()
                .format(format)
                .trigger(Trigger::AvailableNow)
                .checkpoint(&out.text(&format!("checkpoint{epoch}")))
                .start_path(&out.text("in"))
                .await
                .unwrap();
            run.await_termination().await.unwrap();
        }
        let schema = "a BIGINT, b STRING, c DOUBLE, d STRING";
        let table = session.read().format(format).schema(schema);
        let table = table.load(&out.text("in")).await.unwrap();
        let mut rows: Vec<String> = table
            .collect()
            .await
            .unwrap()
            .iter()
            .flat_map(texts)
            .collect();
        rows.sort();
        assert_eq!(rows, ["1|x|null|null", "2|null|3.5|null"], "{format}");
    }
}

#[tokio::test]
async fn files_that_are_cut_off_are_errors_that_name_them_or_are_left_out_and_counted() {
    let whole = |format: &str, compression: &'static str| {
        let format = format.to_owned();
        async move {
            let (session, out) = (session(), Home::new());
            let lines: String = (0..5_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
            let source = Reading::new("json", "id BIGINT");
            source.put("a.json", lines);
            let query = source
                .frame(&session)
                .unwrap()
                .write_stream()
                .format(&format)
                .option("compression", compression)
                .option("maxRecordsPerFile", 5_000)
                .checkpoint(&out.text("checkpoint"))
                .trigger(Trigger::AvailableNow)
                .start_path(&out.text("out"))
                .await
                .unwrap();
            query.await_termination().await.unwrap();
            let name = files_below(&out.path("out")).remove(0);
            let bytes = std::fs::read(out.path("out").join(&name)).unwrap();
            (name, bytes)
        }
    };
    for (format, compression) in [
        ("json", "gzip"),
        ("json", "zstd"),
        ("json", "bzip2"),
        ("json", "lz4"),
        ("json", "snappy"),
        ("json", "deflate"),
        ("avro", "snappy"),
        ("parquet", "snappy"),
    ] {
        let (name, bytes) = whole(format, compression).await;
        let cut = |ignore: bool| {
            let reading = Reading::new(format, "id BIGINT").option("ignoreCorruptFiles", ignore);
            reading.put(&name, &bytes[..bytes.len() - 9]);
            reading
        };
        let error = cut(false).failure().await;
        assert_eq!(
            error.fault(),
            weir::Fault::Data,
            "{format} {compression}: {error}"
        );
        assert!(error.to_string().contains(&name), "{error}");
        let (_, query) = cut(true).try_read().await.unwrap();
        assert_eq!(bad_records(&query), 1, "{format} {compression}");
    }
}

/// A Parquet file with the columns `id INT` and `x`, an INT96 one second after the beginning of the year 3000.
fn old_times() -> Vec<u8> {
    use parquet::data_type::{Int32Type, Int96, Int96Type};
    let message = "message m { optional int32 id; optional int96 x; }";
    let types = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let mut bytes = Vec::new();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(&mut bytes, types, Default::default())
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut ids = group.next_column().unwrap().unwrap();
    let values = ids.typed::<Int32Type>();
    values.write_batch(&[1], Some(&[1]), None).unwrap();
    ids.close().unwrap();
    let mut times = group.next_column().unwrap().unwrap();
    let mut value = Int96::new();
    value.set_data(1_000_000_000, 0, 2_816_788);
    let values = times.typed::<Int96Type>();
    values.write_batch(&[value], Some(&[1]), None).unwrap();
    times.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn old_parquet_timestamps_are_instants_with_and_without_a_schema_or_partitions() {
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for (file, expected) in [
        ("a.parquet", "1|3000-01-01T00:00:01Z"),
        ("k=2/a.parquet", "1|3000-01-01T00:00:01Z|2"),
    ] {
        let reading = Reading::new("parquet", "id INT, x TIMESTAMP");
        reading.put(file, old_times());
        let path = reading.home.text("in");
        let session = session();
        let found = session.read().parquet(&path).await.unwrap();
        let schema = found.schema();
        assert_eq!(schema.field_with_name("x").unwrap().data_type(), &instant);
        let given = session.read().schema("id INT, x TIMESTAMP");
        let given = given.parquet(&path).await.unwrap();
        for table in [found, given] {
            let rows = table.collect().await.unwrap();
            let rows: Vec<String> = rows.iter().flat_map(texts).collect();
            assert_eq!(rows, [expected], "{file}");
        }
    }
}
