//! Files as a sink: how many there are, what they are called, and what the manifest costs.

use std::sync::{Arc, Mutex};

use weir::prelude::*;
use weir::runtime::FailPoints;

use super::{Reading, files_below};
use crate::field::stage::texts;
use crate::support::{Home, add, session, stream};

async fn start(
    frame: &DataFrame,
    out: &Home,
    options: &[(&str, &str)],
    by: &[&str],
) -> StreamingQuery {
    let mut writer = frame
        .write_stream()
        .format("json")
        .partition_by(by.iter().copied())
        .checkpoint(&out.text("checkpoint"));
    for (name, value) in options {
        writer = writer.option(name, value);
    }
    writer.start_path(&out.text("out")).await.unwrap()
}

#[tokio::test]
async fn p109_an_epoch_makes_one_file_for_each_partition_and_none_without_rows() {
    let (session, out) = (session(), Home::new());
    let (input, frame) = stream(&session);
    let frame = frame
        .select_expr(&["v", "v % 4 AS k"])
        .unwrap()
        .filter("v >= 0")
        .unwrap();
    let query = start(&frame, &out, &[], &["k"]).await;
    for epoch in 0..40_i64 {
        add(&input, &[if epoch % 2 == 0 { epoch } else { -1 }]);
        query.process_all_available().await.unwrap();
    }
    query.stop().await;
    assert_eq!(files_below(&out.path("out")).len(), 20);
    let lines: usize = newest_manifest(&out).lines().count() - 1;
    assert!(lines <= 20);
    let table = session.read().format("json").schema("v BIGINT, k INT");
    let table = table.load(&out.text("out")).await.unwrap();
    let rows: Vec<String> = table
        .collect()
        .await
        .unwrap()
        .iter()
        .flat_map(texts)
        .collect();
    assert_eq!(rows.len(), 20);
}

fn manifest_files(out: &Home) -> Vec<(u64, std::path::PathBuf)> {
    let mut files: Vec<(u64, std::path::PathBuf)> =
        std::fs::read_dir(out.path("out/_spark_metadata"))
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let name = path
                    .file_name()?
                    .to_str()?
                    .trim_end_matches(".compact")
                    .parse()
                    .ok()?;
                Some((name, path))
            })
            .collect();
    files.sort();
    files
}

fn newest_manifest(out: &Home) -> String {
    std::fs::read_to_string(&manifest_files(out).last().unwrap().1).unwrap()
}

/// Bytes of all files of the manifest, and how many there are.
fn manifest_size(out: &Home) -> (u64, usize) {
    let manifest = manifest_files(out);
    let bytes = manifest
        .iter()
        .map(|(_, path)| std::fs::metadata(path).unwrap().len());
    (bytes.sum(), manifest.len())
}

#[tokio::test]
async fn p110_with_retention_the_manifest_does_not_grow_and_a_restart_goes_on() {
    let (session, out) = (session(), Home::new());
    let (input, frame) = stream(&session);
    // Everything is older than this by the next compaction but one.
    let options = [("retention", "1ms"), ("maxRecordsPerFile", "1")];
    let mut sizes = Vec::new();
    for half in 0..2_i64 {
        let query = start(&frame, &out, &options, &[]).await;
        for epoch in half * 60..half * 60 + 60 {
            let values: Vec<i64> = (0..10).map(|n| epoch * 10 + n).collect();
            add(&input, &values);
            query.process_all_available().await.unwrap();
        }
        query.stop().await;
        sizes.push(manifest_size(&out));
    }
    assert_eq!(files_below(&out.path("out")).len(), 1_200);
    let [(before, files_before), (after, files_after)] = sizes[..] else {
        panic!("two halves")
    };
    assert!(files_before <= 22 && files_after <= 22, "{sizes:?}");
    assert!(after < before + before / 4, "{sizes:?}");
}

