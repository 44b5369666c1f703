//! Which files belong to the stream.

use std::sync::Arc;

use weir_runtime::{Epoch, Fault, ManualClock, Source};

use super::super::{FileSource, JsonSource};
use super::support::*;
use crate::file::sink::JsonSink;

#[tokio::test]
async fn hidden_names_and_copies_in_progress_are_not_read() {
    // P055, P057.
    let dirs = Dirs::new();
    for name in [
        "_SUCCESS",
        ".part.crc",
        ".a.json.tmp",
        "b.json._COPYING_",
        "_tmp/c.json",
        ".x/d.json",
        "sub/e.json",
    ] {
        dirs.put(name, &[9], 0);
    }
    dirs.put("a.json", &[1], 0);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    assert_eq!(driver.trigger().await, Some(vec![1]));
    std::fs::rename(dirs.path("b.json._COPYING_"), dirs.path("b.json")).unwrap();
    assert_eq!(
        driver.trigger().await,
        Some(vec![9]),
        "renamed when it is whole"
    );
}

#[tokio::test]
async fn recursive_lookup_reads_directories_inside() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    dirs.put("sub/b.json", &[2], 1);
    dirs.put("sub/deep/c.json", &[3], 2);
    dirs.put("k=1/d.json", &[4], 3);
    dirs.put("_hidden/e.json", &[9], 0);
    #[cfg(unix)]
    std::os::unix::fs::symlink(dirs.path("sub"), dirs.path("sub/deep/up")).unwrap();
    let mut driver = Driver::start(
        &dirs,
        dirs.source(|source| source.recursive_file_lookup(true)),
    )
    .await;
    assert_eq!(driver.trigger().await, Some(vec![1, 2, 3, 4]));
}

#[tokio::test]
async fn partition_directories_are_read_and_others_are_not() {
    let dirs = Dirs::new();
    dirs.put("_k=1/a.json", &[1], 0);
    dirs.put("k=2/j=%2F/b.json", &[2], 1);
    dirs.put("plain/c.json", &[3], 2);
    dirs.put("plain/k=3/d.json", &[4], 3);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    assert_eq!(driver.trigger().await, Some(vec![1, 2]));
    let config = JsonSource::new(dirs.input.path().to_str().unwrap())
        .schema(schema())
        .into_config()
        .unwrap();
    let columns = config.add_partition_columns().unwrap().schema;
    let names: Vec<&str> = columns.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["id", "_k", "k", "j"]);
}

#[tokio::test]
async fn quiet_directories_are_only_glanced_at_until_something_changes() {
    let dirs = Dirs::new();
    dirs.put("k=1/a.json", &[1], 0);
    let clock = Arc::new(ManualClock::new(0));
    let mut driver = Driver::start_at(&dirs, dirs.source(|source| source), clock.clone()).await;
    assert_eq!(driver.trigger().await, Some(vec![1]));
    // By a clock that says 1970 every directory has just changed.
    for _ in 0..3 {
        assert_eq!(driver.trigger().await, None);
    }
    assert_eq!(driver.source.listings(), 4);
    clock.set_now_ms(i64::MAX / 2);
    for _ in 0..10 {
        assert_eq!(driver.trigger().await, None);
    }
    assert_eq!(
        driver.source.listings(),
        5,
        "one more, and its answer holds"
    );
    dirs.put("k=1/b.json", &[2], 1);
    assert_eq!(driver.trigger().await, Some(vec![2]));
    assert_eq!(driver.trigger().await, None);
    dirs.put("k=2/c.json", &[3], 1);
    assert_eq!(driver.trigger().await, Some(vec![3]));
    let before = driver.source.listings();
    for _ in 0..40 {
        assert_eq!(driver.trigger().await, None);
    }
    let looked = driver.source.listings() - before;
    assert!(
        (2..=4).contains(&looked),
        "now and then the directory is listed all the same: {looked}"
    );
}

