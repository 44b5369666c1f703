//! ORDER BY and LIMIT over the complete result of an aggregation: one subtask that sees all rows of an epoch.

use datafusion::common::DFSchema;
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, Sort, SortExpr};
use weir_operators::{SortKey, sort};
use weir_runtime::{OutputMode, Partitioning, Result, Stream, WeirError};

use super::unsupported::aggregates;
use super::{Planner, plan_error};

impl Planner<'_> {
    pub(super) fn sort(&mut self, node: &Sort) -> Result<Stream> {
        self.sorted(node, node.fetch)
    }

    /// A LIMIT over a complete result; `None` for one that counts the rows of the whole life of a query.
    pub(super) fn limit_of_result(&mut self, node: &Limit) -> Result<Option<Stream>> {
        if self.mode != OutputMode::Complete || !aggregates(&node.input) {
            return Ok(None);
        }
        let fetch = fetch(node)?;
        if let LogicalPlan::Sort(sort) = node.input.as_ref() {
            let fetch = [sort.fetch, fetch].into_iter().flatten().min();
            return self.sorted(sort, fetch).map(Some);
        }
        let input = self.node(&node.input)?;
        let id = self.id("limit");
        let input = input.partitioned(Partitioning::Single);
        Ok(Some(self.builder.operator(
            id,
            [input],
            sort(Vec::new(), fetch),
        )))
    }

    fn sorted(&mut self, node: &Sort, fetch: Option<usize>) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let keys = self.sort_keys(&node.expr, node.input.schema())?;
        let id = self.id("sort");
        let input = input.partitioned(Partitioning::Single);
        Ok(self.builder.operator(id, [input], sort(keys, fetch)))
    }

    /// The executable form of an ORDER BY over rows of `schema`.
    pub(super) fn sort_keys(&self, order: &[SortExpr], schema: &DFSchema) -> Result<Vec<SortKey>> {
        let key = |key: &SortExpr| {
            Ok(SortKey {
                expression: self.expression(&key.expr, schema)?,
                descending: !key.asc,
                nulls_first: key.nulls_first,
            })
        };
        order.iter().map(key).collect()
    }
}

/// How many rows a LIMIT lets through; `None` = all (`LIMIT ALL`).
pub(super) fn fetch(node: &Limit) -> Result<Option<usize>> {
    match node.get_fetch_type().map_err(plan_error)? {
        FetchType::Literal(rows) => Ok(rows),
        FetchType::UnsupportedExpr => Err(WeirError::plan(
            "LIMIT on a stream needs a constant number of rows",
        )),
    }
}
