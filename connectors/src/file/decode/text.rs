//! The text format: one row per line in a single STRING column.

use std::{io::Read, sync::Arc};

use arrow::{
    array::{ArrayRef, StringBuilder},
    compute::cast,
    datatypes::DataType,
    record_batch::{RecordBatch, RecordBatchOptions},
};

use super::{BadRecords, BatchReader, DecodeError, DecodeSettings, lines::Lines};

/// Options of the text format, already parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// The whole file is one value (`wholetext`).
    pub whole_text: bool,
    /// What ends a line (`lineSep`); by default `\n`, `\r\n` and `\r`.
    pub line_separator: Option<Vec<u8>>,
}

/// Reads lines into the one STRING column of the schema (none at all gives rows without columns, for counting).
///
/// Empty lines are rows. Bytes that are not UTF-8 become U+FFFD: text has no bad records, and a line longer than allowed is an error.
pub struct TextReader {
    lines: Lines,
    settings: DecodeSettings,
    whole_text: bool,
    bad: BadRecords,
}

impl TextReader {
    /// A reader of `input`; `file` is the name used in errors.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedType`] when the schema has more than one column or one that is not STRING.
    pub fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        settings: DecodeSettings,
        options: &TextOptions,
    ) -> Result<Self, DecodeError> {
        for (index, field) in settings.schema.fields().iter().enumerate() {
            if index > 0 || !is_text(field.data_type()) {
                return Err(DecodeError::UnsupportedType {
                    column: field.name().clone(),
                    format: "text",
                    data_type: field.data_type().to_string(),
                    allowed: "a single STRING column",
                });
            }
        }
        let lines = Lines::new(
            input,
            file,
            options.line_separator.as_deref(),
            settings.record_limit(),
        );
        Ok(Self {
            lines,
            settings,
            whole_text: options.whole_text,
            bad: BadRecords::default(),
        })
    }

    fn batch(&self, rows: usize, mut values: StringBuilder) -> Result<RecordBatch, DecodeError> {
        let schema = Arc::clone(&self.settings.schema);
        let failed = |source| DecodeError::Batch {
            file: Arc::clone(self.lines.file()),
            source,
        };
        let mut columns = Vec::new();
        if let Some(field) = schema.fields().first() {
            let texts: ArrayRef = Arc::new(values.finish());
            columns.push(cast(&texts, field.data_type()).map_err(failed)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(failed)
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

impl BatchReader for TextReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        let keep = !self.settings.schema.fields().is_empty();
        let mut values = StringBuilder::new();
        let (mut rows, mut bytes) = (0, 0);
        while !self.settings.is_full(rows, bytes) {
            let line = if self.whole_text {
                self.lines.rest()?
            } else {
                self.lines.next_line()?
            };
            let Some(line) = line else { break };
            if line.is_cut() {
                let number = line.number;
                return Err(self.lines.too_long(number));
            }
            if keep {
                values.append_value(String::from_utf8_lossy(line.bytes));
            }
            rows += 1;
            bytes += line.bytes.len();
        }
        (rows > 0).then(|| self.batch(rows, values)).transpose()
    }

    fn bad_records(&self) -> &BadRecords {
        &self.bad
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Array, AsArray},
        datatypes::{Field, Schema},
    };

    use super::*;

    fn read(bytes: &[u8], options: &TextOptions, batch_rows: usize) -> Vec<String> {
        let schema = Schema::new(vec![Field::new("value", DataType::Utf8, true)]);
        let settings = DecodeSettings {
            batch_rows,
            ..DecodeSettings::new(&schema)
        };
        let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut reader = TextReader::new(input, "f.txt", settings, options).expect("good schema");
        let mut texts = Vec::new();
        while let Some(batch) = reader.next_batch().expect("readable") {
            assert!(batch.num_rows() <= batch_rows);
            let column = batch.column(0).as_string::<i32>();
            texts.extend((0..column.len()).map(|row| column.value(row).to_owned()));
        }
        texts
    }

    #[test]
    fn text_lines_are_rows_also_when_empty() {
        for batch_rows in [1, 2, 100] {
            let texts = read(
                b"hello world\n\n  two  \r\nlast",
                &TextOptions::default(),
                batch_rows,
            );
            assert_eq!(texts, ["hello world", "", "  two  ", "last"]);
        }
    }

    #[test]
    fn text_with_another_separator_or_as_a_whole() {
        let options = TextOptions {
            line_separator: Some(b";".to_vec()),
            ..TextOptions::default()
        };
        assert_eq!(read(b"a;b\n;", &options, 10), ["a", "b\n"]);
        let options = TextOptions {
            whole_text: true,
            ..TextOptions::default()
        };
        assert_eq!(read(b"a\nb\n", &options, 10), ["a\nb\n"]);
    }

    #[test]
    fn text_that_is_not_utf8_keeps_its_neighbours() {
        assert_eq!(
            read(b"a\n\xFFb\nc", &TextOptions::default(), 10),
            ["a", "\u{FFFD}b", "c"]
        );
    }

    #[test]
    fn text_schema_with_other_columns_is_refused() {
        let schema = Schema::new(vec![Field::new("value", DataType::Int32, true)]);
        let result = TextReader::new(
            Box::new(std::io::empty()),
            "f",
            DecodeSettings::new(&schema),
            &TextOptions::default(),
        );
        let message = result.err().expect("refused").to_string();
        assert_eq!(
            message,
            "column \"value\": the text format cannot read type Int32 (allowed: a single STRING column)"
        );
    }

    #[test]
    fn text_without_columns_counts_rows() {
        let settings = DecodeSettings::new(&Schema::empty());
        let input = Box::new(std::io::Cursor::new(b"a\nb".to_vec()));
        let mut reader =
            TextReader::new(input, "f", settings, &TextOptions::default()).expect("good");
        assert_eq!(
            reader
                .next_batch()
                .expect("readable")
                .expect("rows")
                .num_rows(),
            2
        );
    }
}
