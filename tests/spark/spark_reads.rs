//! Spark reads directories that our file sink wrote.

use serde_json::json;
use weir::prelude::*;

use crate::spark::{ask, rows};
use crate::{COLUMNS, EPOCHS, Home, SELECT, expected, manifest, session};

/// Our stream over the input, an epoch for each file.
async fn written(home: &Home, format: &str, columns: &str) {
    home.put_input();
    let source = session()
        .read_stream()
        .format("json")
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .load(&home.text("in"))
        .unwrap();
    let names: Vec<&str> = columns.split(',').map(str::trim).collect();
    let query = source
        .select_expr(&names)
        .unwrap()
        .write_stream()
        .format(format)
        .partition_by(["k"])
        .checkpoint(&home.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&home.text("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    // As a crash would leave it: a whole file that no manifest names.
    let partition = home.path("out").join("k=x y");
    let whole = std::fs::read_dir(&partition)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::copy(&whole, partition.join(format!("part-00077-stray.{format}"))).unwrap();
}

#[tokio::test]
async fn spark_reads_parquet_and_json_of_our_sink_as_table_and_as_stream() {
    for format in ["parquet", "json"] {
        let home = Home::new();
        written(&home, format, "*").await;
        let names = manifest(&home.path("out"));
        assert!(
            names.contains(&"19.compact".to_owned()) && names.contains(&"21".to_owned()),
            "{names:?}"
        );
        let command = |what: &str| {
            json!({ "do": what, "format": format, "path": home.text("out"), "schema": COLUMNS, "select": SELECT,
                    "checkpoint": home.text(&format!("spark-{what}")) })
        };
        assert_eq!(rows(&command("read")), expected(), "{format} as a table");
        assert_eq!(rows(&command("stream")), expected(), "{format} as a stream");
    }
}

#[tokio::test]
async fn spark_finds_the_columns_and_types_of_our_parquet_by_itself() {
    let home = Home::new();
    written(&home, "parquet", "*").await;
    let answer = ask(&json!({ "do": "read", "format": "parquet", "path": home.text("out") }));
    assert_eq!(
        answer["schema"],
        "struct<v:bigint,f:double,d:decimal(20,3),t:timestamp,day:date,yes:boolean,name:string,tags:array<string>,\
         inner:struct<a:int,b:string>,k:string>"
    );
}

#[tokio::test]
async fn spark_reads_csv_and_text_of_our_sink() {
    let home = Home::new();
    written(&home, "csv", "v, f, d, t, day, yes, name, k").await;
    let flat = [&SELECT[..7], &SELECT[9..]].concat();
    let command = json!({ "do": "read", "format": "csv", "path": home.text("out"), "select": flat,
        "schema": "v BIGINT, f DOUBLE, d DECIMAL(20,3), t TIMESTAMP, day DATE, yes BOOLEAN, name STRING, k STRING" });
    let without_nested = expected().into_iter().map(|row| {
        let mut values: Vec<&str> = row.split('|').collect();
        values.drain(7..9);
        values.join("|")
    });
    assert_eq!(rows(&command), without_nested.collect::<Vec<_>>());

    let home = Home::new();
    written(&home, "text", "cast(v as string) as value, k").await;
    let command =
        json!({ "do": "read", "format": "text", "path": home.text("out"), "select": ["value"] });
    assert_eq!(rows(&command).len(), 2 * EPOCHS);
}
