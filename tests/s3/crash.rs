//! Goal: a crash at any durable step of a query from bucket to bucket loses and doubles nothing.
//! Method: count the fault points of an undisturbed run, crash at each, run again, compare by manifest and by listing.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use weir::prelude::*;
use weir::runtime::{FailPoints, Fault};

use crate::bucket::{Bucket, session};
use crate::stages::{Job, lines};

const ROWS: u64 = 4;
/// Places under way at the same time.
const AT_ONCE: usize = 4;

/// A query of one epoch for each file, with fault points.
fn job(bucket: &Bucket, name: &str, failpoints: &Arc<FailPoints>) -> Job {
    Job {
        input: bucket.url(&format!("{name}/in")),
        format: "json",
        engine: QueryConfig {
            failpoints: Arc::clone(failpoints),
            parallelism: 1,
            ..QueryConfig::default()
        },
        ..Job::of(bucket, name)
    }
}

async fn put(bucket: &Bucket, name: &str, file: u64) {
    let key = format!("{name}/in/{file}.json");
    bucket.put(&key, lines(file, ROWS)).await;
}

/// Ids in the files a plain listing shows, sorted.
async fn listed(bucket: &Bucket, name: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for key in bucket.keys(&format!("{name}/out")).await {
        if key.contains("/_") {
            continue;
        }
        let text = String::from_utf8(bucket.get(&key).await).unwrap();
        ids.extend(text.lines().map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["id"].to_string()
        }));
    }
    ids.sort();
    ids
}

async fn check(bucket: &Bucket, name: &str, files: u64) {
    let ids = (0..files).flat_map(|file| (0..ROWS).map(move |row| file * 1_000 + row));
    let mut expected: Vec<String> = ids.map(|id| id.to_string()).collect();
    expected.sort();
    let table = job(bucket, name, &Arc::default()).table(&session()).await;
    let mut ids: Vec<String> = table
        .iter()
        .map(|row| row.split('|').next().unwrap().to_owned())
        .collect();
    ids.sort();
    assert_eq!(ids, expected, "{name}, by manifest");
    assert_eq!(listed(bucket, name).await, expected, "{name}, by listing");
    let staged = bucket.keys(&format!("{name}/out/_weir_staging")).await;
    assert!(staged.is_empty(), "{name}: leftovers {staged:?}");
}

async fn crash(bucket: &Bucket, place: u64) -> Result<()> {
    let name = format!("place-{place}");
    put(bucket, &name, 0).await;
    let crashing = job(bucket, &name, &Arc::new(FailPoints::crash_at(place)));
    if let Err(error) = crashing.run(&session()).await {
        assert_eq!(error.fault(), Fault::Crash, "{error}");
    }
    // Another file arrives while the process is down: a replay must not take it in.
    put(bucket, &name, 1).await;
    job(bucket, &name, &Arc::default()).run(&session()).await?;
    check(bucket, &name, 2).await;
    Ok(())
}

#[tokio::test]
async fn e1_e2_e3_bucket_to_bucket_is_exactly_once_for_a_crash_at_every_place() {
    let bucket = Bucket::new();
    put(&bucket, "undisturbed", 0).await;
    let counted = Arc::new(FailPoints::recording());
    let undisturbed = job(&bucket, "undisturbed", &counted);
    undisturbed.run(&session()).await.unwrap();
    check(&bucket, "undisturbed", 1).await;
    let places = counted.hits();
    assert!(places > 20, "only {:?}", counted.names());
    let crashes = futures::stream::iter(0..places).map(|place| crash(&bucket, place));
    let crashes = crashes.buffer_unordered(AT_ONCE);
    crashes.try_collect::<Vec<()>>().await.unwrap();
}
