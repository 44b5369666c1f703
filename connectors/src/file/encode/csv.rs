//! The CSV format: one record for each row.
//!
//! Fields are quoted only where they have to be. NULL is written as `nullValue` (nothing), the
//! empty text as `emptyValue` (two quotes), so that the two stay apart. Inside a quoted field `escape`, a
//! backslash, stands before quotes and before itself, as in Spark, which so reads what is written here;
//! `escape` set to the quote doubles quotes and leaves backslashes alone, as RFC 4180 has it. Two things
//! differ from Spark's defaults, whose files do not come back as they were: blanks around a text are kept, and
//! a value that cannot be stored is an error.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::SchemaRef;

use super::columns::Columns;
use super::lines::{LineOutput, TextFile};
use super::time::TimeText;
use super::value::{Values, is_scalar};
use super::{BatchWriter, EncodeError, FileStats};

pub(super) const FORMAT: &str = "csv";

/// Why a value is refused when there are no quotes.
const NEEDS_QUOTES: &str = "it needs quotes, and option 'quote' is off";

/// Why a value is refused when nothing may stand before an escape.
const ENDS_IN_ESCAPE: &str =
    "it needs quotes and ends with the escape, and option 'charToEscapeQuoteEscaping' is off";

/// At the very beginning of a file readers would take it off.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const ALLOWED: &str =
    "BOOLEAN, numbers, DECIMAL up to 38 digits, DATE, TIMESTAMP, STRING, and BINARY that is UTF-8";

/// Options of the CSV format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvWriteOptions {
    /// `sep` or `delimiter`: between two fields, one or more characters; default a comma.
    pub sep: String,
    /// `header`: write the names of the columns first; default false.
    pub header: bool,
    /// `quote`: around fields that need it, ASCII; default `"`, None for never.
    pub quote: Option<u8>,
    /// `escape`: before a quote inside a quoted field, ASCII; default a backslash. Set to the quote, quotes are doubled.
    pub escape: u8,
    /// `charToEscapeQuoteEscaping`: before an escape inside a quoted field, ASCII, NUL for none; default what `escape` is.
    pub char_to_escape_quote_escaping: Option<u8>,
    /// `escapeQuotes`: put fields in quotes because they have quotes in them; default true. With false only those are that
    /// need it for something else or begin with a quote.
    pub escape_quotes: bool,
    /// `quoteAll`: put every field that is not NULL in quotes; default false.
    pub quote_all: bool,
    /// `nullValue`: written for NULL; default nothing.
    pub null_value: String,
    /// `emptyValue`: written as it is for an empty text; unset, two quotes.
    pub empty_value: Option<String>,
    /// `ignoreLeadingWhiteSpace`: cut blanks before a text; default false.
    pub ignore_leading_white_space: bool,
    /// `ignoreTrailingWhiteSpace`: cut blanks after a text; default false.
    pub ignore_trailing_white_space: bool,
    /// `comment`: lines that begin with it are no records, ASCII; a first field that does is put in quotes. Default none.
    pub comment: Option<u8>,
    /// `extension`: what names of files end with, before that of the compression; default csv.
    pub extension: String,
    /// Spelling of dates and times.
    pub time: TimeText,
    /// Compression, charset and ends of records.
    pub file: TextFile,
}

impl Default for CsvWriteOptions {
    fn default() -> Self {
        Self {
            sep: ",".to_owned(),
            header: false,
            quote: Some(b'"'),
            escape: b'\\',
            char_to_escape_quote_escaping: None,
            escape_quotes: true,
            quote_all: false,
            null_value: String::new(),
            empty_value: None,
            ignore_leading_white_space: false,
            ignore_trailing_white_space: false,
            comment: None,
            extension: FORMAT.to_owned(),
            time: TimeText::default(),
            file: TextFile::default(),
        }
    }
}

/// Writes one CSV file.
pub(super) struct CsvWriter {
    columns: Columns,
    fields: FieldWriter,
    output: LineOutput,
    scratch: Vec<u8>,
}

impl CsvWriter {
    pub(super) fn new(
        options: &CsvWriteOptions,
        schema: &SchemaRef,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let columns = Columns::new(FORMAT, schema, is_scalar, ALLOWED)?;
        let mut writer = Self {
            fields: FieldWriter::new(options, columns.plain().fields().len()),
            columns,
            output: LineOutput::new(FORMAT, &options.file, out)?,
            scratch: Vec::new(),
        };
        if options.header {
            writer.write_header()?;
        }
        Ok(writer)
    }

    fn write_header(&mut self) -> Result<(), EncodeError> {
        let schema = self.columns.plain();
        let block = self.output.block();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                block.extend_from_slice(self.fields.options.sep.as_bytes());
            }
            self.fields
                .push_text(block, field.name().as_bytes(), index == 0)
                .map_err(|reason| refused(&self.columns, index, reason))?;
        }
        block.extend_from_slice(self.fields.options.file.line_sep.as_bytes());
        Ok(())
    }
}

