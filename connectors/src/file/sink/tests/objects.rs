//! The output in an object store: the same promises as on the local disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_runtime::{FailPoints, Fault, ObjectStoreSettings};
use weir_state::CheckpointLocation;

use super::super::{manifest, staging};
use super::crash::{Checkpoint, expected, generation};
use crate::file::remote::Remote;

/// All objects below the output, as paths.
async fn objects(dir: &Path) -> Vec<PathBuf> {
    let remote = Remote::of(dir, &ObjectStoreSettings::default())
        .unwrap()
        .unwrap();
    let listed = remote.list(dir).await.unwrap();
    listed
        .into_iter()
        .map(|(key, _)| Path::new("memory://objects").join(key))
        .collect()
}

async fn ids(dir: &Path, files: &[PathBuf]) -> Vec<i64> {
    let remote = Remote::of(dir, &ObjectStoreSettings::default())
        .unwrap()
        .unwrap();
    let mut ids = Vec::new();
    for file in files {
        let bytes = remote.read(file).await.unwrap().expect("it is there");
        for line in String::from_utf8(bytes).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            ids.push(row["id"].as_i64().unwrap());
        }
    }
    ids.sort_unstable();
    ids
}

async fn check_end(dir: &Path, what: &str) {
    let hidden = |path: &PathBuf| {
        path.components().any(|part| {
            let part = part.as_os_str();
            part == manifest::DIR || part == staging::DIR
        })
    };
    let all = objects(dir).await;
    let committed = manifest::committed_files(dir).unwrap().unwrap();
    assert_eq!(ids(dir, &committed).await, expected(), "{what}: manifest");
    let plain: Vec<PathBuf> = all.iter().filter(|path| !hidden(path)).cloned().collect();
    assert_eq!(ids(dir, &plain).await, expected(), "{what}: plain listing");
    let in_staging = |path: &&PathBuf| {
        path.components()
            .any(|part| part.as_os_str() == staging::DIR)
    };
    assert_eq!(all.iter().find(in_staging), None, "{what}: leftovers");
}

#[tokio::test]
async fn crash_at_every_step_in_an_object_store_leaves_each_row_once() {
    let counted = Arc::new(FailPoints::recording());
    let dir = Path::new("memory://objects/out 1");
    generation(dir, 1, &mut Checkpoint::default(), &counted)
        .await
        .unwrap();
    check_end(dir, "undisturbed").await;
    let steps = counted.hits();
    assert!(steps > 60, "{steps}");
    for step in 0..steps {
        let dir = PathBuf::from(format!("memory://objects/crash-{step}/out"));
        let mut checkpoint = Checkpoint::default();
        let crash = Arc::new(FailPoints::crash_at(step));
        let crashed = generation(&dir, 1, &mut checkpoint, &crash).await;
        assert!(crashed.is_err_and(|error| error.fault() == Fault::Crash));
        let rest = Arc::new(FailPoints::default());
        generation(&dir, 2, &mut checkpoint, &rest).await.unwrap();
        check_end(&dir, &format!("crash at step {step}")).await;
    }
    CheckpointLocation::forget_memory("objects");
}
