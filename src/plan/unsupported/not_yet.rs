//! What Spark allows on streams and this version does not run: refused by name, so that nobody gets wrong rows.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

use super::Problems;
use crate::functions::windows::WindowSpec;
use crate::plan::leaf::is_streaming;
use crate::plan::nodes::DeduplicateNode;

const NOT_YET: &str = "NOT_YET_SUPPORTED";

/// Checks one node.
pub(super) fn check(node: &LogicalPlan, problems: &mut Problems) {
    if !is_streaming(node) {
        return;
    }
    let what = match node {
        LogicalPlan::Aggregate(aggregate) => match aggregation(aggregate) {
            Some(what) => what,
            None => return,
        },
        LogicalPlan::Distinct(_) => "SELECT DISTINCT",
        LogicalPlan::Limit(_) => "LIMIT",
        LogicalPlan::Sort(_) => "sorting",
        LogicalPlan::Window(_) => "a window function",
        LogicalPlan::Join(join) if is_streaming(&join.left) && is_streaming(&join.right) => {
            "a join of two streams"
        }
        LogicalPlan::Join(_) => "a join of a stream with a bounded table",
        other if DeduplicateNode::of(other).is_some() => "deduplication",
        other => return subquery(other, problems),
    };
    problems.add(NOT_YET, format!("{what} is not supported on streams yet"));
}

/// What of an aggregation does not run.
fn aggregation(node: &Aggregate) -> Option<&'static str> {
    let session = |expr: &Expr| matches!(WindowSpec::of(expr), Some(WindowSpec::Session { .. }));
    if node.group_expr.iter().any(session) {
        return Some("a session window");
    }
    None
}

fn subquery(node: &LogicalPlan, problems: &mut Problems) {
    // The visitor returns no errors.
    let _visited = node.apply_subqueries(|_| {
        problems.add(NOT_YET, "a subquery beside a stream is not supported yet");
        Ok(TreeNodeRecursion::Continue)
    });
}
