//! Checkpoints in a bucket: state that goes on, and two runs that want the same one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use weir::prelude::*;
use weir::runtime::{Clock, Fault, SystemClock};
use weir::state::{
    CheckpointLocation, CheckpointLog, CreateOutcome, Epoch, Manifest, ObjectStoreSettings,
    StateError,
};

use crate::bucket::{Bucket, endpoint, session, settings};
use crate::stages::{Job, all_processed, end, lines, soon};

#[tokio::test]
async fn checkpoint_of_a_stateful_query_goes_on_and_its_state_reads_as_a_table() {
    const FILES: u64 = 8;
    let (bucket, session) = (Bucket::new(), session());
    let job = |name: &str| Job {
        windows: true,
        ..Job::of(&bucket, name)
    };
    let cut = job("cut");
    for file in 0..FILES {
        bucket
            .put(&format!("in/{file}.json"), lines(file, 20))
            .await;
        if file % 3 == 2 {
            cut.run(&session).await.unwrap();
        }
    }
    cut.run(&session).await.unwrap();
    let straight = job("straight");
    straight.run(&session).await.unwrap();
    let rows = straight.table(&session).await;
    // The newest row is at 70.7 s, so the watermark is at 55.7 s: behind it are five windows of three keys.
    assert_eq!(rows.len(), 15, "{rows:?}");
    assert_eq!(cut.table(&session).await, rows);
    let state = session.read().format("statestore");
    let state = state.load(&cut.checkpoint).await.unwrap();
    let open = state.count().await.unwrap();
    assert_eq!(open, 9, "three windows are open");
    let metadata = session.read().format("state-metadata");
    let metadata = metadata.load(&cut.checkpoint).await.unwrap();
    assert_eq!(metadata.count().await.unwrap(), 1);
}

#[tokio::test]
async fn e6_second_run_on_a_checkpoint_is_refused_at_its_start() {
    let (bucket, session) = (Bucket::new(), session());
    bucket.put("in/0.json", lines(0, 3)).await;
    let job = Job {
        trigger: Trigger::Default,
        ..Job::of(&bucket, "t")
    };
    let query = job.start(&session).await.unwrap();
    let error = job.start(&crate::bucket::session()).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.fault(), Fault::Conflict, "{text}");
    assert!(
        text.contains("is in use") && text.contains(&job.checkpoint),
        "{text}"
    );
    all_processed(&query).await;
    soon("a stop", query.stop()).await;
    assert_eq!(job.table(&session).await.len(), 3);
    // The lease was given back.
    let job = Job {
        trigger: Trigger::AvailableNow,
        ..job
    };
    job.run(&session).await.unwrap();
}

/// The host's clock, ahead by some time.
#[derive(Debug)]
struct Ahead(SystemClock, i64);

impl Clock for Ahead {
    fn now_ms(&self) -> i64 {
        self.0.now_ms() + self.1
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

#[tokio::test]
async fn e6_run_that_lost_its_lease_cannot_commit_what_its_successor_committed() {
    let (bucket, session) = (Bucket::new(), session());
    bucket.put("in/0.json", lines(0, 3)).await;
    let (held, reached, let_go) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let checkpoint = bucket.url("checkpoint");
    let writer = |session: &Session, clock: Arc<dyn Clock>| {
        let (held, reached, let_go) = (held.clone(), reached.clone(), let_go.clone());
        let frame = session.read_stream().format("json").schema("id BIGINT");
        frame
            .load(&bucket.url("in"))
            .unwrap()
            .write_stream()
            .trigger(Trigger::AvailableNow)
            .checkpoint(&checkpoint)
            .engine(QueryConfig {
                clock,
                ..QueryConfig::default()
            })
            .foreach_batch(move |_, _| {
                let (held, reached, let_go) = (held.clone(), reached.clone(), let_go.clone());
                async move {
                    // Only the first run stands still in the middle of its epoch.
                    if held.swap(false, Ordering::SeqCst) {
                        reached.notify_one();
                        let_go.notified().await;
                    }
                    Ok(())
                }
            })
    };
    let first = writer(&session, Arc::new(SystemClock::new()));
    let first = soon("a start", first.start()).await.unwrap();
    soon("an epoch", reached.notified()).await;
    // A host whose clock says that the lease has run out.
    let clock = Ahead(SystemClock::new(), 60_000);
    let second = writer(&crate::bucket::session(), Arc::new(clock));
    let second = soon("a start", second.start()).await.unwrap();
    end(&second).await.unwrap();
    let_go.notify_one();
    let error = end(&first).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.fault(), Fault::Conflict, "{text}");
    assert!(
        text.contains("generation 1") && text.contains(&checkpoint),
        "{text}"
    );
    let commits = bucket.keys("checkpoint/commits").await;
    assert_eq!(commits, ["checkpoint/commits/0"]);
    let commit = String::from_utf8(bucket.get("checkpoint/commits/0").await).unwrap();
    assert!(commit.contains("\"generation\": 2"), "{commit}");
}

fn location(bucket: &Bucket, name: &str) -> CheckpointLocation {
    let mut own = ObjectStoreSettings::default();
    for (name, value) in settings(&endpoint()) {
        own.set(name, &value).unwrap();
    }
    CheckpointLocation::open_with(&bucket.url(name), &own).unwrap()
}

#[tokio::test]
async fn e2_file_is_created_only_if_it_is_absent() {
    let bucket = Bucket::new();
    let location = location(&bucket, "c # %");
    let created = location.create("a/1", "mine").await.unwrap();
    assert_eq!(created, CreateOutcome::Created);
    let again = location.create("a/1", "another's").await.unwrap();
    assert_eq!(again, CreateOutcome::AlreadyExists);
    assert_eq!(&*bucket.get("c # %/a/1").await, b"mine");
    assert_eq!(location.list("a").await.unwrap().len(), 1);
    location.delete("a/1").await.unwrap();
    assert_eq!(location.get("a/1").await.unwrap(), None);
    assert!(location.list("a").await.unwrap().is_empty());
}

#[tokio::test]
async fn e6_manifest_that_is_there_names_who_wrote_it() {
    let bucket = Bucket::new();
    // As consoles make folders: it does not look like somebody else's directory.
    bucket.put_folder("ck/");
    let log = || CheckpointLog::new(location(&bucket, "ck"));
    let manifest = |generation| Manifest::new(Epoch(0), generation, 0);
    log().recover().await.unwrap();
    log().publish_manifest(&manifest(1)).await.unwrap();
    let error = log().publish_manifest(&manifest(2)).await.unwrap_err();
    let StateError::ConcurrentWriter {
        ours,
        theirs,
        epoch,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (*epoch, *ours, *theirs),
        (Some(Epoch(0)), Some(2), Some(1)),
        "{error}"
    );
}
