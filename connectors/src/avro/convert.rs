//! From the arrays that the Avro library makes of a writer's schema to columns of Spark's types in the reader's.
//!
//! Rows have been [checked](super::check) before, so nothing here can fail because of a row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, ListArray, MapArray, StringArray, StructArray,
    UInt32Array, new_null_array,
};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Date32Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::{Result, internal_err};

use super::resolve::{Branches, Origin, Scalar, Step};

/// The column that `step` makes of the library's `array`.
pub(super) fn convert(step: &Step, array: &ArrayRef) -> Result<ArrayRef> {
    match step {
        Step::Null(t) => Ok(new_null_array(t, array.len())),
        Step::Scalar(kind, t) => scalar(*kind, t, array),
        Step::Enum(names) => {
            let keys = array.as_dictionary::<Int32Type>().keys();
            let name = |key: Option<i32>| names.get(usize::try_from(key?).ok()?)?.as_deref();
            Ok(Arc::new(keys.iter().map(name).collect::<StringArray>()))
        }
        Step::Array(items, t) => list(items, t, array),
        Step::Map(values, t) => map(values, t, array),
        Step::Record(fields, origins, t) => record(fields, origins, t, array),
        Step::Union(branches, t) => union(branches, t, array),
        Step::Member(inner, _, _) | Step::Wider(inner, _) => wrapped(step, convert(inner, array)?),
    }
}

/// A value as the union's column that the outermost part of `step` makes of it.
pub(super) fn wrapped(step: &Step, value: ArrayRef) -> Result<ArrayRef> {
    match step {
        Step::Null(t) => Ok(new_null_array(t, value.len())),
        Step::Wider(_, t) => Ok(cast(&value, t)?),
        Step::Member(_, at, DataType::Struct(fields)) => {
            let nulls = value.logical_nulls();
            let rows = value.len();
            let column = |(i, f): (usize, &arrow::datatypes::FieldRef)| {
                if i == *at {
                    Arc::clone(&value)
                } else {
                    new_null_array(f.data_type(), rows)
                }
            };
            let columns = fields.iter().enumerate().map(column).collect();
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                columns,
                nulls,
            )?))
        }
        _ => Ok(value),
    }
}

fn scalar(kind: Scalar, t: &DataType, array: &ArrayRef) -> Result<ArrayRef> {
    match (kind, t) {
        (Scalar::Int, DataType::Date32) => {
            let days = array
                .as_primitive::<Int32Type>()
                .reinterpret_cast::<Date32Type>();
            Ok(Arc::new(days))
        }
        (Scalar::Long | Scalar::Millis, DataType::Timestamp(_, _)) => {
            let factor = if kind == Scalar::Millis { 1000 } else { 1 };
            let counts = array.as_primitive::<Int64Type>();
            let micros = counts.unary::<_, TimestampMicrosecondType>(|v| v.wrapping_mul(factor));
            Ok(Arc::new(micros.with_data_type(t.clone())))
        }
        (Scalar::Decimal(p, _), DataType::Decimal128(_, s)) => {
            let bytes = cast(array, &DataType::Binary)?;
            let values = bytes.as_binary::<i32>().iter().map(|b| big_endian(b?));
            let values = values.collect::<Decimal128Array>();
            Ok(Arc::new(values.with_precision_and_scale(p, *s)?))
        }
        _ if array.data_type() == t => Ok(Arc::clone(array)),
        _ => Ok(cast(array, t)?),
    }
}

/// A big-endian two's-complement number; `None` if it needs more than 128 bits.
pub(super) fn big_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    let fill = if negative { 0xFF } else { 0 };
    let (extra, kept) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut out = [fill; 16];
    out[16 - kept.len()..].copy_from_slice(kept);
    let value = i128::from_be_bytes(out);
    (extra.iter().all(|b| *b == fill) && (value < 0) == negative).then_some(value)
}

fn list(items: &Step, t: &DataType, array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(field) = t else {
        return internal_err!("{t} is no array");
    };
    let list = array.as_list::<i32>();
    let values = convert(items, list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    )?))
}

fn map(values: &Step, t: &DataType, array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Map(field, ordered) = t else {
        return internal_err!("{t} is no map");
    };
    let DataType::Struct(parts) = field.data_type() else {
        return internal_err!("{t} is no map");
    };
    let map = array.as_map();
    let columns = vec![Arc::clone(map.keys()), convert(values, map.values())?];
    let pairs = StructArray::try_new(parts.clone(), columns, None)?;
    let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
    let out = MapArray::try_new(Arc::clone(field), offsets, pairs, nulls, *ordered)?;
    Ok(Arc::new(out))
}

fn record(fields: &[Step], origins: &[Origin], t: &DataType, array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(wanted) = t else {
        return internal_err!("{t} is no struct");
    };
    let written = array.as_struct();
    let column = |origin: &Origin| match origin {
        Origin::Field(at) => match &fields[*at] {
            Step::Null(t) => Ok(new_null_array(t, array.len())),
            step => convert(step, written.column(place(fields, *at))),
        },
        Origin::Default(one) => repeated(one, array.len()),
    };
    let columns = origins.iter().map(column).collect::<Result<Vec<_>>>()?;
    let nulls = written.nulls().cloned();
    let out = StructArray::try_new_with_length(wanted.clone(), columns, nulls, array.len())?;
    Ok(Arc::new(out))
}

/// Where field `at` stands in the library's record, which has no fields of `null`.
fn place(fields: &[Step], at: usize) -> usize {
    let before = fields[..at].iter();
    before.filter(|f| !matches!(f, Step::Null(_))).count()
}

fn repeated(one: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    if *one.data_type() == DataType::Null {
        return Ok(new_null_array(&DataType::Null, rows));
    }
    Ok(take(one, &UInt32Array::from(vec![0; rows]), None)?)
}

fn union(branches: &Branches, t: &DataType, array: &ArrayRef) -> Result<ArrayRef> {
    let steps = &branches.steps;
    let branch = |at: usize, values: &ArrayRef| match &steps[at] {
        Ok(step) => convert(step, values),
        // No row has a value of this branch, it would have been a bad one.
        Err(_) => Ok(new_null_array(t, values.len())),
    };
    if let Some(null) = branches.folded {
        return branch(1 - null, array);
    }
    if *t == DataType::Null {
        return Ok(new_null_array(t, array.len()));
    }
    let union = array.as_union();
    let types = union.type_ids().iter();
    let columns = (0..steps.len() as i8)
        .map(|id| branch(id as usize, union.child(id)))
        .collect::<Result<Vec<_>>>()?;
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let picks = types
        .enumerate()
        .map(|(row, id)| (*id as usize, union.value_offset(row)));
    Ok(interleave(&columns, &picks.collect::<Vec<_>>())?)
}
