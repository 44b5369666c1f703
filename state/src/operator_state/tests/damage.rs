//! Damaged and missing files of state are errors that name the file.

use super::*;
use crate::StateError;

/// Three files on the local disk; what the last is named by.
async fn written(dir: &tempfile::TempDir) -> (CheckpointLocation, SnapshotRef) {
    let location = CheckpointLocation::open(dir.path().to_str().expect("unicode")).expect("open");
    let mut state =
        OperatorState::create(config(&location, 0, 1), &[keyed()], 0..4096).expect("create");
    let mut last = None;
    for epoch in 0..3 {
        set(state.table(0), &[epoch as u8], &[epoch as u8; 30]);
        last = state.commit(Epoch(epoch)).await.expect("commit");
    }
    (location, last.expect("a file"))
}

async fn restored(location: &CheckpointLocation, last: &SnapshotRef) -> Result<OperatorState> {
    OperatorState::restore(
        config(location, 0, 2),
        &[keyed()],
        0..4096,
        std::slice::from_ref(last),
    )
    .await
}

#[tokio::test]
async fn any_file_of_the_chain_missing_is_an_error_naming_it() {
    for epoch in 0..3 {
        let dir = tempfile::tempdir().expect("dir");
        let (location, last) = written(&dir).await;
        let name = format!("state/agg/0/{epoch}.1");
        location.delete(&name).await.expect("delete");
        let error = restored(&location, &last).await.expect_err("missing");
        assert!(
            matches!(error, StateError::Missing { epoch: Some(e), .. } if e == Epoch(epoch)),
            "{error}"
        );
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[tokio::test]
async fn any_byte_changed_or_missing_in_any_file_is_an_error_naming_it() {
    let dir = tempfile::tempdir().expect("dir");
    let (location, last) = written(&dir).await;
    for epoch in 0..3 {
        let path = dir.path().join(format!("state/agg/0/{epoch}.1"));
        let whole = std::fs::read(&path).expect("file");
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        });
        for bytes in cut.chain(flipped) {
            std::fs::write(&path, &bytes).expect("write");
            let error = restored(&location, &last).await.expect_err("damaged");
            assert!(
                matches!(
                    error,
                    StateError::Damaged { .. } | StateError::UnsupportedVersion { .. }
                ),
                "{error}"
            );
            assert!(error.to_string().contains(&format!("{epoch}.1")), "{error}");
        }
        std::fs::write(&path, &whole).expect("write");
        restored(&location, &last).await.expect("whole again");
    }
}

#[tokio::test]
async fn a_file_of_a_zombie_under_the_same_epoch_is_not_taken() {
    let dir = tempfile::tempdir().expect("dir");
    let (location, last) = written(&dir).await;
    let mut zombie =
        OperatorState::create(config(&location, 0, 0), &[keyed()], 0..4096).expect("create");
    set(zombie.table(0), b"zombie", b"x");
    zombie.commit(Epoch(2)).await.expect("commit");
    let mut state = restored(&location, &last).await.expect("restore");
    assert_eq!(entries(state.table(0)).len(), 3);
}
