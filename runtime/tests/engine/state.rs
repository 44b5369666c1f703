//! Goal: state tables follow epochs through crashes and changes of parallelism, and go with the program that wrote them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_runtime::*;

use crate::parts::{Ledger, Numbers};
use crate::stateful::{count, map};
use crate::{block_on, config, memory_checkpoint};

const ROWS: u64 = 60;

/// Numbers → modulo 7 → count by key → ledger.
fn counting(source: Numbers, ledger: &Ledger) -> Topology {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", source);
    let keys = builder.operator("keys", [numbers], map(|n| n % 7));
    let counted = builder.operator("count", [keys.key_by(["n"])], count());
    builder.sink("ledger", counted, Arc::new(ledger.clone()));
    builder.build().expect("a valid topology")
}

fn run(
    checkpoint: &str,
    ledger: &Ledger,
    rows: u64,
    parallelism: usize,
    failpoints: Arc<FailPoints>,
) -> Result<StreamingQuery> {
    let config = QueryConfig {
        failpoints,
        parallelism,
        ..config(Some(checkpoint.to_owned()))
    };
    block_on(async {
        let source = Numbers::up_to(rows).per_epoch(20);
        let query = StreamingQuery::start(counting(source, ledger), config).await?;
        query.await_termination().await?;
        Ok(query)
    })
}

fn sorted(ledger: &Ledger) -> std::collections::BTreeMap<u64, Vec<i64>> {
    let mut epochs = ledger.epochs.lock().expect("ledger").clone();
    epochs.values_mut().for_each(|rows| rows.sort_unstable());
    epochs
}

/// What the counts must be, computed from all rows.
fn expected(rows: u64) -> std::collections::BTreeMap<u64, Vec<i64>> {
    (0..rows.div_ceil(20))
        .map(|epoch| {
            let (from, to) = (epoch as i64 * 20, (epoch as i64 * 20 + 20).min(rows as i64));
            let touched = |key: &i64| (from..to).any(|n| n % 7 == *key);
            let count = |key: i64| (0..to).filter(|n| n % 7 == key).count() as i64;
            let rows = (0..7).filter(touched).map(|key| key * 1000 + count(key));
            (epoch, rows.collect())
        })
        .collect()
}

#[test]
fn e2_state_is_that_of_the_last_committed_epoch_after_a_crash_at_every_place() {
    let recording = Arc::new(FailPoints::recording());
    let ledger = Ledger::default();
    run(
        &memory_checkpoint(),
        &ledger,
        ROWS,
        2,
        Arc::clone(&recording),
    )
    .expect("ends well");
    assert_eq!(sorted(&ledger), expected(ROWS));
    for name in ["state:commit", "state:written", "state:committed"] {
        assert!(recording.names().contains(&name), "{name} is a fault point");
    }
    for place in 0..recording.hits() {
        // The run that recovers has another number of subtasks than the one that crashed.
        for parallelism in [2, 3] {
            let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
            let crash = Arc::new(FailPoints::crash_at(place));
            if let Err(error) = run(&checkpoint, &ledger, ROWS, 2, crash) {
                assert_eq!(error.fault(), Fault::Crash, "{error}");
            }
            run(&checkpoint, &ledger, ROWS, parallelism, Arc::default()).expect("recovers");
            assert_eq!(
                sorted(&ledger),
                expected(ROWS),
                "crash at place {place}, then {parallelism} subtasks"
            );
        }
    }
}

#[test]
fn e2_state_survives_a_crash_while_it_moves_to_another_number_of_subtasks() {
    let recording = Arc::new(FailPoints::recording());
    run(
        &memory_checkpoint(),
        &Ledger::default(),
        ROWS,
        3,
        Arc::clone(&recording),
    )
    .expect("counts");
    for place in (0..recording.hits()).step_by(3) {
        let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
        run(&checkpoint, &ledger, 20, 2, Arc::default()).expect("first");
        let crash = Arc::new(FailPoints::crash_at(place));
        let _crashed = run(&checkpoint, &ledger, ROWS, 3, crash).is_err();
        run(&checkpoint, &ledger, ROWS, 1, Arc::default()).expect("recovers");
        assert_eq!(sorted(&ledger), expected(ROWS), "crash at place {place}");
    }
}

