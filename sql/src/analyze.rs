//! Spark's types and rewrites over a whole plan, bottom-up. Nothing moves: what is evaluated, and when, stays as written.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Aggregate;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Union,
};
use datafusion::optimizer::AnalyzerRule;

use super::generate::Generate;
use crate::functions::coerce::{cast_from, cast_to, common_of};
use crate::functions::error::SparkError;
use crate::functions::operators;
use crate::functions::windows::{self, WindowSpec};

/// Every expression of `plan` with Spark's coercions, UNIONs widened, sliding windows outside aggregations expanded.
pub(super) fn analyze_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan
        .transform_up_with_subqueries(|node| analyze_node(node).map(Transformed::yes))?
        .data)
}

fn analyze_node(node: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Union(union) = node {
        return widen(union);
    }
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    }
    refuse_misplaced(&node)?;
    let node = node.recompute_schema()?;
    let preserver = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|e| {
        let name = preserver.save(&e);
        let e = coerce_expr(e, &schema)?;
        Ok(Transformed::yes(name.restore(e)))
    })?;
    let node = join_keys(rewritten.data)?.recompute_schema()?;
    expand_windows(node)
}

/// `expr` with every operand of the type Spark gives it.
pub(super) fn coerce_expr(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr
        .transform_up(|e| coerce_one(e, schema).map(Transformed::yes))?
        .data)
}

fn coerce_one(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::AggregateFunction(f) => aggregate(f, schema),
        Expr::WindowFunction(f) => window_function(*f, schema),
        Expr::InSubquery(mut s) => {
            let inner = s.subquery.subquery.schema().field(0).data_type().clone();
            let common = common_of(&[s.expr.get_type(schema)?, inner.clone()], "IN")?;
            s.expr = Box::new(cast_to(*s.expr, &common, schema)?);
            if inner != common {
                let plan = cast_columns(s.subquery.subquery.as_ref().clone(), &[common])?;
                s.subquery = s.subquery.with_plan(Arc::new(plan));
            }
            Ok(Expr::InSubquery(s))
        }
        other => operators::coerce(other, schema),
    }
}

fn coerced_args<F: datafusion::logical_expr::type_coercion::functions::UDFCoercionExt>(
    args: Vec<Expr>,
    f: &F,
    schema: &DFSchema,
) -> Result<Vec<Expr>> {
    let fields = args
        .iter()
        .map(|e| e.to_field(schema).map(|(_, f)| f))
        .collect::<Result<Vec<_>>>()?;
    let wanted = fields_with_udf(&fields, f)?;
    let cast = |(e, (have, want)): (
        Expr,
        (&Arc<arrow::datatypes::Field>, Arc<arrow::datatypes::Field>),
    )| cast_from(e, have.data_type(), want.data_type());
    args.into_iter()
        .zip(fields.iter().zip(wanted))
        .map(cast)
        .collect()
}

fn aggregate(mut f: AggregateFunction, schema: &DFSchema) -> Result<Expr> {
    f.params.args = coerced_args(f.params.args, f.func.as_ref(), schema)?;
    f.params.filter = match f.params.filter {
        Some(e) => Some(Box::new(operators::condition(*e, schema)?)),
        None => None,
    };
    Ok(Expr::AggregateFunction(f))
}

fn window_function(mut f: WindowFunction, schema: &DFSchema) -> Result<Expr> {
    f.params.args = match &f.fun {
        WindowFunctionDefinition::AggregateUDF(udf) => {
            coerced_args(f.params.args, udf.as_ref(), schema)?
        }
        WindowFunctionDefinition::WindowUDF(udf) => {
            coerced_args(f.params.args, udf.as_ref(), schema)?
        }
    };
    Ok(Expr::WindowFunction(Box::new(f)))
}

/// Aggregates belong into SELECT, HAVING and ORDER BY of a grouped query, nowhere else.
fn refuse_misplaced(node: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Filter(filter) = node else {
        return Ok(());
    };
    let found = filter
        .predicate
        .exists(|e| Ok(matches!(e, Expr::AggregateFunction(_))))?;
    if found {
        let message = format!(
            "WHERE must not contain aggregates: `{}`; use HAVING",
            filter.predicate
        );
        return Err(SparkError::external("INVALID_WHERE_CONDITION", message));
    }
    Ok(())
}

/// UNION takes columns by position; each becomes the common type under the first input's name.
fn widen(union: Union) -> Result<LogicalPlan> {
    let width = union
        .inputs
        .first()
        .map_or(0, |i| i.schema().fields().len());
    for input in &union.inputs {
        let n = input.schema().fields().len();
        if n != width {
            return Err(SparkError::external(
                "NUM_COLUMNS_MISMATCH",
                format!(
                    "UNION needs inputs of the same width; one has {width} columns, another {n}"
                ),
            ));
        }
    }
    let mut common = Vec::with_capacity(width);
    for c in 0..width {
        let types: Vec<_> = union
            .inputs
            .iter()
            .map(|i| i.schema().field(c).data_type().clone())
            .collect();
        common.push(
            common_of(&types, &format!("column {} of UNION", c + 1))
                .map_err(|e| incompatible(&e))?,
        );
    }
    let inputs = union
        .inputs
        .iter()
        .map(|i| cast_columns(i.as_ref().clone(), &common).map(Arc::new));
    Ok(LogicalPlan::Union(Union::try_new(
        inputs.collect::<Result<Vec<_>>>()?,
    )?))
}

