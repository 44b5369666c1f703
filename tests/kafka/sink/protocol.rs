//! The transactions of an exactly-once sink, one by one: what is visible when, who may write, what the target remembers.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use weir::Fault;
use weir::connectors::kafka::sink::{DeliveryGuarantee, KafkaSink, KafkaSinkBuilder, LostMarker};
use weir::runtime::CommitOutcome::{AlreadyCommitted, Committed};
use weir::runtime::{Clock, SystemClock};

use super::driver::{Query, rows};
use super::servers;
use super::topics::{
    Isolation, committed_values, create, delete_group, read, values, values_so_far,
};
use crate::support::Kafka;

const DAY_MS: i64 = 24 * 3_600_000;

fn sink(topic: &str) -> KafkaSinkBuilder {
    KafkaSink::builder(servers()).topic(topic)
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_rows_of_all_subtasks_become_visible_at_the_commit_and_once() {
    let topic = create(servers(), "visible", 3, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    generation.write(0, 0, rows(&["a", "b"])).await.unwrap();
    generation.write(1, 0, rows(&["c"])).await.unwrap();
    generation.prepare(0).await.unwrap();
    let uncommitted = read(servers(), &topic, Isolation::Uncommitted);
    assert_eq!(values(&uncommitted), ["a", "b", "c"], "the broker has them");
    assert!(
        values_so_far(servers(), &topic).is_empty(),
        "nobody sees them"
    );
    assert_eq!(generation.commit(0).await.unwrap(), Committed);
    assert_eq!(generation.commit(0).await.unwrap(), AlreadyCommitted);
    assert_eq!(committed_values(servers(), &topic), ["a", "b", "c"]);
    assert_eq!(generation.epoch(1, &["d"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a", "b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_epoch_committed_before_the_manifest_is_not_written_again_by_another_process() {
    let topic = create(servers(), "window", 2, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    generation.epoch(0, &["a"]).await.unwrap();
    generation.epoch(1, &["b", "c"]).await.unwrap();
    drop(generation);
    query.committed = Some(0);
    query.unfinished(1);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    generation.write(0, 1, rows(&["b"])).await.unwrap();
    generation.write(1, 1, rows(&["c"])).await.unwrap();
    assert_eq!(generation.commit(1).await.unwrap(), AlreadyCommitted);
    assert_eq!(generation.epoch(2, &["d"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a", "b", "c", "d"]);
    let uncommitted = read(servers(), &topic, Isolation::Uncommitted);
    assert_eq!(uncommitted.len(), 4, "discarded rows were not even sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_epoch_that_was_not_committed_is_written_again() {
    let topic = create(servers(), "again", 2, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    generation.epoch(0, &["a"]).await.unwrap();
    generation.write(0, 1, rows(&["b"])).await.unwrap();
    generation.prepare(1).await.unwrap();
    drop(generation);
    query.committed = Some(0);
    query.unfinished(1);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(generation.epoch(1, &["b"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p120_epochs_without_rows_leave_no_trace_and_do_not_confuse_those_that_follow() {
    let topic = create(servers(), "empty", 1, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(generation.commit(0).await.unwrap(), Committed);
    assert_eq!(generation.epoch(1, &[]).await.unwrap(), Committed);
    assert_eq!(generation.epoch(2, &["a"]).await.unwrap(), Committed);
    assert_eq!(generation.commit(3).await.unwrap(), Committed);
    drop(generation);
    query.committed = Some(3);
    query.unfinished(4);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(generation.epoch(4, &["b"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_zombie_of_an_older_generation_is_fenced_and_its_rows_are_never_seen() {
    let topic = create(servers(), "zombie", 2, &[]);
    let mut query = Query::new();
    let mut zombie = query.open(sink(&topic)).await.unwrap();
    zombie.epoch(0, &["a"]).await.unwrap();
    zombie.write(0, 1, rows(&["zombie"])).await.unwrap();
    zombie.prepare(1).await.unwrap();
    query.committed = Some(0);
    query.unfinished(1);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    let error = zombie.commit(1).await.expect_err("fenced");
    assert_eq!(error.fault(), Fault::Conflict, "{error}");
    assert!(error.message().contains("another run"), "{error}");
    assert_eq!(generation.epoch(1, &["b"]).await.unwrap(), Committed);
    let error = match zombie.write(0, 2, rows(&["zombie"])).await {
        Ok(()) => zombie.commit(2).await.expect_err("still fenced"),
        Err(error) => error,
    };
    assert!(!error.is_retryable(), "{error:?}");
    assert_eq!(committed_values(servers(), &topic), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_zombie_between_begin_and_rows_is_fenced_too() {
    let topic = create(servers(), "zombie-late", 1, &[]);
    let mut query = Query::new();
    let mut zombie = query.open(sink(&topic)).await.unwrap();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    let outcome = match zombie.write(0, 0, rows(&["zombie"])).await {
        Ok(()) => zombie.commit(0).await.map(|_| ()),
        refused => refused,
    };
    let error = outcome.expect_err("fenced");
    assert_eq!(error.fault(), Fault::Conflict, "{error:?}");
    assert_eq!(generation.epoch(0, &["a"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_transaction_of_a_dead_generation_no_longer_holds_readers_back_after_the_next_start() {
    let topic = create(servers(), "dead", 1, &[]);
    let mut query = Query::new();
    let mut dead = query.open(sink(&topic)).await.unwrap();
    dead.write(0, 0, rows(&["dead"])).await.unwrap();
    dead.prepare(0).await.unwrap();
    // What another query writes behind the open transaction cannot be seen yet.
    let mut other = Query::new();
    let mut neighbour = other.open(sink(&topic)).await.unwrap();
    neighbour.epoch(0, &["neighbour"]).await.unwrap();
    assert!(values_so_far(servers(), &topic).is_empty());
    query.unfinished(0);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(committed_values(servers(), &topic), ["neighbour"]);
    generation.epoch(0, &["alive"]).await.unwrap();
    assert_eq!(committed_values(servers(), &topic), ["alive", "neighbour"]);
    drop(dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_of_a_generation_that_ends_is_given_up_at_once() {
    let topic = create(servers(), "given-up", 1, &[]);
    let mut query = Query::new();
    let mut ended = query.open(sink(&topic)).await.unwrap();
    ended.write(0, 0, rows(&["ended"])).await.unwrap();
    ended.prepare(0).await.unwrap();
    let mut other = Query::new();
    let mut neighbour = other.open(sink(&topic)).await.unwrap();
    neighbour.epoch(0, &["neighbour"]).await.unwrap();
    drop(ended);
    for _ in 0..100 {
        if values_so_far(servers(), &topic) == ["neighbour"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the transaction still holds readers back");
}

#[tokio::test(flavor = "multi_thread")]
async fn epoch_that_outlives_its_transaction_fails_with_what_to_set_and_is_written_again() {
    let topic = create(servers(), "timeout", 1, &[]);
    let short = || sink(&topic).transaction_timeout(Duration::from_millis(1_000));
    let mut query = Query::new();
    let mut generation = query.open(short()).await.unwrap();
    generation.write(0, 0, rows(&["late"])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let error = generation
        .commit(0)
        .await
        .expect_err("the broker has ended it");
    assert!(
        error.message().contains("kafka.transaction.timeout.ms"),
        "{error}"
    );
    assert!(error.is_retryable(), "a restart may be faster: {error:?}");
    drop(generation);
    query.unfinished(0);
    let mut generation = query.open(short()).await.unwrap();
    generation.write(0, 0, rows(&["late"])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let error = generation.write(1, 0, rows(&["later"])).await;
    let error = error.expect_err("seen before more rows are sent");
    assert!(error.message().contains("maxOffsetsPerTrigger"), "{error}");
    drop(generation);
    let mut generation = query.open(short()).await.unwrap();
    assert_eq!(generation.epoch(0, &["late"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_timeout_beyond_the_brokers_is_refused_by_name() {
    let topic = create(servers(), "too-long", 1, &[]);
    let long = sink(&topic).transaction_timeout(Duration::from_secs(3_600));
    let error = Query::new().open(long).await.err().expect("refused");
    assert_eq!(error.fault(), Fault::Config, "{error}");
    assert!(
        error.message().contains("transaction.max.timeout.ms"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_marker_means_not_written_while_it_could_not_have_expired() {
    let topic = create(servers(), "young", 1, &[]);
    let mut query = Query::new();
    query.unfinished(0);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(generation.epoch(0, &["a"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_marker_after_the_brokers_retention_leaves_the_decision_to_the_user() {
    let topic = create(servers(), "old", 1, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    generation.epoch(0, &["a"]).await.unwrap();
    generation.epoch(1, &["b"]).await.unwrap();
    drop(generation);
    query.committed = Some(0);
    // The broker keeps offsets for seven days.
    query.began(1, SystemClock::new().now_ms() - 8 * DAY_MS);
    let mut generation = query.open(sink(&topic)).await.unwrap();
    assert_eq!(
        generation.epoch(1, &["b"]).await.unwrap(),
        AlreadyCommitted,
        "it is there"
    );
    drop(generation);
    delete_group(servers(), &query.group());
    let error = query
        .open(sink(&topic))
        .await
        .err()
        .expect("nobody can tell");
    assert_eq!(error.fault(), Fault::Checkpoint);
    for part in ["epoch 1", "lostMarker", &query.group()] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let mut generation = query
        .open(sink(&topic).lost_marker(LostMarker::Discard))
        .await
        .unwrap();
    assert_eq!(generation.epoch(1, &["b"]).await.unwrap(), AlreadyCommitted);
    assert_eq!(committed_values(servers(), &topic), ["a", "b"]);
    drop(generation);
    let mut generation = query
        .open(sink(&topic).lost_marker(LostMarker::Write))
        .await
        .unwrap();
    assert_eq!(generation.epoch(1, &["b"]).await.unwrap(), Committed);
    assert_eq!(
        committed_values(servers(), &topic),
        ["a", "b", "b"],
        "as the user said"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_that_was_set_back_behind_the_target_is_refused() {
    let topic = create(servers(), "set-back", 1, &[]);
    let mut query = Query::new();
    let mut generation = query.open(sink(&topic)).await.unwrap();
    for (epoch, value) in ["a", "b", "c"].into_iter().enumerate() {
        generation.epoch(epoch as u64, &[value]).await.unwrap();
    }
    drop(generation);
    query.committed = Some(0);
    query.unfinished(1);
    let error = query.open(sink(&topic)).await.err().expect("refused");
    assert_eq!(error.fault(), Fault::Checkpoint);
    assert!(error.message().contains("set back"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn marker_is_found_whatever_topics_the_rows_went_to() {
    let topics = [
        create(servers(), "first", 1, &[]),
        create(servers(), "second", 1, &[]),
    ];
    let columns = |values: &[&str], topic: usize| {
        let batch = rows(values);
        let topics = arrow::array::StringArray::from(vec![topics[topic].as_str(); values.len()]);
        let columns = batch
            .columns()
            .iter()
            .cloned()
            .chain([std::sync::Arc::new(topics) as _]);
        let names = ["key", "value", "topic"].into_iter();
        arrow::array::RecordBatch::try_from_iter(names.zip(columns)).unwrap()
    };
    let by_row = || KafkaSink::builder(servers());
    let mut query = Query::of(columns(&[], 0).schema());
    let mut generation = query.open(by_row()).await.unwrap();
    generation.write(0, 0, columns(&["a"], 0)).await.unwrap();
    generation.commit(0).await.unwrap();
    generation.write(0, 1, columns(&["b"], 1)).await.unwrap();
    generation.commit(1).await.unwrap();
    drop(generation);
    query.committed = Some(0);
    query.unfinished(1);
    let mut generation = query.open(by_row()).await.unwrap();
    generation.write(0, 1, columns(&["b"], 1)).await.unwrap();
    assert_eq!(generation.commit(1).await.unwrap(), AlreadyCommitted);
    generation.write(0, 2, columns(&["c"], 1)).await.unwrap();
    assert_eq!(generation.commit(2).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topics[0]), ["a"]);
    assert_eq!(committed_values(servers(), &topics[1]), ["b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_rows_for_partitions_whose_leaders_are_not_ready_are_all_there() {
    const PARTITIONS: i32 = 24;
    let kafka = Kafka::shared();
    // Two messages for each partition, each in a request of its own.
    let numbers = 0..2 * PARTITIONS;
    let columns = |topic: &str| {
        let texts = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let partitions = Int32Array::from_iter_values(numbers.clone().map(|n| n % PARTITIONS));
        let columns: [(&str, ArrayRef); 3] = [
            (
                "value",
                texts(numbers.clone().map(|n| n.to_string()).collect()),
            ),
            ("topic", texts(vec![topic.to_owned(); numbers.len()])),
            ("partition", Arc::new(partitions)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    for delivery in [
        DeliveryGuarantee::ExactlyOnce,
        DeliveryGuarantee::AtLeastOnce,
    ] {
        let by_row = || {
            KafkaSink::builder(servers())
                .delivery(delivery)
                .property("batch.num.messages", "1")
        };
        for _ in 0..4 {
            let topic = Kafka::name("not-ready");
            let mut query = Query::of(columns("").schema());
            let mut generation = query.open(by_row()).await.unwrap();
            kafka.order(&topic, PARTITIONS, 1, &[]).await;
            generation.write(0, 0, columns(&topic)).await.unwrap();
            assert_eq!(generation.commit(0).await.unwrap(), Committed);
            let mut expected: Vec<_> = numbers.clone().map(|n| n.to_string()).collect();
            expected.sort();
            assert_eq!(
                committed_values(servers(), &topic),
                expected,
                "{delivery:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_rows_are_visible_when_prepared_and_come_again_with_the_epoch() {
    let topic = create(servers(), "at-least", 1, &[]);
    let plain = || sink(&topic).delivery(DeliveryGuarantee::AtLeastOnce);
    let mut query = Query::new();
    let mut generation = query.open(plain()).await.unwrap();
    generation.write(0, 0, rows(&["a"])).await.unwrap();
    generation.prepare(0).await.unwrap();
    assert_eq!(committed_values(servers(), &topic), ["a"]);
    drop(generation);
    query.unfinished(0);
    let mut generation = query.open(plain()).await.unwrap();
    assert_eq!(generation.epoch(0, &["a"]).await.unwrap(), Committed);
    assert_eq!(committed_values(servers(), &topic), ["a", "a"]);
}
