//! Any code per epoch: `foreach_batch` gives the rows as a bounded frame with the epoch's number. A target that keeps the number with
//! its data takes every row once, also when an epoch is replayed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir::prelude::*;

/// A target outside: rows per key and the number of the last epoch it took, changed together.
#[derive(Default)]
struct Target {
    last_epoch: Option<u64>,
    rows: BTreeMap<String, usize>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let home = tempfile::tempdir().map_err(|error| WeirError::external(error.to_string()))?;
    let checkpoint = home.path().join("checkpoint").display().to_string();
    let target = Arc::new(Mutex::new(Target::default()));
    let session = Session::new()?;

    let numbers = session
        .read_stream()
        .format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .open()?;
    let writer = numbers
        .select_expr(&[
            "value",
            "CASE WHEN value % 2 = 0 THEN 'even' ELSE 'odd' END AS kind",
        ])?
        .write_stream();
    let into = Arc::clone(&target);
    let query = writer
        .option("checkpointLocation", &checkpoint)
        .foreach_batch(move |frame, epoch| {
            let into = Arc::clone(&into);
            async move {
                let even = frame.filter("kind = 'even'")?.count().await?;
                let all = frame.count().await?;
                let mut target = into.lock().unwrap_or_else(PoisonError::into_inner);
                if target.last_epoch.is_some_and(|last| epoch <= last) {
                    return Ok(()); // replayed: the target has it
                }
                target.last_epoch = Some(epoch);
                *target.rows.entry("even".to_owned()).or_default() += even;
                *target.rows.entry("odd".to_owned()).or_default() += all - even;
                Ok(())
            }
        })
        .start()
        .await?;
    while query.recent_progress().len() < 5 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    query.stop().await;

    let target = target.lock().unwrap_or_else(PoisonError::into_inner);
    println!("after epoch {:?}: {:?}", target.last_epoch, target.rows);
    assert_eq!(target.rows["even"], target.rows["odd"]);
    Ok(())
}
