//! The foreachBatch sink by direct calls.

#![allow(clippy::unwrap_used)]

use std::error::Error as _;
use std::sync::Mutex;

use weir_runtime::CommitOutcome;

use super::*;
use crate::test_context::{
    Generation, changes, keyed_context, numbers_schema, rows, sink_context, values,
};

type Calls = Arc<Mutex<Vec<(u64, Vec<i64>)>>>;

fn noting(calls: &Calls) -> ForeachBatchSink {
    let calls = Arc::clone(calls);
    ForeachBatchSink::new(move |rows, epoch| {
        calls.lock().unwrap().push((epoch.0, values(&rows.batches)));
        async { Ok(()) }
    })
}

async fn generation(sink: &ForeachBatchSink, number: u64) -> Generation {
    let context = sink_context(1, number, OutputMode::Append, None);
    Generation::open(sink, &context).await.unwrap()
}

#[tokio::test]
async fn foreach_batch_gets_each_epoch_once_in_order_of_origin() {
    let calls = Calls::default();
    let sink = noting(&calls);
    let mut generation = generation(&sink, 1).await;
    let epoch = vec![
        (0, rows(0, 2, 0, &[4])),
        (1, rows(0, 0, 1, &[3])),
        (1, rows(0, 0, 0, &[1, 2])),
    ];
    assert_eq!(
        generation.epoch(0, epoch).await.unwrap(),
        CommitOutcome::Committed
    );
    generation.epoch(1, vec![]).await.unwrap();
    assert_eq!(*calls.lock().unwrap(), [(0, vec![1, 2, 3, 4]), (1, vec![])]);
    assert!(
        sink.needs_checkpoint(),
        "a restart without a checkpoint would number epochs anew"
    );
    assert_eq!(sink.delivery(), Delivery::UserDefined);
}

#[tokio::test]
async fn foreach_batch_replayed_gets_the_same_rows_whatever_the_subtasks() {
    let calls = Calls::default();
    let batches = || {
        [
            rows(0, 0, 0, &[1]),
            rows(0, 0, 1, &[2]),
            rows(0, 1, 0, &[3]),
        ]
    };
    for order in [[0, 1, 2], [2, 1, 0]] {
        // Each time another process: a sink that knows of no epoch.
        let mut generation = generation(&noting(&calls), 1).await;
        for index in order {
            generation
                .write(index % 2, batches()[index].clone())
                .await
                .unwrap();
        }
        generation.finish(0).await.unwrap();
    }
    assert_eq!(
        *calls.lock().unwrap(),
        [(0, vec![1, 2, 3]), (0, vec![1, 2, 3])]
    );
}

#[tokio::test]
async fn foreach_batch_replayed_in_the_same_process_is_not_called_again() {
    let calls = Calls::default();
    let sink = noting(&calls);
    generation(&sink, 1)
        .await
        .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
        .await
        .unwrap();
    let outcome = generation(&sink, 2)
        .await
        .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
        .await;
    assert_eq!(outcome.unwrap(), CommitOutcome::AlreadyCommitted);
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn foreach_batch_hands_over_schema_and_kinds() {
    let seen = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&seen);
    let sink = ForeachBatchSink::new(move |rows, _| {
        *slot.lock().unwrap() = Some(rows);
        async { Ok(()) }
    });
    let mut generation = Generation::open(&sink, &keyed_context(1)).await.unwrap();
    generation
        .epoch(0, vec![(0, changes(0, &[1, 2], &[1, 2]))])
        .await
        .unwrap();
    let rows: EpochRows = seen.lock().unwrap().take().unwrap();
    assert_eq!(
        (rows.num_rows(), rows.schema.clone()),
        (2, numbers_schema())
    );
    assert_eq!(rows.kinds[0].as_ref().unwrap().values(), &[1, 2]);
    assert_eq!(rows.key_columns, ["v"]);
    assert_eq!(values(&rows.current().unwrap()), [2]);
}

#[tokio::test]
async fn foreach_batch_error_of_the_user_names_epoch_and_condition_and_is_tried_again() {
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let sink = ForeachBatchSink::new(move |_, _| {
        let mut calls = counted.lock().unwrap();
        *calls += 1;
        let first = *calls == 1;
        async move {
            if first {
                Err(WeirError::external("no route"))
            } else {
                Ok(())
            }
        }
    });
    let epoch = || vec![(0, rows(3, 0, 0, &[1]))];
    let error = generation(&sink, 1)
        .await
        .epoch(3, epoch())
        .await
        .unwrap_err();
    assert_eq!(
        (error.fault(), error.condition()),
        (Fault::Data, Some(CONDITION))
    );
    assert_eq!(
        error.message(),
        "the function of foreachBatch failed in epoch 3: no route"
    );
    assert_eq!(error.source().unwrap().to_string(), "no route");
    let outcome = generation(&sink, 2).await.epoch(3, epoch()).await.unwrap();
    assert_eq!(
        (outcome, *calls.lock().unwrap()),
        (CommitOutcome::Committed, 2)
    );
}

#[tokio::test]
async fn foreach_batch_panic_of_the_user_is_an_error() {
    let early = ForeachBatchSink::new(|rows, _| {
        assert!(rows.num_rows() > 1, "too few rows");
        async { Ok(()) }
    });
    let late = ForeachBatchSink::new(|rows, _| async move {
        assert!(rows.num_rows() > 1, "too few rows");
        Ok(())
    });
    for sink in [early, late] {
        let error = generation(&sink, 1)
            .await
            .epoch(0, vec![])
            .await
            .unwrap_err();
        assert_eq!(
            (error.fault(), error.condition()),
            (Fault::Data, Some(CONDITION))
        );
        let message = "the function of foreachBatch panicked in epoch 0: too few rows";
        assert_eq!(error.message(), message);
    }
}
