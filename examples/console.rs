//! Rows on the console, epochs on a clock: the rate source makes rows, a processing-time trigger says when, the handle tells what
//! happens, and the plan can be looked at.

use std::time::Duration;

use weir::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let rows = session
        .read_stream()
        .format("rate")
        .option("rowsPerSecond", 5)
        .open()?;
    let query = rows
        .with_column("square", "value * value")?
        .write_stream()
        .format("console")
        .option("numRows", 10)
        .option("truncate", false)
        .query_name("squares")
        .trigger(Trigger::processing_time("1 second")?)
        .start()
        .await?;
    println!("{}", query.explain(true));

    query
        .await_termination_timeout(Duration::from_millis(3_200))
        .await?;
    println!("status: {:?}", query.status());
    if let Some(progress) = query.last_progress() {
        println!("{}", progress.json());
    }
    query.stop().await;
    assert!(!query.is_active());
    Ok(())
}
