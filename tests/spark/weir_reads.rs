//! We read directories that Spark's streams wrote.

use std::fs;
use std::sync::{Arc, Mutex};

use arrow::datatypes::{DataType, TimeUnit};
use serde_json::json;
use weir::prelude::*;

use crate::spark::ask;
use crate::{COLUMNS, EPOCHS, Home, SELECT, expected, manifest, session, texts};

/// Spark's stream over the input, an epoch for each file, and a file that its manifest does not name.
fn written(home: &Home, format: &str) {
    home.put_input();
    // Without this Spark cuts times in JSON to milliseconds.
    let options = match format {
        "json" => json!({ "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX" }),
        _ => json!({}),
    };
    ask(&json!({
        "do": "write", "format": "json", "path": home.text("in"), "schema": COLUMNS,
        "options": { "maxFilesPerTrigger": "1" }, "checkpoint": home.text("spark"), "out": home.text("out"),
        "sinkFormat": format, "sinkOptions": options, "partitionBy": ["k"],
    }));
    let partition = home.path("out").join("k=x y");
    let files = fs::read_dir(&partition).unwrap();
    let whole = files
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == format)
        })
        .unwrap();
    fs::copy(&whole, partition.join(format!("part-00077-stray.{format}"))).unwrap();
}

async fn streamed(home: &Home, format: &str) -> Vec<String> {
    let rows = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&rows);
    let frame = session()
        .read_stream()
        .format(format)
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 7)
        .load(&home.text("out"))
        .unwrap();
    let query = frame
        .select_expr(&SELECT)
        .unwrap()
        .write_stream()
        .checkpoint(&home.text("weir"))
        .trigger(Trigger::AvailableNow)
        .foreach_batch(move |frame, _| {
            let taken = Arc::clone(&taken);
            async move {
                let batches = frame.collect().await?;
                taken.lock().unwrap().append(&mut texts(&batches));
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort();
    rows
}

#[tokio::test]
async fn spark_s_parquet_orc_and_json_are_read_as_table_and_as_stream() {
    for format in ["parquet", "orc", "json"] {
        let home = Home::new();
        written(&home, format);
        assert!(manifest(&home.path("out")).contains(&"19.compact".to_owned()));
        let table = session().read().format(format).schema(COLUMNS);
        let table = table.load(&home.text("out")).await.unwrap();
        let table = table.select_expr(&SELECT).unwrap().collect().await.unwrap();
        assert_eq!(texts(&table), expected(), "{format} as a table");
        if format != "json" {
            // Times are INT96 in Parquet.
            let found = session().read().format(format);
            let found = found.load(&home.text("out")).await.unwrap();
            let found = found.select_expr(&SELECT).unwrap().collect().await.unwrap();
            assert_eq!(texts(&found), expected(), "columns found in the files");
        }
        assert_eq!(
            streamed(&home, format).await,
            expected(),
            "{format} as a stream"
        );
    }
}

#[tokio::test]
async fn times_in_spark_s_parquet_without_partitions_are_instants_too() {
    let home = Home::new();
    home.put_input();
    ask(&json!({
        "do": "write", "format": "json", "path": home.text("in"), "schema": COLUMNS, "checkpoint": home.text("spark"),
        "out": home.text("out"), "sinkFormat": "parquet",
    }));
    let table = session().read().parquet(&home.text("out")).await.unwrap();
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(
        table.schema().field_with_name("t").unwrap().data_type(),
        &instant
    );
    let times = table.filter("t IS NOT NULL").unwrap();
    let times = times
        .select_expr(&["cast(t as string)"])
        .unwrap()
        .collect()
        .await
        .unwrap();
    let times = texts(&times);
    assert_eq!(
        (times.len(), times[3].as_str()),
        (EPOCHS, "2026-03-29 01:59:03.123456")
    );
}

#[tokio::test]
async fn directory_that_spark_began_is_continued_by_us_and_both_read_all_of_it() {
    let home = Home::new();
    written(&home, "json");
    let query = session()
        .read_stream()
        .format("json")
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .load(&home.text("in"))
        .unwrap()
        .write_stream()
        .format("json")
        .partition_by(["k"])
        .checkpoint(&home.text("weir-writes"))
        .trigger(Trigger::AvailableNow)
        .start_path(&home.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let mut twice = expected();
    twice.append(&mut expected());
    twice.sort();
    let spark = ask(
        &json!({ "do": "read", "format": "json", "path": home.text("out"), "schema": COLUMNS, "select": SELECT }),
    );
    assert_eq!(spark["rows"], json!(twice), "Spark");
    assert_eq!(streamed(&home, "json").await, twice, "ours");
    let names = manifest(&home.path("out"));
    assert!(
        names.contains(&"39.compact".to_owned()) && names.contains(&"43".to_owned()),
        "one row of numbers: {names:?}"
    );
}
