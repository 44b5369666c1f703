//! `percentile`, `median`, `percentile_approx` and `mode`: what follows from all values of a group.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::scalar::ScalarValue;

use super::collect::{Collecting, list_of, not_empty};
use super::rows::RowStore;
use super::udaf::{Function, Maker, constant, expect};
use crate::functions::error::{SparkError, mismatch};

/// The fractions asked for, and whether they came as an array.
struct Fractions {
    list: Vec<f64>,
    array: bool,
}

impl Fractions {
    fn of(call: &AccumulatorArgs<'_>, index: usize) -> Result<Self> {
        let value = constant(call, index)?;
        let (list, array) = match &value {
            ScalarValue::List(list) => (list.values().clone(), true),
            other => (other.to_array()?, false),
        };
        let list = arrow::compute::cast(&list, &DataType::Float64)?;
        let list: Option<Vec<f64>> = list.as_primitive::<Float64Type>().iter().collect();
        match list {
            Some(list) if list.iter().all(|p| (0.0..=1.0).contains(p)) => Ok(Self { list, array }),
            _ => Err(SparkError::external(
                "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                format!(
                    "{}: percentages lie between 0 and 1, got {value}",
                    call.name
                ),
            )),
        }
    }
}

/// The type percentages are cast to.
fn fraction_type(given: &DataType) -> DataType {
    match given {
        DataType::List(_) => list_of(&DataType::Float64),
        _ => DataType::Float64,
    }
}

fn one_or_list(value: DataType, fraction: &DataType) -> DataType {
    match fraction {
        DataType::List(_) => list_of(&value),
        _ => value,
    }
}

/// Results of all groups, as many for each as there are fractions; `valid` says which groups have values.
fn shaped(values: ArrayRef, fractions: &Fractions, lists: &ListArray) -> Result<ArrayRef> {
    if !fractions.array {
        return Ok(values);
    }
    let valid = not_empty(lists);
    let lengths = valid
        .iter()
        .map(|valid| if valid { fractions.list.len() } else { 0 });
    let field = Field::new_list_field(values.data_type().clone(), true);
    Ok(Arc::new(ListArray::try_new(
        Arc::new(field),
        OffsetBuffer::from_lengths(lengths),
        values,
        Some(valid),
    )?))
}

/// `percentile`, which interpolates, and `median`.
#[derive(Debug)]
pub(super) struct Percentile {
    pub(super) name: &'static str,
    /// The fraction, if it is no argument.
    pub(super) fixed: Option<f64>,
}

impl Function for Percentile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let count = if self.fixed.is_some() { 1 } else { 2 };
        expect(self.name, types, count, count)?;
        let mut wanted = vec![DataType::Float64];
        wanted.extend(types.get(1).map(fraction_type));
        Ok(wanted)
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match arguments.get(1) {
            Some(fraction) => one_or_list(DataType::Float64, fraction),
            None => DataType::Float64,
        })
    }

    fn state(&self, _arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![list_of(&DataType::Float64)])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let fractions = match self.fixed {
            Some(fraction) => Fractions {
                list: vec![fraction],
                array: false,
            },
            None => Fractions::of(call, 1)?,
        };
        Collecting {
            data_type: DataType::Float64,
            distinct: call.is_distinct,
            finish: Arc::new(move |lists| interpolated(lists, &fractions)),
        }
        .maker()
    }
}

fn interpolated(lists: &ListArray, fractions: &Fractions) -> Result<ArrayRef> {
    let values = lists.values().as_primitive::<Float64Type>().values();
    let mut found = Vec::new();
    for range in lists.value_offsets().windows(2) {
        let mut sorted = values[range[0] as usize..range[1] as usize].to_vec();
        if sorted.is_empty() {
            found.extend((!fractions.array).then_some(None));
            continue;
        }
        sorted.sort_by(f64::total_cmp);
        found.extend(fractions.list.iter().map(|p| Some(at(&sorted, *p))));
    }
    shaped(Arc::new(Float64Array::from(found)), fractions, lists)
}

