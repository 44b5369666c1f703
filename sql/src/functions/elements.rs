//! Arrays and maps taken apart into columns of their elements, and put together again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};

/// The elements of an array column, or the keys and values of a map column, without those of NULL rows.
pub(super) struct Elements {
    /// One column for arrays, two for maps.
    pub(super) columns: Vec<ArrayRef>,
    /// The row of each element.
    pub(super) rows: UInt32Array,
    /// Where each row's elements are; none for NULL.
    pub(super) offsets: OffsetBuffer<i32>,
    /// Which rows are not NULL.
    pub(super) nulls: Option<NullBuffer>,
}

impl Elements {
    pub(super) fn of(column: &ArrayRef) -> Result<Self> {
        let (offsets, columns) = match column.data_type() {
            DataType::Map(_, _) => {
                let map = column.as_map();
                (map.offsets(), map.entries().columns().to_vec())
            }
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                (list.offsets(), vec![Arc::clone(list.values())])
            }
            other => return plan_err!("{other} has no elements"),
        };
        let nulls = column.logical_nulls();
        let (mut picks, mut rows, mut lengths) = (vec![], vec![], vec![]);
        for (row, ends) in offsets.windows(2).enumerate() {
            let before = picks.len();
            if column.is_valid(row) {
                picks.extend(ends[0] as u32..ends[1] as u32);
            }
            rows.resize(picks.len(), row as u32);
            lengths.push(picks.len() - before);
        }
        let picks = UInt32Array::from(picks);
        let columns = columns
            .iter()
            .map(|column| take(column, &picks, None))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            rows: UInt32Array::from(rows),
            offsets: OffsetBuffer::from_lengths(lengths),
            nulls,
        })
    }

    /// Where the elements of a row are.
    pub(super) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// The place of each element in its row, from 0.
    pub(super) fn indices(&self) -> ArrayRef {
        let places = self
            .offsets
            .windows(2)
            .flat_map(|ends| 0..ends[1] - ends[0]);
        Arc::new(arrow::array::Int32Array::from_iter_values(places))
    }

    /// How many of each row's elements `kept` holds for.
    pub(super) fn lengths_of(&self, kept: &BooleanArray) -> Vec<usize> {
        let count = |ends: &[i32]| {
            (ends[0]..ends[1])
                .filter(|i| kept.is_valid(*i as usize) && kept.value(*i as usize))
                .count()
        };
        self.offsets.windows(2).map(count).collect()
    }
}

/// An array column of type `t`.
pub(super) fn list(
    t: &DataType,
    offsets: OffsetBuffer<i32>,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::List(field) = t else {
        return plan_err!("{t} is no array");
    };
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        offsets,
        values,
        nulls,
    )?))
}
