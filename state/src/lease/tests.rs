//! One holder at a time, on every backend.
#![allow(clippy::disallowed_methods, reason = "deadlines of real threads")]

use std::path::Path;

use object_store::memory::InMemory;
use uuid::Uuid;

use super::*;
use crate::clock::ManualClock;
use crate::{Epoch, Manifest, Metadata};

fn owner() -> OwnerInfo {
    OwnerInfo::current(Uuid::new_v4(), &SystemClock::new())
}

fn local(dir: &Path) -> CheckpointLocation {
    CheckpointLocation::open(dir.to_str().expect("unicode")).expect("open")
}

fn remote() -> CheckpointLocation {
    CheckpointLocation::with_store(Arc::new(InMemory::new()), "ck").expect("store")
}

fn at(clock: &Arc<ManualClock>) -> LeaseOptions {
    LeaseOptions {
        ttl: Duration::from_secs(15),
        clock: clock.clone(),
    }
}

async fn assert_in_use(location: &CheckpointLocation, by: &OwnerInfo) {
    let error = Lease::acquire(location, owner()).await.expect_err("held");
    let StateError::CheckpointInUse {
        owner: Some(found), ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(**found, *by);
    let text = error.to_string();
    for part in [
        location.display(),
        by.id.to_string(),
        format!("pid {}", by.pid),
        "since 20".to_string(),
        "stop that query first or use another checkpoint location".to_string(),
    ] {
        assert!(text.contains(&part), "`{part}` not in: {text}");
    }
}

#[tokio::test]
async fn lease_held_conflicts_also_inside_one_process() {
    let dir = tempfile::tempdir().expect("dir");
    let memory = format!("memory://{}", Uuid::new_v4());
    let locations = [
        local(dir.path()),
        CheckpointLocation::open(&memory).expect("open"),
        remote(),
    ];
    for location in locations {
        let me = owner();
        let lease = Lease::acquire(&location, me.clone())
            .await
            .expect("acquire");
        assert_eq!(lease.generation(), 1);
        assert_in_use(&location, &me).await;
        lease.release().await.expect("release");
        let next = Lease::acquire(&location, owner()).await.expect("acquire");
        assert_eq!(next.generation(), 2, "{location}");
    }
}

#[tokio::test]
async fn lease_dropped_is_free_at_once_on_disk_and_in_memory() {
    let dir = tempfile::tempdir().expect("dir");
    let memory = format!("memory://{}", Uuid::new_v4());
    for location in [
        local(dir.path()),
        CheckpointLocation::open(&memory).expect("open"),
    ] {
        for generation in 1..=5 {
            let lease = Lease::acquire(&location, owner()).await.expect("acquire");
            assert_eq!(lease.generation(), generation);
        }
    }
}

#[tokio::test]
async fn lease_refused_leaves_the_checkpoint_unchanged() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let _lease = Lease::acquire(&location, owner()).await.expect("acquire");
    let before = std::fs::read(dir.path().join(FILE)).expect("read");
    Lease::acquire(&location, owner()).await.expect_err("held");
    assert_eq!(std::fs::read(dir.path().join(FILE)).expect("read"), before);
    assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
}

#[tokio::test]
async fn lease_file_shows_this_and_the_previous_holder() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let owners: Vec<OwnerInfo> = (0..5).map(|_| owner()).collect();
    for owner in &owners {
        drop(
            Lease::acquire(&location, owner.clone())
                .await
                .expect("acquire"),
        );
    }
    let text = std::fs::read_to_string(dir.path().join(FILE)).expect("utf-8");
    assert_eq!(text.len(), 1024);
    assert!(text.contains(&owners[4].id.to_string()) && text.contains(&owners[3].id.to_string()));
    assert!(!text.contains(&owners[2].id.to_string()));
    assert_eq!(holder(&location).await.as_ref(), Some(&owners[4]));
}

