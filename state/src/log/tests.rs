//! Logs on a real directory: what people read, what a second writer meets, what damage does.

use serde_json::json;

use super::*;
use crate::fingerprint::Problem;
use crate::plan::SourceRange;

fn local(dir: &tempfile::TempDir) -> CheckpointLog {
    let path = dir.path().to_str().expect("unicode");
    CheckpointLog::new(CheckpointLocation::open(path).expect("open"))
}

fn plan(epoch: u64) -> Plan {
    Plan {
        epoch: Epoch(epoch),
        generation: 3,
        watermark_ms: -5,
        batch_timestamp_ms: 1_795_982_513_155,
        config: [("weir.shuffle.partitions".to_string(), "2".to_string())].into(),
        sources: vec![SourceRange {
            source: "events".into(),
            start: epoch.checked_sub(1).map(|e| json!({"logOffset": e})),
            end: json!({"logOffset": epoch}),
        }],
    }
}

fn manifest(epoch: u64) -> Manifest {
    let mut manifest = Manifest::new(Epoch(epoch), 3, 17);
    manifest
        .committables
        .insert("out".into(), json!({"files": 2, "rows": u64::MAX}));
    manifest
}

async fn with_epochs(log: &CheckpointLog, plans: u64, manifests: u64) {
    log.create_metadata(&Metadata::new(BTreeMap::new()))
        .await
        .expect("metadata");
    for epoch in 0..plans {
        log.publish_plan(&plan(epoch)).await.expect("plan");
    }
    for epoch in 0..manifests {
        log.publish_manifest(&manifest(epoch))
            .await
            .expect("manifest");
    }
}

#[tokio::test]
async fn log_what_is_published_is_read_back() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    assert_eq!(log.load_metadata().await.expect("load"), None);
    assert_eq!(log.read_plan(Epoch(0)).await.expect("read"), None);
    with_epochs(&log, 2, 1).await;
    assert_eq!(log.read_plan(Epoch(1)).await.expect("read"), Some(plan(1)));
    assert_eq!(
        log.read_manifest(Epoch(0)).await.expect("read"),
        Some(manifest(0))
    );
    let epochs = log.list_epochs().await.expect("list");
    assert_eq!(epochs.plans, [Epoch(0), Epoch(1)]);
    assert_eq!(epochs.manifests, [Epoch(0)]);
}

#[tokio::test]
async fn log_files_are_readable_by_people() {
    let dir = tempfile::tempdir().expect("dir");
    with_epochs(&local(&dir), 1, 1).await;
    let text = std::fs::read_to_string(dir.path().join("offsets/0")).expect("utf-8");
    let mut lines = text.lines();
    let header = lines.next().expect("header");
    assert!(header.starts_with("v1 crc32:"), "{header}");
    assert!(text.contains("\n  \"watermark_ms\": -5,\n"), "{text}");
    let body: String = lines.collect();
    let value: serde_json::Value = serde_json::from_str(&body).expect("json");
    assert_eq!(value["sources"][0]["end"], json!({"logOffset": 0}));
}

#[tokio::test]
async fn log_epochs_sort_by_number_and_other_names_are_ignored() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 12, 12).await;
    for name in ["README", "007", "5.bak", ".5.crc", "5.tmp"] {
        std::fs::write(dir.path().join("offsets").join(name), "x").expect("write");
    }
    std::fs::write(dir.path().join("notes.txt"), "x").expect("write");
    let expected: Vec<Epoch> = (0..12).map(Epoch).collect();
    assert_eq!(log.list_epochs().await.expect("list").plans, expected);
    assert_eq!(
        log.recover().await.expect("recover").next_epoch(),
        Epoch(12)
    );
}

#[tokio::test]
async fn publish_twice_is_a_concurrent_writer_naming_both_generations() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 1, 1).await;
    let mut other = manifest(0);
    other.generation = 4;
    for error in [
        log.publish_plan(&Plan {
            generation: 4,
            ..plan(0)
        })
        .await,
        log.publish_manifest(&other).await,
    ] {
        let error = error.expect_err("conflict");
        assert!(matches!(
            error,
            StateError::ConcurrentWriter {
                ours: Some(4),
                theirs: Some(3),
                epoch: Some(Epoch(0)),
                ..
            }
        ));
        assert!(error.to_string().contains("generation 3"), "{error}");
    }
    let again = log.create_metadata(&Metadata::new(BTreeMap::new())).await;
    assert!(matches!(again, Err(StateError::ConcurrentWriter { .. })));
    assert_eq!(
        log.read_manifest(Epoch(0)).await.expect("read"),
        Some(manifest(0))
    );
}

