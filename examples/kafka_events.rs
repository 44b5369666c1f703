//! JSON events of a topic: parsed by `from_json`, filtered by their kind, written to Parquet with one directory per kind. What is no
//! event does not stop the query and does not vanish: the same topic, read as a table, tells which records they are.
//!
//! ```text
//! cargo run --example kafka_events [-- --bootstrap HOST:PORT]
//! ```
//! Without arguments it starts a broker.

#[path = "support/kafka.rs"]
mod kafka;

use std::collections::HashSet;
use std::fs;

use arrow::array::AsArray;
use weir::prelude::*;

use kafka::{Kafka, Record};

const EVENT: &str =
    "event_id STRING, user_id STRING, event_type STRING, amount DOUBLE, ts TIMESTAMP";
const KINDS: [&str; 4] = ["page_view", "add_to_cart", "purchase", "heartbeat"];

/// The value of a record as an event: a struct whose fields are NULL where it is none.
fn parsed() -> String {
    format!("from_json(CAST(value AS STRING), '{EVENT}') AS event")
}

async fn start(
    session: &Session,
    servers: &str,
    topic: &str,
    output: &str,
    checkpoint: &str,
    trigger: Trigger,
) -> Result<StreamingQuery> {
    let wanted = KINDS[..3].iter().map(|kind| lit(*kind)).collect();
    session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .open()?
        .select_expr(&[&parsed()])?
        .select_expr(&["event.*"])?
        .filter(col("event_type").in_list(wanted, false))?
        .write_stream()
        .query_name("events")
        .format("parquet")
        .partition_by(["event_type"])
        .option("checkpointLocation", checkpoint)
        .trigger(trigger)
        .start_path(output)
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let kafka = Kafka::of_arguments()?;
    let home = tempfile::tempdir().map_err(io)?;
    let path = |name: &str| home.path().join(name).display().to_string();
    let (output, checkpoint) = (path("out"), path("checkpoint"));
    let topic = kafka.topic("events", 2).await?;
    kafka.send(&topic, (0..400).map(event))?;

    // A service would run with `Trigger::processing_time("1 minute")?` until it is stopped; this run ends when it has what is there.
    let session = Session::new()?;
    let trigger = Trigger::AvailableNow;
    let query = start(
        &session,
        kafka.servers(),
        &topic,
        &output,
        &checkpoint,
        trigger,
    )
    .await?;
    query.await_termination().await?;

    let mut directories: Vec<String> = fs::read_dir(&output)
        .map_err(io)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("event_type="))
        .collect();
    directories.sort();
    println!("{directories:?}");
    let mut ids = HashSet::new();
    for (kind, wanted) in KINDS.iter().zip([99, 99, 100]) {
        let path = format!("{output}/event_type={kind}");
        let events = session.read().parquet(&path).await?;
        println!("{kind}:");
        events.limit(2)?.show().await?;
        for batch in events.select(["event_id"])?.collect().await? {
            let column = batch.column(0).as_string::<i32>();
            ids.extend(column.iter().flatten().map(str::to_owned));
        }
        assert_eq!(events.count().await?, wanted, "{kind}");
    }
    assert_eq!(
        ids.len(),
        298,
        "three kinds of four, without the broken, each once"
    );

    println!("and these are no events:");
    let broken = session
        .read()
        .format("kafka")
        .option("kafka.bootstrap.servers", kafka.servers())
        .option("subscribe", &topic)
        .open()?
        .select_expr(&[
            "partition",
            "offset",
            "CAST(value AS STRING) AS line",
            &parsed(),
        ])?
        .filter("event.event_id IS NULL")?
        .select(["partition", "offset", "line"])?;
    broken.show().await?;

    assert_eq!(
        directories,
        [
            "event_type=add_to_cart",
            "event_type=page_view",
            "event_type=purchase"
        ]
    );
    assert_eq!(broken.count().await?, 2);
    Ok(())
}

/// Events of four kinds in turn; two of them are cut off.
fn event(number: i32) -> Record {
    let kind = KINDS[(number % 4) as usize];
    let value = format!(
        r#"{{"event_id":"e{number}","user_id":"u{}","event_type":"{kind}","amount":{}.5,"ts":"2026-01-05T10:00:00Z"}}"#,
        number % 17,
        number % 50,
    );
    let value = match number {
        120 | 321 => value[..40].to_owned(),
        _ => value,
    };
    Record {
        partition: number % 2,
        key: None,
        value,
        timestamp: None,
    }
}

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
