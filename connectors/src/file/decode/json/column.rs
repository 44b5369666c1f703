//! Growing Arrow columns: plain vectors that the decoder appends to and can cut back.
//!
//! Arrow's own builders do not cut back, and a record that turns out bad half-way must leave no trace.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, BooleanBufferBuilder, ListArray,
        MapArray, NullBufferBuilder, PrimitiveArray, StringArray, StructArray, new_null_array,
    },
    buffer::{Buffer, OffsetBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{
        DataType, Date32Type, Decimal128Type, FieldRef, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    },
    error::ArrowError,
};

use super::{cursor::Syntax, object::ObjectColumn};

/// One column, by what is read into it.
pub(super) enum Column {
    Boolean(BooleanColumn),
    Int8(NumberColumn<Int8Type>),
    Int16(NumberColumn<Int16Type>),
    Int32(NumberColumn<Int32Type>),
    Int64(NumberColumn<Int64Type>),
    Float32(NumberColumn<Float32Type>),
    Float64(NumberColumn<Float64Type>),
    Decimal(NumberColumn<Decimal128Type>, u8, i8),
    Date(NumberColumn<Date32Type>),
    Timestamp(NumberColumn<TimestampMicrosecondType>),
    TimestampNtz(NumberColumn<TimestampMicrosecondType>),
    Text(BytesColumn),
    Binary(BytesColumn),
    Object(Box<ObjectColumn>),
    List(Box<ListColumn>),
    Map(Box<MapColumn>),
    /// A type without values in JSON: always null. `true` when a value other than null is bad.
    Null(usize, bool),
}

/// Runs the same code on every kind that has the method.
macro_rules! each {
    ($column:expr, $inner:ident => $code:expr, $length:ident => $null:expr) => {
        match $column {
            Column::Boolean($inner) => $code,
            Column::Int8($inner) => $code,
            Column::Int16($inner) => $code,
            Column::Int32($inner) => $code,
            Column::Int64($inner) => $code,
            Column::Float32($inner) => $code,
            Column::Float64($inner) => $code,
            Column::Decimal($inner, ..) => $code,
            Column::Date($inner) => $code,
            Column::Timestamp($inner) | Column::TimestampNtz($inner) => $code,
            Column::Text($inner) | Column::Binary($inner) => $code,
            Column::Object($inner) => $code,
            Column::List($inner) => $code,
            Column::Map($inner) => $code,
            Column::Null($length, _) => $null,
        }
    };
}

impl Column {
    /// Rows so far.
    #[inline]
    pub(super) fn len(&self) -> usize {
        each!(self, column => column.validity.len(), length => *length)
    }

    /// One more row, null.
    pub(super) fn append_null(&mut self) {
        each!(self, column => column.append_null(), length => *length += 1);
    }

    /// Back to `rows` rows; also drops children that belong to an unfinished row.
    pub(super) fn truncate(&mut self, rows: usize) {
        each!(self, column => column.truncate(rows), length => *length = rows);
    }

    /// The rows as an array of `data_type`; the column is empty afterwards.
    pub(super) fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let array: ArrayRef = match self {
            Self::Boolean(column) => Arc::new(column.finish()),
            Self::Int8(column) => Arc::new(column.finish()),
            Self::Int16(column) => Arc::new(column.finish()),
            Self::Int32(column) => Arc::new(column.finish()),
            Self::Int64(column) => Arc::new(column.finish()),
            Self::Float32(column) => Arc::new(column.finish()),
            Self::Float64(column) => Arc::new(column.finish()),
            Self::Decimal(column, precision, scale) => Arc::new(
                column
                    .finish()
                    .with_precision_and_scale(*precision, *scale)?,
            ),
            Self::Date(column) => Arc::new(column.finish()),
            Self::Timestamp(column) => {
                Arc::new(column.finish().with_timezone_opt(zone_of(data_type)))
            }
            Self::TimestampNtz(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish_text()?),
            Self::Binary(column) => Arc::new(column.finish_binary()?),
            Self::Object(column) => Arc::new(column.finish()?),
            Self::List(column) => Arc::new(column.finish()?),
            Self::Map(column) => Arc::new(column.finish()?),
            Self::Null(length, _) => new_null_array(data_type, std::mem::take(length)),
        };
        if array.data_type() == data_type {
            Ok(array)
        } else {
            cast(&array, data_type)
        }
    }
}

fn zone_of(data_type: &DataType) -> Option<Arc<str>> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

/// Takes a vector and leaves an empty one with room for as many values again and `spare` more.
fn take<T>(values: &mut Vec<T>, spare: usize) -> Vec<T> {
    let capacity = values.len() + spare;
    std::mem::replace(values, Vec::with_capacity(capacity))
}

