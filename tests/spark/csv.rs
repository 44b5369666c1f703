//! CSV with quotes, backslashes and separators in texts: each engine reads what the other wrote, by the same options, those of none
//! included.

use serde_json::json;
use weir::prelude::*;

use crate::spark::{ask, rows};
use crate::{Home, session, texts};

const COLUMNS: &str = "id INT, s STRING, t STRING";

const TEXTS: [&str; 14] = [
    "plain",
    "he said \"hi\"",
    "\"",
    "q\"",
    "\"q",
    "C:\\dir\\",
    "\\",
    "a,\\",
    "a\\\"b",
    "\\\"",
    "\\\\",
    "x,y",
    "ü, \"q\" \\ ' line",
    "'single'",
];

/// Nothing said; doubled quotes; another escape.
const OPTIONS: [&[(&str, &str)]; 3] = [&[], &[("escape", "\"")], &[("escape", "|")]];

/// The texts as the rows of one file, beside a column that ends each record.
fn put(home: &Home) {
    let lines = TEXTS
        .iter()
        .enumerate()
        .map(|(id, text)| json!({ "id": id, "s": text, "t": text }).to_string());
    std::fs::create_dir_all(home.path("in")).unwrap();
    let lines = lines.collect::<Vec<_>>().join("\n");
    std::fs::write(home.path("in").join("a.json"), lines).unwrap();
}

fn expected() -> Vec<String> {
    let rows = TEXTS.iter().enumerate();
    let mut rows: Vec<String> = rows
        .map(|(id, text)| format!("{id}|{text}|{text}"))
        .collect();
    rows.sort();
    rows
}

fn object(options: &[(&str, &str)]) -> serde_json::Value {
    let pairs = options.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

async fn ours(home: &Home, options: &[(&str, &str)]) -> Vec<String> {
    let table = session().read().format("csv").schema(COLUMNS);
    let table = table.options(options.iter().copied());
    let table = table.load(&home.text("out")).await.unwrap();
    texts(&table.collect().await.unwrap())
}

#[tokio::test]
async fn csv_of_our_sink_is_read_by_spark_and_by_us() {
    for options in OPTIONS {
        let home = Home::new();
        put(&home);
        let input = session().read_stream().format("json").schema(COLUMNS);
        let query = input
            .load(&home.text("in"))
            .unwrap()
            .write_stream()
            .format("csv")
            .options(options.iter().copied())
            .checkpoint(&home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start_path(&home.text("out"))
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        let spark = json!({ "do": "read", "format": "csv", "path": home.text("out"), "schema": COLUMNS,
                            "options": object(options) });
        assert_eq!(rows(&spark), expected(), "Spark {options:?}");
        assert_eq!(ours(&home, options).await, expected(), "ours {options:?}");
    }
}

#[tokio::test]
async fn csv_of_spark_s_sink_is_read_by_us() {
    for options in OPTIONS {
        let home = Home::new();
        put(&home);
        ask(&json!({
            "do": "write", "format": "json", "path": home.text("in"), "schema": COLUMNS, "checkpoint": home.text("spark"),
            "out": home.text("out"), "sinkFormat": "csv", "sinkOptions": object(options),
        }));
        assert_eq!(ours(&home, options).await, expected(), "{options:?}");
    }
}
