//! What an edge carries: epoch-tagged batches, watermarks, barriers and the end of the input, in order.

use arrow::array::{Array, BooleanArray, RecordBatch, UInt8Array, UInt32Array};
use arrow::datatypes::SchemaRef;
use weir_state::Epoch;

use crate::error::{Result, WeirError};

/// What a row of a changelog edge does to the table it describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// A new row.
    Insert = 0,
    /// The old value of a changed row; always followed by its `UpdateAfter`.
    UpdateBefore = 1,
    /// The new value of a changed row.
    UpdateAfter = 2,
    /// A row that is gone.
    Delete = 3,
}

impl TryFrom<u8> for RowKind {
    type Error = WeirError;

    fn try_from(value: u8) -> Result<Self> {
        match value {
            0 => Ok(Self::Insert),
            1 => Ok(Self::UpdateBefore),
            2 => Ok(Self::UpdateAfter),
            3 => Ok(Self::Delete),
            other => Err(WeirError::internal(format!(
                "row kind {other} does not exist, allowed: 0 to 3"
            ))),
        }
    }
}

/// Whether an edge only adds rows or also changes and removes earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChangelogMode {
    /// Every row is an insert; row kinds are absent.
    #[default]
    AppendOnly,
    /// Rows carry kinds.
    Changelog,
}

/// A batch and the kind of each of its rows.
#[derive(Debug, Clone)]
pub struct Rows {
    batch: RecordBatch,
    kinds: Option<UInt8Array>,
}

impl Rows {
    /// Rows that are all inserts.
    pub fn inserts(batch: RecordBatch) -> Self {
        Self { batch, kinds: None }
    }

    /// Rows with one kind each; as many kinds as rows.
    ///
    /// # Errors
    /// If the lengths differ, a kind is null or unknown.
    pub fn with_kinds(batch: RecordBatch, kinds: UInt8Array) -> Result<Self> {
        if kinds.len() != batch.num_rows() || kinds.null_count() > 0 {
            return Err(WeirError::internal(format!(
                "{} row kinds ({} null) for {} rows",
                kinds.len(),
                kinds.null_count(),
                batch.num_rows()
            )));
        }
        for kind in kinds.values() {
            RowKind::try_from(*kind)?;
        }
        Ok(Self {
            batch,
            kinds: Some(kinds),
        })
    }

    /// The batch without the kinds.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The batch without the kinds, by value.
    pub fn into_batch(self) -> RecordBatch {
        self.batch
    }

    /// The kinds; `None` means that every row is an insert.
    pub fn kinds(&self) -> Option<&UInt8Array> {
        self.kinds.as_ref()
    }

    /// Kind of one row.
    pub fn kind(&self, row: usize) -> RowKind {
        match &self.kinds {
            None => RowKind::Insert,
            Some(kinds) => RowKind::try_from(kinds.value(row))
                .expect("invariant: kinds are checked when the rows are made"),
        }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Bytes of memory held by the columns and kinds.
    pub fn bytes(&self) -> usize {
        self.batch.get_array_memory_size() + self.kinds.as_ref().map_or(0, |kinds| kinds.len())
    }

    /// Schema of the batch.
    pub fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    /// The same rows in other columns (a projection keeps kinds).
    ///
    /// # Errors
    /// If the number of rows differs.
    pub fn map_batch(&self, batch: RecordBatch) -> Result<Self> {
        if batch.num_rows() != self.num_rows() {
            return Err(WeirError::internal(format!(
                "a row-wise step turned {} rows into {}",
                self.num_rows(),
                batch.num_rows()
            )));
        }
        Ok(Self {
            batch,
            kinds: self.kinds.clone(),
        })
    }

    /// The rows where `keep` is true; null counts as false.
    ///
    /// # Errors
    /// If the arrow kernel refuses the lengths.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self> {
        let batch = arrow::compute::filter_record_batch(&self.batch, keep)?;
        let kinds = self
            .kinds
            .as_ref()
            .map(|kinds| arrow::compute::filter(kinds, keep))
            .transpose()?;
        Ok(Self {
            batch,
            kinds: kinds.map(into_kinds),
        })
    }

