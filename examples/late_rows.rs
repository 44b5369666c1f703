//! Late rows as a second output: what comes after the watermark has passed is in no result any more, but it need not be lost. In a
//! dataflow by hand `late_output` names the late rows of an operator, and a sink of their own takes them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use weir::connectors::foreach::ForeachSink;
use weir::connectors::memory::MemoryStream;
use weir::operators::{Dedup, Forget, dedup, watermark};
use weir::prelude::*;

/// How late an event may be.
const DELAY_MS: i64 = 5_000;

/// Events of (second, id).
fn events(rows: &[(i64, i64)]) -> Vec<ArrayRef> {
    let times = rows.iter().map(|(second, _)| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let ids = Int64Array::from_iter_values(rows.iter().map(|(_, id)| *id));
    vec![Arc::new(times), Arc::new(ids)]
}

/// The ids that a sink got.
type Ids = Arc<Mutex<Vec<i64>>>;

fn sink(what: &'static str, ids: &Ids) -> Arc<ForeachSink> {
    let ids = Arc::clone(ids);
    Arc::new(ForeachSink::rows(move |row| {
        let id = row.i64("id")?.unwrap_or_default();
        println!("  {what}: {id}");
        let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.push(id);
        Ok(())
    }))
}

fn sorted(ids: &Ids) -> Vec<i64> {
    let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ids.sort_unstable();
    ids
}

fn topology(stream: &MemoryStream, first: &Ids, late: &Ids) -> Result<Topology> {
    let mut builder = Topology::builder();
    let events = builder.source("events", stream.source());
    let timed = builder.operator("watermark", [events], watermark("ts", DELAY_MS));
    // Each id once; it is remembered for as long as a duplicate of it would not be late.
    let each_once = Dedup {
        keys: vec![1],
        time: Some(0),
        forget: Forget::After {
            micros: DELAY_MS * 1_000,
        },
    };
    let each_once = dedup(&builder.schema(timed), each_once)?;
    let unique = builder.operator("unique", [timed.key_by(["id"])], each_once);
    let late_rows = builder.late_output(unique);
    builder.sink("first", unique, sink("first of its id", first));
    builder.sink("late", late_rows, sink("late", late));
    builder.build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (first, late) = (Ids::default(), Ids::default());
    let stream = MemoryStream::new(weir::types::parse_schema("ts TIMESTAMP, id BIGINT")?);
    let config = QueryConfig {
        checkpoint: Some("memory://late-rows".to_owned()),
        parallelism: 2,
        ..QueryConfig::default()
    };
    let topology = topology(&stream, &first, &late)?;
    println!("{}", topology.explain());
    let query = weir::runtime::StreamingQuery::start(topology, config).await?;
    for (what, rows) in [
        (
            "two events, one of them twice",
            &[(1, 7), (2, 8), (1, 7)][..],
        ),
        ("the watermark moves to 15 s", &[(20, 9)]),
        ("from now on 15 s is late", &[(21, 10)]),
        (
            "two late events, one in time",
            &[(3, 7), (14, 11), (17, 12)],
        ),
    ] {
        println!("{what}:");
        stream.add_columns(events(rows))?;
        query.process_all_available().await?;
    }
    query.stop().await;
    assert_eq!(sorted(&first), [7, 8, 9, 10, 12]);
    assert_eq!(sorted(&late), [7, 11]);
    Ok(())
}
