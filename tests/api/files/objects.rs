//! Sources, sinks and checkpoints in an object store (the one in memory; `tests/s3` does the same with a server).

use std::sync::{Arc, Mutex};

use weir::prelude::*;

use crate::field::stage::texts;
use crate::support::{Home, session};

/// An object store of the test's own, which is freed in the end.
struct Objects(&'static str);

impl Objects {
    fn url(&self, name: &str) -> String {
        format!("memory://{}/{name}", self.0)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        weir::state::CheckpointLocation::forget_memory(self.0);
    }
}

const COLUMNS: &str = "v BIGINT, k STRING";

/// Rows of local files into the store.
async fn write(home: &Home, objects: &Objects, format: &str) {
    let query = session()
        .read_stream()
        .format("json")
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .load(&home.text("in"))
        .unwrap()
        .write_stream()
        .format(format)
        .partition_by(["k"])
        .checkpoint(&objects.url("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&objects.url("out"))
        .await
        .unwrap();
    query.await_termination().await.unwrap();
}

/// What a stream over the output has not seen before.
async fn read(objects: &Objects, format: &str) -> Vec<String> {
    let rows = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&rows);
    let query = session()
        .read_stream()
        .format(format)
        .schema(COLUMNS)
        .load(&objects.url("out"))
        .unwrap()
        .write_stream()
        .checkpoint(&objects.url("reader"))
        .trigger(Trigger::AvailableNow)
        .foreach_batch(move |frame, _| {
            let taken = Arc::clone(&taken);
            async move {
                let batches = frame.collect().await?;
                taken.lock().unwrap().extend(batches.iter().flat_map(texts));
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort();
    rows
}

#[tokio::test]
async fn object_store_takes_what_streams_write_and_gives_it_back() {
    for (name, format) in [
        ("api-parquet", "parquet"),
        ("api-json", "json"),
        ("api-csv", "csv"),
        ("api-avro", "avro"),
    ] {
        let (home, objects) = (Home::new(), Objects(name));
        home.put("in/a.json", "{\"v\":1,\"k\":\"a/b\"}\n{\"v\":2}\n");
        home.put("in/b.json", "{\"v\":3,\"k\":\"100% x\"}\n");
        write(&home, &objects, format).await;
        let first = ["1|a/b", "2|null", "3|100% x"];
        assert_eq!(read(&objects, format).await, first, "{format}");
        assert!(
            read(&objects, format).await.is_empty(),
            "{format}: nothing new"
        );
        home.put("in/c.json", "{\"v\":4,\"k\":\"a/b\"}\n");
        write(&home, &objects, format).await;
        assert_eq!(
            read(&objects, format).await,
            ["4|a/b"],
            "{format}: both went on"
        );
        let session = session();
        let table = session
            .read()
            .format(format)
            .schema(COLUMNS)
            .option("recursiveFileLookup", false);
        let table = table.load(&objects.url("out")).await.unwrap();
        let batches = table.filter("k = 'a/b'").unwrap().collect().await.unwrap();
        let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
        rows.sort();
        assert_eq!(rows, ["1|a/b", "4|a/b"], "{format} as a table");
    }
}

#[tokio::test]
async fn object_store_paths_that_cannot_be_are_refused_by_name() {
    let load = |path: &str| {
        session()
            .read_stream()
            .format("json")
            .schema(COLUMNS)
            .load(path)
    };
    let error = load("memory://api-nothing/in").unwrap_err();
    assert_eq!(error.condition(), Some("PATH_NOT_FOUND"));
    let error = load("memory://api-nothing/in*").unwrap_err().to_string();
    assert!(error.contains("pathGlobFilter"), "{error}");
    let error = load("nowhere://bucket/in").unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}
