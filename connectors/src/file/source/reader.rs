//! Reads the files of an epoch, one after the other, a batch at a time.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use weir_runtime::{Polled, ReaderCounts, Result, SourceReader, Split, WeirError};

use super::config::FileSourceConfig;
use super::files::PlannedFile;
use super::format::decode_error;
use crate::file::decode::BatchReader;

/// The reading half of a file source; holds one file and at most one batch.
pub struct FileReader {
    config: Arc<FileSourceConfig>,
    open: Option<OpenFile>,
}

struct OpenFile {
    name: String,
    reader: Box<dyn BatchReader>,
    /// Rows decoded and not handed out yet.
    rest: Option<RecordBatch>,
    done: bool,
}

impl FileReader {
    pub(super) fn new(config: Arc<FileSourceConfig>) -> Self {
        Self { config, open: None }
    }
}

impl SourceReader for FileReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        self.open = None;
        let path = PlannedFile::of(split)?.checked_path()?;
        let reader = self
            .config
            .format
            .open(&path, &split.name, self.config.decode_settings())
            .map_err(|error| error.at_position(split.name.clone()))?;
        self.open = Some(OpenFile {
            name: split.name.clone(),
            reader,
            rest: None,
            done: false,
        });
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _max_wait: Duration) -> Result<Polled> {
        let Some(file) = &mut self.open else {
            return Err(WeirError::internal(
                "a file reader was polled before a split was opened",
            ));
        };
        match file.next(max_rows.max(1))? {
            Some(batch) => Ok(Polled::Batch(batch)),
            None => {
                file.finish();
                Ok(Polled::Done)
            }
        }
    }

    fn counts(&self) -> ReaderCounts {
        ReaderCounts {
            bad_records: self
                .open
                .as_ref()
                .map_or(0, |file| file.reader.bad_records().count),
        }
    }
}

impl OpenFile {
    fn next(&mut self, max_rows: usize) -> Result<Option<RecordBatch>> {
        if self.done {
            return Ok(None);
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self
                .reader
                .next_batch()
                .map_err(|error| decode_error(error).at_position(self.name.clone()))?
            {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        if batch.num_rows() > max_rows {
            self.rest = Some(batch.slice(max_rows, batch.num_rows() - max_rows));
            return Ok(Some(batch.slice(0, max_rows)));
        }
        Ok(Some(batch))
    }

    fn finish(&mut self) {
        let bad = self.reader.bad_records();
        if let Some(first) = bad.first.as_ref().filter(|_| !self.done) {
            tracing::warn!(
                file = %self.name,
                bad_records = bad.count,
                first_line = first.line,
                first_reason = %first.reason,
                "file has records that do not fit the schema"
            );
        }
        self.done = true;
    }
}
