//! Output mode update over stacked aggregations and top-N: a table that is kept up to date by the changes of every epoch holds
//! what the same query gives over all rows so far.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;
use weir::{CHANGE_TYPE, EpochChanges};

use crate::support::{Home, session};

/// A table that upserts by key.
#[derive(Default)]
struct Target {
    rows: BTreeMap<String, String>,
    keys: Vec<String>,
    kinds: Vec<String>,
}

/// The cells of all rows, by column name.
fn rows(batches: &[RecordBatch]) -> Vec<Vec<(String, String)>> {
    let options = FormatOptions::new().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(schema.fields());
            let cell = |(column, field): (&ArrayRef, &Arc<arrow::datatypes::Field>)| {
                let text = ArrayFormatter::try_new(column, &options).unwrap();
                (field.name().clone(), text.value(row).to_string())
            };
            rows.push(cells.map(cell).collect());
        }
    }
    rows
}

fn text(cells: &[(String, String)]) -> String {
    let cells: Vec<&str> = cells.iter().map(|(_, cell)| cell.as_str()).collect();
    cells.join("|")
}

impl Target {
    async fn apply(target: &Mutex<Self>, changes: EpochChanges) -> Result<()> {
        let batches = changes.frame.collect().await?;
        let mut target = target.lock().unwrap();
        target.keys = changes.key_columns.clone();
        for cells in rows(&batches) {
            let (change, row) = cells.split_last().unwrap();
            assert_eq!(change.0, CHANGE_TYPE);
            target.kinds.push(change.1.clone());
            let key = match changes.key_columns.as_slice() {
                [] => row.to_vec(),
                keys => row
                    .iter()
                    .filter(|(name, _)| keys.contains(name))
                    .cloned()
                    .collect(),
            };
            match change.1.as_str() {
                "insert" | "update_postimage" => {
                    if change.1 == "update_postimage" && key.len() == row.len() {
                        // A result without keys that changes is one row.
                        target.rows.clear();
                    }
                    target.rows.insert(text(&key), text(row));
                }
                "delete" => {
                    target
                        .rows
                        .remove(&text(&key))
                        .expect("a row that was there");
                }
                other => panic!("{other} is not told to sinks"),
            }
        }
        Ok(())
    }

    fn sorted(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.rows.values().cloned().collect();
        rows.sort();
        rows
    }
}

fn batch(rows: &[(&str, i64)]) -> RecordBatch {
    let keys = StringArray::from_iter_values(rows.iter().map(|(k, _)| *k));
    let values: Int64Array = rows.iter().map(|(_, v)| Some(*v)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("k", Arc::new(keys) as ArrayRef, true),
        ("v", Arc::new(values) as ArrayRef, true),
    ])
    .unwrap()
}

/// Runs the query over epochs of rows, comparing after each; gives the target at the end.
async fn follow(sql: &str, epochs: &[&[(&str, i64)]]) -> Target {
    let (home, session) = (Home::new(), session());
    let stream = MemoryStream::new(weir::types::parse_schema("k STRING, v BIGINT").unwrap());
    let reading = stream.clone();
    let frame = session
        .read_stream()
        .source_fn(move || Ok(reading.source()))
        .unwrap();
    frame.create_or_replace_temp_view("t").unwrap();
    let target = Arc::new(Mutex::new(Target::default()));
    let slot = Arc::clone(&target);
    let query = session
        .sql(sql)
        .await
        .unwrap()
        .write_stream()
        .output_mode(OutputMode::Update)
        .checkpoint(&home.text("checkpoint"))
        .foreach_batch_changes(move |changes, _| {
            let slot = Arc::clone(&slot);
            async move { Target::apply(&slot, changes).await }
        })
        .start()
        .await
        .unwrap();
    let bounded = self::session();
    let mut all: Vec<(&str, i64)> = Vec::new();
    for rows in epochs {
        stream.add_columns(batch(rows).columns().to_vec()).unwrap();
        query.process_all_available().await.unwrap();
        all.extend(*rows);
        let expected = expected(&bounded, sql, &all).await;
        assert_eq!(
            target.lock().unwrap().sorted(),
            expected,
            "{sql} after {all:?}"
        );
    }
    query.stop().await;
    std::mem::take(&mut *target.lock().unwrap())
}

/// What the query gives over these rows.
async fn expected(session: &Session, sql: &str, all: &[(&str, i64)]) -> Vec<String> {
    let frame = session.create_dataframe([batch(all)]).unwrap();
    frame.create_or_replace_temp_view("t").unwrap();
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    let mut texts: Vec<String> = rows(&batches).iter().map(|row| text(row)).collect();
    texts.sort();
    texts
}