#[tokio::test]
async fn a_hundred_thousand_files_are_taken_up_once_and_cost_idle_triggers_nothing() {
    // P066.
    const FILES: usize = 100_000;
    let dirs = Dirs::new();
    for file in 0..FILES {
        std::fs::write(dirs.path(&format!("{file:06}.json")), "").unwrap();
    }
    let source = || dirs.source(|source| source.max_files_per_trigger(5_000));
    let clock = Arc::new(ManualClock::new(i64::MAX / 2));
    let mut driver = Driver::start_at(&dirs, source(), clock).await;
    let mut taken = 0;
    for epoch in 0.. {
        let Some((start, end)) = driver.plan().await else {
            break;
        };
        let splits = driver
            .source
            .splits(Epoch(epoch), start.as_ref(), &end)
            .await;
        taken += splits.unwrap().len();
        driver.commit(&end).await;
    }
    assert_eq!(taken, FILES);
    let before = driver.source.listings();
    for _ in 0..10 {
        assert_eq!(driver.plan().await, None);
    }
    let listed = driver.source.listings() - before;
    assert!(listed <= 1, "{listed} listings for ten idle triggers");
    let log = std::fs::read_dir(dirs.checkpoint.path().join("sources/0")).unwrap();
    let sizes = log.map(|file| file.unwrap().metadata().unwrap().len());
    let bytes: u64 = sizes.sum();
    assert!(bytes < 30 << 20, "{bytes} bytes");
    assert_eq!(driver.restart(source()).await.plan().await, None);
}

#[tokio::test]
async fn odd_names_are_read_once_also_after_a_restart() {
    // P058.
    let names = [
        "-dash.json",
        "50%25 off.json",
        "a b.json",
        "abc[123].json",
        "città-данные-例.json",
        "t12:30:00.json",
        "x#y&z.json",
        "{a,b}*.json",
    ];
    let dirs = Dirs::new();
    for (id, name) in (1..).zip(names) {
        dirs.put(name, &[id], 0);
    }
    let source = || dirs.source(|source| source.max_files_per_trigger(2));
    let mut driver = Driver::start(&dirs, source()).await;
    let mut ids = Vec::new();
    while let Some(rows) = driver.trigger().await {
        ids.extend(rows);
    }
    assert_eq!(ids, (1..=8).collect::<Vec<_>>());
    assert_eq!(driver.restart(source()).await.trigger().await, None);
}

#[tokio::test]
async fn path_that_exists_is_no_glob_and_one_that_does_not_is() {
    let dirs = Dirs::new();
    for (name, id) in [
        ("in[1]/a.json", 1),
        ("in1/b.json", 2),
        ("x/2024/c.json", 3),
        ("x/2025/d.json", 4),
        ("y/2024/e.json", 5),
    ] {
        dirs.put(name, &[id], id);
    }
    for (path, expected) in [
        ("in[1]", Some(vec![1])),
        ("in[1-3]", Some(vec![2])),
        ("{x,y}/2024", Some(vec![3, 5])),
        ("*/202?", Some(vec![3, 4, 5])),
        ("x/2024/*.json", Some(vec![3])),
        ("z*", None),
    ] {
        let source = source_of(&dirs.path(path), |source| source);
        let mut driver = Driver::start(&dirs.share(), source).await;
        assert_eq!(driver.trigger().await, expected, "{path}");
    }
}

#[tokio::test]
async fn path_glob_filter_chooses_names() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    dirs.put("b.jsonl", &[2], 0);
    let mut driver = Driver::start(
        &dirs,
        dirs.source(|source| source.path_glob_filter("*.jsonl")),
    )
    .await;
    assert_eq!(driver.trigger().await, Some(vec![2]));
    let bad = JsonSource::new("/in")
        .schema(schema())
        .path_glob_filter("[")
        .build();
    assert_eq!(bad.err().unwrap().fault(), Fault::Config);
}

