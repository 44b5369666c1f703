//! What the sink is told and which rows it takes; everything that needs a broker is tested against one (`tests/kafka`).

#![allow(clippy::unwrap_used)]

mod confirmed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, ListArray,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use rdkafka::message::Headers;
use weir_runtime::{Fault, Result, Sink};

use super::columns::{Layout, Messages, is_topic_name, shown_key};
use super::config::{DeliveryGuarantee, KafkaSinkConfig, LostMarker, OversizedMessages};
use super::{Delivery, KafkaSink};

fn config(options: &[(&str, &str)]) -> Result<KafkaSinkConfig> {
    let servers = ("kafka.bootstrap.servers", "localhost:1");
    let all = options.iter().copied().chain([servers]);
    let all: BTreeMap<String, String> = all
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    KafkaSinkConfig::from_options(&all)
}

#[test]
fn options_in_any_case_are_taken_and_defaults_are_exactly_once() {
    let plain = config(&[]).unwrap();
    assert_eq!(plain.delivery, DeliveryGuarantee::ExactlyOnce);
    assert_eq!(plain.transaction_timeout(), Duration::from_secs(900));
    assert!(plain.include_headers && plain.topic.is_none());
    let given = config(&[
        ("TOPIC", "out"),
        ("includeheaders", "False"),
        ("deliveryGuarantee", "AT_LEAST_ONCE"),
        ("transactionalIdPrefix", "team-a"),
        ("lostMarker", "discard"),
        ("oversizedMessages", "drop"),
        ("kafka.transaction.timeout.ms", "5000"),
    ])
    .unwrap();
    assert_eq!(given.topic.as_deref(), Some("out"));
    assert!(!given.include_headers);
    assert_eq!(given.delivery, DeliveryGuarantee::AtLeastOnce);
    assert_eq!(given.transactional_id_prefix, "team-a");
    assert_eq!(given.lost_marker, LostMarker::Discard);
    assert_eq!(given.oversized_messages, OversizedMessages::Drop);
    assert_eq!(given.transaction_timeout(), Duration::from_secs(5));
}

#[test]
fn options_that_are_unknown_or_malformed_or_the_sinks_own_are_refused_by_name() {
    let cases = [
        ("topics", "a", "topics"),
        ("topic", " ", "topic"),
        ("topic", "a b", "topic"),
        ("deliveryGuarantee", "twice", "at-least-once"),
        ("lostMarker", "ignore", "discard"),
        ("oversizedMessages", "split", "drop"),
        ("includeHeaders", "yes", "includeHeaders"),
        ("transactionalIdPrefix", "", "transactionalIdPrefix"),
        ("kafka.transactional.id", "mine", "transactionalIdPrefix"),
        ("kafka.enable.idempotence", "false", "at-least-once"),
        ("kafka.acks", "1", "at-least-once"),
        ("kafka.key.serializer", "x", "key.serializer"),
    ];
    for (name, value, named) in cases {
        let error = config(&[(name, value)]).expect_err(name);
        assert_eq!(error.fault(), Fault::Config, "{name}");
        assert!(error.message().contains(named), "{error}");
    }
    let at_least_once = ("deliveryGuarantee", "at-least-once");
    config(&[at_least_once, ("kafka.acks", "1")]).expect("allowed where nothing is promised");
}

#[test]
fn producer_settings_are_those_of_the_user_before_the_sinks() {
    let plain = config(&[("topic", "t")])
        .unwrap()
        .producer(Some("id"), Some(5_000));
    let get = |name| plain.get(name).unwrap_or_default().to_owned();
    assert_eq!(get("partitioner"), "murmur2_random");
    assert_eq!(
        get("batch.size"),
        "5000",
        "a batch must fit into the topic's limit"
    );
    assert_eq!(get("enable.idempotence"), "true");
    assert_eq!(
        (get("transactional.id"), get("transaction.timeout.ms")),
        ("id".to_owned(), "900000".to_owned())
    );
    let given = config(&[
        ("kafka.partitioner", "random"),
        ("kafka.batch.size", "77"),
        ("kafka.compression.type", "zstd"),
    ]);
    let given = given.unwrap().producer(None, None);
    assert_eq!(given.get("partitioner"), Some("random"));
    assert_eq!(given.get("batch.size"), Some("77"));
    assert_eq!(given.get("transactional.id"), None);
}

