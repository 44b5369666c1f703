//! From a logical plan to a topology: one file per kind of node.
//!
//! The plan comes analysed (Spark's types, nothing folded or moved). It is checked against what streams cannot do, columns nobody
//! reads are pruned, and every node becomes one operator; the runtime fuses neighbours into one chain. Ids of nodes follow
//! from the shape of the plan: `source-0` is the first source met from the left, `filter-1` the second filter, so that a plan
//! written again gets its old ids.

mod aggregate;
mod changes;
mod dedup;
mod endless;
mod equality;
mod error;
mod event_time;
mod explode;
mod filter;
mod keys;
mod leaf;
mod limit;
mod nodes;
mod project;
mod prune;
mod repartition;
mod session;
mod sort;
mod source;
#[cfg(test)]
mod tests;
mod time_bound;
mod top_n;
mod union;
pub(crate) mod unsupported;
mod watermark;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use weir_operators::{EpochTime, Expression};
use weir_runtime::{OutputMode, Result, Sink, Stream, Topology, TopologyBuilder, WeirError};

pub(crate) use error::{data_error, plan_error};
pub(crate) use leaf::{StreamLeaf, is_streaming, touches_stream};
pub(crate) use nodes::{DeduplicateNode, WatermarkNode};

use crate::sql::Generate;

/// What of a query beside its plan decides how it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) mode: OutputMode,
    /// Aggregates that the checkpoint does not know begin without rows instead of being refused.
    pub(crate) allow_new_aggregates: bool,
}

impl From<OutputMode> for Options {
    fn from(mode: OutputMode) -> Self {
        Self {
            mode,
            allow_new_aggregates: false,
        }
    }
}

/// The topology of an analysed plan that ends in `sink`.
///
/// # Errors
/// Everything that streams cannot do, all at once; expressions that cannot be executed; sources that cannot be made.
pub(crate) fn plan_stream(
    context: &SessionContext,
    plan: &LogicalPlan,
    sink: Arc<dyn Sink>,
    options: impl Into<Options>,
) -> Result<Topology> {
    let options = options.into();
    let mode = options.mode;
    unsupported::check(plan, mode)?;
    endless::warn_of_endless_state(plan, mode);
    let plan = prune::prune(plan.clone(), &context.state())?;
    let sources = source::Sources::of(&plan);
    let top_ns = top_n::TopNs::of(&plan);
    let keys = keys::key_columns(&plan);
    let mut planner = Planner {
        context,
        builder: Topology::builder(),
        ids: BTreeMap::new(),
        sources,
        mode,
        options,
        changes: changes::Changes::of(&plan, mode, &top_ns),
        top_ns,
        keyed: !keys.is_empty(),
    };
    planner.builder.output_mode(mode);
    planner.builder.key_columns(keys);
    let stream = planner.node(&plan)?;
    planner.builder.sink("sink", stream, sink);
    planner.builder.build()
}

/// A topology under construction.
struct Planner<'a> {
    context: &'a SessionContext,
    builder: TopologyBuilder,
    /// Next number of each kind of node.
    ids: BTreeMap<&'static str, usize>,
    sources: source::Sources,
    mode: OutputMode,
    options: Options,
    changes: changes::Changes,
    top_ns: top_n::TopNs,
    /// The output has columns that tell its rows apart.
    keyed: bool,
}

impl Planner<'_> {
    fn node(&mut self, plan: &LogicalPlan) -> Result<Stream> {
        match plan {
            LogicalPlan::TableScan(scan) => self.source(scan),
            LogicalPlan::SubqueryAlias(alias) => self.node(&alias.input),
            LogicalPlan::Projection(projection) => self.project(projection),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(distinct) => self.distinct(distinct),
            LogicalPlan::Limit(limit) => match self.limit_of_result(limit)? {
                Some(stream) => Ok(stream),
                None => self.limit(limit),
            },
            LogicalPlan::Repartition(repartition) => self.repartition(repartition),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Window(window) => self.top_n(window),
            other => {
                if let Some(generate) = Generate::of(other) {
                    self.explode(generate)
                } else if let Some(watermark) = WatermarkNode::of(other) {
                    self.watermark(watermark)
                } else if let Some(deduplicate) = DeduplicateNode::of(other) {
                    self.deduplicate(deduplicate)
                } else {
                    Err(WeirError::internal(format!(
                        "no operator for the plan node {}",
                        other.display()
                    )))
                }
            }
        }
    }

    /// The next id of this kind.
    fn id(&mut self, kind: &'static str) -> String {
        let next = self.ids.entry(kind).or_default();
        let id = format!("{kind}-{next}");
        *next += 1;
        id
    }

    /// The executable form of an expression over rows of `schema`.
    fn expression(&self, expr: &Expr, schema: &DFSchema) -> Result<Expression> {
        Ok(Expression::new(
            executable(self.context, expr, schema)?,
            data_error,
        ))
    }
}

/// The executable form of an expression over rows of `schema`; the time is that of the epoch.
fn executable(
    context: &SessionContext,
    expr: &Expr,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let now = Arc::new(EpochTime) as Arc<dyn PhysicalExpr>;
    crate::sql::physical(context, expr, schema, &now).map_err(plan_error)
}
