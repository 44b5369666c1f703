//! The fixed cost of an epoch: one row is added, and the time until it is committed is taken.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use serde_json::json;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use crate::usage::now;
use crate::{Arguments, columns, fresh};

/// What the one-row epochs do.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    query: &'static str,
    mode: &'static str,
}

const STATELESS: Kind = Kind {
    name: "stateless",
    query: "SELECT v FROM rows WHERE v >= 0",
    mode: "append",
};
const STATEFUL: [Kind; 2] = [
    Kind {
        name: "count by key",
        query: "SELECT v % 10 AS k, count(*) AS n FROM rows GROUP BY v % 10",
        mode: "update",
    },
    Kind {
        name: "count by window",
        query: "SELECT window.start AS w, count(*) AS n FROM rows GROUP BY window(ts, '10 seconds')",
        mode: "append",
    },
];

/// Checkpoint in memory and on disk.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let stateful: &[Kind] = if arguments.state { &STATEFUL } else { &[] };
    for kind in std::iter::once(&STATELESS).chain(stateful) {
        for place in ["memory", "disk"] {
            let checkpoint = match place {
                "memory" => format!("memory://bench-{}", kind.name.replace(' ', "-")),
                _ => fresh(&arguments.work, "checkpoint")?,
            };
            let times = times(arguments, *kind, &checkpoint).await?;
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] * 1000.0;
            println!(
                "{}",
                json!({"engine": "weir", "query": "epoch", "kind": kind.name, "checkpoint": place, "epochs": times.len(),
                       "median_ms": at(0.5), "p90_ms": at(0.9), "min_ms": at(0.0)})
            );
        }
    }
    Ok(())
}

/// Seconds from one row to its commit, sorted.
async fn times(arguments: &Arguments, kind: Kind, checkpoint: &str) -> Result<Vec<f64>> {
    let stream = MemoryStream::new(columns("v BIGINT, ts TIMESTAMP")?);
    let session = Session::builder().parallelism(1).build()?;
    let (sender, mut committed) = tokio::sync::mpsc::unbounded_channel();
    session.streams().add_listener(move |event: &QueryEvent| {
        if let QueryEvent::Progress(progress) = event {
            let _stopped = sender.send(progress.num_input_rows).is_err();
        }
    });
    let rows = session.read_stream().source(stream.source())?;
    let rows = match kind.mode {
        "append" => rows.with_watermark("ts", "10 seconds")?,
        _ => rows,
    };
    rows.create_or_replace_temp_view("rows")?;
    let query = session.sql(kind.query).await?;
    let query = query
        .write_stream()
        .output_mode(kind.mode)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
        .await?;
    let mut times = Vec::with_capacity(arguments.epochs);
    for value in 0..arguments.epochs {
        let batch = one_row(&stream, value as i64)?;
        let since = now();
        stream.add(batch)?;
        // An epoch without rows, run because the watermark moved, is not the one waited for.
        while committed
            .recv()
            .await
            .ok_or_else(|| WeirError::internal("the query ended"))?
            == 0
        {}
        times.push(since.elapsed().as_secs_f64());
    }
    query.stop().await;
    times.sort_unstable_by(f64::total_cmp);
    Ok(times)
}

/// One row; its time stands still, so that no epoch without rows follows.
fn one_row(stream: &MemoryStream, value: i64) -> Result<RecordBatch> {
    let schema = stream.schema();
    let zone = match schema.field(1).data_type() {
        arrow::datatypes::DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let time = TimestampMicrosecondArray::from(vec![1_767_225_600_000_000]).with_timezone_opt(zone);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![value])), Arc::new(time)];
    Ok(RecordBatch::try_new(schema, columns)?)
}
