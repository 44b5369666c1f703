//! `map_filter`, `transform_keys`, `transform_values`, `map_zip_with`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;

use super::{Function, Run, boolean, evaluate, holds};
use crate::functions::coerce::{common_type, map_of, map_types};
use crate::functions::elements::Elements;
use crate::functions::error::{SparkError, mismatch};
use crate::functions::maps::map_array;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "map_filter",
        values: 1,
        lambdas: (1, 1),
        parameters: |values| {
            let (key, value) = map(&values[0])?;
            Ok(vec![vec![key, value]])
        },
        returns: |values, lambdas| {
            let (key, value) = map(&values[0])?;
            boolean(&lambdas[0]).map(|()| map_of(key, value))
        },
        run: keep,
    },
    Function {
        name: "transform_keys",
        values: 1,
        lambdas: (1, 1),
        parameters: |values| {
            let (key, value) = map(&values[0])?;
            Ok(vec![vec![key, value]])
        },
        returns: |values, lambdas| Ok(map_of(lambdas[0].clone(), map(&values[0])?.1)),
        run: |run| transform(run, 0),
    },
    Function {
        name: "transform_values",
        values: 1,
        lambdas: (1, 1),
        parameters: |values| {
            let (key, value) = map(&values[0])?;
            Ok(vec![vec![key, value]])
        },
        returns: |values, lambdas| Ok(map_of(map(&values[0])?.0, lambdas[0].clone())),
        run: |run| transform(run, 1),
    },
    Function {
        name: "map_zip_with",
        values: 2,
        lambdas: (1, 1),
        parameters: |values| {
            let ((key, left), (_, right)) = (map(&values[0])?, map(&values[1])?);
            Ok(vec![vec![key, left, right]])
        },
        returns: |values, lambdas| {
            let ((key, _), (other, _)) = (map(&values[0])?, map(&values[1])?);
            match common_type(&key, &other) {
                Some(common) if common == key && common == other => {
                    Ok(map_of(key, lambdas[0].clone()))
                }
                _ => Err(mismatch("the keys of both maps must be of one type")),
            }
        },
        run: zip,
    },
];

fn map(t: &DataType) -> Result<(DataType, DataType)> {
    map_types(t).ok_or_else(|| mismatch("a map is expected"))
}

fn keep(run: &Run<'_>) -> Result<ArrayRef> {
    let entries = Elements::of(&run.values[0])?;
    let parameters = [&entries.columns[0], &entries.columns[1]];
    let kept = holds(run.lambdas[0], &parameters, &entries.rows)?;
    map_array(
        run.returns,
        OffsetBuffer::from_lengths(entries.lengths_of(&kept)),
        filter(&entries.columns[0], &kept)?,
        filter(&entries.columns[1], &kept)?,
        entries.nulls,
    )
}

/// New keys (`part` 0) or new values (`part` 1).
fn transform(run: &Run<'_>, part: usize) -> Result<ArrayRef> {
    let entries = Elements::of(&run.values[0])?;
    let parameters = [&entries.columns[0], &entries.columns[1]];
    let made = evaluate(run.lambdas[0], &parameters, &entries.rows)?;
    let (keys, values) = match part {
        0 => (made, Arc::clone(&entries.columns[1])),
        _ => (Arc::clone(&entries.columns[0]), made),
    };
    if keys.null_count() > 0 {
        return Err(SparkError::external(
            "NULL_MAP_KEY",
            "transform_keys: a map key must not be null",
        ));
    }
    map_array(run.returns, entries.offsets, keys, values, entries.nulls)
}

/// Two maps by key: the keys of the first, then those that only the second has; a value that is missing is NULL.
fn zip(run: &Run<'_>) -> Result<ArrayRef> {
    let maps = [0, 1].map(|i| run.values[i].as_map());
    let nulls = NullBuffer::union(maps[0].nulls(), maps[1].nulls());
    let converter = RowConverter::new(vec![SortField::new(maps[0].keys().data_type().clone())])?;
    let keys = [0, 1].map(|i| converter.convert_columns(&[Arc::clone(maps[i].keys())]));
    let [left_keys, right_keys] = keys;
    let (left_keys, right_keys) = (left_keys?, right_keys?);
    let (mut entries, mut rows, mut lengths) = (vec![], vec![], vec![]);
    for row in 0..maps[0].len() {
        let before = entries.len();
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            let range = |map: usize| {
                let offsets = maps[map].value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            };
            for left in range(0) {
                let other = range(1).find(|right| right_keys.row(*right) == left_keys.row(left));
                entries.push((Some(left), other));
            }
            for right in range(1) {
                if !range(0).any(|left| left_keys.row(left) == right_keys.row(right)) {
                    entries.push((None, Some(right)));
                }
            }
        }
        rows.resize(entries.len(), row as u32);
        lengths.push(entries.len() - before);
    }
    let both: [&dyn Array; 2] = [maps[0].keys().as_ref(), maps[1].keys().as_ref()];
    let picks: Vec<(usize, usize)> = entries
        .iter()
        .map(|(left, right)| left.map_or((1, right.unwrap_or_default()), |left| (0, left)))
        .collect();
    let keys = arrow::compute::interleave(&both, &picks)?;
    let (lefts, rights): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    let side = |map: usize, picks: Vec<Option<usize>>| {
        let picks: UInt32Array = picks.iter().map(|i| i.map(|i| i as u32)).collect();
        take(maps[map].values(), &picks, None)
    };
    let (left, right) = (side(0, lefts)?, side(1, rights)?);
    let rows = UInt32Array::from(rows);
    let values = evaluate(run.lambdas[0], &[&keys, &left, &right], &rows)?;
    map_array(
        run.returns,
        OffsetBuffer::from_lengths(lengths),
        keys,
        values,
        nulls,
    )
}
