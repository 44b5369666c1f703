//! `aggregate` and `reduce`: an array folded from the left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Function, Run, element, evaluate};
use crate::functions::coerce::{list_types, same};
use crate::functions::elements::Elements;
use crate::functions::error::mismatch;

pub(super) const FUNCTIONS: &[Function] = &[function("aggregate"), function("reduce")];

const fn function(name: &'static str) -> Function {
    Function {
        name,
        values: 2,
        lambdas: (1, 2),
        parameters: |values| {
            let start = values[1].clone();
            Ok(vec![vec![start.clone(), element(&values[0])?], vec![start]])
        },
        returns: |values, lambdas| {
            if !same(&values[1], &lambdas[0]) {
                return Err(mismatch(format!(
                    "the lambda must give the type of the start value, {}, it gives {}",
                    list_types(&values[1..]),
                    list_types(&lambdas[..1])
                )));
            }
            Ok(lambdas[lambdas.len() - 1].clone())
        },
        run: fold,
    }
}

/// Step i folds element i of every array that has one, so that the lambda sees a column in each step.
fn fold(run: &Run<'_>) -> Result<ArrayRef> {
    let count = run.values[0].len();
    if *run.values[0].data_type() == DataType::Null {
        return Ok(arrow::array::new_null_array(run.returns, count));
    }
    let elements = Elements::of(&run.values[0])?;
    let mut folded = Arc::clone(&run.values[1]);
    let longest = elements.offsets.windows(2).map(|ends| ends[1] - ends[0]);
    for step in 0..longest.max().unwrap_or(0) {
        let active = elements.offsets.windows(2).enumerate();
        let active = active.filter(|(_, ends)| ends[0] + step < ends[1]);
        let (rows, picks): (Vec<u32>, Vec<u32>) = active
            .map(|(row, ends)| (row as u32, (ends[0] + step) as u32))
            .unzip();
        let rows = UInt32Array::from(rows);
        let own = take(&folded, &rows, None)?;
        let next = take(&elements.columns[0], &UInt32Array::from(picks), None)?;
        let results = evaluate(run.lambdas[0], &[&own, &next], &rows)?;
        folded = replaced(&folded, &rows, &results)?;
    }
    let everyone = UInt32Array::from_iter_values(0..count as u32);
    let alive = match &elements.nulls {
        None => everyone,
        Some(nulls) => UInt32Array::from_iter_values(
            (0..count).filter(|i| nulls.is_valid(*i)).map(|i| i as u32),
        ),
    };
    let result = match run.lambdas.get(1) {
        Some(finish) => evaluate(finish, &[&take(&folded, &alive, None)?], &alive)?,
        None => take(&folded, &alive, None)?,
    };
    let nulls = arrow::array::new_null_array(run.returns, count);
    replaced(&nulls, &alive, &result)
}

/// `column` with the values at `rows` replaced.
fn replaced(column: &ArrayRef, rows: &UInt32Array, by: &ArrayRef) -> Result<ArrayRef> {
    if rows.len() == column.len() {
        return Ok(Arc::clone(by));
    }
    let mut picks: Vec<(usize, usize)> = (0..column.len()).map(|row| (0, row)).collect();
    for (at, row) in rows.values().iter().enumerate() {
        picks[*row as usize] = (1, at);
    }
    Ok(interleave(&[column.as_ref(), by.as_ref()], &picks)?)
}
