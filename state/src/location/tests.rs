//! Every backend keeps the same promises; on the local disk they hold at every step.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use object_store::memory::InMemory;

use super::*;

const STEPS_OF_CREATE: [IoStep; 7] = [
    IoStep::CreateTemp,
    IoStep::WriteTemp,
    IoStep::WriteRest,
    IoStep::SyncTemp,
    IoStep::Link,
    IoStep::RemoveTemp,
    IoStep::SyncDir,
];

fn open(dir: &Path) -> CheckpointLocation {
    CheckpointLocation::open(dir.to_str().expect("unicode")).expect("open")
}

fn block<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

fn every_backend(test: impl Fn(CheckpointLocation)) {
    let dir = tempfile::tempdir().expect("dir");
    test(open(&dir.path().join("check point %@#")));
    let name = format!("memory://{}", uuid::Uuid::new_v4());
    test(CheckpointLocation::open(&name).expect("memory"));
    test(CheckpointLocation::open(&format!("{name}/deep/prefix")).expect("memory"));
    let store = Arc::new(InMemory::new());
    test(CheckpointLocation::with_store(store.clone(), "").expect("store"));
    test(CheckpointLocation::with_store(store, "a b/%20").expect("store"));
}

#[test]
fn create_absent_then_present_has_one_winner_and_keeps_the_first_bytes() {
    every_backend(|location| {
        block(async {
            let first = location.create("offsets/0", "first").await.expect("create");
            let second = location
                .create("offsets/0", "second")
                .await
                .expect("create");
            assert_eq!(first, CreateOutcome::Created);
            assert_eq!(second, CreateOutcome::AlreadyExists);
            let found = location.get("offsets/0").await.expect("get");
            assert_eq!(found.as_deref(), Some(&b"first"[..]), "{location}");
        });
    });
}

#[test]
fn put_replaces_and_delete_forgets() {
    every_backend(|location| {
        block(async {
            assert_eq!(location.get("a/b/c").await.expect("get"), None);
            location.put("a/b/c", "1").await.expect("put");
            location.put("a/b/c", "22").await.expect("put");
            let found = location.get("a/b/c").await.expect("get");
            assert_eq!(found.as_deref(), Some(&b"22"[..]));
            location.delete("a/b/c").await.expect("delete");
            location
                .delete("a/b/c")
                .await
                .expect("delete a missing file");
            location
                .delete("never/there")
                .await
                .expect("delete without directory");
            assert_eq!(location.get("a/b/c").await.expect("get"), None);
        });
    });
}

#[test]
fn list_is_sorted_and_not_recursive_and_hides_temporary_names() {
    every_backend(|location| {
        block(async {
            assert_eq!(location.list("offsets").await.expect("list"), vec![]);
            for name in [
                "offsets/10",
                "offsets/9",
                "offsets/deep/1",
                "offsetsx",
                "metadata",
            ] {
                location.put(name, name.to_string()).await.expect("put");
            }
            let listed = async |dir: &str| -> Vec<(String, u64)> {
                let entries = location.list(dir).await.expect("list");
                assert!(entries.iter().all(|entry| entry.modified_ms > 0));
                entries.into_iter().map(|e| (e.name, e.size)).collect()
            };
            let entry = |name: &str, size| (name.to_string(), size);
            assert_eq!(
                listed("offsets").await,
                vec![entry("10", 10), entry("9", 9)]
            );
            assert_eq!(
                location.list_dirs("offsets").await.expect("list"),
                vec!["deep"]
            );
            assert_eq!(
                listed("").await,
                vec![entry("metadata", 8), entry("offsetsx", 8)]
            );
        });
    });
}

#[test]
fn list_local_hidden_temporary_and_crc_files_are_left_out() {
    let dir = tempfile::tempdir().expect("dir");
    for name in [".1.crc", "1.crc", ".2.tmp", "3.tmp", ".DS_Store", "7"] {
        std::fs::write(dir.path().join(name), "x").expect("write");
    }
    let names: Vec<String> = block(open(dir.path()).list(""))
        .expect("list")
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, vec!["7"]);
}

