//! `repartition` and `coalesce`: an exchange between two tasks of other numbers of subtasks.

use datafusion::logical_expr::{Expr, Partitioning as Scheme, Repartition};
use weir_operators::union;
use weir_runtime::{Partitioning, Result, Stream, WeirError};

use super::Planner;

impl Planner<'_> {
    pub(super) fn repartition(&mut self, node: &Repartition) -> Result<Stream> {
        let (partitioning, subtasks) = scheme(&node.partitioning_scheme)?;
        let input = self.node(&node.input)?;
        let schema = self.builder.schema(input);
        let id = self.id("repartition");
        let stream = self
            .builder
            .operator(id, [input.partitioned(partitioning)], union(&schema));
        if let Some(subtasks) = subtasks {
            self.builder.parallelism(stream, subtasks);
        }
        Ok(stream)
    }
}

fn scheme(scheme: &Scheme) -> Result<(Partitioning, Option<usize>)> {
    match scheme {
        Scheme::RoundRobinBatch(1) => Ok((Partitioning::Single, Some(1))),
        Scheme::RoundRobinBatch(subtasks) => Ok((Partitioning::RoundRobin, Some(*subtasks))),
        Scheme::Hash(keys, subtasks) => Ok((Partitioning::Hash(columns(keys)?), Some(*subtasks))),
        Scheme::DistributeBy(keys) => Ok((Partitioning::Hash(columns(keys)?), None)),
        Scheme::Range(_) => Err(WeirError::plan(
            "repartition by range is not supported on streams: give columns or a number",
        )),
    }
}

fn columns(keys: &[Expr]) -> Result<Vec<String>> {
    let name = |key: &Expr| match key {
        Expr::Column(column) => Ok(column.name.clone()),
        other => Err(WeirError::plan(format!(
            "repartition of a stream needs columns, got {other}"
        ))),
    };
    keys.iter().map(name).collect()
}
