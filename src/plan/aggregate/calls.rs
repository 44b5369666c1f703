//! The aggregate functions of a plan node: what tells them apart, and where they find what they read.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as Name, DFSchema};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{Aggregate, Expr};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use weir_operators::{AggregateCall, Distinct};
use weir_runtime::{Result, WeirError};

use super::keys::Keys;
use crate::functions::aggregates::{Duplicates, depends_on_order, duplicates};
use crate::plan::{Planner, executable, plan_error};

/// Name of the function that tells which keys a row's set leaves out.
const GROUPING: &str = "grouping";

/// Columns that the aggregate reads, each expression once.
pub(in crate::plan) struct Columns {
    exprs: Vec<(String, Expr)>,
    /// Which of them hold what their expression says: a time becomes a window, and sets of keys leave keys out.
    lasting: Vec<bool>,
}

impl Columns {
    /// Columns to begin with.
    pub(in crate::plan) fn new(exprs: Vec<(String, Expr)>) -> Self {
        Self {
            lasting: vec![true; exprs.len()],
            exprs,
        }
    }

    /// The columns and what they hold.
    pub(in crate::plan) fn exprs(&self) -> &[(String, Expr)] {
        &self.exprs
    }

    /// Those of the keys.
    pub(in crate::plan) fn of_keys(keys: &Keys) -> Self {
        let list = keys.list.iter();
        let exprs = list.clone().map(|key| (key.name.clone(), key.expr.clone()));
        let lasting = list.map(|key| key.window.is_none() && keys.sets.is_none());
        Self {
            exprs: exprs.collect(),
            lasting: lasting.collect(),
        }
    }

    /// Position of the column that holds `expr`.
    fn of(&mut self, expr: &Expr) -> usize {
        let mut known = self.exprs.iter().zip(&self.lasting);
        if let Some(known) = known.position(|((_, known), lasting)| *lasting && known == expr) {
            return known;
        }
        let index = self.exprs.len();
        self.lasting.push(true);
        self.exprs.push((format!("__a{index}"), expr.clone()));
        index
    }
}

/// An aggregate function of the plan.
pub(in crate::plan) struct Call {
    id: String,
    /// The call without aliases and tables.
    plain: Expr,
    function: AggregateFunction,
    /// Only distinct arguments count, and it makes a difference.
    distinct: bool,
}

/// Where a call finds what it reads.
pub(in crate::plan) struct Positions {
    arguments: Vec<Argument>,
    order: Vec<Argument>,
    filter: Option<usize>,
}

enum Argument {
    Column(usize),
    /// The same for all rows, so it need not travel with them.
    Constant(Expr),
}

/// One result of the plan node.
pub(in crate::plan) enum Outcome {
    /// That of the call with this id.
    Call(String),
    /// Which of these expressions are no keys of a row's set.
    Grouping(Vec<Expr>),
}

fn function(expr: &Expr) -> Result<AggregateFunction> {
    match expr.clone().unalias_nested().data {
        Expr::AggregateFunction(function) => Ok(function),
        other => Err(WeirError::internal(format!(
            "{other} is no aggregate function"
        ))),
    }
}

/// The different calls of an aggregation, and what becomes of each of its results.
pub(in crate::plan) fn calls(node: &Aggregate) -> Result<(Vec<Call>, Vec<Outcome>)> {
    let (mut calls, mut outcomes): (Vec<Call>, Vec<Outcome>) = (Vec::new(), Vec::new());
    for expr in &node.aggr_expr {
        let function = function(expr)?;
        if function.func.name() == GROUPING {
            outcomes.push(Outcome::Grouping(function.params.args));
            continue;
        }
        let plain = plain(expr)?;
        let known = calls.iter().find(|call| call.plain == plain);
        let id = match known {
            Some(call) => call.id.clone(),
            None => {
                let made = call(plain, function, &calls)?;
                calls.push(made);
                calls[calls.len() - 1].id.clone()
            }
        };
        outcomes.push(Outcome::Call(id));
    }
    Ok((calls, outcomes))
}

fn call(plain: Expr, function: AggregateFunction, others: &[Call]) -> Result<Call> {
    let name = plain.schema_name().to_string();
    let taken = |id: &str| others.iter().any(|call| call.id == id);
    // Calls that differ in what their text does not say, such as the type of a constant.
    let copies = (2..).map(|copy| format!("{name} ({copy})"));
    let id = std::iter::once(name.clone())
        .chain(copies)
        .find(|id| !taken(id));
    let id = id.expect("invariant: the numbers do not end");
    let distinct = match (function.params.distinct, duplicates(function.func.name())) {
        (false, _) | (true, Duplicates::Indifferent) => false,
        (true, Duplicates::Counted) => true,
        (true, Duplicates::Unknown) => {
            return Err(WeirError::plan(format!(
                "{id}: DISTINCT is not supported for this aggregate on streams"
            )));
        }
    };
    Ok(Call {
        id,
        plain,
        function,
        distinct,
    })
}

/// The expression without aliases and the tables its columns come from.
pub(in crate::plan) fn plain(expr: &Expr) -> Result<Expr> {
    let bare = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Name::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    });
    Ok(bare.map_err(plan_error)?.data)
}

