//! The manifest: Spark's layout, compaction, retention, damage, several writers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_runtime::{CommitOutcome, Epoch, Fault, ManualClock, Sink, SinkContext};

use super::super::{FileSink, FileSinkConfig, JsonSink, manifest};
use super::support::*;

fn sink(dir: &Path) -> FileSink {
    JsonSink::new(dir.to_str().unwrap()).build().unwrap()
}

/// A sink that keeps files of its manifest that nobody needs for so long.
fn sink_with_delay(dir: &Path, delay: Duration) -> FileSink {
    let path = dir.to_str().unwrap();
    let mut config =
        FileSinkConfig::from_options("json", path, &[], &std::collections::BTreeMap::new())
            .unwrap();
    config.log.cleanup_delay = delay;
    FileSink::new(config).unwrap()
}

async fn commit_epochs(sink: &FileSink, context: &SinkContext, epochs: std::ops::Range<u64>) {
    let mut committer = sink.committer(context).unwrap();
    for epoch in epochs {
        let row = [(i64::try_from(epoch).unwrap(), "x")];
        let prepared = stage_epoch(sink, context, epoch, &row, 1).await.unwrap();
        assert_eq!(
            committer.commit(Epoch(epoch), prepared).await.unwrap(),
            CommitOutcome::Committed
        );
    }
}

#[tokio::test]
async fn manifest_has_sparks_layout() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a b%");
    let sink = sink(&out);
    let context = context(1);
    sink.open(&context).await.unwrap();
    commit_epochs(&sink, &context, 0..1).await;
    let text = std::fs::read_to_string(out.join("_spark_metadata/0")).unwrap();
    let (header, line) = text.split_once('\n').unwrap();
    assert_eq!(header, "v1");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let keys: Vec<&str> = line
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let spark = [
        "path",
        "size",
        "isDir",
        "modificationTime",
        "blockReplication",
        "blockSize",
        "action",
    ];
    assert_eq!(keys[..7], spark);
    assert_eq!(keys[7..], ["queryId", "sinkId", "epoch"]);
    assert!(
        line["path"].as_str().unwrap().starts_with("file:///")
            && line["path"]
                .as_str()
                .unwrap()
                .contains("/a%20b%25/part-00000-")
    );
    assert_eq!(
        line["size"],
        std::fs::metadata(&visible(&out)[0]).unwrap().len()
    );
    assert_eq!(
        (
            line["isDir"].as_bool(),
            line["blockReplication"].as_i64(),
            line["blockSize"].as_i64(),
            line["action"].as_str()
        ),
        (Some(false), Some(1), Some(33_554_432), Some("add"))
    );
}

#[tokio::test]
async fn manifest_is_compacted_every_tenth_time_and_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let context = context(1);
    sink.open(&context).await.unwrap();
    for (until, names) in [
        (9, "0 1 2 3 4 5 6 7 8"),
        (10, "0 1 2 3 4 5 6 7 8 9.compact"),
        (20, "10 11 12 13 14 15 16 17 18 19.compact 9.compact"),
        (31, "19.compact 20 21 22 23 24 25 26 27 28 29.compact 30"),
    ] {
        let from = committed_ids(dir.path()).len() as u64;
        commit_epochs(&sink, &context, from..until).await;
        assert_eq!(manifest_names(dir.path()).join(" "), names);
        assert_eq!(
            committed_ids(dir.path()),
            (0..i64::try_from(until).unwrap()).collect::<Vec<_>>()
        );
    }
    let compact = std::fs::read_to_string(dir.path().join("_spark_metadata/29.compact")).unwrap();
    assert_eq!(
        compact.lines().count(),
        31,
        "the header and everything so far"
    );
}

#[tokio::test]
async fn manifest_files_go_when_their_delay_is_over_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink_with_delay(dir.path(), Duration::from_secs(600));
    let clock = Arc::new(ManualClock::new(weir_runtime::Clock::now_ms(
        &weir_runtime::SystemClock::new(),
    )));
    let context = SinkContext {
        clock: Arc::clone(&clock) as Arc<dyn weir_runtime::Clock>,
        ..context(1)
    };
    sink.open(&context).await.unwrap();
    commit_epochs(&sink, &context, 0..20).await;
    assert_eq!(manifest_names(dir.path()).len(), 20);
    clock.advance(Duration::from_secs(500));
    commit_epochs(&sink, &context, 20..21).await;
    assert_eq!(manifest_names(dir.path()).len(), 21);
    // Each of these committers is a new one, which asks the file system how old the second compact file is.
    clock.advance(Duration::from_secs(200));
    commit_epochs(&sink, &context, 21..22).await;
    let names = manifest_names(dir.path());
    assert_eq!(names.len(), 13, "{names:?}");
    assert!(names.contains(&"9.compact".to_owned()), "{names:?}");
    assert_eq!(committed_ids(dir.path()), (0..22).collect::<Vec<_>>());
}

