//! Field cases about reading files, P055 to P066.

use super::{Reading, bad_records, set_age};

fn ids(reading: &Reading, name: &str, ids: std::ops::RangeInclusive<i64>) -> std::path::PathBuf {
    let lines: String = ids.map(|id| format!("{{\"id\":{id}}}\n")).collect();
    reading.put(name, lines)
}

#[tokio::test]
async fn p055_files_in_progress_are_left_alone_and_a_last_line_needs_no_end() {
    let reading = Reading::new("json", "id BIGINT");
    for name in [".a.jsonl.tmp", "_a.jsonl", "a.jsonl._COPYING_"] {
        reading.put(name, "{\"id\":1}\n{\"id\":2");
    }
    assert!(reading.read().await.is_empty());
    let a = ids(&reading, "a.jsonl", 1..=3);
    assert_eq!(reading.read().await, ["1", "2", "3"]);
    reading.put("b.jsonl", "{\"id\":4}");
    assert_eq!(reading.read().await, ["4"]);
    // Appended to after it was read: not read again.
    std::fs::write(&a, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n{\"id\":5}\n").unwrap();
    assert!(reading.read().await.is_empty());
    // Names of other producers can be left out by a pattern.
    let patterned = Reading::new("json", "id BIGINT").option("pathGlobFilter", "*.{json,jsonl}");
    ids(&patterned, "a.jsonl", 1..=1);
    ids(&patterned, "b.jsonl.tmp", 2..=2);
    assert_eq!(patterned.read().await, ["1"]);
}

/// Bytes of a Parquet file with one row.
async fn parquet() -> Vec<u8> {
    let source = Reading::new("json", "id BIGINT");
    ids(&source, "a.json", 1..=1);
    let session = crate::support::session();
    let out = crate::support::Home::new();
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("parquet")
        .checkpoint(&out.text("checkpoint"))
        .trigger(weir::prelude::Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let name = super::files_below(&out.path("out")).remove(0);
    std::fs::read(out.path("out").join(name)).unwrap()
}

#[tokio::test]
async fn p056_a_damaged_parquet_file_fails_the_epoch_with_its_name_until_it_is_removed() {
    let good = parquet().await;
    for (name, bytes) in [
        ("bad4.parquet", &b"PAR1"[..]),
        ("trunc.parquet", &good[..good.len() - 50]),
        ("text.parquet", b"this is no parquet file at all\n"),
    ] {
        let reading = Reading::new("parquet", "id BIGINT");
        reading.put("good.parquet", &good);
        reading.put(name, bytes);
        let error = reading.failure().await;
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("not a valid parquet file"),
            "{text}"
        );
        assert_eq!(error.condition(), Some("FAILED_READ_FILE"));
        // Nothing was committed; the option goes on without the file and counts it.
        let reading = reading.option("ignoreCorruptFiles", true);
        let (rows, query) = reading.try_read().await.unwrap();
        assert_eq!(
            (rows, bad_records(&query)),
            (vec!["1".to_owned()], 1),
            "{name}"
        );
    }
}

#[tokio::test]
async fn p057_markers_hidden_and_empty_files_give_no_rows_and_no_endless_work() {
    let json = Reading::new("json", "id BIGINT");
    ids(&json, "a.jsonl", 1..=1);
    for name in [
        "_SUCCESS",
        ".part.crc",
        "_metadata",
        "_tmp/b.jsonl",
        ".x/c.jsonl",
    ] {
        ids(&json, name, 7..=7);
    }
    json.put("empty.jsonl", "");
    assert_eq!(json.read().await, ["1"]);
    assert!(json.read().await.is_empty(), "the empty file is done too");

    let csv = Reading::new("csv", "id BIGINT").option("header", true);
    csv.put("a.csv", "id\n1\n");
    csv.put("empty.csv", "");
    csv.put("header-only.csv", "id\n");
    assert_eq!(csv.read().await, ["1"]);

    let parquet_files = Reading::new("parquet", "id BIGINT");
    parquet_files.put("zero.parquet", "");
    parquet_files.put("a.parquet", parquet().await);
    assert_eq!(parquet_files.read().await, ["1"]);
    parquet_files.put("zero.parquet", parquet().await);
    assert_eq!(
        parquet_files.read().await,
        ["1"],
        "it is read when it has content"
    );

    let partition = Reading::new("json", "id BIGINT, _k INT");
    ids(&partition, "_k=1/a.jsonl", 1..=1);
    assert_eq!(
        partition.read().await,
        ["1|1"],
        "a name with '=' is a partition and not hidden"
    );
}

#[tokio::test]
async fn p058_strange_names_are_read_once_each_also_after_a_restart() {
    let reading = Reading::new("json", "id BIGINT").option("maxFilesPerTrigger", 2);
    let names = [
        "-dash.jsonl",
        "50%25 off.jsonl",
        "a b.jsonl",
        "abc[123].jsonl",
        "città-данные-例.jsonl",
        "t12:30:00.jsonl",
        "x#y&z.jsonl",
        "{a,b}*.jsonl",
    ];
    for (id, name) in (1..).zip(names) {
        ids(&reading, name, id..=id);
    }
    let mut rows = reading.read().await;
    rows.sort();
    assert_eq!(rows, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert!(reading.read().await.is_empty());
}

#[tokio::test]
async fn p060_latest_first_with_a_limit_reads_old_files_too() {
    let reading = Reading::new("json", "id BIGINT")
        .option("latestFirst", true)
        .option("maxFilesPerTrigger", 1);
    for id in 0..6 {
        let file = ids(&reading, &format!("f{id}.jsonl"), id..=id);
        set_age(&file, u64::try_from(id).unwrap() * 10 * 86_400);
    }
    assert_eq!(reading.read().await, ["0", "1", "2", "3", "4", "5"]);
}

#[tokio::test]
async fn p061_a_file_that_arrives_with_an_old_time_is_read() {
    let reading = Reading::new("json", "id BIGINT");
    ids(&reading, "a.jsonl", 1..=1);
    assert_eq!(reading.read().await, ["1"]);
    let moved = reading.home.path("elsewhere.jsonl");
    std::fs::write(&moved, "{\"id\":2}\n").unwrap();
    set_age(&moved, 2 * 86_400);
    std::fs::rename(&moved, reading.home.path("in/b.jsonl")).unwrap();
    assert_eq!(reading.read().await, ["2"]);
    // Beyond maxFileAge it is left out, and counted.
    let ancient = reading.home.path("elsewhere.jsonl");
    std::fs::write(&ancient, "{\"id\":3}\n").unwrap();
    set_age(&ancient, 20 * 86_400);
    std::fs::rename(&ancient, reading.home.path("in/c.jsonl")).unwrap();
    ids(&reading, "d.jsonl", 4..=4);
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(rows, ["4"]);
    let progress = query.last_progress().unwrap();
    assert_eq!(progress.sources[0].metrics["tooOldFiles"], "1");
}

#[tokio::test]
async fn p062_an_overwritten_file_is_read_again_only_if_that_is_wanted() {
    let reading = Reading::new("json", "id BIGINT");
    ids(&reading, "data.jsonl", 1..=1);
    assert_eq!(reading.read().await, ["1"]);
    ids(&reading, "data.jsonl", 1..=2);
    assert!(reading.read().await.is_empty());
    std::fs::rename(
        reading.home.path("in/data.jsonl"),
        reading.home.path("in/data2.jsonl"),
    )
    .unwrap();
    assert_eq!(
        reading.read().await,
        ["1", "2"],
        "another name is another file"
    );

    let again = Reading::new("json", "id BIGINT").option("allowOverwrites", true);
    ids(&again, "data.jsonl", 1..=1);
    assert_eq!(again.read().await, ["1"]);
    ids(&again, "data.jsonl", 2..=3);
    assert_eq!(again.read().await, ["2", "3"]);
    assert!(again.read().await.is_empty());
}

#[tokio::test]
async fn p065_files_of_one_time_are_cut_by_name_and_read_once_over_a_restart() {
    let reading = Reading::new("json", "id BIGINT").option("maxFilesPerTrigger", 2);
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for (id, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
        let file = ids(&reading, &format!("{name}.jsonl"), id..=id);
        std::fs::File::options()
            .write(true)
            .open(file)
            .unwrap()
            .set_modified(now)
            .unwrap();
    }
    let (rows, query) = reading.try_read().await.unwrap();
    assert_eq!(rows, ["1", "2", "3", "4", "5"]);
    let sizes: Vec<u64> = query
        .recent_progress()
        .iter()
        .map(|told| told.num_input_rows)
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
    let late = ids(&reading, "aa.jsonl", 6..=6);
    std::fs::File::options()
        .write(true)
        .open(late)
        .unwrap()
        .set_modified(now)
        .unwrap();
    assert_eq!(
        reading.read().await,
        ["6"],
        "also one that would have stood in between"
    );
}

#[tokio::test]
async fn p066_the_log_of_seen_files_is_compacted_and_a_restart_reads_none_again() {
    let reading = Reading::new("json", "id BIGINT").option("maxFilesPerTrigger", 50);
    for id in 0..2_500 {
        std::fs::write(
            reading.home.path(&format!("in/{id}.json")),
            format!("{{\"id\":{id}}}\n"),
        )
        .unwrap();
    }
    assert_eq!(reading.read().await.len(), 2_500);
    let log = reading.home.path("checkpoint/sources/0");
    let files: Vec<u64> = std::fs::read_dir(&log)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    assert!(files.len() <= 25, "{} files for 50 epochs", files.len());
    let bytes: u64 = files.iter().sum();
    assert!(bytes < 2_500 * 700, "{bytes} bytes for 2 500 files");
    assert!(reading.read().await.is_empty());
}