/// Finds, or makes, the columns of what calls read.
pub(in crate::plan) fn positions(calls: &[Call], columns: &mut Columns) -> Vec<Positions> {
    let mut argument = |expr: &Expr| {
        if expr.any_column_refs() || expr.is_volatile() {
            Argument::Column(columns.of(expr))
        } else {
            Argument::Constant(expr.clone())
        }
    };
    let mut found: Vec<Positions> = Vec::with_capacity(calls.len());
    for call in calls {
        let params = &call.function.params;
        let order = params.order_by.iter().map(|sort| &sort.expr);
        let order = order.map(&mut argument).collect();
        found.push(Positions {
            arguments: params.args.iter().map(&mut argument).collect(),
            order,
            filter: None,
        });
    }
    for (call, positions) in calls.iter().zip(&mut found) {
        positions.filter = call.function.params.filter.as_ref().map(|f| columns.of(f));
    }
    found
}

impl Planner<'_> {
    /// The calls over the columns of `schema`.
    pub(in crate::plan) fn calls(
        &self,
        calls: &[Call],
        positions: &[Positions],
        schema: &SchemaRef,
        shift: Shift,
    ) -> Result<Vec<AggregateCall>> {
        let made = calls.iter().zip(positions);
        made.map(|(call, positions)| self.aggregate_call(call, positions, schema, shift))
            .collect()
    }

    fn aggregate_call(
        &self,
        call: &Call,
        positions: &Positions,
        schema: &SchemaRef,
        shift: Shift,
    ) -> Result<AggregateCall> {
        let function = self.function(call, positions, schema, shift)?;
        let distinct = call
            .distinct
            .then(|| self.distinct_arguments(call, &function, schema));
        Ok(AggregateCall {
            id: call.id.clone(),
            name: call.id.clone(),
            function: Arc::new(function),
            filter: positions.filter.map(|column| shift.of(column)),
            ordered: depends_on_order(call.function.func.name()),
            distinct: distinct.transpose()?,
        })
    }

    fn function(
        &self,
        call: &Call,
        positions: &Positions,
        schema: &SchemaRef,
        shift: Shift,
    ) -> Result<AggregateFunctionExpr> {
        let physical = |argument: &Argument| self.argument(argument, schema, shift);
        let params = &call.function.params;
        if !params.order_by.is_empty() {
            return Err(WeirError::plan(format!(
                "{}: an aggregate in an order of its own is not supported on streams",
                call.id
            )));
        }
        let order = params.order_by.iter().zip(&positions.order);
        let order = order.map(|(sort, argument)| {
            let options = SortOptions {
                descending: !sort.asc,
                nulls_first: sort.nulls_first,
            };
            Ok(PhysicalSortExpr::new(physical(argument)?, options))
        });
        let ignore_nulls = matches!(params.null_treatment, Some(NullTreatment::IgnoreNulls));
        let arguments = positions.arguments.iter().map(physical);
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        AggregateExprBuilder::new(Arc::clone(&call.function.func), arguments)
            .schema(Arc::clone(schema))
            .alias(&call.id)
            .order_by(order.collect::<Result<_>>()?)
            .with_ignore_nulls(ignore_nulls)
            .build()
            .map_err(plan_error)
    }

    fn argument(
        &self,
        argument: &Argument,
        schema: &SchemaRef,
        shift: Shift,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match argument {
            Argument::Column(column) => {
                let index = shift.of(*column);
                Ok(Arc::new(Column::new(schema.field(index).name(), index)))
            }
            Argument::Constant(expr) => executable(self.context, expr, &DFSchema::empty()),
        }
    }

    fn distinct_arguments(
        &self,
        call: &Call,
        function: &AggregateFunctionExpr,
        schema: &SchemaRef,
    ) -> Result<Distinct> {
        let params = &call.function.params;
        let texts = params.args.iter().chain(params.filter.as_deref());
        let texts = texts.map(|expr| Ok(plain(expr)?.schema_name().to_string()));
        let filtered = if params.filter.is_some() {
            "where "
        } else {
            ""
        };
        let types = function.expressions();
        let types = types.iter().map(|expr| expr.data_type(schema));
        Ok(Distinct {
            id: format!(
                "{filtered}{}",
                texts.collect::<Result<Vec<_>>>()?.join(", ")
            ),
            arguments: types.collect::<Result<_, _>>().map_err(plan_error)?,
        })
    }
}

/// Refuses distinct aggregates where their values are not kept.
pub(in crate::plan) fn refuse_distinct(calls: &[AggregateCall], what: &str) -> Result<()> {
    match calls.iter().find(|call| call.distinct.is_some()) {
        None => Ok(()),
        Some(call) => Err(WeirError::plan(format!(
            "{}: distinct aggregates over {what} are not supported",
            call.id
        ))),
    }
}

/// Columns that were put in behind the keys after the others got their positions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::plan) struct Shift {
    /// Number of keys.
    pub(in crate::plan) from: usize,
    /// Number of columns put in.
    pub(in crate::plan) by: usize,
}

impl Shift {
    fn of(self, column: usize) -> usize {
        if column < self.from {
            column
        } else {
            column + self.by
        }
    }
}