#[test]
fn publish_raced_by_two_writers_has_one_winner_per_epoch() {
    let dir = tempfile::tempdir().expect("dir");
    let race = |generation: u64| {
        let log = local(&dir);
        std::thread::spawn(move || -> Vec<bool> {
            let publish = |epoch| {
                let manifest = Manifest::new(Epoch(epoch), generation, 0);
                futures::executor::block_on(log.publish_manifest(&manifest))
            };
            (0..200)
                .map(|epoch| match publish(epoch) {
                    Ok(()) => true,
                    Err(StateError::ConcurrentWriter { .. }) => false,
                    Err(other) => panic!("{other}"),
                })
                .collect()
        })
    };
    let (a, b) = (race(1), race(2));
    let (a, b) = (a.join().expect("join"), b.join().expect("join"));
    let log = local(&dir);
    for epoch in 0..200 {
        assert!(a[epoch] ^ b[epoch], "epoch {epoch}");
        let read = futures::executor::block_on(log.read_manifest(Epoch(epoch as u64)));
        let winner = read.expect("read").expect("there").generation;
        assert_eq!(winner, if a[epoch] { 1 } else { 2 });
    }
}

#[tokio::test]
async fn recover_fresh_directory_is_fresh_also_with_a_lease() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    assert_eq!(log.recover().await.expect("fresh"), Recovery::Fresh);
    std::fs::write(dir.path().join("lease"), "").expect("write");
    std::fs::create_dir(dir.path().join("offsets")).expect("dir");
    std::fs::create_dir(dir.path().join("lost+found")).expect("dir");
    assert_eq!(log.recover().await.expect("fresh"), Recovery::Fresh);
    let nowhere = dir.path().join("not/there");
    let log = CheckpointLog::new(
        CheckpointLocation::open(nowhere.to_str().expect("unicode")).expect("open"),
    );
    assert_eq!(log.recover().await.expect("fresh"), Recovery::Fresh);
    assert!(!nowhere.exists(), "looking makes nothing");
}

#[tokio::test]
async fn recover_foreign_directory_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::create_dir(dir.path().join("photos")).expect("dir");
    std::fs::write(dir.path().join("thesis.doc"), "x").expect("write");
    let error = local(&dir).recover().await.expect_err("foreign");
    let text = error.to_string();
    assert!(
        text.contains("`thesis.doc`") && text.contains("`photos`"),
        "{text}"
    );
}

#[tokio::test]
async fn recover_metadata_missing_beside_state_is_refused() {
    for (name, missing) in [
        ("offsets/0", true),
        ("sources/0/0", true),
        ("state/a/0/0.1", true),
    ] {
        let dir = tempfile::tempdir().expect("dir");
        let log = local(&dir);
        log.location().put(name, "x").await.expect("put");
        let error = log.recover().await.expect_err("missing");
        assert_eq!(matches!(error, StateError::Missing { .. }), missing);
        assert!(
            error.path().expect("path").ends_with("/metadata"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn recover_torn_newest_plan_is_deleted_and_the_epoch_can_be_planned_again() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 4, 3).await;
    let path = dir.path().join("offsets/3");
    let whole = std::fs::read(&path).expect("read");
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).expect("truncate");
        let recovery = log.recover().await.expect("recover");
        assert_eq!(recovery.next_epoch(), Epoch(3), "cut at {len}");
        assert!(
            matches!(&recovery, Recovery::Resume { replay: None, discarded, .. } if *discarded == ["offsets/3"]),
            "cut at {len}: {recovery:?}"
        );
        assert!(!path.exists());
    }
    log.publish_plan(&plan(3)).await.expect("planned anew");
    let recovery = log.recover().await.expect("recover");
    assert!(matches!(recovery, Recovery::Resume { replay: Some(p), .. } if p == plan(3)));
}

/// Goal: damage never panics and never passes for content. Method: every truncation and every flipped byte of
/// every kind of log file.
#[tokio::test]
async fn recover_damage_anywhere_is_an_error_or_a_discarded_plan() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 2, 2).await;
    for name in ["metadata", "offsets/1", "commits/1"] {
        let path = dir.path().join(name);
        let whole = std::fs::read(&path).expect("read");
        let truncated = (0..whole.len()).map(|len| whole[..len].to_vec());
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x01;
            bytes
        });
        for bytes in truncated.chain(flipped) {
            std::fs::write(&path, &bytes).expect("write");
            let error = match name {
                "metadata" => log.load_metadata().await.map(|_| ()),
                _ => log.recover().await.map(|_| ()),
            }
            .expect_err(name);
            assert!(
                matches!(
                    error,
                    StateError::Damaged { .. } | StateError::UnsupportedVersion { .. }
                ),
                "{error}"
            );
            assert!(error.path().expect("path").ends_with(name), "{error}");
        }
        std::fs::write(&path, &whole).expect("restore");
    }
    assert_eq!(
        log.recover().await.expect("whole again").next_epoch(),
        Epoch(2)
    );
}

