//! What a message's fields become: Spark's types for Protobuf's, decided once from the descriptor.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};

use super::super::coerce::{day_time, timestamp};

/// How many types a message may have when every nested one is written out.
const MAX_TYPES: usize = 20_000;

/// How messages are read and what their columns look like; Spark's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// How often a type may stand within itself; 0 or less: not at all.
    pub(super) max_depth: i64,
    /// Absent fields that cannot tell absence from their default are the default instead of NULL.
    pub(super) emit_defaults: bool,
    /// Enums are numbers instead of names.
    pub(super) enums_as_ints: bool,
    /// Unsigned numbers get a type that holds them all.
    pub(super) upcast_unsigned: bool,
    /// `google.protobuf.StringValue` and its kin are their value.
    pub(super) unwrap_wrappers: bool,
    /// `google.protobuf.Any` is JSON text.
    pub(super) any_as_json: bool,
    /// Every field may be NULL, as bad payloads need it.
    pub(super) all_nullable: bool,
}

/// One field of a message that becomes a column.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The field itself.
    pub(super) descriptor: FieldDescriptor,
    /// What its values become.
    pub(super) shape: Shape,
    /// Whether the column may be NULL.
    pub(super) nullable: bool,
}

/// What a value becomes.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY or DECIMAL(20,0).
    Scalar(DataType),
    /// The name of an enum's value.
    EnumName(EnumDescriptor),
    /// The number of an enum's value.
    EnumNumber,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Any` as JSON.
    Json,
    /// The value inside a wrapper message.
    Unwrapped(Box<Field>),
    /// Any other message.
    Struct(Vec<Field>),
    /// A repeated field.
    List(Box<Shape>),
    /// A map field: keys and values.
    Map(Box<Shape>, Box<Shape>),
}

impl Shape {
    /// The column type.
    pub(super) fn column(&self, rules: &Rules) -> DataType {
        match self {
            Shape::Scalar(t) => t.clone(),
            Shape::EnumName(_) | Shape::Json => DataType::Utf8,
            Shape::EnumNumber => DataType::Int32,
            Shape::Timestamp => timestamp(),
            Shape::Duration => day_time(),
            Shape::Unwrapped(field) => field.shape.column(rules),
            Shape::Struct(fields) => {
                let column = |f: &Field| {
                    let nullable = f.nullable || rules.all_nullable;
                    ArrowField::new(f.descriptor.name(), f.shape.column(rules), nullable)
                };
                DataType::Struct(fields.iter().map(column).collect())
            }
            Shape::List(item) => {
                let item = ArrowField::new_list_field(item.column(rules), rules.all_nullable);
                DataType::List(Arc::new(item))
            }
            Shape::Map(key, value) => {
                let key = ArrowField::new("key", key.column(rules), false);
                let value = ArrowField::new("value", value.column(rules), rules.all_nullable);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false)
            }
        }
    }
}

/// The columns of a message.
///
/// # Errors
/// A message that contains itself more often than the rules allow, or too many types.
pub(super) fn columns(message: &MessageDescriptor, rules: &Rules) -> Result<Vec<Field>, String> {
    let mut planner = Planner {
        rules,
        depths: HashMap::from([(message.full_name().to_owned(), 1)]),
        types: 0,
    };
    planner.fields(message)
}

struct Planner<'a> {
    rules: &'a Rules,
    /// How often each message stands in the path to here.
    depths: HashMap<String, i64>,
    types: usize,
}

impl Planner<'_> {
    fn fields(&mut self, message: &MessageDescriptor) -> Result<Vec<Field>, String> {
        let mut fields: Vec<FieldDescriptor> = message.fields().collect();
        // In the order of the file, which is that of the columns.
        let place = |f: &FieldDescriptor| f.path().last().copied().unwrap_or_default();
        fields.sort_by_key(place);
        let mut columns = Vec::with_capacity(fields.len());
        for descriptor in fields {
            self.types += 1;
            if self.types > MAX_TYPES {
                return Err(format!("more than {MAX_TYPES} types"));
            }
            if let Some(shape) = self.field(&descriptor)? {
                let nullable =
                    !descriptor.is_required() && !descriptor.is_list() && !descriptor.is_map();
                columns.push(Field {
                    descriptor,
                    shape,
                    nullable,
                });
            }
        }
        Ok(columns)
    }

    /// `None` for a field that is left out: too deep within itself, or a message without fields.
    fn field(&mut self, field: &FieldDescriptor) -> Result<Option<Shape>, String> {
        if field.is_map()
            && let Kind::Message(entry) = field.kind()
        {
            let key = self.single(&entry.map_entry_key_field())?;
            let value = self.single(&entry.map_entry_value_field())?;
            return Ok(key
                .zip(value)
                .map(|(k, v)| Shape::Map(Box::new(k), Box::new(v))));
        }
        let shape = self.single(field)?;
        Ok(match field.is_list() {
            true => shape.map(|shape| Shape::List(Box::new(shape))),
            false => shape,
        })
    }

    fn single(&mut self, field: &FieldDescriptor) -> Result<Option<Shape>, String> {
        Ok(Some(match field.kind() {
            Kind::Message(message) => return self.message(&message),
            Kind::Enum(_) if self.rules.enums_as_ints => Shape::EnumNumber,
            Kind::Enum(e) => Shape::EnumName(e),
            Kind::Uint32 | Kind::Fixed32 if self.rules.upcast_unsigned => {
                Shape::Scalar(DataType::Int64)
            }
            Kind::Uint64 | Kind::Fixed64 if self.rules.upcast_unsigned => {
                Shape::Scalar(DataType::Decimal128(20, 0))
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => {
                Shape::Scalar(DataType::Int32)
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
                Shape::Scalar(DataType::Int64)
            }
            Kind::Double => Shape::Scalar(DataType::Float64),
            Kind::Float => Shape::Scalar(DataType::Float32),
            Kind::Bool => Shape::Scalar(DataType::Boolean),
            Kind::String => Shape::Scalar(DataType::Utf8),
            Kind::Bytes => Shape::Scalar(DataType::Binary),
        }))
    }

    fn message(&mut self, message: &MessageDescriptor) -> Result<Option<Shape>, String> {
        let name = message.full_name();
        match name {
            "google.protobuf.Timestamp" => return Ok(Some(Shape::Timestamp)),
            "google.protobuf.Duration" => return Ok(Some(Shape::Duration)),
            "google.protobuf.Any" if self.rules.any_as_json => return Ok(Some(Shape::Json)),
            _ if self.rules.unwrap_wrappers && is_wrapper(name) => {
                let inner = self.fields(message)?.into_iter().next();
                return Ok(inner.map(|field| Shape::Unwrapped(Box::new(field))));
            }
            _ => {}
        }
        let depth = self.depths.get(name).copied().unwrap_or(0);
        if depth > 0 {
            if !(1..=10).contains(&self.rules.max_depth) {
                return Err(format!(
                    "message {name} contains itself; the option 'recursive.fields.max.depth' from 1 to 10 says how often"
                ));
            }
            if depth >= self.rules.max_depth {
                return Ok(None);
            }
        }
        self.depths.insert(name.to_owned(), depth + 1);
        let fields = self.fields(message)?;
        self.depths.insert(name.to_owned(), depth);
        Ok((!fields.is_empty()).then_some(Shape::Struct(fields)))
    }
}

fn is_wrapper(name: &str) -> bool {
    let kinds = [
        "Bool", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "String", "Bytes",
    ];
    let kind = name
        .strip_prefix("google.protobuf.")
        .and_then(|n| n.strip_suffix("Value"));
    kind.is_some_and(|kind| kinds.contains(&kind))
}

/// Whether an enum's values are only those it names (proto2), so that another number means an absent field.
pub(super) fn is_closed(e: &EnumDescriptor) -> bool {
    e.parent_file().syntax() == Syntax::Proto2
}
