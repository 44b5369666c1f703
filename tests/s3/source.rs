//! Files of a bucket as a stream.

use std::time::Duration;

use futures::StreamExt;
use weir::prelude::*;

use crate::bucket::{Bucket, endpoint, plain_session, session, settings};
use crate::stages::{Taken, all_of, all_processed, soon};

#[tokio::test]
async fn source_takes_files_that_come_between_epochs_and_columns_of_directories() {
    let (bucket, session, taken) = (Bucket::new(), session(), Taken::default());
    bucket.put("in/day=2026-01-01/a.json", "{\"v\":1}\n").await;
    let frame = session
        .read_stream()
        .format("json")
        .schema("v BIGINT, day DATE")
        .load(&bucket.url("in"))
        .unwrap();
    let start = || {
        let writer = taken.writer(&frame).checkpoint(&bucket.url("checkpoint"));
        let trigger = Trigger::ProcessingTime(Duration::from_millis(50));
        writer.trigger(trigger).start()
    };
    let query = soon("a start", start()).await.unwrap();
    all_processed(&query).await;
    assert_eq!(taken.rows(), ["1|2026-01-01"]);
    bucket.put("in/day=2026-01-02/b.json", "{\"v\":2}\n").await;
    bucket.put("in/day=2026-01-01/c.json", "{\"v\":3}\n").await;
    all_processed(&query).await;
    assert_eq!(taken.rows(), ["2|2026-01-02", "3|2026-01-01"]);
    soon("a stop", query.stop()).await;
    bucket.put("in/day=2026-01-03/d.json", "{\"v\":4}\n").await;
    let query = soon("a start", start()).await.unwrap();
    all_processed(&query).await;
    assert_eq!(taken.rows(), ["4|2026-01-03"], "after a restart");
    soon("a stop", query.stop()).await;
}

#[tokio::test]
async fn source_reads_keys_of_any_letters_by_options_of_its_own() {
    let (bucket, session) = (Bucket::new(), plain_session());
    let names = [
        "plain",
        "with space",
        "100%",
        "a%20b",
        "a%2Fb",
        "#1",
        "q?x=1&y=2",
        "a+b=c",
        "[x]{y}",
        "città",
        "日本 語",
        "🦀",
        "quote'\"",
        "back\\slash",
        "colon:at@",
    ];
    for (number, name) in names.iter().enumerate() {
        let key = format!("in # %/{name}.json");
        bucket.put(&key, format!("{{\"v\":{number}}}\n")).await;
    }
    let frame = session
        .read_stream()
        .format("json")
        .schema("v BIGINT")
        .options(settings(&endpoint()))
        .load(&bucket.url("in # %"))
        .unwrap();
    let local = tempfile::tempdir().unwrap();
    let checkpoint = local.path().to_str().unwrap();
    let mut expected: Vec<String> = (0..names.len()).map(|v| v.to_string()).collect();
    expected.sort();
    assert_eq!(all_of(&frame, checkpoint).await, expected);
    assert!(all_of(&frame, checkpoint).await.is_empty(), "nothing new");
}

#[tokio::test]
async fn source_lists_more_objects_than_one_answer_holds() {
    const OBJECTS: usize = 1_100;
    let (bucket, session) = (Bucket::new(), session());
    let put = |number: usize| {
        let bucket = &bucket;
        async move {
            let key = format!("in/{number:05}.json");
            bucket.put(&key, format!("{{\"v\":{number}}}\n")).await;
        }
    };
    let puts = futures::stream::iter(0..OBJECTS).map(put);
    puts.buffer_unordered(16).collect::<Vec<()>>().await;
    let frame = session
        .read_stream()
        .format("json")
        .schema("v BIGINT")
        .load(&bucket.url("in"))
        .unwrap();
    let rows = all_of(&frame, &bucket.url("checkpoint")).await;
    let mut expected: Vec<String> = (0..OBJECTS).map(|v| v.to_string()).collect();
    expected.sort();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn source_passes_over_folders_and_hidden_objects_and_deletes_what_was_read() {
    let (bucket, session) = (Bucket::new(), session());
    bucket.put_folder("in/");
    bucket.put_folder("in/empty.json/");
    bucket.put("in/a.json", "{\"v\":1}\n").await;
    bucket.put("in/nothing.json", "").await;
    for hidden in ["in/_b.json", "in/.c.json", "in/below/d.json"] {
        bucket.put(hidden, "{\"v\":7}\n").await;
    }
    let frame = session
        .read_stream()
        .format("json")
        .schema("v BIGINT")
        .option("cleanSource", "delete")
        .load(&bucket.url("in"))
        .unwrap();
    let checkpoint = bucket.url("checkpoint");
    assert_eq!(all_of(&frame, &checkpoint).await, ["1"]);
    let left = bucket.keys("in").await;
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    assert!(
        !left.contains(&"in/a.json") && !left.contains(&"in/nothing.json"),
        "{left:?}"
    );
    for kept in ["in/_b.json", "in/.c.json", "in/below/d.json"] {
        assert!(left.contains(&kept), "{left:?}");
    }
}
