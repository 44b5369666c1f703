//! Warnings of state that no watermark ever bounds although the query has one.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, LogicalPlan};
use weir_runtime::OutputMode;

use super::event_time::{carries, marks};

/// Says which aggregations in update mode a watermark does not bound, because they do not group by its column.
pub(super) fn warn_of_endless_state(plan: &LogicalPlan, mode: OutputMode) {
    // The visitor returns no errors.
    let _visited = plan.apply(|node| {
        if let (LogicalPlan::Aggregate(node), OutputMode::Update) = (node, mode) {
            warn_if_endless(node);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

fn warn_if_endless(node: &Aggregate) {
    let fields = node.input.schema().fields().iter().zip(marks(&node.input));
    let times: Vec<&str> = fields
        .filter(|(_, marked)| *marked)
        .map(|(field, _)| field.name().as_str())
        .collect();
    let bounded = node.group_expr.iter().any(|key| carries(key, &node.input));
    if !times.is_empty() && !bounded {
        tracing::warn!(
            event_time = times.join(", "),
            "the aggregation keeps every group for ever and no row is late: it does not group by the column with the watermark"
        );
    }
}
