//! Session windows beyond what Spark runs: output mode update, and sessions of the whole stream.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, StringArray, TimestampMicrosecondArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir::EpochChanges;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use crate::support::{Home, session};

/// The table that the changes describe: rows are added and taken back as a whole.
async fn apply(table: &Mutex<BTreeSet<String>>, changes: EpochChanges) -> Result<()> {
    let options = FormatOptions::new().with_null("null");
    for batch in changes.frame.collect().await? {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        let (change, columns) = columns.split_last().unwrap();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column.value(row).to_string());
            let text = cells.collect::<Vec<_>>().join(" ");
            let mut table = table.lock().unwrap();
            match change.value(row).to_string().as_str() {
                "delete" => assert!(table.remove(&text), "{text} was there"),
                _ => assert!(table.insert(text)),
            }
        }
    }
    Ok(())
}

/// Rows (key, second) by epoch; the table at the end.
async fn run(home: &Home, sql: &str, epochs: &[&[(&str, i64)]]) -> Vec<String> {
    let session = session();
    let schema = weir::types::parse_schema("k STRING, ts TIMESTAMP").unwrap();
    let stream = MemoryStream::new(schema);
    let reading = stream.clone();
    let frame = session
        .read_stream()
        .source_fn(move || Ok(reading.source()))
        .and_then(|frame| frame.with_watermark("ts", "1 hour"))
        .unwrap();
    frame.create_or_replace_temp_view("t").unwrap();
    let table: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let slot = Arc::clone(&table);
    let query = session
        .sql(sql)
        .await
        .unwrap()
        .write_stream()
        .output_mode(OutputMode::Update)
        .checkpoint(&home.text("checkpoint"))
        .foreach_batch_changes(move |changes, _| {
            let slot = Arc::clone(&slot);
            async move { apply(&slot, changes).await }
        })
        .start()
        .await
        .unwrap();
    for rows in epochs {
        let keys = StringArray::from_iter_values(rows.iter().map(|(key, _)| *key));
        let times = rows.iter().map(|(_, second)| second * 1_000_000);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        stream
            .add_columns(vec![Arc::new(keys) as ArrayRef, Arc::new(times)])
            .unwrap();
        query.process_all_available().await.unwrap();
    }
    query.stop().await;
    let table = table.lock().unwrap();
    table.iter().cloned().collect()
}

#[tokio::test]
async fn sessions_in_update_mode_take_back_what_they_merge() {
    let sql = "SELECT unix_seconds(session_window.start) AS s, unix_seconds(session_window.end) AS e, k, count(*) AS n \
               FROM t GROUP BY session_window(ts, '5 seconds'), k";
    let epochs: &[&[(&str, i64)]] = &[
        &[("a", 0), ("a", 8), ("b", 1)],
        &[("a", 4)],
        &[("b", 30), ("a", 13)],
    ];
    let home = Home::new();
    let table = run(&home, sql, epochs).await;
    assert_eq!(table, ["0 18 a 4", "1 6 b 1", "30 35 b 1"]);
    let state = session()
        .read()
        .format("statestore")
        .load(&home.text("checkpoint"))
        .await
        .unwrap();
    let starts = state
        .select_expr(&["unix_seconds(value.start) AS s"])
        .unwrap();
    let starts = starts.collect().await.unwrap();
    assert_eq!(crate::support::numbers(&starts, "s"), [0, 1, 30]);
}

#[tokio::test]
async fn sessions_without_a_key_are_those_of_the_whole_stream() {
    let sql = "SELECT unix_seconds(session_window.start) AS s, unix_seconds(session_window.end) AS e, count(*) AS n \
               FROM t GROUP BY session_window(ts, '5 seconds')";
    let epochs: &[&[(&str, i64)]] = &[&[("a", 0), ("b", 4)], &[("c", 20)], &[("d", 9)]];
    assert_eq!(run(&Home::new(), sql, epochs).await, ["0 14 3", "20 25 1"]);
}
