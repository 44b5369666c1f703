//! Where the rows end: files, read through their manifest or by listing the directory; and a table that takes upserts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};
use weir::connectors::file::sink::manifest::committed_files;
use weir::prelude::*;

/// Rows as a reader of the manifest sees them.
pub(crate) fn files_by_manifest(home: &Path) -> Vec<String> {
    let files = committed_files(&home.join("out")).expect("a readable manifest");
    rows_of_files(files.unwrap_or_default())
}

/// Rows as a reader that only lists the directory sees them.
pub(crate) fn files_by_listing(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("out")).expect("the output directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let parquet = |path: &PathBuf| path.extension().is_some_and(|found| found == "parquet");
    rows_of_files(paths.filter(parquet).collect())
}

fn rows_of_files(files: Vec<PathBuf>) -> Vec<String> {
    let mut rows = Vec::new();
    for path in files {
        let file = fs::File::open(&path).expect("a committed file");
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
            .expect("whole parquet");
        for batch in reader.build().expect("a reader") {
            rows.extend(texts(&batch.expect("a batch")));
        }
    }
    rows
}

/// Each row as its values with `|` between them; times as microseconds since 1970.
pub(crate) fn texts(batch: &RecordBatch) -> Vec<String> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Timestamp(..) => {
                arrow::compute::cast(column, &DataType::Int64).expect("times are integers")
            }
            _ => column.clone(),
        });
    let columns: Vec<_> = columns.collect();
    let options = FormatOptions::default().with_null("null");
    let formatters: Vec<_> = columns
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref() as &dyn Array, &options))
        .collect::<std::result::Result<_, _>>()
        .expect("printable columns");
    let row = |row| {
        let values: Vec<String> = formatters
            .iter()
            .map(|f| f.value(row).to_string())
            .collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// A table in one file: rows by their first column, and what each epoch brought. It stands for a database with upserts: every
/// change is one rename.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    rows: BTreeMap<String, String>,
    epochs: BTreeMap<u64, Vec<String>>,
    #[serde(skip)]
    path: PathBuf,
}

impl Table {
    pub(crate) fn open(home: &Path) -> Self {
        let path = home.join("table.json");
        let text = fs::read(&path).unwrap_or_else(|_| b"{\"rows\":{},\"epochs\":{}}".to_vec());
        let stored: Self = serde_json::from_slice(&text).expect("a whole table");
        Self { path, ..stored }
    }

    pub(crate) fn rows(self) -> Vec<String> {
        self.rows.into_values().collect()
    }

    /// Upserts the rows of an epoch. An epoch that comes again must bring the same rows (invariant E8).
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn upsert(&mut self, epoch: u64, mut rows: Vec<String>) -> Result<()> {
        rows.sort();
        if let Some(before) = self.epochs.get(&epoch)
            && *before != rows
        {
            return Err(WeirError::data(format!(
                "epoch {epoch} came again with {rows:?} after {before:?}"
            )));
        }
        for row in &rows {
            let key = row.split('|').next().unwrap_or_default();
            self.rows.insert(key.to_owned(), row.clone());
        }
        self.epochs.insert(epoch, rows);
        let text = serde_json::to_vec(self).expect("text keys");
        let staged = self.path.with_extension("staged");
        let written = fs::write(&staged, text).and_then(|()| fs::rename(&staged, &self.path));
        written.map_err(|error| WeirError::external(format!("the table: {error}")))
    }
}
