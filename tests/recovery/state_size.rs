//! Goal: state larger than its memory keeps right results, flat memory and epochs that cost what they change; what the watermark
//! evicts goes from disk too. Method: a child process, whose memory is its own, runs the query; the parent judges what it tells.
//!
//! `WEIR_STATE_KEYS` sets the number of keys (60000 unless set; 10000000 is the size to judge memory by). Memory for state is a tenth
//! of what the keys need.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use serde::{Deserialize, Serialize};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

const CHILD: &str = "WEIR_TEST_STATE_CHILD";
/// About what a key and its value need in memory, in bytes.
const BYTES_PER_KEY: u64 = 64;
const EPOCHS: u64 = 20;
/// Setting that bounds the memory of state.
pub(crate) const STATE_MEMORY: &str = "weir.state.memoryBudget";

fn keys() -> u64 {
    let keys = std::env::var("WEIR_STATE_KEYS").ok();
    keys.and_then(|text| text.parse().ok()).unwrap_or(60_000)
}

/// What a child tells.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    /// Rows the sink got, and the sum of their last column.
    rows: i64,
    sum: i64,
    /// Resident memory after each epoch, in bytes.
    memory: Vec<u64>,
    /// Bytes of the checkpoint after each epoch.
    checkpoint: Vec<u64>,
    /// Rows in state after the last epoch.
    state_rows: u64,
}

fn memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("of this process");
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse::<u64>().ok());
    pages.expect("resident pages") * 4096
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return 0;
    };
    let entries = entries.filter_map(std::result::Result::ok);
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(known) if known.is_dir() => size(&entry.path()),
        Ok(known) => known.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Keys in no order.
fn scattered(number: u64) -> i64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64
}

struct Run {
    stream: MemoryStream,
    query: StreamingQuery,
    checkpoint: std::path::PathBuf,
    told: Told,
    rows: Arc<AtomicI64>,
    sum: Arc<AtomicI64>,
    _session: Session,
}

impl Run {
    async fn start(home: &Path, query: &str, mode: &str) -> Self {
        let budget = (keys() * BYTES_PER_KEY / 10).max(64 * 1024);
        let session = Session::builder()
            .parallelism(2)
            .config(STATE_MEMORY, budget)
            .config("spark.sql.streaming.minBatchesToRetain", 2)
            .build()
            .expect("a session");
        let schema = weir::types::parse_schema("v BIGINT, ts TIMESTAMP").expect("a schema");
        let stream = MemoryStream::new(schema);
        let rows = session
            .read_stream()
            .source(stream.source())
            .expect("a stream");
        let rows = match query.contains("ts") {
            true => rows.with_watermark("ts", "0 seconds").expect("a watermark"),
            false => rows,
        };
        rows.create_or_replace_temp_view("rows").expect("a view");
        let frame = session.sql(query).await.expect("a query");
        let frame = match mode {
            "append" => frame.drop_duplicates(&[]).expect("a deduplication"),
            _ => frame,
        };
        let checkpoint = home.join("checkpoint");
        let (rows, sum) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let (add_rows, add_sum) = (Arc::clone(&rows), Arc::clone(&sum));
        let query = frame
            .write_stream()
            .output_mode(mode)
            .checkpoint(&checkpoint.to_string_lossy())
            .foreach_batch(move |frame, _| {
                let (rows, sum) = (Arc::clone(&add_rows), Arc::clone(&add_sum));
                async move {
                    for batch in frame.collect().await? {
                        rows.fetch_add(batch.num_rows() as i64, Ordering::Relaxed);
                        let last = batch.columns().last().expect("a column");
                        let values = last.as_primitive::<Int64Type>().values();
                        sum.fetch_add(
                            values.iter().fold(0, |sum, value| sum.wrapping_add(*value)),
                            Ordering::Relaxed,
                        );
                    }
                    Ok(())
                }
            })
            .start()
            .await
            .expect("starts");
        Self {
            stream,
            query,
            checkpoint,
            told: Told::default(),
            rows,
            sum,
            _session: session,
        }
    }

