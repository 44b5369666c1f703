//! JSON lines (or one JSON document) -> Arrow batches, directed by the schema.
//!
//! Own decoder instead of `arrow::json`, which loses a whole batch to one bad record, cannot go on after it, reads `1.5`
//! as 1 and has none of Spark's options. Text goes straight from the chunk of the file into the columns: no tree, no copy
//! of the record, nothing allocated per row. The layers, from below: [`cursor`] and [`number`] walk over text, [`skip`]
//! passes what nobody asked for, [`column`] and [`object`] grow and are cut back, [`read`] knows which token fits which
//! type, [`record`] makes rows of one record, and [`JsonReader`] feeds it the lines of a file.

mod build;
mod column;
mod cursor;
mod embedded;
mod number;
mod object;
mod options;
mod read;
mod record;
mod render;
mod skip;
#[cfg(test)]
mod tests;
mod value;

use std::{io::Read, sync::Arc};

use arrow::{error::ArrowError, record_batch::RecordBatch};

pub use options::JsonOptions;
pub use record::{RecordDecoder, Verdict};
pub use value::ValueDecoder;

use self::embedded::{EmbeddedArray, Found};
use super::{BadRecords, BatchReader, DecodeError, DecodeSettings, lines::Lines};

/// Where the records of a file are.
enum Records {
    /// One on each line.
    Lines(Lines),
    /// The file is one.
    Whole(Lines),
    /// In an array of a document.
    Embedded(EmbeddedArray),
}

impl Records {
    fn file(&self) -> &Arc<str> {
        match self {
            Self::Lines(lines) | Self::Whole(lines) => lines.file(),
            Self::Embedded(array) => array.file(),
        }
    }

    /// Bytes of the longest record that is read whole.
    fn limit(&self) -> usize {
        match self {
            Self::Lines(lines) | Self::Whole(lines) => lines.limit(),
            Self::Embedded(array) => array.limit(),
        }
    }

    fn next_record(&mut self) -> Result<Option<Found<'_>>, DecodeError> {
        let line = match self {
            Self::Lines(lines) => lines.next_line()?,
            Self::Whole(lines) => lines.rest()?,
            Self::Embedded(array) => return array.next_record(),
        };
        Ok(line.map(Found::Record))
    }
}

/// Reads the records of one file.
pub struct JsonReader {
    records: Records,
    settings: DecodeSettings,
    decoder: RecordDecoder,
    bad: BadRecords,
    /// Rows of a batch that came out too large (from a top-level array), still to be handed out.
    pending: Option<RecordBatch>,
}

impl JsonReader {
    /// A reader of `input`; `file` is the name used in errors.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedType`], [`DecodeError::CorruptColumn`].
    pub fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        settings: DecodeSettings,
        mut options: JsonOptions,
    ) -> Result<Self, DecodeError> {
        let limit = settings.record_limit();
        let records = if let Some(field) = &options.embedded_array {
            let array = EmbeddedArray::new(input, file, field, limit);
            options.arrays_as_rows = false;
            Records::Embedded(array)
        } else {
            let lines = Lines::new(input, file, options.line_separator.as_deref(), limit);
            match options.multi_line {
                true => Records::Whole(lines),
                false => Records::Lines(lines),
            }
        };
        let decoder = RecordDecoder::new(&settings, options)?;
        Ok(Self {
            records,
            settings,
            decoder,
            bad: BadRecords::default(),
            pending: None,
        })
    }

    /// Decodes until a batch is full or the file ends.
    fn fill(&mut self) -> Result<(), DecodeError> {
        let mut bytes = 0;
        let (file, limit) = (Arc::clone(self.records.file()), self.records.limit());
        let Self {
            records,
            decoder,
            bad,
            settings,
            ..
        } = self;
        while decoder.rows() == 0 || !settings.is_full(decoder.rows(), bytes) {
            match records.next_record()? {
                None => break,
                Some(Found::Record(line)) => {
                    let text = line.bytes;
                    bytes += text.len();
                    let verdict = match line.is_cut() {
                        true => decoder.append_cut(text, line.length, limit),
                        false => decoder.append(text),
                    };
                    if verdict == Verdict::Bad {
                        bad.note(settings, &file, line.number, text, || decoder.reason(text))?;
                    }
                }
                Some(Found::Broken(number, reason)) => {
                    bad.note(settings, &file, number, b"", || reason.to_owned())?;
                }
            }
        }
        Ok(())
    }

    /// Hands out the first rows of a batch and keeps the others.
    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let rows = self.settings.batch_rows.max(1);
        if batch.num_rows() <= rows {
            return batch;
        }
        self.pending = Some(batch.slice(rows, batch.num_rows() - rows));
        batch.slice(0, rows)
    }

    fn failed(&self, source: ArrowError) -> DecodeError {
        DecodeError::Batch {
            file: Arc::clone(self.records.file()),
            source,
        }
    }
}

impl BatchReader for JsonReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        if let Some(batch) = self.pending.take() {
            return Ok(Some(self.cut(batch)));
        }
        self.fill()?;
        if self.decoder.rows() == 0 {
            return Ok(None);
        }
        let finished = self.decoder.finish(&self.settings.schema);
        let batch = finished.map_err(|source| self.failed(source))?;
        Ok(Some(self.cut(batch)))
    }

    fn bad_records(&self) -> &BadRecords {
        &self.bad
    }
}
