//! The main job: JSON files dropped into a directory → purchases over 100 → Parquet, exactly once over restarts.
//!
//! Without arguments it runs on a temporary directory and plays both sides: it drops files, lets the query take them, stops it, drops
//! another file, and starts it again; the second run reads only the new file. With arguments it is the real thing:
//!
//! ```text
//! cargo run --example purchases -- INPUT_DIR OUTPUT_DIR CHECKPOINT_DIR ["30 seconds"]
//! ```
//! Kill it at any moment and start it again: every purchase is in the output once.

use std::fs;
use std::path::Path;

use weir::prelude::*;

/// The query, as a DataFrame program.
async fn start(
    session: &Session,
    input: &str,
    output: &str,
    checkpoint: &str,
    trigger: Trigger,
) -> Result<StreamingQuery> {
    session
        .read_stream()
        .schema("user_id STRING, action STRING, amount DOUBLE, ts TIMESTAMP")
        .option("maxFilesPerTrigger", 10)
        .json(input)?
        .filter("action = 'purchase' AND amount > 100")?
        .select(["user_id", "amount", "ts"])?
        .write_stream()
        .query_name("purchases")
        .format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(trigger)
        .start_path(output)
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => demo().await,
        [input, output, checkpoint, rest @ ..] => {
            let trigger =
                Trigger::processing_time(rest.first().map_or("30 seconds", String::as_str))?;
            let session = Session::new()?;
            let query = start(&session, input, output, checkpoint, trigger).await?;
            println!(
                "query {} runs every {trigger:?}; end it with Ctrl-C",
                query.id()
            );
            query.await_termination_or_signal().await
        }
        _ => Err(WeirError::config(
            "give no argument, or INPUT_DIR OUTPUT_DIR CHECKPOINT_DIR [INTERVAL]",
        )),
    }
}

async fn demo() -> Result<()> {
    let home = tempfile::Builder::new()
        .prefix("weir-purchases-")
        .tempdir()
        .map_err(io)?;
    let path = |name: &str| home.path().join(name).display().to_string();
    let (input, output, checkpoint) = (path("in"), path("out"), path("checkpoint"));
    fs::create_dir(&input).map_err(io)?;
    println!("working in {}", home.path().display());

    drop_file(
        &input,
        "monday.json",
        &[
            ("ann", "purchase", 120.5),
            ("bob", "view", 0.0),
            ("cid", "purchase", 99.0),
        ],
    )?;
    drop_file(
        &input,
        "tuesday.json",
        &[("dee", "purchase", 250.0), ("ann", "return", 120.5)],
    )?;
    let session = Session::new()?;
    let query = start(
        &session,
        &input,
        &output,
        &checkpoint,
        Trigger::AvailableNow,
    )
    .await?;
    query.await_termination().await?;
    println!("first run, id {}, run {}:", query.id(), query.run_id());
    session.read().parquet(&output).await?.show().await?;

    drop_file(&input, "wednesday.json", &[("eve", "purchase", 400.0)])?;
    let query = start(
        &session,
        &input,
        &output,
        &checkpoint,
        Trigger::AvailableNow,
    )
    .await?;
    query.await_termination().await?;
    let progress = query
        .last_progress()
        .ok_or_else(|| WeirError::internal("an epoch was expected"))?;
    println!(
        "second run, same id {}, run {}: read {} row(s), the new file only",
        query.id(),
        query.run_id(),
        progress.num_input_rows
    );
    let purchases = session.read().parquet(&output).await?;
    purchases.show().await?;
    assert_eq!(
        purchases.count().await?,
        3,
        "every purchase over 100 is there exactly once"
    );
    Ok(())
}

/// A file appears complete or not at all: written under a hidden name, then renamed.
fn drop_file(directory: &str, name: &str, rows: &[(&str, &str, f64)]) -> Result<()> {
    let lines: Vec<String> = rows
        .iter()
        .map(|(user, action, amount)| {
            format!(r#"{{"user_id":"{user}","action":"{action}","amount":{amount},"ts":"2026-01-05T10:00:00Z"}}"#)
        })
        .collect();
    let hidden = Path::new(directory).join(format!(".{name}"));
    fs::write(&hidden, lines.join("\n")).map_err(io)?;
    fs::rename(hidden, Path::new(directory).join(name)).map_err(io)
}

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
