//! A checkpoint of other aggregates: what may be read on, and how.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Fields};
use weir_runtime::OperatorState;
use weir_runtime::{Result, WeirError};

use super::calls::Calls;
use super::emit::Emitter;
use crate::row_codec::{RowCodec, fields_from_text};

/// Condition of a state that does not fit.
const CONDITION: &str = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE";

/// Brings the stored states to the aggregates of the query. Their order may differ; new ones, which begin without rows, are
/// only accepted if `allow_new`.
///
/// # Errors
/// If aggregates were added without permission, removed, or have a state of another type.
pub(super) fn migrate(
    state: &mut OperatorState,
    calls: &Calls,
    emitter: &Emitter,
    allow_new: bool,
) -> Result<()> {
    let Some(text) = state.stored_value_text(0).map(str::to_owned) else {
        return Ok(());
    };
    let stored = fields_from_text(&text)?;
    let sources = sources(&stored, calls, allow_new)?;
    let codec = RowCodec::new(stored)?;
    let initial = calls.initial()?;
    let mut failure = Ok(());
    state.table(0).rewrite(&mut |value| {
        let new = rewritten(value, &codec, &sources, &initial, emitter);
        Ok(new.unwrap_or_else(|error| {
            failure = Err(error);
            value.to_vec()
        }))
    })?;
    failure
}

fn rewritten(
    value: &[u8],
    stored: &RowCodec,
    sources: &[Option<usize>],
    initial: &[ArrayRef],
    emitter: &Emitter,
) -> Result<Vec<u8>> {
    let old = stored.decode([value])?;
    let columns = sources.iter().zip(initial);
    let columns = columns.map(|(source, initial)| match source {
        Some(index) => ArrayRef::clone(&old[*index]),
        None => ArrayRef::clone(initial),
    });
    let columns: Vec<ArrayRef> = columns.collect();
    Ok(emitter.values.encode(&columns, 1)?.get(0).to_vec())
}

/// For each column of the states the stored column it continues.
fn sources(stored: &Fields, calls: &Calls, allow_new: bool) -> Result<Vec<Option<usize>>> {
    let ids = |fields: &Fields| -> Vec<String> {
        let mut ids: Vec<String> = fields.iter().map(|field| id(field.name())).collect();
        ids.dedup();
        ids
    };
    let (old, new) = (ids(stored), ids(&calls.state));
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        from.iter().filter(|id| !of.contains(id)).cloned().collect()
    };
    let (removed, added) = (missing(&old, &new), missing(&new, &old));
    let mut problems = Vec::new();
    if !removed.is_empty() {
        problems.push(format!("removed: {}", removed.join(", ")));
    }
    if !added.is_empty() && !allow_new {
        problems.push(format!("added: {}", added.join(", ")));
    }
    let types = |fields: &Fields, wanted: &str| -> Vec<DataType> {
        let own = fields.iter().filter(|field| id(field.name()) == wanted);
        own.map(|field| field.data_type().clone()).collect()
    };
    let changed = old.iter().filter(|id| new.contains(id));
    for id in changed.filter(|id| types(stored, id) != types(&calls.state, id)) {
        problems.push(format!("{id} has values of another type"));
    }
    if problems.is_empty() {
        let source = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            stored.iter().position(|old| old.name() == field.name())
        };
        return Ok(calls.state.iter().map(source).collect());
    }
    let message = format!(
        "the checkpoint was written with other aggregates ({}); keep them, start with a new checkpoint, or, if some were only added, set \
         weir.state.allowNewAggregates to true: they then count from now on",
        problems.join("; ")
    );
    Err(WeirError::plan(message).with_condition(CONDITION))
}

/// The call that a column of the states belongs to.
fn id(column: &str) -> String {
    let end = column.rfind('[').unwrap_or(column.len());
    column[..end].to_owned()
}
