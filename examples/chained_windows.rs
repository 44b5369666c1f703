//! Windows over windows: visits counted by 10 seconds, and of each minute the busiest 10 seconds. In output mode append a window tells
//! its result once, when the watermark has passed it; the window above takes that result in and closes in the same epoch.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

fn visits(seconds: &[i64]) -> Vec<ArrayRef> {
    let times = seconds.iter().map(|second| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    vec![Arc::new(times)]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("ts TIMESTAMP")?);
    session
        .read_stream()
        .source(stream.source())?
        .with_watermark("ts", "5 seconds")?
        .create_or_replace_temp_view("visits")?;
    session
        .sql("SELECT window(ts, '10 seconds') AS w, count(*) AS n FROM visits GROUP BY window(ts, '10 seconds')")
        .await?
        .create_or_replace_temp_view("counts")?;
    let busiest = session
        .sql("SELECT window(w, '1 minute').start AS minute, max(n) AS most, sum(n) AS visits FROM counts GROUP BY window(w, '1 minute')")
        .await?;
    let query = busiest
        .write_stream()
        .format("memory")
        .query_name("busiest")
        .start()
        .await?;

    stream.add_columns(visits(&[1, 2, 3, 12, 55, 58]))?;
    query.process_all_available().await?;
    assert_eq!(session.table("busiest").await?.count().await?, 0);

    println!("a visit at 70 s moves the watermark to 65 s, and the first minute is complete:");
    stream.add_columns(visits(&[70]))?;
    query.process_all_available().await?;
    query.stop().await;
    let minutes = session.table("busiest").await?;
    minutes.show().await?;
    let batches = minutes.select(["most", "visits"])?.collect().await?;
    let rows: Vec<(i64, i64)> = batches
        .iter()
        .flat_map(|batch| {
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values();
            column(0).iter().copied().zip(column(1).iter().copied())
        })
        .collect();
    assert_eq!(rows, [(3, 6)]);
    Ok(())
}
