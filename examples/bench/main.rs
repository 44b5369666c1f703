//! Measures queries over generated Nexmark-shaped bids, one JSON line per run; and the fixed cost of an epoch with one row.
//!
//! ```text
//! cargo run --release --example bench -- QUERY --data DIR --work DIR [--files 4] [--threads 2] [--sink checksum] [--check]
//! cargo run --release --example bench -- epoch --work DIR [--epochs 500] [--state]
//! cargo run --release --example bench -- state --work DIR [--keys 10000000] [--budget 64m]
//! cargo run --release --example bench -- files --data DIR --work DIR [--count 10000]
//! cargo run --release --example bench -- kafka --bootstrap HOST:PORT --data DIR --work DIR [--rows 1000000] [--measure limit,noop]
//! ```
//! `DIR` holds `bids_json/*.json`, `bids_parquet/*.parquet` and `manifest.json` with the number of rows.
//!
//! | query | input | what | mode |
//! | --- | --- | --- | --- |
//! | a | JSON | `price > 200000`, six columns, to Parquet | append |
//! | b | Parquet | count, sum and average of prices by auction and 10 s window | append |
//! | c | Parquet | as b | update |
//! | d | Parquet | running count and sum of prices by bidder | update |
//! | e | Parquet | each (bidder, auction, 10 s window) once | append |
//! | g | Parquet | count and sum by session of a bidder, gap 10 s | append |
//! | h | Parquet | count by auction and sliding window, 10 s by 2 s | append |
//!
//! Watermarks stay 10 s behind. Every epoch is exactly-once with a checkpoint on disk. In append mode `rows_out` is smaller than the
//! batch answer by the windows that are still open at the end; `--check` adds one bid far in the future, which closes them all, runs
//! the same query over the same files in batch, and says whether rows and sums agree.
//!
//! `files` reads the bids in Parquet into nothing, beside a loop with the library's reader on one thread; a million rows in `--count` JSON
//! files and in eight; and takes the CPU time of an idle trigger and the time until a new file is committed, in directories of 1,000 to
//! 100,000 known files.
//!
//! `kafka` reads bids from a topic of four partitions, of which the first run makes it: into nothing, filtered by their JSON into nothing,
//! Parquet and a topic, copied to a topic, all exactly-once; and takes the time from sending a record to reading its copy. `limit` is a
//! consumer loop of the client library over the same topic. CPU time is that of this process: threads of the client library count, the
//! broker does not, nor does Kafka's side of a commit.
//!
//! Compare `rows_per_cpu_s` of runs made one after the other on one machine; wall times mislead on a shared one.

mod check;
mod epoch;
mod files;
mod kafka;
mod queries;
mod sink;
mod state;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use serde_json::{Value, json};
use weir::prelude::*;

use queries::Bench;
use sink::Checksums;
use usage::{Usage, io, peak_rss, size};

/// What to measure.
#[derive(Parser)]
struct Arguments {
    /// `a` to `h`; `epoch` for the fixed cost of an epoch; `state` for state larger than memory; `files` for files; `kafka` for topics in and out.
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
    #[arg(long, visible_alias = "parallelism", default_value_t = 2)]
    threads: usize,
    /// Epochs to measure (`epoch`).
    #[arg(long, default_value_t = 500)]
    epochs: usize,
    /// The epochs are of stateful queries too (`epoch`).
    #[arg(long)]
    state: bool,
    /// Sink: `checksum` (counts and sums what it gets; the default), `noop`, or `parquet` (append mode only; the default of a).
    #[arg(long)]
    sink: Option<String>,
    /// Compare with the answer in batch; not for timing.
    #[arg(long)]
    check: bool,
    /// Distinct keys (`state`).
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Small files (`files`).
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Memory for state (`state`), and for the other queries if given.
    #[arg(long)]
    budget: Option<String>,
    /// A broker (`kafka`).
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Bids in the topic, which is filled by the first run (`kafka`).
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// What to measure, separated by commas; everything unless given (`kafka`).
    #[arg(long, value_delimiter = ',')]
    measure: Vec<kafka::Measure>,
    /// `maxOffsetsPerTrigger`; the source's default unless given (`kafka`).
    #[arg(long)]
    offsets: Option<u64>,
    /// Records a second, for so many seconds after a warm-up (`kafka --measure latency`).
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// See the rate.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.query.as_str() {
        "epoch" => epoch::run(&arguments).await,
        "state" => state::run(&arguments).await,
        "files" => files::run(&arguments).await,
        "kafka" => kafka::run(&arguments).await,
        query => match Bench::named(query) {
            Some(bench) => measure(&arguments, bench).await,
            None => Err(WeirError::config(format!(
                "query '{query}' is not known, known: a, b, c, d, e, g, h, epoch, state, files, kafka"
            ))),
        },
    }
}

