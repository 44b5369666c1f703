//! Options of records: what bad ones become, and that their neighbours stay.

use super::{Reading, bad_records, files_below};

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
