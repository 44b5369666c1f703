//! Columns to Protobuf messages, straight from the arrays: fields in order of their numbers, map entries in the order of the
//! column, so that the same row gives the same bytes each time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder};
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Fields, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::super::coerce::is_integer;
use super::super::error::SparkError;
use super::super::kernel::Codec;
use crate::types::type_name;

/// How deep messages may nest.
const MAX_DEPTH: usize = 100;

/// Writes structs as messages.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) plan: Message,
}

impl Codec for Writer {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        let mut out = BinaryBuilder::new();
        let mut message = Vec::new();
        for row in 0..input.len() {
            if input.is_null(row) {
                out.append_null();
                continue;
            }
            message.clear();
            self.plan.write(input, row, &mut message).map_err(|why| {
                let message = format!("to_protobuf: row {row} of the batch (from 0): {why}");
                SparkError::external("PROTOBUF_CANNOT_WRITE", message)
            })?;
            out.append_value(&message);
        }
        Ok(Arc::new(out.finish()))
    }
}

/// How a struct is written as a message.
#[derive(Debug)]
pub(super) struct Message {
    /// In order of their numbers.
    fields: Vec<Field>,
    /// Fields of which one may have a value: positions in `fields`.
    one_of: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Field {
    name: String,
    number: u32,
    /// Which column.
    at: usize,
    required: bool,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// One value; `true` if its default is not written.
    One(Item, bool),
    /// Many; `true` if they stand together in one run of bytes.
    Many(Item, bool),
    /// Entries of key and value.
    Map(Item, Item),
}

#[derive(Debug)]
enum Item {
    Scalar(Kind),
    Enum(EnumDescriptor),
    Message(Message),
    /// Seconds and nanoseconds.
    Time,
}

impl Message {
    /// A plan to write structs of `columns`.
    ///
    /// # Errors
    /// A column without a field, a required field without a column, types that do not go together.
    pub(super) fn new(
        message: &MessageDescriptor,
        columns: &Fields,
        path: &str,
        depth: usize,
    ) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err(format!("messages nest deeper than {MAX_DEPTH}"));
        }
        let mut fields: Vec<Field> = vec![];
        let mut one_of: Vec<(String, Vec<u32>)> = vec![];
        for (at, column) in columns.iter().enumerate() {
            let descriptor = field_of(message, column.name()).ok_or_else(|| {
                format!(
                    "message {} has no field for {} of {path}",
                    message.full_name(),
                    column.name()
                )
            })?;
            if fields.iter().any(|f| f.number == descriptor.number()) {
                return Err(format!(
                    "two columns of {path} are for field {}",
                    descriptor.name()
                ));
            }
            if let Some(group) = descriptor.containing_oneof() {
                let name = group.full_name().to_owned();
                match one_of.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, numbers)) => numbers.push(descriptor.number()),
                    None => one_of.push((name, vec![descriptor.number()])),
                }
            }
            fields.push(Field {
                name: descriptor.name().to_owned(),
                number: descriptor.number(),
                at,
                required: descriptor.is_required(),
                form: form(&descriptor, column.data_type(), depth)?,
            });
        }
        let missing = message
            .fields()
            .find(|d| d.is_required() && !fields.iter().any(|f| f.number == d.number()));
        if let Some(missing) = missing {
            return Err(format!(
                "{path} has no column for the required field {}",
                missing.full_name()
            ));
        }
        fields.sort_by_key(|f| f.number);
        let position = |number: &u32| fields.iter().position(|f| f.number == *number);
        let one_of = one_of.iter().filter(|(_, numbers)| numbers.len() > 1);
        let one_of = one_of
            .map(|(_, numbers)| numbers.iter().filter_map(position).collect())
            .collect();
        Ok(Self { fields, one_of })
    }

    fn write(&self, array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let columns = array.as_struct().columns();
        for group in &self.one_of {
            let given = group
                .iter()
                .map(|i| &self.fields[*i])
                .filter(|f| columns[f.at].is_valid(row));
            let given: Vec<_> = given.map(|f| f.name.as_str()).collect();
            if given.len() > 1 {
                return Err(format!(
                    "only one of the fields {} may have a value",
                    given.join(", ")
                ));
            }
        }
        for field in &self.fields {
            let column = &columns[field.at];
            if column.is_null(row) {
                if field.required {
                    return Err(format!("the required field {} is NULL", field.name));
                }
                continue;
            }
            field
                .write(column, row, out)
                .map_err(|why| format!("field {}: {why}", field.name))?;
        }
        Ok(())
    }
}

/// The field of a name, else the one of it in another letter case.
fn field_of(message: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    let mut same = message
        .fields()
        .filter(|f| f.name().eq_ignore_ascii_case(name));
    message
        .get_field_by_name(name)
        .or_else(|| same.next().filter(|_| same.next().is_none()))
}

