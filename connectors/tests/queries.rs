//! Connectors under the engine: crash at every place, restart, and compare; feed and receive with actors; a source on a clock
//! moved by hand.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use weir_connectors::actor::{EpochDelivery, FeedActor, RecipientSink, SendBatch, channel};
use weir_connectors::foreach::ForeachSink;
use weir_connectors::foreach_batch::ForeachBatchSink;
use weir_connectors::memory::{MemorySink, MemoryStream};
use weir_connectors::noop::NoopSink;
use weir_connectors::rate::{RateMicroBatchSource, RateSource};
use weir_runtime::*;

/// Rows by epoch, in the order they were handed over.
type Epochs = Arc<Mutex<BTreeMap<u64, Vec<Vec<i64>>>>>;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]))
}

fn numbers(values: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![Arc::new(Int64Array::from_iter_values(values))],
    )
    .unwrap()
}

fn values(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Int64Type>());
    columns
        .flat_map(|column| column.values().to_vec())
        .collect()
}

fn stream() -> MemoryStream {
    let stream = MemoryStream::new(schema());
    for start in [0, 10, 20, 20, 30] {
        let end = if start == 20 { 25 } else { start + 10 };
        stream.add(numbers(start..end)).unwrap();
    }
    stream
}

/// 0..10, 10..20 | 20..25, 20..25 | 30..40
fn expected() -> Vec<i64> {
    (0..25).chain(20..25).chain(30..40).collect()
}

fn config(checkpoint: &str, failpoints: Arc<FailPoints>) -> QueryConfig {
    QueryConfig {
        checkpoint: Some(checkpoint.to_owned()),
        parallelism: 2,
        trigger: Trigger::AvailableNow,
        failpoints,
        ..QueryConfig::default()
    }
}

