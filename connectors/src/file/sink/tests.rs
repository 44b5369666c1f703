//! The rules of the file sink, one by one; crashes are in [`crash`], the manifest in [`manifest`].

#![allow(clippy::unwrap_used)]

mod crash;
mod manifest;
mod objects;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use weir_runtime::{
    CommitOutcome, Delivery, Epoch, EpochBatch, Fault, Origin, OutputMode, RowKind, Rows, Sink,
};

use super::*;
use crate::file::encode::{JsonWriteOptions, WriteFormat};
use support::*;

fn json_sink(dir: &Path) -> FileSink {
    JsonSink::new(dir.to_str().unwrap()).build().unwrap()
}

#[tokio::test]
async fn epoch_is_invisible_until_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    let context = context(1);
    sink.open(&context).await.unwrap();
    let mut writer = sink.writer(&context, 0).unwrap();
    writer.write(rows(0, &[(1, "a")])).await.unwrap();
    let prepared = writer.prepare(Epoch(0)).await.unwrap();
    assert_eq!(listed(dir.path()), Vec::<String>::new());
    let mut committer = sink.committer(&context).unwrap();
    assert_eq!(
        committer.commit(Epoch(0), vec![prepared]).await.unwrap(),
        CommitOutcome::Committed
    );
    let names = listed(dir.path());
    assert_eq!(names.len(), 1);
    assert!(
        names[0].starts_with("part-00000-") && names[0].ends_with("-c000.json"),
        "{names:?}"
    );
    assert_eq!(plain_ids(dir.path()), [1]);
    assert_eq!(committed_ids(dir.path()), [1]);
    assert!(
        !dir.path()
            .join(staging::DIR)
            .join(context.query_id.to_string())
            .join("sink=out")
            .join("0-1")
            .exists()
    );
}

#[tokio::test]
async fn commit_again_also_elsewhere_and_with_another_replay_has_the_effect_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    let first = context(1);
    let prepared = write_epoch(&sink, &first, 0, &[(1, "a"), (2, "b")], 2)
        .await
        .unwrap();
    let mut committer = sink.committer(&first).unwrap();
    assert_eq!(
        committer.commit(Epoch(0), prepared.clone()).await.unwrap(),
        CommitOutcome::Committed
    );
    assert_eq!(
        committer.commit(Epoch(0), prepared.clone()).await.unwrap(),
        CommitOutcome::AlreadyCommitted
    );
    let again = json_sink(dir.path());
    let second = SinkContext {
        generation: 2,
        ..first
    };
    again.open(&second).await.unwrap();
    let mut committer = again.committer(&second).unwrap();
    assert_eq!(
        committer.commit(Epoch(0), prepared).await.unwrap(),
        CommitOutcome::AlreadyCommitted
    );
    let replayed = write_epoch(&again, &second, 0, &[(1, "a"), (2, "b")], 1)
        .await
        .unwrap();
    assert_eq!(
        committer.commit(Epoch(0), replayed).await.unwrap(),
        CommitOutcome::AlreadyCommitted
    );
    assert_eq!(plain_ids(dir.path()), [1, 2]);
    assert_eq!(committed_ids(dir.path()), [1, 2]);
    assert!(
        staged_files(dir.path()).is_empty(),
        "the replayed files are gone"
    );
}

#[tokio::test]
async fn epoch_without_rows_leaves_no_file_and_no_manifest_entry() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    let context = context(1);
    for epoch in 0..3 {
        let rows: &[(i64, &str)] = if epoch == 1 { &[(7, "x")] } else { &[] };
        let prepared = write_epoch(&sink, &context, epoch, rows, 2).await.unwrap();
        sink.committer(&context)
            .unwrap()
            .commit(Epoch(epoch), prepared)
            .await
            .unwrap();
    }
    assert_eq!(listed(dir.path()).len(), 1);
    assert_eq!(manifest_names(dir.path()), ["0"]);
    assert_eq!(committed_ids(dir.path()), [7]);
}