fn incompatible(e: &datafusion::error::DataFusionError) -> datafusion::error::DataFusionError {
    SparkError::external("INCOMPATIBLE_COLUMN_TYPE", e.strip_backtrace())
}

/// `plan` with its columns cast to `types`; unchanged if they have them.
fn cast_columns(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    if schema
        .fields()
        .iter()
        .zip(types)
        .all(|(f, t)| f.data_type().equals_datatype(t))
    {
        return Ok(plan);
    }
    let exprs = schema.iter().zip(types).map(|((q, f), t)| {
        let column = Expr::Column(datafusion::common::Column::from((q, f)));
        let cast = cast_from(column.clone(), f.data_type(), t)?;
        Ok(if cast == column {
            column
        } else {
            cast.alias(f.name())
        })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        Arc::new(plan),
    )?))
}

/// Both sides of an equality of a join in one type.
fn join_keys(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Join(mut join) = node else {
        return Ok(node);
    };
    for (l, r) in &mut join.on {
        let types = [
            l.get_type(join.left.schema())?,
            r.get_type(join.right.schema())?,
        ];
        let common = common_of(&types, "JOIN")?;
        *l = cast_from(l.clone(), &types[0], &common)?;
        *r = cast_from(r.clone(), &types[1], &common)?;
    }
    if let Some(filter) = join.filter.take() {
        let both = join.left.schema().join(join.right.schema())?;
        join.filter = Some(operators::condition(filter, &both)?);
    }
    Ok(LogicalPlan::Join(join))
}

/// `SELECT window(ts, …)` outside an aggregation: rows are repeated for each window they fall into, rows without a time
/// are dropped.
fn expand_windows(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = node else {
        return Ok(node);
    };
    let mut call = None;
    for e in &projection.expr {
        e.apply(|e| {
            if call.is_none()
                && matches!(e, Expr::ScalarFunction(_))
                && matches!(WindowSpec::of(e), Some(WindowSpec::Fixed { .. }))
            {
                call = Some(e.clone());
            }
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
    }
    let Some((call, slots)) = call.and_then(|c| windows::slots(&c).map(|s| (c, s))) else {
        return Ok(LogicalPlan::Projection(projection));
    };
    let t = call.get_type(projection.input.schema())?;
    let column = arrow::datatypes::Field::new("__window", t, true);
    let generate = Generate::try_new(
        projection.input.as_ref().clone(),
        slots,
        false,
        false,
        None,
        vec![column],
    )?;
    let window = Expr::Column(datafusion::common::Column::new_unqualified("__window"));
    let replace = |e: Expr| -> Result<Expr> {
        let name = e.schema_name().to_string();
        let replaced = e.transform_up(|e| {
            Ok(if e == call {
                Transformed::yes(window.clone())
            } else {
                Transformed::no(e)
            })
        })?;
        Ok(if replaced.transformed {
            replaced.data.alias_if_changed(name)?
        } else {
            replaced.data
        })
    };
    let exprs = projection
        .expr
        .into_iter()
        .map(replace)
        .collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(generate.into_plan())
        .project(exprs)?
        .build()
}

/// Time windows of a batch aggregation as rows: every row once for each window it falls into. Streams keep the marker,
/// whose windows their state is organised by; this rule runs only where a plan is executed as a batch.
#[derive(Debug)]
pub(super) struct ExpandWindows;

impl AnalyzerRule for ExpandWindows {
    fn name(&self) -> &str {
        "expand_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan
            .transform_up_with_subqueries(|node| expand_grouping(node).map(Transformed::yes))?
            .data)
    }
}

fn expand_grouping(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(aggregate) = node else {
        return Ok(node);
    };
    let is_window = |e: &&Expr| matches!(WindowSpec::of(e), Some(WindowSpec::Fixed { .. }));
    let call = aggregate.group_expr.iter().find(is_window).cloned();
    let Some((call, slots)) =
        call.and_then(|c| windows::slots(&c.clone().unalias()).map(|s| (c, s)))
    else {
        return Ok(LogicalPlan::Aggregate(aggregate));
    };
    let t = call.get_type(aggregate.input.schema())?;
    let column = arrow::datatypes::Field::new("__window", t, true);
    let generate = Generate::try_new(
        aggregate.input.as_ref().clone(),
        slots,
        false,
        false,
        None,
        vec![column],
    )?;
    let window = Expr::Column(datafusion::common::Column::new_unqualified("__window"));
    let groups = aggregate.group_expr.iter().map(|e| match *e == call {
        true => window.clone().alias(e.schema_name().to_string()),
        false => e.clone(),
    });
    let groups = groups.collect();
    let rewritten = Aggregate::try_new(
        Arc::new(generate.into_plan()),
        groups,
        aggregate.aggr_expr.clone(),
    )?;
    Ok(LogicalPlan::Aggregate(rewritten))
}
