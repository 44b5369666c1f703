//! Goal: SIGKILL at random moments loses and doubles nothing of a query from bucket to bucket.
//! Method: this test binary runs itself as a child that runs the query and is told by `AWS_*` how the server is reached; the parent
//! kills it and starts it again. After a kill the lease of the checkpoint has to run out first.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir::prelude::*;
use weir::runtime::Fault;

use crate::bucket::{ACCESS_KEY, Bucket, SECRET_KEY, endpoint, plain_session, session};
use crate::moments::{number, random};
use crate::stages::{Job, end, lines};

const CHILD: &str = "WEIR_TEST_CHILD";
const ROWS: u64 = 20;
/// Longest wait for a lease, and then some.
const PATIENCE: u32 = 120;

/// A child that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the test then says.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn spawn(bucket: &Bucket) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture"])
        .env(CHILD, &bucket.name)
        .env("AWS_ENDPOINT_URL", endpoint())
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

/// Starts a query as soon as the checkpoint is free.
async fn start(job: &Job, session: &Session) -> StreamingQuery {
    for _ in 0..PATIENCE {
        match job.start(session).await {
            Ok(query) => return query,
            Err(error) => assert_eq!(error.fault(), Fault::Conflict, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("the lease does not run out");
}

fn job(bucket: &Bucket, name: &str, trigger: Trigger) -> Job {
    Job {
        windows: true,
        files: 2,
        trigger,
        ..Job::of(bucket, name)
    }
}

/// Not a test of its own: the body of the child process.
#[tokio::test]
async fn child() {
    let Ok(name) = std::env::var(CHILD) else {
        return;
    };
    let job = job(&Bucket::of(&name), "killed", Trigger::Default);
    let query = start(&job, &plain_session()).await;
    query.await_termination().await.unwrap();
}

#[tokio::test]
async fn e1_e2_e3_killed_queries_are_exactly_once_from_bucket_to_bucket() {
    let bucket = Bucket::new();
    let mut seed = number("WEIR_SEED", 42);
    let mut files = 0;
    for kill in 1..=number("WEIR_KILLS", 2) {
        let child = spawn(&bucket);
        let committed = || bucket.keys("killed/checkpoint/commits");
        let before = committed().await.len();
        // Files it lives on for, once it has committed something.
        let mut lives = None;
        for _ in 0..PATIENCE {
            bucket
                .put(&format!("in/{files:03}.json"), lines(files, ROWS))
                .await;
            files += 1;
            tokio::time::sleep(Duration::from_millis(400)).await;
            if committed().await.len() > before {
                lives.get_or_insert(1 + random(&mut seed) % 4);
            }
            if let Some(lives) = &mut lives {
                *lives -= 1;
                if *lives == 0 {
                    break;
                }
            }
        }
        assert_eq!(lives, Some(0), "child {kill} committed something");
        drop(child);
    }
    bucket
        .put(&format!("in/{files:03}.json"), lines(files, ROWS))
        .await;
    let session = session();
    let killed = job(&bucket, "killed", Trigger::AvailableNow);
    let query = start(&killed, &session).await;
    end(&query).await.unwrap();
    let undisturbed = Job {
        files: 50,
        ..job(&bucket, "undisturbed", Trigger::AvailableNow)
    };
    undisturbed.run(&session).await.unwrap();
    let expected = undisturbed.table(&session).await;
    assert!(expected.len() > 15, "{expected:?}");
    assert_eq!(killed.table(&session).await, expected);
}