#[tokio::test]
async fn lease_torn_while_written_never_goes_back_in_generation() {
    let dir = tempfile::tempdir().expect("dir");
    let (location, path) = (local(dir.path()), dir.path().join(FILE));
    for _ in 0..2 {
        drop(Lease::acquire(&location, owner()).await.expect("acquire"));
    }
    let whole = std::fs::read(&path).expect("read");
    assert_eq!(whole.len(), 1024);
    // Generation 3 goes to the second slot; the crash leaves any part of it.
    for cut in 512..=whole.len() {
        let mut torn = whole[..cut].to_vec();
        torn.resize(whole.len(), 0);
        std::fs::write(&path, &torn).expect("write");
        let lease = Lease::acquire(&location, owner()).await.expect("acquire");
        assert_eq!(lease.generation(), 3, "cut at {cut}");
    }
}

#[tokio::test]
async fn lease_unreadable_takes_its_generation_from_the_logs() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let log = CheckpointLog::new(location.clone());
    log.create_metadata(&Metadata::new(Default::default()))
        .await
        .expect("metadata");
    log.publish_manifest(&Manifest::new(Epoch(0), 41, 0))
        .await
        .expect("manifest");
    for contents in [None, Some(&b""[..]), Some(&[0xFF; 5000])] {
        let path = dir.path().join(FILE);
        match contents {
            None => assert!(!path.exists()),
            Some(bytes) => std::fs::write(&path, bytes).expect("write"),
        }
        let lease = Lease::acquire(&location, owner()).await.expect("acquire");
        assert_eq!(lease.generation(), 42);
        drop(lease);
        assert_eq!(
            Lease::acquire(&location, owner())
                .await
                .expect("acquire")
                .generation(),
            43
        );
    }
}

#[tokio::test]
async fn lease_long_host_name_still_fits() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let mut me = owner();
    me.host = "ü\"\n".repeat(500);
    let lease = Lease::acquire(&location, me.clone())
        .await
        .expect("acquire");
    assert_eq!(lease.generation(), 1);
    let found = holder(&location).await.expect("readable");
    assert_eq!(found.id, me.id);
    assert!(me.host.starts_with(&found.host));
}

#[tokio::test]
async fn lease_advance_raises_the_generation_and_keeps_the_lease() {
    let dir = tempfile::tempdir().expect("dir");
    for location in [local(dir.path()), remote()] {
        let me = owner();
        let mut lease = Lease::acquire(&location, me.clone())
            .await
            .expect("acquire");
        assert_eq!(lease.advance().await.expect("advance"), 2);
        assert_eq!(lease.advance().await.expect("advance"), 3);
        lease.renew().await.expect("renew");
        assert_eq!(lease.generation(), 3);
        assert_in_use(&location, &me).await;
        lease.release().await.expect("release");
        let next = Lease::acquire(&location, owner()).await.expect("acquire");
        assert_eq!(next.generation(), 4);
    }
}

#[tokio::test]
async fn lease_on_disk_whose_file_was_removed_is_lost() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let mut lease = Lease::acquire(&location, owner()).await.expect("acquire");
    lease.renew().await.expect("still there");
    std::fs::remove_file(dir.path().join(FILE)).expect("remove");
    assert!(matches!(
        lease.renew().await,
        Err(StateError::LeaseLost { .. })
    ));
    let thief = Lease::acquire(&location, owner()).await.expect("acquire");
    let error = lease.renew().await.expect_err("lost").to_string();
    assert!(error.contains(&thief.owner().id.to_string()), "{error}");
}

#[tokio::test]
async fn lease_acquired_cleans_up_leftovers_of_a_dead_run() {
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    location.put("offsets/x", "x").await.expect("put");
    location.delete("offsets/x").await.expect("delete");
    let left = dir
        .path()
        .join(format!("offsets/.3.{}.tmp", Uuid::new_v4()));
    std::fs::write(&left, "half").expect("write");
    let foreign = dir.path().join("offsets/.vim.swp");
    std::fs::write(&foreign, "x").expect("write");
    let lease = Lease::acquire(&location, owner()).await.expect("acquire");
    assert!(!left.exists() && foreign.exists());
    // A second run that is refused must not clean: the file may belong to the holder.
    std::fs::write(&left, "half").expect("write");
    Lease::acquire(&location, owner()).await.expect_err("held");
    assert!(left.exists());
    drop(lease);
}

#[tokio::test]
async fn lease_on_a_foreign_directory_is_refused_and_leaves_nothing_there() {
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("thesis.doc"), "x").expect("write");
    let error = Lease::acquire(&local(dir.path()), owner())
        .await
        .expect_err("foreign");
    assert!(
        matches!(error, StateError::ForeignDirectory { .. }),
        "{error}"
    );
    assert!(!dir.path().join(FILE).exists());
}

