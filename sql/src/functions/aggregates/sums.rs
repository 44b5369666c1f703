//! `sum` and `try_sum`, and the totals that averages are made of. Totals of integers, decimals and intervals never wrap: beyond their type they are an
//! error, of the `try_` forms NULL.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType,
    DurationMicrosecondType, Float64Type, Int64Type, IntervalUnit, IntervalYearMonthType, TimeUnit,
};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};

use super::udaf::{Function, Maker, expect, for_each_row, one_group_each};
use crate::functions::error::{SparkError, mismatch};

/// A type that sums are made of.
pub(super) trait Summed: ArrowPrimitiveType {
    /// `None` if the sum is beyond the type.
    fn plus(a: Self::Native, b: Self::Native) -> Option<Self::Native>;

    /// Whether a total fits the type of the column.
    fn fits(_total: Self::Native, _data_type: &DataType) -> bool {
        true
    }
}

impl Summed for Int64Type {
    fn plus(a: i64, b: i64) -> Option<i64> {
        a.checked_add(b)
    }
}

impl Summed for Float64Type {
    fn plus(a: f64, b: f64) -> Option<f64> {
        Some(a + b)
    }
}

impl Summed for Decimal128Type {
    fn plus(a: i128, b: i128) -> Option<i128> {
        a.checked_add(b)
    }

    fn fits(total: i128, data_type: &DataType) -> bool {
        match data_type {
            DataType::Decimal128(precision, scale) => {
                Self::validate_decimal_precision(total, *precision, *scale).is_ok()
            }
            _ => true,
        }
    }
}

impl Summed for DurationMicrosecondType {
    fn plus(a: i64, b: i64) -> Option<i64> {
        a.checked_add(b)
    }
}

impl Summed for IntervalYearMonthType {
    fn plus(a: i32, b: i32) -> Option<i32> {
        a.checked_add(b)
    }
}

/// `sum` and `try_sum`.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) name: &'static str,
    /// Overflow gives NULL instead of an error.
    pub(super) lenient: bool,
    /// The library's function, which sums distinct values.
    pub(super) inner: Option<Arc<AggregateUDF>>,
}

/// The type in which values of a type are added, and the type of the total.
pub(super) fn total_type(name: &str, value: &DataType) -> Result<(DataType, DataType)> {
    Ok(match value {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            (DataType::Int64, DataType::Int64)
        }
        DataType::Float32 | DataType::Float64 | DataType::Utf8 | DataType::Null => {
            (DataType::Float64, DataType::Float64)
        }
        DataType::Decimal128(precision, scale) => {
            let wide = precision.saturating_add(10).min(DECIMAL128_MAX_PRECISION);
            (value.clone(), DataType::Decimal128(wide, *scale))
        }
        DataType::Duration(TimeUnit::Microsecond) | DataType::Interval(IntervalUnit::YearMonth) => {
            (value.clone(), value.clone())
        }
        other => {
            return Err(mismatch(format!(
                "{name} needs numbers or intervals, got {other}"
            )));
        }
    })
}

impl Function for Sum {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name, types, 1, 1)?;
        Ok(vec![total_type(self.name, &types[0])?.0])
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(total_type(self.name, &arguments[0])?.1)
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let total = self.returns(arguments)?;
        Ok(if self.lenient {
            vec![total, DataType::Boolean]
        } else {
            vec![total]
        })
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let total = call.return_field.data_type().clone();
        let lenient = self.lenient;
        Ok(match &total {
            DataType::Int64 => totals::<Int64Type>(total, lenient),
            DataType::Float64 => totals::<Float64Type>(total, lenient),
            DataType::Decimal128(_, _) => totals::<Decimal128Type>(total, lenient),
            DataType::Duration(_) => totals::<DurationMicrosecondType>(total, lenient),
            DataType::Interval(_) => totals::<IntervalYearMonthType>(total, lenient),
            other => return Err(mismatch(format!("{} cannot be {other}", self.name))),
        })
    }

    fn library(&self, _arguments: &[DataType], distinct: bool) -> Option<Arc<AggregateUDF>> {
        self.inner.clone().filter(|_| distinct)
    }
}

fn totals<T: Summed>(data_type: DataType, lenient: bool) -> Maker {
    Arc::new(move || {
        Box::new(Sums {
            totals: Totals::<T>::new(data_type.clone(), lenient),
        })
    })
}

/// What a total that is beyond its type leads to.
pub(super) fn overflow(name: &str, data_type: &DataType) -> DataFusionError {
    let (condition, name_of) = match data_type {
        DataType::Decimal128(precision, scale) => (
            "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
            format!("DECIMAL({precision},{scale})"),
        ),
        DataType::Int64 => ("ARITHMETIC_OVERFLOW", "BIGINT".to_owned()),
        _ => ("ARITHMETIC_OVERFLOW", "its interval type".to_owned()),
    };
    let message = format!("{name} overflows {name_of}; use try_{name} for NULL");
    SparkError::external(condition, message)
}

