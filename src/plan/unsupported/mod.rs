//! What a stream cannot do, with Spark's rules: the plan and the output mode are checked when a query starts, and everything
//! that is wrong is reported at once.
//!
//! Two lists: what Spark refuses as well, and what Spark allows but this version does not run yet ([`not_yet`]). Neither is
//! ever run in a way that could give wrong rows.

mod aggregate;
mod join;
#[cfg(test)]
mod matrix;
mod not_yet;
mod rows;
#[cfg(test)]
mod tests;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use weir_runtime::{OutputMode, Result, WeirError};

use super::leaf::{is_streaming, touches_stream};
use super::top_n::TopNs;

/// Spark's condition for plans and output modes that do not fit.
pub(super) const MODE: &str = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION";
/// Condition of a plan that no output mode makes legal.
pub(super) const OPERATION: &str = "UNSUPPORTED_STREAMING_OPERATION";

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    condition: &'static str,
    text: String,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, condition: &'static str, text: impl Into<String>) {
        let problem = Problem {
            condition,
            text: text.into(),
        };
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    fn into_result(self) -> Result<()> {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        let texts: Vec<&str> = self.0.iter().map(|problem| problem.text.as_str()).collect();
        Err(WeirError::plan(texts.join("; ")).with_condition(first.condition))
    }
}

/// Refuses what streams cannot do.
///
/// # Errors
/// All problems of the plan in this output mode; the condition is that of the first.
pub(crate) fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    let mut problems = Problems::default();
    let top_ns = TopNs::of(plan);
    for node in subtree(plan) {
        rows::check(node, plan, mode, &mut problems);
        window_functions(node, &top_ns, mode, &mut problems);
        join::check(node, mode, &mut problems);
    }
    aggregate::check(plan, mode, &mut problems);
    subqueries(plan, &mut problems);
    problems.into_result()?;
    let mut problems = Problems::default();
    subtree(plan)
        .into_iter()
        .for_each(|node| not_yet::check(node, &mut problems));
    problems.into_result()
}

/// Of window functions, a row number of which only the first few are wanted runs, where results may change.
fn window_functions(node: &LogicalPlan, top_ns: &TopNs, mode: OutputMode, problems: &mut Problems) {
    let LogicalPlan::Window(window) = node else {
        return;
    };
    if is_streaming(node) && (mode != OutputMode::Update || top_ns.rows(window).is_none()) {
        problems.add(
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            "window functions (OVER) are not supported on streams: group by a time window, window(...); the first rows of each \
             partition, row_number() OVER (...) <= n, are supported in output mode update",
        );
    }
}

/// Refuses subqueries that read a stream; all that can be wrong with a plan whose own rows are bounded.
///
/// # Errors
/// If there is one.
pub(crate) fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    let mut problems = Problems::default();
    subqueries(plan, &mut problems);
    problems.into_result()
}

fn subqueries(plan: &LogicalPlan, problems: &mut Problems) {
    for node in subtree(plan) {
        // The visitor returns no errors.
        let _visited = node.apply_subqueries(|subquery| {
            if touches_stream(subquery) {
                let text = "a subquery reads a stream: subqueries must be over bounded tables; use a join of streams";
                problems.add("INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY", text);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
}

/// All nodes of a plan, parents first, without those of subqueries.
fn subtree(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    let mut nodes = Vec::new();
    // The visitor returns no errors.
    let _visited = plan.apply(|node| {
        nodes.push(node);
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}

/// A `SELECT DISTINCT` or an aggregation over a stream: both group.
fn is_aggregation(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_)) && is_streaming(node)
}

/// True if the plan aggregates a stream.
pub(super) fn aggregates(plan: &LogicalPlan) -> bool {
    !aggregations(plan).is_empty()
}

/// The streaming aggregations of a plan, the one nearest to the sink first.
fn aggregations(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    subtree(plan)
        .into_iter()
        .filter(|node| is_aggregation(node))
        .collect()
}