#[tokio::test]
async fn manifest_retention_forgets_old_files_but_not_which_epochs_are_committed() {
    let dir = tempfile::tempdir().unwrap();
    let sink = JsonSink::new(dir.path().to_str().unwrap())
        .retention(Duration::from_secs(60))
        .build()
        .unwrap();
    let far = i64::MAX / 4;
    let late = SinkContext {
        clock: Arc::new(ManualClock::new(far)),
        ..context(1)
    };
    sink.open(&late).await.unwrap();
    commit_epochs(&sink, &late, 0..10).await;
    assert_eq!(
        committed_ids(dir.path()),
        [8, 9],
        "the newest epoch before the compaction and the compaction's own"
    );
    assert_eq!(plain_ids(dir.path()).len(), 10, "files stay");
    let prepared = stage_epoch(&sink, &late, 3, &[(3, "x")], 1).await.unwrap();
    let outcome = sink
        .committer(&late)
        .unwrap()
        .commit(Epoch(3), prepared)
        .await
        .unwrap();
    assert_eq!(outcome, CommitOutcome::AlreadyCommitted);
}

#[tokio::test]
async fn manifest_of_two_queries_at_the_same_time_holds_both() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let contexts = [1, 2].map(|query| SinkContext {
        query_id: uuid::Uuid::from_u128(query),
        ..context(1)
    });
    let mut committers: Vec<_> = contexts
        .iter()
        .map(|context| sink.committer(context).unwrap())
        .collect();
    let mut expected = Vec::new();
    for epoch in 0..15_u64 {
        for (query, (context, committer)) in contexts.iter().zip(&mut committers).enumerate() {
            let id = i64::try_from(epoch * 2 + query as u64).unwrap();
            let prepared = stage_epoch(&sink, context, epoch, &[(id, "x")], 1)
                .await
                .unwrap();
            assert_eq!(
                committer.commit(Epoch(epoch), prepared).await.unwrap(),
                CommitOutcome::Committed
            );
            expected.push(id);
        }
    }
    assert_eq!(committed_ids(dir.path()), expected);
}

#[tokio::test]
async fn manifest_of_a_faster_run_of_the_same_query_wins() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let (slow, fast) = (context(1), context(2));
    let slow_files = write_epoch(&sink, &slow, 0, &[(1, "x")], 1).await.unwrap();
    let mut slow_committer = sink.committer(&slow).unwrap();
    let fast_files = stage_epoch(&sink, &fast, 0, &[(1, "x")], 1).await.unwrap();
    sink.committer(&fast)
        .unwrap()
        .commit(Epoch(0), fast_files)
        .await
        .unwrap();
    assert_eq!(
        slow_committer.commit(Epoch(0), slow_files).await.unwrap(),
        CommitOutcome::AlreadyCommitted
    );
    assert_eq!(
        (plain_ids(dir.path()), committed_ids(dir.path())),
        (vec![1], vec![1])
    );
}

#[tokio::test]
async fn manifest_written_by_spark_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("_spark_metadata");
    std::fs::create_dir(&log).unwrap();
    let file = dir.path().join("part-00000-spark.json");
    std::fs::write(&file, "{\"id\":100}\n").unwrap();
    let line = format!(
        "v1\n{{\"path\":\"file://{}\",\"size\":11,\"isDir\":false,\"modificationTime\":1,\"blockReplication\":1,\"blockSize\":33554432,\"action\":\"add\"}}",
        file.display()
    );
    // Spark with a compaction every third batch.
    std::fs::write(log.join("2.compact"), &line).unwrap();
    std::fs::write(log.join("3"), "v1").unwrap();
    let sink = sink(dir.path());
    let context = context(1);
    sink.open(&context).await.unwrap();
    commit_epochs(&sink, &context, 0..3).await;
    assert_eq!(committed_ids(dir.path()), [0, 1, 2, 100]);
    assert_eq!(
        manifest_names(dir.path()),
        ["2.compact", "3", "4", "5.compact", "6"]
    );
}

#[tokio::test]
async fn manifest_damaged_or_with_a_hole_is_an_error_that_names_the_file() {
    for (name, text) in [
        (Some("1"), ""),
        (Some("1"), "v2\n"),
        (Some("1"), "v1\n{\"path\":"),
        (None, ""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let sink = sink(dir.path());
        let context = context(1);
        sink.open(&context).await.unwrap();
        commit_epochs(&sink, &context, 0..3).await;
        let log = dir.path().join("_spark_metadata");
        match name {
            Some(name) => std::fs::write(log.join(name), text).unwrap(),
            None => std::fs::remove_file(log.join("1")).unwrap(),
        }
        let error = manifest::committed_files(dir.path()).unwrap_err();
        assert_eq!(error.fault(), Fault::Checkpoint);
        assert!(error.message().contains("_spark_metadata/1"), "{error}");
        assert!(sink.committer(&context).is_err());
    }
}

#[tokio::test]
async fn committed_files_are_found_after_the_directory_was_moved() {
    let dir = tempfile::tempdir().unwrap();
    let before = dir.path().join("before");
    let sink = JsonSink::new(before.to_str().unwrap())
        .partition_by(["k"])
        .build()
        .unwrap();
    let context = context(1);
    sink.open(&context).await.unwrap();
    commit_epochs(&sink, &context, 0..2).await;
    let after = dir.path().join("after");
    std::fs::rename(&before, &after).unwrap();
    assert_eq!(committed_ids(&after), [0, 1]);
    assert_eq!(
        manifest::committed_files(dir.path()).unwrap(),
        None,
        "no manifest"
    );
}
