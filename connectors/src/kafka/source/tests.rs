//! What becomes of options, without a broker.

use super::config::Position;
use super::offsets::Offsets;
use super::*;
use std::time::Duration;
use weir_runtime::Fault;

const SERVERS: (&str, &str) = ("kafka.bootstrap.servers", "127.0.0.1:1");

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter().chain([&SERVERS]);
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn stream(pairs: &[(&str, &str)]) -> KafkaSourceConfig {
    let mut all = vec![("subscribe", "t")];
    all.extend(pairs);
    KafkaSourceConfig::stream(&options(&all)).expect("allowed")
}

fn refusal(pairs: &[(&str, &str)]) -> String {
    let error = KafkaSourceConfig::stream(&options(pairs)).expect_err("refused");
    assert_eq!(error.fault(), Fault::Config);
    error.message().to_owned()
}

fn offsets(pairs: &[(&str, i32, i64)]) -> Offsets {
    let pairs = pairs.iter();
    pairs
        .map(|(topic, partition, offset)| (TopicPartition::new(*topic, *partition), *offset))
        .collect()
}

#[test]
fn options_defaults_are_sparks_but_for_the_bounded_epoch() {
    let config = stream(&[]);
    assert_eq!(config.starting, Position::Latest);
    assert!(config.fail_on_data_loss && !config.include_headers && !config.starting_given);
    assert_eq!(config.poll_timeout, Duration::from_secs(120));
    assert_eq!(
        (config.num_retries, config.retry_interval),
        (3, Duration::from_millis(10))
    );
    assert_eq!(config.max_offsets, Some(DEFAULT_MAX_OFFSETS));
    assert_eq!(config.max_trigger_delay, Duration::from_secs(900));
    assert_eq!(config.group_id_prefix, "spark-kafka-source");
    assert_eq!(config.description(), "KafkaV2[Subscribe[t]]");
    let batch = KafkaSourceConfig::batch(&options(&[("subscribe", "t")])).expect("allowed");
    assert_eq!(
        (batch.starting, batch.ending),
        (Position::Earliest, Position::Latest)
    );
    assert_eq!(batch.max_offsets, None);
}

#[test]
fn options_are_read_in_any_letter_case() {
    let config = stream(&[
        ("MAXOFFSETSPERTRIGGER", "7"),
        ("minoffsetspertrigger", "3"),
        ("maxTriggerDelay", "30s"),
        ("failondataloss", "False"),
        ("includeHeaders", "TRUE"),
        ("kafkaConsumer.pollTimeoutMs", "5"),
        ("fetchOffset.numRetries", "0"),
        ("fetchOffset.retryIntervalMs", "25"),
        ("minPartitions", "4"),
        ("maxRecordsPerPartition", "9"),
        ("groupIdPrefix", "mine"),
    ]);
    assert_eq!((config.max_offsets, config.min_offsets), (Some(7), Some(3)));
    assert_eq!(config.max_trigger_delay, Duration::from_secs(30));
    assert!(!config.fail_on_data_loss && config.include_headers);
    assert_eq!(config.poll_timeout, Duration::from_millis(5));
    assert_eq!(
        (config.num_retries, config.retry_interval),
        (0, Duration::from_millis(25))
    );
    assert_eq!(
        (config.min_partitions, config.max_records),
        (Some(4), Some(9))
    );
    assert_eq!(config.group_id_prefix, "mine");
    assert_eq!(
        stream(&[("maxOffsetsPerTrigger", "unlimited")]).max_offsets,
        None
    );
}

#[test]
fn exactly_one_way_to_name_topics_is_required() {
    assert!(
        refusal(&[])
            .contains("exactly one of the options 'assign', 'subscribe', 'subscribePattern'")
    );
    let two = refusal(&[("subscribe", "a"), ("assign", "{\"a\":[0]}")]);
    assert!(two.ends_with("2 are"), "{two}");
    for wrong in ["", " , ", ","] {
        assert!(refusal(&[("subscribe", wrong)]).contains("'subscribe'"));
    }
    assert!(refusal(&[("subscribePattern", "(")]).contains("'subscribePattern'"));
    assert!(refusal(&[("subscribePattern", "a)|(b")]).contains("'subscribePattern'"));
    for wrong in [
        "a",
        "[]",
        "{}",
        "{\"a\":0}",
        "{\"a\":[-1]}",
        "{\"a\":[0.5]}",
        "{\"a\":[]}",
    ] {
        assert!(
            refusal(&[("assign", wrong)]).contains("'assign'"),
            "{wrong}"
        );
    }
}

