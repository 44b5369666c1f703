//! Keys of rows as bytes, and the key groups they belong to.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use weir_runtime::{Result, key_group, normal_key};

use crate::row_codec::{EncodedRows, RowCodec};

/// Encodes the key columns of batches, as the exchange in front of the operator does.
#[derive(Debug)]
pub(crate) struct Keys {
    columns: Vec<usize>,
    codec: RowCodec,
    encoded: EncodedRows,
}

impl Keys {
    /// The encoder of the columns at these positions; none is allowed: then all rows have one key.
    ///
    /// # Errors
    /// If a type cannot be a key.
    pub(crate) fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let fields: Vec<_> = columns
            .iter()
            .map(|column| schema.fields()[*column].clone())
            .collect();
        let codec = RowCodec::new(fields)?;
        Ok(Self {
            encoded: codec.buffer(),
            columns,
            codec,
        })
    }

    /// The codec of the keys.
    pub(crate) fn codec(&self) -> &RowCodec {
        &self.codec
    }

    /// Encodes the keys of a batch, for [`key`](Self::key).
    ///
    /// # Errors
    /// If the columns do not have the types of the schema.
    pub(crate) fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| normal_key(batch.column(*column)))
            .collect();
        self.encoded.clear();
        self.codec
            .append(&mut self.encoded, &columns, batch.num_rows())
    }

    /// Key group and key of one row of the batch that was encoded last.
    pub(crate) fn key(&self, row: usize) -> (u32, &[u8]) {
        let bytes = self.encoded.get(row);
        (key_group(bytes), bytes)
    }
}
