//! Rows as text.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Rows as values with `|` between them, sorted.
pub(crate) fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            values.join("|")
        }));
    }
    rows.sort();
    rows
}
