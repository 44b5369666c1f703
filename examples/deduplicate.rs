//! Duplicates: a producer that retries sends events twice. Each event is kept once, and its id is forgotten when the watermark says
//! that no duplicate can come any more, so that the state stays small.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

/// Events of (second, id).
fn events(rows: &[(i64, i64)]) -> Vec<ArrayRef> {
    let times = rows.iter().map(|(second, _)| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let ids = Int64Array::from_iter_values(rows.iter().map(|(_, id)| *id));
    vec![Arc::new(times), Arc::new(ids)]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("ts TIMESTAMP, id BIGINT")?);
    let query = session
        .read_stream()
        .source(stream.source())?
        .with_watermark("ts", "10 seconds")?
        .drop_duplicates_within_watermark(&["id"])?
        .write_stream()
        .format("memory")
        .query_name("unique")
        .start()
        .await?;

    stream.add_columns(events(&[(1, 7), (2, 8), (1, 7)]))?;
    query.process_all_available().await?;
    stream.add_columns(events(&[(4, 8), (5, 9)]))?;
    query.process_all_available().await?;
    session.table("unique").await?.show().await?;
    assert_eq!(session.table("unique").await?.count().await?, 3);

    println!("at 60 s the ids of the first seconds are forgotten:");
    stream.add_columns(events(&[(60, 10)]))?;
    query.process_all_available().await?;
    let progress = query
        .last_progress()
        .ok_or_else(|| WeirError::internal("no progress"))?;
    let kept: u64 = progress
        .state_operators
        .iter()
        .map(|state| state.num_rows_total)
        .sum();
    println!("ids in state: {kept}");
    assert_eq!(kept, 1);
    query.stop().await;
    Ok(())
}
