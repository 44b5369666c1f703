//! Topic → counts per window → topic, exactly-once: every epoch is one transaction, which holds the results and the note that they are
//! there. Readers of committed records see each result once, however often the query dies.
//!
//! ```text
//! cargo run --example kafka_exactly_once [-- --bootstrap HOST:PORT]
//! ```
//! Without arguments it starts a broker. The query runs in a process of its own, which is killed three times in the middle of its
//! work; the last run takes what is left. What is in the topic then is compared with the counts made by hand.

#[path = "support/kafka.rs"]
mod kafka;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir::prelude::*;

use kafka::{Kafka, Record};

/// First event time: 2026-01-05 12:00:00 UTC in unix milliseconds.
const NOON: i64 = 1_767_614_400_000;
const WINDOW: i64 = 10_000;
const ORDERS: i64 = 12_000;
const COUNTRIES: [&str; 3] = ["IT", "NO", "SE"];

/// The query, as a service would run it: with the default trigger, until it is stopped. `kafka.*` goes to the clients as it is.
async fn start(job: &[String], trigger: Trigger) -> Result<StreamingQuery> {
    let [servers, from, to, checkpoint] = job else {
        return Err(WeirError::internal("a job has four parts"));
    };
    let session = Session::new()?;
    session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", from)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60)
        .open()?
        .select_expr(&["from_json(CAST(value AS STRING), 'country STRING, euro BIGINT, at_ms BIGINT') AS bought"])?
        .select_expr(&["bought.*", "timestamp_millis(bought.at_ms) AS ts"])?
        .with_watermark("ts", "30 seconds")?
        .create_or_replace_temp_view("orders")?;
    session
        .sql(
            "SELECT country AS key,
                    to_json(named_struct('start', unix_millis(window.start), 'n', count(*), 'euro', sum(euro))) AS value
             FROM orders GROUP BY window(ts, '10 seconds'), country",
        )
        .await?
        .write_stream()
        .query_name("orders per window")
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", to)
        .option("kafka.compression.type", "zstd")
        .option("deliveryGuarantee", "exactly-once") // the default; at-least-once is the other
        .option("checkpointLocation", checkpoint)
        .trigger(trigger)
        .start()
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, job @ ..] = arguments.as_slice()
        && first == "run"
    {
        let query = start(job, Trigger::Default).await?;
        return query.await_termination().await;
    }
    let kafka = Kafka::of_arguments()?;
    let home = tempfile::tempdir().map_err(io)?;
    let from = kafka.topic("orders", 3).await?;
    let to = kafka.topic("orders-per-window", 2).await?;
    kafka.send(&from, (0..ORDERS).map(order))?;

    let checkpoint = home.path().join("checkpoint").display().to_string();
    let job = [kafka.servers().to_owned(), from, to.clone(), checkpoint];
    let mut expected = by_hand();
    expected.sort();
    for kill in 1..=3 {
        let mut child = child(&job)?;
        let wanted = kafka.committed(&to)?.len() + 20;
        let results = until_more(&kafka, &to, wanted.min(expected.len())).await;
        child.kill().map_err(io)?;
        child.wait().map_err(io)?;
        println!(
            "kill {kill}: {} of {} results are there",
            results?,
            expected.len()
        );
    }
    let query = start(&job, Trigger::AvailableNow).await?;
    query.await_termination().await?;

    let records = kafka.committed(&to)?;
    println!("at the end {} results are there, such as", records.len());
    for (key, value) in records.iter().take(3) {
        println!("  {key} {value}");
    }
    let mut found = records;
    found.sort();
    assert_eq!(found, expected, "each window and country exactly once");
    Ok(())
}

/// The query in a process of its own.
fn child(job: &[String]) -> Result<Child> {
    let program = std::env::current_exe().map_err(io)?;
    let mut command = Command::new(program);
    command.arg("run").args(job);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(io)
}

/// Waits until the topic holds as many committed records; returns how many there are.
async fn until_more(kafka: &Kafka, topic: &str, wanted: usize) -> Result<usize> {
    for _ in 0..600 {
        let there = kafka.committed(topic)?.len();
        if there >= wanted {
            return Ok(there);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(WeirError::external(format!(
        "the query did not write {wanted} results in a minute"
    )))
}

fn country(number: i64) -> &'static str {
    COUNTRIES[(number * 7 % 11 % 3) as usize]
}

/// Ten orders a second of event time; the last one is an hour later, which completes all windows before it.
fn time(number: i64) -> i64 {
    NOON + number * 100 + if number == ORDERS - 1 { 3_600_000 } else { 0 }
}

fn order(number: i64) -> Record {
    Record {
        partition: (number % 3) as i32,
        key: None,
        value: format!(
            r#"{{"country":"{}","euro":{},"at_ms":{}}}"#,
            country(number),
            number % 90,
            time(number)
        ),
        timestamp: None,
    }
}

/// The results without any engine.
fn by_hand() -> Vec<(String, String)> {
    let mut windows: BTreeMap<(i64, &str), (i64, i64)> = BTreeMap::new();
    for number in 0..ORDERS - 1 {
        let start = time(number) / WINDOW * WINDOW;
        let (n, euro) = windows.entry((start, country(number))).or_default();
        *n += 1;
        *euro += number % 90;
    }
    windows
        .into_iter()
        .map(|((start, country), (n, euro))| {
            let value = format!(r#"{{"start":{start},"n":{n},"euro":{euro}}}"#);
            (country.to_owned(), value)
        })
        .collect()
}

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
