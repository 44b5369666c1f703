//! The state of a query as a table: any committed epoch of a checkpoint, while the query runs or after, and what an epoch changed.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let checkpoint = "memory://state-reader";
    let stream = MemoryStream::new(weir::types::parse_schema("word STRING")?);
    session
        .read_stream()
        .source(stream.source())?
        .create_or_replace_temp_view("words")?;
    let query = session
        .sql("SELECT word, count(*) AS n FROM words GROUP BY word")
        .await?
        .write_stream()
        .output_mode("update")
        .format("noop")
        .checkpoint(checkpoint)
        .start()
        .await?;
    for words in [&["a", "stream", "is"][..], &["a", "table"]] {
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(words));
        stream.add_columns(vec![column])?;
        query.process_all_available().await?;
    }

    println!("what is there:");
    let tables = session
        .read()
        .format("state-metadata")
        .load(checkpoint)
        .await?;
    tables
        .select_expr(&["operatorName", "stateStoreName", "minBatchId", "maxBatchId"])?
        .show()
        .await?;
    for (epoch, groups) in [(0, 3), (1, 4)] {
        println!("after epoch {epoch}:");
        let state = session
            .read()
            .format("statestore")
            .option("batchId", epoch)
            .option("operatorUid", "aggregate-0")
            .load(checkpoint)
            .await?;
        state
            .select_expr(&["key.word AS word", "value"])?
            .show()
            .await?;
        assert_eq!(state.count().await?, groups);
    }
    println!("what epoch 1 changed:");
    let changes = session
        .read()
        .format("statestore")
        .option("readChangeFeed", true)
        .option("changeStartBatchId", 1)
        .load(checkpoint)
        .await?;
    changes
        .select_expr(&["batch_id", "change_type", "key.word AS word"])?
        .show()
        .await?;
    assert_eq!(changes.count().await?, 2, "a and table");
    query.stop().await;
    Ok(())
}
