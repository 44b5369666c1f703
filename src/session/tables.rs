//! Tables and views by name. Names are kept as written and found in any letter case, as Spark does.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionContext;
use weir_runtime::{Result, WeirError};

use crate::plan::plan_error;

/// A bare name, letter by letter.
pub(super) fn reference(name: &str) -> TableReference {
    TableReference::bare(name.to_owned())
}

/// All names, sorted.
pub(super) fn names(context: &SessionContext) -> Vec<String> {
    let state = context.state();
    let schema = state.schema_for_ref(reference("x"));
    let mut names = schema
        .map(|schema| schema.table_names())
        .unwrap_or_default();
    names.sort();
    names
}

/// The name as it was written when the table was made.
pub(super) fn find(context: &SessionContext, name: &str) -> Option<String> {
    let names = names(context);
    let exact = names.iter().find(|known| *known == name);
    exact
        .or_else(|| names.iter().find(|known| known.eq_ignore_ascii_case(name)))
        .cloned()
}

/// A plan that reads a table or view.
pub(super) async fn scan(context: &SessionContext, name: &str) -> Result<LogicalPlan> {
    let name = name.trim_matches('`');
    let found = find(context, name).ok_or_else(|| {
        let known = names(context).join(", ");
        WeirError::plan(format!(
            "table or view '{name}' does not exist, tables: {known}"
        ))
        .with_condition("TABLE_OR_VIEW_NOT_FOUND")
    })?;
    let provider = context
        .table_provider(reference(&found))
        .await
        .map_err(plan_error)?;
    scan_provider(&found, provider)
}

/// A plan that reads a table under a name.
pub(super) fn scan_provider(name: &str, provider: Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let builder = LogicalPlanBuilder::scan(reference(name), provider_as_source(provider), None)
        .map_err(plan_error)?;
    builder.build().map_err(plan_error)
}
