//! One row per element of an array or per entry of a map, beside the other columns of the row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, WeirError};

use crate::expression::{Expression, batch_of};

/// Rows of one output batch at which the next one is begun; the elements of one row are never split.
const TARGET_ROWS: usize = 32_768;

/// How an explode is done.
#[derive(Debug, Clone)]
pub struct Explode {
    /// The array or map.
    pub input: Expression,
    /// The first new column is the position of the element in its array, from 0.
    pub position: bool,
    /// The elements are structs and become one column per field; of a map keys and values always become two.
    pub fields: bool,
    /// Keeps rows without elements, with nulls in the new columns.
    pub outer: bool,
    /// Positions of the input columns that are kept, in the order of the output; `None` = all.
    pub keep: Option<Vec<usize>>,
    /// Names of the new columns.
    pub names: Vec<String>,
}

/// An operator whose output is the kept columns followed by the new ones.
pub fn explode(explode: Explode) -> OperatorSpec {
    let detail = format!(
        "{}{}",
        explode.input,
        if explode.outer { ", outer" } else { "" }
    );
    let explode = Arc::new(explode);
    let made = Arc::clone(&explode);
    OperatorSpec::new("explode", move |_| {
        Ok(Exploder {
            explode: Arc::clone(&made),
            schemas: None,
        })
    })
    .with_schema_fn(move |inputs| {
        let input = inputs
            .first()
            .ok_or_else(|| WeirError::plan("an explode needs an input"))?;
        explode.output(input)
    })
    .with_detail(detail)
}

impl Explode {
    fn kept(&self, width: usize) -> Vec<usize> {
        self.keep.clone().unwrap_or_else(|| (0..width).collect())
    }

    fn output(&self, input: &Schema) -> Result<SchemaRef> {
        let added = self.added(self.input.field(input)?.data_type())?;
        let kept = input.project(&self.kept(input.fields().len()))?;
        let mut fields: Vec<Field> = kept
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        if added.len() != self.names.len() {
            let message = format!(
                "an explode gives {} columns and has {} names",
                added.len(),
                self.names.len()
            );
            return Err(WeirError::plan(message));
        }
        fields.extend(
            added
                .into_iter()
                .zip(&self.names)
                .map(|(data_type, name)| Field::new(name, data_type, true)),
        );
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Types of the new columns.
    fn added(&self, input: &DataType) -> Result<Vec<DataType>> {
        let elements = match input {
            DataType::List(field) | DataType::LargeList(field) if self.fields => {
                match field.data_type() {
                    DataType::Struct(fields) => types(fields),
                    other => {
                        return Err(WeirError::plan(format!(
                            "inline needs an array of structs, got an array of {other}"
                        )));
                    }
                }
            }
            DataType::List(field) | DataType::LargeList(field) => vec![field.data_type().clone()],
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => types(fields),
                other => {
                    return Err(WeirError::internal(format!(
                        "entries of a map are {other}, not structs"
                    )));
                }
            },
            other => {
                return Err(WeirError::plan(format!(
                    "explode needs an array or a map, got {other}"
                )));
            }
        };
        let position = self.position.then_some(DataType::Int32);
        Ok(position.into_iter().chain(elements).collect())
    }
}

fn types(fields: &Fields) -> Vec<DataType> {
    fields
        .iter()
        .map(|field| field.data_type().clone())
        .collect()
}

struct Exploder {
    explode: Arc<Explode>,
    /// Schema of the input seen last, and of the output it gives.
    schemas: Option<(SchemaRef, SchemaRef)>,
}

impl Exploder {
    fn output(&mut self, input: &SchemaRef) -> Result<SchemaRef> {
        if let Some((known, output)) = &self.schemas
            && (Arc::ptr_eq(known, input) || known == input)
        {
            return Ok(Arc::clone(output));
        }
        let output = self.explode.output(input)?;
        self.schemas = Some((Arc::clone(input), Arc::clone(&output)));
        Ok(output)
    }
}

