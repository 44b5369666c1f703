//! The actor source and sink by direct calls, and over real actors.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use serde_json::json;
use weir_runtime::{
    Admission, CommitOutcome, Delivery, Epoch, Fault, ManualClock, Offset, OutputMode, Sink,
    Source, WeirError,
};

use super::*;
use crate::test_context::{
    Generation, checkpoint, numbers, numbers_schema, read, rows, sink_context, source_context,
    values,
};

async fn open(source: &mut ActorSource, committed: Option<Offset>) {
    let clock = Arc::new(ManualClock::new(0));
    source
        .open(source_context(&checkpoint(), &clock, committed))
        .await
        .unwrap();
}

async fn next(source: &mut ActorSource, start: Option<&Offset>) -> Offset {
    source
        .latest(start, Admission::Limited)
        .await
        .unwrap()
        .unwrap()
}

async fn rows_of(source: &mut ActorSource, start: Option<&Offset>, end: &Offset) -> Vec<i64> {
    let splits = source.splits(Epoch(0), start, end).await.unwrap();
    let mut reader = source.reader(0).unwrap();
    values(&read(reader.as_mut(), &splits, 2))
}

#[tokio::test]
async fn actor_source_full_makes_senders_wait_until_rows_are_committed() {
    let (handle, mut source) = channel(numbers_schema(), 3);
    open(&mut source, None).await;
    handle.send(numbers(&[1, 2])).await.unwrap();
    handle.try_send(numbers(&[3])).unwrap();
    let Err(TrySendError::Full {
        batch,
        capacity_rows,
    }) = handle.try_send(numbers(&[]))
    else {
        panic!("even a batch without rows needs room");
    };
    assert_eq!(
        (batch.num_rows(), capacity_rows, handle.rows_waiting()),
        (0, 3, 3)
    );
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.send(numbers(&[4, 5, 6, 7, 8])).await }
    });
    tokio::task::yield_now().await;
    let end = next(&mut source, None).await;
    assert_eq!(rows_of(&mut source, None, &end).await, [1, 2, 3]);
    assert!(!waiting.is_finished());
    source.committed(Epoch(0), &end).await.unwrap();
    waiting.await.unwrap().unwrap();
    let second = next(&mut source, Some(&end)).await;
    assert_eq!(
        rows_of(&mut source, Some(&end), &second).await,
        [4, 5, 6, 7, 8]
    );
    assert_eq!(
        handle.rows_waiting(),
        5,
        "an oversize batch is admitted alone"
    );
}

#[tokio::test]
async fn actor_source_next_generation_replays_what_was_not_committed() {
    let (handle, mut source) = channel(numbers_schema(), 100);
    open(&mut source, None).await;
    handle.send(numbers(&[1])).await.unwrap();
    let first = next(&mut source, None).await;
    handle.send(numbers(&[2])).await.unwrap();
    let second = next(&mut source, Some(&first)).await;
    source.committed(Epoch(0), &first).await.unwrap();
    open(&mut source, Some(first.clone())).await;
    assert_eq!(rows_of(&mut source, Some(&first), &second).await, [2]);
    assert_eq!(
        source
            .latest(Some(&second), Admission::Limited)
            .await
            .unwrap(),
        Some(second)
    );
}

#[tokio::test]
async fn actor_source_of_a_new_process_goes_on_and_replays_lost_rows_as_none() {
    let (old, mut source) = channel(numbers_schema(), 100);
    open(&mut source, None).await;
    old.send(numbers(&[1])).await.unwrap();
    let committed = next(&mut source, None).await;
    old.send(numbers(&[2])).await.unwrap();
    let planned = next(&mut source, Some(&committed)).await;
    drop(source);

    let (new, mut source) = channel(numbers_schema(), 100);
    new.send(numbers(&[3])).await.unwrap();
    open(&mut source, Some(committed.clone())).await;
    assert!(
        rows_of(&mut source, Some(&committed), &planned)
            .await
            .is_empty()
    );
    source.committed(Epoch(1), &planned).await.unwrap();
    let end = next(&mut source, Some(&planned)).await;
    assert_eq!(rows_of(&mut source, Some(&planned), &end).await, [3]);
    let foreign = source
        .latest(Some(&json!(3)), Admission::Limited)
        .await
        .unwrap_err();
    assert_eq!(foreign.fault(), Fault::Checkpoint);
}

