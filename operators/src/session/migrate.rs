//! Stored sessions of a query whose aggregates were others: states are found by the ids of the aggregates, a new aggregate
//! starts empty, and what belongs to none any more is dropped.

use arrow::array::ArrayRef;
use weir_runtime::{Result, WeirError};
use weir_state::OperatorState;

use super::emit::Emitter;
use super::list;
use crate::aggregate::Calls;
use crate::row_codec::RowCodec;

/// What the value text of the table has in front of its fields.
pub(super) const LIST_OF: &str = "list of ";
/// Columns in front of the states: start and end.
const BOUNDS: usize = 2;

/// Rewrites the lists of a checkpoint with other aggregates.
///
/// # Errors
/// If an aggregate has a state of another type than it had; if a stored list is damaged.
pub(super) fn migrate(state: &mut OperatorState, emitter: &Emitter, calls: &Calls) -> Result<()> {
    let Some(text) = state.stored_value_text(0) else {
        return Ok(());
    };
    let fields = text.strip_prefix(LIST_OF).unwrap_or(text);
    let from = RowCodec::from_text(fields)?;
    let columns = columns(&from, emitter)?;
    let initial = calls.initial()?;
    let mut failed = Ok(());
    state.table(0).rewrite(&mut |value| {
        let rewritten = rewritten(value, &from, &columns, &initial, emitter);
        Ok(rewritten.unwrap_or_else(|error| {
            failed = Err(error);
            Vec::new()
        }))
    })?;
    failed
}

/// Where each column of a session was, if it was.
fn columns(from: &RowCodec, emitter: &Emitter) -> Result<Vec<Option<usize>>> {
    let column = |field: &arrow::datatypes::FieldRef| {
        let Some((index, stored)) = from.fields().find(field.name()) else {
            return Ok(None);
        };
        if stored.data_type().equals_datatype(field.data_type()) {
            return Ok(Some(index));
        }
        Err(WeirError::plan(format!(
            "the checkpoint has the state {} of a session as {}, the query as {}: an aggregate cannot change its type; start with \
             a new checkpoint",
            field.name(),
            stored.data_type(),
            field.data_type()
        )))
    };
    emitter.values.fields().iter().map(column).collect()
}

fn rewritten(
    value: &[u8],
    from: &RowCodec,
    columns: &[Option<usize>],
    initial: &[ArrayRef],
    emitter: &Emitter,
) -> Result<Vec<u8>> {
    let mut list = Vec::with_capacity(value.len());
    for stored in list::sessions(value) {
        let old = from.decode([stored?.row])?;
        let new: Vec<ArrayRef> = columns
            .iter()
            .enumerate()
            .map(|(place, column)| match column {
                Some(column) => ArrayRef::clone(&old[*column]),
                None => ArrayRef::clone(&initial[place - BOUNDS]),
            })
            .collect();
        list::push(&mut list, emitter.values.encode(&new, 1)?.get(0));
    }
    Ok(list)
}
