//! `avg` and `try_avg`: a checked total and a number of values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType,
    DurationMicrosecondType, Float64Type, Int64Type, IntervalYearMonthType,
};
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::sums::{Summed, Totals, overflow, total_type};
use super::udaf::{Function, Maker, expect, for_each_row, one_group_each};
use crate::functions::error::mismatch;

/// `avg` and `try_avg`.
#[derive(Debug)]
pub(super) struct Average {
    pub(super) name: &'static str,
    /// Overflow gives NULL instead of an error.
    pub(super) lenient: bool,
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
