//! Goal: which rows are late and when state closes is decided by plans, so that it is the same after any crash.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_runtime::*;

use crate::parts::{Ledger, Numbers};
use crate::stateful::{map, times, wait};
use crate::{block_on, config, memory_checkpoint};

/// Numbers → function → event times, 5 ms behind → wait for the watermark → ledger; late rows → another ledger.
fn waiting(source: Numbers, time: fn(i64) -> i64, closed: &Ledger, late: &Ledger) -> Topology {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", source);
    let mapped = builder.operator("time", [numbers], map(time));
    let timed = builder.operator("watermark", [mapped], times(5));
    let waiting = builder.operator("wait", [timed.key_by(["n"])], wait());
    let late_rows = builder.late_output(waiting);
    builder.sink("closed", waiting, Arc::new(closed.clone()));
    builder.sink("late", late_rows, Arc::new(late.clone()));
    builder.build().expect("a valid topology")
}

fn epochs(ledger: &Ledger) -> Vec<(u64, Vec<i64>)> {
    let epochs = ledger.epochs.lock().expect("ledger").clone();
    let sorted = epochs.into_iter().map(|(epoch, mut rows)| {
        rows.sort_unstable();
        (epoch, rows)
    });
    sorted.filter(|(_, rows)| !rows.is_empty()).collect()
}

fn run(topology: Topology, config: QueryConfig) -> Result<StreamingQuery> {
    block_on(async {
        let query = StreamingQuery::start(topology, config).await?;
        query.await_termination().await?;
        Ok(query)
    })
}

fn span(from: i64, to: i64) -> Vec<i64> {
    (from..=to).collect()
}

