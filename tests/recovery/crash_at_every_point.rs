//! Goal: a crash at any durable step, and a second crash during recovery, lose and double nothing, whatever the query keeps.
//! Method: count the fault points of an undisturbed run, crash at each, run again, compare by manifest and by listing.
//!
//! `WEIR_CRASH_STEP` takes every n-th place only: 1 for the stateless query, 3 for the others unless set.

use std::sync::Arc;

use weir::runtime::{FailPoints, Fault};

use crate::queries::Kind;
use crate::shop::Shop;
use crate::state_size::STATE_MEMORY;

const FILES: u64 = 5;
const ROWS: u64 = 30;

/// State goes to files at once and is copied into the checkpoint after every second epoch.
const STATE_IN_FILES: &[(&str, &str)] = &[
    (STATE_MEMORY, "64"),
    ("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2"),
];

/// A kind of query, and settings to run it under.
#[derive(Clone, Copy)]
struct Run(Kind, &'static [(&'static str, &'static str)]);

impl Run {
    fn shop(self, home: &tempfile::TempDir) -> Shop {
        let shop = Shop::of(self.0, home.path());
        let shop = self
            .1
            .iter()
            .fold(shop, |shop, (key, value)| shop.with(key, value));
        (0..FILES).for_each(|number| shop.drop_file(number, ROWS));
        shop
    }

    fn places(self) -> u64 {
        let home = tempfile::tempdir().expect("a directory");
        let (shop, counted) = (self.shop(&home), Arc::new(FailPoints::recording()));
        shop.run(Arc::clone(&counted)).expect("ends well");
        shop.assert_exactly_once(FILES, ROWS, "undisturbed");
        counted.hits()
    }

    fn step(self) -> usize {
        let stateless = self.0 == Kind::Purchases;
        let given = std::env::var("WEIR_CRASH_STEP").ok();
        let given = given.and_then(|text| text.parse().ok());
        given.unwrap_or(if stateless { 1 } else { 3 })
    }

    fn crash_once(self) {
        let places = self.places();
        assert!(places > 60, "only {places} fault points");
        for place in (0..places).step_by(self.step()) {
            let home = tempfile::tempdir().expect("a directory");
            let shop = self.shop(&home);
            if let Err(error) = shop.run(Arc::new(FailPoints::crash_at(place))) {
                assert_eq!(error.fault(), Fault::Crash, "{error}");
            }
            // Another file arrives while the process is down: a replay must not take it in.
            shop.drop_file(FILES, ROWS);
            shop.run(Arc::default()).expect("recovers");
            shop.assert_exactly_once(FILES + 1, ROWS, &format!("crash at place {place}"));
        }
    }

    fn crash_twice(self) {
        let places = self.places();
        let step = self.step();
        for first in (0..places).step_by(11 * step) {
            for second in (0..20).step_by(3 * step) {
                let home = tempfile::tempdir().expect("a directory");
                let shop = self.shop(&home);
                let _crashed = shop.run(Arc::new(FailPoints::crash_at(first))).is_err();
                let _crashed = shop.run(Arc::new(FailPoints::crash_at(second))).is_err();
                // The watermark closes what a last data epoch owes; an epoch without rows that was not planned before a crash
                // waits for the next rows.
                shop.drop_file(FILES, ROWS);
                shop.run(Arc::default()).expect("recovers");
                let situation = format!("crash at {first}, then at {second}");
                shop.assert_exactly_once(FILES + 1, ROWS, &situation);
            }
        }
    }
}

#[test]
fn e1_e2_e3_file_pipeline_is_exactly_once_for_a_crash_at_every_place() {
    Run(Kind::Purchases, &[]).crash_once();
}

#[test]
fn e2_file_pipeline_is_exactly_once_for_a_crash_during_recovery() {
    Run(Kind::Purchases, &[]).crash_twice();
}

#[test]
fn e2_files_deleted_after_they_were_read_are_read_exactly_once_for_a_crash_at_every_place() {
    let shop = |home: &tempfile::TempDir| {
        let shop = Shop::new(home.path()).deleting();
        (0..FILES).for_each(|number| shop.drop_file(number, ROWS));
        shop
    };
    let left = |home: &tempfile::TempDir| {
        let input = std::fs::read_dir(home.path().join("in")).expect("the input directory");
        input.count()
    };
    let home = tempfile::tempdir().expect("a directory");
    let counted = Arc::new(FailPoints::recording());
    let undisturbed = shop(&home);
    undisturbed.run(Arc::clone(&counted)).expect("ends well");
    undisturbed.assert_exactly_once(FILES, ROWS, "undisturbed");
    assert_eq!(left(&home), 0);
    for place in (0..counted.hits()).step_by(2) {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(&home);
        if let Err(error) = shop.run(Arc::new(FailPoints::crash_at(place))) {
            assert_eq!(error.fault(), Fault::Crash, "{error}");
        }
        shop.drop_file(FILES, ROWS);
        shop.run(Arc::default()).expect("recovers");
        let situation = format!("crash at place {place}");
        shop.assert_exactly_once(FILES + 1, ROWS, &situation);
        assert_eq!(left(&home), 0, "{situation}: every file was cleaned");
    }
}

#[test]
fn e2_windows_are_exactly_once_for_a_crash_at_every_place() {
    Run(Kind::Windows, &[]).crash_once();
}

#[test]
fn e2_deduplicated_rows_are_exactly_once_for_a_crash_at_every_place() {
    Run(Kind::Dedup, &[]).crash_once();
}

#[test]
fn e2_sessions_are_exactly_once_for_a_crash_at_every_place() {
    Run(Kind::Sessions, &[]).crash_once();
}

#[test]
fn e2_e3_upserted_totals_are_right_for_a_crash_at_every_place() {
    Run(Kind::Totals, &[]).crash_once();
}

#[test]
fn e2_state_in_files_is_exactly_once_for_a_crash_at_every_place() {
    for kind in Kind::STATEFUL {
        Run(kind, STATE_IN_FILES).crash_once();
    }
}

#[test]
fn e2_state_in_files_is_exactly_once_for_a_crash_during_recovery() {
    for kind in Kind::STATEFUL {
        Run(kind, STATE_IN_FILES).crash_twice();
    }
}

#[test]
fn e2_stateful_queries_are_exactly_once_for_a_crash_during_recovery() {
    for kind in Kind::STATEFUL {
        Run(kind, &[]).crash_twice();
    }
}
