//! Messages that are too large (field case P117), queues that are full and brokers that do not answer (P118).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use weir::Fault;
use weir::connectors::kafka::sink::{
    DeliveryGuarantee, KafkaSink, KafkaSinkBuilder, OversizedMessages,
};
use weir::runtime::CommitOutcome::Committed;

use super::driver::{Query, rows};
use super::servers;
use super::topics::{Isolation, committed_values, create, read};

const BOTH: [DeliveryGuarantee; 2] = [
    DeliveryGuarantee::ExactlyOnce,
    DeliveryGuarantee::AtLeastOnce,
];

fn sink(topic: &str, delivery: DeliveryGuarantee) -> KafkaSinkBuilder {
    KafkaSink::builder(servers())
        .topic(topic)
        .delivery(delivery)
}

/// Ten rows; row 5 has a value of so many bytes.
fn ten(bytes: usize) -> RecordBatch {
    let keys = (0..10).map(|row| format!("key-{row}"));
    let values = (0..10).map(|row| match row {
        5 => "x".repeat(bytes),
        _ => format!("value-{row}"),
    });
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(keys));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    RecordBatch::try_from_iter([("key", keys), ("value", values)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_message_larger_than_the_topic_allows_fails_once_naming_topic_key_size_and_limit() {
    for delivery in BOTH {
        let topic = create(servers(), "large", 1, &[("max.message.bytes", "1048576")]);
        let mut query = Query::new();
        let mut generation = query.open(sink(&topic, delivery)).await.unwrap();
        let error = generation
            .write(0, 0, ten(2 << 20))
            .await
            .expect_err("too large");
        assert_eq!(error.fault(), Fault::Data, "never retried");
        let topic_named = format!("'{topic}'");
        for part in [
            topic_named.as_str(),
            "'key-5'",
            "2097",
            "1048576",
            "oversizedMessages",
        ] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
        assert!(
            error.position().is_some_and(|at| at.contains("row 5")),
            "{error}"
        );
        if delivery == DeliveryGuarantee::ExactlyOnce {
            drop(generation);
            assert!(
                committed_values(servers(), &topic).is_empty(),
                "nothing is committed"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_dropped_messages_are_counted_and_the_others_arrive() {
    for delivery in BOTH {
        let topic = create(servers(), "dropped", 1, &[("max.message.bytes", "1048576")]);
        let mut query = Query::new();
        let dropping = sink(&topic, delivery).oversized_messages(OversizedMessages::Drop);
        let mut generation = query.open(dropping).await.unwrap();
        generation.write(0, 0, ten(2 << 20)).await.unwrap();
        assert_eq!(generation.commit(0).await.unwrap(), Committed);
        assert_eq!(generation.metric("droppedMessages"), 1);
        assert_eq!(committed_values(servers(), &topic).len(), 9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_limit_of_the_topic_is_met_to_the_byte() {
    let topic = create(servers(), "exact", 1, &[("max.message.bytes", "3000")]);
    let mut query = Query::new();
    let mut generation = query
        .open(sink(&topic, DeliveryGuarantee::ExactlyOnce))
        .await
        .unwrap();
    // 61 of the batch, 2 for the length of the message, 3, 6 of the key, 2 for the length of the value, 1 for the headers.
    let fits = 3_000 - 61 - 2 - 3 - 6 - 2 - 1;
    generation.write(0, 0, ten(fits)).await.unwrap();
    generation.commit(0).await.expect("the broker takes it");
    let error = generation
        .write(0, 1, ten(fits + 1))
        .await
        .expect_err("one byte too many");
    assert!(error.message().contains("3001 bytes"), "{error}");
    drop(generation);
    assert_eq!(committed_values(servers(), &topic).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_many_small_messages_do_not_make_a_batch_the_topic_refuses() {
    for delivery in BOTH {
        let topic = create(servers(), "small", 1, &[("max.message.bytes", "2000")]);
        let values: Vec<String> = (0..2_000).map(|row| format!("{row:0>100}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mut generation = Query::new().open(sink(&topic, delivery)).await.unwrap();
        assert_eq!(generation.epoch(0, &values).await.unwrap(), Committed);
        assert_eq!(committed_values(servers(), &topic).len(), 2_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_message_of_several_megabytes_is_written_where_the_topic_allows_it() {
    let topic = create(
        servers(),
        "megabytes",
        1,
        &[("max.message.bytes", "10000000")],
    );
    let mut generation = Query::new()
        .open(sink(&topic, DeliveryGuarantee::ExactlyOnce))
        .await
        .unwrap();
    generation.write(0, 0, ten(5 << 20)).await.unwrap();
    generation.commit(0).await.unwrap();
    let longest = read(servers(), &topic, Isolation::Committed);
    let longest = longest
        .iter()
        .filter_map(|record| record.value.as_ref().map(Vec::len))
        .max();
    assert_eq!(longest, Some(5 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn p117_broker_refusing_a_message_the_client_let_pass_is_a_permanent_error() {
    let topic = create(servers(), "passed", 1, &[("max.message.bytes", "2000")]);
    for delivery in BOTH {
        let trusting = sink(&topic, delivery).property("message.max.bytes", "100000");
        let mut generation = Query::new().open(trusting).await.unwrap();
        let outcome = match generation.write(0, 0, ten(50_000)).await {
            Ok(()) => generation.commit(0).await.map(|_| ()),
            refused => refused,
        };
        let error = outcome.expect_err("the broker refuses it");
        assert_eq!(error.fault(), Fault::Data, "{error:?}");
        assert!(error.message().contains(&topic), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p118_full_queue_holds_the_writer_back_and_loses_nothing() {
    for delivery in BOTH {
        let topic = create(servers(), "queue", 2, &[]);
        let tiny = sink(&topic, delivery).property("queue.buffering.max.messages", "7");
        let mut generation = Query::new().open(tiny).await.unwrap();
        let values: Vec<String> = (0..600).map(|row| format!("{row:04}")).collect();
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        generation.write(0, 0, rows(&texts[..300])).await.unwrap();
        generation.write(1, 0, rows(&texts[300..])).await.unwrap();
        generation.commit(0).await.unwrap();
        assert_eq!(committed_values(servers(), &topic), values);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_larger_than_the_whole_queue_is_an_error_and_not_a_wait_for_ever() {
    let topic = create(
        servers(),
        "queue-bytes",
        1,
        &[("max.message.bytes", "10000000")],
    );
    let tiny =
        sink(&topic, DeliveryGuarantee::AtLeastOnce).property("queue.buffering.max.kbytes", "100");
    let mut generation = Query::new().open(tiny).await.unwrap();
    let written = generation.write(0, 0, ten(200_000));
    let error = tokio::time::timeout(Duration::from_secs(20), written).await;
    let error = error
        .expect("no wait for ever")
        .expect_err("cannot be sent");
    assert!(
        error.message().contains("queue.buffering.max.kbytes"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn topic_that_does_not_exist_is_refused_at_the_start() {
    let error = Query::new()
        .open(sink("no-such-topic", DeliveryGuarantee::ExactlyOnce))
        .await
        .err()
        .expect("refused");
    assert_eq!(error.fault(), Fault::Config);
    assert!(
        error.message().contains("'no-such-topic' does not exist"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_for_topics_or_partitions_that_do_not_exist_fail_by_name() {
    let there = create(servers(), "there", 2, &[]);
    let batch = |topic: &str, partition: i32| {
        let value: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let topic: ArrayRef = Arc::new(StringArray::from(vec![topic]));
        let partition: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![partition]));
        let columns = [("value", value), ("topic", topic), ("partition", partition)];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let cases = [
        ("nowhere", 0, "'nowhere' does not exist"),
        (there.as_str(), 7, "no partition 7"),
        (there.as_str(), -2, "'partition' is -2"),
        ("a\0b", 0, "no name of a topic"),
        ("", 0, "is ''"),
        ("a b", 0, "no name of a topic"),
    ];
    for delivery in BOTH {
        for (topic, partition, told) in cases {
            let by_row = KafkaSink::builder(servers())
                .delivery(delivery)
                .property("topic.metadata.propagation.max.ms", "500");
            let mut generation = Query::of(batch("x", 0).schema())
                .open(by_row)
                .await
                .unwrap();
            let outcome = match generation.write(0, 0, batch(topic, partition)).await {
                Ok(()) => generation.commit(0).await.map(|_| ()),
                refused => refused,
            };
            let error = outcome.expect_err(told);
            assert!(error.message().contains(told), "{told}: {error}");
            assert!(!error.is_retryable(), "{error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_that_does_not_answer_is_an_external_error() {
    let nobody = KafkaSink::builder("127.0.0.1:1")
        .topic("t")
        .property("socket.timeout.ms", "1000");
    let error = Query::new()
        .open(nobody)
        .await
        .err()
        .expect("nobody answers");
    assert_eq!(error.fault(), Fault::External, "{error}");
    assert!(error.message().contains("127.0.0.1:1"), "{error}");
}
