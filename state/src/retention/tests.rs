//! What pruning keeps and what it deletes.

use super::*;
use crate::manifest::{Manifest, SnapshotRef};
use crate::plan::Plan;
use crate::{CheckpointLocation, Recovery};

fn keep(min_epochs: u64) -> Retention {
    Retention {
        min_epochs: NonZeroU64::new(min_epochs).expect("not 0"),
    }
}

fn inventory(plans: std::ops::RangeInclusive<u64>, manifests: &[(u64, &[&str])]) -> Inventory {
    Inventory {
        plans: plans.map(Epoch).collect(),
        manifests: manifests
            .iter()
            .map(|(epoch, files)| (Epoch(*epoch), files.iter().map(|f| f.to_string()).collect()))
            .collect(),
        ..Inventory::default()
    }
}

#[test]
fn doomed_fewer_epochs_than_kept_is_nothing() {
    let few = inventory(0..=3, &[(0, &["a"]), (1, &["b"]), (2, &["c"])]);
    assert_eq!(doomed(&few, keep(3)), Pruned::default());
    assert_eq!(doomed(&few, Retention::default()), Pruned::default());
    assert_eq!(doomed(&inventory(0..=0, &[]), keep(1)), Pruned::default());
}

#[test]
fn doomed_older_epochs_go_with_their_plans_and_files() {
    let all = inventory(0..=4, &[(0, &["a"]), (1, &["b"]), (2, &["c"]), (3, &["d"])]);
    let pruned = doomed(&all, keep(2));
    assert_eq!(pruned.manifests, [Epoch(0), Epoch(1)]);
    assert_eq!(pruned.plans, [Epoch(0), Epoch(1)]);
    assert_eq!(pruned.files, ["a", "b"]);
}

#[test]
fn doomed_file_a_kept_manifest_still_names_stays() {
    let all = inventory(
        0..=2,
        &[(0, &["old", "x"]), (1, &["old"]), (2, &["old", "y"])],
    );
    assert_eq!(doomed(&all, keep(1)).files, ["x"]);
}

#[test]
fn doomed_keeping_one_leaves_the_newest_manifest_and_its_plan() {
    let all = inventory(0..=3, &[(0, &[]), (1, &[]), (2, &["s"])]);
    let pruned = doomed(&all, keep(1));
    assert_eq!(pruned.manifests, [Epoch(0), Epoch(1)]);
    assert_eq!(pruned.plans, [Epoch(0), Epoch(1)]);
    assert!(pruned.files.is_empty());
}

#[test]
fn doomed_found_files_nobody_names_go_unless_their_epoch_is_open() {
    let mut all = inventory(0..=2, &[(0, &["state/a/0/0.1"]), (1, &["state/a/0/1.2"])]);
    all.found = [
        "state/a/0/0.1",
        "state/a/0/1.1",
        "state/a/0/1.2",
        "state/a/0/2.2",
        "state/a/0/CURRENT",
    ]
    .map(str::to_string)
    .to_vec();
    assert_eq!(doomed(&all, keep(10)).files, ["state/a/0/1.1"]);
}

#[test]
fn doomed_files_a_kept_chain_reaches_stay_until_it_starts_again() {
    let mut all = inventory(
        0..=3,
        &[
            (0, &["state/a/0/0.1"]),
            (1, &["state/a/0/1.1"]),
            (2, &["state/a/0/2.1"]),
            (3, &["state/a/0/3.1"]),
        ],
    );
    all.found = ["state/a/1/1.1", "state/b/0/1.1"]
        .map(str::to_string)
        .to_vec();
    let reach = |since| Reach {
        since: BTreeMap::from([("state/a".to_string(), Epoch(since))]),
        ..Reach::default()
    };
    all.reaches = BTreeMap::from([(Epoch(2), reach(1)), (Epoch(3), reach(1))]);
    // What another subtask of the same operator wrote may be a parent after a change of parallelism.
    assert_eq!(
        doomed(&all, keep(2)).files,
        ["state/a/0/0.1", "state/b/0/1.1"]
    );
    all.reaches = BTreeMap::from([(Epoch(2), reach(1)), (Epoch(3), reach(3))]);
    assert_eq!(
        doomed(&all, keep(2)).files,
        ["state/a/0/0.1", "state/b/0/1.1"]
    );
    assert_eq!(
        doomed(&all, keep(1)).files,
        [
            "state/a/0/0.1",
            "state/a/0/1.1",
            "state/a/0/2.1",
            "state/a/1/1.1",
            "state/b/0/1.1"
        ]
    );
}

fn plan(epoch: u64) -> Plan {
    Plan {
        epoch: Epoch(epoch),
        generation: 1,
        watermark_ms: 0,
        batch_timestamp_ms: 0,
        config: BTreeMap::new(),
        sources: Vec::new(),
    }
}

async fn run_epoch(log: &CheckpointLog, epoch: u64) -> SnapshotRef {
    let store = crate::SnapshotStore::new(log.location().clone(), 1);
    log.publish_plan(&plan(epoch)).await.expect("plan");
    let snapshot = store
        .write("agg", 0, Epoch(epoch), &epoch.to_le_bytes())
        .await
        .expect("snapshot");
    let mut manifest = Manifest::new(Epoch(epoch), 1, 0);
    manifest
        .snapshots
        .insert("agg".into(), vec![snapshot.clone()]);
    log.publish_manifest(&manifest).await.expect("manifest");
    snapshot
}

