//! The states of an epoch's new sessions: those of their pieces, merged in one pass; and the lists they are written to.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampMicrosecondArray, UInt32Array};
use arrow::datatypes::DataType;
use weir_runtime::Table;
use weir_runtime::{Result, WeirError};

use super::emit::{Emitter, Leaving, taken};
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

/// What became of the sessions of the touched keys.
#[derive(Default)]
pub(super) struct Written {
    /// Slot and leader of each new session.
    pub(super) new: Vec<(usize, u32)>,
    /// Those of them that are complete already: they are in no list.
    pub(super) complete: Vec<(usize, u32)>,
    /// Stored sessions that nothing touched and that are complete: they are in no list any more.
    pub(super) leaving: Leaving,
}

/// When sessions are complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    /// Sessions that end at or before it are, in microseconds.
    pub(super) bound: i64,
    /// Lists expire with the first end; else they stay for ever.
    pub(super) expiring: bool,
}

/// Writes the list of each touched key: of its sessions those that are not complete.
pub(super) fn write(
    table: &mut Table,
    emitter: &Emitter,
    lists: &Lists<'_>,
    values: &[ArrayRef],
    completion: Completion,
) -> Result<Written> {
    let Lists {
        finals,
        bounds,
        ends,
    } = *lists;
    let bound = completion.bound;
    let open = finals.iter().filter_map(|last| match last {
        Final::New(leader) if ends[*leader as usize] > bound => Some(*leader),
        _ => None,
    });
    let open = UInt32Array::from_iter_values(open);
    let rows = emitter.values.encode(&taken(values, &open)?, open.len())?;
    let mut next = 0;
    let mut written = Written::default();
    let mut list = Vec::new();
    let mut from = 0;
    for (slot, to) in bounds.iter().enumerate() {
        let own = &finals[from..*to as usize];
        from = *to as usize;
        list.clear();
        let mut first = None;
        let mut stored = list::sessions(table.value(slot).unwrap_or_default()).enumerate();
        for last in own {
            match last {
                Final::New(leader) => {
                    written.new.push((slot, *leader));
                    let end = ends[*leader as usize];
                    if end <= bound {
                        written.complete.push((slot, *leader));
                        continue;
                    }
                    list::push(&mut list, rows.get(next));
                    next += 1;
                    first.get_or_insert(end);
                }
                Final::Kept(number) => {
                    let kept = stored.find(|(index, _)| *index == *number as usize);
                    let (_, kept) = kept.ok_or_else(|| {
                        WeirError::internal("a stored session is gone while its list is written")
                    })?;
                    let kept = kept?;
                    if kept.end <= bound {
                        written.leaving.push(table.key(slot), kept.row);
                        continue;
                    }
                    list::push(&mut list, kept.row);
                    first.get_or_insert(kept.end);
                }
            }
        }
        match first {
            Some(first) if completion.expiring => table.set_expiring(slot, &list, first),
            Some(_) => table.set(slot, &list),
            None => table.pass(slot),
        }
    }
    Ok(written)
}
