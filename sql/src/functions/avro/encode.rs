//! Columns to Avro payloads, by [`weir_connectors::avro::Writer`], with Spark's errors.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use weir_connectors::avro::{self, NotWritten, Shape};

use super::super::error::SparkError;
use super::super::kernel::Codec;
use crate::types::type_name;

/// Writes values of one column type in one schema.
#[derive(Debug)]
pub(super) struct Writer(avro::Writer);

impl Writer {
    /// A writer of columns of type `t`.
    ///
    /// # Errors
    /// The schema has no place for such values.
    pub(super) fn new(shape: &Arc<Shape>, t: &DataType) -> Result<Self, String> {
        avro::Writer::new(shape, t, type_name).map(Self)
    }

    /// The payloads of `values`, behind `header`; NULL for NULL.
    pub(super) fn write(&self, values: &ArrayRef, header: &[u8]) -> Result<BinaryArray> {
        self.0
            .write(values, header)
            .map_err(|error| match NotWritten::of(&error) {
                Some(why) => SparkError::external("AVRO_CANNOT_WRITE", format!("to_avro: {why}")),
                None => error.context("to_avro"),
            })
    }
}

impl Codec for Writer {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        Ok(Arc::new(self.write(input, &[])?))
    }
}