#[test]
fn path_missing_or_a_file_or_remote_is_refused() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    let missing = source_of(&dirs.path("nothing"), |source| source)
        .check_path()
        .unwrap_err();
    assert_eq!(missing.condition(), Some("PATH_NOT_FOUND"));
    let file = source_of(&dirs.path("a.json"), |source| source)
        .check_path()
        .unwrap_err();
    assert!(file.message().contains("must be a directory"), "{file}");
    let remote = JsonSource::new("nowhere://bucket/in")
        .schema(schema())
        .build()
        .err()
        .unwrap();
    assert!(remote.message().contains("nowhere"), "{remote}");
    assert!(
        source_of(&dirs.path("no*"), |source| source)
            .check_path()
            .is_ok(),
        "a glob may match later"
    );
}

#[tokio::test]
async fn file_url_is_a_path_too() {
    let dirs = Dirs::new();
    dirs.put("a b/a.json", &[1], 0);
    let url = format!("file://{}/a%20b", dirs.input.path().display());
    let source = JsonSource::new(url).schema(schema()).build().unwrap();
    let mut driver = Driver::start(&dirs, source).await;
    assert_eq!(driver.trigger().await, Some(vec![1]));
}

#[tokio::test]
async fn output_of_a_file_sink_is_read_by_its_manifest() {
    use weir_runtime::{Epoch, FailPoints, ManualClock, OutputMode, Sink, SinkContext};
    let dirs = Dirs::new();
    let sink = JsonSink::new(dirs.input.path().to_str().unwrap())
        .build()
        .unwrap();
    let context = SinkContext {
        uid: "out".to_owned(),
        query_id: uuid::Uuid::from_u128(1),
        generation: 1,
        schema: schema(),
        mode: OutputMode::Append,
        key_columns: Vec::new(),
        parallelism: 1,
        committed_epoch: None,
        unfinished: None,
        clock: std::sync::Arc::new(ManualClock::new(0)),
        failpoints: std::sync::Arc::new(FailPoints::default()),
    };
    sink.open(&context).await.unwrap();
    let mut committer = sink.committer(&context).unwrap();
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    for epoch in 0..12_i64 {
        let ids = arrow::array::Int64Array::from(vec![epoch]);
        let batch =
            arrow::array::RecordBatch::try_new(schema(), vec![std::sync::Arc::new(ids)]).unwrap();
        let mut writer = sink.writer(&context, 0).unwrap();
        let number = Epoch(epoch.unsigned_abs());
        let rows = weir_runtime::Rows::inserts(batch);
        writer
            .write(weir_runtime::EpochBatch {
                epoch: number,
                origin: Default::default(),
                rows,
            })
            .await
            .unwrap();
        let prepared = writer.prepare(number).await.unwrap();
        assert_eq!(driver.trigger().await, None, "not committed");
        committer.commit(number, vec![prepared]).await.unwrap();
        dirs.put("orphan.json", &[99], 0);
        assert_eq!(driver.trigger().await, Some(vec![epoch]));
    }
}

#[tokio::test]
async fn files_that_were_found_are_read_and_no_others_are_looked_for() {
    let dirs = Dirs::new();
    dirs.put("k=1/a.json", &[1], 0);
    dirs.put("k=1/b.json", &[2], 1);
    dirs.put("k=2/c.json", &[3], 2);
    let config = dirs.source(|source| source).config().clone();
    let rows = config.partition_rows(&["id"]);
    assert_eq!(rows.unwrap().of(&dirs.path("k=1")), None, "another column");
    let mut asked = Vec::new();
    let found = config.with_files_found(|directory| {
        asked.push(directory.to_owned());
        !directory.ends_with("k=2")
    });
    asked.sort();
    assert_eq!(asked, [dirs.path("k=1"), dirs.path("k=2")], "once each");
    dirs.put("k=1/d.json", &[4], 3);
    std::fs::remove_file(dirs.path("k=2/c.json")).unwrap();
    let source = FileSource::new(found.unwrap()).unwrap();
    let mut driver = Driver::start(&dirs, source).await;
    assert_eq!(driver.trigger().await, Some(vec![1, 2]));
    assert_eq!(driver.trigger().await, None);
}
