//! Both rate sources, by direct calls: options, offsets, rows, replay, restart.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use serde_json::json;
use weir_runtime::{Admission, Epoch, Fault, ManualClock, Source};

use super::*;
use crate::test_context::{checkpoint, read, source_context};

const START_MS: i64 = 1_767_225_600_000;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// (milliseconds since `origin_ms`, value) of every row.
fn rows(batches: &[RecordBatch], origin_ms: i64) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    for batch in batches {
        let micros = batch
            .column(0)
            .as_primitive::<TimestampMicrosecondType>()
            .values();
        let values = batch.column(1).as_primitive::<Int64Type>().values();
        rows.extend(
            micros
                .iter()
                .map(|us| us / 1000 - origin_ms)
                .zip(values.iter().copied()),
        );
    }
    rows
}

#[tokio::test]
async fn rate_first_epoch_is_empty_and_later_ones_follow_the_clock() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let mut source = RateSource::new(2);
    source
        .open(source_context(&checkpoint, &clock, None))
        .await
        .unwrap();
    let mut reader = source.reader(0).unwrap();
    let first = source
        .latest(None, Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first, json!(0));
    assert!(
        source
            .splits(Epoch(0), None, &first)
            .await
            .unwrap()
            .is_empty()
    );
    clock.advance(Duration::from_millis(2999));
    let second = source
        .latest(Some(&first), Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&second, source.newest()), (&json!(2), Some(json!(2))));
    let splits = source
        .splits(Epoch(1), Some(&first), &second)
        .await
        .unwrap();
    let batches = read(reader.as_mut(), &splits, 3);
    assert_eq!(
        rows(&batches, START_MS),
        [(0, 0), (500, 1), (1000, 2), (1500, 3)]
    );
    assert!(
        batches
            .iter()
            .all(|batch| batch.schema() == source.schema())
    );
    clock.set_now_ms(START_MS - 5000);
    let back = source
        .latest(Some(&second), Admission::Limited)
        .await
        .unwrap();
    assert_eq!(
        back,
        Some(second),
        "a clock that goes back gives nothing new"
    );
}

#[tokio::test]
async fn rate_restarted_keeps_its_start_and_replays_the_same_rows() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let mut source = RateSource::new(5).ramp_up_seconds(2);
    source
        .open(source_context(&checkpoint, &clock, None))
        .await
        .unwrap();
    let mut reader = source.reader(0).unwrap();
    let splits = source
        .splits(Epoch(0), Some(&json!(1)), &json!(4))
        .await
        .unwrap();
    let before = rows(&read(reader.as_mut(), &splits, 100), START_MS);
    clock.advance(Duration::from_secs(60));
    let mut source = RateSource::new(5).ramp_up_seconds(2).num_partitions(3);
    source
        .open(source_context(&checkpoint, &clock, Some(json!(1))))
        .await
        .unwrap();
    let mut reader = source.reader(0).unwrap();
    let splits = source
        .splits(Epoch(0), Some(&json!(1)), &json!(4))
        .await
        .unwrap();
    assert_eq!(splits.len(), 3);
    assert_eq!(rows(&read(reader.as_mut(), &splits, 2), START_MS), before);
    assert_eq!(before.first(), Some(&(1000, 1)));
    assert_eq!(before.len() as u64, 3 + 10 - 1);
}

#[tokio::test]
async fn rate_bounded_run_ends_where_it_was_fixed() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let mut source = RateSource::new(1);
    source
        .open(source_context(&checkpoint, &clock, None))
        .await
        .unwrap();
    clock.advance(Duration::from_secs(3));
    source.fix_end().await.unwrap();
    clock.advance(Duration::from_secs(3));
    source.fix_end().await.unwrap();
    assert_eq!(
        source.latest(None, Admission::Everything).await.unwrap(),
        Some(json!(3))
    );
}

#[tokio::test]
async fn rate_with_a_damaged_or_lost_start_says_which_file() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let lost = RateSource::new(1)
        .open(source_context(&checkpoint, &clock, Some(json!(3))))
        .await;
    let lost = lost.unwrap_err();
    assert_eq!(lost.fault(), Fault::Checkpoint);
    assert!(lost.message().contains("sources/0/0"), "{lost}");
    checkpoint
        .put("sources/0/0", b"garbage".to_vec())
        .await
        .unwrap();
    let damaged = RateSource::new(1)
        .open(source_context(&checkpoint, &clock, None))
        .await;
    assert!(damaged.unwrap_err().to_string().contains("sources/0/0"));
    let foreign = weir_state::envelope::encode_text(b"{\"path\":\"a\"}\n");
    checkpoint.put("sources/0/0", foreign).await.unwrap();
    let foreign = RateSource::new(1)
        .open(source_context(&checkpoint, &clock, None))
        .await;
    assert_eq!(foreign.unwrap_err().fault(), Fault::Checkpoint);
}

