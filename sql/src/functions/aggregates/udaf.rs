//! One shape for Weir's own aggregates: types, the columns of the state, and accumulators over many groups. The accumulator of
//! a single group follows from that.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::functions::error::SparkError;

/// Makes accumulators of one call.
pub(super) type Maker = Arc<dyn Fn() -> Box<dyn GroupsAccumulator> + Send + Sync>;

/// An aggregate function.
///
/// Its accumulators must take batches without rows: a group may exist before it has any.
pub(super) trait Function: Debug + Send + Sync + 'static {
    /// Name in SQL, in lower case.
    fn name(&self) -> &'static str;

    /// Types that arguments of these types are cast to.
    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>>;

    /// Type of the result.
    fn returns(&self, arguments: &[DataType]) -> Result<DataType>;

    /// Types of the columns of the intermediate state.
    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>>;

    /// How accumulators are made.
    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker>;

    /// Whether `IGNORE NULLS` has a meaning.
    fn may_ignore_nulls(&self) -> bool {
        false
    }

    /// The library's function, where it does the same on arguments of these types.
    fn library(&self, _arguments: &[DataType], _distinct: bool) -> Option<Arc<AggregateUDF>> {
        None
    }
}

/// Fails unless there are `min..=max` arguments.
pub(super) fn expect(name: &str, types: &[DataType], min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&types.len()) {
        return Ok(());
    }
    let wanted = if min == max {
        min.to_string()
    } else {
        format!("{min} to {max}")
    };
    let message = format!(
        "{name} takes {wanted} arguments, it was given {}",
        types.len()
    );
    Err(SparkError::external("WRONG_NUM_ARGS", message))
}

/// The constant in argument `index`.
pub(super) fn constant(call: &AccumulatorArgs<'_>, index: usize) -> Result<ScalarValue> {
    let schema = Arc::new(arrow::datatypes::Schema::empty());
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    let row = arrow::array::RecordBatch::try_new_with_options(schema, vec![], &options)?;
    let value = call.exprs[index].evaluate(&row);
    let value = value.and_then(|value| value.into_array(1)).map_err(|_| {
        let text = format!("argument {} of {} must be a constant", index + 1, call.name);
        SparkError::external("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", text)
    })?;
    ScalarValue::try_from_array(&value, 0)
}

/// An aggregate function as DataFusion takes it.
#[derive(Debug)]
pub(super) struct SparkAggregate<F> {
    function: F,
    signature: Signature,
}

impl<F: Function> SparkAggregate<F> {
    pub(super) fn udaf(function: F) -> AggregateUDF {
        AggregateUDF::from(Self {
            function,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }

    fn types(fields: &[FieldRef]) -> Vec<DataType> {
        fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect()
    }

    fn library(&self, arguments: &[FieldRef], distinct: bool) -> Option<Arc<AggregateUDF>> {
        self.function.library(&Self::types(arguments), distinct)
    }
}

impl<F: Function> PartialEq for SparkAggregate<F> {
    fn eq(&self, other: &Self) -> bool {
        self.function.name() == other.function.name()
    }
}

impl<F: Function> Eq for SparkAggregate<F> {}

impl<F: Function> Hash for SparkAggregate<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name().hash(state);
    }
}

impl<F: Function> AggregateUDFImpl for SparkAggregate<F> {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.arguments(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.returns(arg_types)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.function.may_ignore_nulls()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(library) = self.library(args.expr_fields, args.is_distinct) {
            return library.accumulator(args);
        }
        let maker = self.function.maker(&args)?;
        Ok(Box::new(SingleGroup {
            arguments: Self::types(args.expr_fields),
            groups: Mutex::new(maker()),
            maker,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if let Some(library) = self.library(args.input_fields, args.is_distinct) {
            return library.state_fields(args);
        }
        let types = self.function.state(&Self::types(args.input_fields))?;
        let fields = types.into_iter().enumerate();
        let field =
            |(i, data_type)| Arc::new(Field::new(format!("{}[{i}]", args.name), data_type, true));
        Ok(fields.map(field).collect())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match self.library(args.expr_fields, args.is_distinct) {
            Some(library) => library.groups_accumulator_supported(args),
            None => true,
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match self.library(args.expr_fields, args.is_distinct) {
            Some(library) => library.create_groups_accumulator(args),
            None => Ok(self.function.maker(&args)?()),
        }
    }
}

/// Accumulators of many groups, used for one.
struct SingleGroup {
    arguments: Vec<DataType>,
    /// Never contended: the lock only makes it shareable.
    groups: Mutex<Box<dyn GroupsAccumulator>>,
    maker: Maker,
}

impl SingleGroup {
    fn groups(&mut self) -> &mut dyn GroupsAccumulator {
        let groups = self.groups.get_mut();
        groups.unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    /// The state, which stays.
    fn peek(&mut self) -> Result<Vec<ArrayRef>> {
        let none: Vec<ArrayRef> = self.arguments.iter().map(new_empty_array).collect();
        let groups = self.groups();
        groups.update_batch(&none, &[], None, 1)?;
        let state = groups.state(EmitTo::All)?;
        groups.merge_batch(&state, &[0], 1)?;
        Ok(state)
    }
}

impl Debug for SingleGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SingleGroup")
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

impl Accumulator for SingleGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(first) = values.first() else {
            return plan_err!("an aggregate needs an argument");
        };
        let groups = vec![0; first.len()];
        self.groups().update_batch(values, &groups, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.peek()?;
        let mut last = (self.maker)();
        last.merge_batch(&state, &[0], 1)?;
        ScalarValue::try_from_array(&last.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self
                .groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.peek()?;
        state
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |column| column.len());
        self.groups().merge_batch(states, &vec![0; rows], 1)
    }
}

/// Calls `each` with row and group of every row that a filter lets through.
pub(super) fn for_each_row(
    groups: &[usize],
    filter: Option<&arrow::array::BooleanArray>,
    mut each: impl FnMut(usize, usize),
) {
    match filter {
        None => {
            for (row, group) in groups.iter().enumerate() {
                each(row, *group);
            }
        }
        Some(filter) => {
            for (row, group) in groups.iter().enumerate() {
                if filter.is_valid(row) && filter.value(row) {
                    each(row, *group);
                }
            }
        }
    }
}

/// The state of each row as if it were a group of its own.
pub(super) fn one_group_each(
    maker: &Maker,
    values: &[ArrayRef],
    filter: Option<&arrow::array::BooleanArray>,
) -> Result<Vec<ArrayRef>> {
    let rows = values.first().map_or(0, |column| column.len());
    let groups: Vec<usize> = (0..rows).collect();
    let mut single = maker();
    single.update_batch(values, &groups, filter, rows)?;
    single.state(EmitTo::All)
}
