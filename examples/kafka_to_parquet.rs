//! A topic into Parquet files: bounded epochs, one directory per day, exactly once over restarts.
//!
//! Without arguments it starts a broker and plays both sides: it sends records, lets the query take them, sends more, and starts the
//! query again, which goes on where it was. With `--bootstrap HOST:PORT` it does so at a broker that is there. With more arguments it
//! is the real thing:
//!
//! ```text
//! cargo run --example kafka_to_parquet -- HOST:PORT TOPIC OUTPUT_DIR CHECKPOINT_DIR ["60 seconds"]
//! ```
//! Kill it at any moment and start it again: every record is in the output once.

#[path = "support/kafka.rs"]
mod kafka;

use weir::prelude::*;

use kafka::{Kafka, Record};

/// 2026-01-05 12:00:00 UTC in unix milliseconds.
const NOON: i64 = 1_767_614_400_000;
const DAY: i64 = 86_400_000;

/// Where a query reads and writes.
struct Job<'a> {
    servers: &'a str,
    topic: &'a str,
    output: &'a str,
    checkpoint: &'a str,
}

impl Job<'_> {
    /// Offsets are part of the checkpoint; `startingOffsets` is for the first run only. Of a topic that holds a month of records each
    /// epoch takes 500,000. Records that expired before they were read are a warning and a count in the progress, not the end.
    async fn start(&self, session: &Session, trigger: Trigger) -> Result<StreamingQuery> {
        session
            .read_stream()
            .format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 500_000)
            .option("failOnDataLoss", false)
            .open()?
            .select_expr(&[
                "CAST(key AS STRING) AS user_id",
                "CAST(value AS STRING) AS line",
                "partition",
                "offset",
                "timestamp",
                "CAST(timestamp AS DATE) AS day",
            ])?
            .write_stream()
            .query_name("archive")
            .format("parquet")
            .partition_by(["day"])
            .option("checkpointLocation", self.checkpoint)
            .trigger(trigger)
            .start_path(self.output)
            .await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, topic, output, checkpoint, rest @ ..] = arguments.as_slice() else {
        return demo(&Kafka::of_arguments()?).await;
    };
    let job = Job {
        servers,
        topic,
        output,
        checkpoint,
    };
    let trigger = Trigger::processing_time(rest.first().map_or("60 seconds", String::as_str))?;
    let query = job.start(&Session::new()?, trigger).await?;
    println!(
        "query {} runs every {trigger:?}; end it with Ctrl-C",
        query.id()
    );
    query.await_termination_or_signal().await
}

async fn demo(kafka: &Kafka) -> Result<()> {
    let home = tempfile::tempdir().map_err(io)?;
    let path = |name: &str| home.path().join(name).display().to_string();
    let topic = kafka.topic("visits", 3).await?;
    let (output, checkpoint) = (path("out"), path("checkpoint"));
    let job = Job {
        servers: kafka.servers(),
        topic: &topic,
        output: &output,
        checkpoint: &checkpoint,
    };
    let session = Session::new()?;

    for (run, numbers) in [(1, 0..1000), (2, 1000..1500)] {
        kafka.send(&topic, numbers.clone().map(visit))?;
        let query = job.start(&session, Trigger::AvailableNow).await?;
        query.await_termination().await?;
        let progress = query
            .last_progress()
            .ok_or_else(|| WeirError::internal("an epoch was expected"))?;
        println!("run {run} read {} records, up to", progress.num_input_rows);
        println!(
            "  {}",
            progress.sources[0].end_offset.as_deref().unwrap_or("-")
        );
        assert_eq!(progress.num_input_rows, numbers.count() as u64);
    }

    let visits = session.read().parquet(&output).await?;
    visits.create_or_replace_temp_view("visits")?;
    let days = "SELECT CAST(timestamp AS DATE) AS day, count(*) AS visits, count(DISTINCT user_id) AS users
                FROM visits GROUP BY CAST(timestamp AS DATE) ORDER BY day";
    let days = session.sql(days).await?;
    days.show().await?;
    let mut directories: Vec<String> = std::fs::read_dir(&output)
        .map_err(io)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("day="))
        .collect();
    directories.sort();
    println!("{directories:?}");
    assert_eq!(
        directories,
        ["day=2026-01-05", "day=2026-01-06", "day=2026-01-07"]
    );
    let once = "SELECT line FROM visits GROUP BY line HAVING count(*) = 1";
    assert_eq!(
        session.sql(once).await?.count().await?,
        1500,
        "every record is there exactly once"
    );
    assert_eq!(visits.count().await?, 1500);
    Ok(())
}

/// A visit on one of three days, by one of 40 users.
fn visit(number: i32) -> Record {
    Record {
        partition: number % 3,
        key: Some(format!("user-{}", number % 40)),
        value: format!("visit {number}"),
        timestamp: Some(NOON + i64::from(number / 500) * DAY),
    }
}

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
