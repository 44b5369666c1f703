//! From the arrays that the library makes to those of the types that a file has.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Fields, Int64Type, SchemaRef, TimestampMicrosecondType};
use arrow::error::ArrowError;

use super::problem::{Problem, Result, damage};
use super::times::Times;
use super::types::Way;

/// The rows of a batch with the columns of `schema`, a way for each.
pub(super) fn batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    ways: &[Way],
    times: &mut Times,
) -> Result<Vec<ArrayRef>> {
    if batch.num_columns() != ways.len() {
        return damage("a stripe lacks a column");
    }
    let columns = batch.columns().iter().zip(schema.fields()).zip(ways);
    columns
        .map(|((array, field), way)| column(array, field.data_type(), way, times))
        .collect()
}

fn column(
    array: &ArrayRef,
    data_type: &DataType,
    way: &Way,
    times: &mut Times,
) -> Result<ArrayRef> {
    match (way, data_type) {
        (Way::Days, _) => times.days(array),
        (Way::Clock, _) => {
            let micros = array.as_primitive::<Int64Type>().clone();
            let clock = micros.reinterpret_cast::<TimestampMicrosecondType>();
            Ok(Arc::new(clock))
        }
        (Way::Moment(column, moment), _) => times.moments(*column, *moment, array),
        (Way::Struct(ways), DataType::Struct(fields)) => {
            structs(array.as_struct(), fields, ways, times)
        }
        (Way::List(way), DataType::List(field)) => {
            let (_, offsets, items, nulls) = array.as_list::<i32>().clone().into_parts();
            let items = column(&items, field.data_type(), way, times)?;
            let list = ListArray::try_new(Arc::clone(field), offsets, items, nulls);
            Ok(Arc::new(list.map_err(refused)?))
        }
        (Way::Map(key_way, value_way), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return damage("the entries of a map are no structs");
            };
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs = vec![
                column(pairs.column(0), fields[0].data_type(), key_way, times)?,
                column(pairs.column(1), fields[1].data_type(), value_way, times)?,
            ];
            let pairs = StructArray::try_new(fields.clone(), pairs, None).map_err(refused)?;
            let map = MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted);
            Ok(Arc::new(map.map_err(refused)?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn structs(
    array: &StructArray,
    fields: &Fields,
    ways: &[Way],
    times: &mut Times,
) -> Result<ArrayRef> {
    let columns = array.columns().iter().zip(fields).zip(ways);
    let columns = columns
        .map(|((array, field), way)| column(array, field.data_type(), way, times))
        .collect::<Result<Vec<ArrayRef>>>()?;
    let nulls = array.nulls().cloned();
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len());
    Ok(Arc::new(array.map_err(refused)?))
}

fn refused(error: ArrowError) -> Problem {
    Problem::Damage(error.to_string())
}