#[test]
fn state_moves_from_one_number_of_subtasks_to_another() {
    let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
    for (rows, parallelism) in [(20, 1), (40, 2), (60, 3), (80, 1), (100, 5)] {
        run(&checkpoint, &ledger, rows, parallelism, Arc::default()).expect("goes on");
        assert_eq!(
            sorted(&ledger),
            expected(rows),
            "with {parallelism} subtasks"
        );
    }
}

#[test]
fn progress_tells_what_the_state_did() {
    let (checkpoint, ledger) = (memory_checkpoint(), Ledger::default());
    let query = run(&checkpoint, &ledger, 40, 2, Arc::default()).expect("ends well");
    let progress = query.last_progress().expect("an epoch");
    let state = &progress.state_operators[0];
    assert_eq!(state.operator_name, "stateStoreSave");
    assert_eq!((state.num_rows_total, state.num_rows_updated), (7, 7));
    assert_eq!(
        (state.num_rows_removed, state.num_rows_dropped_by_watermark),
        (0, 0)
    );
    assert_eq!(
        (
            state.num_shuffle_partitions,
            state.num_state_store_instances
        ),
        (2, 2)
    );
    assert!(state.memory_used_bytes > 0 && state.custom_metrics["checkpointBytesWritten"] > 0);
    assert!(progress.json().contains("\"numRowsDroppedByWatermark\":0"));
    let operators = query.metrics().operators();
    let rows: u64 = operators
        .iter()
        .filter(|(uid, ..)| uid == "count")
        .map(|(.., counts)| counts.state_rows)
        .sum();
    assert_eq!(rows, 7);
}

fn start(topology: Topology, checkpoint: &str) -> Result<()> {
    let config = config(Some(checkpoint.to_owned()));
    block_on(async {
        let query = StreamingQuery::start(topology, config).await?;
        query.await_termination().await
    })
}

#[test]
fn keyed_state_whose_rows_are_not_distributed_by_key_is_refused() {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", Numbers::up_to(20));
    let counted = builder.operator("count", [numbers], count());
    builder.sink("ledger", counted, Arc::new(Ledger::default()));
    let error = start(builder.build().expect("valid"), &memory_checkpoint()).expect_err("refused");
    assert_eq!(
        (error.fault(), error.operator()),
        (Fault::Plan, Some("count"))
    );
    assert!(error.to_string().contains("by key"), "{error}");
}

#[test]
fn e10_state_of_an_operator_that_is_gone_is_an_error_that_names_it() {
    let checkpoint = memory_checkpoint();
    run(&checkpoint, &Ledger::default(), 20, 2, Arc::default()).expect("first");
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", Numbers::up_to(40));
    builder.sink("ledger", numbers, Arc::new(Ledger::default()));
    let error = start(builder.build().expect("valid"), &checkpoint).expect_err("refused");
    assert_eq!(error.fault(), Fault::Checkpoint);
    assert!(error.to_string().contains("count"), "{error}");
}

#[test]
fn e10_missing_state_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let checkpoint = directory.path().join("checkpoint");
    let path = checkpoint.to_str().expect("unicode");
    run(path, &Ledger::default(), 20, 1, Arc::default()).expect("first");
    std::fs::remove_dir_all(checkpoint.join("state")).expect("removed");
    let error = run(path, &Ledger::default(), 40, 1, Arc::default())
        .map(|_| ())
        .expect_err("refused");
    assert_eq!(error.fault(), Fault::Checkpoint);
    assert!(error.to_string().contains("state/count/0/0."), "{error}");
}

#[test]
fn generation_that_restarts_in_one_run_goes_on_with_the_state() {
    let ledger = Ledger::default();
    let config = QueryConfig {
        restart: RestartPolicy {
            initial_backoff: std::time::Duration::ZERO,
            ..RestartPolicy::default()
        },
        trigger: Trigger::Default,
        ..config(None)
    };
    block_on(async {
        let source = Numbers::up_to(20).per_epoch(20);
        let available = Arc::clone(&source.available);
        let query = StreamingQuery::start(counting(source, &ledger), config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        ledger.fail_next_write.store(true, Ordering::SeqCst);
        available.store(60, Ordering::SeqCst);
        while ledger.epochs.lock().expect("ledger").len() < 3 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        query.stop().await;
    });
    assert_eq!(sorted(&ledger), expected(60));
}