/// An empty directory.
fn fresh(work: &Path, name: &str) -> Result<String> {
    let path = work.join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).map_err(io)?;
    }
    std::fs::create_dir_all(&path).map_err(io)?;
    Ok(path.display().to_string())
}

fn rows_of(data: &Path) -> Result<u64> {
    let manifest = std::fs::read(data.join("manifest.json")).map_err(io)?;
    let manifest: Value =
        serde_json::from_slice(&manifest).map_err(|error| WeirError::config(error.to_string()))?;
    manifest["bids"]["rows"]
        .as_u64()
        .ok_or_else(|| WeirError::config("manifest.json has no bids.rows"))
}

/// Columns by their DDL text.
fn columns(text: &str) -> Result<arrow::datatypes::SchemaRef> {
    weir::types::parse_schema(text).map_err(|error| WeirError::config(error.to_string()))
}

/// Name of the setting that bounds the memory of state.
pub(crate) const STATE_MEMORY: &str = "weir.state.memoryBudget";

fn session(arguments: &Arguments) -> Result<Session> {
    let builder = Session::builder()
        .parallelism(arguments.threads)
        .config("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        .config("weir.progressBar", false);
    match &arguments.budget {
        Some(budget) => builder.config(STATE_MEMORY, budget),
        None => builder,
    }
    .build()
}

async fn measure(arguments: &Arguments, bench: Bench) -> Result<()> {
    let rows = rows_of(&arguments.data)?;
    let default = match bench {
        Bench::A if !arguments.check => "parquet",
        _ => "checksum",
    };
    let kind = arguments.sink.as_deref().unwrap_or(default);
    let (output, checkpoint) = (
        fresh(&arguments.work, "out")?,
        fresh(&arguments.work, "checkpoint")?,
    );
    let input = match arguments.check {
        true => check::input(arguments, bench, &fresh(&arguments.work, "in")?)?,
        false => arguments.data.join(bench.directory()),
    };
    let session = session(arguments)?;
    let checksums = Checksums::new(bench, arguments.check);
    let before = Usage::now()?;
    let writer = bench
        .frame(&session, &input, arguments.files)
        .await?
        .write_stream()
        .output_mode(bench.mode())
        .option("checkpointLocation", &checkpoint)
        .trigger(Trigger::AvailableNow);
    let query = match kind {
        "checksum" => writer.sink(Arc::new(checksums.clone())).start().await?,
        "parquet" => writer.format("parquet").start_path(&output).await?,
        other => writer.format(other).start().await?,
    };
    query.await_termination().await?;
    let used = Usage::now()?.since(&before);
    let progress = query.recent_progress();
    let mut told = json!({
        "engine": "weir", "query": arguments.query, "mode": bench.mode(), "sink": kind, "threads": arguments.threads,
        "files_per_epoch": arguments.files, "rows": rows, "seconds": used.seconds(),
        "rows_per_s": rows as f64 / used.seconds(), "cpu_s": used.cpu_seconds(),
        "rows_per_cpu_s": rows as f64 / used.cpu_seconds(), "peak_rss_bytes": peak_rss()?,
    });
    add(&mut told, report(&progress, Path::new(&checkpoint))?);
    if kind == "checksum" {
        add(&mut told, checksums.report());
    }
    if arguments.check {
        add(
            &mut told,
            check::compare(bench, &session, &input, &checksums).await?,
        );
    }
    println!("{told}");
    Ok(())
}

/// What the epochs tell.
fn report(progress: &[QueryProgress], checkpoint: &Path) -> Result<Value> {
    let epochs = progress.len().max(1) as u64;
    let mut milliseconds: Vec<u64> = progress.iter().map(|epoch| epoch.batch_duration).collect();
    milliseconds.sort_unstable();
    let state_rows = |epoch: &QueryProgress| {
        let rows = epoch.state_operators.iter();
        rows.map(|told| told.num_rows_total).sum::<u64>()
    };
    let late = |epoch: &QueryProgress| {
        let rows = epoch.state_operators.iter();
        rows.map(|told| told.num_rows_dropped_by_watermark)
            .sum::<u64>()
    };
    let written: u64 = progress
        .iter()
        .map(|epoch| epoch.sink.num_output_rows)
        .sum();
    let bytes = size(checkpoint)?;
    Ok(json!({
        "epochs": progress.len(), "median_epoch_ms": milliseconds.get(milliseconds.len() / 2),
        "rows_out": written, "late_rows": progress.iter().map(late).sum::<u64>(),
        "state_rows_max": progress.iter().map(state_rows).max(),
        "state_rows_end": progress.last().map(state_rows),
        "checkpoint_bytes": bytes, "checkpoint_bytes_per_epoch": bytes / epochs,
    }))
}

fn add(told: &mut Value, more: Value) {
    if let (Value::Object(told), Value::Object(more)) = (told, more) {
        told.extend(more);
    }
}
