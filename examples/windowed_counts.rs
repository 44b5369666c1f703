//! Counts per window of event time. With a watermark an epoch knows which windows are complete: in output mode append each comes out
//! once, when it is, and late rows are counted instead of lost in silence.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

/// Rows of (second, page).
fn visits(rows: &[(i64, &str)]) -> Result<Vec<ArrayRef>> {
    let times = rows.iter().map(|(second, _)| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let pages = StringArray::from_iter_values(rows.iter().map(|(_, page)| *page));
    Ok(vec![Arc::new(times), Arc::new(pages)])
}

async fn shown(session: &Session) -> Result<Vec<RecordBatch>> {
    let sql = "SELECT CAST(start AS STRING) AS start, page, n FROM counts ORDER BY start, page";
    let frame = session.sql(sql).await?;
    frame.show().await?;
    frame.collect().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let schema = weir::types::parse_schema("ts TIMESTAMP, page STRING")?;
    let stream = MemoryStream::new(schema);
    session
        .read_stream()
        .source(stream.source())?
        .with_watermark("ts", "5 seconds")?
        .create_or_replace_temp_view("visits")?;

    let query = session
        .sql("SELECT window.start AS start, page, count(*) AS n FROM visits GROUP BY window(ts, '10 seconds'), page")
        .await?
        .write_stream()
        .format("memory")
        .query_name("counts")
        .start()
        .await?;

    println!("nothing is complete yet:");
    stream.add_columns(visits(&[
        (1, "home"),
        (2, "home"),
        (8, "shop"),
        (12, "home"),
    ])?)?;
    query.process_all_available().await?;
    assert!(
        shown(&session)
            .await?
            .iter()
            .all(|batch| batch.num_rows() == 0)
    );

    println!("a visit at 15 s moves the watermark to 10 s, which completes the first window:");
    stream.add_columns(visits(&[(15, "shop")])?)?;
    query.process_all_available().await?;
    let rows: usize = shown(&session)
        .await?
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(rows, 2, "home 2, shop 1");

    println!("a visit of that window is late now:");
    stream.add_columns(visits(&[(9, "home"), (30, "home")])?)?;
    query.process_all_available().await?;
    shown(&session).await?;
    let late: u64 = query
        .recent_progress()
        .iter()
        .flat_map(|progress| &progress.state_operators)
        .map(|operator| operator.num_rows_dropped_by_watermark)
        .sum();
    println!("rows that came too late: {late}");
    assert_eq!(late, 1);
    query.stop().await;
    Ok(())
}
