//! Options of records: what bad ones become, and that their neighbours stay.

use weir::prelude::*;

use super::{Reading, bad_records, files_below};
use crate::field::stage::texts;
use crate::support::session;

const LINES: &str =
    "{\"id\":1}\n{\"id\":oops}\n{\"id\":\"many\"}\n{\"id\":2}\nnot json\n{\"id\":3}\n";

#[tokio::test]
async fn bad_records_go_to_their_own_files_once_with_file_line_and_reason() {
    let reading = Reading::new("json", "id BIGINT");
    let bad = reading.home.text("bad");
    let reading = reading.option("badRecordsPath", &bad);
    reading.put("a b%1.json", LINES);
    reading.put("good.json", "{\"id\":4}\n");
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(rows, ["1", "2", "3", "4"]);
    assert_eq!(bad_records(&query), 3);
    let files = files_below(&reading.home.path("bad"));
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(reading.home.path("bad").join(&files[0])).unwrap();
    let letters: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lines: Vec<u64> = letters
        .iter()
        .map(|letter| letter["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [2, 3, 5]);
    assert_eq!(letters[0]["record"], "{\"id\":oops}");
    assert!(
        letters[1]["reason"].as_str().unwrap().contains("many"),
        "{}",
        letters[1]
    );
    assert!(
        letters[2]["path"]
            .as_str()
            .unwrap()
            .ends_with("/a%20b%251.json"),
        "{}",
        letters[2]
    );

    // A query that reads the same files again writes the same file again.
    std::fs::remove_dir_all(reading.home.path("checkpoint")).unwrap();
    assert_eq!(reading.read().await.len(), 4);
    assert_eq!(files_below(&reading.home.path("bad")), files);
    assert_eq!(
        std::fs::read_to_string(reading.home.path("bad").join(&files[0])).unwrap(),
        text
    );
}

#[tokio::test]
async fn bad_records_of_csv_follow_the_policy_and_keep_their_neighbours() {
    let file = "id,name\n1,a\n2,b,c\nx,d\n3,\"open\n4,e\n";
    let with = |name: &'static str, value: String| {
        let reading = Reading::new("csv", "id INT, name STRING")
            .option("header", true)
            .option(name, value);
        reading.put("a.csv", file);
        reading
    };
    let (rows, query) = with("mode", "PERMISSIVE".to_owned())
        .try_read()
        .await
        .unwrap();
    assert_eq!(bad_records(&query), 3);
    assert!(
        rows.contains(&"1|a".to_owned()) && rows.contains(&"4|e".to_owned()),
        "{rows:?}"
    );
    assert_eq!(rows.len(), 5);
    assert_eq!(
        with("mode", "DROPMALFORMED".to_owned()).read().await,
        ["1|a", "4|e"]
    );
    let error = with("mode", "FAILFAST".to_owned())
        .failure()
        .await
        .to_string();
    assert!(error.contains("a.csv:3"), "{error}");
    let home = crate::support::Home::new();
    let reading = with("badRecordsPath", home.text("bad"));
    assert_eq!(reading.read().await, ["1|a", "4|e"]);
    let letters =
        std::fs::read_to_string(home.path("bad").join(&files_below(&home.path("bad"))[0])).unwrap();
    assert_eq!(letters.lines().count(), 3);
}

#[tokio::test]
async fn options_that_contradict_or_do_not_exist_are_refused_when_the_stream_is_opened() {
    for (options, parts) in [
        (
            &[("badRecordsPath", "/bad"), ("mode", "FAILFAST")][..],
            &["badRecordsPath", "mode"][..],
        ),
        (&[("cleanSource", "archive")], &["sourceArchiveDir"]),
        (&[("cleanSource", "shred")], &["cleanSource", "archive"]),
        (
            &[("timestampFormat", "YYYY-ww")],
            &["timestampFormat", "'Y'"],
        ),
        (&[("dateFormat", "dd E")], &["dateFormat", "writing only"]),
        (&[("encoding", "utf-7")], &["encoding", "UTF-16LE"]),
        (&[("locale", "de-DE")], &["locale", "en-US"]),
        (&[("timeFormat", "HH:mm")], &["timeFormat", "no type TIME"]),
        (
            &[("singleVariantColumn", "v")],
            &["singleVariantColumn", "no type VARIANT"],
        ),
        (&[("explodeEmbeddedArray", "")], &["explodeEmbeddedArray"]),
        (
            &[("modifiedAfter", "2020-01-01")],
            &["modifiedAfter", "known options"],
        ),
        (
            &[("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")],
            &["exclude each other"],
        ),
    ] {
        let mut reading = Reading::new("json", "id BIGINT");
        for (name, value) in options {
            reading = reading.option(name, value);
        }
        let error = reading.failure().await.to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[tokio::test]
async fn an_archive_in_the_source_is_refused() {
    let reading = Reading::new("json", "id BIGINT");
    let archive = reading.home.text("in/archive");
    let reading = reading
        .option("cleanSource", "archive")
        .option("sourceArchiveDir", archive);
    let error = reading.failure().await.to_string();
    assert!(error.contains("sourceArchiveDir"), "{error}");
}

#[tokio::test]
async fn records_are_taken_out_of_an_array_inside_of_a_document() {
    let reading = Reading::new("json", "id BIGINT, name STRING, bad STRING")
        .option("explodeEmbeddedArray", "Records")
        .option("columnNameOfCorruptRecord", "bad");
    reading.put(
        "a.json",
        "{\"Records\": {\"not\": \"an array\"}, \"unit\": 1, \"Records\": [\n {\"id\": 1, \"name\": \"],}\"},\n\
         {\"id\": 2,\n \"name\": null}, 12ab, [{\"id\": 3}]], \"after\": [{\"id\": 4}]}\n",
    );
    reading.put("b.json", "{\"id\": 5}\n");
    reading.put("c.json", "{\"Records\": [{\"id\": 6}, {\"id\": ");
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(
        rows,
        [
            "1|],}|null",
            "2|null|null",
            "6|null|null",
            "null|null|12ab",
            "null|null|[{\"id\": 3}]",
            "null|null|{\"id\": ",
        ]
    );
    assert_eq!(
        bad_records(&query),
        4,
        "and that the last document is cut off"
    );
}

const WRITTEN: &str = r#"{"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": [{"type": "enum", "name": "Name", "symbols": ["b", "a"]}, "null"]}]}"#;

#[tokio::test]
async fn avro_schema_names_the_columns_and_files_of_other_names_are_left_out() {
    let source = Reading::new("json", "id BIGINT, name STRING");
    source.put("a.json", "{\"id\":1,\"name\":\"a\"}\n{\"id\":2}\n");
    let reading = Reading::new("avro", "");
    let query = source
        .frame(&session())
        .unwrap()
        .write_stream()
        .format("avro")
        .option("avroSchema", WRITTEN)
        .checkpoint(&source.home.text("written"))
        .trigger(Trigger::AvailableNow)
        .start_path(&source.home.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let name = &files_below(&source.home.path("out"))[0];
    let bytes = std::fs::read(source.home.path("out").join(name)).unwrap();
    reading.put("one.avro", &bytes);
    reading.put("two.copy", &bytes);
    let schema = r#"{"type": "record", "name": "Event", "fields": [
        {"name": "label", "type": ["null", {"type": "enum", "name": "Name", "symbols": ["a", "b"]}], "aliases": ["name"]},
        {"name": "kind", "type": "string", "default": "new"},
        {"name": "id", "type": "double"}]}"#;
    let reading = Reading {
        schema: None,
        ..reading.option("avroSchema", schema)
    };
    let rows = ["a|new|1.0", "null|new|2.0"];
    assert_eq!(reading.read().await, [rows[0], rows[0], rows[1], rows[1]]);
    let session = session();
    let table = session.read().format("avro").option("avroSchema", schema);
    let table = table.option("ignoreExtension", false);
    let table = table.load(&reading.home.text("in")).await.unwrap();
    let found = table.filter("id = 2").unwrap().collect().await.unwrap();
    assert_eq!(found.iter().flat_map(texts).collect::<Vec<_>>(), [rows[1]]);
}
