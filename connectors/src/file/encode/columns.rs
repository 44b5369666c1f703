//! Brings columns into the few types all writers know.
//!
//! Arrow has many layouts for one idea (views, dictionaries, large offsets, four time units,
//! unsigned numbers); readers of the files, Spark first of all, know one. This is the one place
//! that decides which, so that the writers match on a short list and fail early on the rest.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit,
};
use arrow::util::display::FormatOptions;

use super::EncodeError;

/// The columns of a file: what comes in, and the plain type each is brought to.
#[derive(Debug)]
pub(super) struct Columns {
    format: &'static str,
    incoming: SchemaRef,
    plain: SchemaRef,
}

/// Whether a format stores a plain type.
pub(super) type Check = fn(&DataType) -> bool;

impl Columns {
    /// Plans the columns of `schema` for `format`. `accepts` says which plain types the format
    /// stores, `allowed` says the same in words.
    pub(super) fn new(
        format: &'static str,
        schema: &SchemaRef,
        accepts: Check,
        allowed: &'static str,
    ) -> Result<Self, EncodeError> {
        let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let plain =
                plain_field(field, accepts).map_err(|Unsupported { path, data_type }| {
                    EncodeError::UnsupportedType {
                        format,
                        column: path,
                        data_type: Box::new(data_type),
                        allowed,
                    }
                })?;
            fields.push(plain);
        }
        Ok(Self {
            format,
            incoming: Arc::clone(schema),
            plain: Arc::new(Schema::new(fields)),
        })
    }

    /// The columns as they are stored: plain types, every one nullable.
    pub(super) fn plain(&self) -> &SchemaRef {
        &self.plain
    }

    /// The columns of `batch` in their plain types.
    pub(super) fn adapt(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, EncodeError> {
        self.check(batch)?;
        batch
            .columns()
            .iter()
            .zip(self.plain.fields())
            .map(|(column, field)| {
                if column.data_type() == field.data_type() {
                    Ok(Arc::clone(column))
                } else {
                    self.cast(column, field)
                }
            })
            .collect()
    }

    fn cast(&self, column: &ArrayRef, field: &Field) -> Result<ArrayRef, EncodeError> {
        let options = CastOptions {
            safe: false,
            format_options: FormatOptions::default(),
        };
        cast_with_options(column, field.data_type(), &options).map_err(|source| {
            EncodeError::Value {
                format: self.format,
                column: field.name().clone(),
                reason: source.to_string(),
            }
        })
    }

    fn check(&self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let expected = self.incoming.fields();
        let schema = batch.schema_ref();
        let found = schema.fields();
        let same = expected.len() == found.len()
            && expected.iter().zip(found).all(|(want, have)| {
                want.name() == have.name() && want.data_type().equals_datatype(have.data_type())
            });
        if same {
            return Ok(());
        }
        Err(EncodeError::SchemaMismatch {
            format: self.format,
            expected: describe(&self.incoming),
            found: describe(schema),
        })
    }
}

/// `a Int64, b Utf8`: the columns of a schema for a message.
pub(super) fn describe(schema: &Schema) -> String {
    schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect::<Vec<_>>()
        .join(", ")
}

struct Unsupported {
    path: String,
    data_type: DataType,
}

fn plain_field(field: &Field, accepts: Check) -> Result<FieldRef, Unsupported> {
    let data_type = plain_type(field.data_type(), accepts).map_err(|mut error| {
        error.path = if error.path.is_empty() {
            field.name().clone()
        } else {
            format!("{}.{}", field.name(), error.path)
        };
        error
    })?;
    Ok(Arc::new(Field::new(field.name(), data_type, true)))
}

fn plain_fields(fields: &Fields, accepts: Check) -> Result<Fields, Unsupported> {
    fields.iter().map(|f| plain_field(f, accepts)).collect()
}

fn plain_type(data_type: &DataType, accepts: Check) -> Result<DataType, Unsupported> {
    use DataType as T;
    let plain = match data_type {
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        T::Date32 | T::Date64 => T::Date32,
        T::Timestamp(_, zone) => {
            T::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into()))
        }
        T::Decimal32(p, s) | T::Decimal64(p, s) => T::Decimal128(*p, *s),
        T::Decimal256(p, s) if *p <= DECIMAL128_MAX_PRECISION => T::Decimal128(*p, *s),
        T::Dictionary(_, value) => return plain_type(value, accepts),
        T::RunEndEncoded(_, value) => return plain_type(value.data_type(), accepts),
        T::List(item)
        | T::LargeList(item)
        | T::ListView(item)
        | T::LargeListView(item)
        | T::FixedSizeList(item, _) => T::List(plain_field(item, accepts)?),
        T::Struct(fields) => T::Struct(plain_fields(fields, accepts)?),
        T::Map(entries, sorted) => T::Map(plain_entries(entries, accepts)?, *sorted),
        other => other.clone(),
    };
    if accepts(&plain) {
        Ok(plain)
    } else {
        Err(Unsupported {
            path: String::new(),
            data_type: data_type.clone(),
        })
    }
}

/// Entries of a map: the struct and the key stay not nullable, the value is.
fn plain_entries(entries: &Field, accepts: Check) -> Result<FieldRef, Unsupported> {
    let T::Struct(fields) = entries.data_type() else {
        return Err(Unsupported {
            path: String::new(),
            data_type: entries.data_type().clone(),
        });
    };
    use DataType as T;
    let mut plain: Vec<FieldRef> = Vec::with_capacity(2);
    for (index, field) in fields.iter().enumerate() {
        let field = plain_field(field, accepts)?;
        plain.push(Arc::new(field.as_ref().clone().with_nullable(index != 0)));
    }
    Ok(Arc::new(Field::new(
        entries.name(),
        T::Struct(plain.into()),
        false,
    )))
}