/// Lines of all files that a plain listing shows, sorted.
fn listed_lines(out: &Home) -> Vec<String> {
    let dir = out.path("out");
    let texts = files_below(&dir)
        .into_iter()
        .map(|file| std::fs::read_to_string(dir.join(file)).unwrap());
    let mut lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn p106_after_a_crash_between_two_files_of_an_epoch_a_plain_listing_has_each_row_once() {
    let source = Reading::new("json", "v INT, k STRING").option("maxFilesPerTrigger", 1);
    source.put("a.json", "{\"v\":1,\"k\":\"x\"}\n{\"v\":2,\"k\":\"y\"}\n");
    source.put("b.json", "{\"v\":3,\"k\":\"x\"}\n{\"v\":4,\"k\":\"y\"}\n");
    let run = async |out: &Home, failpoints: Arc<FailPoints>| {
        let session = session();
        let engine = QueryConfig {
            failpoints,
            ..QueryConfig::default()
        };
        let query = source
            .frame(&session)?
            .write_stream()
            .format("json")
            .partition_by(["k"])
            .engine(engine)
            .checkpoint(&out.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start_path(&out.text("out"))
            .await?;
        query.await_termination().await
    };
    let (undisturbed, counted) = (Home::new(), Arc::new(FailPoints::recording()));
    run(&undisturbed, Arc::clone(&counted)).await.unwrap();
    let expected = listed_lines(&undisturbed);
    assert_eq!(expected.len(), 4);
    let renames: Vec<usize> = counted
        .names()
        .iter()
        .enumerate()
        .filter(|(_, name)| **name == "file-sink:rename")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(renames.len(), 4, "two files in each of two epochs");

    let out = Home::new();
    let crash = FailPoints::crash_at(renames[3].try_into().unwrap());
    let error = run(&out, Arc::new(crash)).await.unwrap_err();
    assert_eq!(error.fault(), weir::Fault::Crash);
    assert_eq!(
        files_below(&out.path("out")).len(),
        3,
        "one file of the second epoch has its name"
    );
    let session = session();
    let table = session.read().format("json").schema("v INT, k STRING");
    let table = table.load(&out.text("out")).await.unwrap();
    assert_eq!(
        table.count().await.unwrap(),
        2,
        "the manifest knows the first epoch only"
    );
    run(&out, Arc::default()).await.unwrap();
    assert_eq!(listed_lines(&out), expected);
}

/// Rows by the number of their epoch, in the order in which they came.
type Epochs = Vec<(u64, Vec<String>)>;

#[tokio::test]
async fn p114_an_epoch_that_is_tried_again_brings_the_same_number_and_rows_to_every_target() {
    let source = Reading::new("json", "id BIGINT").option("maxFilesPerTrigger", 1);
    source.put("a.json", "{\"id\":1}\n{\"id\":2}\n");
    source.put("b.json", "{\"id\":3}\n");
    // Two targets; the first remembers the newest epoch it holds, as an idempotent writer does.
    let targets: Arc<Mutex<[Epochs; 2]>> = Arc::default();
    for attempt in 0..2 {
        let session = session();
        let targets = Arc::clone(&targets);
        let query = source
            .frame(&session)
            .unwrap()
            .write_stream()
            .checkpoint(&source.home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .foreach_batch(move |rows, epoch| {
                let targets = Arc::clone(&targets);
                async move {
                    let rows: Vec<String> = rows.collect().await?.iter().flat_map(texts).collect();
                    let mut targets = targets.lock().unwrap();
                    match targets[0].iter().find(|(held, _)| *held == epoch) {
                        Some((_, before)) => assert_eq!(*before, rows, "the same rows again"),
                        None => targets[0].push((epoch, rows.clone())),
                    }
                    if attempt == 0 {
                        return Err(WeirError::config("the second target is away"));
                    }
                    targets[1].push((epoch, rows));
                    Ok(())
                }
            })
            .start()
            .await
            .unwrap();
        assert_eq!(query.await_termination().await.is_err(), attempt == 0);
    }
    let targets = targets.lock().unwrap();
    assert_eq!(targets[0], targets[1]);
    assert_eq!(targets[0].len(), 2);
}

#[tokio::test]
async fn files_are_rolled_by_rows_and_bytes_inside_of_an_epoch_also_compressed() {
    for (options, files) in [
        (&[("maxRecordsPerFile", "400")][..], 3..=3),
        (&[("maxBytesPerFile", "2000")], 2..=20),
        (
            &[("maxBytesPerFile", "2000"), ("compression", "zstd")],
            1..=20,
        ),
    ] {
        let source = Reading::new("json", "id BIGINT");
        let lines: String = (0..1_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
        source.put("a.json", lines);
        let (session, out) = (session(), Home::new());
        let frame = source.frame(&session).unwrap();
        let query = start(&frame, &out, options, &[]).await;
        query.process_all_available().await.unwrap();
        query.stop().await;
        let written = files_below(&out.path("out"));
        assert!(files.contains(&written.len()), "{options:?}: {written:?}");
        let ends = if options.len() > 1 {
            ".json.zst"
        } else {
            ".json"
        };
        assert!(
            written.iter().all(|name| name.ends_with(ends)),
            "{written:?}"
        );
        let table = session.read().format("json").schema("id BIGINT");
        let table = table.load(&out.text("out")).await.unwrap();
        assert_eq!(table.count().await.unwrap(), 1_000);
    }
}

#[tokio::test]
async fn p120_epochs_without_rows_pass_every_format_and_leave_nothing() {
    for format in ["json", "csv", "parquet", "avro", "text"] {
        let (session, out) = (session(), Home::new());
        let (input, frame) = stream(&session);
        let frame = frame
            .filter("v > 0")
            .unwrap()
            .select_expr(&["CAST(v AS STRING) AS value"])
            .unwrap();
        let query = frame
            .write_stream()
            .format(format)
            .checkpoint(&out.text("checkpoint"))
            .start_path(&out.text("out"))
            .await
            .unwrap();
        for values in [&[][..], &[0], &[1], &[], &[0]] {
            add(&input, values);
            query.process_all_available().await.unwrap();
        }
        query.stop().await;
        assert_eq!(files_below(&out.path("out")).len(), 1, "{format}");
        let table = session.read().format(format).schema("value STRING");
        let table = table.load(&out.text("out")).await.unwrap();
        let rows: Vec<String> = table
            .collect()
            .await
            .unwrap()
            .iter()
            .flat_map(texts)
            .collect();
        assert_eq!(rows, ["1"], "{format}");
    }
}

#[tokio::test]
async fn cluster_by_is_checked_and_leaves_rows_where_they_are() {
    let source = Reading::new("json", "v INT, k STRING");
    source.put("a.json", "{\"v\":1,\"k\":\"x\"}\n{\"v\":2,\"k\":\"y\"}\n");
    let (session, out) = (session(), Home::new());
    let writer = source
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("json")
        .checkpoint(&out.text("checkpoint"))
        .trigger(Trigger::AvailableNow);
    let path = out.text("out");
    for (writer, parts) in [
        (
            writer.clone().cluster_by(["K", "other"]),
            &["'other'", "v, k"][..],
        ),
        (
            writer.clone().cluster_by(["k"]).partition_by(["k"]),
            &["cluster_by", "partition_by"],
        ),
    ] {
        let error = writer.start_path(&path).await.unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let query = writer.cluster_by(["K"]).start_path(&path).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(
        listed_lines(&out),
        ["{\"v\":1,\"k\":\"x\"}", "{\"v\":2,\"k\":\"y\"}"]
    );
}

#[tokio::test]
async fn files_that_no_manifest_names_are_read_only_if_manifests_are_ignored() {
    const IGNORE: &str = "spark.sql.streaming.fileStreamSink.ignoreMetadata";
    for format in ["json", "parquet"] {
        let source = Reading::new("json", "v INT");
        source.put("a.json", "{\"v\":1}\n");
        let query = source
            .frame(&session())
            .unwrap()
            .write_stream()
            .format(format)
            .checkpoint(&source.home.text("written"))
            .trigger(Trigger::AvailableNow)
            .start_path(&source.home.text("out"))
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        let out = source.home.path("out");
        let whole = out.join(&files_below(&out)[0]);
        std::fs::copy(&whole, out.join(format!("stray.{format}"))).unwrap();
        for (ignore, expected) in [(false, 1), (true, 2)] {
            let session = Session::builder().config(IGNORE, ignore).build().unwrap();
            let table = session.read().format(format).schema("v INT");
            let table = table.load(&source.home.text("out")).await.unwrap();
            assert_eq!(table.count().await.unwrap(), expected, "{format} table");
            let stream = session.read_stream().format(format).schema("v INT");
            let query = stream
                .load(&source.home.text("out"))
                .unwrap()
                .write_stream()
                .format("memory")
                .query_name("t")
                .trigger(Trigger::AvailableNow)
                .start()
                .await
                .unwrap();
            query.await_termination().await.unwrap();
            let rows = session.table("t").await.unwrap().count().await.unwrap();
            assert_eq!(rows, expected, "{format} stream");
        }
    }
}
