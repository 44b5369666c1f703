//! The rows of an epoch where their order counts: kept until its end, then aggregated by key and time, equal times by origin.
//!
//! That is the order in which Spark sees the rows of a session. Stored sessions take part in it by their start: a row after the
//! start of a stored session is aggregated after that session, which is why a fragment ends there.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use weir_runtime::Table;
use weir_runtime::{Origin, Result};

use super::fragments::Fragments;
use super::list::sessions;
use crate::aggregate::{Accumulators, Calls};

/// Rows that are aggregated at a time.
const CHUNK: usize = 16_384;

/// A batch and where its rows belong.
pub(super) struct Waiting {
    pub(super) origin: Origin,
    pub(super) batch: RecordBatch,
    pub(super) slots: Vec<usize>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
}

/// One row of a waiting batch.
#[derive(Clone, Copy)]
struct Place {
    slot: usize,
    start: i64,
    batch: usize,
    row: usize,
}

/// Aggregates the rows into fragments. The table is loaded.
///
/// # Errors
/// Of the functions; if a stored list is damaged.
pub(super) fn replay(
    mut waiting: Vec<Waiting>,
    table: &Table,
    calls: &Calls,
    accumulators: &mut Accumulators,
) -> Result<Fragments> {
    // Both sorts are stable: rows of one origin and time stay in the order in which they came.
    waiting.sort_by_key(|waiting| waiting.origin);
    let mut places: Vec<Place> = Vec::new();
    for (batch, waiting) in waiting.iter().enumerate() {
        let rows = waiting.slots.iter().zip(&waiting.starts).enumerate();
        places.extend(rows.map(|(row, (slot, start))| Place {
            slot: *slot,
            start: *start,
            batch,
            row,
        }));
    }
    places.sort_by_key(|place| (place.slot, place.start));
    let (fragments, groups) = cut(&places, &waiting, table)?;
    let batches: Vec<&RecordBatch> = waiting.iter().map(|waiting| &waiting.batch).collect();
    for (places, groups) in places.chunks(CHUNK).zip(groups.chunks(CHUNK)) {
        let rows: Vec<(usize, usize)> = places
            .iter()
            .map(|place| (place.batch, place.row))
            .collect();
        let batch = interleave_record_batch(&batches, &rows)?;
        // Fragments are numbered as their rows come.
        let known = groups.last().map_or(0, |last| last + 1);
        for ordered in [false, true] {
            accumulators.update(calls, ordered, &batch, groups, known)?;
        }
    }
    Ok(fragments)
}

/// The fragments of rows that are sorted by key and time, and which of them each row is in.
fn cut(places: &[Place], waiting: &[Waiting], table: &Table) -> Result<(Fragments, Vec<usize>)> {
    let mut fragments = Fragments::default();
    let mut groups = Vec::with_capacity(places.len());
    let mut stored: Vec<i64> = Vec::new();
    let mut previous: Option<Place> = None;
    for place in places {
        let end = waiting[place.batch].ends[place.row];
        let same = previous.filter(|previous| previous.slot == place.slot);
        if same.is_none() {
            let list = table.value(place.slot).unwrap_or_default();
            stored = sessions(list)
                .map(|stored| stored.map(|stored| stored.start))
                .collect::<Result<_>>()?;
        }
        let crossed = |previous: &Place| {
            let first = stored.partition_point(|start| *start <= previous.start);
            stored.get(first).is_some_and(|start| *start <= place.start)
        };
        groups.push(match same {
            Some(previous) if !crossed(&previous) => fragments.add(place.slot, place.start, end),
            _ => fragments.begin(place.slot, place.start, end),
        });
        previous = Some(*place);
    }
    Ok((fragments, groups))
}
