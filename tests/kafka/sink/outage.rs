//! Brokers that die, pause and come back while an epoch is written (field case P118).

use std::sync::Arc;
use std::time::Duration;

use weir::connectors::kafka::sink::{DeliveryGuarantee, KafkaSink};
use weir::prelude::Trigger;
use weir::runtime::CommitOutcome::Committed;

use super::driver::{Query, rows};
use super::kill::spawn;
use super::shop::{INPUT_PARTITIONS, Kind, Shop};
use super::topics::{committed_values, create};
use crate::kafka_broker::Broker;
use crate::support::{Kafka, LONG};

const BOTH: [DeliveryGuarantee; 2] = [
    DeliveryGuarantee::ExactlyOnce,
    DeliveryGuarantee::AtLeastOnce,
];

#[tokio::test(flavor = "multi_thread")]
async fn broker_that_dies_and_comes_back_within_an_epoch_is_waited_for() {
    let broker = Broker::start();
    for delivery in BOTH {
        let topic = create(broker.bootstrap(), "killed", 2, &[]);
        let sink = KafkaSink::builder(broker.bootstrap())
            .topic(&topic)
            .delivery(delivery);
        let mut generation = Query::new().open(sink).await.unwrap();
        generation.epoch(0, &["a", "b"]).await.unwrap();
        generation.write(0, 1, rows(&["c"])).await.unwrap();
        broker.kill(1);
        generation.write(1, 1, rows(&["d", "e"])).await.unwrap();
        broker.restart(1);
        generation.write(0, 1, rows(&["f"])).await.unwrap();
        assert_eq!(
            generation.commit(1).await.unwrap(),
            Committed,
            "{delivery:?}"
        );
        assert_eq!(generation.epoch(2, &["g"]).await.unwrap(), Committed);
        let expected = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(
            committed_values(broker.bootstrap(), &topic),
            expected,
            "{delivery:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p118_epoch_is_not_committed_while_the_broker_is_down_and_is_written_again() {
    let broker = Broker::start();
    for delivery in BOTH {
        let topic = create(broker.bootstrap(), "down", 2, &[]);
        let sink = || {
            KafkaSink::builder(broker.bootstrap())
                .topic(&topic)
                .delivery(delivery)
                .property("message.timeout.ms", "8000")
        };
        let mut query = Query::new();
        let mut generation = query.open(sink()).await.unwrap();
        generation.epoch(0, &["a"]).await.unwrap();
        broker.kill(1);
        generation.write(0, 1, rows(&["b"])).await.unwrap();
        let error = generation
            .prepare(1)
            .await
            .expect_err("nobody has taken it");
        assert!(error.is_retryable(), "{error:?}");
        assert!(error.message().contains("message.timeout.ms"), "{error}");
        drop(generation);
        broker.restart(1);
        query.committed = Some(0);
        query.unfinished(1);
        let mut generation = query.open(sink()).await.unwrap();
        assert_eq!(generation.epoch(1, &["b"]).await.unwrap(), Committed);
        assert_eq!(
            committed_values(broker.bootstrap(), &topic),
            ["a", "b"],
            "{delivery:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_that_dies_before_the_commit_leaves_an_epoch_that_is_held_or_written_again() {
    let broker = Broker::start();
    let topic = create(broker.bootstrap(), "unsure", 2, &[]);
    let sink = || KafkaSink::builder(broker.bootstrap()).topic(&topic);
    let mut query = Query::new();
    let mut generation = query.open(sink()).await.unwrap();
    for round in 0..3_u64 {
        let value = format!("value-{round}");
        generation.write(0, round, rows(&[&value])).await.unwrap();
        generation.prepare(round).await.unwrap();
        let killer = async {
            tokio::time::sleep(Duration::from_millis(3 * round)).await;
            tokio::task::block_in_place(|| {
                broker.kill(1);
                broker.restart(1);
            });
        };
        let (outcome, ()) = tokio::join!(generation.commit(round), killer);
        if let Err(error) = outcome {
            assert!(error.is_retryable(), "{error:?}");
            drop(generation);
            query.committed = round.checked_sub(1);
            query.unfinished(round);
            generation = query.open(sink()).await.unwrap();
            generation.epoch(round, &[&value]).await.unwrap();
        }
    }
    let expected = ["value-0", "value-1", "value-2"];
    assert_eq!(committed_values(broker.bootstrap(), &topic), expected);
}

#[test]
fn p118_rows_in_the_queue_of_a_killed_process_are_written_after_the_broker_was_paused() {
    for guarantee in ["exactly-once", "at-least-once"] {
        let broker = Broker::start();
        let home = tempfile::tempdir().expect("a directory");
        let topic = create(broker.bootstrap(), "paused", 3, &[]);
        let shop = Shop::new(Kind::Purchases, home.path(), broker.bootstrap(), &topic)
            .with("deliveryGuarantee", guarantee);
        (0..4).for_each(|number| shop.drop_file(number, 3_000));
        let path = home.path().display().to_string();
        let mut child = spawn([
            "Purchases",
            &path,
            broker.bootstrap(),
            &topic,
            guarantee,
            "",
        ]);
        // The first epoch is there, so the query is in the middle of another one or about to begin it.
        while !shop.checkpoint().join("commits/0").exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        broker.pause(1);
        shop.drop_file(4, 3_000);
        std::thread::sleep(Duration::from_millis(700));
        child.kill().expect("SIGKILL");
        child.wait().expect("gone");
        broker.resume(1);
        shop.run(Arc::default()).expect("finishes what is left");
        if guarantee == "exactly-once" {
            shop.assert_exactly_once("paused");
        } else {
            shop.assert_at_least_once();
        }
    }
}

#[test]
fn p118_ten_thousand_rows_are_there_although_the_process_ends_right_after_the_epoch() {
    let broker = Broker::shared();
    for guarantee in ["exactly-once", "at-least-once"] {
        let home = tempfile::tempdir().expect("a directory");
        let topic = create(broker.bootstrap(), "many", 3, &[]);
        let shop = Shop::new(Kind::Purchases, home.path(), broker.bootstrap(), &topic)
            .with("deliveryGuarantee", guarantee);
        shop.drop_file(0, 30_000);
        shop.run(Arc::default()).expect("ends well");
        assert_eq!(committed_values(broker.bootstrap(), &topic).len(), 10_000);
        shop.assert_exactly_once(guarantee);
    }
}

/// A topic whose partitions survive the loss of a broker.
fn replicated(kafka: &Kafka, name: &str, partitions: i32) -> String {
    let name = Kafka::name(name);
    let settings = [("min.insync.replicas", "1")];
    futures::executor::block_on(kafka.create_replicated(&name, partitions, 3, &settings));
    name
}

#[test]
fn windows_from_topic_to_topic_are_exactly_once_while_leaders_and_coordinators_move() {
    const ROWS: u64 = 100;
    let broker = Broker::start_three();
    let kafka = Kafka::known(broker.bootstrap());
    let home = tempfile::tempdir().expect("a directory");
    let topic = replicated(&kafka, "moving", 3);
    let input = replicated(&kafka, "actions", INPUT_PARTITIONS);
    let shop = Shop::new(Kind::Windows, home.path(), broker.bootstrap(), &topic)
        .reading(&input)
        .restarting();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let query = runtime.block_on(shop.start(Trigger::Default, Arc::default()));
    let query = query.expect("starts");
    let taken = || {
        let all = query.process_all_available();
        let taken = runtime.block_on(async { tokio::time::timeout(LONG * 2, all).await });
        let problem = || format!("{:?} {:?}", query.status(), query.exception());
        taken
            .unwrap_or_else(|_| panic!("{}", problem()))
            .expect("it goes on");
    };
    let mut files = 0..;
    let mut drop_some = || {
        let some = files.by_ref().take(3);
        some.for_each(|number| shop.drop_file(number, ROWS));
    };
    // Each broker leads partitions of both topics, and one of them is the coordinator of the transactions, one that of the group.
    for id in 1..=3 {
        drop_some();
        taken();
        drop_some();
        match id {
            2 => broker.stop(id),
            _ => broker.kill(id),
        }
        drop_some();
        taken();
        broker.restart(id);
    }
    drop_some();
    taken();
    runtime.block_on(query.stop());
    shop.run(Arc::default()).expect("finishes what is left");
    shop.assert_exactly_once("leaders and coordinators moved");
}