#[tokio::test]
async fn lease_on_a_store_not_renewed_runs_out_and_its_holder_learns_it() {
    let location = remote();
    let clock = Arc::new(ManualClock::new(1_780_000_000_000));
    let mut first = Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect("acquire");
    clock.advance(Duration::from_millis(14_999));
    let error = Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect_err("held");
    assert!(
        error
            .to_string()
            .contains("runs out at 2026-05-28T20:26:55.000Z"),
        "{error}"
    );
    clock.advance(Duration::from_millis(1));
    let second = Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect("took over");
    assert_eq!(second.generation(), 2);
    let error = first.renew().await.expect_err("lost");
    assert!(
        matches!(&error, StateError::LeaseLost { owner: Some(o), .. } if **o == *second.owner())
    );
    assert!(
        first.release().await.is_err(),
        "cannot give back what is not its own"
    );
    let error = Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect_err("held");
    assert!(matches!(error, StateError::CheckpointInUse { .. }));
}

#[tokio::test]
async fn lease_on_a_store_renewed_in_time_is_kept() {
    let location = remote();
    let clock = Arc::new(ManualClock::new(0));
    let mut lease = Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect("acquire");
    assert_eq!(lease.renew_every(), Duration::from_secs(5));
    for _ in 0..10 {
        clock.advance(lease.renew_every());
        lease.renew().await.expect("renew");
        Lease::acquire_with(&location, owner(), at(&clock))
            .await
            .expect_err("held");
    }
    // Late, but nobody came in between.
    clock.advance(Duration::from_secs(60));
    lease.renew().await.expect("still ours");
}

#[tokio::test]
async fn lease_on_a_store_dropped_without_release_runs_out() {
    let location = remote();
    let clock = Arc::new(ManualClock::new(0));
    drop(
        Lease::acquire_with(&location, owner(), at(&clock))
            .await
            .expect("acquire"),
    );
    Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect_err("still held");
    clock.advance(Duration::from_secs(15));
    Lease::acquire_with(&location, owner(), at(&clock))
        .await
        .expect("free");
}

#[test]
fn lease_raced_by_many_threads_has_one_holder() {
    let dir = tempfile::tempdir().expect("dir");
    for location in [local(dir.path()), remote()] {
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let location = location.clone();
                std::thread::spawn(move || {
                    futures::executor::block_on(Lease::acquire(&location, owner()))
                })
            })
            .collect();
        let results: Vec<Result<Lease>> = racers
            .into_iter()
            .map(|r| r.join().expect("join"))
            .collect();
        let won = results.iter().filter(|r| r.is_ok()).count();
        assert_eq!(won, 1, "{location}");
        for lost in results.iter().filter_map(|r| r.as_ref().err()) {
            assert!(matches!(lost, StateError::CheckpointInUse { .. }), "{lost}");
        }
    }
}

/// Goal: after SIGKILL the next run goes on at once. Method: a child process takes the lease and is killed.
#[cfg(unix)]
#[test]
fn lease_of_a_killed_process_is_free_at_once() {
    const CHILD: &str = "WEIR_STATE_LEASE_CHILD";
    if let Some(path) = std::env::var_os(CHILD) {
        let location = local(Path::new(&path));
        let _lease = futures::executor::block_on(Lease::acquire(&location, owner()));
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let location = local(dir.path());
    let mut child = std::process::Command::new(std::env::current_exe().expect("exe"))
        .args([
            "--exact",
            "lease::tests::lease_of_a_killed_process_is_free_at_once",
        ])
        .env(CHILD, dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("spawn");
    let acquire = || futures::executor::block_on(Lease::acquire(&location, owner()));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while futures::executor::block_on(holder(&location)).is_none() {
        assert!(
            std::time::Instant::now() < deadline,
            "the child never took the lease"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = acquire().expect_err("held by the child");
    let pid = format!("pid {}", child.id());
    assert!(error.to_string().contains(&pid), "{error}");
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(acquire().expect("free").generation(), 2);
}

#[test]
fn lease_futures_can_move_between_threads() {
    fn assert_send<T: Send>(_: T) {}
    assert_send(Lease::acquire(&remote(), owner()));
}
