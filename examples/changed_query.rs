//! A query that changes between two runs on one checkpoint: another parallelism is always allowed, a change that would give its state
//! another meaning is refused and says what to do, and a new aggregate may begin without rows if that is wanted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

const COUNTS: &str = "SELECT account, count(*) AS n FROM payments GROUP BY account";
const SUMS: &str =
    "SELECT account, count(*) AS n, sum(amount) AS total FROM payments GROUP BY account";

fn payments(rows: &[(&str, i64)]) -> Vec<ArrayRef> {
    let accounts = StringArray::from_iter_values(rows.iter().map(|(account, _)| *account));
    let amounts = Int64Array::from_iter_values(rows.iter().map(|(_, amount)| *amount));
    vec![Arc::new(accounts), Arc::new(amounts)]
}

/// Runs the query over what is there; the rows that are new or have changed.
async fn run(
    stream: &MemoryStream,
    sql: &str,
    parallelism: usize,
    new_aggregates: bool,
) -> Result<Vec<RecordBatch>> {
    println!("{sql}, {parallelism} subtasks:");
    let session = Session::builder()
        .parallelism(parallelism)
        .config("weir.progressBar", false)
        .config("weir.state.allowNewAggregates", new_aggregates)
        .build()?;
    session
        .read_stream()
        .source(stream.source())?
        .create_or_replace_temp_view("payments")?;
    let changed = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&changed);
    let query = session
        .sql(sql)
        .await?
        .write_stream()
        .output_mode("update")
        .checkpoint("memory://changed-query")
        .trigger(Trigger::AvailableNow)
        .foreach_batch(move |rows, _| {
            let into = Arc::clone(&into);
            async move {
                rows.show().await?;
                let batches = rows.collect().await?;
                let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
                into.extend(batches);
                Ok(())
            }
        })
        .start()
        .await?;
    query.await_termination().await?;
    let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *changed))
}

/// A column of numbers by account.
fn by_account(batches: &[RecordBatch], column: usize) -> BTreeMap<String, i64> {
    let rows = batches.iter().flat_map(|batch| {
        let accounts = batch.column(0).as_string::<i32>().iter();
        let numbers = batch.column(column).as_primitive::<Int64Type>().iter();
        accounts.zip(numbers)
    });
    rows.filter_map(|(account, number)| Some((account?.to_owned(), number?)))
        .collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let stream = MemoryStream::new(weir::types::parse_schema("account STRING, amount BIGINT")?);
    stream.add_columns(payments(&[("ann", 10), ("bob", 5), ("ann", 1)]))?;
    run(&stream, COUNTS, 1, false).await?;

    stream.add_columns(payments(&[("ann", 2)]))?;
    let rows = run(&stream, COUNTS, 3, false).await?;
    assert_eq!(by_account(&rows, 1)["ann"], 3, "the state moved along");

    stream.add_columns(payments(&[("ann", 100), ("bob", 20)]))?;
    let refused = run(&stream, SUMS, 3, false).await.err();
    let refused = refused.ok_or_else(|| WeirError::internal("the change was not refused"))?;
    println!("refused: {refused}");

    let rows = run(&stream, SUMS, 3, true).await?;
    assert_eq!(by_account(&rows, 1)["ann"], 4, "counted from the beginning");
    assert_eq!(by_account(&rows, 2)["ann"], 100, "summed from now on");
    Ok(())
}