#[test]
fn epoch_without_rows_follows_when_the_watermark_moved_and_then_the_query_ends() {
    let (closed, late) = (Ledger::default(), Ledger::default());
    let source = Numbers::up_to(60).per_epoch(20);
    let query = run(waiting(source, |n| n, &closed, &late), config(None)).expect("ends well");
    assert_eq!(
        epochs(&closed),
        [(1, span(1, 14)), (2, span(15, 34)), (3, span(35, 54))]
    );
    assert_eq!(epochs(&late), [(0, vec![0])], "1970 is late from the start");
    let progress = query.recent_progress();
    let told: Vec<_> = progress
        .iter()
        .map(|p| {
            (
                p.batch_id,
                p.num_input_rows,
                p.event_time["watermark"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, 20, "1970-01-01T00:00:00.000Z"),
            (1, 20, "1970-01-01T00:00:00.014Z"),
            (2, 20, "1970-01-01T00:00:00.034Z"),
            (3, 0, "1970-01-01T00:00:00.054Z"),
        ]
    );
    let dropped: Vec<_> = progress
        .iter()
        .map(|p| p.state_operators[0].num_rows_dropped_by_watermark)
        .collect();
    assert_eq!(dropped, [1, 0, 0, 0], "late rows are told by epoch");
}

#[test]
fn epoch_without_rows_that_was_not_wanted_runs_first_after_a_restart_that_wants_it() {
    let (closed, late, checkpoint) = (Ledger::default(), Ledger::default(), memory_checkpoint());
    let topology = || waiting(Numbers::up_to(20), |n| n, &closed, &late);
    let off = QueryConfig {
        no_data_epochs: false,
        ..config(Some(checkpoint.clone()))
    };
    run(topology(), off.clone()).expect("ends well");
    let once = QueryConfig {
        trigger: Trigger::Once,
        no_data_epochs: true,
        ..off.clone()
    };
    run(topology(), once).expect("ends well");
    assert_eq!(epochs(&closed), [], "off, and never with the trigger once");
    run(topology(), config(Some(checkpoint))).expect("ends well");
    assert_eq!(epochs(&closed), [(1, span(1, 14))]);
}

#[test]
fn stateless_query_gets_no_epoch_without_rows() {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", Numbers::up_to(20));
    let timed = builder.operator("watermark", [numbers], times(5));
    builder.sink("ledger", timed, Arc::new(Ledger::default()));
    let query = run(builder.build().expect("valid"), config(None)).expect("ends well");
    assert_eq!(query.recent_progress().len(), 1);
}

/// Rows of the third epoch are of times 10 to 29: by the watermark of the epoch before (14) the first five are late, by the
/// epoch's own (34) all would be.
fn third_epoch_back(n: i64) -> i64 {
    if n < 40 { n } else { n - 30 }
}

const BACK: [(u64, (i64, i64)); 2] = [(1, (1, 14)), (2, (15, 34))];

fn assert_back(closed: &Ledger, late: &Ledger, situation: &str) {
    let mut expected: Vec<_> = BACK
        .iter()
        .map(|(epoch, (from, to))| (*epoch, span(*from, *to)))
        .collect();
    assert_eq!(epochs(closed).remove(0), expected.remove(0), "{situation}");
    assert_eq!(
        epochs(late),
        [(0, vec![0]), (2, span(10, 14))],
        "{situation}"
    );
    // Times 15 to 29 came twice; the table keeps one of each.
    assert_eq!(
        epochs(closed),
        [(1, span(1, 14)), (2, span(15, 34))],
        "{situation}"
    );
}

#[test]
fn e1_rows_after_a_restart_are_late_by_the_watermark_of_the_last_committed_epoch() {
    let (closed, late, checkpoint) = (Ledger::default(), Ledger::default(), memory_checkpoint());
    let config = QueryConfig {
        no_data_epochs: false,
        ..config(Some(checkpoint))
    };
    for rows in [40, 60] {
        let source = Numbers::up_to(rows).per_epoch(20);
        let topology = waiting(source, third_epoch_back, &closed, &late);
        run(topology, config.clone()).expect("ends well");
    }
    assert_back(&closed, &late, "restarted after the second epoch");
}

#[test]
fn e1_e7_late_rows_and_closed_state_are_the_same_after_a_crash_at_every_place() {
    let go = |checkpoint: &str, closed: &Ledger, late: &Ledger, failpoints, parallelism| {
        let source = Numbers::up_to(60).per_epoch(20);
        let config = QueryConfig {
            failpoints,
            parallelism,
            ..config(Some(checkpoint.to_owned()))
        };
        run(waiting(source, third_epoch_back, closed, late), config)
    };
    let recording = Arc::new(FailPoints::recording());
    let (closed, late) = (Ledger::default(), Ledger::default());
    go(
        &memory_checkpoint(),
        &closed,
        &late,
        Arc::clone(&recording),
        2,
    )
    .expect("ends well");
    assert_back(&closed, &late, "undisturbed");
    for place in 0..recording.hits() {
        let (closed, late, checkpoint) =
            (Ledger::default(), Ledger::default(), memory_checkpoint());
        let crash = Arc::new(FailPoints::crash_at(place));
        let _crashed = go(&checkpoint, &closed, &late, crash, 2).is_err();
        go(&checkpoint, &closed, &late, Arc::default(), 3).expect("recovers");
        assert_back(&closed, &late, &format!("crash at place {place}"));
    }
}

#[test]
fn e7_stream_that_is_silent_for_the_timeout_lets_the_watermark_go() {
    let closed = Ledger::default();
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut builder = Topology::builder();
    let lively = builder.source("lively", Numbers::up_to(60));
    let silent = builder.source("silent", Numbers::up_to(0));
    let lively = builder.operator("lively-times", [lively], times(5));
    let silent = builder.operator("silent-times", [silent], times(5));
    let waiting = builder.operator("wait", [lively.key_by(["n"]), silent.key_by(["n"])], wait());
    builder.sink("closed", waiting, Arc::new(closed.clone()));
    let config = QueryConfig {
        trigger: Trigger::Default,
        clock: Arc::<ManualClock>::clone(&clock),
        watermark: WatermarkSettings {
            idle_timeout: Some(Duration::from_secs(30)),
            ..WatermarkSettings::default()
        },
        ..config(None)
    };
    block_on(async {
        let query = StreamingQuery::start(builder.build().expect("valid"), config)
            .await
            .expect("starts");
        query.process_all_available().await.expect("processed");
        clock.advance(Duration::from_secs(29));
        query.process_all_available().await.expect("processed");
        assert_eq!(epochs(&closed), [], "the silent stream holds it");
        clock.advance(Duration::from_secs(1));
        query.process_all_available().await.expect("processed");
        assert_eq!(epochs(&closed), [(1, span(1, 54))]);
        query.stop().await;
    });
}

#[test]
fn times_too_far_ahead_of_the_plan_do_not_move_the_watermark() {
    let (closed, late) = (Ledger::default(), Ledger::default());
    let config = QueryConfig {
        clock: Arc::new(ManualClock::new(20)),
        watermark: WatermarkSettings {
            max_future_skew: Some(Duration::from_millis(10)),
            ..WatermarkSettings::default()
        },
        ..config(None)
    };
    let source = Numbers::up_to(60);
    let available = Arc::clone(&source.available);
    let query = run(waiting(source, |n| n, &closed, &late), config).expect("ends well");
    assert_eq!(available.load(Ordering::SeqCst), 60);
    assert_eq!(epochs(&closed), [(1, span(1, 25))], "30 less 5");
    let future: u64 = query
        .metrics()
        .operators()
        .iter()
        .map(|(.., counts)| counts.future)
        .sum();
    assert_eq!(future, 29);
}

/// Numbers in two partitions, twenty each in turn: 0 to 19 in p0, 20 to 39 in p1, 40 to 59 in p0, …
struct Partitions(Numbers);

#[async_trait]
impl Source for Partitions {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn description(&self) -> String {
        "Partitions".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("partitions")
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        self.0.open(context).await
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        self.0.latest(start, admission).await
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.0.fix_end().await
    }

    async fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let mut splits = self.0.splits(epoch, start, end).await?;
        for split in &mut splits {
            let from = split.payload[0].as_u64().expect("a number");
            split.name = format!("p{}", from / 20 % 2);
        }
        Ok(splits)
    }

    fn long_lived_splits(&self) -> Vec<String> {
        vec!["p0".to_owned(), "p1".to_owned()]
    }

    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        self.0.reader(subtask)
    }
}

#[test]
fn e7_slowest_partition_decides_where_asked_also_after_a_restart() {
    let (closed, checkpoint) = (Ledger::default(), memory_checkpoint());
    let go = |rows: u64| {
        let mut builder = Topology::builder();
        let source = Partitions(Numbers::up_to(rows).per_epoch(20));
        let numbers = builder.source("numbers", source);
        let timed = builder.operator("watermark", [numbers], times(5));
        let waiting = builder.operator("wait", [timed.key_by(["n"])], wait());
        builder.sink("closed", waiting, Arc::new(closed.clone()));
        let config = QueryConfig {
            watermark: WatermarkSettings {
                per_split: true,
                ..WatermarkSettings::default()
            },
            ..config(Some(checkpoint.clone()))
        };
        run(builder.build().expect("valid"), config).expect("ends well");
    };
    go(20);
    assert_eq!(epochs(&closed), [], "p1 has not begun");
    go(40);
    assert_eq!(epochs(&closed), [(2, span(1, 14))]);
    go(60);
    assert_eq!(epochs(&closed).last(), Some(&(4, span(15, 34))));
}