#[test]
fn name_outside_the_location_is_refused() {
    every_backend(|location| {
        for name in ["", "../x", "/etc/x", "a//b", ".hidden"] {
            let error = block(location.put(name, "x")).expect_err("bad name");
            assert!(matches!(error, StateError::InvalidName { .. }), "{error}");
        }
    });
}

#[test]
fn open_path_with_special_characters_is_taken_letter_by_letter() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["chk %@#chk", "città 例", "a%20b", "x:y", "q?r"] {
        block(open(&dir.path().join(name)).put("metadata", "x")).expect("put");
    }
    let found: BTreeSet<String> = std::fs::read_dir(dir.path())
        .expect("list")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    let expected = ["chk %@#chk", "città 例", "a%20b", "x:y", "q?r"];
    assert_eq!(found, expected.map(str::to_string).into());
}

#[test]
fn open_file_url_is_the_same_as_the_path() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a b#c");
    block(open(&path).put("metadata", "x")).expect("put");
    let url = url::Url::from_file_path(&path).expect("url");
    let location = CheckpointLocation::open(url.as_str()).expect("open");
    assert!(block(location.get("metadata")).expect("get").is_some());
    assert_eq!(location.display(), path.to_str().expect("unicode"));
}

#[test]
fn open_location_that_cannot_be_used_says_what_is_allowed() {
    for (text, part) in [
        ("", "it is empty"),
        ("memory://", "needs a name"),
        ("memory:///x", "needs a name"),
        ("file:///tmp/a#b", "%23"),
        ("file:///tmp/a?b", "%3F"),
        ("file://host/share", "no host"),
        ("nosuch://bucket/x", "`nosuch`"),
        ("nosuch://bucket/x", "`s3`"),
    ] {
        let error = CheckpointLocation::open(text).expect_err(text).to_string();
        assert!(error.contains(part), "`{part}` not in: {error}");
        assert!(error.contains("allowed are"), "{error}");
    }
}

#[test]
fn open_object_store_that_is_not_compiled_in_names_the_feature() {
    for (text, feature) in [
        ("gs://bucket/x", "`gcp`"),
        ("az://container/x", "`azure`"),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            "`azure`",
        ),
    ] {
        let error = CheckpointLocation::open(text).expect_err(text).to_string();
        assert!(error.contains(text) && error.contains(feature), "{error}");
    }
    let off = StateError::UnsupportedScheme {
        location: "s3a://bucket/x".to_owned(),
        scheme: "s3a".to_owned(),
    };
    assert!(off.to_string().contains("feature `aws`"), "{off}");
}

#[test]
fn open_keys_in_an_address_are_refused_and_not_repeated() {
    for text in [
        "s3a://AKIA:hush@bucket/x",
        "s3://hush@bucket/x",
        "s3a://AKIA:hu/sh@bucket/x",
        "abfss://container:hush@account/x",
    ] {
        let error = CheckpointLocation::open(text).expect_err(text).to_string();
        assert!(
            !error.contains("hu") && error.contains("fs.s3a.secret.key"),
            "{error}"
        );
    }
}

#[cfg(feature = "aws")]
#[test]
fn open_address_of_an_object_is_taken_letter_by_letter() {
    let of = |text| CheckpointLocation::open(text).expect(text);
    for (text, shown) in [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a b/c#1?x%20/", "s3://bucket/a b/c#1?x%20"),
    ] {
        assert_eq!(of(text).display(), shown);
    }
    let dir = of("s3a://bucket/a#b").object_dir("c%2F/d").expect("a path");
    assert_eq!(
        dir.expect("a store").display_of("1"),
        "s3a://bucket/a#b/c%2F/d/1"
    );
    assert!(CheckpointLocation::open("s3://bucket/a//b").is_err());
}

#[test]
fn open_memory_by_the_same_name_is_the_same_store_until_forgotten() {
    let name = uuid::Uuid::new_v4().to_string();
    let url = format!("memory://{name}/ck");
    block(
        CheckpointLocation::open(&url)
            .expect("open")
            .put("metadata", "x"),
    )
    .expect("put");
    let again = CheckpointLocation::open(&url).expect("open");
    assert!(block(again.get("metadata")).expect("get").is_some());
    CheckpointLocation::forget_memory(&name);
    let fresh = CheckpointLocation::open(&url).expect("open");
    assert!(block(fresh.get("metadata")).expect("get").is_none());
}

