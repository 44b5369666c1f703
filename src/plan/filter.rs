//! Filters.

use datafusion::logical_expr::Filter;
use weir_operators::filter;
use weir_runtime::{Result, Stream};

use super::Planner;

impl Planner<'_> {
    pub(super) fn filter(&mut self, node: &Filter) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let condition = self.expression(&node.predicate, node.input.schema())?;
        let id = self.id("filter");
        Ok(self.builder.operator(id, [input], filter(condition)))
    }
}
