//! Deduplication. The exchange is by the key columns, in the order of the input.

use std::sync::Arc;

use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan};
use weir_operators::{Dedup, Forget, dedup};
use weir_runtime::{Result, Stream, WeirError};

use super::event_time::marks;
use super::{DeduplicateNode, Planner, WatermarkNode, plan_error};

const MICROS_PER_MS: i64 = 1000;
/// Narrowest and widest bucket of keys that hold the event time, in microseconds.
const BUCKETS: (i64, i64) = (1_000_000, 3_600_000_000);
/// So many buckets make up the delay of the watermark.
const BUCKETS_PER_DELAY: i64 = 64;

impl Planner<'_> {
    pub(super) fn deduplicate(&mut self, node: &DeduplicateNode) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let time = marks(&node.input).iter().position(|mark| *mark);
        let mut keys = node
            .keys
            .iter()
            .map(|key| node.input.schema().index_of_column(key))
            .collect::<datafusion::common::Result<Vec<_>>>()
            .map_err(plan_error)?;
        // Which keys they are counts, not in which order they were named.
        keys.sort_unstable();
        keys.dedup();
        let delay_ms = time.and_then(|_| watermark_delay_ms(&node.input));
        let forget = forget(node, &keys, time, delay_ms)?;
        let schema = self.builder.schema(input);
        let names: Vec<String> = keys
            .iter()
            .map(|key| schema.field(*key).name().clone())
            .collect();
        if let Some(name) = names.iter().find(|name| {
            let same = schema.fields().iter().filter(|field| field.name() == *name);
            same.count() > 1
        }) {
            return Err(WeirError::plan(format!(
                "the key '{name}' of a deduplication is the name of more than one column: rename one"
            ))
            .with_condition("AMBIGUOUS_REFERENCE"));
        }
        if forget == Forget::Never && time.is_some() {
            tracing::warn!(
                keys = names.join(", "),
                "deduplication remembers every key for ever: the event time is no key; \
                 use drop_duplicates_within_watermark or the setting weir.dropDuplicates.retention"
            );
        }
        let id = self.id("dedup");
        let spec = dedup(&schema, Dedup { keys, time, forget })?;
        Ok(self.builder.operator(id, [input.key_by(names)], spec))
    }

    /// `SELECT DISTINCT` is an aggregation by all columns without aggregates, as in Spark: the output mode decides when a row is
    /// emitted.
    pub(super) fn distinct(&mut self, node: &Distinct) -> Result<Stream> {
        let Distinct::All(input) = node else {
            return Err(WeirError::internal(
                "DISTINCT ON over a stream was not refused",
            ));
        };
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let aggregate = Aggregate::try_new(Arc::clone(input), columns.collect(), Vec::new())
            .map_err(plan_error)?;
        self.groups(&aggregate, self.changes.tells_before(node))
    }
}

fn forget(
    node: &DeduplicateNode,
    keys: &[usize],
    time: Option<usize>,
    delay_ms: Option<i64>,
) -> Result<Forget> {
    let after = |ms: i64| Forget::After {
        micros: ms.saturating_mul(MICROS_PER_MS),
    };
    if node.within_watermark {
        let delay = delay_ms.ok_or_else(|| {
            WeirError::internal("a deduplication within the watermark has no watermark below it")
        })?;
        return Ok(after(delay));
    }
    if time.is_some_and(|time| keys.contains(&time)) {
        let delay = delay_ms.unwrap_or_default().saturating_mul(MICROS_PER_MS);
        let bucket = (delay / BUCKETS_PER_DELAY).clamp(BUCKETS.0, BUCKETS.1);
        return Ok(Forget::WithTime { bucket });
    }
    Ok(match (node.retention_ms, time) {
        (Some(retention), Some(_)) => after(retention),
        _ => Forget::Never,
    })
}

/// The delay of the watermark that a plan's event time is under; of several (inputs of a union) the longest.
fn watermark_delay_ms(plan: &LogicalPlan) -> Option<i64> {
    if let Some(node) = WatermarkNode::of(plan) {
        return Some(node.delay_ms);
    }
    plan.inputs()
        .into_iter()
        .filter_map(watermark_delay_ms)
        .max()
}
