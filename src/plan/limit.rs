//! Limits: the first rows of a query's life, counted by one subtask.

use datafusion::logical_expr::{FetchType, Limit};
use weir_operators::limit;
use weir_runtime::{Partitioning, Result, Stream, WeirError};

use super::{Planner, plan_error};

impl Planner<'_> {
    pub(super) fn limit(&mut self, node: &Limit) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let rows = match node.get_fetch_type().map_err(plan_error)? {
            FetchType::Literal(None) => return Ok(input),
            FetchType::Literal(Some(rows)) => rows as u64,
            FetchType::UnsupportedExpr => {
                return Err(WeirError::plan(
                    "LIMIT on a stream needs a number that does not depend on rows",
                ));
            }
        };
        let id = self.id("limit");
        let stream =
            self.builder
                .operator(id, [input.partitioned(Partitioning::Single)], limit(rows));
        self.builder.parallelism(stream, 1);
        Ok(stream)
    }
}
