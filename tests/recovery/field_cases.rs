//! What went wrong for users of such systems, as tests: checkpoint cases P041, P045, P049 to P052.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir::prelude::*;
use weir::runtime::{FailPoints, Fault};

use crate::shop::Shop;

const CHILD: &str = "WEIR_TEST_SIGTERM_CHILD";
const ROWS: u64 = 40;

fn block_on<F: std::future::Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}

/// Two committed epochs of two files each.
fn shop(home: &Path) -> Shop {
    let shop = Shop::new(home);
    (0..4).for_each(|number| shop.drop_file(number, ROWS));
    shop.run(Arc::default()).expect("ends well");
    shop
}

#[test]
fn p041_newest_manifest_of_length_zero_or_torn_runs_its_epoch_again() {
    for length in [0, 5, 40] {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(home.path());
        let manifest = home.path().join("checkpoint/commits/1");
        let whole = fs::read(&manifest).expect("the newest manifest");
        fs::write(&manifest, &whole[..length]).expect("torn");
        shop.drop_file(4, ROWS);
        shop.run(Arc::default())
            .expect("starts without anybody deleting anything");
        shop.assert_exactly_once(5, ROWS, &format!("manifest cut to {length} bytes"));
    }
}

#[test]
fn p050_an_epoch_is_planned_then_written_then_committed_and_no_crash_in_between_loses_a_row() {
    let shop = |home: &Path| {
        let shop = Shop::new(home).cut(1, 1);
        (0..3).for_each(|number| shop.drop_file(number, ROWS));
        shop
    };
    let home = tempfile::tempdir().expect("a directory");
    let counted = Arc::new(FailPoints::recording());
    let undisturbed = shop(home.path()).run(Arc::clone(&counted));
    undisturbed.expect("ends well");
    let names = counted.names();
    // Of the second of three epochs.
    let place = |name: &str| {
        let mut hits = names.iter().enumerate().filter(|(_, hit)| **hit == name);
        hits.nth(1).map(|(place, _)| place as u64).expect(name)
    };
    let steps = ["plan-log:after", "sink-commit:before", "manifest:before"].map(place);
    assert!(steps.is_sorted(), "{names:?}");
    for place in steps[0]..=place("manifest:after") {
        let home = tempfile::tempdir().expect("a directory");
        let shop = shop(home.path());
        let crashed = shop.run(Arc::new(FailPoints::crash_at(place)));
        assert_eq!(crashed.expect_err("a crash").fault(), Fault::Crash);
        shop.run(Arc::default()).expect("recovers");
        shop.assert_exactly_once(3, ROWS, &format!("crash at place {place}"));
    }
}

/// Not a test of its own: the body of the child process; ends in order on SIGTERM.
#[test]
fn sigterm_child() {
    let Ok(home) = std::env::var(CHILD) else {
        return;
    };
    block_on(async {
        let session = Session::builder()
            .parallelism(2)
            .build()
            .expect("a session");
        let shop = Shop::new(Path::new(&home));
        let query = shop
            .start(&session, Trigger::Default, Arc::default())
            .await
            .expect("starts");
        fs::write(Path::new(&home).join("up"), "").expect("a sign of life");
        query
            .await_termination_or_signal()
            .await
            .expect("ends well");
    });
}

fn spawn(home: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "field_cases::sigterm_child", "--nocapture"])
        .env(CHILD, home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success());
}

fn wait(child: &mut Child) -> ExitStatus {
    for _ in 0..400 {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the child did not end within ten seconds");
}

#[test]
fn p051_sigterm_in_the_middle_ends_in_order_and_a_restart_has_each_row_once() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    let mut files = 0;
    for round in 0..3 {
        let mut child = spawn(home.path());
        while !home.path().join("up").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..6 + round {
            shop.drop_file(files, ROWS);
            files += 1;
            std::thread::sleep(Duration::from_millis(8));
        }
        signal(&child, "-TERM");
        assert!(wait(&mut child).success(), "exit code 0");
        fs::remove_file(home.path().join("up")).expect("the sign of life");
    }
    shop.run(Arc::default()).expect("finishes what is left");
    shop.assert_exactly_once(files, ROWS, "after three SIGTERMs");
}

#[test]
fn p045_checkpoint_is_free_at_once_after_its_owner_was_killed() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    shop.drop_file(0, ROWS);
    let mut child = spawn(home.path());
    while !home.path().join("up").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = shop
        .run(Arc::default())
        .expect_err("the child owns the checkpoint");
    assert!(
        error.to_string().contains(&child.id().to_string()),
        "{error}"
    );
    child.kill().expect("SIGKILL");
    child.wait().expect("gone");
    shop.run(Arc::default()).expect("takes over at once");
    shop.assert_exactly_once(1, ROWS, "after the owner was killed");
}

#[test]
fn p051_stop_from_inside_foreach_batch_does_not_deadlock() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    (0..6).for_each(|number| shop.drop_file(number, ROWS));
    block_on(async {
        let session = Session::builder()
            .parallelism(1)
            .build()
            .expect("a session");
        let own: Arc<Mutex<Option<StreamingQuery>>> = Arc::default();
        let inside = Arc::clone(&own);
        let rows = session
            .read_stream()
            .schema("id BIGINT, action STRING, amount DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .json(&shop.path("in"))
            .expect("a stream");
        let query = rows
            .write_stream()
            .option("checkpointLocation", shop.path("checkpoint"))
            .foreach_batch(move |_, epoch| {
                let query = inside
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                async move {
                    if let (2, Some(query)) = (epoch, query) {
                        tokio::spawn(async move { query.stop().await });
                    }
                    Ok(())
                }
            })
            .start()
            .await
            .expect("starts");
        *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(query.clone());
        let ended = tokio::time::timeout(Duration::from_secs(10), query.await_termination()).await;
        ended.expect("no deadlock").expect("ends well");
        own.lock().unwrap_or_else(PoisonError::into_inner).take();
    });
}

#[test]
fn p052_paths_with_odd_characters_are_used_as_they_are() {
    let home = tempfile::tempdir().expect("a directory");
    let odd = home.path().join("chk %@#chk città 例 [1]");
    let shop = Shop::new(&odd);
    for number in 0..2 {
        shop.drop_file(number, ROWS);
        shop.run(Arc::default()).expect("ends well");
    }
    shop.assert_exactly_once(2, ROWS, "odd path");
    let names: Vec<_> = fs::read_dir(home.path())
        .expect("listed")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 1, "no sibling directory appears: {names:?}");
    for part in ["in", "out", "checkpoint/commits/1"] {
        assert!(odd.join(part).exists(), "{part}");
    }
}

#[test]
fn p049_restart_works_after_many_epochs_with_little_retention() {
    let home = tempfile::tempdir().expect("a directory");
    let shop = Shop::new(home.path());
    (0..50).for_each(|number| shop.drop_file(number, 2));
    block_on(async {
        let session = Session::builder()
            .parallelism(1)
            .config("spark.sql.streaming.minBatchesToRetain", 2)
            .build()?;
        shop.start(&session, Trigger::AvailableNow, Arc::default())
            .await?
            .await_termination()
            .await
    })
    .expect("ends well");
    let kept = fs::read_dir(home.path().join("checkpoint/commits"))
        .expect("listed")
        .count();
    assert!(kept < 25, "{kept} manifests kept of 25 epochs");
    shop.drop_file(50, 2);
    shop.run(Arc::default()).expect("goes on");
    shop.assert_exactly_once(51, 2, "after pruning");
}