    /// One epoch of these keys at a time, in seconds.
    async fn epoch(&mut self, keys: impl Iterator<Item = i64>, seconds: i64) {
        let values = Int64Array::from_iter_values(keys);
        let micros = 1_767_225_600_000_000 + seconds * 1_000_000;
        let times = TimestampMicrosecondArray::from(vec![micros; values.len()]);
        let zone = match self.stream.schema().field(1).data_type() {
            arrow::datatypes::DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let columns: Vec<ArrayRef> =
            vec![Arc::new(values), Arc::new(times.with_timezone_opt(zone))];
        self.stream.add_columns(columns).expect("added");
        self.query.process_all_available().await.expect("goes on");
        self.told.memory.push(memory());
        self.told.checkpoint.push(size(&self.checkpoint));
    }

    async fn end(mut self) {
        let progress = self.query.last_progress().expect("an epoch");
        let state = progress.state_operators.iter();
        self.told.state_rows = state.map(|told| told.num_rows_total).sum();
        self.told.rows = self.rows.load(Ordering::Relaxed);
        self.told.sum = self.sum.load(Ordering::Relaxed);
        self.query.stop().await;
        println!(
            "TOLD {}",
            serde_json::to_string(&self.told).expect("numbers")
        );
    }
}

/// Not a test of its own: the body of the child processes.
#[test]
fn child() {
    let Ok(what) = std::env::var(CHILD) else {
        return;
    };
    let (kind, home) = what.split_once(' ').expect("what and where");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let (keys, per_epoch) = (keys(), keys() / EPOCHS);
    let epoch = |number: u64| (number * per_epoch..(number + 1) * per_epoch).map(scattered);
    runtime.block_on(async {
        let home = Path::new(home);
        match kind {
            "counts" => {
                let query = "SELECT v, count(*) AS n FROM rows GROUP BY v";
                let mut run = Run::start(home, query, "update").await;
                for number in 0..EPOCHS {
                    run.epoch(epoch(number), 0).await;
                }
                // A few keys from all over the state.
                let few = (0..100).map(|key| scattered(key * 7_919 % keys));
                run.epoch(few, 0).await;
                run.end().await;
            }
            "distinct" => {
                let mut run = Run::start(home, "SELECT v FROM rows", "append").await;
                for number in 0..EPOCHS {
                    run.epoch(epoch(number), 0).await;
                }
                for number in [0, EPOCHS - 1] {
                    run.epoch(epoch(number), 0).await;
                }
                run.end().await;
            }
            _ => {
                let mut run = Run::start(home, "SELECT ts, v FROM rows", "append").await;
                for number in 0..2 * EPOCHS {
                    run.epoch(epoch(number % EPOCHS), number as i64).await;
                }
                run.end().await;
            }
        }
    });
}

fn told(kind: &str) -> Told {
    let home = tempfile::tempdir().expect("a directory");
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "state_size::child", "--nocapture"])
        .env(CHILD, format!("{kind} {}", home.path().display()))
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find_map(|line| line.split_once("TOLD ").map(|(_, told)| told));
    let line = line.unwrap_or_else(|| {
        panic!(
            "the child told nothing: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    serde_json::from_str(line).expect("what the child told")
}

/// From a fifth of the keys on, memory does not follow the state. (The child alone needs some tens of megabytes.)
fn assert_flat(memory: &[u64], situation: &str) {
    let early = memory[EPOCHS as usize / 5];
    let most = *memory.iter().max().expect("epochs");
    let state = keys() * BYTES_PER_KEY;
    let allowed = early + state / 4 + 48 * 1024 * 1024;
    assert!(
        most <= allowed,
        "{situation}: {early} bytes early on, {most} at most, state of {state}"
    );
}

#[test]
fn e5_counts_of_more_keys_than_memory_holds_are_right_and_cost_what_they_change() {
    let told = told("counts");
    let keys = (keys() / EPOCHS * EPOCHS) as i64;
    assert_eq!(told.rows, keys + 100);
    assert_eq!(
        told.sum,
        keys + 200,
        "every key once, a hundred of them twice"
    );
    assert_eq!(told.state_rows, keys as u64);
    assert_flat(&told.memory, "counts");
    let grown: Vec<i64> = told
        .checkpoint
        .windows(2)
        .map(|pair| pair[1] as i64 - pair[0] as i64)
        .collect();
    let few = grown.last().expect("epochs");
    let all = *told.checkpoint.last().expect("epochs") as i64;
    assert!(
        *few < all / 4,
        "an epoch of 100 keys grew the checkpoint by {few} of {all} bytes"
    );
}

#[test]
fn e5_distinct_rows_beyond_memory_are_found_again() {
    let told = told("distinct");
    assert_eq!(told.rows, (keys() / EPOCHS * EPOCHS) as i64);
    assert_flat(&told.memory, "distinct");
}

#[test]
fn evicted_state_leaves_memory_and_disk() {
    let told = told("evicted");
    let per_epoch = keys() / EPOCHS;
    assert_eq!(told.rows, (2 * EPOCHS * per_epoch) as i64);
    assert!(
        told.state_rows <= 2 * per_epoch,
        "{} rows in state",
        told.state_rows
    );
    let (middle, end) = (
        told.checkpoint[EPOCHS as usize - 1],
        *told.checkpoint.last().expect("epochs"),
    );
    assert!(
        end <= middle + middle / 2,
        "checkpoint of {middle} bytes half-way, {end} at the end"
    );
    assert_flat(&told.memory, "evicted");
}