#[tokio::test]
async fn prune_after_every_epoch_keeps_the_checkpoint_small_and_restorable() {
    let dir = tempfile::tempdir().expect("dir");
    let location = CheckpointLocation::open(dir.path().to_str().expect("unicode")).expect("open");
    let log = CheckpointLog::new(location.clone());
    log.create_metadata(&crate::Metadata::new(BTreeMap::new()))
        .await
        .expect("metadata");
    let mut last = None;
    for epoch in 0..20 {
        last = Some(run_epoch(&log, epoch).await);
        log.prune(keep(3)).await.expect("prune");
    }
    let epochs = log.list_epochs().await.expect("list");
    assert_eq!(epochs.plans, [Epoch(17), Epoch(18), Epoch(19)]);
    assert_eq!(epochs.manifests, epochs.plans);
    assert_eq!(location.list("state/agg/0").await.expect("list").len(), 3);

    let restarted = CheckpointLog::new(location.clone());
    let recovery = restarted.recover().await.expect("recover");
    assert_eq!(recovery.next_epoch(), Epoch(20));
    assert!(matches!(recovery, Recovery::Resume { replay: None, .. }));
    crate::SnapshotStore::new(location, 2)
        .read(&last.expect("ran"))
        .await
        .expect("newest snapshot is there");
}

#[tokio::test]
async fn prune_first_call_after_a_restart_removes_snapshots_of_failed_epochs() {
    let dir = tempfile::tempdir().expect("dir");
    let location = CheckpointLocation::open(dir.path().to_str().expect("unicode")).expect("open");
    let failed = crate::SnapshotStore::new(location.clone(), 0)
        .write("agg", 0, Epoch(0), b"failed attempt")
        .await
        .expect("write");
    let log = CheckpointLog::new(location.clone());
    run_epoch(&log, 0).await;
    let pruned = log.prune(Retention::default()).await.expect("prune");
    assert_eq!(pruned.files, [failed.file]);
    assert_eq!(log.prune(keep(1)).await.expect("again"), Pruned::default());
}

#[tokio::test]
async fn prune_with_an_unreadable_manifest_deletes_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let location = CheckpointLocation::open(dir.path().to_str().expect("unicode")).expect("open");
    let log = CheckpointLog::new(location.clone());
    for epoch in 0..3 {
        run_epoch(&log, epoch).await;
    }
    std::fs::write(dir.path().join("commits/1"), "").expect("truncate");
    let log = CheckpointLog::new(location.clone());
    let error = log.prune(keep(1)).await.expect_err("damaged");
    assert!(error.to_string().contains("commits/1"), "{error}");
    assert_eq!(location.list("offsets").await.expect("list").len(), 3);
    assert_eq!(location.list("state/agg/0").await.expect("list").len(), 3);
}

/// Runs epochs of one state table with a retention of 3, restarting log and state in the middle. Every kept manifest must restore;
/// returns the number of files after each epoch: of state and of data.
async fn run_state(name: &str, memory_budget: usize) -> Vec<(usize, usize)> {
    let location = CheckpointLocation::open(&format!("memory://{name}")).expect("open");
    let specs = [crate::TableSpec {
        name: "t".into(),
        kind: crate::TableKind::Keyed,
        version: 1,
        key: "k".into(),
        value: "v".into(),
    }];
    let mut config = crate::StateConfig::new(location.clone(), "agg", 0, 1);
    (config.max_chain, config.memory_budget) = (6, memory_budget);
    let mut state = crate::OperatorState::create(config.clone(), &specs, 0..4096).expect("create");
    let mut log = CheckpointLog::new(location.clone());
    let mut files = Vec::new();
    let mut last = Vec::new();
    for epoch in 0..40 {
        if epoch == 20 {
            config.generation = 2;
            log = CheckpointLog::new(location.clone());
            let restored = crate::OperatorState::restore(config.clone(), &specs, 0..4096, &last);
            state = restored.await.expect("restore");
        }
        log.publish_plan(&plan(epoch)).await.expect("plan");
        let slot = state.table(0).touch(0, 0, &epoch.to_be_bytes());
        state.table(0).set(slot, b"x");
        last = vec![
            state
                .commit(Epoch(epoch))
                .await
                .expect("commit")
                .expect("a file"),
        ];
        state.settle().await;
        let mut manifest = Manifest::new(Epoch(epoch), config.generation, 0);
        manifest.snapshots.insert("agg".into(), last.clone());
        log.publish_manifest(&manifest).await.expect("manifest");
        log.prune(keep(3)).await.expect("prune");
        for kept in log.list_epochs().await.expect("list").manifests {
            let manifest = log.read_manifest(kept).await.expect("read").expect("there");
            let refs = &manifest.snapshots["agg"];
            let restored = crate::OperatorState::restore(config.clone(), &specs, 0..4096, refs);
            assert_eq!(restored.await.expect("restore").stats().rows, kept.0 + 1);
        }
        let count = async |dir: &str| location.list(dir).await.expect("list").len();
        files.push((count("state/agg/0").await, count("state/agg/0/sst").await));
    }
    files
}

#[tokio::test]
async fn prune_of_state_chains_keeps_every_kept_epoch_restorable_and_the_rest_goes() {
    let files = run_state("retention-of-state-chains", usize::MAX).await;
    assert!(files.iter().all(|count| *count <= (3 + 7, 0)), "{files:?}");
}

#[tokio::test]
async fn prune_of_bases_keeps_every_kept_epoch_restorable_and_the_rest_goes() {
    let files = run_state("retention-of-state-bases", 0).await;
    assert!(files.iter().any(|(_, data)| *data > 0), "{files:?}");
    assert!(
        files
            .iter()
            .all(|(state, data)| *state <= 14 && *data <= 16),
        "{files:?}"
    );
}
