//! Which output columns tell the rows of a result apart: those that a sink in output mode update can upsert by.

use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};

use super::nodes::DeduplicateNode;
use super::top_n;
use crate::functions::windows::WindowSpec;

/// Names of the columns that together identify a row of the result, in the order of the key; empty if the plan has none or a
/// part of the key does not survive to the output.
pub(super) fn key_columns(plan: &LogicalPlan) -> Vec<String> {
    let names = |positions: Vec<usize>| {
        let field = |position: usize| plan.schema().field(position).name().clone();
        positions.into_iter().map(field).collect()
    };
    positions(plan).map(names).unwrap_or_default()
}

/// Positions of the key in the output columns; `None` if there is none.
pub(super) fn positions(plan: &LogicalPlan) -> Option<Vec<usize>> {
    match plan {
        LogicalPlan::Projection(node) => {
            let below = positions(&node.input)?;
            let survivor = |key: usize| {
                let find = |expr: &Expr| identifies(expr, key, &node.input);
                node.expr.iter().position(find)
            };
            below.into_iter().map(survivor).collect()
        }
        LogicalPlan::Filter(node) => positions(&node.input),
        LogicalPlan::Sort(node) => positions(&node.input),
        LogicalPlan::Limit(node) => positions(&node.input),
        LogicalPlan::Repartition(node) => positions(&node.input),
        LogicalPlan::SubqueryAlias(node) => positions(&node.input),
        LogicalPlan::Aggregate(node) => {
            let keys = node.schema.fields().len() - node.aggr_expr.len();
            Some((0..keys).collect())
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Some((0..input.schema().fields().len()).collect())
        }
        LogicalPlan::Window(node) => top_n::key_positions(node),
        other => {
            let node = DeduplicateNode::of(other)?;
            let index = |key| node.input.schema().index_of_column(key).ok();
            node.keys.iter().map(index).collect()
        }
    }
}

/// True if the value of `expr` tells apart what column `key` of its input tells apart: the column itself under any name, a whole
/// number in another width, or the start or end of a window of fixed length.
fn identifies(expr: &Expr, key: usize, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => identifies(&alias.expr, key, input),
        Expr::Column(column) => input.schema().maybe_index_of_column(column) == Some(key),
        other => {
            let bound = WindowSpec::bound_of(other).is_some_and(|window| {
                identifies(window, key, input) && is_fixed_window(key, input)
            });
            let whole = |expr: &Expr| {
                expr.get_type(input.schema())
                    .is_ok_and(|data_type| data_type.is_integer())
            };
            let number = top_n::cast(other).filter(|number| whole(number) && whole(other));
            bound || number.is_some_and(|number| identifies(number, key, input))
        }
    }
}

/// True if column `position` is a window of fixed length that an aggregation below grouped by.
fn is_fixed_window(position: usize, plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(node) => node
            .group_expr
            .get(position)
            .is_some_and(|expr| matches!(WindowSpec::of(expr), Some(WindowSpec::Fixed { .. }))),
        LogicalPlan::Projection(node) => match node.expr.get(position).map(|e| e.clone().unalias())
        {
            Some(Expr::Column(column)) => node
                .input
                .schema()
                .maybe_index_of_column(&column)
                .is_some_and(|below| is_fixed_window(below, &node.input)),
            _ => false,
        },
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => plan
            .inputs()
            .first()
            .is_some_and(|input| is_fixed_window(position, input)),
        LogicalPlan::SubqueryAlias(node) => is_fixed_window(position, &node.input),
        _ => false,
    }
}
