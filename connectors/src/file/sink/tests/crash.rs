//! Crash enumeration: a scripted run is counted once and then crashed at each of its steps; what follows must end in the
//! output of an undisturbed run.

use std::path::Path;
use std::sync::Arc;

use weir_runtime::{Epoch, FailPoints, Fault, Result, Sink, SinkContext};

use super::super::{FileSink, JsonSink, manifest};
use super::support::*;

const EPOCHS: u64 = 4;

/// The only thing that survives a crash beside the output: the checkpoint's newest manifest.
#[derive(Default)]
pub(super) struct Checkpoint {
    committed: Option<Epoch>,
}

fn rows_of(epoch: u64) -> Vec<(i64, &'static str)> {
    let first = i64::try_from(epoch).unwrap() * 10;
    match epoch {
        2 => Vec::new(),
        3 => vec![(first, "a")],
        _ => vec![
            (first, "a"),
            (first + 1, "b/c"),
            (first + 2, "a"),
            (first + 3, ""),
        ],
    }
}

pub(super) fn expected() -> Vec<i64> {
    (0..EPOCHS).flat_map(rows_of).map(|row| row.0).collect()
}

fn sink(dir: &Path) -> FileSink {
    JsonSink::new(dir.to_str().unwrap())
        .partition_by(["k"])
        .build()
        .unwrap()
}

/// One generation: replays what is not committed. Each generation has another number of writers, so that a replay puts
/// the rows into other files.
pub(super) async fn generation(
    dir: &Path,
    number: u64,
    checkpoint: &mut Checkpoint,
    failpoints: &Arc<FailPoints>,
) -> Result<()> {
    let sink = sink(dir);
    let context = SinkContext {
        committed_epoch: checkpoint.committed,
        failpoints: Arc::clone(failpoints),
        ..context(number)
    };
    sink.open(&context).await?;
    let mut committer = sink.committer(&context)?;
    for epoch in checkpoint.committed.map_or(0, |epoch| epoch.0 + 1)..EPOCHS {
        let writers = if number % 2 == 1 { 2 } else { 1 };
        let prepared = stage_epoch(&sink, &context, epoch, &rows_of(epoch), writers).await?;
        failpoints.hit("test:before-commit")?;
        committer.commit(Epoch(epoch), prepared).await?;
        failpoints.hit("test:before-publish")?;
        checkpoint.committed = Some(Epoch(epoch));
    }
    Ok(())
}

/// Epochs of another query, so many that the manifest is compacted in the middle of the script.
async fn earlier_query(dir: &Path) {
    let sink = JsonSink::new(dir.to_str().unwrap()).build().unwrap();
    let context = SinkContext {
        query_id: uuid::Uuid::from_u128(1),
        ..context(1)
    };
    let mut committer = sink.committer(&context).unwrap();
    for epoch in 0..8 {
        let id = -1 - i64::try_from(epoch).unwrap();
        let prepared = write_epoch(&sink, &context, epoch, &[(id, "old")], 1)
            .await
            .unwrap();
        committer.commit(Epoch(epoch), prepared).await.unwrap();
    }
}

fn check_end(dir: &Path, earlier: &[i64], what: &str) {
    let all: Vec<i64> = earlier.iter().copied().chain(expected()).collect();
    assert_eq!(committed_ids(dir), all, "{what}: manifest");
    assert_eq!(plain_ids(dir), all, "{what}: plain listing");
    assert_eq!(
        staged_files(dir),
        Vec::<std::path::PathBuf>::new(),
        "{what}: leftovers"
    );
}

async fn steps(earlier: bool) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    if earlier {
        earlier_query(dir.path()).await;
    }
    let failpoints = Arc::new(FailPoints::recording());
    generation(dir.path(), 1, &mut Checkpoint::default(), &failpoints)
        .await
        .unwrap();
    failpoints.hits()
}

#[tokio::test]
async fn crash_at_every_step_and_again_in_the_recovery_leaves_each_row_once() {
    let steps = steps(false).await;
    assert!(steps > 60, "{steps}");
    // `WEIR_CRASH_PAIRS=1` tries every pair of steps, which takes minutes.
    let every_pair = std::env::var_os("WEIR_CRASH_PAIRS").is_some();
    for step in 0..steps {
        // The second crash comes soon, in the clean-up or the replay, each time elsewhere.
        let seconds = if every_pair {
            0..steps
        } else {
            step % 13..step % 13 + 1
        };
        for second in seconds {
            crash_twice(step, second).await;
        }
    }
}

