//! SQL over streams: a stream is a table that never ends, so a temporary view is all it takes. Shows a function of the user,
//! `explode`, and a memory sink that is itself a table.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let schema = Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8, true)]));
    let lines = MemoryStream::new(Arc::clone(&schema));
    session
        .read_stream()
        .source(lines.source())?
        .create_or_replace_temp_view("lines")?;

    let _shout = session.udf("shout", &["STRING"], "STRING", |columns| {
        let words = columns[0].as_string::<i32>();
        Ok(Arc::new(StringArray::from_iter(
            words.iter().map(|word| word.map(str::to_uppercase)),
        )) as ArrayRef)
    })?;
    let words = session
        .sql("SELECT shout(word) AS word, length(word) AS n FROM (SELECT explode(split(line, ' ')) AS word FROM lines) WHERE word <> ''")
        .await?;
    let query = words
        .write_stream()
        .format("memory")
        .query_name("words")
        .start()
        .await?;

    for line in ["a stream is a table", "that never  ends"] {
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![Arc::new(StringArray::from(vec![line]))],
        )?;
        lines.add(batch)?;
        query.process_all_available().await?;
        println!("after '{line}':");
        session
            .sql("SELECT n, count(*) AS words, min(word) AS first FROM words GROUP BY n ORDER BY n")
            .await?
            .show()
            .await?;
    }
    assert_eq!(session.table("words").await?.count().await?, 8);
    query.stop().await;
    Ok(())
}
