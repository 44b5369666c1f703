//! Protobuf messages to columns. Each payload is a message of its own, so a bad one costs nothing but itself.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DurationMicrosecondArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, MapKey, MessageDescriptor, ReflectMessage, Value,
};

use super::super::kernel::Codec;
use super::super::payload::{Bad, Mode, Reasons, binary, by_mode};
use super::plan::{Field, Rules, Shape, is_closed};
use super::wire;

const MALFORMED: &str = "MALFORMED_PROTOBUF_MESSAGE";

/// Reads payloads of one message type.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) message: MessageDescriptor,
    pub(super) fields: Vec<Field>,
    pub(super) rules: Rules,
    pub(super) mode: Mode,
    /// Whether payloads have the header of a schema registry.
    pub(super) framed: bool,
}

impl Reader {
    fn message(&self, payload: &[u8]) -> Result<DynamicMessage, Bad> {
        let body = match self.framed {
            true => wire::body(payload, &self.message)?,
            false => payload,
        };
        let message =
            DynamicMessage::decode(self.message.clone(), body).map_err(|e| e.to_string())?;
        sound(&message, 0)?;
        Ok(message)
    }
}

impl Reader {
    /// The messages, and why those that are none are none.
    fn messages(&self, input: &ArrayRef) -> Result<(Vec<Option<DynamicMessage>>, Reasons)> {
        let input = binary(input)?;
        let read = input
            .iter()
            .map(|payload| match payload.map(|p| self.message(p)) {
                None => (None, None),
                Some(Ok(message)) => (Some(message), None),
                Some(Err(why)) => (None, Some(why)),
            });
        Ok(read.unzip())
    }
}

impl Codec for Reader {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        let (messages, reasons) = self.messages(input)?;
        by_mode(self.mode, MALFORMED, "from_protobuf", &reasons)?;
        let messages: Vec<_> = messages.iter().map(Option::as_ref).collect();
        structs(&self.fields, &messages, &self.rules)
    }

    fn reads_payloads(&self) -> bool {
        true
    }

    fn malformed(&self, input: &ArrayRef) -> Result<Reasons> {
        Ok(self.messages(input)?.1)
    }
}

/// Whether a message, however deep, has what its descriptor requires and times that columns can hold.
fn sound(message: &DynamicMessage, depth: usize) -> Result<(), Bad> {
    let descriptor = message.descriptor();
    if let Some(field) = descriptor
        .fields()
        .find(|f| f.is_required() && !message.has_field(f))
    {
        return Err(format!(
            "the required field {} is missing",
            field.full_name()
        ));
    }
    let name = descriptor.full_name();
    if matches!(
        name,
        "google.protobuf.Timestamp" | "google.protobuf.Duration"
    ) && micros(message).is_none()
    {
        return Err(format!("a {name} outside of what microseconds reach"));
    }
    for (_, value) in message.fields() {
        nested(value, depth)?;
    }
    Ok(())
}

fn nested(value: &Value, depth: usize) -> Result<(), Bad> {
    match value {
        Value::Message(message) => sound(message, depth + 1),
        Value::List(items) => items.iter().try_for_each(|v| nested(v, depth)),
        Value::Map(entries) => entries.values().try_for_each(|v| nested(v, depth)),
        _ => Ok(()),
    }
}

/// Seconds (field 1) and nanoseconds (field 2) as microseconds.
fn micros(message: &DynamicMessage) -> Option<i64> {
    let seconds = message.get_field_by_number(1)?.as_i64()?;
    let nanos = message.get_field_by_number(2)?.as_i32()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(i64::from(nanos / 1000))
}

/// One struct for each message, NULL where there is none.
fn structs(
    fields: &[Field],
    messages: &[Option<&DynamicMessage>],
    rules: &Rules,
) -> Result<ArrayRef> {
    let alive: NullBuffer = messages
        .iter()
        .map(Option::is_some)
        .collect::<Vec<_>>()
        .into();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let values: Vec<_> = messages
            .iter()
            .map(|m| value_of((*m)?, field, rules))
            .collect();
        let values: Vec<_> = values.iter().map(Option::as_deref).collect();
        columns.push(column(&field.shape, &values, rules)?);
    }
    let shape = Shape::Struct(fields.to_vec());
    let DataType::Struct(fields) = shape.column(rules) else {
        return internal_err!("a message is no struct");
    };
    let out = StructArray::try_new_with_length(fields, columns, Some(alive), messages.len())?;
    Ok(Arc::new(out))
}