    /// The rows at these indices, in this order.
    ///
    /// # Errors
    /// If an index is out of bounds.
    pub fn take(&self, indices: &UInt32Array) -> Result<Self> {
        let batch = arrow::compute::take_record_batch(&self.batch, indices)?;
        let kinds = self
            .kinds
            .as_ref()
            .map(|kinds| arrow::compute::take(kinds, indices, None))
            .transpose()?;
        Ok(Self {
            batch,
            kinds: kinds.map(into_kinds),
        })
    }

    /// `length` rows from `offset`; shares memory.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self {
            batch: self.batch.slice(offset, length),
            kinds: self.kinds.as_ref().map(|kinds| kinds.slice(offset, length)),
        }
    }
}

fn into_kinds(array: arrow::array::ArrayRef) -> UInt8Array {
    UInt8Array::from(array.to_data())
}

/// Where rows come from, so that order-dependent results do not depend on thread timing (invariant E8): rows are ordered by
/// source, split of the epoch's plan, and sequence inside the split; `branch` tells the inputs of a union apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Origin {
    /// Path through unions: first input before second.
    pub branch: u32,
    /// Index of the source node in the topology.
    pub source: u32,
    /// Index of the split in the epoch's plan.
    pub split: u32,
    /// Index of the batch in the split.
    pub sequence: u64,
}

/// Rows of one epoch.
#[derive(Debug, Clone)]
pub struct EpochBatch {
    /// The epoch the rows belong to.
    pub epoch: Epoch,
    /// Where they come from.
    pub origin: Origin,
    /// The rows.
    pub rows: Rows,
}

/// The in-band mark that closes an epoch: nothing of it follows, nothing of a later one precedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The epoch that ends here.
    pub epoch: Epoch,
}

/// One item of an edge.
#[derive(Debug, Clone)]
pub enum Message {
    /// Rows.
    Batch(EpochBatch),
    /// No row with an event time at or before this (milliseconds since 1970) is expected any more.
    Watermark(i64),
    /// End of an epoch.
    Barrier(Barrier),
    /// Nothing follows; sent once, at an orderly end.
    End,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows() -> Rows {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1, 2, 3]))])
            .expect("batch");
        Rows::with_kinds(batch, UInt8Array::from(vec![0, 1, 2])).expect("rows")
    }

    #[test]
    fn kinds_follow_their_rows_through_filter_take_and_slice() {
        let filtered = rows()
            .filter(&BooleanArray::from(vec![Some(false), None, Some(true)]))
            .expect("filter");
        assert_eq!(
            (filtered.num_rows(), filtered.kind(0)),
            (1, RowKind::UpdateAfter)
        );
        let taken = rows().take(&UInt32Array::from(vec![2, 1])).expect("take");
        assert_eq!(
            (taken.kind(0), taken.kind(1)),
            (RowKind::UpdateAfter, RowKind::UpdateBefore)
        );
        assert_eq!(rows().slice(1, 1).kind(0), RowKind::UpdateBefore);
    }

    #[test]
    fn kinds_of_another_length_or_value_are_refused() {
        let batch = rows().into_batch();
        assert!(Rows::with_kinds(batch.clone(), UInt8Array::from(vec![0])).is_err());
        assert!(Rows::with_kinds(batch, UInt8Array::from(vec![0, 1, 9])).is_err());
    }

    #[test]
    fn origins_sort_by_branch_source_split_sequence() {
        let a = Origin {
            branch: 0,
            source: 0,
            split: 1,
            sequence: 0,
        };
        let b = Origin {
            branch: 0,
            source: 0,
            split: 0,
            sequence: 9,
        };
        assert!(
            b < a
                && a < Origin {
                    branch: 1,
                    ..Origin::default()
                }
        );
    }
}