fn checkpoint() -> String {
    format!("memory://{}", uuid::Uuid::new_v4())
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

fn run(source: impl Source + 'static, sink: Arc<dyn Sink>, config: QueryConfig) -> Result<()> {
    let mut builder = Topology::builder();
    let rows = builder.source("source", source);
    builder.sink("sink", rows, sink);
    let topology = builder.build()?;
    block_on(async {
        StreamingQuery::start(topology, config)
            .await?
            .await_termination()
            .await
    })
}

fn run_stream(
    stream: &MemoryStream,
    sink: Arc<dyn Sink>,
    checkpoint: &str,
    failpoints: Arc<FailPoints>,
) -> Result<()> {
    let source = stream.source().max_batches_per_trigger(2).parallelism(2);
    run(source, sink, config(checkpoint, failpoints))
}

/// Fault points of an undisturbed run into a sink.
fn places(sink: Arc<dyn Sink>) -> u64 {
    let counted = Arc::new(FailPoints::recording());
    run_stream(&stream(), sink, &checkpoint(), Arc::clone(&counted)).unwrap();
    assert!(counted.hits() > 30, "only {} fault points", counted.hits());
    counted.hits()
}

/// Goal: every row of a memory stream is in the memory table once, in order, wherever the query crashed.
/// Method: crash at each fault point, restart in the same process with the same stream and table.
#[test]
fn memory_to_memory_crash_at_every_place_loses_and_doubles_nothing() {
    for place in 0..places(Arc::new(MemorySink::new())) {
        let (stream, sink, checkpoint) = (stream(), MemorySink::new(), checkpoint());
        let crash = Arc::new(FailPoints::crash_at(place));
        let _crashed = run_stream(&stream, Arc::new(sink.clone()), &checkpoint, crash).is_err();
        run_stream(&stream, Arc::new(sink.clone()), &checkpoint, Arc::default())
            .unwrap_or_else(|error| panic!("crash at place {place}: {error}"));
        assert_eq!(
            values(&sink.table().batches()),
            expected(),
            "crash at place {place}"
        );
        assert_eq!(sink.table().epochs().len(), 3, "crash at place {place}");
        assert_eq!(stream.batches_held(), 0, "crash at place {place}");
    }
}

/// Goal: foreachBatch gets every epoch at least once, and each time with the same rows in the same order.
/// Method: crash at each fault point, restart with a sink that knows of no epoch, as another process would.
#[test]
fn foreach_batch_crash_at_every_place_replays_the_same_rows_in_the_same_order() {
    let sink = |epochs: &Epochs| {
        let epochs = Arc::clone(epochs);
        Arc::new(ForeachBatchSink::new(move |rows, epoch| {
            let mut epochs = epochs.lock().unwrap();
            epochs
                .entry(epoch.0)
                .or_default()
                .push(values(&rows.batches));
            async { Ok(()) }
        }))
    };
    let mut called_twice = 0;
    for place in 0..places(sink(&Epochs::default())) {
        let (stream, epochs, checkpoint) = (stream(), Epochs::default(), checkpoint());
        let crash = Arc::new(FailPoints::crash_at(place));
        let _crashed = run_stream(&stream, sink(&epochs), &checkpoint, crash).is_err();
        run_stream(&stream, sink(&epochs), &checkpoint, Arc::default()).unwrap();
        let epochs = epochs.lock().unwrap();
        let first: Vec<i64> = epochs.values().flat_map(|calls| calls[0].clone()).collect();
        assert_eq!(first, expected(), "crash at place {place}");
        for calls in epochs.values() {
            assert!(
                calls.iter().all(|call| *call == calls[0]),
                "crash at place {place}"
            );
            called_twice += usize::from(calls.len() > 1);
        }
    }
    assert!(
        called_twice > 0,
        "no crash between the function and the commit"
    );
}

/// Goal: foreach sees every row at least once. Method: as above, with a closure that notes rows.
#[test]
fn foreach_crash_at_every_place_loses_no_row() {
    let sink = |seen: &Arc<Mutex<Vec<i64>>>| {
        let seen = Arc::clone(seen);
        Arc::new(ForeachSink::rows(move |row| {
            seen.lock().unwrap().extend(row.i64("v")?);
            Ok(())
        }))
    };
    for place in 0..places(sink(&Arc::default())) {
        let (stream, seen, checkpoint) = (stream(), Arc::default(), checkpoint());
        let crash = Arc::new(FailPoints::crash_at(place));
        let _crashed = run_stream(&stream, sink(&seen), &checkpoint, crash).is_err();
        run_stream(&stream, sink(&seen), &checkpoint, Arc::default()).unwrap();
        let seen = seen.lock().unwrap();
        let missing: Vec<_> = expected()
            .into_iter()
            .filter(|row| !seen.contains(row))
            .collect();
        assert!(
            missing.is_empty(),
            "crash at place {place}: {missing:?} missing"
        );
    }
}

/// Goal: the rate source counts seconds of the query's clock from the start of its first run. Method: two runs over one
/// checkpoint, the clock moved in between.
#[test]
fn rate_goes_on_where_it_was_after_a_restart() {
    let (checkpoint, sink) = (checkpoint(), NoopSink::new());
    let clock = Arc::new(ManualClock::new(1_767_225_600_000));
    let mut rows = Vec::new();
    for seconds in [0, 3, 2, 0] {
        clock.advance(Duration::from_secs(seconds));
        let config = QueryConfig {
            clock: clock.clone(),
            ..config(&checkpoint, Arc::default())
        };
        run(RateSource::new(4), Arc::new(sink.clone()), config).unwrap();
        rows.push(sink.rows());
    }
    assert_eq!(rows, [0, 12, 20, 20]);
}

#[test]
fn rate_micro_batch_bounded_runs_take_one_epoch_each() {
    let (checkpoint, sink) = (checkpoint(), NoopSink::new());
    for run_number in 1..=3 {
        let config = config(&checkpoint, Arc::default());
        run(RateMicroBatchSource::new(5), Arc::new(sink.clone()), config).unwrap();
        assert_eq!(sink.rows(), 5 * run_number);
    }
}

struct Receiver(Epochs);

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<EpochDelivery> for Receiver {
    type Result = std::result::Result<(), WeirError>;

    fn handle(&mut self, delivery: EpochDelivery, _: &mut Self::Context) -> Self::Result {
        let mut epochs = self.0.lock().unwrap();
        epochs
            .entry(delivery.epoch.0)
            .or_default()
            .push(values(&delivery.batches));
        Ok(())
    }
}

/// Goal: an actor feeds a running query and another one gets the rows, in order, with far less room than rows.
#[actix::test]
async fn actors_feed_and_receive_through_a_query() {
    let epochs = Epochs::default();
    let receiver = Receiver(Arc::clone(&epochs)).start();
    let (handle, source) = channel(schema(), 64);
    let mut builder = Topology::builder();
    let rows = builder.source("source", source);
    builder.sink(
        "sink",
        rows,
        Arc::new(RecipientSink::new(receiver.recipient())),
    );
    let config = QueryConfig {
        trigger: Trigger::Default,
        ..config(&checkpoint(), Arc::default())
    };
    let query = StreamingQuery::start(builder.build().unwrap(), config)
        .await
        .unwrap();
    let feed = FeedActor::new(handle.clone()).start();
    for start in (0..2000).step_by(20) {
        feed.send(SendBatch(numbers(start..start + 20)))
            .await
            .unwrap()
            .unwrap();
        assert!(handle.rows_waiting() <= 64);
    }
    query.process_all_available().await.unwrap();
    assert_eq!(handle.rows_waiting(), 0);
    let received: Vec<i64> = epochs
        .lock()
        .unwrap()
        .values()
        .flatten()
        .flatten()
        .copied()
        .collect();
    assert_eq!(received, (0..2000).collect::<Vec<_>>());
    query.stop().await;
}