/// The value of a field: what the message has, its default by Spark's rules, or nothing.
fn value_of<'a>(
    message: &'a DynamicMessage,
    field: &Field,
    rules: &Rules,
) -> Option<Cow<'a, Value>> {
    let f = &field.descriptor;
    let has_default = f.field_descriptor_proto().default_value.is_some();
    let given = f.is_list()
        || f.is_map()
        || has_default
        || message.has_field(f)
        || (rules.emit_defaults && !f.supports_presence());
    if !given {
        return None;
    }
    let value = message.get_field(f);
    match (&field.shape, value.as_ref()) {
        // A closed enum's unknown number stands for a field that is not there.
        (Shape::EnumName(e), Value::EnumNumber(n)) if is_closed(e) && e.get_value(*n).is_none() => {
            has_default.then(|| Cow::Owned(f.default_value()))
        }
        _ => Some(value),
    }
}

/// A column of one value for each row.
fn column(shape: &Shape, values: &[Option<&Value>], rules: &Rules) -> Result<ArrayRef> {
    Ok(match shape {
        Shape::Scalar(t) => scalars(t, values)?,
        Shape::EnumName(e) => {
            let name = |v: &Option<&Value>| Some(enum_name(e, v.as_ref()?.as_enum_number()?));
            Arc::new(values.iter().map(name).collect::<StringArray>())
        }
        Shape::EnumNumber => {
            let number = |v: &Option<&Value>| v.as_ref()?.as_enum_number();
            Arc::new(values.iter().map(number).collect::<Int32Array>())
        }
        Shape::Timestamp => {
            let at = values.iter().map(|v| micros(v.as_ref()?.as_message()?));
            let array = at.collect::<TimestampMicrosecondArray>();
            Arc::new(array.with_data_type(shape.column(rules)))
        }
        Shape::Duration => {
            let of = values.iter().map(|v| micros(v.as_ref()?.as_message()?));
            Arc::new(of.collect::<DurationMicrosecondArray>())
        }
        Shape::Json => {
            let json = |v: &Option<&Value>| serde_json::to_string(v.as_ref()?.as_message()?).ok();
            Arc::new(values.iter().map(json).collect::<StringArray>())
        }
        Shape::Unwrapped(field) => {
            // A wrapper that is there has a value, the default one if need be.
            let inner = |v: &Option<&'_ Value>| {
                let message = v.as_ref()?.as_message()?;
                Some(message.get_field(&field.descriptor).into_owned())
            };
            let inner: Vec<_> = values.iter().map(inner).collect();
            let inner: Vec<_> = inner.iter().map(Option::as_ref).collect();
            column(&field.shape, &inner, rules)?
        }
        Shape::Struct(fields) => {
            let messages: Vec<_> = values.iter().map(|v| v.as_ref()?.as_message()).collect();
            structs(fields, &messages, rules)?
        }
        Shape::List(item) => lists(item, values, shape, rules)?,
        Shape::Map(key, value) => maps(key, value, values, shape, rules)?,
    })
}

fn enum_name(e: &EnumDescriptor, number: i32) -> String {
    match e.get_value(number) {
        Some(value) => value.name().to_owned(),
        None => format!("UNKNOWN_ENUM_VALUE_{}_{number}", e.name()),
    }
}

