//! What an epoch changed, as rows of output mode update.

use std::ops::Range;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::TimestampMicrosecondType;
use weir_runtime::Table;
use weir_runtime::{Outbox, Result, RowKind, Rows};

use super::emit::{CHUNK, Emitter, taken};

/// The new sessions of an epoch, by leader, and what became of the old ones.
#[derive(Default)]
pub(super) struct Settled {
    /// Slot and leader of each new session, and of those that are complete already.
    pub(super) new: Vec<(usize, u32)>,
    pub(super) complete: Vec<(usize, u32)>,
    /// Starts, ends and states by leader.
    pub(super) values: Vec<ArrayRef>,
    /// Leader of each absorbed session, ascending by slot, and their starts, ends and states.
    pub(super) absorbed: Vec<u32>,
    pub(super) old: Vec<ArrayRef>,
}

/// Emits the new sessions and takes back those they replace; the old value of one whose range stays only if `before` is set.
///
/// # Errors
/// Of the functions.
pub(super) fn emit(
    settled: &Settled,
    table: &Table,
    emitter: &Emitter,
    before: bool,
    out: &mut Outbox,
) -> Result<()> {
    let mut olds = 0;
    for chunk in settled.new.chunks(CHUNK) {
        let leaders = UInt32Array::from_iter_values(chunk.iter().map(|(_, leader)| *leader));
        let values = taken(&settled.values, &leaders)?;
        let keys = chunk.iter().map(|(slot, _)| table.key(*slot));
        let new = emitter.batch(keys, &values, chunk.len())?;
        let first = olds;
        let replaced = replaced(&settled.absorbed, chunk, &mut olds);
        let same = same_ranges(settled, chunk, &replaced);
        let wanted = replaced
            .iter()
            .zip(&same)
            .any(|(replaced, same)| !replaced.is_empty() && (before || !same));
        let old = match olds - first {
            _ if !wanted => None,
            count => {
                let values = sliced(&settled.old, first, count);
                let owners = chunk.iter().zip(&replaced);
                let keys = owners.flat_map(|((slot, _), replaced)| {
                    std::iter::repeat_n(table.key(*slot), replaced.len())
                });
                Some(emitter.batch(keys, &values, count)?)
            }
        };
        let told: Vec<Range<usize>> = replaced
            .iter()
            .zip(&same)
            .map(|(replaced, same)| match *same && !before {
                true => replaced.end..replaced.end,
                false => replaced.clone(),
            })
            .collect();
        out.emit(changes(new, old, first, &told, &same)?);
    }
    Ok(())
}

/// Which of the absorbed sessions each new one replaces; both are in the order of keys and starts. `next` is the first not yet
/// taken.
fn replaced(absorbed: &[u32], new: &[(usize, u32)], next: &mut usize) -> Vec<Range<usize>> {
    let mut of = |leader: u32| {
        let rest = absorbed[*next..].iter();
        let count = rest.take_while(|old| **old == leader).count();
        let from = *next;
        *next += count;
        from..*next
    };
    new.iter().map(|(_, leader)| of(*leader)).collect()
}

fn sliced(columns: &[ArrayRef], from: usize, length: usize) -> Vec<ArrayRef> {
    let sliced = columns.iter().map(|column| column.slice(from, length));
    sliced.collect()
}

/// For each new session whether it replaces one stored session of the same range.
fn same_ranges(settled: &Settled, new: &[(usize, u32)], replaced: &[Range<usize>]) -> Vec<bool> {
    let time = |columns: &[ArrayRef], column: usize, row: usize| {
        columns[column]
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
    };
    let same = |((_, leader), replaced): (&(usize, u32), &Range<usize>)| {
        replaced.len() == 1
            && (0..2).all(|column| {
                time(&settled.old, column, replaced.start)
                    == time(&settled.values, column, *leader as usize)
            })
    };
    new.iter().zip(replaced).map(same).collect()
}

/// New sessions with the old ones in front of them that are told. `first` is the number of the first old row.
fn changes(
    new: RecordBatch,
    old: Option<RecordBatch>,
    first: usize,
    told: &[Range<usize>],
    same: &[bool],
) -> Result<Rows> {
    let (mut rows, mut kinds) = (Vec::new(), Vec::new());
    for (row, (told, same)) in told.iter().zip(same).enumerate() {
        let gone = if *same {
            RowKind::UpdateBefore
        } else {
            RowKind::Delete
        };
        kinds.extend(told.clone().map(|_| gone as u8));
        rows.extend(told.clone().map(|index| (1, index - first)));
        let kind = if *same {
            RowKind::UpdateAfter
        } else {
            RowKind::Insert
        };
        kinds.push(kind as u8);
        rows.push((0, row));
    }
    let batch = match &old {
        Some(old) => interleave_record_batch(&[&new, old], &rows)?,
        None => new,
    };
    Rows::with_kinds(batch, UInt8Array::from(kinds))
}
