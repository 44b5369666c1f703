//! Output mode update: which nodes change rows they gave earlier, and which of them have to tell the old row as well.
//!
//! An aggregation and a top-N change their results. A sink wants the new rows only; an aggregation or a top-N above takes the
//! old row back and adds the new one, so below such a node both are told.

use std::collections::HashSet;

use datafusion::logical_expr::LogicalPlan;
use weir_runtime::OutputMode;

use super::nodes::WatermarkNode;
use super::top_n::TopNs;
use crate::sql::Generate;

/// The changing nodes of a plan, by address, which is theirs as long as the plan lives.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Nodes whose output has changes.
    changing: HashSet<usize>,
    /// Aggregations, distincts and top-N that have to tell old rows.
    before: HashSet<usize>,
}

/// The identity of a node in its plan.
pub(super) fn address<T>(node: &T) -> usize {
    std::ptr::from_ref(node).addr()
}

impl Changes {
    /// Those of a plan in this output mode.
    pub(super) fn of(plan: &LogicalPlan, mode: OutputMode, top_ns: &TopNs) -> Self {
        let mut changes = Self::default();
        if mode == OutputMode::Update {
            changes.visit(plan, top_ns, false);
        }
        changes
    }

    /// True if rows of `plan` take back or change earlier ones.
    pub(super) fn in_output_of(&self, plan: &LogicalPlan) -> bool {
        self.changing.contains(&address(plan))
    }

    /// True if the aggregation, distinct or window node has to tell the old row before a new one.
    pub(super) fn tells_before<T>(&self, node: &T) -> bool {
        self.before.contains(&address(node))
    }

    /// Visits a plan of which old rows are wanted or not; true if its output has changes.
    fn visit(&mut self, plan: &LogicalPlan, top_ns: &TopNs, wanted: bool) -> bool {
        let (own, inner) = match plan {
            LogicalPlan::Aggregate(node) => (Some(address(node)), true),
            LogicalPlan::Distinct(node) => (Some(address(node)), true),
            LogicalPlan::Window(node) if top_ns.rows(node).is_some() => (Some(address(node)), true),
            // Deduplication keeps first rows, whatever becomes of them; joins and others are not run over changes.
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Repartition(_) => (None, wanted),
            other if WatermarkNode::of(other).is_some() || Generate::of(other).is_some() => {
                (None, wanted)
            }
            _ => (None, false),
        };
        let mut below = false;
        for input in plan.inputs() {
            below |= self.visit(input, top_ns, inner);
        }
        if let Some(own) = own.filter(|_| wanted) {
            self.before.insert(own);
        }
        let changing = own.is_some() || below;
        if changing {
            self.changing.insert(address(plan));
        }
        changing
    }
}
