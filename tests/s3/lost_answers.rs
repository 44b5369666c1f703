//! Requests that were done and whose answers were lost: tried again, they meet what they did themselves.

use crate::bucket::{Bucket, session, session_at};
use crate::proxy::Proxy;
use crate::stages::{Job, lines};

#[tokio::test]
async fn e2_lost_answer_to_a_creation_is_not_taken_for_another_writer() {
    let (bucket, proxy) = (Bucket::new(), Proxy::new());
    for file in 0..2 {
        bucket.put(&format!("in/{file}.json"), lines(file, 3)).await;
    }
    for (number, object) in [
        "checkpoint/lease",
        "checkpoint/metadata",
        "checkpoint/sources/",
        "checkpoint/offsets/0",
        "checkpoint/offsets/1",
        "checkpoint/commits/0",
        "checkpoint/commits/1",
        "out/_spark_metadata/0",
        "out/k%3D", // the copy of a file to its final name
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        let job = Job::of(&bucket, &name);
        proxy.lose(&format!("PUT /{}/{name}/{object}", bucket.name));
        let done = job.run(&session_at(&proxy.endpoint)).await;
        done.unwrap_or_else(|error| panic!("{object}: {error}"));
        assert_eq!(proxy.losing(), 0, "{object}: an answer was lost");
        assert_eq!(job.table(&session()).await.len(), 6, "{object}");
        let commits = bucket.keys(&format!("{name}/checkpoint/commits")).await;
        assert_eq!(commits.len(), 2, "{object}: {commits:?}");
    }
}
