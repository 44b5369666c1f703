//! What Spark allows on streams and this version does not run: refused by name, so that nobody gets wrong rows.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use super::Problems;
use crate::plan::leaf::is_streaming;

const NOT_YET: &str = "NOT_YET_SUPPORTED";

/// Checks one node.
pub(super) fn check(node: &LogicalPlan, problems: &mut Problems) {
    if !is_streaming(node) {
        return;
    }
    let what = match node {
        LogicalPlan::Join(join) if is_streaming(&join.left) && is_streaming(&join.right) => {
            "a join of two streams"
        }
        LogicalPlan::Join(_) => "a join of a stream with a bounded table",
        other => return subquery(other, problems),
    };
    problems.add(NOT_YET, format!("{what} is not supported on streams yet"));
}

fn subquery(node: &LogicalPlan, problems: &mut Problems) {
    // The visitor returns no errors.
    let _visited = node.apply_subqueries(|_| {
        problems.add(NOT_YET, "a subquery beside a stream is not supported yet");
        Ok(TreeNodeRecursion::Continue)
    });
}