#[tokio::test]
async fn recover_torn_newest_manifest_runs_again_when_asked_to() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 3, 3).await;
    std::fs::write(dir.path().join("commits/2"), "").expect("truncate");
    log.recover().await.expect_err("refused by default");
    assert!(
        dir.path().join("commits/2").exists(),
        "refusing changes nothing"
    );
    let recovery = log
        .recover_with(TornManifest::RunAgain)
        .await
        .expect("recover");
    assert!(
        matches!(&recovery, Recovery::Resume { replay: Some(p), last_manifest: Some(m), .. }
            if p.epoch == Epoch(2) && m.epoch == Epoch(1)),
        "{recovery:?}"
    );
    log.publish_manifest(&manifest(2))
        .await
        .expect("committed again");
}

#[tokio::test]
async fn read_file_of_another_epoch_is_damaged() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 2, 2).await;
    std::fs::copy(dir.path().join("commits/0"), dir.path().join("commits/1")).expect("copy");
    let error = log.recover().await.expect_err("wrong epoch").to_string();
    assert!(
        error.contains("commits/1") && error.contains("of epoch 0"),
        "{error}"
    );
}

#[tokio::test]
async fn read_newer_version_is_told_from_damage() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    with_epochs(&log, 1, 1).await;
    std::fs::write(dir.path().join("offsets/1"), "v2 blake3:00 2\n{}").expect("write");
    let error = log.recover().await.expect_err("newer");
    assert!(
        matches!(
            error,
            StateError::UnsupportedVersion {
                found: 2,
                max: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        dir.path().join("offsets/1").exists(),
        "a newer plan is not discarded"
    );

    let mut metadata = log.load_metadata().await.expect("load").expect("there");
    metadata.format_version = FORMAT_VERSION + 1;
    log.update_metadata(&metadata).await.expect("update");
    let error = log.load_metadata().await.expect_err("newer");
    assert!(
        matches!(error, StateError::UnsupportedVersion { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn metadata_of_spark_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().expect("dir");
    let spark = r#"{"id":"afa005f5-f4e5-4f81-9286-fab0160ea24d"}"#;
    std::fs::write(dir.path().join("metadata"), spark).expect("write");
    let error = local(&dir)
        .load_metadata()
        .await
        .expect_err("foreign")
        .to_string();
    assert!(
        error.contains("checkpoints of other systems cannot be continued"),
        "{error}"
    );
}

#[tokio::test]
async fn metadata_update_keeps_the_id_and_operators_are_checked() {
    let dir = tempfile::tempdir().expect("dir");
    let log = local(&dir);
    let agg = |size: &str| Fingerprint::stateful("window").param("size", size);
    let metadata = Metadata::new([("agg".to_string(), agg("10s"))].into());
    log.create_metadata(&metadata).await.expect("create");
    let loaded = log.load_metadata().await.expect("load").expect("there");
    assert_eq!(loaded, metadata);
    let error = log
        .check_operators(&loaded, &[("agg".to_string(), agg("20s"))].into())
        .expect_err("changed");
    assert!(error.path().is_some());
    let StateError::Incompatible { source, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(
        source.problems[..],
        [Problem::ParamChanged { .. }]
    ));
    let text = error.to_string();
    assert!(text.contains("`10s`") && text.contains("`20s`"), "{text}");
}

#[tokio::test]
async fn log_in_memory_survives_a_restart_in_the_process() {
    let url = format!("memory://{}", uuid::Uuid::new_v4());
    let log = CheckpointLog::new(CheckpointLocation::open(&url).expect("open"));
    with_epochs(&log, 3, 2).await;
    let again = CheckpointLog::new(CheckpointLocation::open(&url).expect("open"));
    let recovery = again.recover().await.expect("recover");
    assert!(matches!(recovery, Recovery::Resume { replay: Some(p), .. } if p == plan(2)));
}

#[test]
fn log_futures_can_move_between_threads() {
    fn assert_send<T: Send>(_: T) {}
    let log = CheckpointLog::new(CheckpointLocation::open("memory://x").expect("open"));
    assert_send(log.recover());
    assert_send(log.prune(crate::Retention::default()));
    let (plan, manifest) = (plan(0), manifest(0));
    assert_send(log.publish_plan(&plan));
    assert_send(log.publish_manifest(&manifest));
}
