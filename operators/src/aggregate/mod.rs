//! Aggregation over groups, with state.
//!
//! An epoch aggregates into fresh accumulators whose group index is the slot of the touched key; at its end the old states of
//! the touched groups are merged in one pass, the new ones are written, and what the output mode asks for is evaluated.
//! Keys and states are rows of bytes ([`RowCodec`](crate::RowCodec)) in one state table, by time where the groups have an event time.

mod calls;
mod distinct;
mod emit;
mod grouping;
mod migrate;
mod operator;
mod partial;
mod time;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use weir_runtime::{
    ChangelogMode, OperatorContext, OperatorSpec, Outbox, OutputMode, Result, Rows, WeirError,
};
use weir_runtime::{TableKind, TableSpec};

pub(crate) use calls::{Accumulators, Calls};
pub use calls::{AggregateCall, Distinct};
pub use grouping::{GroupingSet, grouping_sets};
pub use partial::{PartialAggregation, partial_aggregate};
pub use time::TimeKey;
pub(crate) use time::bound;

use crate::expression::ErrorMap;
use crate::late;
use crate::row_codec::{columns_text, fields_text};
use operator::Aggregator;

/// What the rows of the input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateInput {
    /// Keys, then columns that the arguments and filters of the calls read.
    Rows,
    /// Keys, then the columns of the calls' states, as a partial aggregation emits them.
    States,
}

/// An aggregation.
#[derive(Debug, Clone)]
pub struct Aggregation {
    /// The first columns of the input, which rows are grouped by; empty for one group of all rows, which always exists. Floating
    /// point numbers among them must be normalised, so that equal ones have equal bits.
    pub keys: Vec<FieldRef>,
    /// The key that groups have their event time from, if a watermark follows it.
    pub time: Option<TimeKey>,
    /// The aggregates, in the order of the output, which has the keys before them.
    pub calls: Vec<AggregateCall>,
    /// What the input holds.
    pub input: AggregateInput,
    /// Which groups an epoch emits. Append needs `time`.
    pub mode: OutputMode,
    /// In update mode, the old row of a changed group is emitted before the new one.
    pub emit_before: bool,
    /// A checkpoint without some of the aggregates is accepted: they begin without rows.
    pub allow_new_aggregates: bool,
    /// Translates errors of the functions.
    pub errors: ErrorMap,
}

/// An operator that aggregates; see the [module](self).
///
/// # Errors
/// If a function has no state, a type cannot be kept in state, or append mode has no event time.
pub fn aggregate(aggregation: Aggregation) -> Result<OperatorSpec> {
    if aggregation.mode == OutputMode::Append && aggregation.time.is_none() {
        return Err(WeirError::plan(
            "an aggregation in output mode append needs an event time among its keys",
        ));
    }
    let calls = Arc::new(Calls::new(aggregation.calls.clone(), aggregation.errors)?);
    let (mode, changelog) = (aggregation.mode, changelog(aggregation.mode));
    let keys: Fields = aggregation.keys.iter().cloned().collect();
    let output = output(&keys, &calls);
    let (tables, detail) = (tables(&aggregation, &keys, &calls), detail(&keys, &calls));
    let (key_text, made) = (columns_text(&keys), Arc::clone(&output));
    let spec = OperatorSpec::new("aggregate", move |_| {
        Aggregator::new(&aggregation, Arc::clone(&calls), Arc::clone(&made))
    })
    .with_schema(output)
    .with_detail(detail)
    .with_param("keys", key_text)
    .with_param("mode", mode.to_string())
    .with_tables(tables)
    .with_state_name("stateStoreSave")
    .with_changelog(changelog);
    Ok(match mode {
        OutputMode::Complete => spec,
        _ => spec.with_watermark_epochs(),
    })
}

/// The aggregates as a person reads them.
pub(crate) fn calls_text(calls: &[AggregateCall]) -> String {
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    ids.join(", ")
}

fn changelog(mode: OutputMode) -> ChangelogMode {
    match mode {
        OutputMode::Update => ChangelogMode::Changelog,
        _ => ChangelogMode::AppendOnly,
    }
}

fn output(keys: &Fields, calls: &Calls) -> SchemaRef {
    let fields: Vec<FieldRef> = keys.iter().cloned().chain(calls.results()).collect();
    Arc::new(Schema::new(fields))
}

/// The table of groups, then those of distinct values. Complete mode keeps every group for ever.
fn tables(aggregation: &Aggregation, keys: &Fields, calls: &Calls) -> Vec<TableSpec> {
    let kind = match aggregation.time {
        Some(time) if aggregation.mode != OutputMode::Complete => TableKind::Timed {
            bucket: time.bucket(),
        },
        _ => TableKind::Keyed,
    };
    let groups = TableSpec {
        name: "groups".to_owned(),
        kind,
        version: 1,
        key: fields_text(keys),
        value: fields_text(&calls.state),
    };
    let pairs = distinct::specs(calls).into_iter();
    std::iter::once(groups)
        .chain(pairs.map(|spec| spec.table(keys, kind)))
        .collect()
}

fn detail(keys: &Fields, calls: &Calls) -> String {
    let keys: Vec<&str> = keys.iter().map(|key| key.name().as_str()).collect();
    let calls: Vec<&str> = calls.list.iter().map(|call| call.id.as_str()).collect();
    format!("by ({}): {}", keys.join(", "), calls.join(", "))
}

/// The rows whose group is still open; the others are counted as late.
fn in_time(
    time: Option<TimeKey>,
    keys: usize,
    batch: &RecordBatch,
    context: &OperatorContext,
    out: &mut Outbox,
) -> Result<RecordBatch> {
    let Some(time) = time.filter(|_| context.late_watermark_ms != i64::MIN) else {
        return Ok(batch.clone());
    };
    let times = time.times(&batch.columns()[..keys])?;
    let Some(late) = time.late(&times, context) else {
        return Ok(batch.clone());
    };
    late::hand_over(&Rows::inserts(batch.clone()), &late, context, out)?;
    let keep = arrow::compute::not(&late)?;
    Ok(arrow::compute::filter_record_batch(batch, &keep)?)
}
