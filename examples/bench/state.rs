//! State larger than its memory: keys without end are counted and deduplicated, and memory, checkpoint bytes and time per epoch are
//! told as they grow. Then a few keys are touched again, which must cost what they are, not what is there.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use serde_json::json;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use crate::usage::{now, peak_rss, rss, size};
use crate::{Arguments, STATE_MEMORY, columns, fresh};

const KEYS_PER_EPOCH: u64 = 250_000;
/// Keys touched in each epoch after the state is full, and the number of such epochs.
const FEW: u64 = 100;
const FEW_EPOCHS: u64 = 10;

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    for (name, mode, query) in [
        (
            "count by key",
            "update",
            "SELECT v, count(*) AS n FROM rows GROUP BY v",
        ),
        ("deduplicate", "append", "SELECT v FROM rows"),
    ] {
        let checkpoint = fresh(&arguments.work, "checkpoint")?;
        let session = Session::builder()
            .parallelism(arguments.threads)
            .config(STATE_MEMORY, arguments.budget.as_deref().unwrap_or("64m"))
            .build()?;
        let stream = MemoryStream::new(columns("v BIGINT")?);
        session
            .read_stream()
            .source(stream.source())?
            .create_or_replace_temp_view("rows")?;
        let query = session.sql(query).await?;
        let query = match mode {
            "append" => query.drop_duplicates(&[])?,
            _ => query,
        };
        let query = query
            .write_stream()
            .output_mode(mode)
            .format("noop")
            .option("checkpointLocation", &checkpoint)
            .start()
            .await?;
        let mut driven = Driven {
            name,
            query,
            stream,
            checkpoint,
            bytes: 0,
        };
        let (mut from, step) = (0, (arguments.keys / KEYS_PER_EPOCH / 10).max(1));
        while from < arguments.keys {
            let to = (from + KEYS_PER_EPOCH).min(arguments.keys);
            let told = (from / KEYS_PER_EPOCH).is_multiple_of(step) || to == arguments.keys;
            driven
                .epoch("new keys", (from..to).map(scattered), told)
                .await?;
            from = to;
        }
        for number in 0..FEW_EPOCHS {
            let again = (0..FEW).map(|key| scattered((number * FEW + key) * 37 % arguments.keys));
            driven.epoch("few keys", again, true).await?;
        }
        driven.query.stop().await;
    }
    Ok(())
}

/// Keys in no order.
fn scattered(number: u64) -> i64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64
}

struct Driven {
    name: &'static str,
    query: StreamingQuery,
    stream: MemoryStream,
    checkpoint: String,
    bytes: u64,
}

impl Driven {
    async fn epoch(
        &mut self,
        what: &str,
        keys: impl Iterator<Item = i64>,
        told: bool,
    ) -> Result<()> {
        let values = Int64Array::from_iter_values(keys);
        let rows = values.len();
        let since = now();
        let batch = RecordBatch::try_new(self.stream.schema(), vec![Arc::new(values)])?;
        self.stream.add(batch)?;
        self.query.process_all_available().await?;
        let seconds = since.elapsed().as_secs_f64();
        let bytes = size(Path::new(&self.checkpoint))?;
        let grown = bytes as i64 - self.bytes as i64;
        self.bytes = bytes;
        let progress = self.query.last_progress();
        let operators = progress.iter().flat_map(|epoch| &epoch.state_operators);
        let state_rows: u64 = operators.map(|told| told.num_rows_total).sum();
        if told {
            println!(
                "{}",
                json!({"engine": "weir", "query": "state", "kind": self.name, "epoch": what, "rows": rows, "state_rows": state_rows,
                       "seconds": seconds, "rss_bytes": rss()?, "peak_rss_bytes": peak_rss()?, "checkpoint_bytes": bytes,
                       "checkpoint_bytes_grown": grown})
            );
        }
        Ok(())
    }
}
