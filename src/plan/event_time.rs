//! Which columns of a plan carry a watermark: the declared event-time column, its copies under other names, and time windows
//! over it. Everything computed from it in another way carries none (Spark keeps the mark in the attribute's metadata).

use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, JoinType, LogicalPlan};

use super::nodes::WatermarkNode;
use crate::functions::windows::WindowSpec;
use crate::sql::Generate;

/// One entry per output column of `plan`.
pub(super) fn marks(plan: &LogicalPlan) -> Vec<bool> {
    let width = plan.schema().fields().len();
    let mut marks = match plan {
        LogicalPlan::Projection(node) => node
            .expr
            .iter()
            .map(|expr| carries(expr, &node.input))
            .collect(),
        LogicalPlan::Aggregate(node) => {
            let groups = keys(node)
                .into_iter()
                .map(|expr| in_all_sets(expr, node) && carries(expr, &node.input));
            // Behind the keys: the id of several sets of keys, and results.
            groups.collect()
        }
        LogicalPlan::Join(node) => match node.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => input_marks(&node.left),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                input_marks(&node.right)
            }
            _ => [input_marks(&node.left), input_marks(&node.right)].concat(),
        },
        LogicalPlan::Union(node) => {
            let inputs: Vec<Vec<bool>> = node.inputs.iter().map(|input| marks(input)).collect();
            (0..width)
                .map(|column| inputs.iter().any(|input| input.get(column) == Some(&true)))
                .collect()
        }
        LogicalPlan::TableScan(_) => Vec::new(),
        other if Generate::of(other).is_some() => generated(other),
        other => other
            .inputs()
            .first()
            .map(|input| input_marks(input))
            .unwrap_or_default(),
    };
    marks.resize(width, false);
    if let Some(node) = WatermarkNode::of(plan)
        && let Ok(index) = node.input.schema().index_of_column(&node.column)
    {
        marks[index] = true;
    }
    marks
}

/// The keys of an aggregation, each once.
pub(super) fn keys(node: &Aggregate) -> Vec<&Expr> {
    grouping_set_to_exprlist(&node.group_expr).unwrap_or_default()
}

/// Whether every set of keys of an aggregation holds this key.
pub(super) fn in_all_sets(key: &Expr, node: &Aggregate) -> bool {
    match node.group_expr.as_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
            sets.iter().all(|set| set.contains(key))
        }
        [Expr::GroupingSet(_)] => false,
        _ => true,
    }
}

/// A sliding `window` outside an aggregation became a column that an explode of its windows makes.
fn generated(plan: &LogicalPlan) -> Vec<bool> {
    let Some(node) = Generate::of(plan) else {
        return Vec::new();
    };
    let mut marks = input_marks(&node.input);
    marks.push(carries_slots(&node.list, &node.input));
    marks
}

fn input_marks(input: &LogicalPlan) -> Vec<bool> {
    let mut found = marks(input);
    found.resize(input.schema().fields().len(), false);
    found
}

/// True if the value of `expr` over the rows of `input` carries a watermark.
pub(super) fn carries(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Alias(alias) => carries(&alias.expr, input),
        Expr::Column(column) => {
            let index = input.schema().maybe_index_of_column(column);
            index.is_some_and(|index| marks(input).get(index) == Some(&true))
        }
        other => match (WindowSpec::of(other), WindowSpec::window_time_of(other)) {
            (Some(WindowSpec::Fixed { time, .. } | WindowSpec::Session { time, .. }), _) => {
                carries(&time, input)
            }
            (_, Some(window)) => carries(&window, input),
            _ => false,
        },
    }
}

fn carries_slots(expr: &Expr, input: &LogicalPlan) -> bool {
    let Expr::ScalarFunction(call) = expr else {
        return false;
    };
    call.func.name() == "window_slots" && call.args.first().is_some_and(|time| carries(time, input))
}