/// Crashes one run, then the run that recovers from it, then lets a third run finish.
async fn crash_twice(step: u64, second: u64) {
    let what = format!("crash at step {step}, then at step {second} of the next run");
    let dir = tempfile::tempdir().unwrap();
    let mut checkpoint = Checkpoint::default();
    for (number, at) in [(1, step), (2, second)] {
        let crash = Arc::new(FailPoints::crash_at(at));
        let crashed = generation(dir.path(), number, &mut checkpoint, &crash).await;
        let is_crash = crashed.is_err_and(|error| error.fault() == Fault::Crash);
        assert!(
            is_crash || number == 2,
            "{what}: run {number} did not crash"
        );
        check_between(dir.path(), &what);
    }
    generation(dir.path(), 3, &mut checkpoint, &Arc::default())
        .await
        .unwrap();
    check_end(dir.path(), &[], &what);
}

#[tokio::test]
async fn crash_at_every_step_around_a_compaction_leaves_each_row_once() {
    let earlier: Vec<i64> = (-8..0).collect();
    for step in 0..steps(true).await {
        let what = format!("crash at step {step}");
        let dir = tempfile::tempdir().unwrap();
        earlier_query(dir.path()).await;
        let mut checkpoint = Checkpoint::default();
        generation(
            dir.path(),
            1,
            &mut checkpoint,
            &Arc::new(FailPoints::crash_at(step)),
        )
        .await
        .unwrap_err();
        generation(dir.path(), 2, &mut checkpoint, &Arc::default())
            .await
            .unwrap();
        check_end(dir.path(), &earlier, &what);
        assert!(
            manifest_names(dir.path()).contains(&"9.compact".to_owned()),
            "{what}"
        );
    }
}

/// After a crash: the manifest names whole epochs only, and no row is visible twice.
fn check_between(dir: &Path, what: &str) {
    let mut ids = plain_ids(dir);
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "{what}: a plain reader sees a row twice");
    let committed = committed_ids(dir);
    for epoch in 0..EPOCHS {
        let rows = rows_of(epoch);
        let seen = rows.iter().filter(|row| committed.contains(&row.0)).count();
        assert!(
            seen == 0 || seen == rows.len(),
            "{what}: epoch {epoch} is visible in part"
        );
    }
}

#[tokio::test]
async fn commit_that_failed_in_the_middle_may_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let context = context(1);
    let prepared = write_epoch(&sink, &context, 0, &rows_of(0), 1)
        .await
        .unwrap();
    for step in 0..8 {
        let crashing = SinkContext {
            failpoints: Arc::new(FailPoints::crash_at(step)),
            ..context.clone()
        };
        let mut committer = sink.committer(&crashing).unwrap();
        assert!(
            committer.commit(Epoch(0), prepared.clone()).await.is_err(),
            "step {step}"
        );
    }
    sink.committer(&context)
        .unwrap()
        .commit(Epoch(0), prepared)
        .await
        .unwrap();
    let ids: Vec<i64> = rows_of(0).iter().map(|row| row.0).collect();
    assert_eq!(
        (plain_ids(dir.path()), committed_ids(dir.path())),
        (ids.clone(), ids)
    );
}

#[tokio::test]
async fn orphans_of_a_crash_between_renames_and_manifest_are_removed_when_the_sink_opens() {
    // P106.
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let recording = SinkContext {
        failpoints: Arc::new(FailPoints::recording()),
        ..context(1)
    };
    let prepared = write_epoch(&sink, &recording, 0, &rows_of(0), 1)
        .await
        .unwrap();
    let before = recording.failpoints.hits();
    let names = {
        let probe = tempfile::tempdir().unwrap();
        let other = super::crash::sink(probe.path());
        let prepared = write_epoch(&other, &recording, 0, &rows_of(0), 1)
            .await
            .unwrap();
        other
            .committer(&recording)
            .unwrap()
            .commit(Epoch(0), prepared)
            .await
            .unwrap();
        recording.failpoints.names()
    };
    let commit = names
        .iter()
        .skip(usize::try_from(before).unwrap())
        .skip_while(|name| **name != "file-sink:commit");
    let step = commit
        .take_while(|name| **name != "file-sink:manifest:before")
        .count();
    let crash = SinkContext {
        failpoints: Arc::new(FailPoints::crash_at(step as u64)),
        ..context(1)
    };
    sink.committer(&crash)
        .unwrap()
        .commit(Epoch(0), prepared)
        .await
        .unwrap_err();
    assert_eq!(visible(dir.path()).len(), 3, "all have their final names");
    assert_eq!(manifest::committed_files(dir.path()).unwrap(), None);
    sink.open(&context(2)).await.unwrap();
    assert_eq!(visible(dir.path()), Vec::<std::path::PathBuf>::new());
}