#[tokio::test]
async fn new_query_on_the_same_directory_adds_its_rows() {
    // P044: the checkpoint was deleted, so epochs begin at 0 again.
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    for (query, ids) in [(1, [1, 2]), (2, [3, 4])] {
        let context = SinkContext {
            query_id: uuid::Uuid::from_u128(query),
            ..context(1)
        };
        let rows = ids.map(|id| (id, "x"));
        let prepared = write_epoch(&sink, &context, 0, &rows, 1).await.unwrap();
        let outcome = sink
            .committer(&context)
            .unwrap()
            .commit(Epoch(0), prepared)
            .await
            .unwrap();
        assert_eq!(outcome, CommitOutcome::Committed);
    }
    assert_eq!(committed_ids(dir.path()), [1, 2, 3, 4]);
    assert_eq!(plain_ids(dir.path()), [1, 2, 3, 4]);
    assert_eq!(manifest_names(dir.path()), ["0", "1"]);
}

#[tokio::test]
async fn two_sinks_of_one_query_may_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    for (uid, id) in [("a", 1), ("b/ö", 2)] {
        let context = SinkContext {
            uid: uid.to_owned(),
            ..context(1)
        };
        let prepared = write_epoch(&sink, &context, 0, &[(id, "x")], 1)
            .await
            .unwrap();
        sink.committer(&context)
            .unwrap()
            .commit(Epoch(0), prepared)
            .await
            .unwrap();
    }
    assert_eq!(committed_ids(dir.path()), [1, 2]);
}

#[tokio::test]
async fn partitions_come_back_as_they_were() {
    // P107, P108.
    let values = [
        "a/b",
        "a=b",
        "x y",
        "t:1",
        "100%",
        "città",
        "..",
        ".",
        "%2F",
        "",
        "__HIVE_DEFAULT_PARTITION__",
        "x'\"*?[]{}^\\",
    ];
    let dir = tempfile::tempdir().unwrap();
    let sink = JsonSink::new(dir.path().to_str().unwrap())
        .partition_by(["k"])
        .build()
        .unwrap();
    let context = context(1);
    let rows: Vec<(i64, &str)> = (0..).zip(values).collect();
    let prepared = write_epoch(&sink, &context, 0, &rows, 1).await.unwrap();
    sink.committer(&context)
        .unwrap()
        .commit(Epoch(0), prepared)
        .await
        .unwrap();
    let mut found = BTreeMap::new();
    for path in super::manifest::committed_files(dir.path())
        .unwrap()
        .unwrap()
    {
        assert!(
            path.starts_with(dir.path()) && path.is_file(),
            "{}",
            path.display()
        );
        let directory = path.parent().unwrap();
        assert_eq!(directory.parent(), Some(dir.path()));
        let name = directory.file_name().unwrap().to_str().unwrap();
        let value = hive::unescape(name.strip_prefix("k=").unwrap());
        let file_name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            file_name.contains(".c0") && file_name.ends_with(".json"),
            "{file_name}"
        );
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                row.get("k").is_none(),
                "the column is in the directory's name"
            );
            found.insert(row["id"].as_i64().unwrap(), value.clone());
        }
    }
    for (id, value) in rows {
        let expected = if value.is_empty() { hive::NULL } else { value };
        assert_eq!(found[&id], expected);
    }
}

/// Number of files an epoch of these batches becomes.
async fn files_of(change: impl FnOnce(JsonSink) -> JsonSink, batches: &[&[(i64, &str)]]) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let sink = change(JsonSink::new(dir.path().to_str().unwrap()))
        .build()
        .unwrap();
    let context = context(1);
    sink.open(&context).await.unwrap();
    let mut writer = sink.writer(&context, 0).unwrap();
    for batch in batches {
        writer.write(rows(0, batch)).await.unwrap();
    }
    let prepared = writer.prepare(Epoch(0)).await.unwrap();
    sink.committer(&context)
        .unwrap()
        .commit(Epoch(0), vec![prepared])
        .await
        .unwrap();
    let mut ids: Vec<i64> = batches.iter().copied().flatten().map(|row| row.0).collect();
    ids.sort_unstable();
    assert_eq!(committed_ids(dir.path()), ids);
    listed(dir.path()).len()
}

#[tokio::test]
async fn one_file_per_partition_and_epoch_unless_there_are_too_many_or_they_grow_too_large() {
    let batches: &[&[(i64, &str)]] = &[&[(1, "a"), (2, "b")], &[(3, "a")], &[(4, "b")]];
    assert_eq!(files_of(|sink| sink.partition_by(["k"]), batches).await, 2);
    assert_eq!(
        files_of(|sink| sink.partition_by(["k"]).max_open_files(1), batches).await,
        4
    );
    assert_eq!(
        files_of(|sink| sink.max_records_per_file(3), batches).await,
        2
    );
    assert_eq!(
        files_of(|sink| sink.max_bytes_per_file(1), batches).await,
        3
    );
    let one: &[(i64, &str)] = &[(1, "a"), (2, "a"), (3, "a"), (4, "a"), (5, "a")];
    assert_eq!(
        files_of(|sink| sink.max_records_per_file(2), &[one]).await,
        3
    );
}