#[tokio::test]
async fn actor_handle_closed_or_without_query_refuses() {
    let (handle, mut source) = channel(numbers_schema(), 1);
    open(&mut source, None).await;
    handle.send(numbers(&[1])).await.unwrap();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.send(numbers(&[2])).await }
    });
    tokio::task::yield_now().await;
    handle.close();
    assert_eq!(waiting.await.unwrap().unwrap_err().fault(), Fault::Config);
    assert!(matches!(
        handle.try_send(numbers(&[3])),
        Err(TrySendError::Refused(_))
    ));
    let end = next(&mut source, None).await;
    assert_eq!(
        rows_of(&mut source, None, &end).await,
        [1],
        "what was accepted is still read"
    );

    let (handle, source) = channel(numbers_schema(), 1);
    drop(source);
    assert!(handle.is_closed() && handle.send(numbers(&[1])).await.is_err());
}

#[tokio::test]
async fn actor_handle_refuses_other_columns() {
    let (handle, _source) = channel(numbers_schema(), 1);
    let other = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let error = handle.send(other).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Data);
    assert!(
        error.message().contains("does not fit the actor source"),
        "{error}"
    );
}

#[actix::test]
async fn feed_actor_answers_when_the_query_has_accepted() {
    let (handle, mut source) = channel(numbers_schema(), 2);
    open(&mut source, None).await;
    let address = FeedActor::new(handle.clone()).start();
    address
        .send(SendBatch(numbers(&[1, 2])))
        .await
        .unwrap()
        .unwrap();
    let third = address.send(SendBatch(numbers(&[3])));
    let fourth = address.send(SendBatch(numbers(&[4])));
    let mut both = Box::pin(async move { (third.await, fourth.await) });
    assert!(
        tokio::time::timeout(Duration::from_millis(30), &mut both)
            .await
            .is_err()
    );
    let end = next(&mut source, None).await;
    source.committed(Epoch(0), &end).await.unwrap();
    let (third, fourth) = both.await;
    third.unwrap().unwrap();
    fourth.unwrap().unwrap();
    let second = next(&mut source, Some(&end)).await;
    assert_eq!(rows_of(&mut source, Some(&end), &second).await, [3, 4]);
    handle.close();
    assert!(
        address
            .send(SendBatch(numbers(&[5])))
            .await
            .unwrap()
            .is_err()
    );
}

type Deliveries = Arc<Mutex<Vec<(u64, Vec<i64>)>>>;

struct Receiver {
    deliveries: Deliveries,
    fail_at: Option<u64>,
}

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<EpochDelivery> for Receiver {
    type Result = ResponseFuture<Result<(), WeirError>>;

    fn handle(&mut self, delivery: EpochDelivery, context: &mut Self::Context) -> Self::Result {
        let epoch = delivery.epoch.0;
        if self.fail_at == Some(epoch) {
            context.stop();
            return Box::pin(async { Err(WeirError::external("no more")) });
        }
        let deliveries = Arc::clone(&self.deliveries);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            deliveries
                .lock()
                .unwrap()
                .push((epoch, values(&delivery.batches)));
            Ok(())
        })
    }
}

#[actix::test]
async fn recipient_sink_delivers_whole_epochs_and_waits_for_the_answer() {
    let deliveries = Deliveries::default();
    let receiver = Receiver {
        deliveries: Arc::clone(&deliveries),
        fail_at: Some(2),
    }
    .start();
    let sink = RecipientSink::new(receiver.recipient());
    let context = sink_context(1, 1, OutputMode::Append, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    let epoch = vec![(0, rows(0, 1, 0, &[2])), (1, rows(0, 0, 0, &[1]))];
    let outcome = generation.epoch(0, epoch).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Committed);
    assert_eq!(*deliveries.lock().unwrap(), [(0, vec![1, 2])]);
    generation.epoch(1, vec![]).await.unwrap();
    assert_eq!(deliveries.lock().unwrap().last(), Some(&(1, vec![])));
    // The same process replays an epoch that was answered: not delivered again.
    let context = sink_context(1, 2, OutputMode::Append, Some(0));
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    let outcome = generation.epoch(1, vec![]).await.unwrap();
    assert_eq!(outcome, CommitOutcome::AlreadyCommitted);
    let refused = generation.epoch(2, vec![]).await.unwrap_err();
    assert_eq!(refused.message(), "no more");
    let gone = generation.epoch(3, vec![]).await.unwrap_err();
    assert_eq!(gone.fault(), Fault::Config);
    assert_eq!(
        gone.message(),
        "epoch 3 cannot be delivered: the receiving actor is gone"
    );
    assert_eq!(deliveries.lock().unwrap().len(), 2);
    assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
}
