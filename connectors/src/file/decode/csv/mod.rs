//! The CSV format: separated values, one record for each row.
//!
//! Spark's rules, with four deliberate departures that keep data from being misread or lost: with a header, columns are
//! found by name; the empty text `""` is not NULL; a doubled quote is understood besides the escaped one; and a record
//! with too few or too many fields, or with a quote that is never closed, counts as bad. In PERMISSIVE mode a bad record
//! keeps its good fields: bad and missing ones are NULL, extra ones are left out.

mod column;
mod dialect;
mod header;
mod input;
mod options;
mod record;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

pub(crate) use self::column::value_of;
pub use self::options::{CsvOptions, UnescapedQuotes};

use self::column::{ALLOWED, Column, Meaning};
use self::header::Layout;
use self::input::Input;
use self::record::{Damage, Record, Records};
use super::{BadRecords, BatchReader, DecodeError, DecodeSettings, ParseMode};

/// Name of the format.
const FORMAT: &str = "csv";

/// Reads the records of one CSV file into the columns of the schema.
pub struct CsvReader {
    records: Records,
    rows: Rows,
    settings: DecodeSettings,
    options: CsvOptions,
    /// None until the header was read.
    layout: Option<Layout>,
}

/// Turns records into rows of a batch.
struct Rows {
    columns: Vec<Column>,
    corrupt: Option<usize>,
    meaning: Meaning,
    /// For each row of the batch whether it stays; only in DROPMALFORMED mode.
    keep: Vec<bool>,
    count: usize,
    bad: BadRecords,
}

impl CsvReader {
    /// A reader of `input`; `file` is the name used in errors.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedType`] for a column CSV cannot give, [`DecodeError::CorruptColumn`] when the column for
    /// bad records is not STRING.
    pub fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        settings: DecodeSettings,
        options: CsvOptions,
    ) -> Result<Self, DecodeError> {
        let corrupt = settings.corrupt_index()?;
        let mut columns = Vec::with_capacity(settings.schema.fields().len());
        for field in settings.schema.fields() {
            columns.push(
                Column::new(field).ok_or_else(|| DecodeError::UnsupportedType {
                    column: field.name().clone(),
                    format: FORMAT,
                    data_type: field.data_type().to_string(),
                    allowed: ALLOWED,
                })?,
            );
        }
        let limit = settings
            .max_record_bytes
            .min(DecodeSettings::MAX_RECORD_BYTES);
        let mut reader = Self {
            records: Records::new(Input::new(input, file, limit), (&options).into()),
            rows: Rows {
                columns,
                corrupt,
                meaning: Meaning::new(&options, &settings),
                keep: Vec::new(),
                count: 0,
                bad: BadRecords::default(),
            },
            settings,
            options,
            layout: None,
        };
        if !reader.options.header {
            let schema = &reader.settings.schema;
            let corrupt = &reader.settings.corrupt_column;
            reader.use_layout(header::by_place(schema, reader.file_schema(), corrupt));
        }
        Ok(reader)
    }

    fn file_schema(&self) -> &SchemaRef {
        self.options
            .file_schema
            .as_ref()
            .unwrap_or(&self.settings.schema)
    }

    fn use_layout(&mut self, layout: Layout) {
        let keep = layout
            .places
            .iter()
            .flatten()
            .max()
            .map_or(0, |place| place + 1);
        self.records.expect(layout.width, keep);
        self.layout = Some(layout);
    }

    /// Reads the header, if there is one to be read. False if the file has no records at all.
    fn start(&mut self) -> Result<bool, DecodeError> {
        if self.layout.is_some() {
            return Ok(true);
        }
        let file = Arc::clone(self.records.input().file());
        self.records.expect_header(self.options.max_columns);
        let Some(record) = self.records.next()? else {
            return Ok(false);
        };
        let names = header::names(&record, &self.options, &file)?;
        let layout = header::by_name(
            &names,
            &self.settings.schema,
            self.file_schema(),
            &self.settings.corrupt_column,
            &self.options,
            &file,
        )?;
        self.use_layout(layout);
        Ok(true)
    }
}