#[test]
fn topics_are_trimmed_and_patterns_match_whole_names() {
    let config =
        KafkaSourceConfig::stream(&options(&[("subscribe", " b , a,a ")])).expect("allowed");
    assert_eq!(config.description(), "KafkaV2[Subscribe[a, b]]");
    let config =
        KafkaSourceConfig::stream(&options(&[("subscribePattern", "a|a.*b")])).expect("allowed");
    let Subscription::Pattern(pattern) = &config.subscription else {
        panic!("a pattern");
    };
    assert!(pattern.matches("a") && pattern.matches("axb"));
    assert!(!pattern.matches("ax") && !pattern.matches("xa"));
    let all = KafkaSourceConfig::stream(&options(&[("subscribePattern", ".*")])).expect("allowed");
    let Subscription::Pattern(all) = &all.subscription else {
        panic!("a pattern");
    };
    assert!(!all.matches("__consumer_offsets") && all.matches("__mine"));
}

#[test]
fn starting_options_are_read_by_rank() {
    let json = ("startingOffsets", "{\"t\":{\"0\":23,\"1\":-2,\"2\":-1}}");
    let given = offsets(&[("t", 0, 23), ("t", 1, -2), ("t", 2, -1)]);
    assert_eq!(stream(&[json]).starting, Position::Offsets(given));
    let times = ("startingOffsetsByTimestamp", "{\"t\":{\"0\":1000}}");
    assert_eq!(
        stream(&[json, times]).starting,
        Position::Timestamps(offsets(&[("t", 0, 1000)]))
    );
    let time = ("startingTimestamp", "5");
    assert_eq!(
        stream(&[json, times, time]).starting,
        Position::Timestamp(5)
    );
    assert_eq!(
        stream(&[("startingOffsets", "EARLIEST")]).starting,
        Position::Earliest
    );
    assert!(stream(&[("startingOffsets", "latest")]).starting_given);
}

#[test]
fn values_that_are_not_allowed_are_refused_by_name() {
    for (name, value) in [
        ("startingOffsets", "newest"),
        ("startingOffsets", "{\"t\":{\"0\":-3}}"),
        ("startingOffsets", "{\"t\":{}}"),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestamp", "{\"t\":{\"0\":\"x\"}}"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "1k"),
        ("minOffsetsPerTrigger", "-1"),
        ("maxTriggerDelay", "soon"),
        ("minPartitions", "0"),
        ("maxRecordsPerPartition", "0"),
        ("failOnDataLoss", "maybe"),
        ("includeHeaders", "1"),
        ("kafkaConsumer.pollTimeoutMs", "-5"),
        ("fetchOffset.numRetries", "x"),
        ("fetchOffset.retryIntervalMs", "x"),
    ] {
        let message = refusal(&[("subscribe", "t"), (name, value)]);
        assert!(message.contains(&format!("option '{name}'")), "{message}");
    }
    let message = refusal(&[
        ("subscribe", "t"),
        ("minOffsetsPerTrigger", "9"),
        ("maxOffsetsPerTrigger", "8"),
    ]);
    assert!(message.contains("minOffsetsPerTrigger") && message.contains("maxOffsetsPerTrigger"));
    assert!(refusal(&[("subscribe", "t"), ("startOffset", "1")]).contains("known options"));
}

#[test]
fn ends_belong_to_batch_reads() {
    for name in [
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
    ] {
        let message = refusal(&[("subscribe", "t"), (name, "1")]);
        assert!(message.contains(&format!("option '{name}'")), "{message}");
        assert!(message.contains("not valid for streams"), "{message}");
    }
    let batch =
        |name, value| KafkaSourceConfig::batch(&options(&[("subscribe", "t"), (name, value)]));
    for wrong in ["earliest", "{\"t\":{\"0\":-2}}"] {
        let error = batch("endingOffsets", wrong).expect_err("refused");
        assert!(error.message().contains("endingOffsets"), "{error}");
    }
    let config = batch("endingOffsets", "{\"t\":{\"0\":-1}}").expect("allowed");
    assert_eq!(config.ending, Position::Offsets(offsets(&[("t", 0, -1)])));
    let config = batch("endingTimestamp", "7").expect("allowed");
    assert_eq!(config.ending, Position::Timestamp(7));
}

