//! The whole harness against engines that are right, or wrong in one way.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::echo::{Bend, Echo};
use crate::report::{AGREES, Entry, Status};
use crate::suite::Suite;
use crate::ways::{self, Way};

fn suite(filter: &str) -> Suite {
    Suite {
        directory: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases"),
        filter: filter.to_owned(),
        all: true,
        strict: true,
        ways: ways::ALL.to_vec(),
        limit: Duration::from_secs(60),
        known: BTreeMap::new(),
    }
}

fn run(suite: &Suite, bend: Bend) -> Vec<Entry> {
    suite.run(Some(Box::leak(Box::new(Echo(bend))))).unwrap()
}

fn failures(entries: &[Entry]) -> Vec<&str> {
    let failed = entries.iter().filter(|entry| entry.status == Status::Fail);
    failed.map(|entry| entry.case.as_str()).collect()
}

#[test]
fn suite_right_engine_passes_every_case() {
    let entries = run(&suite(""), Bend::Nothing);
    assert_eq!(entries.len(), 368);
    let failed: Vec<&Entry> = entries
        .iter()
        .filter(|entry| entry.status != Status::Pass)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn suite_wrong_engine_is_caught_in_the_case_that_shows_it() {
    for (bend, case) in [
        (Bend::RowTwice, "stateless/duplicate_rows_pass_through"),
        (Bend::RowLost, "stateless/duplicate_rows_pass_through"),
        (Bend::Watermark, "watermark/zero_delay"),
        (
            Bend::EpochNumber,
            "recovery/stateless_lost_commit_repeats_batch",
        ),
        (Bend::ColumnName, "stateless/explode_array"),
        (Bend::NeverRefuses, "unsupported/syntax_error"),
        (Bend::NeverFails, "stateless/division_by_zero_fails"),
        (Bend::Panics, "stateless/explode_array"),
        (Bend::RunsAgain, "watermark/zero_delay"),
        (Bend::NeverRepeats, "watermark/zero_delay"),
        (Bend::ForgetsTime, "watermark/zero_delay"),
    ] {
        let entries = run(&suite(case), bend);
        assert_eq!(failures(&entries), [case], "{bend:?}: {entries:?}");
    }
}

#[test]
fn suite_engine_that_hangs_fails_its_case_after_the_limit() {
    let mut suite = suite("stateless/explode_array");
    suite.limit = Duration::from_millis(200);
    let entries = run(&suite, Bend::Hangs);
    assert_eq!(failures(&entries), ["stateless/explode_array"]);
    assert!(
        entries[0].why.starts_with("no end after"),
        "{}",
        entries[0].why
    );
}

#[test]
fn suite_known_difference_is_told_apart_and_so_is_one_that_agrees() {
    let case = "stateless/explode_array";
    let mut suite = suite(case);
    suite.known.insert(case.to_owned(), "because".to_owned());
    let entries = run(&suite, Bend::RowLost);
    assert_eq!(entries[0].status, Status::KnownDifference);
    assert_eq!(entries[0].why, "because");
    let entries = run(&suite, Bend::Nothing);
    assert_eq!(entries[0].status, Status::Pass);
    assert_eq!(entries[0].why, AGREES);
}

#[test]
fn suite_case_of_a_later_step_is_listed_but_not_run() {
    let mut suite = suite("chained/inner_join_then_window");
    suite.all = false;
    let entries = run(&suite, Bend::Panics);
    assert_eq!(entries[0].status, Status::NotYet { step: 5 });
    assert!(entries[0].why.starts_with("step 5: "), "{}", entries[0].why);
}

#[test]
fn suite_without_an_engine_fails_even_the_refusals() {
    let entries = suite("unsupported/syntax_error").run(None).unwrap();
    assert_eq!(entries[0].status, Status::Fail);
}

#[test]
fn suite_epochs_that_sum_up_to_the_step_pass_unless_strict() {
    let mut suite = suite("recovery/stateless_lost_commit_repeats_batch");
    suite.strict = false;
    let entries = run(&suite, Bend::EpochNumber);
    assert_eq!(entries[0].status, Status::Pass, "{entries:?}");
}

#[test]
fn suite_stateful_cases_run_in_every_way_others_straight_only() {
    for (case, bend, way, fails) in [
        (
            "watermark/zero_delay",
            Bend::RunsAgain,
            Way::Restarted,
            true,
        ),
        ("watermark/zero_delay", Bend::RunsAgain, Way::Rescaled, true),
        (
            "watermark/zero_delay",
            Bend::NeverRepeats,
            Way::Replayed,
            true,
        ),
        (
            "watermark/zero_delay",
            Bend::NeverRepeats,
            Way::Rescaled,
            false,
        ),
        (
            "watermark/zero_delay",
            Bend::RunsAgain,
            Way::Straight,
            false,
        ),
        (
            "stateless/explode_array",
            Bend::RunsAgain,
            Way::Restarted,
            false,
        ),
        (
            "watermark/two_inputs_min_policy",
            Bend::RunsAgain,
            Way::Restarted,
            false,
        ),
        (
            "watermark/two_inputs_max_policy",
            Bend::RunsAgain,
            Way::Restarted,
            true,
        ),
    ] {
        let mut suite = suite(case);
        suite.ways = vec![way];
        let entries = run(&suite, bend);
        let failed = entries[0].status == Status::Fail;
        assert_eq!(failed, fails, "{case} {bend:?} {way:?}: {entries:?}");
        if fails {
            assert!(entries[0].why.starts_with(way.name()), "{entries:?}");
        }
    }
}

#[test]
fn ways_are_parsed_by_name_and_an_unknown_one_is_named() {
    assert_eq!(ways::parse("all").unwrap(), ways::ALL);
    let some = ways::parse("straight, rescaled").unwrap();
    assert_eq!(some, [Way::Straight, Way::Rescaled]);
    assert_eq!(
        [0, 1, 2, 3].map(|start| Way::Rescaled.parallelism(start)),
        [1, 2, 3, 1]
    );
    let error = ways::parse("backwards").unwrap_err();
    assert!(
        error.contains("backwards") && error.contains("replayed"),
        "{error}"
    );
}
