//! Goal: damaged checkpoint files are reported with their names; a torn newest plan is discarded. Nothing is guessed, nothing lost.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use weir::runtime::Fault;

use crate::shop::Shop;

/// Two epochs (0 and 1) of two files each.
fn shop(home: &Path) -> Shop {
    let shop = Shop::new(home);
    (0..4).for_each(|number| shop.drop_file(number, 20));
    shop.run(Arc::default()).expect("ends well");
    shop
}

/// What a run says after `damage` was done to a checkpoint of two epochs.
fn refused_after(damage: impl FnOnce(&Path)) -> weir::runtime::WeirError {
    let home = tempfile::tempdir().expect("a directory");
    let shop = shop(home.path());
    damage(&home.path().join("checkpoint"));
    shop.drop_file(4, 20);
    let error = shop.run(Arc::default()).expect_err("refused");
    assert_eq!(error.fault(), Fault::Checkpoint, "{error}");
    error
}

fn cut(path: &Path) {
    let bytes = fs::read(path).expect("the file");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("cut in half");
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("the file");
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    fs::write(path, bytes).expect("one bit flipped");
}

#[test]
fn e10_damaged_manifest_in_the_middle_is_named() {
    for damage in [cut, flip] {
        let error = refused_after(|checkpoint| {
            damage(&checkpoint.join("commits/0"));
            damage(&checkpoint.join("commits/1"));
        });
        assert!(error.to_string().contains("commits/"), "{error}");
    }
}

#[test]
fn e10_damaged_plan_of_a_committed_epoch_is_named() {
    let error = refused_after(|checkpoint| flip(&checkpoint.join("offsets/1")));
    assert!(error.to_string().contains("offsets/1"), "{error}");
    let error =
        refused_after(|checkpoint| fs::remove_file(checkpoint.join("offsets/1")).expect("removed"));
    assert!(error.to_string().contains("offsets/1"), "{error}");
}

#[test]
fn e10_missing_metadata_is_named() {
    let error =
        refused_after(|checkpoint| fs::remove_file(checkpoint.join("metadata")).expect("removed"));
    assert!(error.to_string().contains("metadata"), "{error}");
}

#[test]
fn e10_damaged_source_log_is_named() {
    let error = refused_after(|checkpoint| flip(&checkpoint.join("sources/0/1")));
    assert!(error.to_string().contains("sources/0/1"), "{error}");
}

#[test]
fn e10_torn_newest_plan_is_discarded_and_planned_anew() {
    for length in [0, 7] {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(home.path());
        let plan = home.path().join("checkpoint/offsets/1");
        let text = fs::read(&plan).expect("a plan");
        fs::write(home.path().join("checkpoint/offsets/2"), &text[..length]).expect("torn");
        shop.drop_file(4, 20);
        shop.run(Arc::default()).expect("goes on");
        shop.assert_exactly_once(5, 20, "a torn plan was discarded");
    }
}