fn form(field: &FieldDescriptor, t: &DataType, depth: usize) -> Result<Form, String> {
    let wrong = || {
        format!(
            "field {} is {:?}, {} cannot be written as it",
            field.full_name(),
            field.kind(),
            type_name(t)
        )
    };
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let (key, value) = super::super::coerce::map_types(t).ok_or_else(wrong)?;
        let key = item(&entry.map_entry_key_field(), &key, depth)?;
        let value = item(&entry.map_entry_value_field(), &value, depth)?;
        return Ok(Form::Map(key, value));
    }
    if field.is_list() {
        let DataType::List(element) = t else {
            return Err(wrong());
        };
        return Ok(Form::Many(
            item(field, element.data_type(), depth)?,
            field.is_packed(),
        ));
    }
    Ok(Form::One(
        item(field, t, depth)?,
        !field.supports_presence(),
    ))
}

fn item(field: &FieldDescriptor, t: &DataType, depth: usize) -> Result<Item, String> {
    use DataType as T;
    let kind = field.kind();
    let whole = is_integer(t) || matches!(t, T::Decimal128(_, 0));
    let fits = match (&kind, t) {
        (Kind::Message(m), T::Timestamp(_, _)) if m.full_name() == "google.protobuf.Timestamp" => {
            return Ok(Item::Time);
        }
        (Kind::Message(m), T::Duration(_)) if m.full_name() == "google.protobuf.Duration" => {
            return Ok(Item::Time);
        }
        (Kind::Message(m), T::Struct(columns)) => {
            return Ok(Item::Message(Message::new(
                m,
                columns,
                field.name(),
                depth + 1,
            )?));
        }
        (Kind::Enum(e), T::Utf8 | T::Int32) => return Ok(Item::Enum(e.clone())),
        (Kind::Double, T::Float64) | (Kind::Float, T::Float32) => true,
        (Kind::Bool, T::Boolean) | (Kind::String, T::Utf8) | (Kind::Bytes, T::Binary) => true,
        (Kind::Double | Kind::Float | Kind::Bool | Kind::String | Kind::Bytes, _) => false,
        (Kind::Message(_) | Kind::Enum(_), _) => false,
        _ => whole,
    };
    match fits {
        true => Ok(Item::Scalar(kind)),
        false => Err(format!(
            "field {} is {kind:?}, {} cannot be written as it",
            field.full_name(),
            type_name(t)
        )),
    }
}

impl Field {
    fn write(&self, column: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        match &self.form {
            Form::One(item, implicit) => {
                let mut value = vec![];
                item.write(column, row, &mut value)?;
                // What a default looks like depends on the kind only by its length and bytes.
                if *implicit && item.is_default(&value) {
                    return Ok(());
                }
                put(self.number, item.wire(), &value, out);
            }
            Form::Many(item, packed) => {
                let values = column.as_list::<i32>().value(row);
                if let Some(at) = (0..values.len()).find(|i| values.is_null(*i)) {
                    return Err(format!("element {at} is NULL"));
                }
                if *packed && !values.is_empty() {
                    let mut run = vec![];
                    (0..values.len()).try_for_each(|i| item.write(&values, i, &mut run))?;
                    put(self.number, WireType::LengthDelimited, &run, out);
                    return Ok(());
                }
                for i in 0..values.len() {
                    let mut value = vec![];
                    item.write(&values, i, &mut value)?;
                    put(self.number, item.wire(), &value, out);
                }
            }
            Form::Map(key, value) => {
                let entries = column.as_map().value(row);
                let (keys, values) = (entries.column(0), entries.column(1));
                for i in 0..entries.len() {
                    if values.is_null(i) {
                        return Err("a value of the map is NULL".into());
                    }
                    let mut entry = vec![];
                    for (number, item, array) in [(1, key, keys), (2, value, values)] {
                        let mut bytes = vec![];
                        item.write(array, i, &mut bytes)?;
                        put(number, item.wire(), &bytes, &mut entry);
                    }
                    put(self.number, WireType::LengthDelimited, &entry, out);
                }
            }
        }
        Ok(())
    }
}

/// A field: its key, its length if the wire type wants one, its bytes.
fn put(number: u32, wire: WireType, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, wire, out);
    if wire == WireType::LengthDelimited {
        encode_varint(bytes.len() as u64, out);
    }
    out.extend_from_slice(bytes);
}

impl Item {
    fn wire(&self) -> WireType {
        match self {
            Item::Scalar(kind) => kind.wire_type(),
            Item::Enum(_) => WireType::Varint,
            Item::Message(_) | Item::Time => WireType::LengthDelimited,
        }
    }

