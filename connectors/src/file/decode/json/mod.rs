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

use super::{BadRecords, BatchReader, DecodeError, DecodeSettings, lines::Lines};

/// Reads the records of one file.
pub struct JsonReader {
    lines: Lines,
    multi_line: bool,
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
        options: JsonOptions,
    ) -> Result<Self, DecodeError> {
        let lines = Lines::new(
            input,
            file,
            options.line_separator.as_deref(),
            settings.record_limit(),
        );
        let multi_line = options.multi_line;
        let decoder = RecordDecoder::new(&settings, options)?;
        Ok(Self {
            lines,
            multi_line,
            settings,
            decoder,
            bad: BadRecords::default(),
            pending: None,
        })
    }

    /// Decodes until a batch is full or the file ends.
    fn fill(&mut self) -> Result<(), DecodeError> {
        let mut bytes = 0;
        let (file, limit) = (Arc::clone(self.lines.file()), self.lines.limit());
        let Self {
            lines,
            decoder,
            bad,
            settings,
            ..
        } = self;
        while decoder.rows() == 0 || !settings.is_full(decoder.rows(), bytes) {
            let line = if self.multi_line {
                lines.rest()?
            } else {
                lines.next_line()?
            };
            let Some(line) = line else { break };
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
            file: Arc::clone(self.lines.file()),
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
