//! Checkpoints of stateful queries: P043, P048, P049.

use std::sync::Arc;

use weir::Fault;
use weir::runtime::FailPoints;

use super::stage::{Do, Stage};

const COUNTS: [Do; 1] = [Do::Sql("SELECT k, count(*) AS n FROM t GROUP BY k")];

fn file(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|k| format!(r#"{{"k":"{k}"}}"#)).collect()
}

fn drop_keys(stage: &Stage, keys: &[&str]) {
    let lines = file(keys);
    stage.drop_file(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The stage fails its callback if an epoch comes again with other rows.
#[tokio::test]
async fn p043_epoch_whose_commit_was_lost_comes_again_with_the_same_number_and_rows() {
    let stage = Stage::new("k STRING", &COUNTS, "update");
    let running = stage.start().await;
    for keys in [["a", "b"], ["a", "c"]] {
        drop_keys(&stage, &keys);
        running.idle().await;
    }
    running.stop().await;
    std::fs::remove_file(stage.home.path("checkpoint/commits/1")).unwrap();
    drop_keys(&stage, &["a"]);
    let running = stage.start().await;
    running.idle().await;
    running.stop().await;
    assert_eq!(stage.upserted(), ["a|3", "b|1", "c|1"]);
    assert_eq!(stage.epochs().into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

/// Fault points of an epoch, from the one that logs its plan to the one after its manifest.
async fn places_of_an_epoch() -> u64 {
    let mut stage = Stage::new("k STRING", &COUNTS, "update");
    let counted = Arc::new(FailPoints::recording());
    stage.engine(|engine| engine.failpoints = Arc::clone(&counted));
    let running = stage.start().await;
    drop_keys(&stage, &["a"]);
    running.idle().await;
    let after_one = counted.hits();
    drop_keys(&stage, &["a"]);
    running.idle().await;
    running.stop().await;
    counted.hits() - after_one
}

#[tokio::test]
async fn p048_epoch_that_failed_after_its_snapshot_leaves_nothing_behind_that_harms() {
    let places = places_of_an_epoch().await;
    for place in 0..places {
        let mut stage = Stage::new("k STRING", &COUNTS, "update");
        drop_keys(&stage, &["a", "b"]);
        let running = stage.start().await;
        running.idle().await;
        running.stop().await;
        drop_keys(&stage, &["a", "c"]);
        stage.engine(|engine| engine.failpoints = Arc::new(FailPoints::crash_at(place)));
        match stage.try_start().await {
            Ok(running) => match running.query.process_all_available().await {
                Ok(()) => running.stop().await,
                Err(error) => assert_eq!(error.fault(), Fault::Crash, "{error}"),
            },
            Err(error) => assert_eq!(error.fault(), Fault::Crash, "{error}"),
        }
        stage.engine(|engine| engine.failpoints = Arc::default());
        for _ in 2..=5 {
            let running = stage.start().await;
            running.idle().await;
            drop_keys(&stage, &["a"]);
            running.idle().await;
            running.stop().await;
        }
        assert_eq!(stage.upserted(), ["a|6", "b|1", "c|1"], "crash at {place}");
    }
}

#[tokio::test]
async fn p049_state_can_be_restored_after_many_epochs_with_little_retention() {
    let stage =
        Stage::new("k STRING", &COUNTS, "update").with("spark.sql.streaming.minBatchesToRetain", 2);
    let running = stage.start().await;
    for _ in 0..40 {
        drop_keys(&stage, &["a", "b"]);
        running.idle().await;
    }
    running.stop().await;
    let kept = std::fs::read_dir(stage.home.path("checkpoint/commits"))
        .unwrap()
        .count();
    assert!(kept < 25, "{kept} manifests kept of 40 epochs");
    for _ in 0..3 {
        let running = stage.start().await;
        drop_keys(&stage, &["b"]);
        running.idle().await;
        running.stop().await;
    }
    assert_eq!(stage.upserted(), ["a|40", "b|43"]);
}