fn scalars(t: &DataType, values: &[Option<&Value>]) -> Result<ArrayRef> {
    let each = || values.iter();
    Ok(match t {
        DataType::Boolean => Arc::new(
            each()
                .map(|v| v.as_ref()?.as_bool())
                .collect::<BooleanArray>(),
        ),
        DataType::Int32 => {
            // An unsigned number keeps its bits, as in Spark.
            let int = |v: &Option<&Value>| match v.as_ref()? {
                Value::U32(v) => Some(*v as i32),
                v => v.as_i32(),
            };
            Arc::new(each().map(int).collect::<Int32Array>())
        }
        DataType::Int64 => {
            let long = |v: &Option<&Value>| match v.as_ref()? {
                Value::U32(v) => Some(i64::from(*v)),
                Value::U64(v) => Some(*v as i64),
                v => v.as_i64(),
            };
            Arc::new(each().map(long).collect::<Int64Array>())
        }
        DataType::Decimal128(p, s) => {
            let unsigned = each().map(|v| v.as_ref()?.as_u64().map(i128::from));
            Arc::new(
                unsigned
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(*p, *s)?,
            )
        }
        DataType::Float32 => Arc::new(
            each()
                .map(|v| v.as_ref()?.as_f32())
                .collect::<Float32Array>(),
        ),
        DataType::Float64 => Arc::new(
            each()
                .map(|v| v.as_ref()?.as_f64())
                .collect::<Float64Array>(),
        ),
        DataType::Utf8 => Arc::new(
            each()
                .map(|v| v.as_ref()?.as_str())
                .collect::<StringArray>(),
        ),
        DataType::Binary => Arc::new(
            each()
                .map(|v| v.as_ref()?.as_bytes())
                .collect::<BinaryArray>(),
        ),
        other => return internal_err!("{other} is no scalar of Protobuf"),
    })
}

fn lists(
    item: &Shape,
    values: &[Option<&Value>],
    shape: &Shape,
    rules: &Rules,
) -> Result<ArrayRef> {
    let known = |v: &&Value| match (item, v) {
        (Shape::EnumName(e), Value::EnumNumber(n)) => !is_closed(e) || e.get_value(*n).is_some(),
        _ => true,
    };
    let lists = values.iter().map(|v| v.as_ref()?.as_list());
    let lists: Vec<Option<Vec<&Value>>> = lists
        .map(|l| l.map(|l| l.iter().filter(known).collect()))
        .collect();
    let items: Vec<_> = lists.iter().flatten().flatten().map(|v| Some(*v)).collect();
    let items = column(item, &items, rules)?;
    let DataType::List(field) = shape.column(rules) else {
        return internal_err!("a repeated field is no array");
    };
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|l| l.as_ref().map_or(0, Vec::len)));
    let alive: NullBuffer = lists.iter().map(Option::is_some).collect::<Vec<_>>().into();
    Ok(Arc::new(ListArray::try_new(
        field,
        offsets,
        items,
        Some(alive),
    )?))
}

/// Maps with their entries in order of their keys: on the wire they have none.
fn maps(
    key: &Shape,
    value: &Shape,
    values: &[Option<&Value>],
    shape: &Shape,
    rules: &Rules,
) -> Result<ArrayRef> {
    let sorted = |v: &Option<&'_ Value>| {
        let mut entries: Vec<(Value, Value)> = vec![];
        let mut found: Vec<_> = v.as_ref()?.as_map()?.iter().collect();
        found.sort_by(|a, b| a.0.cmp(b.0));
        entries.extend(found.into_iter().map(|(k, v)| (key_value(k), v.clone())));
        Some(entries)
    };
    let maps: Vec<_> = values.iter().map(sorted).collect();
    let entries = || maps.iter().flatten().flatten();
    let keys: Vec<_> = entries().map(|(k, _)| Some(k)).collect();
    let items: Vec<_> = entries().map(|(_, v)| Some(v)).collect();
    let columns = vec![column(key, &keys, rules)?, column(value, &items, rules)?];
    let DataType::Map(field, ordered) = shape.column(rules) else {
        return internal_err!("a map field is no map");
    };
    let DataType::Struct(parts) = field.data_type() else {
        return internal_err!("a map field is no map");
    };
    let pairs = StructArray::try_new(parts.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(maps.iter().map(|m| m.as_ref().map_or(0, Vec::len)));
    let alive: NullBuffer = maps.iter().map(Option::is_some).collect::<Vec<_>>().into();
    Ok(Arc::new(MapArray::try_new(
        field,
        offsets,
        pairs,
        Some(alive),
        ordered,
    )?))
}

fn key_value(key: &MapKey) -> Value {
    match key {
        MapKey::Bool(v) => Value::Bool(*v),
        MapKey::I32(v) => Value::I32(*v),
        MapKey::I64(v) => Value::I64(*v),
        MapKey::U32(v) => Value::U32(*v),
        MapKey::U64(v) => Value::U64(*v),
        MapKey::String(v) => Value::String(v.clone()),
    }
}
