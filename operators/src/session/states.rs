//! The states of an epoch's new sessions: those of their pieces, merged in one pass; and the lists they are written to.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use weir_runtime::Table;
use weir_runtime::{Result, WeirError};

use super::emit::Emitter;
use super::list;
use super::merge::{Final, Piece, Union};
use crate::aggregate::{Accumulators, Calls};

/// The states of all sessions, by leader.
pub(super) fn merged(
    calls: &Calls,
    mut accumulators: Accumulators,
    union: &Union<'_>,
    absorbed: &[u32],
    old: &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let total = union.leaders.len();
    let old = old.get(2..).unwrap_or_default();
    let leaders = |leaders: &[u32]| leaders.iter().map(|leader| *leader as usize).collect();
    if union.alone && !calls.ordered() {
        if !absorbed.is_empty() {
            let groups: Vec<usize> = leaders(absorbed);
            accumulators.merge(calls, old, &groups, total)?;
        }
        return accumulators.take(calls, total);
    }
    let pieces = accumulators.take(calls, total)?;
    let mut whole = Accumulators::new(calls)?;
    if calls.ordered() {
        let (states, groups) = in_order(union, &pieces, old)?;
        whole.merge(calls, &states, &groups, total)?;
    } else {
        let groups: Vec<usize> = leaders(&union.leaders);
        whole.merge(calls, &pieces, &groups, total)?;
        if !absorbed.is_empty() {
            let groups: Vec<usize> = leaders(absorbed);
            whole.merge(calls, old, &groups, total)?;
        }
    }
    whole.take(calls, total)
}

/// The states of all pieces by key and start, and the leader of each.
fn in_order(
    union: &Union<'_>,
    fragments: &[ArrayRef],
    old: &[ArrayRef],
) -> Result<(Vec<ArrayRef>, Vec<usize>)> {
    let mut rows = Vec::with_capacity(union.pieces.len());
    let mut groups = Vec::with_capacity(union.pieces.len());
    for piece in &union.pieces {
        let (row, leader) = match piece {
            Piece::Fragment(fragment) => {
                ((0, *fragment as usize), union.leaders[*fragment as usize])
            }
            Piece::Stored(index) => ((1, *index as usize), union.absorbed[*index as usize].leader),
        };
        rows.push(row);
        groups.push(leader as usize);
    }
    let states = fragments.iter().enumerate().map(|(column, states)| {
        let sources: Vec<&dyn Array> = std::iter::once(states.as_ref())
            .chain(old.get(column).map(AsRef::as_ref))
            .collect();
        arrow::compute::interleave(&sources, &rows)
    });
    Ok((states.collect::<Result<_, _>>()?, groups))
}

/// Starts and ends by leader.
pub(super) fn times(emitter: &Emitter, union: &Union<'_>) -> Vec<ArrayRef> {
    let column = |index: usize, values: &[i64]| {
        let times = TimestampMicrosecondArray::from_iter_values(values.iter().copied());
        let zone = match emitter.values.fields()[index].data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        Arc::new(times.with_timezone_opt(zone)) as ArrayRef
    };
    vec![column(0, &union.starts), column(1, &union.ends)]
}

/// What the touched keys have, as [`Union`] found it.
pub(super) struct Lists<'a> {
    pub(super) finals: &'a [Final],
    pub(super) bounds: &'a [u32],
    pub(super) ends: &'a [i64],
}

/// Writes the list of each touched key, with the first end as expiry if `expiring`; gives slot and leader of the new sessions.
pub(super) fn write(
    table: &mut Table,
    emitter: &Emitter,
    lists: &Lists<'_>,
    values: &[ArrayRef],
    expiring: bool,
) -> Result<Vec<(usize, u32)>> {
    let Lists {
        finals,
        bounds,
        ends,
    } = *lists;
    let rows = emitter.values.encode(values, ends.len())?;
    let mut new = Vec::with_capacity(ends.len());
    let mut list = Vec::new();
    let mut from = 0;
    for (slot, to) in bounds.iter().enumerate() {
        let own = &finals[from..*to as usize];
        from = *to as usize;
        list.clear();
        let mut first = None;
        let mut stored = list::sessions(table.value(slot).unwrap_or_default()).enumerate();
        for last in own {
            let end = match last {
                Final::New(leader) => {
                    new.push((slot, *leader));
                    list::push(&mut list, rows.get(*leader as usize));
                    ends[*leader as usize]
                }
                Final::Kept(number) => {
                    let kept = stored.find(|(index, _)| *index == *number as usize);
                    let (_, kept) = kept.ok_or_else(|| {
                        WeirError::internal("a stored session is gone while its list is written")
                    })?;
                    let kept = kept?;
                    list::push(&mut list, kept.row);
                    kept.end
                }
            };
            first.get_or_insert(end);
        }
        match first {
            Some(first) if expiring => table.set_expiring(slot, &list, first),
            Some(_) => table.set(slot, &list),
            None => {}
        }
    }
    Ok(new)
}