    /// Whether `value` is the default that fields without presence leave out.
    fn is_default(&self, value: &[u8]) -> bool {
        match self {
            Item::Message(_) | Item::Time => false,
            // Zero in each encoding, or nothing.
            _ => match self.wire() {
                WireType::LengthDelimited => value.is_empty(),
                _ => value.iter().all(|b| *b == 0),
            },
        }
    }

    /// The value without key and length.
    fn write(&self, array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Item::Message(message) => return message.write(array, row, out),
            Item::Enum(e) => encode_varint(enum_number(e, array, row)? as i64 as u64, out),
            Item::Time => {
                let micros = match array.data_type() {
                    DataType::Duration(_) => {
                        array.as_primitive::<DurationMicrosecondType>().value(row)
                    }
                    _ => array.as_primitive::<TimestampMicrosecondType>().value(row),
                };
                time(
                    micros,
                    matches!(array.data_type(), DataType::Duration(_)),
                    out,
                );
            }
            Item::Scalar(Kind::Bool) => out.push(u8::from(array.as_boolean().value(row))),
            Item::Scalar(Kind::String) => {
                out.extend_from_slice(array.as_string::<i32>().value(row).as_bytes())
            }
            Item::Scalar(Kind::Bytes) => out.extend_from_slice(array.as_binary::<i32>().value(row)),
            Item::Scalar(Kind::Float) => {
                out.extend_from_slice(
                    &array.as_primitive::<Float32Type>().value(row).to_le_bytes(),
                );
            }
            Item::Scalar(Kind::Double) => {
                out.extend_from_slice(
                    &array.as_primitive::<Float64Type>().value(row).to_le_bytes(),
                );
            }
            Item::Scalar(kind) => number(kind, array, row, out)?,
        }
        Ok(())
    }
}

fn enum_number(e: &EnumDescriptor, array: &ArrayRef, row: usize) -> Result<i32, String> {
    let names = || {
        e.values()
            .map(|v| v.name().to_owned())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if *array.data_type() == DataType::Int32 {
        let number = array.as_primitive::<Int32Type>().value(row);
        let known = !super::plan::is_closed(e) || e.get_value(number).is_some();
        return known
            .then_some(number)
            .ok_or_else(|| format!("{number} is none of {}", names()));
    }
    let name = array.as_string::<i32>().value(row);
    let value = e.get_value_by_name(name);
    Ok(value
        .ok_or_else(|| format!("'{name}' is none of {}", names()))?
        .number())
}

/// Microseconds as a message of seconds and nanoseconds; those of a duration have its sign, those of a timestamp none.
fn time(micros: i64, signed: bool, out: &mut Vec<u8>) {
    let (seconds, rest) = match signed {
        true => (micros / 1_000_000, micros % 1_000_000),
        false => (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)),
    };
    for (number, value) in [(1, seconds), (2, rest * 1000)] {
        if value != 0 {
            encode_key(number, WireType::Varint, out);
            encode_varint(value as u64, out);
        }
    }
}

/// A whole number as `kind`. A signed number of the kind's width keeps its bits as an unsigned one, as reading makes them.
fn number(kind: &Kind, array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let t = array.data_type();
    let value = match t {
        DataType::Int8 => i128::from(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => i128::from(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => i128::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => i128::from(array.as_primitive::<Int64Type>().value(row)),
        _ => array.as_primitive::<Decimal128Type>().value(row),
    };
    let outside = || format!("{value} is outside of {kind:?}");
    let small = |v: i128| i32::try_from(v).map_err(|_| outside());
    let large = |v: i128| i64::try_from(v).map_err(|_| outside());
    match kind {
        Kind::Int32 => encode_varint(i64::from(small(value)?) as u64, out),
        Kind::Sint32 => {
            let v = small(value)?;
            encode_varint(u64::from(((v << 1) ^ (v >> 31)) as u32), out);
        }
        Kind::Sfixed32 => out.extend_from_slice(&small(value)?.to_le_bytes()),
        Kind::Int64 => encode_varint(large(value)? as u64, out),
        Kind::Sint64 => {
            let v = large(value)?;
            encode_varint(((v << 1) ^ (v >> 63)) as u64, out);
        }
        Kind::Sfixed64 => out.extend_from_slice(&large(value)?.to_le_bytes()),
        Kind::Uint32 | Kind::Fixed32 => {
            let v = match t {
                DataType::Int32 => small(value)? as u32,
                _ => u32::try_from(value).map_err(|_| outside())?,
            };
            match kind {
                Kind::Uint32 => encode_varint(u64::from(v), out),
                _ => out.extend_from_slice(&v.to_le_bytes()),
            }
        }
        _ => {
            let v = match t {
                DataType::Int64 => large(value)? as u64,
                _ => u64::try_from(value).map_err(|_| outside())?,
            };
            match kind {
                Kind::Uint64 => encode_varint(v, out),
                _ => out.extend_from_slice(&v.to_le_bytes()),
            }
        }
    }
    Ok(())
}
