//! [`RowRef`]: one row, its values by column name and Rust type.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
};
use datafusion::common::ScalarValue;
use weir_runtime::{Result, RowKind, WeirError};

/// A row of a batch. Getters answer `None` for NULL, and with an error for a column that is not there or is of another
/// type; nothing is converted except to a wider type that holds every value.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    batch: &'a RecordBatch,
    index: usize,
    kind: RowKind,
}

impl<'a> RowRef<'a> {
    /// Row `index` of `batch`, which must have that many rows.
    pub(crate) fn new(batch: &'a RecordBatch, index: usize, kind: RowKind) -> Self {
        Self { batch, index, kind }
    }

    /// The batch the row is in.
    #[must_use]
    pub fn batch(&self) -> &'a RecordBatch {
        self.batch
    }

    /// Index of the row in its batch.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// What the row does to the result; insert unless the query takes rows back.
    #[must_use]
    pub fn kind(&self) -> RowKind {
        self.kind
    }

    /// True if the value is NULL.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn is_null(&self, column: &str) -> Result<bool> {
        Ok(self.column(column)?.is_null(self.index))
    }

    /// A BOOLEAN.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn bool(&self, column: &str) -> Result<Option<bool>> {
        self.get(column, "BOOLEAN", |array, row| {
            array.as_boolean_opt().map(|array| array.value(row))
        })
    }

    /// A TINYINT, SMALLINT or INT.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn i32(&self, column: &str) -> Result<Option<i32>> {
        self.get(column, "an integer of at most 32 bits", |array, row| {
            small_integer(array, row).and_then(|value| i32::try_from(value).ok())
        })
    }

    /// Any integer type whose values fit: TINYINT to BIGINT.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn i64(&self, column: &str) -> Result<Option<i64>> {
        self.get(
            column,
            "an integer of at most 64 bits",
            |array, row| match array.data_type() {
                DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)),
                DataType::UInt32 => Some(array.as_primitive::<UInt32Type>().value(row).into()),
                _ => small_integer(array, row),
            },
        )
    }

    /// A FLOAT or DOUBLE.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn f64(&self, column: &str) -> Result<Option<f64>> {
        self.get(column, "FLOAT or DOUBLE", |array, row| {
            match array.data_type() {
                DataType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).into()),
                DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
                _ => None,
            }
        })
    }

    /// A STRING.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn str(&self, column: &str) -> Result<Option<&'a str>> {
        self.get(column, "STRING", |array, row| match array.data_type() {
            DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(array.as_string_view().value(row)),
            _ => None,
        })
    }

    /// A BINARY.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn binary(&self, column: &str) -> Result<Option<&'a [u8]>> {
        self.get(column, "BINARY", |array, row| match array.data_type() {
            DataType::Binary => Some(array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
            DataType::BinaryView => Some(array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row)),
            _ => None,
        })
    }

    /// A DATE, as days since 1970-01-01.
    ///
    /// # Errors
    /// No such column, another type.
    pub fn date_days(&self, column: &str) -> Result<Option<i32>> {
        self.get(column, "DATE", |array, row| {
            array
                .as_primitive_opt::<Date32Type>()
                .map(|array| array.value(row))
        })
    }

    /// A TIMESTAMP, as microseconds since 1970-01-01T00:00:00Z, or a TIMESTAMP_NTZ, counted the same way without a zone.
    ///
    /// # Errors
    /// No such column, another type, another unit than microseconds.
    pub fn timestamp_micros(&self, column: &str) -> Result<Option<i64>> {
        self.get(
            column,
            "TIMESTAMP in microseconds",
            |array, row| match array.data_type() {
                DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    Some(array.as_primitive::<TimestampMicrosecondType>().value(row))
                }
                _ => None,
            },
        )
    }

    /// A value of any type, NULL included.
    ///
    /// # Errors
    /// No such column, or a type without scalar form.
    pub fn value(&self, column: &str) -> Result<ScalarValue> {
        ScalarValue::try_from_array(self.column(column)?, self.index).map_err(|error| {
            WeirError::data(format!("column '{column}' has no single values")).with_source(error)
        })
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef> {
        self.batch.column_by_name(name).ok_or_else(|| {
            let schema = self.batch.schema_ref();
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            WeirError::config(format!(
                "there is no column '{name}', columns of the row: {}",
                names.join(", ")
            ))
        })
    }

    fn get<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a ArrayRef, usize) -> Option<T>,
    ) -> Result<Option<T>> {
        let array = self.column(name)?;
        if array.is_null(self.index) || *array.data_type() == DataType::Null {
            return Ok(None);
        }
        match read(array, self.index) {
            Some(value) => Ok(Some(value)),
            None => Err(WeirError::config(format!(
                "column '{name}' has the type {}, wanted: {wanted}",
                array.data_type()
            ))),
        }
    }
}

/// Integers of at most 32 bits.
fn small_integer(array: &ArrayRef, row: usize) -> Option<i64> {
    match array.data_type() {
        DataType::Int8 => Some(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Some(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Some(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt8 => Some(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Some(array.as_primitive::<UInt16Type>().value(row).into()),
        _ => None,
    }
}
