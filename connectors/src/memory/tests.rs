//! Memory stream, source, sink and table, by direct calls.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use serde_json::json;
use weir_runtime::{
    Admission, CommitOutcome, Delivery, Epoch, Fault, ManualClock, OutputMode, Sink, Source,
    WakeHandle,
};

use super::*;
use crate::test_context::{
    Generation, changes, checkpoint, numbers, numbers_schema, read, rows, sink_context,
    source_context, values,
};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(0))
}

async fn opened(
    stream: &MemoryStream,
    committed: Option<u64>,
) -> weir_runtime::Result<MemorySource> {
    let mut source = stream.source();
    let committed = committed.map(|offset| json!(offset));
    source
        .open(source_context(&checkpoint(), &clock(), committed))
        .await?;
    Ok(source)
}

#[tokio::test]
async fn memory_source_reads_ranges_of_batches_again_and_again() {
    let stream = MemoryStream::new(numbers_schema());
    let mut source = opened(&stream, None).await.unwrap();
    assert_eq!(source.latest(None, Admission::Limited).await.unwrap(), None);
    assert_eq!(stream.add(numbers(&[1, 2, 3])).unwrap(), 1);
    assert_eq!(stream.add(numbers(&[])).unwrap(), 2);
    assert_eq!(stream.add(numbers(&[4])).unwrap(), 3);
    let end = source
        .latest(None, Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(end, json!(3));
    let mut reader = source.reader(0).unwrap();
    for _ in 0..2 {
        let splits = source.splits(Epoch(0), None, &end).await.unwrap();
        assert_eq!(splits.len(), 1);
        let batches = read(reader.as_mut(), &splits, 2);
        assert!(batches.iter().all(|batch| batch.num_rows() <= 2));
        assert_eq!(values(&batches), [1, 2, 3, 4]);
    }
    assert_eq!(
        source.latest(Some(&end), Admission::Limited).await.unwrap(),
        Some(end)
    );
}

#[tokio::test]
async fn memory_source_cuts_an_epoch_into_runs_of_neighbours() {
    let stream = MemoryStream::new(numbers_schema());
    for value in 0..5 {
        stream.add(numbers(&[value])).unwrap();
    }
    let mut source = stream.source().parallelism(2);
    source
        .open(source_context(&checkpoint(), &clock(), None))
        .await
        .unwrap();
    let splits = source.splits(Epoch(0), None, &json!(5)).await.unwrap();
    assert_eq!((source.max_parallelism(), splits.len()), (Some(2), 2));
    assert_eq!((splits[0].weight, splits[1].weight), (3, 2));
    let mut reader = source.reader(1).unwrap();
    assert_eq!(values(&read(reader.as_mut(), &splits[1..], 10)), [3, 4]);
}

#[tokio::test]
async fn memory_source_limits_hold_unless_everything_is_admitted() {
    let stream = MemoryStream::new(numbers_schema());
    for size in [3, 1, 1, 9] {
        stream.add(numbers(&vec![0; size])).unwrap();
    }
    let mut by_batches = stream.source().max_batches_per_trigger(2);
    let mut by_rows = stream.source().max_rows_per_trigger(4);
    for source in [&mut by_batches, &mut by_rows] {
        source
            .open(source_context(&checkpoint(), &clock(), None))
            .await
            .unwrap();
        assert_eq!(
            source.latest(None, Admission::Limited).await.unwrap(),
            Some(json!(2))
        );
        assert_eq!(
            source.latest(None, Admission::Everything).await.unwrap(),
            Some(json!(4))
        );
    }
    // An oversize batch is taken alone.
    let next = by_rows
        .latest(Some(&json!(3)), Admission::Limited)
        .await
        .unwrap();
    assert_eq!(next, Some(json!(4)));
}

#[tokio::test]
async fn memory_source_fixed_end_stays_and_backlog_counts_towards_it() {
    let stream = MemoryStream::new(numbers_schema());
    stream.add(numbers(&[1])).unwrap();
    let mut source = opened(&stream, None).await.unwrap();
    source.fix_end().await.unwrap();
    stream.add(numbers(&[2])).unwrap();
    source.fix_end().await.unwrap();
    assert_eq!(
        source.latest(None, Admission::Everything).await.unwrap(),
        Some(json!(1))
    );
    source.committed(Epoch(0), &json!(1)).await.unwrap();
    let backlog = source.backlog().unwrap();
    assert_eq!(
        (backlog.done, backlog.total, backlog.unit),
        (1, 1, "batches")
    );
    assert_eq!(source.newest(), Some(json!(1)));
}

#[tokio::test]
async fn memory_stream_drops_batches_once_every_source_has_committed_them() {
    let stream = MemoryStream::new(numbers_schema());
    let mut first = opened(&stream, None).await.unwrap();
    let mut second = opened(&stream, None).await.unwrap();
    for value in 0..3 {
        stream.add(numbers(&[value])).unwrap();
    }
    first.committed(Epoch(0), &json!(2)).await.unwrap();
    assert_eq!(stream.batches_held(), 3);
    second.committed(Epoch(0), &json!(1)).await.unwrap();
    assert_eq!(stream.batches_held(), 2);
    drop(second);
    first.committed(Epoch(1), &json!(3)).await.unwrap();
    assert_eq!((stream.batches_held(), stream.end_offset()), (0, 3));
}

#[tokio::test]
async fn memory_source_restarted_replays_what_was_not_committed() {
    let stream = MemoryStream::new(numbers_schema());
    let mut source = opened(&stream, None).await.unwrap();
    for value in 0..3 {
        stream.add(numbers(&[value])).unwrap();
    }
    source.committed(Epoch(0), &json!(1)).await.unwrap();
    drop(source);
    let mut source = opened(&stream, Some(1)).await.unwrap();
    let splits = source
        .splits(Epoch(1), Some(&json!(1)), &json!(3))
        .await
        .unwrap();
    let mut reader = source.reader(0).unwrap();
    assert_eq!(values(&read(reader.as_mut(), &splits, 10)), [1, 2]);
}

#[tokio::test]
async fn memory_source_asked_for_what_is_not_there_names_the_offsets() {
    let stream = MemoryStream::new(numbers_schema());
    stream.add(numbers(&[1])).unwrap();
    let mut source = opened(&stream, None).await.unwrap();
    source.committed(Epoch(0), &json!(1)).await.unwrap();
    let dropped = opened(&stream, None).await.err().unwrap();
    assert_eq!(dropped.fault(), Fault::Checkpoint);
    assert_eq!(
        dropped.message(),
        "the memory stream cannot read from offset 0 to 1: it holds the batches from offset 1 to 1, those before are committed and dropped"
    );
    let never = opened(&stream, Some(7)).await.err().unwrap();
    assert!(never.message().contains("from offset 7 to 7"), "{never}");
    assert!(
        never
            .message()
            .ends_with("later ones were never added in this process"),
        "{never}"
    );
    let foreign = source
        .splits(Epoch(0), Some(&json!({"logOffset": 1})), &json!(1))
        .await;
    assert_eq!(foreign.unwrap_err().fault(), Fault::Checkpoint);
}

#[tokio::test]
async fn memory_stream_wakes_the_query_of_the_newest_generation() {
    let stream = MemoryStream::new(numbers_schema());
    let mut source = stream.source();
    let woken = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    for generation in 0..2 {
        let mut context = source_context(&checkpoint(), &clock(), None);
        let counts = Arc::clone(&woken);
        context.wake = WakeHandle::new(move || {
            counts[generation].fetch_add(1, Ordering::SeqCst);
        });
        source.open(context).await.unwrap();
        stream.add(numbers(&[1])).unwrap();
    }
    assert_eq!(
        woken.each_ref().map(|count| count.load(Ordering::SeqCst)),
        [1, 1]
    );
}

#[test]
fn memory_stream_takes_rows_of_values_and_refuses_what_does_not_fit() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]));
    let stream = MemoryStream::new(Arc::clone(&schema));
    let rows = [
        vec![ScalarValue::from(1_i64), ScalarValue::from("a")],
        vec![ScalarValue::from(2_i64), ScalarValue::Utf8(None)],
    ];
    assert_eq!(stream.add_rows(rows).unwrap(), 1);
    assert_eq!(stream.add_rows([]).unwrap(), 2);
    let short = stream
        .add_rows([vec![ScalarValue::from(1_i64)]])
        .unwrap_err();
    assert_eq!(
        short.message(),
        "row 0 has 1 values, the memory stream has 2 columns"
    );
    let wrong = [vec![ScalarValue::from("1"), ScalarValue::from("a")]];
    assert_eq!(stream.add_rows(wrong).unwrap_err().fault(), Fault::Data);
    let null = [vec![ScalarValue::Int64(None), ScalarValue::from("a")]];
    assert!(stream.add_rows(null).unwrap_err().message().contains("id"));
    assert_eq!(stream.end_offset(), 2);
    // Same columns, another nullability: taken over.
    let loose = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, false),
    ]));
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["x"])),
    ];
    assert_eq!(
        stream
            .add(RecordBatch::try_new(loose, columns).unwrap())
            .unwrap(),
        3
    );
}

