//! Columns in the names of directories.

use weir::prelude::*;

use super::{Reading, files_below};
use crate::field::stage::texts;
use crate::support::{Home, session};

#[tokio::test]
async fn partition_columns_are_read_with_the_types_of_the_schema_or_of_the_directories() {
    let reading = Reading::new("json", "v INT, day DATE");
    reading.put("day=2026-01-02/k=7/a.json", "{\"v\":1}\n{\"v\":2}\n");
    reading.put(
        "day=2026-01-03/k=__HIVE_DEFAULT_PARTITION__/b.json",
        "{\"v\":3,\"k\":9}\n",
    );
    assert_eq!(
        reading.read().await,
        ["1|2026-01-02|7", "2|2026-01-02|7", "3|2026-01-03|null"]
    );
    // A directory of a type that its column is not of.
    reading.put("day=soon/k=1/c.json", "{\"v\":4}\n");
    let error = reading.failure().await;
    assert_eq!(error.fault(), weir::Fault::Data);
    let error = error.to_string();
    assert!(
        error.contains("day=soon") && error.contains("c.json"),
        "{error}"
    );
}

#[tokio::test]
async fn partition_columns_of_csv_text_and_avro_are_not_looked_for_in_the_files() {
    let csv = Reading::new("csv", "a STRING, k STRING, b INT");
    csv.put("k=x%2Fy/a.csv", "one,1\n");
    assert_eq!(csv.read().await, ["one|x/y|1"]);
    let text = Reading::new("text", "value STRING, k INT");
    text.put("k=5/a.txt", "line\n");
    assert_eq!(text.read().await, ["line|5"]);
    let recursive = Reading::new("json", "v INT, k INT").option("recursiveFileLookup", true);
    recursive.put("k=5/a.json", "{\"v\":1}\n");
    recursive.put("other/b.json", "{\"v\":2,\"k\":3}\n");
    assert_eq!(recursive.read().await, ["1|null", "2|3"]);
}

/// Values that paths find hard, and NULL.
const VALUES: [&str; 9] = [
    "a/b",
    "a=b",
    "x y",
    "100%",
    "t:1",
    "città",
    "..",
    ".",
    "#[{^}]*?'\"\\",
];

/// A stream with the values in column `k`, written with `k` as the partition.
async fn written(format: &str, out: &Home) -> Vec<String> {
    let source = Reading::new("json", "v INT, k STRING");
    let mut lines: Vec<String> = VALUES
        .iter()
        .enumerate()
        .map(|(v, k)| serde_json::json!({ "v": v, "k": k }).to_string())
        .collect();
    lines.push("{\"v\":100}".to_owned());
    source.put("a.json", lines.join("\n"));
    let session = session();
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format(format)
        .partition_by(["k"])
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let mut expected: Vec<String> = VALUES
        .iter()
        .enumerate()
        .map(|(v, k)| format!("{v}|{k}"))
        .collect();
    expected.push("100|null".to_owned());
    expected.sort();
    expected
}

#[tokio::test]
async fn p108_partition_values_with_special_characters_come_back_letter_by_letter() {
    for format in ["parquet", "json", "csv", "avro"] {
        let out = Home::new();
        let expected = written(format, &out).await;
        assert_eq!(files_below(&out.path("out")).len(), VALUES.len() + 1);
        assert!(
            !out.path("a").exists() && out.path("out/k=..").is_dir(),
            "nothing leaves the directory"
        );
        let session = session();
        let table = session.read().format(format).schema("v INT, k STRING");
        let table = table.load(&out.text("out")).await.unwrap();
        let mut rows: Vec<String> = table
            .collect()
            .await
            .unwrap()
            .iter()
            .flat_map(texts)
            .collect();
        rows.sort();
        assert_eq!(rows, expected, "{format} as a table");
        let stream = Reading {
            home: out,
            ..Reading::new(format, "v INT, k STRING")
        };
        std::fs::rename(stream.home.path("out"), stream.home.path("moved")).unwrap();
        std::fs::remove_dir_all(stream.home.path("in")).unwrap_or_default();
        std::fs::rename(stream.home.path("moved"), stream.home.path("in")).unwrap();
        std::fs::remove_dir_all(stream.home.path("checkpoint")).unwrap();
        assert_eq!(
            stream.read().await,
            expected,
            "{format} as a stream, from where it was moved to"
        );
    }
}