#[tokio::test]
async fn rate_splits_follow_the_readers_unless_partitions_are_given() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let mut source = RateSource::new(10);
    source
        .open(source_context(&checkpoint, &clock, None))
        .await
        .unwrap();
    for subtask in 0..4 {
        source.reader(subtask).unwrap();
    }
    let splits = source.splits(Epoch(0), None, &json!(1)).await.unwrap();
    assert_eq!(
        splits.iter().map(|split| split.weight).collect::<Vec<_>>(),
        [3, 3, 3, 1]
    );
    assert_eq!(splits[3].name, "values 9 to 9");
}

#[test]
fn rate_options_are_read_and_checked() {
    let given = options(&[
        ("ROWSPERSECOND", "7"),
        ("rampUpTime", "5s"),
        ("numPartitions", "2"),
    ]);
    let source = RateSource::from_options(&given).unwrap();
    assert_eq!(
        source.description(),
        "RateStreamV2[rowsPerSecond=7, rampUpTimeSeconds=5, numPartitions=2]"
    );
    assert_eq!(source.max_parallelism(), Some(2));
    for bad in [
        ("rowsPerSecond", "0"),
        ("rowsPerSecond", "many"),
        ("rampUpTime", "-1s"),
        ("numPartitions", "0"),
        ("rowsPerSeconds", "1"),
    ] {
        let error = RateSource::from_options(&options(&[bad])).unwrap_err();
        assert_eq!(error.fault(), Fault::Config, "{bad:?}");
    }
    let huge = [
        ("rowsPerSecond", "9223372036854775807"),
        ("rampUpTime", "1000d"),
    ];
    assert!(RateSource::from_options(&options(&huge)).is_err());
}

#[tokio::test]
async fn rate_micro_batch_epoch_n_always_has_the_same_rows() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let given = options(&[
        ("rowsPerBatch", "4"),
        ("startTimestamp", "16000"),
        ("numPartitions", "2"),
    ]);
    let mut source = RateMicroBatchSource::from_options(&given).unwrap();
    source
        .open(source_context(&checkpoint, &clock, None))
        .await
        .unwrap();
    let mut reader = source.reader(0).unwrap();
    let first = source
        .latest(None, Admission::Everything)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.to_string(), r#"{"offset":4,"timestamp":17000}"#);
    let second = source
        .latest(Some(&first), Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    for _ in 0..2 {
        let splits = source.splits(Epoch(0), None, &first).await.unwrap();
        let batches = read(reader.as_mut(), &splits, 100);
        assert_eq!(rows(&batches, 16_000), [(0, 0), (0, 1), (0, 2), (0, 3)]);
        let splits = source
            .splits(Epoch(1), Some(&first), &second)
            .await
            .unwrap();
        assert_eq!(
            rows(&read(reader.as_mut(), &splits, 3), 17_000),
            [(0, 4), (0, 5), (0, 6), (0, 7)]
        );
    }
}

#[tokio::test]
async fn rate_micro_batch_bounded_run_takes_one_epoch() {
    let (checkpoint, clock) = (checkpoint(), Arc::new(ManualClock::new(START_MS)));
    let mut source = RateMicroBatchSource::new(3).advance_ms_per_batch(10);
    let committed = json!({"offset": 6, "timestamp": 20});
    source
        .open(source_context(&checkpoint, &clock, Some(committed.clone())))
        .await
        .unwrap();
    source.fix_end().await.unwrap();
    let end = source
        .latest(Some(&committed), Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(end, json!({"offset": 9, "timestamp": 30}));
    source.fix_end().await.unwrap();
    assert_eq!(
        source.latest(Some(&end), Admission::Limited).await.unwrap(),
        Some(end)
    );
    let foreign = source
        .latest(Some(&json!(5)), Admission::Limited)
        .await
        .unwrap_err();
    assert_eq!(foreign.fault(), Fault::Checkpoint);
}

#[test]
fn rate_micro_batch_options_are_checked() {
    let missing = RateMicroBatchSource::from_options(&options(&[])).unwrap_err();
    assert!(missing.message().contains("rowsPerBatch"));
    for bad in [
        ("rowsPerBatch", "0"),
        ("startTimestamp", "-1"),
        ("advanceMillisPerBatch", "x"),
    ] {
        let mut given = options(&[("rowsPerBatch", "1")]);
        given.insert(bad.0.to_owned(), bad.1.to_owned());
        assert!(
            RateMicroBatchSource::from_options(&given).is_err(),
            "{bad:?}"
        );
    }
}
