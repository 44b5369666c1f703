//! Generators: explode, posexplode, inline and their outer forms.

use arrow::datatypes::DataType;
use datafusion::logical_expr::ExprSchemable;
use weir_operators::{Explode, explode};
use weir_runtime::{Result, Stream};

use super::{Planner, plan_error};
use crate::sql::Generate;

impl Planner<'_> {
    pub(super) fn explode(&mut self, node: &Generate) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let spec = Explode {
            input: self.expression(&node.list, node.input.schema())?,
            position: node.position,
            fields: spreads(node)?,
            outer: node.outer,
            keep: None,
            names: node
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect(),
        };
        let id = self.id("explode");
        Ok(self.builder.operator(id, [input], explode(spec)))
    }
}

/// Whether struct elements become one column per field; an `explode` of structs keeps each whole.
fn spreads(node: &Generate) -> Result<bool> {
    let DataType::List(element) = node
        .list
        .get_type(node.input.schema())
        .map_err(plan_error)?
    else {
        return Ok(false);
    };
    let DataType::Struct(inner) = element.data_type() else {
        return Ok(false);
    };
    let made = &node.fields()[usize::from(node.position).min(node.fields().len())..];
    Ok(made.len() != 1 || (inner.len() == 1 && made[0].data_type() == inner[0].data_type()))
}
