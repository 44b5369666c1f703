//! Goal: a crash at any step of an epoch loses and doubles nothing, in particular between the commit of the transaction and the
//! manifest. Method: count the fault points of an undisturbed run, crash at each, run again, compare with the undisturbed run.
//!
//! Of the places that are not the sink's own every n-th is taken: `WEIR_CRASH_STEP`, 7 unless set.

use std::sync::Arc;

use weir::runtime::{FailPoints, Fault};

use super::servers;
use super::shop::{INPUT_PARTITIONS, Kind, Shop};
use super::topics::create;

const FILES: u64 = 5;
const ROWS: u64 = 30;

/// Where the actions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Files,
    Topic,
}

fn shop(kind: Kind, input: Input, home: &tempfile::TempDir) -> Shop {
    let topic = create(servers(), "crash", 3, &[]);
    let shop = Shop::new(kind, home.path(), servers(), &topic);
    let shop = match input {
        Input::Files => shop,
        Input::Topic => shop.reading(&create(servers(), "actions", INPUT_PARTITIONS, &[])),
    };
    (0..FILES).for_each(|number| shop.drop_file(number, ROWS));
    shop
}

fn is_of_the_sink(place: &str) -> bool {
    place.starts_with("kafka-sink") || place.starts_with("sink") || place.starts_with("manifest")
}

/// Numbers of the places to crash at, with their names.
fn places(kind: Kind, input: Input) -> Vec<(u64, &'static str)> {
    let home = tempfile::tempdir().expect("a directory");
    let (shop, counted) = (shop(kind, input, &home), Arc::new(FailPoints::recording()));
    shop.run(Arc::clone(&counted)).expect("ends well");
    let names = counted.names();
    for own in ["init", "begin", "flush", "offsets", "commit"] {
        let point = format!("kafka-sink:{own}:before");
        assert!(
            names.iter().any(|name| *name == point),
            "{point} in {names:?}"
        );
    }
    let step = std::env::var("WEIR_CRASH_STEP").ok();
    let step = step.and_then(|text| text.parse().ok()).unwrap_or(7);
    let numbered = (0..).zip(names);
    numbered
        .filter(|(number, name)| is_of_the_sink(name) || number % step == 0)
        .collect()
}

fn crash_once(kind: Kind, input: Input) {
    let home = tempfile::tempdir().expect("a directory");
    let calm = shop(kind, input, &home);
    calm.drop_file(FILES, ROWS);
    let expected = calm.undisturbed();
    for (place, name) in places(kind, input) {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(kind, input, &home);
        if let Err(error) = shop.run(Arc::new(FailPoints::crash_at(place))) {
            assert_eq!(error.fault(), Fault::Crash, "{error}");
        }
        // Another file arrives while the process is down: a replay must not take it in.
        shop.drop_file(FILES, ROWS);
        shop.run(Arc::default()).expect("recovers");
        shop.assert_is(
            &expected,
            &format!("crash at place {place}, about '{name}'"),
        );
        shop.close();
    }
}

#[test]
fn e2_e3_rows_are_exactly_once_for_a_crash_at_every_place() {
    crash_once(Kind::Purchases, Input::Files);
}

#[test]
fn e2_e3_windows_are_exactly_once_for_a_crash_at_every_place() {
    crash_once(Kind::Windows, Input::Files);
}

#[test]
fn e2_e3_totals_are_right_for_a_crash_at_every_place() {
    crash_once(Kind::Totals, Input::Files);
}

#[test]
fn e2_e3_windows_from_topic_to_topic_are_exactly_once_for_a_crash_at_every_place() {
    crash_once(Kind::Windows, Input::Topic);
}

#[test]
fn e2_rows_are_exactly_once_for_a_crash_during_recovery() {
    let places = places(Kind::Purchases, Input::Files);
    let home = tempfile::tempdir().expect("a directory");
    let expected = shop(Kind::Purchases, Input::Files, &home).undisturbed();
    let own = places
        .iter()
        .filter(|(_, name)| name.starts_with("kafka-sink"));
    for (first, name) in own.step_by(4) {
        for second in [2, 9, 17] {
            let home = tempfile::tempdir().expect("a directory");
            let shop = shop(Kind::Purchases, Input::Files, &home);
            let _crashed = shop.run(Arc::new(FailPoints::crash_at(*first))).is_err();
            let _crashed = shop.run(Arc::new(FailPoints::crash_at(second))).is_err();
            shop.run(Arc::default()).expect("recovers");
            shop.assert_is(
                &expected,
                &format!("crash about '{name}', then at {second}"),
            );
            shop.close();
        }
    }
}

#[test]
fn p043_epoch_whose_manifest_is_lost_is_not_written_twice() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = shop(Kind::Purchases, Input::Files, &home);
    shop.run(Arc::default()).expect("ends well");
    let newest =
        (0..).take_while(|epoch| shop.checkpoint().join(format!("commits/{epoch}")).exists());
    let newest = newest.last().expect("committed epochs");
    std::fs::remove_file(shop.checkpoint().join(format!("commits/{newest}"))).expect("lost");
    shop.drop_file(FILES, ROWS);
    shop.run(Arc::default()).expect("goes on");
    shop.assert_exactly_once("manifest lost");
}

#[test]
fn p043_at_least_once_replays_the_same_rows() {
    let home = tempfile::tempdir().expect("a directory");
    let shop =
        shop(Kind::Purchases, Input::Files, &home).with("deliveryGuarantee", "at-least-once");
    shop.run(Arc::default()).expect("ends well");
    let once = shop.uncommitted();
    let newest =
        (0..).take_while(|epoch| shop.checkpoint().join(format!("commits/{epoch}")).exists());
    let newest = newest.last().expect("committed epochs");
    std::fs::remove_file(shop.checkpoint().join(format!("commits/{newest}"))).expect("lost");
    shop.run(Arc::default()).expect("goes on");
    let twice = shop.uncommitted();
    let mut again = twice.clone();
    for value in &once {
        let found = again
            .iter()
            .position(|other| other == value)
            .expect("nothing is lost");
        again.remove(found);
    }
    assert!(!again.is_empty(), "the epoch came again");
    assert!(
        again.iter().all(|value| once.contains(value)),
        "with the same rows"
    );
    again.dedup();
    assert_eq!(again.len() + once.len(), twice.len(), "each of them once");
}
