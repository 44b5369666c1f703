//! Goal: a crash at any durable step, and a second crash during recovery, lose and double nothing.
//! Method: count the fault points of an undisturbed run, crash at each, run again, compare by manifest and by listing.

use std::sync::Arc;

use weir::runtime::{FailPoints, Fault};

use crate::shop::Shop;

const FILES: u64 = 5;
const ROWS: u64 = 30;

fn shop(home: &tempfile::TempDir) -> Shop {
    let shop = Shop::new(home.path());
    (0..FILES).for_each(|number| shop.drop_file(number, ROWS));
    shop
}

fn places() -> u64 {
    let home = tempfile::tempdir().expect("a directory");
    let (shop, counted) = (shop(&home), Arc::new(FailPoints::recording()));
    shop.run(Arc::clone(&counted)).expect("ends well");
    shop.assert_exactly_once(FILES, ROWS, "undisturbed");
    counted.hits()
}

#[test]
fn e1_e2_e3_file_pipeline_is_exactly_once_for_a_crash_at_every_place() {
    let places = places();
    assert!(places > 60, "only {places} fault points");
    for place in 0..places {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(&home);
        if let Err(error) = shop.run(Arc::new(FailPoints::crash_at(place))) {
            assert_eq!(error.fault(), Fault::Crash, "{error}");
        }
        // Another file arrives while the process is down: a replay must not take it in.
        shop.drop_file(FILES, ROWS);
        shop.run(Arc::default()).expect("recovers");
        shop.assert_exactly_once(FILES + 1, ROWS, &format!("crash at place {place}"));
    }
}

#[test]
fn e2_file_pipeline_is_exactly_once_for_a_crash_during_recovery() {
    let places = places();
    for first in (0..places).step_by(11) {
        for second in (0..20).step_by(3) {
            let home = tempfile::tempdir().expect("a directory");
            let shop = shop(&home);
            let _crashed = shop.run(Arc::new(FailPoints::crash_at(first))).is_err();
            let _crashed = shop.run(Arc::new(FailPoints::crash_at(second))).is_err();
            shop.run(Arc::default()).expect("recovers");
            shop.assert_exactly_once(FILES, ROWS, &format!("crash at {first}, then at {second}"));
        }
    }
}