#[tokio::test]
async fn p107_null_and_empty_partition_values_share_a_directory_and_come_back_as_null() {
    let source = Reading::new("json", "v INT, k STRING");
    source.put(
        "a.json",
        "{\"v\":1}\n{\"v\":2,\"k\":\"\"}\n{\"v\":3,\"k\":\"x\"}\n",
    );
    let (session, out) = (session(), Home::new());
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("parquet")
        .partition_by(["k"])
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let directories: Vec<String> = files_below(&out.path("out"))
        .iter()
        .map(|file| file.split('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(directories, ["k=__HIVE_DEFAULT_PARTITION__", "k=x"]);
    // Without a schema too: the columns of the files, then those of the directories.
    let table = session.read().parquet(&out.text("out")).await.unwrap();
    let mut rows: Vec<String> = table
        .collect()
        .await
        .unwrap()
        .iter()
        .flat_map(texts)
        .collect();
    rows.sort();
    assert_eq!(rows, ["1|null", "2|null", "3|x"]);
}

#[tokio::test]
async fn a_timestamp_as_partition_comes_back() {
    let source = Reading::new("json", "v INT, t TIMESTAMP");
    source.put("a.json", "{\"v\":1,\"t\":\"2024-01-01T13:00:05.25Z\"}\n");
    let (session, out) = (session(), Home::new());
    let query = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("json")
        .partition_by(["t"])
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&out.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    assert!(out.path("out/t=2024-01-01 13%3A00%3A05.25").is_dir());
    let table = session.read().format("json").schema("v INT, t TIMESTAMP");
    let table = table.load(&out.text("out")).await.unwrap();
    let rows: Vec<String> = table
        .collect()
        .await
        .unwrap()
        .iter()
        .flat_map(texts)
        .collect();
    assert_eq!(rows, ["1|2024-01-01T13:00:05.250Z"]);
}

/// A table of files in directories `day=…/k=…`, written by hand so that some of them can be damaged.
async fn table_of(home: &Home, format: &str, query: &str) -> Result<Vec<String>> {
    let session = session();
    let table = session
        .read()
        .format(format)
        .schema("v BIGINT, s STRING, day DATE, k INT");
    let table = table.load(&home.text("out")).await?;
    table.create_or_replace_temp_view("t")?;
    let batches = session.sql(query).await?.collect().await?;
    let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
    rows.sort();
    Ok(rows)
}

#[tokio::test]
async fn table_reads_only_the_directories_and_columns_a_query_needs() {
    for format in ["parquet", "json", "avro"] {
        let home = Home::new();
        let source = Reading::new("json", "v BIGINT, s STRING, day DATE, k INT");
        let lines: Vec<String> = (0..6)
            .map(|v| {
                let day = 1 + v % 2;
                serde_json::json!({ "v": v, "s": format!("s{v}"), "day": format!("2026-01-0{day}"), "k": v / 2 }).to_string()
            })
            .collect();
        source.put("a.json", lines.join("\n"));
        let query = source
            .frame(&session())
            .unwrap()
            .write_stream()
            .format(format)
            .partition_by(["day", "k"])
            .checkpoint(&home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start_path(&home.text("out"))
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        let damaged = files_below(&home.path("out"));
        let damaged = damaged
            .iter()
            .find(|name| name.starts_with("day=2026-01-01/k=1/"));
        let damaged = home.path("out").join(damaged.unwrap());
        let length = std::fs::metadata(&damaged).unwrap().len();
        std::fs::write(&damaged, vec![0xFF; usize::try_from(length).unwrap()]).unwrap();
        // Sink outputs are read by their manifest, which knows the time.
        let ask = |query: &'static str| table_of(&home, format, query);
        let everything = ask("SELECT v FROM t WHERE s IS NOT NULL").await;
        let found = match format {
            // Bytes that are no JSON are a bad record, not an error.
            "json" => everything.unwrap().len() == 5,
            _ => everything.is_err(),
        };
        assert!(found, "{format}: the file is damaged");
        for (query, expected) in [
            ("SELECT v FROM t WHERE k = 2", vec!["4", "5"]),
            (
                "SELECT v FROM t WHERE day = DATE '2026-01-02' AND v > 1",
                vec!["3", "5"],
            ),
            ("SELECT count(*) FROM t WHERE k + 1 IN (1, 3)", vec!["4"]),
            (
                "SELECT k, s FROM t WHERE NOT (day = DATE '2026-01-01' AND k = 1)",
                vec!["0|s0", "0|s1", "1|s3", "2|s4", "2|s5"],
            ),
            ("SELECT v FROM t WHERE k > 7", vec![]),
        ] {
            assert_eq!(ask(query).await.unwrap(), expected, "{format}: {query}");
        }
    }
}

#[tokio::test]
async fn column_nobody_asks_for_is_not_read() {
    let home = Home::new();
    // `s` is a number in the files and cannot be read as what the schema says.
    let source = Reading::new("json", "v BIGINT, s DOUBLE, k INT");
    source.put("a.json", "{\"v\":1,\"s\":2.5,\"k\":1}\n");
    let query = source
        .frame(&session())
        .unwrap()
        .write_stream()
        .format("parquet")
        .partition_by(["k"])
        .checkpoint(&home.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&home.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let schema = "v BIGINT, s DATE, k INT";
    let session = session();
    let table = session.read().format("parquet").schema(schema);
    let table = table.load(&home.text("out")).await.unwrap();
    let error = table.collect().await.unwrap_err().to_string();
    assert!(error.contains("\"s\""), "{error}");
    let narrow = table
        .select_expr(&["k", "v"])
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(narrow.iter().flat_map(texts).collect::<Vec<_>>(), ["1|1"]);
    assert_eq!(table.count().await.unwrap(), 1);
}
