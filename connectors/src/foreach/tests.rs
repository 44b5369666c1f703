//! The foreach sink by direct calls: order of calls, errors, panics, generations; and rows.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Int8Array, Int64Array,
    NullArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::common::ScalarValue;
use weir_runtime::{Delivery, Epoch, Fault, OutputMode, RowKind, Sink, WeirError};

use super::*;
use crate::test_context::{Generation, changes, rows, sink_context};

type Log = Arc<Mutex<Vec<String>>>;

/// Notes every call; fails or panics at chosen values.
struct Noting {
    partition: usize,
    log: Log,
}

impl Noting {
    fn note(&self, what: String) {
        self.log
            .lock()
            .unwrap()
            .push(format!("{} {what}", self.partition));
    }
}

impl ForeachWriter for Noting {
    fn open(&mut self, partition_id: usize, epoch: Epoch) -> weir_runtime::Result<bool> {
        assert_eq!(partition_id, self.partition);
        self.note(format!("open {epoch}"));
        Ok(epoch != Epoch(9))
    }

    fn process(&mut self, row: RowRef<'_>) -> weir_runtime::Result<()> {
        let value = row.i64("v")?.unwrap();
        self.note(format!("row {value}"));
        match value {
            13 => Err(WeirError::data("unlucky")),
            14 => panic!("very unlucky"),
            15 => {
                std::thread::sleep(Duration::from_millis(150));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, error: Option<&WeirError>) {
        self.note(format!(
            "close {}",
            error.map_or("well".to_owned(), |e| format!("{:?}", e.fault()))
        ));
    }
}

fn noting() -> (ForeachSink, Log) {
    let log = Log::default();
    let writers = Arc::clone(&log);
    let sink = ForeachSink::new(move |partition| {
        Ok(Noting {
            partition,
            log: Arc::clone(&writers),
        })
    });
    (sink, log)
}

async fn generation(sink: &ForeachSink, number: u64) -> Generation {
    let mut context = sink_context(1, number, OutputMode::Append, None);
    context.parallelism = 1;
    Generation::open(sink, &context).await.unwrap()
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

#[tokio::test]
async fn foreach_opens_processes_and_closes_every_epoch_also_an_empty_one() {
    let (sink, log) = noting();
    let mut generation = generation(&sink, 1).await;
    let epoch = vec![
        (0, rows(0, 0, 0, &[1, 2])),
        (0, rows(0, 0, 1, &[])),
        (0, rows(0, 0, 2, &[3])),
    ];
    generation.epoch(0, epoch).await.unwrap();
    assert_eq!(
        taken(&log),
        ["0 open 0", "0 row 1", "0 row 2", "0 row 3", "0 close well"]
    );
    generation.epoch(1, vec![]).await.unwrap();
    assert_eq!(taken(&log), ["0 open 1", "0 close well"]);
}

#[tokio::test]
async fn foreach_open_that_answers_false_skips_the_rows_and_still_closes() {
    let (sink, log) = noting();
    let mut generation = generation(&sink, 1).await;
    generation
        .epoch(9, vec![(0, rows(9, 0, 0, &[1, 2]))])
        .await
        .unwrap();
    assert_eq!(taken(&log), ["0 open 9", "0 close well"]);
}

#[tokio::test]
async fn foreach_process_that_fails_or_panics_is_closed_with_the_error() {
    let (sink, log) = noting();
    let mut first = generation(&sink, 1).await;
    let error = first
        .write(0, rows(4, 0, 0, &[1, 13, 2]))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "unlucky at epoch 4, partition 0");
    assert_eq!(
        taken(&log),
        ["0 open 4", "0 row 1", "0 row 13", "0 close Data"]
    );
    drop(first);
    let mut second = generation(&sink, 2).await;
    let error = second.write(0, rows(4, 0, 0, &[14])).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Internal);
    assert_eq!(
        error.message(),
        "panic in 'process' of a foreach writer: very unlucky"
    );
    assert_eq!(taken(&log), ["0 open 4", "0 row 14", "0 close Internal"]);
}

#[tokio::test]
async fn foreach_generation_that_is_stopped_closes_before_the_next_one_opens() {
    let (sink, log) = noting();
    let mut first = generation(&sink, 1).await;
    // The task is stopped while the user's code runs.
    let busy = first.write(0, rows(0, 0, 0, &[15]));
    assert!(
        tokio::time::timeout(Duration::from_millis(50), busy)
            .await
            .is_err()
    );
    drop(first);
    let mut second = generation(&sink, 2).await;
    second
        .epoch(0, vec![(0, rows(0, 0, 0, &[15]))])
        .await
        .unwrap();
    let expected = [
        "0 open 0",
        "0 row 15",
        "0 close Killed",
        "0 open 0",
        "0 row 15",
        "0 close well",
    ];
    assert_eq!(taken(&log), expected);
}

#[tokio::test]
async fn foreach_closure_gets_every_row_of_every_partition() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rows_seen = Arc::clone(&seen);
    let sink = ForeachSink::rows(move |row| {
        rows_seen.lock().unwrap().push((row.i64("v")?, row.kind()));
        Ok(())
    });
    let context = sink_context(1, 1, OutputMode::Update, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    let epoch = vec![(0, rows(0, 0, 0, &[1])), (1, changes(0, &[2], &[2]))];
    generation.epoch(0, epoch).await.unwrap();
    let expected = [(Some(1), RowKind::Insert), (Some(2), RowKind::UpdateAfter)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(sink.needs_checkpoint() && sink.supports(OutputMode::Complete));
    assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
}

#[test]
fn row_getters_give_values_nulls_and_clear_errors() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("tiny", Arc::new(Int8Array::from(vec![Some(-3), None]))),
        ("big", Arc::new(Int64Array::from(vec![Some(1 << 40), None]))),
        ("real", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ("text", Arc::new(StringArray::from(vec![Some("x"), None]))),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![Some(b"ab".as_slice()), None])),
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(7), None]))),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(9), None]).with_timezone("UTC")),
        ),
        ("nothing", Arc::new(NullArray::new(2))),
    ];
    let nullable = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
    let row = RowRef::new(&batch, 0, RowKind::Insert);
    assert_eq!(row.bool("flag").unwrap(), Some(true));
    assert_eq!(
        (row.i32("tiny").unwrap(), row.i64("tiny").unwrap()),
        (Some(-3), Some(-3))
    );
    assert_eq!(row.i64("big").unwrap(), Some(1 << 40));
    assert_eq!(row.f64("real").unwrap(), Some(0.5));
    assert_eq!(
        (row.str("text").unwrap(), row.binary("bytes").unwrap()),
        (Some("x"), Some(b"ab".as_slice()))
    );
    assert_eq!(
        (
            row.date_days("day").unwrap(),
            row.timestamp_micros("ts").unwrap()
        ),
        (Some(7), Some(9))
    );
    assert_eq!(row.value("text").unwrap(), ScalarValue::from("x"));
    assert_eq!(row.str("nothing").unwrap(), None);
    let null = RowRef::new(&batch, 1, RowKind::Insert);
    assert!(null.is_null("big").unwrap());
    assert_eq!(
        (null.i64("big").unwrap(), null.str("text").unwrap()),
        (None, None)
    );
    let unknown = row.i64("bog").unwrap_err();
    assert!(
        unknown
            .message()
            .starts_with("there is no column 'bog', columns of the row: flag, tiny,")
    );
    let wrong = row.i32("big").unwrap_err();
    assert_eq!(
        wrong.message(),
        "column 'big' has the type Int64, wanted: an integer of at most 32 bits"
    );
}