const EPOCHS: &[&[(&str, i64)]] = &[
    &[("a", 1), ("b", 2), ("a", 3)],
    &[("c", 9), ("b", 7)],
    &[("a", 5), ("a", 4), ("c", 8)],
    &[("d", 6)],
    &[("b", 10), ("d", 11), ("d", 12), ("d", 13)],
];

#[tokio::test]
async fn counts_of_counts_follow_as_keys_move_between_groups() {
    let sql =
        "SELECT n, count(*) AS keys FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n";
    let target = follow(sql, EPOCHS).await;
    assert_eq!(target.keys, ["n"]);
    assert!(target.kinds.iter().any(|kind| kind == "delete"));
}

#[tokio::test]
async fn largest_smallest_and_average_of_results_follow() {
    let sql = "SELECT n % 2 AS odd, max(s) AS most, min(s) AS least, avg(s) AS mean, sum(n) AS rows FROM \
               (SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k) WHERE s > 2 GROUP BY n % 2";
    follow(sql, EPOCHS).await;
}

#[tokio::test]
async fn an_aggregation_of_everything_over_results_follows() {
    let sql = "SELECT count(*) AS keys, sum(n) AS rows, max(n) AS most FROM (SELECT k, count(*) AS n FROM t GROUP BY k)";
    follow(sql, EPOCHS).await;
}

#[tokio::test]
async fn an_aggregation_over_distinct_rows_follows() {
    follow(
        "SELECT count(*) AS n FROM (SELECT DISTINCT k FROM t)",
        EPOCHS,
    )
    .await;
}

#[tokio::test]
async fn three_levels_of_aggregation_follow() {
    let sql = "SELECT keys, count(*) AS m FROM (SELECT n, count(*) AS keys FROM \
               (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n) GROUP BY keys";
    follow(sql, EPOCHS).await;
}

#[tokio::test]
async fn distinct_results_follow() {
    let target = follow(
        "SELECT DISTINCT n FROM (SELECT k, count(*) AS n FROM t GROUP BY k)",
        EPOCHS,
    )
    .await;
    assert_eq!(target.keys, ["n"]);
}

#[tokio::test]
async fn first_rows_of_each_key_follow() {
    let sql = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) WHERE rn <= 2";
    let target = follow(sql, EPOCHS).await;
    assert_eq!(target.keys, ["k", "rn"]);
}

#[tokio::test]
async fn first_rows_without_their_number_come_and_go() {
    let sql = "SELECT k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) WHERE rn < 3";
    let target = follow(sql, EPOCHS).await;
    assert!(target.keys.is_empty());
    assert!(
        target
            .kinds
            .iter()
            .all(|kind| kind == "insert" || kind == "delete")
    );
}

#[tokio::test]
async fn first_rows_of_results_follow() {
    let sql = "SELECT k, n, rn FROM (SELECT k, n, row_number() OVER (ORDER BY n DESC, k) AS rn FROM \
               (SELECT k, count(*) AS n FROM t GROUP BY k)) WHERE rn <= 2";
    let target = follow(sql, EPOCHS).await;
    assert_eq!(target.keys, ["rn"]);
}

#[tokio::test]
async fn first_rows_are_aggregated_again() {
    let sql = "SELECT count(*) AS n, sum(v) AS s FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS rn FROM t) WHERE rn = 1";
    follow(sql, EPOCHS).await;
}

#[tokio::test]
async fn first_rows_of_a_computed_partition_follow() {
    let sql = "SELECT v, rn FROM (SELECT v, row_number() OVER (PARTITION BY v % 3 ORDER BY v DESC) AS rn FROM t) WHERE 2 >= rn AND v > 1";
    let (home, session) = (Home::new(), session());
    let (stream, frame) = crate::support::stream(&session);
    frame.create_or_replace_temp_view("t").unwrap();
    let numbered = session.sql(sql).await.unwrap();
    let query = numbered
        .write_stream()
        .output_mode("update")
        .format("memory")
        .query_name("first_rows")
        .checkpoint(&home.text("checkpoint"))
        .start()
        .await
        .unwrap();
    crate::support::add(&stream, &[1, 2, 3, 4, 5, 6, 7]);
    query.process_all_available().await.unwrap();
    let table = session
        .table("first_rows")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(crate::support::numbers(&table, "v"), [2, 3, 4, 5, 6, 7]);
    query.stop().await;
}

#[tokio::test]
async fn a_single_aggregation_tells_new_and_changed_rows_with_its_keys() {
    let target = follow("SELECT k AS name, count(*) AS n FROM t GROUP BY k", EPOCHS).await;
    assert_eq!(target.keys, ["name"]);
    let sql = "SELECT count(*) AS n, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 0";
    assert!(follow(sql, &EPOCHS[..1]).await.keys.is_empty());
}
