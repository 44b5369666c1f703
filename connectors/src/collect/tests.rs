//! Collecting by direct calls: order, generations, repeated commits, limits.

#![allow(clippy::unwrap_used)]

use weir_runtime::{Fault, OutputMode};

use super::*;
use crate::test_context::{changes, numbers, rows, sink_context, values};

type Seen = Arc<Mutex<Vec<(u64, Vec<i64>)>>>;

fn recording(collector: &Collector, context: &SinkContext, seen: &Seen) -> Box<dyn SinkCommitter> {
    let seen = Arc::clone(seen);
    collector.committer(context, move |epoch, batches| {
        let batches: Vec<_> = batches
            .iter()
            .map(|batch| batch.rows.batch().clone())
            .collect();
        seen.lock().unwrap().push((epoch.0, values(&batches)));
        Box::pin(async { Ok(()) })
    })
}

async fn prepare(writers: &mut [Box<dyn SinkWriter>], epoch: u64) -> Vec<Committable> {
    let mut committables = Vec::new();
    for writer in writers {
        committables.push(writer.prepare(Epoch(epoch)).await.unwrap());
    }
    committables
}

#[tokio::test]
async fn collected_rows_come_by_origin_whatever_the_subtask_and_time() {
    let (collector, seen) = (Collector::new(), Seen::default());
    let context = sink_context(1, 1, OutputMode::Append, None);
    collector.open(&context);
    let mut writers = [collector.writer(&context, 0), collector.writer(&context, 1)];
    writers[1].write(rows(0, 0, 1, &[3])).await.unwrap();
    writers[1].write(rows(0, 0, 0, &[2])).await.unwrap();
    writers[0].write(rows(0, 1, 0, &[4])).await.unwrap();
    writers[0].write(rows(0, 0, 0, &[1])).await.unwrap();
    writers[0].write(rows(1, 0, 0, &[5])).await.unwrap();
    writers[0].write(rows(0, 2, 0, &[])).await.unwrap();
    let mut committer = recording(&collector, &context, &seen);
    let committables = prepare(&mut writers, 0).await;
    assert_eq!(committables, [json!({"rows": 2}), json!({"rows": 2})]);
    let first = committer
        .commit(Epoch(0), committables.clone())
        .await
        .unwrap();
    let second = committer.commit(Epoch(0), committables).await.unwrap();
    assert_eq!(first, CommitOutcome::Committed);
    assert_eq!(second, CommitOutcome::AlreadyCommitted);
    let committables = prepare(&mut writers, 1).await;
    committer.commit(Epoch(1), committables).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, vec![1, 2, 3, 4]), (1, vec![5])]);
}

#[tokio::test]
async fn collected_rows_of_a_dead_generation_are_dropped_and_its_writers_refused() {
    let (collector, seen) = (Collector::new(), Seen::default());
    let old = sink_context(1, 1, OutputMode::Append, None);
    collector.open(&old);
    let mut dead = collector.writer(&old, 0);
    dead.write(rows(0, 0, 0, &[1])).await.unwrap();
    let new = sink_context(1, 2, OutputMode::Append, None);
    collector.open(&new);
    assert_eq!(
        dead.write(rows(0, 0, 1, &[2])).await.unwrap_err().fault(),
        Fault::Killed
    );
    let mut writers = [collector.writer(&new, 0)];
    writers[0].write(rows(0, 0, 0, &[1])).await.unwrap();
    let committables = prepare(&mut writers, 0).await;
    recording(&collector, &new, &seen)
        .commit(Epoch(0), committables)
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, vec![1])]);
}

#[tokio::test]
async fn hand_over_that_fails_runs_again_and_one_that_succeeded_does_not() {
    let collector = Collector::new();
    let context = sink_context(1, 1, OutputMode::Append, None);
    collector.open(&context);
    let mut writers = [collector.writer(&context, 0)];
    writers[0].write(rows(0, 0, 0, &[7])).await.unwrap();
    let mut calls = 0;
    let mut committer = collector.committer(&context, move |_, batches| {
        calls += 1;
        let failed = calls == 1;
        Box::pin(async move {
            assert_eq!(batches.len(), 1, "the rows are still there");
            if failed {
                Err(WeirError::external("not now"))
            } else {
                Ok(())
            }
        })
    });
    let committables = prepare(&mut writers, 0).await;
    assert!(
        committer
            .commit(Epoch(0), committables.clone())
            .await
            .is_err()
    );
    assert_eq!(collector.done(), None);
    let outcome = committer.commit(Epoch(0), committables).await.unwrap();
    assert_eq!(
        (outcome, collector.done()),
        (CommitOutcome::Committed, Some(Epoch(0)))
    );
    // The next generation of the query replays the epoch; another query starts from nothing.
    collector.open(&sink_context(1, 2, OutputMode::Append, None));
    assert_eq!(collector.done(), Some(Epoch(0)));
    collector.open(&sink_context(2, 1, OutputMode::Append, None));
    assert_eq!(collector.done(), None);
}

#[tokio::test]
async fn committables_that_do_not_fit_the_rows_are_a_defect() {
    let collector = Collector::new();
    let context = sink_context(1, 1, OutputMode::Append, None);
    collector.open(&context);
    let mut committer = collector.committer(&context, |_, _| Box::pin(async { Ok(()) }));
    let error = committer
        .commit(Epoch(0), vec![json!({"rows": 3})])
        .await
        .unwrap_err();
    assert_eq!(error.fault(), Fault::Internal);
}

#[tokio::test]
async fn first_rows_keeps_the_first_of_each_subtask_within_bounds() {
    let collector = Collector::first_rows(2);
    let context = sink_context(1, 1, OutputMode::Append, None);
    collector.open(&context);
    let mut writers = [collector.writer(&context, 0)];
    for sequence in (0..60).rev() {
        let value = i64::try_from(sequence).unwrap();
        writers[0]
            .write(rows(0, 0, sequence, &[value; 1000]))
            .await
            .unwrap();
    }
    let committables = prepare(&mut writers, 0).await;
    assert_eq!(committables, [json!({"rows": 60_000})]);
    let (batches, written) = collector.ordered(1, Epoch(0)).unwrap().unwrap();
    assert_eq!(
        (written, values(&[batches[0].rows.batch().clone()])[0]),
        (60_000, 0)
    );
    assert!(batches.len() < 20, "held {} batches", batches.len());
}

#[test]
fn current_rows_leave_out_what_was_taken_back() {
    let inserts = Rows::inserts(numbers(&[1]));
    assert_eq!(values(&[current_rows(&inserts).unwrap()]), [1]);
    let changed = changes(0, &[1, 2, 3, 4], &[0, 1, 2, 3]).rows;
    assert!(withdraws(&changed) && !withdraws(&inserts));
    assert_eq!(values(&[current_rows(&changed).unwrap()]), [1, 3]);
}
