//! Rows, contexts and ways to look at an output directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use weir_runtime::{
    Committable, Epoch, EpochBatch, FailPoints, ManualClock, Origin, OutputMode, Result, Rows,
    Sink, SinkContext,
};

use super::super::{FileSink, manifest};

pub(super) fn batch(rows: &[(i64, &str)]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)));
    RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("k", keys, true)]).unwrap()
}

pub(super) fn rows(epoch: u64, rows: &[(i64, &str)]) -> EpochBatch {
    EpochBatch {
        epoch: Epoch(epoch),
        origin: Origin::default(),
        rows: Rows::inserts(batch(rows)),
    }
}

pub(super) fn context(generation: u64) -> SinkContext {
    SinkContext {
        uid: "out".to_owned(),
        query_id: uuid::Uuid::from_u128(0xabc),
        generation,
        schema: batch(&[]).schema(),
        mode: OutputMode::Append,
        key_columns: Vec::new(),
        parallelism: 1,
        committed_epoch: None,
        unfinished: None,
        clock: Arc::new(ManualClock::new(0)),
        failpoints: Arc::new(FailPoints::default()),
    }
}

/// Opens the sink and writes an epoch, the rows dealt out to the writers in turn.
pub(super) async fn write_epoch(
    sink: &FileSink,
    context: &SinkContext,
    epoch: u64,
    all: &[(i64, &str)],
    writers: usize,
) -> Result<Vec<Committable>> {
    sink.open(context).await?;
    stage_epoch(sink, context, epoch, all, writers).await
}

/// Writes an epoch into a sink that is open.
pub(super) async fn stage_epoch(
    sink: &FileSink,
    context: &SinkContext,
    epoch: u64,
    all: &[(i64, &str)],
    writers: usize,
) -> Result<Vec<Committable>> {
    let mut prepared = Vec::new();
    for subtask in 0..writers {
        let mut writer = sink.writer(context, subtask)?;
        let own: Vec<(i64, &str)> = all.iter().skip(subtask).step_by(writers).copied().collect();
        writer.write(rows(epoch, &own)).await?;
        prepared.push(writer.prepare(Epoch(epoch)).await?);
    }
    Ok(prepared)
}

/// Data files a reader sees who knows nothing of manifests, below `dir`.
pub(super) fn visible(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(['_', '.'])
        {
            continue;
        }
        if path.is_dir() {
            files.extend(visible(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub(super) fn listed(dir: &Path) -> Vec<String> {
    visible(dir)
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn ids(files: &[PathBuf]) -> Vec<i64> {
    let mut ids = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let row: serde_json::Value =
                serde_json::from_str(line).expect("every visible file is complete");
            ids.push(row["id"].as_i64().unwrap());
        }
    }
    ids.sort_unstable();
    ids
}

/// Rows a plain reader sees.
pub(super) fn plain_ids(dir: &Path) -> Vec<i64> {
    ids(&visible(dir))
}

/// Rows a reader sees who honours the manifest.
pub(super) fn committed_ids(dir: &Path) -> Vec<i64> {
    ids(&manifest::committed_files(dir).unwrap().unwrap_or_default())
}

pub(super) fn manifest_names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir.join(manifest::DIR)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Files that are not visible.
pub(super) fn staged_files(dir: &Path) -> Vec<PathBuf> {
    fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, files);
            } else {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&dir.join(super::super::staging::DIR), &mut files);
    files
}
