//! From an Arrow type to an empty column that reads it.

use arrow::datatypes::{DataType, FieldRef, Fields};

use super::{
    super::DecodeError,
    column::{BooleanColumn, BytesColumn, Column, ListColumn, MapColumn, NumberColumn},
    object::ObjectColumn,
};

/// What the error for other types lists.
const ALLOWED: &str = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, \
                       TIMESTAMP_NTZ, STRUCT, ARRAY, MAP with STRING keys, VOID, intervals";

/// An empty column for `data_type`; `path` names it in errors.
pub(super) fn column(path: &str, data_type: &DataType) -> Result<Column, DecodeError> {
    Ok(match data_type {
        DataType::Boolean => Column::Boolean(BooleanColumn::new()),
        DataType::Int8 => Column::Int8(NumberColumn::new()),
        DataType::Int16 => Column::Int16(NumberColumn::new()),
        DataType::Int32 => Column::Int32(NumberColumn::new()),
        DataType::Int64 => Column::Int64(NumberColumn::new()),
        DataType::Float32 => Column::Float32(NumberColumn::new()),
        DataType::Float64 => Column::Float64(NumberColumn::new()),
        DataType::Decimal128(precision, scale) => {
            Column::Decimal(NumberColumn::new(), *precision, *scale)
        }
        DataType::Date32 => Column::Date(NumberColumn::new()),
        DataType::Timestamp(_, Some(_)) => Column::Timestamp(NumberColumn::new()),
        DataType::Timestamp(_, None) => Column::TimestampNtz(NumberColumn::new()),
        data_type if is_text(data_type) => Column::Text(BytesColumn::new()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Column::Binary(BytesColumn::new())
        }
        DataType::Struct(fields) => Column::Object(Box::new(object(path, fields, None)?)),
        DataType::List(field) => {
            let element = column(&format!("{path}.element"), field.data_type())?;
            Column::List(Box::new(ListColumn::new(field.clone(), element)))
        }
        DataType::Map(field, sorted) => Column::Map(Box::new(map(path, field, *sorted)?)),
        DataType::Null => Column::Null(0, false),
        DataType::Interval(_) | DataType::Duration(_) => Column::Null(0, true),
        other => return Err(unsupported(path, other)),
    })
}

/// The columns of a struct. `hidden` is the index of the corrupt-record column.
pub(super) fn object(
    path: &str,
    fields: &Fields,
    hidden: Option<usize>,
) -> Result<ObjectColumn, DecodeError> {
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}.")
    };
    let columns: Result<Vec<Column>, DecodeError> = fields
        .iter()
        .map(|field| column(&format!("{prefix}{}", field.name()), field.data_type()))
        .collect();
    Ok(ObjectColumn::new(fields.clone(), columns?, hidden))
}

fn map(path: &str, field: &FieldRef, sorted: bool) -> Result<MapColumn, DecodeError> {
    match field.data_type() {
        DataType::Struct(fields) if fields.len() == 2 && is_text(fields[0].data_type()) => {
            let values = column(&format!("{path}.value"), fields[1].data_type())?;
            Ok(MapColumn::new(field.clone(), sorted, values))
        }
        other => Err(unsupported(path, other)),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn unsupported(path: &str, data_type: &DataType) -> DecodeError {
    DecodeError::UnsupportedType {
        column: path.to_owned(),
        format: "json",
        data_type: data_type.to_string(),
        allowed: ALLOWED,
    }
}
