//! Keys of rows as bytes: Arrow's row encoding of the key columns.
//!
//! Where the event time is a key it comes last, and its last eight bytes are left out of the stored key: the table holds them
//! as the time of the entry, by which whole buckets are forgotten.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow::row::{RowConverter, Rows as Encoded, SortField};
use weir_runtime::{Result, key_group};

/// Encodes the key columns of batches.
pub(super) struct Keys {
    columns: Vec<usize>,
    converter: RowConverter,
    encoded: Encoded,
    /// Bytes at the end of an encoded key that say the same as the time of the entry.
    implied: usize,
}

/// One key.
pub(super) struct Key<'a> {
    /// Key group of all key columns together.
    pub(super) group: u32,
    /// The key as the table stores it.
    pub(super) bytes: &'a [u8],
}

impl Keys {
    /// The encoder of these columns; `timed` says that the last one is the time of the entries.
    ///
    /// # Errors
    /// If a type cannot be a key.
    pub(super) fn new(schema: &Schema, columns: Vec<usize>, timed: bool) -> Result<Self> {
        let types = columns
            .iter()
            .map(|column| schema.field(*column).data_type());
        let fields = types.clone().cloned().map(SortField::new).collect();
        let converter = RowConverter::new(fields)?;
        let implied = match types.last() {
            Some(last) if timed && ends_in_micros(last) => size_of::<i64>(),
            _ => 0,
        };
        Ok(Self {
            encoded: converter.empty_rows(0, 0),
            columns,
            converter,
            implied,
        })
    }

    /// Encodes the keys of a batch, for [`key`](Self::key).
    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| weir_runtime::normal_key(batch.column(*column)))
            .collect();
        self.encoded.clear();
        self.converter.append(&mut self.encoded, &columns)?;
        Ok(())
    }

    /// The key of one row of the batch that was encoded last.
    pub(super) fn key(&self, row: usize) -> Key<'_> {
        let whole = self.encoded.row(row).data();
        Key {
            group: key_group(whole),
            bytes: &whole[..whole.len() - self.implied],
        }
    }
}

/// Whether the encoding of this type ends in the eight bytes of a time in microseconds: a timestamp, or a window whose end is one.
/// (What stays of it tells null from any time.)
fn ends_in_micros(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, _) => true,
        DataType::Struct(fields) => fields
            .last()
            .is_some_and(|last| last.name() == "end" && ends_in_micros(last.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StructArray, TimestampMicrosecondArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Fields};

    use super::*;

    fn times(values: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
    }

    fn encoded(columns: Vec<(&str, ArrayRef)>) -> Vec<Vec<u8>> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
        .expect("batch");
        let all = (0..batch.num_columns()).collect();
        let mut keys = Keys::new(batch.schema_ref(), all, true).expect("keys");
        keys.encode(&batch).expect("encoded");
        (0..batch.num_rows())
            .map(|row| keys.key(row).bytes.to_vec())
            .collect()
    }

    #[test]
    fn time_that_comes_last_is_not_in_the_key_but_its_absence_is() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1, 2]));
        let keys = encoded(vec![
            ("k", numbers),
            ("ts", times(vec![Some(5), Some(6), None, Some(5)])),
        ]);
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        assert_ne!(keys[0], keys[3]);
    }

    #[test]
    fn windows_of_equal_end_and_other_start_are_other_keys() {
        let zoned = times(vec![]).data_type().clone();
        let fields = Fields::from(vec![
            Field::new("start", zoned.clone(), true),
            Field::new("end", zoned, true),
        ]);
        let columns = vec![
            times(vec![Some(0), Some(5), Some(0), Some(0)]),
            times(vec![Some(10), Some(10), Some(20), Some(0)]),
        ];
        let nulls = NullBuffer::from(vec![true, true, true, false]);
        let windows: ArrayRef = Arc::new(StructArray::new(fields, columns, Some(nulls)));
        let keys = encoded(vec![("w", windows)]);
        assert_ne!(keys[0], keys[1]);
        assert_eq!(
            keys[0], keys[2],
            "the end is the time of the entry and tells them apart"
        );
        assert_ne!(keys[0], keys[3]);
    }
}
