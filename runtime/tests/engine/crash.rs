//! Goal: whatever place a run crashes at, and crashes again at during recovery, the ledger ends up equal to an undisturbed run.
//! Method: count the fault points of a run once, then crash at each of them, restart, and compare.

use std::sync::Arc;

use weir_runtime::*;

use crate::parts::{Ledger, Numbers};
use crate::{block_on, config, memory_checkpoint, pipeline};

const ROWS: u64 = 60;

fn run(checkpoint: &str, ledger: &Ledger, failpoints: Arc<FailPoints>) -> Result<()> {
    let config = QueryConfig {
        failpoints,
        ..config(Some(checkpoint.to_owned()))
    };
    block_on(async {
        let topology = pipeline(Numbers::up_to(ROWS).per_epoch(20), ledger);
        StreamingQuery::start(topology, config)
            .await?
            .await_termination()
            .await
    })
}

fn undisturbed() -> (Ledger, u64) {
    let (ledger, failpoints) = (Ledger::default(), Arc::new(FailPoints::recording()));
    run(&memory_checkpoint(), &ledger, Arc::clone(&failpoints)).expect("ends well");
    (ledger, failpoints.hits())
}

fn assert_equal(ledger: &Ledger, expected: &Ledger, situation: &str) {
    assert_eq!(
        ledger.rows(),
        (0..ROWS as i64).collect::<Vec<_>>(),
        "{situation}"
    );
    let sorted = |ledger: &Ledger| {
        let mut epochs = ledger.epochs.lock().expect("ledger").clone();
        epochs.values_mut().for_each(|rows| rows.sort_unstable());
        epochs
    };
    assert_eq!(
        sorted(ledger),
        sorted(expected),
        "same rows in the same epochs: {situation}"
    );
}

#[test]
fn e1_e2_e3_crash_at_every_place_loses_and_doubles_nothing() {
    let (expected, places) = undisturbed();
    assert!(places > 50, "only {places} fault points");
    for place in 0..places {
        let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
        let crashed = run(&checkpoint, &ledger, Arc::new(FailPoints::crash_at(place)));
        // Threads may pass fewer places in this run than in the counted one.
        if let Err(error) = crashed {
            assert_eq!(error.fault(), Fault::Crash, "{error}");
        }
        run(&checkpoint, &ledger, Arc::default()).expect("recovers");
        assert_equal(&ledger, &expected, &format!("crash at place {place}"));
    }
}

#[test]
fn e2_crash_during_recovery_from_a_crash_loses_and_doubles_nothing() {
    let (expected, places) = undisturbed();
    for first in (0..places).step_by(7) {
        for second in 0..12 {
            let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
            let _crashed =
                run(&checkpoint, &ledger, Arc::new(FailPoints::crash_at(first))).is_err();
            let _crashed =
                run(&checkpoint, &ledger, Arc::new(FailPoints::crash_at(second))).is_err();
            run(&checkpoint, &ledger, Arc::default()).expect("recovers");
            assert_equal(
                &ledger,
                &expected,
                &format!("crash at {first}, then at {second}"),
            );
        }
    }
}

/// Goal: an epoch that was planned is never planned again, though more has arrived since.
/// Method: crash at every place of a run over 30 rows, let 20 more arrive, restart; a plan that was lost or ignored would read 50
/// rows into an epoch the sink already holds with 30.
#[test]
fn e1_replayed_epoch_reads_its_planned_range_though_more_has_arrived() {
    let take = |checkpoint: &str, ledger: &Ledger, rows: u64, failpoints: Arc<FailPoints>| {
        let config = QueryConfig {
            failpoints,
            ..config(Some(checkpoint.to_owned()))
        };
        block_on(async {
            StreamingQuery::start(pipeline(Numbers::up_to(rows), ledger), config)
                .await?
                .await_termination()
                .await
        })
    };
    let counted = Arc::new(FailPoints::recording());
    take(
        &memory_checkpoint(),
        &Ledger::default(),
        30,
        Arc::clone(&counted),
    )
    .expect("ends well");
    for place in 0..counted.hits() {
        let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
        let _crashed = take(
            &checkpoint,
            &ledger,
            30,
            Arc::new(FailPoints::crash_at(place)),
        )
        .is_err();
        take(&checkpoint, &ledger, 50, Arc::default()).expect("recovers");
        assert_eq!(
            ledger.rows(),
            (0..50).collect::<Vec<_>>(),
            "crash at place {place}"
        );
    }
}

#[test]
fn e8_two_runs_give_the_same_rows_in_the_same_epochs() {
    let (first, _) = undisturbed();
    let (second, _) = undisturbed();
    assert_equal(&first, &second, "two undisturbed runs");
}
