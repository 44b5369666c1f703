//! Projections.

use datafusion::logical_expr::Projection;
use weir_operators::project;
use weir_runtime::{Result, Stream};

use super::Planner;

impl Planner<'_> {
    pub(super) fn project(&mut self, node: &Projection) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let names = node
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone());
        let expressions = node
            .expr
            .iter()
            .map(|expr| self.expression(expr, node.input.schema()));
        let columns = names
            .zip(expressions)
            .map(|(name, expression)| Ok((name, expression?)))
            .collect::<Result<Vec<_>>>()?;
        let id = self.id("project");
        Ok(self.builder.operator(id, [input], project(columns)))
    }
}
