//! A table outside that is kept up to date: output mode update gives the rows that are new or have changed, says which columns tell
//! rows apart, and what became of each. Applying them by key, with the number of the epoch, takes every change once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;
use weir::{CHANGE_TYPE, EpochChanges};

/// A table with the primary key `account`, and the last epoch it took; both change together.
#[derive(Default)]
struct Table {
    last_epoch: Option<u64>,
    balances: BTreeMap<String, i64>,
}

async fn apply(table: &Mutex<Table>, changes: EpochChanges, epoch: u64) -> Result<()> {
    assert_eq!(changes.key_columns, ["account"], "the key to upsert by");
    let batches = changes.frame.collect().await?;
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    if table.last_epoch.is_some_and(|last| epoch <= last) {
        return Ok(()); // replayed: the table has it
    }
    table.last_epoch = Some(epoch);
    for batch in &batches {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| WeirError::internal(format!("no column {name}")))
        };
        let accounts = column("account")?.as_string::<i32>();
        let balances = column("balance")?.as_primitive::<Int64Type>();
        let kinds = column(CHANGE_TYPE)?.as_string::<i32>();
        for row in 0..batch.num_rows() {
            let (account, balance) = (accounts.value(row), balances.value(row));
            println!("  epoch {epoch}: {} {account} {balance}", kinds.value(row));
            match kinds.value(row) {
                "delete" => table.balances.remove(account),
                _ => table.balances.insert(account.to_owned(), balance),
            };
        }
    }
    Ok(())
}

fn payments(rows: &[(&str, i64)]) -> Vec<ArrayRef> {
    let accounts = StringArray::from_iter_values(rows.iter().map(|(account, _)| *account));
    let amounts = Int64Array::from_iter_values(rows.iter().map(|(_, amount)| *amount));
    vec![Arc::new(accounts), Arc::new(amounts)]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("account STRING, amount BIGINT")?);
    session
        .read_stream()
        .source(stream.source())?
        .create_or_replace_temp_view("payments")?;
    let table = Arc::new(Mutex::new(Table::default()));
    let into = Arc::clone(&table);
    let query = session
        .sql("SELECT account, sum(amount) AS balance FROM payments GROUP BY account")
        .await?
        .write_stream()
        .output_mode("update")
        .option("checkpointLocation", "memory://upsert")
        .foreach_batch_changes(move |changes, epoch| {
            let into = Arc::clone(&into);
            async move { apply(&into, changes, epoch).await }
        })
        .start()
        .await?;

    for rows in [
        &[("ann", 10), ("bob", 5)][..],
        &[("ann", -3)],
        &[("cid", 1), ("bob", 1)],
    ] {
        stream.add_columns(payments(rows))?;
        query.process_all_available().await?;
    }
    query.stop().await;
    let table = table.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{:?}", table.balances);
    assert_eq!(table.balances["ann"], 7);
    assert_eq!(table.balances["bob"], 6);
    Ok(())
}
