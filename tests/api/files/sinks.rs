//! Files as a sink: how many there are, what they are called, and what the manifest costs.

use std::time::Instant;

use weir::prelude::*;

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

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "what a commit costs is measured")]
async fn p110_the_manifest_stays_bounded_with_retention_and_a_commit_costs_no_more_later() {
    let (session, out) = (session(), Home::new());
    let (input, frame) = stream(&session);
    // Everything is older than this by the next compaction but one.
    let query = start(
        &frame,
        &out,
        &[("retention", "1ms"), ("maxRecordsPerFile", "1")],
        &[],
    )
    .await;
    let mut times = Vec::new();
    for epoch in 0..120_i64 {
        let began = Instant::now();
        add(&input, &(0..10).map(|n| epoch * 10 + n).collect::<Vec<_>>());
        query.process_all_available().await.unwrap();
        times.push(began.elapsed());
    }
    query.stop().await;
    assert_eq!(files_below(&out.path("out")).len(), 1_200);
    let manifest = manifest_files(&out);
    assert!(manifest.len() <= 22, "{} files", manifest.len());
    let bytes: u64 = manifest
        .iter()
        .map(|(_, path)| std::fs::metadata(path).unwrap().len())
        .sum();
    assert!(
        bytes < 22 * 10 * 600 * 2,
        "{bytes} bytes in the manifest of 1 200 files"
    );
    let sum = |range: std::ops::Range<usize>| times[range].iter().sum::<std::time::Duration>();
    assert!(
        sum(80..120) < sum(20..60) * 3,
        "{:?} after {:?}",
        sum(80..120),
        sum(20..60)
    );
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
