//! Starting, ending, progress, errors, back-pressure.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_runtime::*;

use crate::parts::{Ledger, Numbers, values};
use crate::{block_on, config, memory_checkpoint, pipeline, sum_spec};

#[test]
fn available_now_takes_what_is_there_in_limited_epochs_and_ends() {
    let ledger = Ledger::default();
    let source = Numbers::up_to(95).per_epoch(40);
    block_on(async {
        let query = StreamingQuery::start(pipeline(source, &ledger), config(None))
            .await
            .expect("starts");
        query.await_termination().await.expect("ends well");
        assert!(!query.is_active());
        let progress = query.recent_progress();
        assert_eq!(
            progress
                .iter()
                .map(|p| p.num_input_rows)
                .collect::<Vec<_>>(),
            [40, 40, 15]
        );
        assert_eq!(
            progress.iter().map(|p| p.batch_id).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(progress[0].sink.num_output_rows, 40);
        assert_eq!(query.status().message, "Stopped");
    });
    assert_eq!(ledger.rows(), (0..95).collect::<Vec<_>>());
}

#[test]
fn once_takes_everything_in_one_epoch() {
    let ledger = Ledger::default();
    let config = QueryConfig {
        trigger: Trigger::Once,
        ..config(None)
    };
    block_on(async {
        let query =
            StreamingQuery::start(pipeline(Numbers::up_to(95).per_epoch(40), &ledger), config)
                .await
                .expect("starts");
        query.await_termination().await.expect("ends well");
        assert_eq!(query.recent_progress().len(), 1);
    });
    assert_eq!(ledger.rows().len(), 95);
}

#[test]
fn default_trigger_follows_the_source_until_stopped() {
    let ledger = Ledger::default();
    let source = Numbers::up_to(0);
    let available = Arc::clone(&source.available);
    let config = QueryConfig {
        trigger: Trigger::Default,
        ..config(None)
    };
    block_on(async {
        let query = StreamingQuery::start(pipeline(source, &ledger), config)
            .await
            .expect("starts");
        query
            .process_all_available()
            .await
            .expect("nothing is there");
        assert!(query.last_progress().is_none());
        for end in [7, 20] {
            available.store(end, Ordering::SeqCst);
            query.process_all_available().await.expect("processed");
            assert_eq!(ledger.rows().len() as u64, end);
        }
        assert!(query.is_active());
        query.stop().await;
        assert!(!query.is_active() && query.exception().is_none());
    });
}

#[test]
fn restart_goes_on_after_the_last_epoch_with_state_and_the_same_id() {
    let checkpoint = memory_checkpoint();
    let (ledger, seen) = (Ledger::default(), Arc::new(Mutex::new(Vec::new())));
    let topology = |available| {
        let mut builder = Topology::builder();
        let numbers = builder.source("numbers", Numbers::up_to(available));
        let summed = builder.operator(
            "sum",
            [numbers.partitioned(Partitioning::Single)],
            sum_spec(Arc::clone(&seen)),
        );
        builder.sink("ledger", summed, Arc::new(ledger.clone()));
        builder.build().expect("valid")
    };
    let run = |available| {
        block_on(async {
            let query =
                StreamingQuery::start(topology(available), config(Some(checkpoint.clone())))
                    .await
                    .expect("starts");
            query.await_termination().await.expect("ends well");
            (query.id(), query.run_id())
        })
    };
    let (first, second) = (run(10), run(20));
    assert_eq!(first.0, second.0);
    assert_ne!(first.1, second.1);
    assert_eq!(
        *seen.lock().expect("seen"),
        [(0, 45), (1, 190)],
        "the sum went on from its snapshot"
    );
    assert_eq!(ledger.rows(), (0..20).collect::<Vec<_>>());
}

#[test]
fn operator_error_ends_the_query_and_names_the_operator() {
    let ledger = Ledger::default();
    let fails = OperatorSpec::new("fails", |_| {
        Ok(Closure(|rows: &Rows| {
            match values(rows.batch()).contains(&42) {
                true => Err(WeirError::data("42 is not welcome").with_condition("NO_42")),
                false => Ok(()),
            }
        }))
    });
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", Numbers::up_to(100).per_epoch(30));
    let checked = builder.operator("check", [numbers], fails);
    builder.sink("ledger", checked, Arc::new(ledger.clone()));
    let topology = builder.build().expect("valid");
    let error = block_on(async {
        let query = StreamingQuery::start(topology, config(None))
            .await
            .expect("starts");
        query.await_termination().await.expect_err("fails")
    });
    assert_eq!(
        (error.fault(), error.condition(), error.operator()),
        (Fault::Data, Some("NO_42"), Some("check"))
    );
    assert_eq!(
        ledger.rows(),
        (0..30).collect::<Vec<_>>(),
        "epochs before the failing one stay"
    );
}

#[test]
fn panic_in_an_operator_is_the_reported_cause() {
    let panics = OperatorSpec::new("panics", |_| Ok(Closure(|_: &Rows| panic!("boom"))));
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", Numbers::up_to(100));
    let spread = builder.operator("panics", [numbers.key_by(["n"])], panics);
    builder.sink("ledger", spread, Arc::new(Ledger::default()));
    let topology = builder.build().expect("valid");
    let error = block_on(async {
        let query = StreamingQuery::start(topology, config(None))
            .await
            .expect("starts");
        query.await_termination().await.expect_err("fails")
    });
    assert_eq!(error.fault(), Fault::Internal);
    assert!(error.to_string().contains("boom"), "{error}");
}

#[test]
fn e5_slow_sink_holds_the_source_within_the_edge_budget() {
    let ledger = Ledger {
        write_delay: Duration::from_millis(1),
        ..Ledger::default()
    };
    let budget = EdgeBudget {
        rows: 20,
        bytes: 1 << 20,
    };
    let config = QueryConfig {
        edge_budget: budget,
        parallelism: 1,
        ..config(None)
    };
    block_on(async {
        let source = Numbers::up_to(2_000).per_split(2_000);
        let query = StreamingQuery::start(pipeline(source, &ledger), config)
            .await
            .expect("starts");
        query.await_termination().await.expect("ends well");
        let edges = query.metrics().edges();
        let last = edges
            .iter()
            .find(|edge| edge.edge.contains("ledger"))
            .expect("edge to the sink");
        assert_eq!(last.rows, 2_000);
        assert!(last.blocked_ns > 0, "the sender waited");
        // A batch of 4 rows takes at most a few hundred bytes; five of them fit into 20 rows.
        assert!(
            last.max_queued_bytes < 10_000,
            "{} bytes waited",
            last.max_queued_bytes
        );
    });
}

#[test]
fn dropping_the_last_handle_stops_the_query() {
    let ledger = Ledger::default();
    let source = Numbers::up_to(10);
    let available = Arc::clone(&source.available);
    let config = QueryConfig {
        trigger: Trigger::Default,
        ..config(None)
    };
    block_on(async {
        let query = StreamingQuery::start(pipeline(source, &ledger), config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        drop(query);
        tokio::time::sleep(Duration::from_millis(300)).await;
        available.store(20, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    assert_eq!(ledger.rows().len(), 10);
}

#[test]
fn second_query_on_a_checkpoint_is_refused_while_the_first_runs() {
    let checkpoint = memory_checkpoint();
    let config = QueryConfig {
        trigger: Trigger::Default,
        ..config(Some(checkpoint))
    };
    block_on(async {
        let first = StreamingQuery::start(
            pipeline(Numbers::up_to(1), &Ledger::default()),
            config.clone(),
        )
        .await
        .expect("starts");
        let second = StreamingQuery::start(
            pipeline(Numbers::up_to(1), &Ledger::default()),
            config.clone(),
        )
        .await;
        assert_eq!(second.expect_err("refused").fault(), Fault::Conflict);
        first
            .process_all_available()
            .await
            .expect("the first goes on");
        first.stop().await;
        let third = StreamingQuery::start(pipeline(Numbers::up_to(1), &Ledger::default()), config)
            .await
            .expect("free again");
        third.stop().await;
    });
}

#[test]
fn topology_problems_are_reported_together() {
    let mut builder = Topology::builder();
    let numbers = builder.source("a", Numbers::up_to(1));
    builder.source("a", Numbers::up_to(1));
    builder.sink(
        "out",
        numbers.key_by(["missing"]),
        Arc::new(Ledger::default()),
    );
    builder.output_mode(OutputMode::Complete);
    let text = builder.build().err().expect("refused").to_string();
    for part in ["used twice", "nobody reads", "'missing'", "complete"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn changed_stateful_operator_is_refused_on_its_checkpoint() {
    let checkpoint = memory_checkpoint();
    let run = |spec: OperatorSpec| {
        let mut builder = Topology::builder();
        let numbers = builder.source("numbers", Numbers::up_to(5));
        let summed = builder.operator("sum", [numbers.key_by(["n"])], spec);
        builder.sink("ledger", summed, Arc::new(Ledger::default()));
        let topology = builder.build().expect("valid");
        block_on(async {
            let query = StreamingQuery::start(topology, config(Some(checkpoint.clone()))).await?;
            query.await_termination().await
        })
    };
    run(sum_spec(Arc::default()).with_param("keys", "n")).expect("first run");
    let error = run(sum_spec(Arc::default()).with_param("keys", "m")).expect_err("refused");
    assert_eq!(error.fault(), Fault::Checkpoint);
    assert!(
        error.to_string().contains("sum") && error.to_string().contains("keys"),
        "{error}"
    );
}

/// Calls a function on all rows and passes them on.
struct Closure<F>(F);

impl<F: FnMut(&Rows) -> Result<()> + Send> Operator for Closure<F> {
    fn process(
        &mut self,
        _: usize,
        rows: Rows,
        _: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        (self.0)(&rows)?;
        out.emit(rows);
        Ok(())
    }
}

/// Numbers into the ledger, whose second epoch fails once as if its disk were full.
fn failing_once(numbers: Numbers, ledger: &Ledger) -> Topology {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", numbers);
    let fails = Arc::clone(&ledger.fail_next_write);
    let committed = Arc::clone(&ledger.commits);
    let arm = OperatorSpec::new("arm", move |_| {
        let (fails, committed) = (Arc::clone(&fails), Arc::clone(&committed));
        let mut armed = false;
        Ok(Closure(move |_: &Rows| {
            if committed.load(Ordering::SeqCst) == 1 && !std::mem::replace(&mut armed, true) {
                fails.store(true, Ordering::SeqCst);
                committed.fetch_add(100, Ordering::SeqCst);
            }
            Ok(())
        }))
    });
    let armed = builder.operator("arm", [numbers], arm);
    builder.sink("ledger", armed, Arc::new(ledger.clone()));
    builder.build().expect("valid")
}

fn at_once() -> RestartPolicy {
    RestartPolicy {
        initial_backoff: Duration::ZERO,
        ..RestartPolicy::default()
    }
}

/// Goal: a fault outside the process restarts the generation from the newest manifest, and the rows are there once.
/// Method: a sink whose second epoch fails once.
#[test]
fn failure_outside_restarts_from_the_newest_manifest_within_the_policy() {
    let run = |restart: RestartPolicy| {
        let ledger = Ledger::default();
        let topology = failing_once(Numbers::up_to(60).per_epoch(20), &ledger);
        let config = QueryConfig {
            restart,
            ..config(None)
        };
        let result = block_on(async {
            let query = StreamingQuery::start(topology, config)
                .await
                .expect("starts");
            query.await_termination().await
        });
        (result, ledger)
    };
    let (result, ledger) = run(at_once());
    result.expect("recovers");
    assert_eq!(ledger.rows(), (0..60).collect::<Vec<_>>());

    let (result, ledger) = run(RestartPolicy::never());
    assert_eq!(result.expect_err("gives up").fault(), Fault::External);
    assert_eq!(ledger.rows(), (0..20).collect::<Vec<_>>());
}

/// Goal: who waits until everything is processed is told so although the generation that was asked has failed meanwhile.
#[test]
fn wait_for_all_that_is_there_lasts_over_a_restart() {
    let ledger = Ledger::default();
    let numbers = Numbers::up_to(20).per_epoch(20);
    let topology = failing_once(numbers.clone(), &ledger);
    let config = QueryConfig {
        restart: at_once(),
        trigger: Trigger::Default,
        ..config(None)
    };
    block_on(async {
        let query = StreamingQuery::start(topology, config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        numbers.available.store(60, Ordering::SeqCst);
        let all = tokio::time::timeout(Duration::from_secs(30), query.process_all_available());
        all.await.expect("no wait for ever").expect("goes on");
        assert_eq!(ledger.rows(), (0..60).collect::<Vec<_>>());
        query.stop().await;
    });
}