#[tokio::test]
async fn open_refuses_what_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let error = |sink: FileSink, context: SinkContext| async move {
        sink.open(&context).await.unwrap_err()
    };
    let unknown = error(
        JsonSink::new(path).partition_by(["kk"]).build().unwrap(),
        context(1),
    )
    .await;
    assert!(unknown.message().contains("'id', 'k'"), "{unknown}");
    let all = error(
        JsonSink::new(path)
            .partition_by(["k", "id"])
            .build()
            .unwrap(),
        context(1),
    )
    .await;
    assert_eq!(all.condition(), Some("ALL_PARTITION_COLUMNS_NOT_ALLOWED"));
    let text = error(TextSink::new(path).build().unwrap(), context(1)).await;
    assert_eq!(text.fault(), Fault::Plan);
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let not_a_directory = error(json_sink(&file), context(1)).await;
    assert!(
        not_a_directory.message().contains("must be a directory"),
        "{not_a_directory}"
    );
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Null, true)]));
    let nulls = error(
        ParquetSink::new(path).build().unwrap(),
        SinkContext {
            schema,
            ..context(1)
        },
    )
    .await;
    assert!(nulls.message().contains("'n'"), "{nulls}");
}

#[tokio::test]
async fn writer_refuses_rows_that_change_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    let context = context(1);
    sink.open(&context).await.unwrap();
    let kinds = arrow::array::UInt8Array::from(vec![RowKind::Delete as u8]);
    let rows = Rows::with_kinds(batch(&[(1, "a")]), kinds).unwrap();
    let batch = EpochBatch {
        epoch: Epoch(0),
        origin: Origin::default(),
        rows,
    };
    let error = sink
        .writer(&context, 0)
        .unwrap()
        .write(batch)
        .await
        .unwrap_err();
    assert!(error.message().contains("Delete"), "{error}");
}

#[test]
fn sink_takes_append_only_and_delivers_exactly_once() {
    let sink = json_sink(Path::new("/out"));
    assert!(
        sink.supports(OutputMode::Append)
            && !sink.supports(OutputMode::Update)
            && !sink.supports(OutputMode::Complete)
    );
    assert_eq!(
        (sink.delivery(), sink.needs_checkpoint()),
        (Delivery::ExactlyOnce, true)
    );
    assert_eq!(sink.description(), "FileSink[file:/out]");
}

#[tokio::test]
async fn open_of_an_older_generation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sink = json_sink(dir.path());
    write_epoch(&sink, &context(5), 0, &[(1, "a")], 1)
        .await
        .unwrap();
    let error = sink.open(&context(4)).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Conflict);
}

#[test]
fn from_options_reads_every_option_and_refuses_bad_ones() {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let options = map(&[
        ("COMPRESSION", "zstd"),
        ("retention", "7d"),
        ("maxRecordsPerFile", "5"),
        ("checkpointLocation", "/c"),
    ]);
    let config =
        FileSinkConfig::from_options("PARQUET", "/out", &["k".to_owned()], &options).unwrap();
    assert_eq!(config.format.extension(), "zstd.parquet");
    assert_eq!(
        (
            config.retention.unwrap().as_secs(),
            config.max_records_per_file
        ),
        (604_800, Some(5))
    );
    for (format, options) in [
        ("parquet", map(&[("compresion", "zstd")])),
        ("parquet", map(&[("compression", "zip")])),
        ("parquet", map(&[("header", "true")])),
        ("json", map(&[("retention", "soon")])),
        ("json", map(&[("timeZone", "Mars/Base")])),
        ("json", map(&[("path", "/other")])),
        ("xml", map(&[])),
    ] {
        let error = FileSinkConfig::from_options(format, "/out", &[], &options).unwrap_err();
        assert_eq!(error.fault(), Fault::Config, "{error}");
    }
    assert!(matches!(
        FileSinkConfig::new("/out", WriteFormat::Json(JsonWriteOptions::default())).validate(),
        Ok(())
    ));
    assert!(ParquetSink::new("/out").max_open_files(0).build().is_err());
    assert!(ParquetSink::new("nowhere://bucket/out").build().is_err());
}