#[test]
fn open_relative_path_is_made_absolute() {
    let location = CheckpointLocation::open("some/where").expect("open");
    assert!(Path::new(&location.display()).is_absolute());
}

#[test]
fn write_error_names_the_final_path() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("offsets"), "a file, not a directory").expect("write");
    let error = block(open(dir.path()).create("offsets/1", "x")).expect_err("no directory");
    assert!(
        error.path().expect("path").ends_with("offsets/1"),
        "{error}"
    );
    assert!(error.is_transient());
}

/// A hook that records the steps and makes step number `fail_at` fail; with `dead`, all later ones too.
fn failing(fail_at: usize, dead: bool) -> (Arc<IoHook>, Arc<Mutex<Vec<IoStep>>>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let (count, seen) = (AtomicUsize::new(0), Arc::clone(&steps));
    let hook = move |step: IoStep, _: &Path| {
        seen.lock().expect("lock").push(step);
        let now = count.fetch_add(1, Ordering::SeqCst);
        if now == fail_at || (dead && now > fail_at) {
            return Err(io::Error::other("injected"));
        }
        Ok(())
    };
    (Arc::new(hook), steps)
}

fn steps_of(write: impl Fn(&CheckpointLocation)) -> Vec<IoStep> {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::create_dir(dir.path().join("offsets")).expect("dir");
    let (hook, steps) = failing(usize::MAX, false);
    write(&open(dir.path()).with_io_hook(hook));
    let steps = steps.lock().expect("lock");
    steps.clone()
}

#[test]
fn create_and_put_sync_the_file_before_its_name_and_the_name_before_they_return() {
    let create = steps_of(|location| {
        assert_eq!(
            block(location.create("offsets/1", "body")).expect("create"),
            CreateOutcome::Created
        );
    });
    assert_eq!(create, STEPS_OF_CREATE);
    let put = steps_of(|location| block(location.put("offsets/1", "body")).expect("put"));
    let mut expected = STEPS_OF_CREATE.to_vec();
    expected[4] = IoStep::Rename;
    expected.remove(5);
    assert_eq!(put, expected);
}

#[test]
fn create_in_missing_directories_syncs_every_parent() {
    let dir = tempfile::tempdir().expect("dir");
    let (hook, steps) = failing(usize::MAX, false);
    let location = open(&dir.path().join("ck")).with_io_hook(hook);
    block(location.put("a/b/c", "x")).expect("put");
    let steps = steps.lock().expect("lock").clone();
    let made = steps.iter().filter(|s| **s == IoStep::CreateDir).count();
    let synced = steps.iter().filter(|s| **s == IoStep::SyncDir).count();
    assert_eq!((made, synced), (3, 4), "{steps:?}");
}

/// Goal: no crash and no failure leaves a half-visible file or a wrong one. Method: count the steps of a write,
/// then stop at each (once as a crash after which nothing runs, once as a failed step), and look.
#[test]
fn create_stopped_at_every_step_leaves_the_file_absent_or_whole() {
    for dead in [true, false] {
        for fail_at in 0..STEPS_OF_CREATE.len() {
            let dir = tempfile::tempdir().expect("dir");
            let location = open(dir.path());
            let (hook, _) = failing(fail_at, dead);
            let outcome = block(
                location
                    .with_io_hook(hook)
                    .create("offsets/1", "whole body"),
            );
            let found = block(location.get("offsets/1")).expect("get");
            assert!(
                found.is_none() || found.as_deref() == Some(b"whole body"),
                "step {fail_at}: {found:?}"
            );
            if let Ok(outcome) = outcome {
                assert_eq!(outcome, CreateOutcome::Created);
                assert!(found.is_some(), "step {fail_at}: reported but not there");
            }
            assert!(block(location.list("offsets")).expect("list").len() <= 1);
            assert_restart_works(&location, found.is_some());
        }
    }
}