#[test]
fn promise_and_name_of_a_sink_say_what_it_does() {
    let of = |options: &[(&str, &str)]| KafkaSink::new(config(options).unwrap()).unwrap();
    let sink = of(&[("topic", "out"), ("kafka.sasl.password", "hush")]);
    assert_eq!(sink.description(), "KafkaSink[out]");
    assert_eq!(sink.delivery(), Delivery::ExactlyOnce);
    assert!(sink.needs_checkpoint());
    assert!(!format!("{:?} {:?}", sink.config(), sink.fingerprint()).contains("hush"));
    let sink = of(&[("deliveryGuarantee", "at-least-once")]);
    assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
}

fn schema(columns: &[(&str, DataType)]) -> Schema {
    let fields = columns
        .iter()
        .map(|(name, kind)| Field::new(*name, kind.clone(), true));
    Schema::new(fields.collect::<Vec<_>>())
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn header_type() -> DataType {
    DataType::List(Arc::new(Field::new(
        "item",
        DataType::Struct(header_fields()),
        true,
    )))
}

#[test]
fn columns_of_every_allowed_type_are_taken() {
    let texts = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
    let bytes = [
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ];
    for kind in texts.iter().chain(&bytes) {
        let columns = schema(&[("value", kind.clone()), ("key", kind.clone())]);
        Layout::of(&columns, true, true).unwrap();
    }
    for kind in texts {
        let columns = schema(&[
            ("headers", header_type()),
            ("partition", DataType::Int32),
            ("topic", kind),
            ("value", DataType::Utf8),
        ]);
        Layout::of(&columns, false, true).unwrap();
    }
}

#[test]
fn columns_that_do_not_fit_are_refused_all_at_once() {
    let refusal = |columns: &[(&str, DataType)], topic_is_set| {
        let error = Layout::of(&schema(columns), topic_is_set, true).expect_err("refused");
        assert_eq!(error.fault(), Fault::Plan);
        error.message().to_owned()
    };
    let message = refusal(
        &[
            ("key", DataType::Int64),
            ("value", DataType::Float64),
            ("headers", DataType::Utf8),
            ("topic", DataType::Binary),
            ("partition", DataType::Int64),
            ("user", DataType::Utf8),
            ("Value", DataType::Utf8),
        ],
        false,
    );
    for column in ["key", "value", "headers", "topic", "partition"] {
        let told = format!("column '{column}' has the type");
        assert!(message.contains(&told), "{column}: {message}");
    }
    assert!(message.contains("'user', 'Value'"), "{message}");
    let message = refusal(&[("key", DataType::Utf8)], false);
    assert!(message.contains("'value' is missing"), "{message}");
    assert!(message.contains("option 'topic'"), "{message}");
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// Two rows: headers (a, "1"), (a, null), (b, ""); and none.
fn headers() -> ArrayRef {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "b"]));
    let values: ArrayRef = Arc::new(BinaryArray::from(vec![
        Some(b"1".as_slice()),
        None,
        Some(b""),
    ]));
    let items = StructArray::new(header_fields(), vec![names, values], None);
    let lists = ListArray::new(
        Arc::new(Field::new("item", DataType::Struct(header_fields()), true)),
        OffsetBuffer::new(vec![0, 3, 3].into()),
        Arc::new(items),
        Some(NullBuffer::from(vec![true, false])),
    );
    Arc::new(lists)
}

