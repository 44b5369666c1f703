//! `sum`, `try_sum`, `avg` and `try_avg`. Totals of integers, decimals and intervals never wrap: beyond their type they are an
//! error, of the `try_` forms NULL.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray};
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
trait Summed: ArrowPrimitiveType {
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

/// `avg` and `try_avg`.
#[derive(Debug)]
pub(super) struct Average {
    pub(super) name: &'static str,
    /// Overflow gives NULL instead of an error.
    pub(super) lenient: bool,
}

/// The type in which values of a type are added, and the type of the total.
fn total_type(name: &str, value: &DataType) -> Result<(DataType, DataType)> {
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
fn overflow(name: &str, data_type: &DataType) -> DataFusionError {
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
struct Totals<T: Summed> {
    data_type: DataType,
    lenient: bool,
    totals: Vec<T::Native>,
    seen: Vec<bool>,
    /// Groups whose total is beyond the type; only kept where that is no error.
    lost: Vec<bool>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Summed> Totals<T> {
    fn new(data_type: DataType, lenient: bool) -> Self {
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

    fn update(
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
    fn emit(&mut self, to: EmitTo) -> Result<(PrimitiveArray<T>, Vec<bool>)> {
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
    fn of_rows(&self, values: &ArrayRef) -> ArrayRef {
        let values = values.as_primitive::<T>().clone();
        Arc::new(values.with_data_type(self.data_type.clone()))
    }

    /// Adds states: totals, and whether groups had values.
    fn merge(
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

    fn size(&self) -> usize {
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

/// The type in which values are averaged.
fn averaged(name: &str, value: &DataType) -> Result<DataType> {
    Ok(match value {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Null => DataType::Float64,
        other => total_type(name, other)?.0,
    })
}

impl Function for Average {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name, types, 1, 1)?;
        Ok(vec![averaged(self.name, &types[0])?])
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match &arguments[0] {
            DataType::Decimal128(precision, scale) => bounded(precision + 4, scale + 4),
            other => averaged(self.name, other)?,
        })
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let total = total_type(self.name, &averaged(self.name, &arguments[0])?)?.1;
        Ok(vec![total, DataType::Int64])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let value = call.expr_fields[0].data_type();
        let total = total_type(self.name, value)?.1;
        let (returns, lenient) = (call.return_field.data_type().clone(), self.lenient);
        Ok(match &total {
            DataType::Float64 => {
                averages::<Float64Type>(total, returns, lenient, |sum, n, _| Some(sum / n as f64))
            }
            DataType::Decimal128(_, scale) => {
                let scale = *scale;
                averages::<Decimal128Type>(total, returns, lenient, move |sum, n, returns| {
                    decimal_quotient(sum, scale, n, returns)
                })
            }
            DataType::Duration(_) => {
                averages::<DurationMicrosecondType>(total, returns, lenient, |sum, n, _| {
                    i64::try_from(half_up(i128::from(sum), i128::from(n))).ok()
                })
            }
            DataType::Interval(_) => {
                averages::<IntervalYearMonthType>(total, returns, lenient, |sum, n, _| {
                    i32::try_from(half_up(i128::from(sum), i128::from(n))).ok()
                })
            }
            other => return Err(mismatch(format!("{} of {other}", self.name))),
        })
    }
}

/// Spark's bounds for results of decimals: a precision beyond 38 takes digits from the scale, down to 6 of them.
fn bounded(precision: u8, scale: i8) -> DataType {
    if precision <= DECIMAL128_MAX_PRECISION {
        return DataType::Decimal128(precision, scale);
    }
    let integral = precision as i8 - scale;
    let scale = (DECIMAL128_MAX_PRECISION as i8 - integral).max(scale.min(6));
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
}

/// The quotient, rounded half away from zero.
fn half_up(sum: i128, n: i128) -> i128 {
    let (quotient, rest) = (sum / n, sum % n);
    if rest.unsigned_abs() * 2 >= n.unsigned_abs() {
        quotient + rest.signum()
    } else {
        quotient
    }
}

fn decimal_quotient(sum: i128, scale: i8, n: i64, returns: &DataType) -> Option<i128> {
    let DataType::Decimal128(precision, wanted) = returns else {
        return None;
    };
    let shift = u32::try_from(wanted - scale).ok()?;
    // Division first, so that a large total does not overflow on the way.
    let (n, factor) = (i128::from(n), 10i128.checked_pow(shift)?);
    let whole = (sum / n).checked_mul(factor)?;
    let value = whole.checked_add(half_up((sum % n).checked_mul(factor)?, n))?;
    let fits = Decimal128Type::validate_decimal_precision(value, *precision, *wanted);
    fits.ok().map(|()| value)
}

type Quotient<T> = Arc<
    dyn Fn(
            <T as ArrowPrimitiveType>::Native,
            i64,
            &DataType,
        ) -> Option<<T as ArrowPrimitiveType>::Native>
        + Send
        + Sync,
>;

fn averages<T: Summed>(
    total: DataType,
    returns: DataType,
    lenient: bool,
    quotient: impl Fn(T::Native, i64, &DataType) -> Option<T::Native> + Send + Sync + 'static,
) -> Maker {
    averages_of::<T>(total, returns, lenient, Arc::new(quotient))
}

fn averages_of<T: Summed>(
    total: DataType,
    returns: DataType,
    lenient: bool,
    quotient: Quotient<T>,
) -> Maker {
    Arc::new(move || {
        Box::new(Averages {
            totals: Totals::<T>::new(total.clone(), lenient),
            counts: Vec::new(),
            returns: returns.clone(),
            quotient: Arc::clone(&quotient),
        })
    })
}

/// State: the total, NULL if it is lost, and the number of values.
struct Averages<T: Summed> {
    totals: Totals<T>,
    counts: Vec<i64>,
    returns: DataType,
    quotient: Quotient<T>,
}

impl<T: Summed> GroupsAccumulator for Averages<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.totals.update(values, groups, filter, total)?;
        self.counts.resize(total, 0);
        let nulls = values.nulls();
        for_each_row(groups, filter, |row, group| {
            self.counts[group] += i64::from(nulls.is_none_or(|nulls| nulls.is_valid(row)));
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (totals, _) = self.totals.emit(emit_to)?;
        let counts = emit_to.take_needed(&mut self.counts);
        let mut averages = Vec::with_capacity(counts.len());
        for (total, count) in totals.iter().zip(&counts) {
            let Some(total) = total.filter(|_| *count > 0) else {
                averages.push(None);
                continue;
            };
            let average = (self.quotient)(total, *count, &self.returns);
            if average.is_none() && !self.totals.lenient {
                return Err(overflow("avg", &self.returns));
            }
            averages.push(average);
        }
        let array: PrimitiveArray<T> = averages.into_iter().collect();
        Ok(Arc::new(array.with_data_type(self.returns.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, _) = self.totals.emit(emit_to)?;
        let counts = emit_to.take_needed(&mut self.counts);
        Ok(vec![Arc::new(totals), Arc::new(Int64Array::from(counts))])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let counts = values[1].as_primitive::<Int64Type>();
        let seen: BooleanArray = counts.values().iter().map(|n| Some(*n > 0)).collect();
        let totals = values[0].as_primitive::<T>();
        self.totals.merge(totals, Some(&seen), groups, total)?;
        self.counts.resize(total, 0);
        for (row, group) in groups.iter().enumerate() {
            self.counts[*group] += counts.value(row);
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        if filter.is_none() {
            let valid = |row| i64::from(values[0].is_valid(row));
            let counts = Int64Array::from_iter_values((0..values[0].len()).map(valid));
            return Ok(vec![self.totals.of_rows(&values[0]), Arc::new(counts)]);
        }
        let maker = averages_of::<T>(
            self.totals.data_type.clone(),
            self.returns.clone(),
            self.totals.lenient,
            Arc::clone(&self.quotient),
        );
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        self.totals.size() + self.counts.capacity() * size_of::<i64>()
    }
}
