//! The one optimization of streaming plans: columns nobody reads are not read.
//!
//! DataFusion's other rules are left out. They move filters (below a watermark a filter would hide event times) or fold and
//! reorder expressions, which changes for which rows an error is raised.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use weir_runtime::Result;

use super::error::plan_error;

/// The plan with projections merged and pushed into its leaves. Names and order of the output columns stay.
pub(super) fn prune(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let optimizer = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
    optimizer
        .optimize(plan, state, |_, _| {})
        .map_err(plan_error)
}