#[test]
fn nulls_are_no_empty_values_and_headers_keep_order_names_and_nulls() {
    let rows = batch(vec![
        ("key", Arc::new(StringViewArray::from(vec![Some(""), None]))),
        (
            "value",
            Arc::new(LargeBinaryArray::from(vec![None, Some(b"".as_slice())])),
        ),
        ("headers", headers()),
        ("topic", Arc::new(LargeStringArray::from(vec!["t", "u"]))),
        ("partition", Arc::new(Int32Array::from(vec![Some(3), None]))),
    ]);
    let layout = Layout::of(&rows.schema(), false, true).unwrap();
    let messages = Messages::of(&layout, &rows).unwrap();
    let first = messages.get(0, None).unwrap();
    assert_eq!((first.topic, first.partition), ("t", Some(3)));
    assert_eq!((first.key, first.value), (Some(b"".as_slice()), None));
    let found = first.headers.unwrap();
    let found: Vec<_> = (0..found.as_borrowed().count())
        .map(|index| {
            let header = found.as_borrowed().get(index);
            (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
        })
        .collect();
    let header = |name: &str, value: Option<&str>| {
        (
            name.to_owned(),
            value.map(|value| value.as_bytes().to_vec()),
        )
    };
    assert_eq!(
        found,
        [
            header("a", Some("1")),
            header("a", None),
            header("b", Some(""))
        ]
    );
    let second = messages.get(1, None).unwrap();
    assert_eq!((second.topic, second.partition), ("u", None));
    assert_eq!((second.key, second.value), (None, Some(b"".as_slice())));
    assert!(second.headers.is_none());
}

#[test]
fn option_topic_wins_and_headers_can_be_left_out() {
    let rows = batch(vec![
        ("value", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("headers", headers()),
        (
            "topic",
            Arc::new(StringArray::from(vec![None::<&str>, Some("u")])),
        ),
    ]);
    let layout = Layout::of(&rows.schema(), true, false).unwrap();
    let messages = Messages::of(&layout, &rows).unwrap();
    for row in 0..2 {
        let message = messages.get(row, Some("set")).unwrap();
        assert_eq!(message.topic, "set");
        assert!(message.headers.is_none());
    }
}

#[test]
fn rows_without_a_topic_or_with_a_negative_partition_fail() {
    let rows = batch(vec![
        ("value", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("topic", Arc::new(StringArray::from(vec![None, Some("t")]))),
        ("partition", Arc::new(Int32Array::from(vec![0, -1]))),
    ]);
    let layout = Layout::of(&rows.schema(), false, true).unwrap();
    let messages = Messages::of(&layout, &rows).unwrap();
    for (row, named) in [(0, "option 'topic'"), (1, "-1")] {
        let error = messages.get(row, None).err().unwrap();
        assert_eq!(error.fault(), Fault::Data);
        assert!(error.message().contains(named), "{error}");
    }
}

#[test]
fn header_without_a_name_fails() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let values: ArrayRef = Arc::new(BinaryArray::from(vec![Some(b"1".as_slice())]));
    let items = StructArray::new(header_fields(), vec![names, values], None);
    let lists = ListArray::new(
        Arc::new(Field::new("item", DataType::Struct(header_fields()), true)),
        OffsetBuffer::new(vec![0, 1].into()),
        Arc::new(items),
        None,
    );
    let rows = batch(vec![
        ("value", Arc::new(StringArray::from(vec!["a"]))),
        ("headers", Arc::new(lists)),
    ]);
    let layout = Layout::of(&rows.schema(), true, true).unwrap();
    let messages = Messages::of(&layout, &rows).unwrap();
    assert!(messages.get(0, Some("t")).is_err());
}

#[test]
fn a_batch_with_other_columns_than_were_checked_is_an_error() {
    let columns = schema(&[("value", DataType::Utf8), ("partition", DataType::Int32)]);
    let layout = Layout::of(&columns, true, true).unwrap();
    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    for rows in [
        batch(vec![("value", numbers()), ("partition", numbers())]),
        batch(vec![("value", text), ("partition", numbers())]),
    ] {
        let error = Messages::of(&layout, &rows).err().unwrap();
        assert_eq!(error.fault(), Fault::Internal);
    }
}

#[test]
fn names_of_topics_are_those_the_broker_takes() {
    let long = "x".repeat(249);
    for name in ["a", "A.b_c-9", long.as_str()] {
        assert!(is_topic_name(name), "{name}");
    }
    let longer = "x".repeat(250);
    for name in [
        "",
        ".",
        "..",
        "a b",
        "a/b",
        "a\0b",
        "tópico",
        longer.as_str(),
    ] {
        assert!(!is_topic_name(name), "{name}");
    }
}

#[test]
fn keys_are_shown_as_text_or_bytes_and_cut() {
    assert_eq!(shown_key(None), "null");
    assert_eq!(shown_key(Some(b"user-1")), "'user-1'");
    assert_eq!(shown_key(Some(&[0xff, 0x00])), "0xff00");
    let long = "x".repeat(100);
    assert_eq!(
        shown_key(Some(long.as_bytes())),
        format!("'{}…'", "x".repeat(64))
    );
}
