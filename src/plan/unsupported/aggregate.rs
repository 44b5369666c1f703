//! Refusals that concern aggregations: which output mode they allow, what they may group by, what may stand above them.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use weir_runtime::OutputMode;

use super::{MODE, OPERATION, Problems, aggregations, subtree};
use crate::functions::windows::WindowSpec;
use crate::plan::event_time::{carries, in_all_sets, keys, marks};
use crate::plan::leaf::is_streaming;
use crate::plan::nodes::{DeduplicateNode, WatermarkNode};
use crate::plan::session::has_session;
use crate::sql::Generate;

/// Checks the aggregations of a plan.
pub(super) fn check(plan: &LogicalPlan, mode: OutputMode, problems: &mut Problems) {
    let found = aggregations(plan);
    match (found.first(), mode) {
        (None, OutputMode::Complete) => {
            problems.add(MODE, "output mode complete needs an aggregation: without one the result is all rows of the stream");
        }
        (Some(top), OutputMode::Append) if !groups_by_event_time(top) => problems.add(
            MODE,
            "output mode append needs a watermark on what the last aggregation groups by: without one no group is ever final; call with_watermark on a column it groups by (or groups into windows), before it, or use output mode update or complete",
        ),
        _ => {}
    }
    if mode != OutputMode::Append {
        stacked(plan, mode, problems);
    }
    for node in found {
        if let LogicalPlan::Aggregate(aggregate) = node {
            self::aggregate(aggregate, problems);
        }
    }
}

fn groups_by_event_time(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Aggregate(aggregate) => keys(aggregate)
            .into_iter()
            .any(|key| in_all_sets(key, aggregate) && carries(key, &aggregate.input)),
        other => marks(other).contains(&true),
    }
}

/// Rules of one aggregation, whatever the output mode.
fn aggregate(node: &Aggregate, problems: &mut Problems) {
    let marked = keys(node)
        .into_iter()
        .filter(|expr| carries(expr, &node.input))
        .count();
    if marked > 1 {
        problems.add(
            "MULTIPLE_EVENT_TIME_COLUMNS",
            "more than one event-time column goes into an aggregation: group by one of them",
        );
    }
    windows(node, problems);
}

fn windows(node: &Aggregate, problems: &mut Problems) {
    let mut found: Vec<WindowSpec> = Vec::new();
    for expr in node.group_expr.iter().chain(&node.aggr_expr) {
        // The visitor returns no errors.
        let _visited = expr.apply(|expr| {
            if let Some(window) = WindowSpec::of(expr)
                && !found.contains(&window)
            {
                found.push(window);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    if found.len() > 1 {
        problems.add(OPERATION, "only one time window is allowed in one query");
    }
}

/// Outside append a result of an aggregation still changes. In update mode aggregations above it take old results back; nothing
/// else with state may stand above it.
fn stacked(plan: &LogicalPlan, mode: OutputMode, problems: &mut Problems) {
    for node in subtree(plan) {
        let what = match node {
            LogicalPlan::Aggregate(upper) if mode == OutputMode::Update && is_changelog(upper) => {
                continue;
            }
            LogicalPlan::Distinct(_)
                if mode == OutputMode::Update && node.inputs().into_iter().all(reaches) =>
            {
                continue;
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => "an aggregation",
            LogicalPlan::Join(join) if is_streaming(&join.left) && is_streaming(&join.right) => {
                "a join of streams"
            }
            other if DeduplicateNode::of(other).is_some_and(keys_have_event_time) => {
                "a deduplication"
            }
            _ => continue,
        };
        if node.inputs().into_iter().any(changes) {
            problems.add(
                OPERATION,
                format!("{what} above an aggregation of a stream needs output mode append"),
            );
        }
    }
}

/// True if an aggregation can follow how the results below it change: they reach it row by row.
fn is_changelog(upper: &Aggregate) -> bool {
    !has_session(upper)
        && !matches!(upper.group_expr.as_slice(), [Expr::GroupingSet(_)])
        && reaches(&upper.input)
}

/// True if rows of the plan change later.
fn changes(plan: &LogicalPlan) -> bool {
    let numbered =
        |node: &&LogicalPlan| matches!(node, LogicalPlan::Window(_)) && is_streaming(node);
    !aggregations(plan).is_empty() || subtree(plan).iter().any(numbered)
}

/// True if every aggregation of `plan` is reached through steps that pass changes on.
fn reaches(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Window(_) => plan.inputs().into_iter().all(reaches),
        other if WatermarkNode::of(other).is_some() || Generate::of(other).is_some() => {
            other.inputs().into_iter().all(reaches)
        }
        other => !changes(other),
    }
}

fn keys_have_event_time(node: &DeduplicateNode) -> bool {
    let marks = marks(&node.input);
    let index = |key| node.input.schema().index_of_column(key).ok();
    node.within_watermark
        || node
            .keys
            .iter()
            .filter_map(index)
            .any(|index| marks.get(index) == Some(&true))
}
