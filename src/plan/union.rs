//! Unions. Analysis has given all inputs equal types.

use datafusion::logical_expr::Union;
use weir_operators::union;
use weir_runtime::{Result, Stream};

use super::Planner;

impl Planner<'_> {
    pub(super) fn union(&mut self, node: &Union) -> Result<Stream> {
        let inputs = node
            .inputs
            .iter()
            .map(|input| self.node(input))
            .collect::<Result<Vec<_>>>()?;
        let id = self.id("union");
        Ok(self
            .builder
            .operator(id, inputs, union(node.schema.as_arrow())))
    }
}