/// Totals of many groups. A group without a value is NULL.
pub(super) struct Totals<T: Summed> {
    pub(super) data_type: DataType,
    pub(super) lenient: bool,
    totals: Vec<T::Native>,
    seen: Vec<bool>,
    /// Groups whose total is beyond the type; only kept where that is no error.
    lost: Vec<bool>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Summed> Totals<T> {
    pub(super) fn new(data_type: DataType, lenient: bool) -> Self {
        Self {
            data_type,
            lenient,
            totals: Vec::new(),
            seen: Vec::new(),
            lost: Vec::new(),
            kind: PhantomData,
        }
    }

    fn resize(&mut self, total: usize) {
        self.totals.resize(total, T::default_value());
        self.seen.resize(total, false);
        if self.lenient {
            self.lost.resize(total, false);
        }
    }

    /// Adds one value; false if the total is lost.
    #[inline]
    fn add(&mut self, group: usize, value: T::Native) -> bool {
        self.seen[group] = true;
        match T::plus(self.totals[group], value) {
            Some(sum) => {
                self.totals[group] = sum;
                true
            }
            None => false,
        }
    }

    pub(super) fn update(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        let mut fine = true;
        let (raw, nulls) = (values.values(), values.nulls());
        if nulls.is_none() && filter.is_none() && !self.lenient {
            for (value, group) in raw.iter().zip(groups) {
                fine &= self.add(*group, *value);
            }
        } else {
            for_each_row(groups, filter, |row, group| {
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) && !self.add(group, raw[row]) {
                    fine = false;
                    self.lose(group);
                }
            });
        }
        if fine || self.lenient {
            return Ok(());
        }
        Err(overflow("sum", &self.data_type))
    }

    fn lose(&mut self, group: usize) {
        if self.lenient {
            self.lost[group] = true;
        }
    }

    /// The totals, and whether each group has one or lost it.
    pub(super) fn emit(&mut self, to: EmitTo) -> Result<(PrimitiveArray<T>, Vec<bool>)> {
        let totals = to.take_needed(&mut self.totals);
        let seen = to.take_needed(&mut self.seen);
        let mut lost = if self.lenient {
            to.take_needed(&mut self.lost)
        } else {
            vec![false; totals.len()]
        };
        for (total, lost) in totals.iter().zip(&mut lost) {
            if !T::fits(*total, &self.data_type) {
                if !self.lenient {
                    return Err(overflow("sum", &self.data_type));
                }
                *lost = true;
            }
        }
        let known = seen.iter().zip(&lost).map(|(seen, lost)| *seen && !*lost);
        let known: Vec<bool> = known.collect();
        let array = PrimitiveArray::<T>::new(totals.into(), Some(known.into()))
            .with_data_type(self.data_type.clone());
        Ok((array, seen))
    }

    /// Each value as a total.
    pub(super) fn of_rows(&self, values: &ArrayRef) -> ArrayRef {
        let values = values.as_primitive::<T>().clone();
        Arc::new(values.with_data_type(self.data_type.clone()))
    }

    /// Adds states: totals, and whether groups had values.
    pub(super) fn merge(
        &mut self,
        totals: &PrimitiveArray<T>,
        seen: Option<&BooleanArray>,
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        self.update(totals, groups, None, total)?;
        if let Some(seen) = seen {
            for (row, group) in groups.iter().enumerate() {
                if totals.is_null(row) && seen.value(row) {
                    self.seen[*group] = true;
                    self.lose(*group);
                }
            }
        }
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T::Native>()
            + self.seen.capacity()
            + self.lost.capacity()
    }
}

/// State: the total; of `try_sum` also whether there were values.
struct Sums<T: Summed> {
    totals: Totals<T>,
}

impl<T: Summed> GroupsAccumulator for Sums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.totals
            .update(values[0].as_primitive::<T>(), groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(self.totals.emit(emit_to)?.0))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, seen) = self.totals.emit(emit_to)?;
        let totals: ArrayRef = Arc::new(totals);
        Ok(if self.totals.lenient {
            vec![totals, Arc::new(BooleanArray::from(seen))]
        } else {
            vec![totals]
        })
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let seen = values.get(1).map(|seen| seen.as_boolean());
        self.totals
            .merge(values[0].as_primitive::<T>(), seen, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        if filter.is_none() && !self.totals.lenient {
            return Ok(vec![self.totals.of_rows(&values[0])]);
        }
        let maker = totals::<T>(self.totals.data_type.clone(), self.totals.lenient);
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        self.totals.size()
    }
}
