//! Directories, files and rows for the tests.

use std::path::PathBuf;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use tempfile::TempDir;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

/// A directory that goes away with the test.
pub(crate) struct Home {
    dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file the way a producer has to: elsewhere, then renamed.
    pub(crate) fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let staged = self.path("staged");
        std::fs::write(&staged, content).unwrap();
        std::fs::rename(staged, path).unwrap();
    }
}

pub(crate) fn session() -> Session {
    Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .build()
        .unwrap()
}

/// The values of a BIGINT column, sorted.
pub(crate) fn numbers(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let columns = batches.iter().map(|batch| {
        batch
            .column_by_name(column)
            .unwrap()
            .as_primitive::<Int64Type>()
            .clone()
    });
    let mut values: Vec<i64> = columns
        .flat_map(|column| column.iter().flatten().collect::<Vec<_>>())
        .collect();
    values.sort_unstable();
    values
}

/// A stream of `v BIGINT` that the test adds rows to, and a frame over it.
pub(crate) fn stream(session: &Session) -> (MemoryStream, DataFrame) {
    let stream = MemoryStream::new(weir::types::parse_schema("v BIGINT").unwrap());
    let reading = stream.clone();
    let frame = session
        .read_stream()
        .source_fn(move || Ok(reading.source()))
        .unwrap();
    (stream, frame)
}

pub(crate) fn add(stream: &MemoryStream, values: &[i64]) {
    stream
        .add_columns(vec![std::sync::Arc::new(arrow::array::Int64Array::from(
            values.to_vec(),
        ))])
        .unwrap();
}
