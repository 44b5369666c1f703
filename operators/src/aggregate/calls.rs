//! The aggregate functions of one aggregation and their accumulators.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use weir_runtime::{Result, WeirError};

use crate::expression::ErrorMap;

/// One call of an aggregate function.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// Stable id: function, arguments and filter as text, without the alias. Its state is found by it after a restart.
    pub id: String,
    /// Name of the result column.
    pub name: String,
    /// The function over the columns of the input.
    pub function: Arc<AggregateFunctionExpr>,
    /// Position of a boolean column of the input: only rows for which it is true count.
    pub filter: Option<usize>,
    /// The result depends on the order of rows.
    pub ordered: bool,
    /// Equal arguments count once for each group.
    pub distinct: Option<Distinct>,
}

/// Arguments that count once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distinct {
    /// Stable text of the arguments and the filter, by which their values are found after a restart.
    pub id: String,
    /// Types of the arguments.
    pub arguments: Vec<DataType>,
}

impl AggregateCall {
    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>, DataFusionError> {
        if self.function.groups_accumulator_supported() {
            return self.function.create_groups_accumulator();
        }
        let function = Arc::clone(&self.function);
        let factory = move || function.create_accumulator();
        Ok(Box::new(GroupsAccumulatorAdapter::new(factory)))
    }

    /// Whether what is kept is the result already: totals, counts, extremes.
    fn result_is_state(&self) -> bool {
        const SAME: &[&str] = &[
            "count", "sum", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor",
        ];
        let result = self.function.field();
        let state = self.function.state_fields();
        SAME.contains(&self.function.fun().name())
            && state
                .is_ok_and(|state| state.len() == 1 && state[0].data_type() == result.data_type())
    }

    /// The columns of the intermediate state, named after the id.
    fn state_fields(&self) -> Result<Vec<FieldRef>, DataFusionError> {
        let fields = self.function.state_fields()?;
        let named = fields.iter().enumerate().map(|(index, field)| {
            let name = format!("{}[{index}]", self.id);
            Arc::new(Field::new(name, field.data_type().clone(), true))
        });
        Ok(named.collect())
    }
}

/// All calls of an aggregation.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) list: Vec<AggregateCall>,
    pub(crate) errors: ErrorMap,
    /// Columns of all states, one call after the other.
    pub(crate) state: Fields,
    /// Which of them belong to which call.
    ranges: Vec<Range<usize>>,
}

impl Calls {
    pub(crate) fn new(list: Vec<AggregateCall>, errors: ErrorMap) -> Result<Self> {
        let (mut state, mut ranges) = (Vec::new(), Vec::new());
        for call in &list {
            let fields = call.state_fields().map_err(errors)?;
            ranges.push(state.len()..state.len() + fields.len());
            state.extend(fields);
        }
        Ok(Self {
            list,
            errors,
            state: state.into(),
            ranges,
        })
    }

    /// The columns of the results.
    pub(crate) fn results(&self) -> Vec<FieldRef> {
        let field = |call: &AggregateCall| {
            let data_type = call.function.field().data_type().clone();
            Arc::new(Field::new(&call.name, data_type, true))
        };
        self.list.iter().map(field).collect()
    }

    /// Arguments and filter of a call over the rows of a batch.
    pub(crate) fn evaluated<'a>(
        &self,
        call: usize,
        batch: &'a RecordBatch,
    ) -> Result<(Vec<ArrayRef>, Option<&'a BooleanArray>)> {
        self.evaluated_call(&self.list[call], batch)
    }

    fn evaluated_call<'a>(
        &self,
        call: &AggregateCall,
        batch: &'a RecordBatch,
    ) -> Result<(Vec<ArrayRef>, Option<&'a BooleanArray>)> {
        let filter = call.filter.map(|column| condition(batch, column));
        let arguments = arguments(call, batch).map_err(self.errors)?;
        Ok((arguments, filter.transpose()?))
    }

    /// Whether states are the same in whatever order rows and earlier states are added; sums of floating-point numbers are not.
    pub(crate) fn exact(&self) -> bool {
        let exact = |field: &FieldRef| {
            let data_type = field.data_type();
            data_type.is_integer()
                || data_type.is_decimal()
                || data_type.is_temporal()
                || data_type.is_string()
                || *data_type == DataType::Boolean
        };
        !self.ordered() && self.state.iter().all(exact)
    }

    pub(crate) fn ordered(&self) -> bool {
        self.list.iter().any(|call| call.ordered)
    }

    /// The states of one group without rows.
    pub(crate) fn initial(&self) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::with_capacity(self.state.len());
        for call in &self.list {
            let accumulator = call.function.create_accumulator();
            let scalars = accumulator.and_then(|mut accumulator| accumulator.state());
            for scalar in scalars.map_err(self.errors)? {
                states.push(scalar.to_array().map_err(self.errors)?);
            }
        }
        Ok(states)
    }

    /// Results of `groups` groups whose states these are.
    pub(crate) fn evaluate(&self, states: &[ArrayRef], groups: usize) -> Result<Vec<ArrayRef>> {
        let all: Vec<usize> = (0..groups).collect();
        let calls = self.list.iter().zip(&self.ranges);
        let results = calls.map(|(call, range)| {
            let states = &states[range.clone()];
            if call.result_is_state() {
                return Ok(Arc::clone(&states[0]));
            }
            let result = call.accumulator().and_then(|mut accumulator| {
                accumulator.merge_batch(states, &all, groups)?;
                accumulator.evaluate(EmitTo::All)
            });
            result.map_err(self.errors)
        });
        results.collect()
    }
}

