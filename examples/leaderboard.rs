//! The whole result with every epoch: in output mode complete a result may be ordered and cut, and a sink replaces what it had. Fit for
//! results that stay small.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

fn points(rows: &[(&str, i64)]) -> Vec<ArrayRef> {
    let players = StringArray::from_iter_values(rows.iter().map(|(player, _)| *player));
    let points = Int64Array::from_iter_values(rows.iter().map(|(_, points)| *points));
    vec![Arc::new(players), Arc::new(points)]
}

/// The players in the order of the table.
async fn leaders(session: &Session) -> Result<Vec<String>> {
    let table = session.table("leaders").await?;
    table.show().await?;
    let batches = table.select(["player"])?.collect().await?;
    let players = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    Ok(players.map(str::to_owned).collect())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("player STRING, points BIGINT")?);
    session
        .read_stream()
        .source(stream.source())?
        .create_or_replace_temp_view("games")?;
    let query = session
        .sql("SELECT player, sum(points) AS total FROM games GROUP BY player ORDER BY total DESC LIMIT 2")
        .await?
        .write_stream()
        .output_mode("complete")
        .format("memory")
        .query_name("leaders")
        .start()
        .await?;

    stream.add_columns(points(&[("ann", 10), ("bob", 7), ("cid", 3)]))?;
    query.process_all_available().await?;
    assert_eq!(leaders(&session).await?, ["ann", "bob"]);
    stream.add_columns(points(&[("cid", 9), ("bob", 1)]))?;
    query.process_all_available().await?;
    assert_eq!(leaders(&session).await?, ["cid", "ann"]);
    query.stop().await;
    Ok(())
}
