//! Default values of Avro schemas: JSON to an array of one value.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    TimestampMicrosecondArray, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use serde_json::Value;

use super::convert::{big_endian, wrapped};
use super::resolve::{branch_into, one_null, resolve};
use super::schema::{Long, Shape, Unit};
use super::types::{Naming, column_type};

/// The value that `json` is of the type `shape`, in the column type that `shape` becomes.
///
/// # Errors
/// JSON that is no such value.
pub(super) fn default_value(
    json: &Value,
    shape: &Shape,
    naming: &Naming,
) -> Result<ArrayRef, String> {
    let wrong = || format!("the default {json} is no {}", shape.shown());
    let t = column_type(shape, naming);
    Ok(match (shape, json) {
        (Shape::Null, Value::Null) => one_null(shape, naming)?,
        (Shape::Boolean, Value::Bool(b)) => Arc::new(BooleanArray::from(vec![*b])),
        (Shape::Int, _) => Arc::new(Int32Array::from(vec![int(json).ok_or_else(wrong)?])),
        (Shape::Date, _) => Arc::new(Date32Array::from(vec![int(json).ok_or_else(wrong)?])),
        (Shape::Long(long), _) => {
            long_value(*long, json.as_i64().ok_or_else(wrong)?, &t).ok_or_else(wrong)?
        }
        (Shape::Float, _) => Arc::new(Float32Array::from(vec![
            json.as_f64().ok_or_else(wrong)? as f32
        ])),
        (Shape::Double, _) => Arc::new(Float64Array::from(vec![json.as_f64().ok_or_else(wrong)?])),
        (Shape::Bytes, _) => Arc::new(BinaryArray::from(vec![
            bytes(json).ok_or_else(wrong)?.as_slice(),
        ])),
        (Shape::Fixed(_, size), _) => {
            let bytes = bytes(json).filter(|b| b.len() == *size).ok_or_else(wrong)?;
            Arc::new(BinaryArray::from(vec![bytes.as_slice()]))
        }
        (Shape::Decimal(p, s, _), _) => {
            let value = bytes(json).and_then(|b| big_endian(&b)).ok_or_else(wrong)?;
            let array = Decimal128Array::from(vec![value]).with_precision_and_scale(*p, *s);
            Arc::new(array.map_err(|e| e.to_string())?)
        }
        (Shape::Text, Value::String(text)) => Arc::new(StringArray::from(vec![text.as_str()])),
        (Shape::Enum(e), Value::String(text)) if e.symbols.contains(text) => {
            Arc::new(StringArray::from(vec![text.as_str()]))
        }
        (Shape::Array(items), Value::Array(values)) => list(&t, items, values, naming)?,
        (Shape::Map(values), Value::Object(entries)) => map(&t, values, entries, naming)?,
        (Shape::Record(_, fields), Value::Object(object)) => {
            let column = |f: &super::schema::Field| match object.get(&f.name).or(f.default.as_ref())
            {
                Some(json) => default_value(json, &f.shape, naming),
                None => Err(format!("the default {json} has no field {}", f.name)),
            };
            let columns = fields.iter().map(column).collect::<Result<Vec<_>, _>>()?;
            structure(&t, columns)?
        }
        (Shape::Union(branches), _) => union(json, branches, shape, naming).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    })
}

fn int(json: &Value) -> Option<i32> {
    json.as_i64()?.try_into().ok()
}

/// Bytes as JSON writes them: one letter up to U+00FF for each.
fn bytes(json: &Value) -> Option<Vec<u8>> {
    json.as_str()?
        .chars()
        .map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

fn long_value(long: Long, value: i64, t: &DataType) -> Option<ArrayRef> {
    let micros = match long {
        Long::Plain => return Some(Arc::new(Int64Array::from(vec![value]))),
        Long::Timestamp(Unit::Millis) | Long::Local(Unit::Millis) => value.checked_mul(1000)?,
        Long::Timestamp(Unit::Micros) | Long::Local(Unit::Micros) => value,
    };
    let array = TimestampMicrosecondArray::from(vec![micros]);
    Some(Arc::new(array.with_data_type(t.clone())))
}

/// Values of one type behind each other.
fn column(values: Vec<ArrayRef>, shape: &Shape, naming: &Naming) -> Result<ArrayRef, String> {
    let parts: Vec<_> = values.iter().map(AsRef::as_ref).collect();
    if parts.is_empty() {
        return Ok(new_empty_array(&column_type(shape, naming)));
    }
    concat(&parts).map_err(|e| e.to_string())
}

fn list(
    t: &DataType,
    items: &Shape,
    values: &[Value],
    naming: &Naming,
) -> Result<ArrayRef, String> {
    let DataType::List(field) = t else {
        return Err(format!("{t} is no array"));
    };
    let parts = values.iter().map(|v| default_value(v, items, naming));
    let values = column(parts.collect::<Result<_, _>>()?, items, naming)?;
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    let array = ListArray::try_new(Arc::clone(field), offsets, values, None);
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

fn map(
    t: &DataType,
    values: &Shape,
    entries: &serde_json::Map<String, Value>,
    naming: &Naming,
) -> Result<ArrayRef, String> {
    let DataType::Map(field, ordered) = t else {
        return Err(format!("{t} is no map"));
    };
    let keys: ArrayRef = Arc::new(entries.keys().map(Some).collect::<StringArray>());
    let parts = entries.values().map(|v| default_value(v, values, naming));
    let values = column(parts.collect::<Result<_, _>>()?, values, naming)?;
    let offsets = OffsetBuffer::from_lengths([entries.len()]);
    let DataType::Struct(parts) = field.data_type() else {
        return Err(format!("{t} is no map"));
    };
    let pairs = StructArray::try_new(parts.clone(), vec![keys, values], None);
    let pairs = pairs.map_err(|e| e.to_string())?;
    let array = MapArray::try_new(Arc::clone(field), offsets, pairs, None, *ordered);
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

fn structure(t: &DataType, columns: Vec<ArrayRef>) -> Result<ArrayRef, String> {
    let DataType::Struct(fields) = t else {
        return Err(format!("{t} is no struct"));
    };
    let array = StructArray::try_new_with_length(fields.clone(), columns, None, 1);
    Ok(Arc::new(array.map_err(|e| e.to_string())?))
}

/// The first branch that the default is a value of.
fn union(
    json: &Value,
    branches: &[Arc<Shape>],
    shape: &Shape,
    naming: &Naming,
) -> Option<ArrayRef> {
    (0..branches.len()).find_map(|at| {
        let value = default_value(json, &branches[at], naming).ok()?;
        let own = resolve(&branches[at], &branches[at], naming).ok()?;
        let step = branch_into(own, at, branches, shape, naming).ok()?;
        wrapped(&step, value).ok()
    })
}