/// One accumulator per call, over the groups of an epoch.
pub(crate) struct Accumulators(Vec<Box<dyn GroupsAccumulator>>);

impl Accumulators {
    pub(crate) fn new(calls: &Calls) -> Result<Self> {
        let made = calls.list.iter().map(AggregateCall::accumulator);
        Ok(Self(made.collect::<Result<_, _>>().map_err(calls.errors)?))
    }

    /// Adds rows to the calls that are (or are not) `ordered`; `groups` has the group of each row, out of `total`.
    ///
    /// Libraries take it for granted that a group gets its first row in the call that makes it known, so `total` must not run
    /// ahead of the rows.
    pub(crate) fn update(
        &mut self,
        calls: &Calls,
        ordered: bool,
        batch: &RecordBatch,
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        for (accumulator, call) in self.0.iter_mut().zip(&calls.list) {
            if call.ordered != ordered || call.distinct.is_some() {
                continue;
            }
            let (arguments, filter) = calls.evaluated_call(call, batch)?;
            accumulator
                .update_batch(&arguments, groups, filter, total)
                .map_err(calls.errors)?;
        }
        Ok(())
    }

    /// Adds arguments to one call.
    pub(crate) fn update_one(
        &mut self,
        calls: &Calls,
        call: usize,
        arguments: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        self.0[call]
            .update_batch(arguments, groups, None, total)
            .map_err(calls.errors)
    }

    /// Adds states; `groups` has the group of each, out of `total`.
    pub(crate) fn merge(
        &mut self,
        calls: &Calls,
        states: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        for (accumulator, range) in self.0.iter_mut().zip(&calls.ranges) {
            accumulator
                .merge_batch(&states[range.clone()], groups, total)
                .map_err(calls.errors)?;
        }
        Ok(())
    }

    /// The states of each row as if it were a group of its own.
    pub(crate) fn convert(&self, calls: &Calls, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::with_capacity(calls.state.len());
        for (accumulator, call) in self.0.iter().zip(&calls.list) {
            let (arguments, filter) = calls.evaluated_call(call, batch)?;
            let converted = accumulator.convert_to_state(&arguments, filter);
            states.extend(converted.map_err(calls.errors)?);
        }
        Ok(states)
    }

    /// The results of all groups; the accumulators are empty afterwards.
    pub(crate) fn evaluate(&mut self, calls: &Calls) -> Result<Vec<ArrayRef>> {
        let results = self
            .0
            .iter_mut()
            .map(|accumulator| accumulator.evaluate(EmitTo::All).map_err(calls.errors));
        results.collect()
    }

    /// The states of all `total` groups; the accumulators are empty afterwards.
    pub(crate) fn take(&mut self, calls: &Calls, total: usize) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::with_capacity(calls.state.len());
        for (accumulator, call) in self.0.iter_mut().zip(&calls.list) {
            let columns = accumulator.state(EmitTo::All).map_err(calls.errors)?;
            if let Some(column) = columns.iter().find(|column| column.len() != total) {
                return Err(WeirError::internal(format!(
                    "aggregate {} has {} states for {total} groups",
                    call.id,
                    column.len()
                )));
            }
            states.extend(columns);
        }
        Ok(states)
    }
}

fn arguments(call: &AggregateCall, batch: &RecordBatch) -> Result<Vec<ArrayRef>, DataFusionError> {
    let expressions = call.function.expressions();
    let evaluated = expressions.iter().map(|argument| {
        argument
            .evaluate(batch)?
            .into_array_of_size(batch.num_rows())
    });
    evaluated.collect()
}

fn condition(batch: &RecordBatch, column: usize) -> Result<&BooleanArray> {
    batch
        .column(column)
        .as_any()
        .downcast_ref()
        .ok_or_else(|| WeirError::internal("the filter of an aggregate is not boolean"))
}
