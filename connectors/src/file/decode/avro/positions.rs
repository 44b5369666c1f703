//! Columns by their places instead of their names (`positionalFieldMatching`).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields, Schema};

/// The columns `found` in a file under the names that `wanted` has for their places, at every depth. What stands behind those is called
/// as no column is.
pub(super) fn renamed(found: &Schema, wanted: &Schema) -> Schema {
    Schema::new(fields(found.fields(), wanted.fields()))
}

fn fields(found: &Fields, wanted: &Fields) -> Fields {
    let name = |(place, field): (usize, &FieldRef)| match wanted.get(place) {
        Some(wanted) => renamed_field(field, wanted),
        None => Arc::new(field.as_ref().clone().with_name(format!("\0{place}"))),
    };
    found.iter().enumerate().map(name).collect()
}

fn renamed_field(found: &FieldRef, wanted: &FieldRef) -> FieldRef {
    let data_type = renamed_type(found.data_type(), wanted.data_type());
    let field = found.as_ref().clone().with_name(wanted.name());
    Arc::new(field.with_data_type(data_type))
}

fn renamed_type(found: &DataType, wanted: &DataType) -> DataType {
    match (found, wanted) {
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            DataType::Struct(fields(found, wanted))
        }
        (DataType::List(found), DataType::List(wanted)) => {
            DataType::List(renamed_field(found, wanted))
        }
        (DataType::Map(found, sorted), DataType::Map(wanted, _)) => {
            DataType::Map(renamed_field(found, wanted), *sorted)
        }
        _ => found.clone(),
    }
}
