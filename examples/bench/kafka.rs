//! Kafka: bids of a topic into nothing, files and topics, beside a bare consumer loop over the same topic, which is the limit; and the
//! time from sending a record to reading its result.

#[path = "../support/cluster.rs"]
mod cluster;
mod latency;
mod topic;

use std::path::Path;

use serde_json::{Value, json};
use weir::prelude::*;

use crate::queries::BIDS;
use crate::usage::{Usage, io, peak_rss, reset_peak_rss};
use crate::{Arguments, add, fresh, report, session};

use topic::Topic;

/// What can be measured, in this order.
pub(crate) const ALL: [Measure; 7] = [
    Measure::Limit,
    Measure::Noop,
    Measure::Filter,
    Measure::Parquet,
    Measure::Kafka,
    Measure::Copy,
    Measure::Latency,
];

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Measure {
    /// A consumer loop of the client library that counts bytes.
    Limit,
    /// All columns of all rows into nothing.
    Noop,
    /// Rows whose JSON has a price over 200000 into nothing.
    Filter,
    /// Six columns of those rows into Parquet.
    Parquet,
    /// Auction and value of those rows into a topic, exactly-once.
    Kafka,
    /// Key and value of all rows into a topic, exactly-once.
    Copy,
    /// From sending a record to reading its copy, 10,000 a second.
    Latency,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Noop => "noop",
            Self::Filter => "filter",
            Self::Parquet => "parquet",
            Self::Kafka => "kafka",
            Self::Copy => "copy",
            Self::Latency => "latency",
        }
    }

    /// The rows a query reads, as it writes them.
    fn frame(self, topic: DataFrame) -> Result<DataFrame> {
        if self == Self::Noop {
            return Ok(topic);
        }
        if self == Self::Copy {
            return topic.select(["key", "value"]);
        }
        let bid = format!("from_json(CAST(value AS STRING), '{BIDS}') AS bid");
        let wanted = topic
            .select_expr(&[&bid, "value"])?
            .filter("bid.price > 200000")?;
        match self {
            Self::Kafka => wanted.select_expr(&["CAST(bid.auction AS STRING) AS key", "value"]),
            _ => wanted.select_expr(&[
                "bid.bid_id AS bid_id",
                "bid.auction AS auction",
                "bid.bidder AS bidder",
                "CAST(bid.price AS DOUBLE) * 0.908 AS price_eur",
                "bid.channel AS channel",
                "bid.date_time AS date_time",
            ]),
        }
    }
}

/// Fills the topic if it is not there, and measures.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let servers = arguments.bootstrap.as_deref().ok_or_else(|| {
        WeirError::config("kafka needs --bootstrap HOST:PORT; scripts/kafka/broker starts one")
    })?;
    let chosen =
        |measure: &&Measure| arguments.measure.is_empty() || arguments.measure.contains(measure);
    let chosen: Vec<Measure> = ALL.iter().filter(chosen).copied().collect();
    let bids = Topic::new(servers, format!("weir-bench-bids-{}", arguments.rows));
    if chosen != [Measure::Latency] {
        fill(arguments, &bids).await?;
    }
    for measure in chosen {
        reset_peak_rss()?;
        let mut told = match measure {
            Measure::Limit => limit(arguments, &bids)?,
            Measure::Latency => latency::measure(arguments, servers).await?,
            _ => query(arguments, &bids, measure).await?,
        };
        add(&mut told, json!({"peak_rss_bytes": peak_rss()?}));
        println!("{told}");
    }
    Ok(())
}

/// Name, threads and what was used for so many rows.
fn line(arguments: &Arguments, measure: Measure, rows: u64, used: &Usage) -> Value {
    json!({
        "engine": if measure == Measure::Limit { "librdkafka" } else { "weir" }, "query": "kafka", "measure": measure.name(),
        "threads": arguments.threads, "rows": rows, "seconds": used.seconds(), "rows_per_s": rows as f64 / used.seconds(),
        "cpu_s": used.cpu_seconds(), "rows_per_cpu_s": rows as f64 / used.cpu_seconds(),
    })
}

async fn fill(arguments: &Arguments, bids: &Topic<'_>) -> Result<()> {
    let there = bids.create().await?;
    if there == arguments.rows {
        return Ok(());
    }
    if there > 0 {
        return Err(WeirError::config(format!(
            "topic '{}' holds {there} records instead of {}: an earlier fill was cut short; delete the topic, or take another --rows",
            bids.name(),
            arguments.rows
        )));
    }
    let before = Usage::now()?;
    let bytes = bids.fill(&arguments.data.join("bids_json"), arguments.rows)?;
    let used = Usage::now()?.since(&before);
    let rows = arguments.rows;
    println!(
        "{}",
        json!({"engine": "librdkafka", "query": "kafka", "measure": "fill", "rows": rows, "payload_bytes": bytes,
               "seconds": used.seconds(), "rows_per_s": rows as f64 / used.seconds(), "cpu_s": used.cpu_seconds()})
    );
    Ok(())
}

fn limit(arguments: &Arguments, bids: &Topic<'_>) -> Result<Value> {
    let before = Usage::now()?;
    let (rows, bytes) = bids.read()?;
    let used = Usage::now()?.since(&before);
    expect(bids.name(), rows, arguments.rows)?;
    let mut told = line(arguments, Measure::Limit, rows, &used);
    add(&mut told, json!({"payload_bytes": bytes}));
    Ok(told)
}

async fn query(arguments: &Arguments, bids: &Topic<'_>, measure: Measure) -> Result<Value> {
    let (output, checkpoint) = (
        fresh(&arguments.work, "out")?,
        fresh(&arguments.work, "checkpoint")?,
    );
    let target = Topic::new(bids.servers(), Topic::unused("weir-bench-out"));
    let into_topic = matches!(measure, Measure::Kafka | Measure::Copy);
    if into_topic {
        target.create().await?;
    }
    let session = session(arguments)?;
    let before = Usage::now()?;
    let mut reader = session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", bids.servers())
        .option("subscribe", bids.name())
        .option("startingOffsets", "earliest");
    if let Some(offsets) = arguments.offsets {
        reader = reader.option("maxOffsetsPerTrigger", offsets);
    }
    let writer = measure
        .frame(reader.open()?)?
        .write_stream()
        .option("checkpointLocation", &checkpoint)
        .trigger(Trigger::AvailableNow);
    let query = match measure {
        Measure::Parquet => writer.format("parquet").start_path(&output).await?,
        Measure::Kafka | Measure::Copy => target.sink(writer).start().await?,
        _ => writer.format("noop").start().await?,
    };
    query.await_termination().await?;
    let used = Usage::now()?.since(&before);
    let progress = query.recent_progress();
    let read: u64 = progress.iter().map(|epoch| epoch.num_input_rows).sum();
    expect(bids.name(), read, arguments.rows)?;
    let mut told = line(arguments, measure, read, &used);
    add(&mut told, report(&progress, Path::new(&checkpoint))?);
    if into_topic {
        let written = told["rows_out"].as_u64().unwrap_or(0);
        let (committed, _) = target.read()?;
        expect(target.name(), committed, written)?;
        target.delete().await?;
    }
    Ok(told)
}

/// A measurement of other rows than these is none.
fn expect(topic: &str, found: u64, wanted: u64) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(WeirError::internal(format!(
            "{found} rows of topic '{topic}' were read instead of {wanted}"
        ))),
    }
}