#[test]
fn fingerprint_is_about_topics_only() {
    let print = |pairs: &[(&str, &str)]| {
        let config = KafkaSourceConfig::stream(&options(pairs)).expect("allowed");
        KafkaSource::new(config).fingerprint()
    };
    let one = print(&[("subscribe", "a, b")]);
    assert_eq!(
        one,
        print(&[("subscribe", "b,a"), ("maxOffsetsPerTrigger", "5")])
    );
    assert_ne!(one, print(&[("subscribe", "a")]));
    assert_ne!(one, print(&[("subscribePattern", "a,b")]));
}

#[test]
fn secrets_are_not_shown_by_sources() {
    let source = KafkaSource::builder("127.0.0.1:1")
        .client("sasl.password", "hush-hush")
        .subscribe(["t"])
        .build()
        .expect("allowed");
    assert!(!format!("{source:?}").contains("hush-hush"));
    let builder = KafkaSource::builder("127.0.0.1:1").client("sasl.password", "hush-hush");
    assert!(!format!("{builder:?}").contains("hush-hush"));
}

#[test]
fn builder_says_the_same_as_options() {
    let built = KafkaSource::builder("127.0.0.1:1")
        .subscribe(["t"])
        .starting_offsets([("t", 0, 5)])
        .max_offsets_per_trigger(7)
        .min_offsets_per_trigger(3, Duration::from_secs(30))
        .min_partitions(4)
        .max_records_per_partition(9)
        .accept_data_loss()
        .include_headers()
        .poll_timeout(Duration::from_millis(5))
        .fetch_offset_retries(0, Duration::from_millis(25))
        .group_id_prefix("mine")
        .build()
        .expect("allowed");
    let read = stream(&[
        ("startingOffsets", "{\"t\":{\"0\":5}}"),
        ("maxOffsetsPerTrigger", "7"),
        ("minOffsetsPerTrigger", "3"),
        ("maxTriggerDelay", "30s"),
        ("minPartitions", "4"),
        ("maxRecordsPerPartition", "9"),
        ("failOnDataLoss", "false"),
        ("includeHeaders", "true"),
        ("kafkaConsumer.pollTimeoutMs", "5"),
        ("fetchOffset.numRetries", "0"),
        ("fetchOffset.retryIntervalMs", "25"),
        ("groupIdPrefix", "mine"),
    ]);
    assert_eq!(
        format!("{:?}", built.config),
        format!("{:?}", Arc::new(read))
    );
    let none = KafkaSource::builder("127.0.0.1:1").build();
    assert!(none.expect_err("refused").message().contains("exactly one"));
    let two = KafkaSource::builder("127.0.0.1:1")
        .subscribe(["a"])
        .subscribe_pattern("b")
        .build();
    assert!(two.expect_err("refused").message().contains("exactly one"));
}

#[test]
fn groups_are_of_one_run_unless_the_user_names_one() {
    let checkpoint = crate::test_context::checkpoint();
    let clock = Arc::new(weir_runtime::ManualClock::new(0));
    let context = crate::test_context::source_context(&checkpoint, &clock, None);
    let source = KafkaSource::new(stream(&[("groupIdPrefix", "mine")]));
    let (one, two) = (source.group(&context), source.group(&context));
    assert!(one.starts_with("mine-") && one != two, "{one}");
    let named = [("kafka.group.id", "ours"), ("groupIdPrefix", "mine")];
    assert_eq!(KafkaSource::new(stream(&named)).group(&context), "ours");
}

#[test]
fn a_partition_stays_with_its_reader_whatever_comes_later() {
    let shared = Shared::default();
    let at = |topic: &str, partition| TopicPartition::new(topic, partition);
    shared.know_partitions([&at("b", 0), &at("b", 1)]);
    shared.know_partitions([&at("a", 0), &at("b", 0)]);
    assert_eq!(shared.home(&at("b", 1), 2), Some(1));
    assert_eq!(shared.home(&at("a", 0), 2), Some(0));
    assert_eq!(shared.home(&at("c", 0), 2), None);
    assert_eq!(shared.partitions_per_reader(), 3);
    shared.note_reader(1);
    assert_eq!(shared.partitions_per_reader(), 2);
}