impl Operator for Exploder {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let output = self.output(&rows.schema())?;
        let input = self.explode.input.at(context.batch_timestamp_ms)?;
        let nested = Nested::of(&input.evaluate(rows.batch())?, self.explode.fields)?;
        let kept = rows.map_batch(
            rows.batch()
                .project(&self.explode.kept(rows.batch().num_columns()))?,
        )?;
        let mut from = 0;
        while from < kept.num_rows() {
            let picked = nested.pick(from, self.explode.outer)?;
            from = picked.next_row;
            if picked.rows.is_empty() {
                continue;
            }
            let repeated = kept.take(&UInt32Array::from(picked.rows))?;
            let mut columns = repeated.batch().columns().to_vec();
            if self.explode.position {
                columns.push(Arc::new(Int32Array::from(picked.positions)));
            }
            for values in &nested.values {
                columns.push(take(values, &picked.elements)?);
            }
            let batch = batch_of(&output, columns, repeated.num_rows())?;
            out.emit(repeated.map_batch(batch)?);
        }
        Ok(())
    }
}

/// An array column: where each row's elements lie in the value columns.
struct Nested {
    offsets: OffsetBuffer<i64>,
    nulls: Option<NullBuffer>,
    values: Vec<ArrayRef>,
}

/// The next output rows.
struct Picked {
    /// Input row of each output row.
    rows: Vec<u32>,
    /// Position in its array, null for a row without elements.
    positions: Vec<Option<i32>>,
    /// Index in the value columns, null for a row without elements.
    elements: Vec<Option<u32>>,
    /// First input row that is not in yet.
    next_row: usize,
}

impl Nested {
    fn of(array: &ArrayRef, fields: bool) -> Result<Self> {
        let (offsets, values) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (widen(list.offsets()), Arc::clone(list.values()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (list.offsets().clone(), Arc::clone(list.values()))
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                (
                    widen(map.offsets()),
                    Arc::new(map.entries().clone()) as ArrayRef,
                )
            }
            other => return Err(WeirError::internal(format!("explode got {other}"))),
        };
        let in_fields = fields || matches!(array.data_type(), DataType::Map(_, _));
        let values = match values.as_struct_opt() {
            Some(structs) if in_fields => fields_of(structs)?,
            _ => vec![values],
        };
        Ok(Self {
            offsets,
            nulls: array.nulls().cloned(),
            values,
        })
    }

    fn pick(&self, from: usize, outer: bool) -> Result<Picked> {
        let mut picked = Picked {
            rows: Vec::new(),
            positions: Vec::new(),
            elements: Vec::new(),
            next_row: from,
        };
        while picked.next_row + 1 < self.offsets.len() && picked.rows.len() < TARGET_ROWS {
            let row = picked.next_row;
            let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let (start, end) = (
                self.offsets[row],
                if valid {
                    self.offsets[row + 1]
                } else {
                    self.offsets[row]
                },
            );
            if start == end && outer {
                picked.push(row, None, None)?;
            }
            for (position, element) in (start..end).enumerate() {
                picked.push(row, Some(position), Some(element))?;
            }
            picked.next_row += 1;
        }
        Ok(picked)
    }
}

impl Picked {
    fn push(&mut self, row: usize, position: Option<usize>, element: Option<i64>) -> Result<()> {
        let too_long =
            |_| WeirError::data("an array column of one batch has more than 2^31 elements");
        self.rows.push(u32::try_from(row).map_err(too_long)?);
        self.positions
            .push(position.map(i32::try_from).transpose().map_err(too_long)?);
        self.elements
            .push(element.map(u32::try_from).transpose().map_err(too_long)?);
        Ok(())
    }
}

fn widen(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect())
}

/// The fields of structs as columns; a null struct is a null in each.
fn fields_of(structs: &StructArray) -> Result<Vec<ArrayRef>> {
    if structs.null_count() == 0 {
        return Ok(structs.columns().to_vec());
    }
    let gone = arrow::compute::is_null(structs)?;
    Ok(structs
        .columns()
        .iter()
        .map(|column| arrow::compute::nullif(column, &gone))
        .collect::<Result<_, _>>()?)
}

/// The elements at these indices; a run of neighbours shares memory.
fn take(values: &ArrayRef, elements: &[Option<u32>]) -> Result<ArrayRef> {
    let first = elements.first().copied().flatten();
    let is_run = |first: u32| {
        elements
            .iter()
            .zip(first..)
            .all(|(element, wanted)| *element == Some(wanted))
    };
    match first {
        Some(first) if is_run(first) => Ok(values.slice(first as usize, elements.len())),
        _ => Ok(arrow::compute::take(
            values,
            &UInt32Array::from(elements.to_vec()),
            None,
        )?),
    }
}

#[cfg(test)]
mod tests;
