//! `array_sort` with a comparator.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, plan_err};

use super::{Function, Run, element, evaluate};
use crate::functions::coerce::list_types;
use crate::functions::elements::Elements;
use crate::functions::error::{SparkError, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "array_sort",
    values: 1,
    lambdas: (1, 1),
    parameters: |values| Ok(vec![vec![element(&values[0])?; 2]]),
    returns: |values, lambdas| match &lambdas[0] {
        DataType::Int32 => Ok(values[0].clone()),
        _ => Err(mismatch(format!(
            "the comparator must give INT, it gives {}",
            list_types(&lambdas[..1])
        ))),
    },
    run: sort,
}];

/// Two neighbouring runs of `order` being merged into `merged`; both are sorted.
struct Merge {
    row: u32,
    left: usize,
    middle: usize,
    right: usize,
    end: usize,
    merged: Vec<u32>,
    start: usize,
}

impl Merge {
    /// The two elements to compare next, if both runs have one.
    fn pair(&self, order: &[u32]) -> Option<(u32, u32)> {
        (self.left < self.middle && self.right < self.end)
            .then(|| (order[self.left], order[self.right]))
    }

    /// Takes the smaller one; of equal ones the left, which makes the sort stable.
    fn decide(&mut self, order: &[u32], left_is_first: bool) {
        let from = match left_is_first {
            true => &mut self.left,
            false => &mut self.right,
        };
        self.merged.push(order[*from]);
        *from += 1;
    }

    /// Writes the merged run back.
    fn finish(&mut self, order: &mut [u32]) {
        self.merged.extend(&order[self.left..self.middle]);
        self.merged.extend(&order[self.right..self.end]);
        order[self.start..self.end].copy_from_slice(&self.merged);
    }
}

/// A merge sort of all arrays at once, so that the comparator sees a column of pairs in each step.
fn sort(run: &Run<'_>) -> Result<ArrayRef> {
    let DataType::List(field) = run.returns else {
        return plan_err!("{} is no array", run.returns);
    };
    let elements = Elements::of(&run.values[0])?;
    let mut order: Vec<u32> = (0..elements.rows.len() as u32).collect();
    let longest = elements.offsets.windows(2).map(|ends| ends[1] - ends[0]);
    let longest = longest.max().unwrap_or(0) as usize;
    let mut width = 1;
    while width < longest {
        let mut merges = merges(&elements, width);
        while compare(run, &elements, &order, &mut merges)? {}
        merges.iter_mut().for_each(|merge| merge.finish(&mut order));
        width *= 2;
    }
    let values = take(&elements.columns[0], &UInt32Array::from(order), None)?;
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        elements.offsets,
        values,
        elements.nulls,
    )?))
}

fn merges(elements: &Elements, width: usize) -> Vec<Merge> {
    let mut merges = vec![];
    for (row, ends) in elements.offsets.windows(2).enumerate() {
        let (from, to) = (ends[0] as usize, ends[1] as usize);
        for start in (from..to).step_by(2 * width) {
            let (middle, end) = ((start + width).min(to), (start + 2 * width).min(to));
            if middle < end {
                merges.push(Merge {
                    row: row as u32,
                    left: start,
                    middle,
                    right: middle,
                    end,
                    merged: Vec::with_capacity(end - start),
                    start,
                });
            }
        }
    }
    merges
}

/// One comparison for each merge that is not done; false if there is none.
fn compare(
    run: &Run<'_>,
    elements: &Elements,
    order: &[u32],
    merges: &mut [Merge],
) -> Result<bool> {
    let mut open: Vec<&mut Merge> = vec![];
    let (mut left, mut right) = (vec![], vec![]);
    for merge in merges {
        if let Some((l, r)) = merge.pair(order) {
            left.push(l);
            right.push(r);
            open.push(merge);
        }
    }
    if open.is_empty() {
        return Ok(false);
    }
    let rows = UInt32Array::from_iter_values(open.iter().map(|merge| merge.row));
    let left = take(&elements.columns[0], &UInt32Array::from(left), None)?;
    let right = take(&elements.columns[0], &UInt32Array::from(right), None)?;
    let answers = evaluate(run.lambdas[0], &[&left, &right], &rows)?;
    let answers = answers.as_primitive::<Int32Type>();
    for (merge, answer) in open.into_iter().zip(answers) {
        let Some(answer) = answer else {
            return Err(SparkError::external(
                "COMPARATOR_RETURNS_NULL",
                "array_sort: the comparator gives NULL for two elements; it must give a negative, zero or positive number",
            ));
        };
        merge.decide(order, answer <= 0);
    }
    Ok(true)
}