/// The value at a fraction of sorted values, between neighbours in proportion.
fn at(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (low, high) = (position.floor(), position.ceil());
    let (below, above) = (sorted[low as usize], sorted[high as usize]);
    if low == high || below == above {
        return below;
    }
    (high - position) * below + (position - low) * above
}

/// `percentile_approx`: the smallest value that at least this fraction of the values is not larger than. It is exact, so the
/// accuracy it may be given changes nothing.
#[derive(Debug)]
pub(super) struct Approximate;

impl Function for Approximate {
    fn name(&self) -> &'static str {
        "percentile_approx"
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name(), types, 2, 3)?;
        let mut wanted = vec![types[0].clone(), fraction_type(&types[1])];
        wanted.extend(types.get(2).map(|_| DataType::Int64));
        Ok(wanted)
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        let value = &arguments[0];
        let ordered = value.is_numeric()
            || matches!(
                value,
                DataType::Date32
                    | DataType::Timestamp(..)
                    | DataType::Duration(_)
                    | DataType::Interval(_)
            );
        if !ordered {
            return Err(mismatch(format!(
                "percentile_approx needs numbers, dates, times or intervals, got {value}"
            )));
        }
        Ok(one_or_list(value.clone(), &arguments[1]))
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![list_of(&arguments[0])])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let fractions = Fractions::of(call, 1)?;
        Collecting {
            data_type: call.expr_fields[0].data_type().clone(),
            distinct: call.is_distinct,
            finish: Arc::new(move |lists| ranked(lists, &fractions)),
        }
        .maker()
    }
}

fn ranked(lists: &ListArray, fractions: &Fractions) -> Result<ArrayRef> {
    let mut indices: Vec<Option<u32>> = Vec::new();
    for range in lists.value_offsets().windows(2) {
        let (from, count) = (range[0] as usize, (range[1] - range[0]) as usize);
        if count == 0 {
            indices.extend((!fractions.array).then_some(None));
            continue;
        }
        let values = lists.values().slice(from, count);
        let order = sort_to_indices(&values, Some(SortOptions::default()), None)?;
        indices.extend(fractions.list.iter().map(|p| {
            let rank = (p * count as f64).ceil().max(1.0) as usize;
            Some(order.value(rank.min(count) - 1) + range[0].unsigned_abs())
        }));
    }
    let values = take(lists.values(), &UInt32Array::from(indices), None)?;
    shaped(values, fractions, lists)
}

/// `mode`: the most frequent value, of equally frequent ones the smallest.
#[derive(Debug)]
pub(super) struct Mode;

impl Function for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name(), types, 1, 2)?;
        let mut wanted = vec![types[0].clone()];
        wanted.extend(types.get(1).map(|_| DataType::Boolean));
        Ok(wanted)
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![list_of(&arguments[0])])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        Collecting {
            data_type: call.expr_fields[0].data_type().clone(),
            distinct: false,
            finish: Arc::new(most_frequent),
        }
        .maker()
    }
}

fn most_frequent(lists: &ListArray) -> Result<ArrayRef> {
    let store = RowStore::new(lists.value_type())?;
    let rows = store.encode(&crate::functions::normalize::normal(lists.values())?)?;
    let mut found: Vec<Option<u32>> = Vec::with_capacity(lists.len());
    for range in lists.value_offsets().windows(2) {
        let mut counts: HashMap<&[u8], (u32, u32)> = HashMap::new();
        for index in range[0].unsigned_abs()..range[1].unsigned_abs() {
            let key = rows.row(index as usize).data();
            counts.entry(key).or_insert((0, index)).0 += 1;
        }
        let best = counts
            .into_iter()
            .max_by(|(a, (n, _)), (b, (m, _))| n.cmp(m).then_with(|| b.cmp(a)));
        found.push(best.map(|(_, (_, index))| index));
    }
    Ok(take(lists.values(), &UInt32Array::from(found), None)?)
}
