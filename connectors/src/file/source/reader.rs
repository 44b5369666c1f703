//! Reads the files of an epoch, one after the other, a batch at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use weir_runtime::{Fault, Polled, ReaderCounts, Result, SourceReader, Split, WeirError};

use super::config::FileSourceConfig;
use super::dead_letters::DeadLetters;
use super::files::PlannedFile;
use super::format::{MALFORMED_RECORD, decode_error};
use super::listing::Listing;
use super::partition::{self, Layout, WithPartitions};
use crate::file::decode::{BadRecordSink, BatchReader, DecodeSettings};

/// The reading half of a file source; holds one file and at most one batch.
pub struct FileReader {
    config: Arc<FileSourceConfig>,
    listing: Arc<Listing>,
    open: Option<OpenFile>,
}

struct OpenFile {
    name: String,
    /// `None` for a file that cannot be decoded at all and is left out.
    reader: Option<Box<dyn BatchReader>>,
    letters: Option<Arc<DeadLetters>>,
    /// Rows decoded and not handed out yet.
    rest: Option<RecordBatch>,
    ignore_corrupt: bool,
    /// 1 if the file, or the rest of it, was left out because it cannot be decoded.
    corrupt: u64,
    done: bool,
}

impl FileReader {
    pub(super) fn new(config: Arc<FileSourceConfig>, listing: Arc<Listing>) -> Self {
        Self {
            config,
            listing,
            open: None,
        }
    }

    fn open_reader(
        &self,
        (path, copy): (&Path, Option<File>),
        name: &str,
        mut settings: DecodeSettings,
    ) -> Result<Box<dyn BatchReader>> {
        let config = &self.config;
        let schema = Arc::clone(&settings.schema);
        let layout = match config.recursive_file_lookup {
            true => None,
            false => {
                let values = partition::of_file(path, self.listing.depth());
                Layout::of(&values, &settings, name)?
            }
        };
        if let Some(layout) = &layout {
            settings.schema = Arc::clone(&layout.data);
        }
        let reader = match copy {
            None => config.format.open(path, name, config.charset, settings),
            Some(copy) => {
                let format = &config.format;
                format.open_file(copy, path, name, config.charset, settings)
            }
        }?;
        Ok(match layout {
            None => reader,
            Some(layout) => Box::new(WithPartitions {
                file: name.into(),
                reader,
                layout,
                schema,
            }),
        })
    }
}

impl SourceReader for FileReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        self.open = None;
        let planned = PlannedFile::of(split)?;
        let (path, copy) = planned.checked(self.listing.store())?;
        let mut settings = self.config.decode_settings();
        let letters = match &self.config.bad_records_path {
            Some(dir) => Some(Arc::new(DeadLetters::new(dir, &planned)?)),
            None => None,
        };
        settings.bad_records = letters
            .clone()
            .map(|letters| letters as Arc<dyn BadRecordSink>);
        let opened = self
            .open_reader((&path, copy), &split.name, settings)
            .map_err(|error| error.at_position(split.name.clone()));
        let mut file = OpenFile {
            name: split.name.clone(),
            reader: None,
            letters,
            rest: None,
            ignore_corrupt: self.config.ignore_corrupt_files,
            corrupt: 0,
            done: false,
        };
        match opened {
            Ok(reader) => file.reader = Some(reader),
            Err(error) => file.leave_out(error)?,
        }
        self.open = Some(file);
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
                file.finish()?;
                Ok(Polled::Done)
            }
        }
    }

    fn counts(&self) -> ReaderCounts {
        ReaderCounts {
            bad_records: self.open.as_ref().map_or(0, OpenFile::bad_records),
        }
    }
}

impl OpenFile {
    fn next(&mut self, max_rows: usize) -> Result<Option<RecordBatch>> {
        if self.done {
            return Ok(None);
        }
        let Some(batch) = self.decode()? else {
            return Ok(None);
        };
        if batch.num_rows() > max_rows {
            self.rest = Some(batch.slice(max_rows, batch.num_rows() - max_rows));
            return Ok(Some(batch.slice(0, max_rows)));
        }
        Ok(Some(batch))
    }

    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        match reader.next_batch() {
            Ok(batch) => Ok(batch),
            Err(error) => {
                let error = decode_error(error).at_position(self.name.clone());
                self.leave_out(error).map(|()| None)
            }
        }
    }

    /// Goes on without the file, or the rest of it, if that is what the user wants and the file's fault.
    fn leave_out(&mut self, error: WeirError) -> Result<()> {
        let is_record = error.condition() == Some(MALFORMED_RECORD);
        if !self.ignore_corrupt || error.fault() != Fault::Data || is_record {
            return Err(error);
        }
        tracing::warn!(file = %self.name, %error, "file cannot be decoded, it or the rest of it is left out");
        self.corrupt = 1;
        Ok(())
    }

    fn bad_records(&self) -> u64 {
        let records = self
            .reader
            .as_ref()
            .map(|reader| reader.bad_records().count);
        records.unwrap_or(0) + self.corrupt
    }

    fn finish(&mut self) -> Result<()> {
        if self.done {
            return Ok(());
        }
        self.done = true;
        if let Some(letters) = &self.letters {
            letters.finish()?;
        }
        let Some(bad) = self.reader.as_ref().map(|reader| reader.bad_records()) else {
            return Ok(());
        };
        if let Some(first) = &bad.first {
            tracing::warn!(
                file = %self.name,
                bad_records = bad.count,
                first_line = first.line,
                first_reason = %first.reason,
                "file has records that do not fit the schema"
            );
        }
        Ok(())
    }
}
