//! Measures queries over generated Nexmark-shaped bids, one JSON line per run; and the fixed cost of an epoch with one row.
//!
//! ```text
//! cargo run --release --example bench -- a --data DIR --work DIR [--files 4] [--parallelism 2]
//! cargo run --release --example bench -- epoch --work DIR [--epochs 500]
//! ```
//! `DIR` holds `bids_json/*.json` and `manifest.json` with the number of rows. Query a: JSON → `price > 200000`, six columns → Parquet.
//! Compare `rows_per_cpu_s` of runs made one after the other on one machine; wall times mislead on a shared one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use clap::Parser;
use serde_json::json;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

const BIDS: &str = "bid_id BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING";

/// What to measure.
#[derive(Parser)]
struct Arguments {
    /// `a`, or `epoch` for the fixed cost of an epoch.
    query: String,
    /// Directory of the generated data.
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Directory for output and checkpoint; emptied before the run.
    #[arg(long, default_value = "work")]
    work: PathBuf,
    /// Files per epoch.
    #[arg(long, default_value_t = 4)]
    files: u64,
    /// Subtasks per task.
    #[arg(long, default_value_t = 2)]
    parallelism: usize,
    /// Epochs to measure (`epoch`).
    #[arg(long, default_value_t = 500)]
    epochs: usize,
    /// Sink: `parquet` or `noop` (query a).
    #[arg(long, default_value = "parquet")]
    sink: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.query.as_str() {
        "a" => query_a(&arguments).await,
        "epoch" => epochs(&arguments).await,
        other => Err(WeirError::config(format!(
            "query '{other}' is not known, known: a, epoch"
        ))),
    }
}

fn fresh(work: &Path, name: &str) -> Result<String> {
    let path = work.join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).map_err(io)?;
    }
    std::fs::create_dir_all(&path).map_err(io)?;
    Ok(path.display().to_string())
}

async fn query_a(arguments: &Arguments) -> Result<()> {
    let manifest = std::fs::read(arguments.data.join("manifest.json")).map_err(io)?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&manifest).map_err(|error| WeirError::config(error.to_string()))?;
    let rows = manifest["bids"]["rows"]
        .as_u64()
        .ok_or_else(|| WeirError::config("manifest.json has no bids.rows"))?;
    let (output, checkpoint) = (
        fresh(&arguments.work, "out")?,
        fresh(&arguments.work, "checkpoint")?,
    );
    let session = Session::builder()
        .parallelism(arguments.parallelism)
        .build()?;
    let before = Usage::now()?;
    let writer = session
        .read_stream()
        .schema(BIDS)
        .option("maxFilesPerTrigger", arguments.files)
        .json(&arguments.data.join("bids_json").display().to_string())?
        .filter("price > 200000")?
        .select_expr(&[
            "bid_id",
            "auction",
            "bidder",
            "CAST(price AS DOUBLE) * 0.908 AS price_eur",
            "channel",
            "date_time",
        ])?
        .write_stream()
        .format(arguments.sink.as_str())
        .option("checkpointLocation", &checkpoint)
        .trigger(Trigger::AvailableNow);
    let query = match arguments.sink.as_str() {
        "parquet" => writer.start_path(&output).await?,
        _ => writer.start().await?,
    };
    query.await_termination().await?;
    let used = Usage::now()?.since(&before);
    let progress = query.recent_progress();
    let written: u64 = progress
        .iter()
        .map(|epoch| epoch.sink.num_output_rows)
        .sum();
    println!(
        "{}",
        json!({
            "engine": "weir", "query": "a", "src": "json", "sink": arguments.sink, "threads": arguments.parallelism,
            "rows": rows, "rows_out": written, "seconds": used.wall.as_secs_f64(),
            "rows_per_s": rows as f64 / used.wall.as_secs_f64(), "cpu_s": used.cpu.as_secs_f64(),
            "rows_per_cpu_s": rows as f64 / used.cpu.as_secs_f64(), "peak_rss_bytes": peak_rss()?,
            "epochs": progress.len(), "checkpoint_bytes": size(Path::new(&checkpoint))?,
        })
    );
    Ok(())
}

/// Fixed cost of an epoch: one row is added, and the time until it is committed is taken; checkpoint in memory and on disk.
async fn epochs(arguments: &Arguments) -> Result<()> {
    let disk = fresh(&arguments.work, "checkpoint")?;
    for (kind, checkpoint) in [
        ("memory", "memory://bench-epoch".to_owned()),
        ("disk", disk),
    ] {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let stream = MemoryStream::new(Arc::clone(&schema));
        let session = Session::builder().parallelism(1).build()?;
        let (sender, mut committed) = tokio::sync::mpsc::unbounded_channel();
        session.streams().add_listener(move |event: &QueryEvent| {
            if let QueryEvent::Progress(_) = event {
                let _stopped = sender.send(()).is_err();
            }
        });
        let query = session
            .read_stream()
            .source(stream.source())?
            .filter("v >= 0")?
            .write_stream()
            .format("noop")
            .option("checkpointLocation", &checkpoint)
            .start()
            .await?;
        let mut times = Vec::with_capacity(arguments.epochs);
        for value in 0..arguments.epochs {
            let batch = RecordBatch::try_new(
                Arc::clone(&schema),
                vec![Arc::new(Int64Array::from(vec![value as i64]))],
            )?;
            let since = now();
            stream.add(batch)?;
            committed
                .recv()
                .await
                .ok_or_else(|| WeirError::internal("the query ended"))?;
            times.push(since.elapsed());
        }
        query.stop().await;
        times.sort_unstable();
        let at =
            |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
        println!(
            "{}",
            json!({"engine": "weir", "query": "epoch", "checkpoint": kind, "epochs": times.len(),
                   "median_ms": at(0.5), "p90_ms": at(0.9), "min_ms": at(0.0)})
        );
    }
    Ok(())
}

/// Wall and CPU time of this process.
struct Usage {
    wall: Duration,
    cpu: Duration,
    at: Instant,
}

impl Usage {
    fn now() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").map_err(io)?;
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |index: usize| {
            fields
                .get(index)
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        // utime and stime, the 14th and 15th field of the line, in hundredths of a second.
        let cpu = Duration::from_millis((ticks(11) + ticks(12)) * 10);
        Ok(Self {
            wall: Duration::ZERO,
            cpu,
            at: now(),
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            wall: self.at.duration_since(before.at),
            cpu: self.cpu.saturating_sub(before.cpu),
            at: self.at,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a bench measures the real time")]
fn now() -> Instant {
    Instant::now()
}

fn peak_rss() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(io)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}

fn size(path: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let metadata = entry.metadata().map_err(io)?;
        total += if metadata.is_dir() {
            size(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(total)
}

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}
