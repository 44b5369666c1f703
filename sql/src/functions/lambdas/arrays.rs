//! `transform`, `filter`, `exists`, `forall`, `zip_with`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Function, Run, boolean, element, evaluate, holds};
use crate::functions::coerce::array_of;
use crate::functions::elements::{Elements, list};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "transform",
        values: 1,
        lambdas: (1, 1),
        parameters: element_and_index,
        returns: |_, lambdas| Ok(array_of(lambdas[0].clone())),
        run: transform,
    },
    Function {
        name: "filter",
        values: 1,
        lambdas: (1, 1),
        parameters: element_and_index,
        returns: |values, lambdas| boolean(&lambdas[0]).map(|()| values[0].clone()),
        run: keep,
    },
    Function {
        name: "exists",
        values: 1,
        lambdas: (1, 1),
        parameters: |values| Ok(vec![vec![element(&values[0])?]]),
        returns: |_, lambdas| boolean(&lambdas[0]).map(|()| DataType::Boolean),
        run: |run| decide(run, true),
    },
    Function {
        name: "forall",
        values: 1,
        lambdas: (1, 1),
        parameters: |values| Ok(vec![vec![element(&values[0])?]]),
        returns: |_, lambdas| boolean(&lambdas[0]).map(|()| DataType::Boolean),
        run: |run| decide(run, false),
    },
    Function {
        name: "zip_with",
        values: 2,
        lambdas: (1, 1),
        parameters: |values| Ok(vec![vec![element(&values[0])?, element(&values[1])?]]),
        returns: |_, lambdas| Ok(array_of(lambdas[0].clone())),
        run: zip,
    },
];

fn element_and_index(values: &[DataType]) -> Result<Vec<Vec<DataType>>> {
    Ok(vec![vec![element(&values[0])?, DataType::Int32]])
}

/// NULL for every row, where the argument is the constant NULL.
fn nothing(run: &Run<'_>) -> Option<ArrayRef> {
    let void = |column: &ArrayRef| *column.data_type() == DataType::Null;
    run.values
        .iter()
        .any(void)
        .then(|| arrow::array::new_null_array(run.returns, run.values[0].len()))
}

fn transform(run: &Run<'_>) -> Result<ArrayRef> {
    if let Some(nothing) = nothing(run) {
        return Ok(nothing);
    }
    let elements = Elements::of(&run.values[0])?;
    let parameters = [&elements.columns[0], &elements.indices()];
    let values = evaluate(run.lambdas[0], &parameters, &elements.rows)?;
    list(run.returns, elements.offsets, values, elements.nulls)
}

fn keep(run: &Run<'_>) -> Result<ArrayRef> {
    if let Some(nothing) = nothing(run) {
        return Ok(nothing);
    }
    let elements = Elements::of(&run.values[0])?;
    let parameters = [&elements.columns[0], &elements.indices()];
    let kept = holds(run.lambdas[0], &parameters, &elements.rows)?;
    let offsets = OffsetBuffer::from_lengths(elements.lengths_of(&kept));
    let values = filter(&elements.columns[0], &kept)?;
    list(run.returns, offsets, values, elements.nulls)
}

/// `exists` looks for TRUE and `forall` for FALSE: found, it decides; else NULL if there is one among the answers.
fn decide(run: &Run<'_>, wanted: bool) -> Result<ArrayRef> {
    if let Some(nothing) = nothing(run) {
        return Ok(nothing);
    }
    let elements = Elements::of(&run.values[0])?;
    let answers = holds(run.lambdas[0], &[&elements.columns[0]], &elements.rows)?;
    let of_row = |(row, ends): (usize, &[i32])| {
        if run.values[0].is_null(row) {
            return None;
        }
        let mut answers = (ends[0]..ends[1]).map(|i| {
            let i = i as usize;
            answers.is_valid(i).then(|| answers.value(i))
        });
        let unknown = answers.clone().any(|answer| answer.is_none());
        match answers.any(|answer| answer == Some(wanted)) {
            true => Some(wanted),
            false if unknown => None,
            false => Some(!wanted),
        }
    };
    let rows = elements.offsets.windows(2).enumerate().map(of_row);
    Ok(Arc::new(rows.collect::<BooleanArray>()))
}

/// Two arrays side by side; the shorter one goes on with NULL.
fn zip(run: &Run<'_>) -> Result<ArrayRef> {
    if let Some(nothing) = nothing(run) {
        return Ok(nothing);
    }
    let lists = [0, 1].map(|i| run.values[i].as_list::<i32>());
    let nulls = NullBuffer::union(lists[0].nulls(), lists[1].nulls());
    let (mut picks, mut rows, mut lengths) = ([vec![], vec![]], vec![], vec![]);
    for row in 0..lists[0].len() {
        let alive = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let longest = lists[0].value_length(row).max(lists[1].value_length(row));
        let length = if alive { longest } else { 0 };
        for (list, picks) in lists.iter().zip(&mut picks) {
            let from = list.value_offsets()[row];
            let own = list.value_length(row);
            picks.extend((0..length).map(|i| (i < own).then_some((from + i) as u32)));
        }
        rows.resize(rows.len() + length as usize, row as u32);
        lengths.push(length as usize);
    }
    let [left, right] = picks.map(UInt32Array::from);
    let left = take(lists[0].values(), &left, None)?;
    let right = take(lists[1].values(), &right, None)?;
    let values = evaluate(run.lambdas[0], &[&left, &right], &UInt32Array::from(rows))?;
    list(
        run.returns,
        OffsetBuffer::from_lengths(lengths),
        values,
        nulls,
    )
}