impl BatchReader for CsvReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        if !self.start()? {
            return Ok(None);
        }
        let file = Arc::clone(self.records.input().file());
        loop {
            let mut bytes = 0;
            while self.rows.count < self.settings.batch_rows.max(1)
                && bytes < self.settings.batch_bytes
            {
                let Some(layout) = &self.layout else { break };
                let Some(record) = self.records.next()? else {
                    break;
                };
                bytes += record.raw.len();
                self.rows.push(&record, layout, &self.settings, &file)?;
            }
            if self.rows.count == 0 {
                return Ok(None);
            }
            let batch =
                self.rows
                    .finish(&self.settings.schema)
                    .map_err(|source| DecodeError::Batch {
                        file: Arc::clone(&file),
                        source,
                    })?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    fn bad_records(&self) -> &BadRecords {
        &self.rows.bad
    }
}

/// What is wrong with a record.
enum Fault {
    Record(Damage),
    Value { column: usize, place: usize },
    Width,
}

impl Rows {
    /// Appends the row of one record, or notes that it is bad, as the mode says.
    fn push(
        &mut self,
        record: &Record<'_>,
        layout: &Layout,
        settings: &DecodeSettings,
        file: &Arc<str>,
    ) -> Result<(), DecodeError> {
        if record.forbidden_quote {
            return Err(DecodeError::UnescapedQuote {
                file: Arc::clone(file),
                line: record.line,
            });
        }
        let fault = self.push_fields(record, layout);
        if let Some(fault) = &fault {
            let mut bad = std::mem::take(&mut self.bad);
            let describe = || self.describe(fault, record, layout);
            let noted = bad.note(settings, file, record.line, record.raw, describe);
            self.bad = bad;
            noted?;
        }
        if let Some(corrupt) = self.corrupt {
            match fault {
                Some(_) => self.columns[corrupt].append_raw(record.raw),
                None => self.columns[corrupt].append_null(),
            }
        }
        if settings.mode == ParseMode::DropMalformed {
            self.keep.push(fault.is_none());
        }
        self.count += 1;
        Ok(())
    }

    /// Appends a value to every column but the one for bad records; answers the first thing that is wrong.
    fn push_fields(&mut self, record: &Record<'_>, layout: &Layout) -> Option<Fault> {
        let mut fault = record.damage.map(Fault::Record);
        for (index, (column, place)) in self.columns.iter_mut().zip(&layout.places).enumerate() {
            if Some(index) == self.corrupt {
                continue;
            }
            let field = place.and_then(|place| Some((place, record.field(place)?)));
            match field {
                None => column.append_null(),
                Some((place, (text, quoted))) => {
                    if !column.append(text, quoted, &self.meaning) && fault.is_none() {
                        fault = Some(Fault::Value {
                            column: index,
                            place,
                        });
                    }
                }
            }
        }
        if fault.is_none() && record.count != layout.width {
            fault = Some(Fault::Width);
        }
        fault
    }

    fn describe(&self, fault: &Fault, record: &Record<'_>, layout: &Layout) -> String {
        match fault {
            Fault::Record(damage) => damage.reason(),
            Fault::Width => format!("{} fields instead of {}", record.count, layout.width),
            Fault::Value { column, place } => {
                let field = self.columns[*column].field();
                let text = record.field(*place).map_or(&b""[..], |(text, _)| text);
                let start = String::from_utf8_lossy(&text[..text.len().min(100)]);
                format!(
                    "column \"{}\": \"{start}\" is not of type {}",
                    field.name(),
                    field.data_type()
                )
            }
        }
    }

    /// The rows collected so far as a batch.
    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, arrow::error::ArrowError> {
        let columns = self
            .columns
            .iter_mut()
            .map(Column::finish)
            .collect::<Result<Vec<ArrayRef>, _>>()?;
        let count = std::mem::take(&mut self.count);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        let keep = std::mem::take(&mut self.keep);
        if keep.iter().all(|keep| *keep) {
            return Ok(batch);
        }
        filter_record_batch(&batch, &BooleanArray::from(keep))
    }
}
