//! Aggregates that differ from the libraries': `sum` of integers, which must not wrap.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use datafusion::scalar::ScalarValue;

use super::error::SparkError;

/// Puts Spark's aggregates in the place of DataFusion's.
///
/// # Errors
/// None today.
pub fn register(state: &mut SessionState) -> Result<()> {
    let sum = state.udaf("sum")?;
    state.register_udaf(Arc::new(AggregateUDF::from(CheckedSum { inner: sum })))?;
    Ok(())
}

/// Whether the result of an aggregate follows the order of its rows.
pub(crate) fn depends_on_order(name: &str) -> bool {
    const ORDERED: &[&str] = &[
        "first_value",
        "last_value",
        "any_value",
        "array_agg",
        "collect_list",
        "collect_set",
        "string_agg",
        "nth_value",
    ];
    ORDERED.contains(&name)
}

/// `sum`: DataFusion's, except that BIGINT totals are checked.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

fn is_checked(returns: &DataType, distinct: bool) -> bool {
    *returns == DataType::Int64 && !distinct
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if is_checked(args.return_field.data_type(), args.is_distinct) {
            return Ok(Box::new(Total::default()));
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if is_checked(args.return_field.data_type(), args.is_distinct) {
            return Ok(vec![Arc::new(Field::new(
                format!("{}[sum]", args.name),
                DataType::Int64,
                true,
            ))]);
        }
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        is_checked(args.return_field.data_type(), args.is_distinct)
            || self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if is_checked(args.return_field.data_type(), args.is_distinct) {
            return Ok(Box::new(Totals::default()));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, _data_type: &DataType) -> SetMonotonicity {
        SetMonotonicity::NotMonotonic
    }
}

fn overflow(total: i64, value: i64) -> datafusion::error::DataFusionError {
    let message = format!("sum overflows BIGINT: {total} + {value}; use try_sum for NULL");
    SparkError::external("ARITHMETIC_OVERFLOW", message)
}

/// One checked total.
#[derive(Debug, Default)]
struct Total(Option<i64>);

impl Total {
    fn add(&mut self, values: &Int64Array) -> Result<()> {
        for v in values.iter().flatten() {
            let total = self.0.unwrap_or(0);
            self.0 = Some(total.checked_add(v).ok_or_else(|| overflow(total, v))?);
        }
        Ok(())
    }
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive::<Int64Type>())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(self.0))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Checked totals of many groups. A group without a value is NULL.
#[derive(Debug, Default)]
struct Totals {
    totals: Vec<i64>,
    seen: Vec<bool>,
}

impl Totals {
    fn add(
        &mut self,
        values: &Int64Array,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.totals.resize(total, 0);
        self.seen.resize(total, false);
        let plain = values.null_count() == 0 && filter.is_none();
        for (row, group) in groups.iter().enumerate() {
            let used = plain
                || (values.is_valid(row) && filter.is_none_or(|f| f.is_valid(row) && f.value(row)));
            if !used {
                continue;
            }
            let (sum, v) = (self.totals[*group], values.value(row));
            self.totals[*group] = sum.checked_add(v).ok_or_else(|| overflow(sum, v))?;
            self.seen[*group] = true;
        }
        Ok(())
    }

    fn emit(&mut self, to: EmitTo) -> ArrayRef {
        let (totals, seen) = (
            to.take_needed(&mut self.totals),
            to.take_needed(&mut self.seen),
        );
        Arc::new(PrimitiveArray::<Int64Type>::new(
            totals.into(),
            Some(seen.into()),
        ))
    }
}

impl GroupsAccumulator for Totals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(values[0].as_primitive::<Int64Type>(), groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.emit(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.emit(emit_to)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(values[0].as_primitive::<Int64Type>(), groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else {
            return Ok(vec![Arc::clone(&values[0])]);
        };
        let dropped = arrow::compute::not(&arrow::compute::prep_null_mask_filter(filter))?;
        Ok(vec![arrow::compute::nullif(&values[0], &dropped)?])
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<i64>() + self.seen.capacity()
    }
}
