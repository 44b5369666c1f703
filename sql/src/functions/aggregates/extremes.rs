//! `min` and `max` of floating point numbers, in which NaN is the largest, and `min_by` and `max_by`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};

use super::rows::{BestRows, Wins};
use super::udaf::{Function, Maker, expect, for_each_row, one_group_each};
use crate::functions::error::mismatch;

/// A floating point type.
trait Float: ArrowPrimitiveType {
    /// How two numbers compare; NaN is larger than any other and equal to itself, 0.0 equals -0.0.
    fn order(a: Self::Native, b: Self::Native) -> Ordering;
}

impl Float for Float32Type {
    fn order(a: f32, b: f32) -> Ordering {
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }
}

impl Float for Float64Type {
    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }
}

/// `min` or `max`: of floating point numbers by itself, of everything else the library's.
#[derive(Debug)]
pub(super) struct Extreme {
    pub(super) largest: bool,
    /// The library's function.
    pub(super) inner: Arc<AggregateUDF>,
}

impl Function for Extreme {
    fn name(&self) -> &'static str {
        if self.largest { "max" } else { "min" }
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name(), types, 1, 1)?;
        Ok(types.to_vec())
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments[0] {
            DataType::Map(_, _) => Err(mismatch(format!("{} cannot order maps", self.name()))),
            _ => Ok(arguments[0].clone()),
        }
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![arguments[0].clone()])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let largest = self.largest;
        Ok(match call.expr_fields[0].data_type() {
            DataType::Float32 => Arc::new(move || Box::new(Extremes::<Float32Type>::new(largest))),
            DataType::Float64 => Arc::new(move || Box::new(Extremes::<Float64Type>::new(largest))),
            other => {
                let wins = if largest { Wins::Larger } else { Wins::Smaller };
                BestRows::maker(other.clone(), None, wins)?
            }
        })
    }

    fn library(&self, arguments: &[DataType], _distinct: bool) -> Option<Arc<AggregateUDF>> {
        use DataType::{Binary, Date32, Decimal128, Int8, Int16, Int32, Int64, Timestamp, Utf8};
        let flat = matches!(
            arguments[0],
            Int8 | Int16 | Int32 | Int64 | Decimal128(..) | Date32 | Timestamp(..) | Utf8 | Binary
        );
        flat.then(|| Arc::clone(&self.inner))
    }
}

/// Extremes of many groups; the first of equal ones stays.
struct Extremes<T: Float> {
    largest: bool,
    values: Vec<T::Native>,
    seen: Vec<bool>,
}

impl<T: Float> Extremes<T> {
    fn new(largest: bool) -> Self {
        Self {
            largest,
            values: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn emit(&mut self, to: EmitTo) -> ArrayRef {
        let values = to.take_needed(&mut self.values);
        let seen = to.take_needed(&mut self.seen);
        Arc::new(PrimitiveArray::<T>::new(values.into(), Some(seen.into())))
    }
}

impl<T: Float> GroupsAccumulator for Extremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.values.resize(total, T::default_value());
        self.seen.resize(total, false);
        let values = values[0].as_primitive::<T>();
        let better = if self.largest {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        for_each_row(groups, filter, |row, group| {
            if values.is_null(row) {
                return;
            }
            let value = values.value(row);
            if !self.seen[group] || T::order(value, self.values[group]) == better {
                self.values[group] = value;
                self.seen[group] = true;
            }
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.emit(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.emit(emit_to)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let largest = self.largest;
        let maker: Maker = Arc::new(move || Box::new(Extremes::<T>::new(largest)));
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}

/// `max_by(value, by)` and `min_by`: the value of the row whose `by` is the largest; of equal ones the last. Rows without a
/// `by` do not count.
#[derive(Debug)]
pub(super) struct ExtremeBy {
    pub(super) largest: bool,
}

impl Function for ExtremeBy {
    fn name(&self) -> &'static str {
        if self.largest { "max_by" } else { "min_by" }
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name(), types, 2, 2)?;
        Ok(types.to_vec())
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments[1] {
            DataType::Map(_, _) => Err(mismatch(format!("{} cannot order maps", self.name()))),
            _ => Ok(arguments[0].clone()),
        }
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![arguments[1].clone(), arguments[0].clone()])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let [value, by] = [0, 1].map(|i: usize| call.expr_fields[i].data_type().clone());
        let wins = if self.largest {
            Wins::LargerOrEqual
        } else {
            Wins::SmallerOrEqual
        };
        BestRows::maker(by, Some(value), wins)
    }
}