impl BatchWriter for CsvWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns: Vec<Column> = self
            .columns
            .adapt(batch)?
            .iter()
            .enumerate()
            .map(|(index, array)| Column {
                is_first: index == 0,
                nulls: array.logical_nulls(),
                values: Values::new(array).expect("invariant: the type was accepted as scalar"),
            })
            .collect();
        for row in 0..batch.num_rows() {
            let block = self.output.block();
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    block.extend_from_slice(self.fields.options.sep.as_bytes());
                }
                self.fields
                    .push(block, &mut self.scratch, column, row)
                    .map_err(|reason| refused(&self.columns, index, reason))?;
            }
            block.extend_from_slice(self.fields.options.file.line_sep.as_bytes());
            self.output.end_row()?;
        }
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.output.bytes()
    }

    fn finish(self: Box<Self>) -> Result<FileStats, EncodeError> {
        self.output.finish()
    }
}

fn refused(columns: &Columns, index: usize, reason: &str) -> EncodeError {
    EncodeError::Value {
        format: FORMAT,
        column: columns.plain().field(index).name().clone(),
        reason: reason.to_owned(),
    }
}

struct Column {
    is_first: bool,
    nulls: Option<NullBuffer>,
    values: Values,
}

/// Turns values into fields: decides about quotes and puts them.
struct FieldWriter {
    options: CsvWriteOptions,
    /// Bytes that force quotes around a field.
    special: [bool; 256],
    /// Whether such bytes can occur in numbers and times, as with `sep` set to `-`.
    special_in_plain: bool,
    /// The only field of its record; left blank, the record would be a blank line.
    alone: bool,
}

impl FieldWriter {
    fn new(options: &CsvWriteOptions, columns: usize) -> Self {
        let mut special = [false; 256];
        // A text that ends like a separator begins would move the one behind it.
        let ends = [b'\n', b'\r']
            .into_iter()
            .chain(options.sep.bytes().next())
            .chain(options.file.line_sep.bytes());
        for byte in ends.chain(options.quote.filter(|_| options.escape_quotes)) {
            special[usize::from(byte)] = true;
        }
        let plain = b"0123456789+-.:TZE trueflsNaInity";
        Self {
            special_in_plain: options.quote_all
                || options.time
                    != TimeText {
                        zone: options.time.zone,
                        ..TimeText::default()
                    }
                || plain
                    .iter()
                    .any(|byte| special[usize::from(*byte)] || Some(*byte) == options.comment),
            special,
            alone: columns == 1,
            options: options.clone(),
        }
    }

    fn push(
        &self,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        column: &Column,
        row: usize,
    ) -> Result<(), &'static str> {
        let is_null = column.nulls.as_ref().is_some_and(|n| n.is_null(row));
        match &column.values {
            _ if is_null => self.push_null(out),
            Values::Text(texts) => {
                self.push_text(out, texts.value(row).as_bytes(), column.is_first)
            }
            Values::Binary(bytes) => {
                let bytes = bytes.value(row);
                std::str::from_utf8(bytes).map_err(|_| "the bytes are not UTF-8")?;
                self.push_text(out, bytes, column.is_first)
            }
            values if self.special_in_plain => {
                scratch.clear();
                values.push(row, &self.options.time, scratch);
                self.push_text(out, scratch, column.is_first)
            }
            values => {
                values.push(row, &self.options.time, out);
                Ok(())
            }
        }
    }

    fn push_null(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.alone && self.options.null_value.trim().is_empty() {
            // A blank line would not be read back as a row.
            return self.push_empty(out);
        }
        out.extend_from_slice(self.options.null_value.as_bytes());
        Ok(())
    }

    fn push_empty(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match (&self.options.empty_value, self.options.quote) {
            (Some(text), _) => out.extend_from_slice(text.as_bytes()),
            (None, Some(quote)) => out.extend_from_slice(&[quote, quote]),
            (None, None) => return Err(NEEDS_QUOTES),
        }
        Ok(())
    }

    fn push_text(
        &self,
        out: &mut Vec<u8>,
        text: &[u8],
        is_first: bool,
    ) -> Result<(), &'static str> {
        let mut text = text;
        if self.options.ignore_leading_white_space {
            text = text.trim_ascii_start();
        }
        if self.options.ignore_trailing_white_space {
            text = text.trim_ascii_end();
        }
        if text.is_empty() {
            return self.push_empty(out);
        }
        let must = text.iter().any(|byte| self.special[usize::from(*byte)])
            || (self.alone && text.trim_ascii().is_empty())
            || text.first().copied() == self.options.quote
            || (is_first && self.options.comment.is_some_and(|c| text[0] == c))
            || text.starts_with(BYTE_ORDER_MARK);
        match self.options.quote {
            Some(quote) if must || self.options.quote_all => self.push_quoted(out, text, quote),
            None if must => Err(NEEDS_QUOTES),
            _ => {
                out.extend_from_slice(text);
                Ok(())
            }
        }
    }

    fn push_quoted(&self, out: &mut Vec<u8>, text: &[u8], quote: u8) -> Result<(), &'static str> {
        let escape = self.options.escape;
        let before_escape = match self.options.char_to_escape_quote_escaping {
            None => Some(escape),
            Some(0) => None,
            other => other,
        };
        if before_escape.is_none() && escape != quote && text.last() == Some(&escape) {
            return Err(ENDS_IN_ESCAPE);
        }
        out.push(quote);
        for byte in text {
            if *byte == quote {
                out.push(escape);
            } else if *byte == escape {
                out.extend(before_escape);
            }
            out.push(*byte);
        }
        out.push(quote);
        Ok(())
    }
}