#[tokio::test]
async fn memory_sink_append_shows_committed_epochs_in_order_of_origin() {
    let sink = MemorySink::new();
    let context = sink_context(1, 1, OutputMode::Append, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    generation.write(1, rows(0, 0, 0, &[1])).await.unwrap();
    assert_eq!(
        sink.table().num_rows(),
        0,
        "nothing is visible before the commit"
    );
    generation
        .epoch(0, vec![(0, rows(0, 1, 0, &[2]))])
        .await
        .unwrap();
    generation.epoch(1, vec![]).await.unwrap();
    generation
        .epoch(2, vec![(0, rows(2, 0, 0, &[3]))])
        .await
        .unwrap();
    let table = sink.table();
    assert_eq!(values(&table.batches()), [1, 2, 3]);
    assert_eq!(
        table
            .epochs()
            .iter()
            .map(|(epoch, _)| epoch.0)
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(
        (table.schema(), table.committed_epoch()),
        (numbers_schema(), Some(Epoch(2)))
    );
    assert_eq!(sink.delivery(), Delivery::ExactlyOnce);
    assert!(!sink.needs_checkpoint());
}

#[tokio::test]
async fn memory_sink_replayed_epoch_is_discarded_also_by_a_new_sink_of_the_table() {
    let sink = MemorySink::new();
    let context = sink_context(1, 1, OutputMode::Append, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    generation
        .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
        .await
        .unwrap();
    // Crash before the manifest: the next generation replays epoch 0.
    let context = sink_context(1, 2, OutputMode::Append, None);
    let mut generation = Generation::open(&sink.clone(), &context).await.unwrap();
    let outcome = generation
        .epoch(0, vec![(1, rows(0, 0, 0, &[1]))])
        .await
        .unwrap();
    assert_eq!(outcome, CommitOutcome::AlreadyCommitted);
    assert_eq!(values(&sink.table().batches()), [1]);
}

#[tokio::test]
async fn memory_sink_update_appends_and_complete_replaces() {
    let sink = MemorySink::new();
    let context = sink_context(1, 1, OutputMode::Update, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    generation
        .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
        .await
        .unwrap();
    generation
        .epoch(1, vec![(0, changes(1, &[1, 2, 9], &[1, 2, 3]))])
        .await
        .unwrap();
    assert_eq!(values(&sink.table().batches()), [1, 2]);
    assert_eq!(sink.table().changes()[1].1[0].num_rows(), 3);

    let sink = MemorySink::new();
    let context = sink_context(1, 1, OutputMode::Complete, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    generation
        .epoch(0, vec![(0, rows(0, 0, 0, &[1, 2]))])
        .await
        .unwrap();
    generation
        .epoch(1, vec![(0, rows(1, 0, 0, &[3]))])
        .await
        .unwrap();
    assert_eq!(values(&sink.table().batches()), [3]);
}

#[tokio::test]
async fn memory_sink_refuses_a_checkpoint_it_does_not_hold_and_a_second_query() {
    let append = sink_context(1, 2, OutputMode::Append, Some(4));
    let error = Generation::open(&MemorySink::new(), &append)
        .await
        .err()
        .unwrap();
    assert_eq!(error.fault(), Fault::Plan);
    assert!(
        error
            .message()
            .contains("does not support recovering from checkpoint location")
    );
    let complete = sink_context(1, 2, OutputMode::Complete, Some(4));
    let sink = MemorySink::new();
    Generation::open(&sink, &complete).await.unwrap();
    let other = sink_context(2, 1, OutputMode::Complete, None);
    assert_eq!(
        Generation::open(&sink, &other).await.err().unwrap().fault(),
        Fault::Config
    );
}
