//! The rows of an epoch that may be the first of their key.
//!
//! Rows of several source subtasks arrive interleaved, and which of two equal rows is kept must not depend on timing: it is the
//! one that comes first by split and position (invariant E8), so the choice is made when the epoch's rows are all there. Kept are
//! only rows that were the first so far when they came.

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::BatchCoalescer;
use weir_runtime::{Origin, Result, Rows, WeirError};

/// Rows in an emitted batch.
const BATCH_ROWS: usize = 8192;
/// A batch of this many rows is emitted as it is.
const LARGE_ROWS: usize = 4096;

/// Where a row is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) batch: u32,
    pub(super) row: u32,
}

struct Kept {
    origin: Origin,
    batch: RecordBatch,
}

/// Candidates of the open epoch: batches of kept rows, and per slot of the table the place of its first row so far.
#[derive(Default)]
pub(super) struct Candidates {
    kept: Vec<Kept>,
    first: Vec<Place>,
    chosen: Vec<u32>,
}

impl Candidates {
    /// Whether the row of this origin is the first so far of the key with this slot; if so it must be part of the batch that
    /// [`keep`](Self::keep) takes next. Rows of one batch come in order.
    pub(super) fn offer(&mut self, slot: usize, origin: Origin, row: u32) {
        let place = Place {
            batch: index(self.kept.len()),
            row: index(self.chosen.len()),
        };
        match self.first.get_mut(slot) {
            None => self.first.push(place),
            Some(first) => match self.kept.get(first.batch as usize) {
                Some(kept) if origin < kept.origin => *first = place,
                _ => return,
            },
        }
        self.chosen.push(row);
    }

    /// Keeps the rows of `rows` that were offered since the last call and taken.
    pub(super) fn keep(&mut self, origin: Origin, rows: &Rows) -> Result<()> {
        let chosen = std::mem::take(&mut self.chosen);
        let kept = match chosen.len() {
            0 => return Ok(()),
            all if all == rows.num_rows() => rows.batch().clone(),
            _ => {
                let indices = UInt32Array::from(chosen);
                let taken = arrow::compute::take_record_batch(rows.batch(), &indices)?;
                self.chosen = reuse(indices);
                taken
            }
        };
        self.chosen.clear();
        self.kept.push(Kept {
            origin,
            batch: kept,
        });
        Ok(())
    }

    /// The kept batches, by [`Place::batch`].
    pub(super) fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.kept.iter().map(|kept| &kept.batch)
    }

    /// The place of the first row of each slot.
    pub(super) fn places(&self) -> &[Place] {
        &self.first
    }

    /// An empty selection over the kept batches.
    pub(super) fn selection(&self) -> Selection {
        let bits = self
            .kept
            .iter()
            .map(|kept| vec![false; kept.batch.num_rows()]);
        Selection(bits.collect())
    }

    /// Hands the selected rows to `emit`, in the order of their origins, and forgets everything.
    pub(super) fn emit(
        &mut self,
        selection: Selection,
        emit: &mut dyn FnMut(RecordBatch),
    ) -> Result<()> {
        self.first.clear();
        let mut kept: Vec<(Kept, Vec<bool>)> = self.kept.drain(..).zip(selection.0).collect();
        // The sort is stable: batches of one origin stay in the order in which they came.
        kept.sort_by_key(|(kept, _)| kept.origin);
        let Some((first, _)) = kept.first() else {
            return Ok(());
        };
        let mut coalescer = BatchCoalescer::new(first.batch.schema(), BATCH_ROWS)
            .with_biggest_coalesce_batch_size(Some(LARGE_ROWS));
        for (kept, bits) in kept {
            let filter = BooleanArray::from(BooleanBuffer::from(bits));
            coalescer.push_batch_with_filter(kept.batch, &filter)?;
            while let Some(batch) = coalescer.next_completed_batch() {
                emit(batch);
            }
        }
        coalescer.finish_buffered_batch()?;
        while let Some(batch) = coalescer.next_completed_batch() {
            emit(batch);
        }
        Ok(())
    }
}

/// The vector of an array that nobody else holds, to be used again.
fn reuse(indices: UInt32Array) -> Vec<u32> {
    let (_, values, _) = indices.into_parts();
    values.into_inner().into_vec().unwrap_or_default()
}

/// Rows of kept batches, one truth value each.
pub(super) struct Selection(Vec<Vec<bool>>);

impl Selection {
    /// Selects a row.
    pub(super) fn select(&mut self, place: Place) -> Result<()> {
        let bit = self
            .0
            .get_mut(place.batch as usize)
            .and_then(|bits| bits.get_mut(place.row as usize));
        *bit.ok_or_else(|| WeirError::internal("a candidate of a deduplication was not kept"))? =
            true;
        Ok(())
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("invariant: an epoch keeps fewer than 2^32 batches of as many rows")
}
