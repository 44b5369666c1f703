//! The text format: the value of the only column, a line for each row.
//!
//! As in Spark a NULL becomes an empty line, and a value that holds a line end becomes several
//! lines when read back.

use std::io::Write;

use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};

use super::columns::{Columns, describe};
use super::lines::{LineOutput, TextFile};
use super::{BatchWriter, EncodeError, FileStats};

pub(super) const FORMAT: &str = "text";

/// Options of the text format.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextWriteOptions {
    /// Compression, charset and ends of lines.
    pub file: TextFile,
}

/// Writes one text file.
pub(super) struct TextWriter {
    columns: Columns,
    line_sep: Vec<u8>,
    output: LineOutput,
}

impl TextWriter {
    pub(super) fn new(
        options: &TextWriteOptions,
        schema: &SchemaRef,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let refused = || EncodeError::TextColumns {
            found: if schema.fields().is_empty() {
                "no columns".to_owned()
            } else {
                describe(schema)
            },
        };
        if schema.fields().len() != 1 {
            return Err(refused());
        }
        let columns = Columns::new(
            FORMAT,
            schema,
            |t| *t == DataType::Utf8,
            "one STRING column",
        )
        .map_err(|_| refused())?;
        Ok(Self {
            columns,
            line_sep: options.file.line_sep.clone().into_bytes(),
            output: LineOutput::new(FORMAT, &options.file, out)?,
        })
    }
}

impl BatchWriter for TextWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns = self.columns.adapt(batch)?;
        let lines = columns[0].as_string::<i32>();
        for row in 0..lines.len() {
            let block = self.output.block();
            if !lines.is_null(row) {
                block.extend_from_slice(lines.value(row).as_bytes());
            }
            block.extend_from_slice(&self.line_sep);
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