fn assert_restart_works(location: &CheckpointLocation, was_there: bool) {
    let again = block(location.create("offsets/1", "second run")).expect("create");
    assert_eq!(again == CreateOutcome::AlreadyExists, was_there);
}

#[test]
fn put_stopped_at_every_step_leaves_the_old_or_the_new_bytes() {
    for dead in [true, false] {
        for fail_at in 0..STEPS_OF_CREATE.len() {
            let dir = tempfile::tempdir().expect("dir");
            let location = open(dir.path());
            block(location.put("lease", "old")).expect("put");
            let (hook, _) = failing(fail_at, dead);
            let result = block(location.with_io_hook(hook).put("lease", "new body"));
            let found = block(location.get("lease")).expect("get").expect("there");
            assert!(
                found == "old" || found == "new body",
                "step {fail_at}: {found:?}"
            );
            assert!(result.is_err() || found == "new body");
        }
    }
}

#[test]
fn write_failed_but_alive_removes_its_temporary_file() {
    for (fail_at, step) in STEPS_OF_CREATE.into_iter().enumerate().skip(1) {
        if step == IoStep::RemoveTemp {
            continue;
        }
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir(dir.path().join("offsets")).expect("dir");
        let (hook, _) = failing(fail_at, false);
        let location = open(dir.path()).with_io_hook(hook);
        block(location.create("offsets/1", "body")).expect_err("injected");
        let left: Vec<_> = std::fs::read_dir(dir.path().join("offsets"))
            .expect("list")
            .map(|e| e.expect("entry").file_name())
            .filter(|name| name != "1")
            .collect();
        assert!(left.is_empty(), "step {fail_at}: {left:?}");
    }
}

#[test]
fn leftovers_of_a_dead_run_are_removed_and_nothing_else() {
    let dir = tempfile::tempdir().expect("dir");
    let location = open(dir.path());
    block(location.put("state/a/0/1.1", "x")).expect("put");
    let (hook, _) = failing(STEPS_OF_CREATE.len() - 3, true);
    block(location.with_io_hook(hook).create("state/a/0/2.1", "y")).expect_err("dead");
    std::fs::write(dir.path().join("state/.keep.tmp"), "not ours").expect("write");
    let Backend::Local(local) = location.backend() else {
        unreachable!("a path is local")
    };
    assert_eq!(local.remove_leftovers("state").expect("clean"), 1);
    assert_eq!(local.remove_leftovers("state").expect("clean"), 0);
    assert_eq!(local.remove_leftovers("offsets").expect("missing"), 0);
    assert!(dir.path().join("state/.keep.tmp").exists());
    assert!(dir.path().join("state/a/0/1.1").exists());
}

#[test]
fn create_raced_by_two_threads_has_exactly_one_winner_each_time() {
    let dir = tempfile::tempdir().expect("dir");
    let locations = [
        open(dir.path()),
        CheckpointLocation::open(&format!("memory://{}", uuid::Uuid::new_v4())).expect("open"),
    ];
    for location in locations {
        let race = |body: &'static str| {
            let location = location.clone();
            std::thread::spawn(move || -> Vec<bool> {
                (0..1000)
                    .map(|n| {
                        let created = block(location.create(&format!("commits/{n}"), body));
                        created.expect("create") == CreateOutcome::Created
                    })
                    .collect()
            })
        };
        let (left, right) = (race("left"), race("right"));
        let (left, right) = (left.join().expect("join"), right.join().expect("join"));
        for n in 0..1000 {
            assert!(left[n] ^ right[n], "round {n}: {} {}", left[n], right[n]);
            let found = block(location.get(&format!("commits/{n}"))).expect("get");
            let winner = if left[n] { "left" } else { "right" };
            assert_eq!(found.as_deref(), Some(winner.as_bytes()));
        }
    }
}

#[test]
fn futures_can_move_between_threads() {
    fn assert_send<T: Send>(_: T) {}
    let location = CheckpointLocation::open("memory://send").expect("open");
    assert_send(location.create("a", "b"));
    assert_send(location.put("a", "b"));
    assert_send(location.list("a"));
}
