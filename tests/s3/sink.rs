//! Files written into a bucket, and read from it as a table and as a stream.

use crate::bucket::{Bucket, endpoint, plain_session, session, settings};
use crate::stages::{COLUMNS, Job, all_of, lines};
use crate::texts::texts;

#[tokio::test]
async fn sink_into_a_bucket_goes_on_after_a_restart_and_tables_read_what_is_committed() {
    let (bucket, session) = (Bucket::new(), session());
    for file in 0..3 {
        let key = format!("in/{file}.json");
        bucket.put(&key, lines(file, 6)).await;
    }
    let expected = |files: u64| {
        let table = (0..files).flat_map(|file| (0..6).map(move |row| file * 1_000 + row));
        let mut ids: Vec<String> = table.map(|id| id.to_string()).collect();
        ids.sort();
        ids
    };
    for format in ["parquet", "json", "csv", "avro"] {
        let job = Job {
            format,
            ..Job::of(&bucket, &format!("odd # % {format}"))
        };
        job.run(&session).await.unwrap();
        // What no manifest names is not there.
        let stray = format!("odd # % {format}/out/k=stray/part-0.{format}");
        bucket.put(&stray, "{\"id\":-1}").await;
        let ids = |rows: Vec<String>| -> Vec<String> {
            let id = |row: &String| row.split('|').next().unwrap().to_owned();
            let mut ids: Vec<String> = rows.iter().map(id).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(job.table(&session).await), expected(3), "{format}");
    }
    bucket.put("in/3.json", lines(3, 6)).await;
    let job = Job::of(&bucket, "odd # % parquet");
    job.run(&session).await.unwrap();
    let rows = job.table(&session).await;
    assert_eq!(rows.len(), expected(4).len(), "after a restart");
    assert!(rows[0].starts_with("0|a/b|"), "{rows:?}");
    let stream = session.read_stream().format("parquet").schema(COLUMNS);
    let stream = stream.load(&job.output).unwrap();
    let reader = bucket.url("reader");
    assert_eq!(all_of(&stream, &reader).await, rows, "as a stream");
    assert!(all_of(&stream, &reader).await.is_empty(), "nothing new");
}

#[tokio::test]
async fn table_of_a_bucket_needs_no_schema_and_reads_only_the_directories_asked_for() {
    let (bucket, session) = (Bucket::new(), plain_session());
    bucket.put("in/0.json", lines(0, 9)).await;
    let job = Job::of(&bucket, "t");
    job.run(&crate::bucket::session()).await.unwrap();
    let table = session
        .read()
        .format("parquet")
        .options(settings(&endpoint()));
    let table = table.load(&job.output).await.unwrap();
    assert_eq!(table.columns(), ["id", "ts", "k"]);
    let chosen = table.filter("k = '100% x'").unwrap();
    let chosen = chosen.select(["id"]).unwrap().collect().await.unwrap();
    assert_eq!(texts(&chosen), ["1", "4", "7"]);
    assert_eq!(table.count().await.unwrap(), 9);
}