/// Values of one fixed width.
pub(super) struct NumberColumn<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    validity: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> NumberColumn<T> {
    pub(super) fn new() -> Self {
        Self {
            values: Vec::new(),
            validity: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    pub(super) fn append(&mut self, value: T::Native) {
        self.values.push(value);
        self.validity.append_non_null();
    }

    fn append_null(&mut self) {
        self.values.push(T::Native::default());
        self.validity.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.validity.truncate(rows);
    }

    fn finish(&mut self) -> PrimitiveArray<T> {
        PrimitiveArray::new(
            ScalarBuffer::from(take(&mut self.values, 0)),
            self.validity.finish(),
        )
    }
}

/// True and false, one bit each.
pub(super) struct BooleanColumn {
    values: BooleanBufferBuilder,
    validity: NullBufferBuilder,
}

impl BooleanColumn {
    pub(super) fn new() -> Self {
        Self {
            values: BooleanBufferBuilder::new(0),
            validity: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    pub(super) fn append(&mut self, value: bool) {
        self.values.append(value);
        self.validity.append_non_null();
    }

    fn append_null(&mut self) {
        self.values.append(false);
        self.validity.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.validity.truncate(rows);
    }

    fn finish(&mut self) -> BooleanArray {
        BooleanArray::new(self.values.finish(), self.validity.finish())
    }
}

/// Ends of rows in a child: `ends[0]` is 0, `ends[n]` the end of row n - 1.
struct Ends(Vec<i32>);

impl Ends {
    fn new() -> Self {
        Self(vec![0])
    }

    fn last(&self) -> usize {
        self.0.last().map_or(0, |end| *end as usize)
    }

    #[inline]
    fn push(&mut self, end: usize) -> Result<(), Syntax> {
        self.0
            .push(i32::try_from(end).map_err(|_| Syntax::BatchTooLarge)?);
        Ok(())
    }

    fn repeat(&mut self) {
        self.0.push(self.0.last().copied().unwrap_or(0));
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows + 1);
    }

    fn finish(&mut self) -> OffsetBuffer<i32> {
        let ends = take(&mut self.0, 0);
        self.0.push(0);
        OffsetBuffer::new(ScalarBuffer::from(ends))
    }
}

/// Texts or byte strings.
pub(super) struct BytesColumn {
    ends: Ends,
    pub(super) data: Vec<u8>,
    validity: NullBufferBuilder,
}

impl BytesColumn {
    pub(super) fn new() -> Self {
        Self {
            ends: Ends::new(),
            data: Vec::new(),
            validity: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Syntax> {
        self.data.extend_from_slice(bytes);
        self.end_row()
    }

    /// Ends a row whose bytes were appended to `data`.
    #[inline]
    pub(super) fn end_row(&mut self) -> Result<(), Syntax> {
        self.ends.push(self.data.len())?;
        self.validity.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.ends.repeat();
        self.validity.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.data.truncate(self.ends.last());
        self.validity.truncate(rows);
    }

    /// Sets the rows `first..rows`, the last ones, to `bytes`; null where that does not fit.
    pub(super) fn replace_last(&mut self, first: usize, rows: usize, bytes: &[u8]) {
        self.truncate(first);
        for row in first..rows {
            if self.append(bytes).is_err() {
                self.truncate(row);
                self.append_null();
            }
        }
    }

    /// The bytes; the next batch gets an eighth more room, so that it rarely has to move.
    fn take_data(&mut self) -> Buffer {
        let spare = self.data.len() / 8;
        Buffer::from_vec(take(&mut self.data, spare))
    }

    fn finish_text(&mut self) -> Result<StringArray, ArrowError> {
        StringArray::try_new(self.ends.finish(), self.take_data(), self.validity.finish())
    }

    fn finish_binary(&mut self) -> Result<BinaryArray, ArrowError> {
        BinaryArray::try_new(self.ends.finish(), self.take_data(), self.validity.finish())
    }
}

/// Arrays of one element type.
pub(super) struct ListColumn {
    ends: Ends,
    field: FieldRef,
    pub(super) element: Column,
    validity: NullBufferBuilder,
}

impl ListColumn {
    pub(super) fn new(field: FieldRef, element: Column) -> Self {
        Self {
            ends: Ends::new(),
            field,
            element,
            validity: NullBufferBuilder::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.validity.len()
    }

    /// Ends a row whose elements were appended to `element`.
    pub(super) fn end_row(&mut self) -> Result<(), Syntax> {
        self.ends.push(self.element.len())?;
        self.validity.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.ends.repeat();
        self.validity.append_null();
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.element.truncate(self.ends.last());
        self.validity.truncate(rows);
    }

    fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let elements = self.element.finish(self.field.data_type())?;
        ListArray::try_new(
            Arc::clone(&self.field),
            self.ends.finish(),
            elements,
            self.validity.finish(),
        )
    }
}

/// Maps with text keys, in the order and number in which they were written.
pub(super) struct MapColumn {
    ends: Ends,
    field: FieldRef,
    sorted: bool,
    pub(super) keys: BytesColumn,
    pub(super) values: Column,
    validity: NullBufferBuilder,
}

impl MapColumn {
    pub(super) fn new(field: FieldRef, sorted: bool, values: Column) -> Self {
        let keys = BytesColumn::new();
        Self {
            ends: Ends::new(),
            field,
            sorted,
            keys,
            values,
            validity: NullBufferBuilder::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.validity.len()
    }

    /// Ends a row whose entries were appended to `keys` and `values`.
    pub(super) fn end_row(&mut self) -> Result<(), Syntax> {
        self.ends.push(self.values.len())?;
        self.validity.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.ends.repeat();
        self.validity.append_null();
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.keys.truncate(self.ends.last());
        self.values.truncate(self.ends.last());
        self.validity.truncate(rows);
    }

    fn finish(&mut self) -> Result<MapArray, ArrowError> {
        let DataType::Struct(fields) = self.field.data_type() else {
            return Err(ArrowError::SchemaError(
                "the entries of a map are a struct".to_owned(),
            ));
        };
        let keys: ArrayRef = Arc::new(self.keys.finish_text()?);
        let keys = cast(&keys, fields[0].data_type())?;
        let values = self.values.finish(fields[1].data_type())?;
        let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        MapArray::try_new(
            Arc::clone(&self.field),
            self.ends.finish(),
            entries,
            self.validity.finish(),
            self.sorted,
        )
    }
}
