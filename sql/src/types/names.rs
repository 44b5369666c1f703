//! Arrow types and schemas in Spark's words.
//!
//! Two forms exist because Spark has two: [`type_name`] is for people and for comparing (field
//! names as they are), [`schema_ddl`] is text that [`parse_schema`](super::parse_schema) reads
//! back to the same schema (names quoted where needed, `NOT NULL`, `COMMENT`).

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit};

use super::{COMMENT_KEY, INTERVAL_FIELDS_KEY};

/// The name of a type in Spark's upper-case form: `BIGINT`, `DECIMAL(10,2)`, `ARRAY<STRING>`,
/// `MAP<STRING, INT>`, `STRUCT<name: TYPE, ...>`.
///
/// Arrow types that are other layouts of one Spark type share its name (`Utf8View` is `STRING`).
/// Unsigned integers, which Spark lacks, get the smallest Spark type that holds them, as when
/// Spark reads them from Parquet. A type Spark has no word for keeps Arrow's own, in upper case.
///
/// An interval of fewer fields than its Arrow type holds (`INTERVAL DAY`) is known by its field's
/// metadata: ask [`field_type_name`] for the type of a column.
pub fn type_name(data_type: &DataType) -> String {
    named(data_type, &colon_field)
}

/// The name of a column's type, like [`type_name`], also telling which fields an interval names.
pub fn field_type_name(field: &Field) -> String {
    field_named(field, &colon_field)
}

fn colon_field(field: &Field) -> String {
    format!("{}: {}", field.name(), field_type_name(field))
}

/// The schema as a list of columns that [`parse_schema`](super::parse_schema) reads back.
///
/// What the text has no word for is lost: whether array elements and map values may be null, field
/// metadata other than the comment, and which of several Arrow layouts a type had.
pub fn schema_ddl(schema: &Schema) -> String {
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| field_ddl(field, " "))
        .collect();
    columns.join(", ")
}

fn field_ddl(field: &Field, separator: &str) -> String {
    let mut text = quoted_if_needed(field.name());
    text.push_str(separator);
    text.push_str(&field_named(field, &|inner| field_ddl(inner, ": ")));
    if !field.is_nullable() {
        text.push_str(" NOT NULL");
    }
    if let Some(comment) = field.metadata().get(COMMENT_KEY) {
        let escaped = comment.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!(" COMMENT '{escaped}'"));
    }
    text
}

fn quoted_if_needed(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.is_empty()
        && !name.bytes().all(|b| b.is_ascii_digit());
    if plain {
        return name.to_owned();
    }
    format!("`{}`", name.replace('`', "``"))
}

/// The name of a field's type. The fields an interval names count only while the type is an interval.
fn field_named(field: &Field, write: &dyn Fn(&Field) -> String) -> String {
    match (field.data_type(), field.metadata().get(INTERVAL_FIELDS_KEY)) {
        (DataType::Duration(_) | DataType::Interval(_), Some(fields)) => {
            format!("INTERVAL {fields}")
        }
        (data_type, _) => named(data_type, write),
    }
}

/// The name of a type, with struct fields written by `field`, which is all the two forms differ in.
fn named(data_type: &DataType, field: &dyn Fn(&Field) -> String) -> String {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => {
            format!("ARRAY<{}>", field_named(element, field))
        }
        DataType::Map(entries, _) => map_name(entries, field),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|inner| field(inner)).collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
        DataType::Dictionary(_, values) => named(values, field),
        DataType::RunEndEncoded(_, values) => field_named(values, field),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision},{scale})"),
        other => match scalar_name(other) {
            Some(name) => name.to_owned(),
            None => other.to_string().to_uppercase(),
        },
    }
}

fn map_name(entries: &FieldRef, field: &dyn Fn(&Field) -> String) -> String {
    let (key, value) = match entries.data_type() {
        DataType::Struct(fields) => key_and_value(fields),
        _ => None,
    }
    .expect("invariant: the entries of an Arrow map are a struct of key and value");
    let (key, value) = (field_named(key, field), field_named(value, field));
    format!("MAP<{key}, {value}>")
}

fn key_and_value(fields: &Fields) -> Option<(&FieldRef, &FieldRef)> {
    match fields.as_ref() {
        [key, value] => Some((key, value)),
        _ => None,
    }
}

fn scalar_name(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Null => "VOID",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 | DataType::UInt8 => "SMALLINT",
        DataType::Int32 | DataType::UInt16 => "INT",
        DataType::Int64 | DataType::UInt32 => "BIGINT",
        DataType::UInt64 => "DECIMAL(20,0)",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BINARY",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        DataType::Duration(_) | DataType::Interval(IntervalUnit::DayTime) => {
            "INTERVAL DAY TO SECOND"
        }
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH",
        DataType::Interval(IntervalUnit::MonthDayNano) => "INTERVAL",
        DataType::Time32(TimeUnit::Second) => "TIME(0)",
        DataType::Time32(_) => "TIME(3)",
        DataType::Time64(_) => "TIME(6)",
        _ => return None,
    })
}
