//! A physical expression and how its errors become errors of the engine. The one place where operators call DataFusion.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use weir_runtime::{Fault, Result, WeirError};

use crate::epoch_time::EpochTime;

/// How an error that an expression reports becomes one of the engine: a library of functions that has typed errors of its own
/// gives the function that finds them.
pub type ErrorMap = fn(DataFusionError) -> WeirError;

/// The default [`ErrorMap`]: an expression fails because of the data it sees.
pub fn data_error(error: DataFusionError) -> WeirError {
    WeirError::data(error.strip_backtrace()).with_source(error)
}

/// An expression over the columns of a batch, by position.
#[derive(Clone)]
pub struct Expression {
    physical: Arc<dyn PhysicalExpr>,
    errors: ErrorMap,
    /// Whether it asks for the time of the epoch.
    timed: bool,
}

impl From<Arc<dyn PhysicalExpr>> for Expression {
    fn from(physical: Arc<dyn PhysicalExpr>) -> Self {
        Self::new(physical, data_error)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.physical.fmt(f)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({})", self.physical)
    }
}

impl Expression {
    /// An expression whose errors `errors` translates.
    pub fn new(physical: Arc<dyn PhysicalExpr>, errors: ErrorMap) -> Self {
        // The visitor returns no errors.
        let timed = physical
            .exists(|node| Ok(EpochTime::is(node)))
            .unwrap_or(false);
        Self {
            physical,
            errors,
            timed,
        }
    }

    /// The column of this position.
    pub fn column(name: &str, index: usize) -> Self {
        Self::from(Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>)
    }

    /// The expression as of an epoch: its processing time in milliseconds since 1970 stands where the time is asked for.
    ///
    /// # Errors
    /// A defect of the expression's nodes, which cannot be taken apart.
    pub fn at(&self, epoch_ms: i64) -> Result<Cow<'_, Self>> {
        if !self.timed {
            return Ok(Cow::Borrowed(self));
        }
        let bind = |node: Arc<dyn PhysicalExpr>| match EpochTime::is(&node) {
            true => Ok(Transformed::yes(EpochTime::literal(epoch_ms))),
            false => Ok(Transformed::no(node)),
        };
        let bound = Arc::clone(&self.physical).transform_up(bind);
        Ok(Cow::Owned(Self {
            physical: bound.map_err(self.errors)?.data,
            errors: self.errors,
            timed: false,
        }))
    }

    /// The position, if the expression is nothing but a column.
    pub fn as_column(&self) -> Option<usize> {
        let any: &dyn Any = self.physical.as_ref();
        any.downcast_ref::<Column>().map(Column::index)
    }

    /// Name, type and nullability of the result.
    ///
    /// # Errors
    /// If the expression does not fit the columns.
    pub fn field(&self, input: &Schema) -> Result<FieldRef> {
        let refuse = |error: DataFusionError| {
            WeirError::plan(format!("expression {self}: {}", error.strip_backtrace()))
        };
        self.physical.return_field(input).map_err(refuse)
    }

    /// One value per row.
    ///
    /// # Errors
    /// What the expression reports, translated, with the first row of the batch that causes it.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.values(batch)
            .map_err(|error| self.located(batch, error, ""))
    }

    /// As [`evaluate`](Self::evaluate), for the column of this name.
    ///
    /// # Errors
    /// As `evaluate`, with the column's name.
    pub fn evaluate_column(&self, name: &str, batch: &RecordBatch) -> Result<ArrayRef> {
        let of = format!("column '{name}', ");
        self.values(batch)
            .map_err(|error| self.located(batch, error, &of))
    }

    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        self.physical
            .evaluate(batch)
            .and_then(|value| value.into_array_of_size(rows))
            .map_err(self.errors)
    }

    /// Finds the row that an error of the data comes from, by evaluating rows one by one; nothing is slower where nothing fails.
    fn located(&self, batch: &RecordBatch, error: WeirError, of: &str) -> WeirError {
        if error.fault() != Fault::Data {
            return error;
        }
        let same = |row: &usize| {
            let alone = self.values(&batch.slice(*row, 1));
            alone.is_err_and(|alone| alone.condition() == error.condition())
        };
        match (0..batch.num_rows()).find(same) {
            Some(row) => {
                error.at_position(format!("row {row} of the batch (from 0), {of}in {self}"))
            }
            None => error,
        }
    }

    /// One truth value per row; null is not true.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate); a result that is not boolean is a defect of the plan.
    pub fn condition(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let values = self.evaluate(batch)?;
        let values = values.as_any().downcast_ref::<BooleanArray>();
        values
            .cloned()
            .ok_or_else(|| WeirError::internal(format!("condition {self} is not boolean")))
    }
}

/// A batch of these columns, also where there are none; a column whose type differs from the schema's only in names or
/// nullability of nested fields is relabelled.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    mut columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if column.data_type() != field.data_type() {
            *column = arrow::compute::cast(column, field.data_type())?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Batches, contexts and calls for the tests of operators.

    use weir_runtime::OperatorState;
    use weir_runtime::{Epoch, Operator, OperatorContext, OperatorSpec, Outbox, Rows};

    use super::*;

    /// A context of subtask 0.
    pub(crate) fn context() -> OperatorContext {
        OperatorContext::new("test", 0, 1)
    }

    /// An operator that has taken empty state tables.
    pub(crate) fn opened(spec: &OperatorSpec, context: &OperatorContext) -> Box<dyn Operator> {
        let mut operator = spec.create(context).expect("create");
        let state = OperatorState::in_memory(spec.tables());
        operator.open(state, context).expect("open");
        operator
    }

    /// Ends an epoch of an operator: its state is committed.
    pub(crate) fn commit(operator: &mut dyn Operator) {
        let state = operator.state().expect("state");
        futures::executor::block_on(state.commit(Epoch::FIRST)).expect("commit");
    }

    /// What an operator emits for each batch, in order.
    pub(crate) fn run(
        spec: &OperatorSpec,
        batches: &[RecordBatch],
    ) -> Result<(Vec<RecordBatch>, OperatorContext)> {
        let context = context();
        let mut operator: Box<dyn Operator> = spec.create(&context)?;
        let mut out = Outbox::default();
        for batch in batches {
            operator.process(0, Rows::inserts(batch.clone()), &context, &mut out)?;
        }
        Ok((
            out.take().into_iter().map(Rows::into_batch).collect(),
            context,
        ))
    }
}
