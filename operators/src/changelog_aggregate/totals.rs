//! Groups of which only totals are kept: the number of rows, and for each call how many values it has seen and their sum.

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Field, Fields, Int64Type};
use std::sync::Arc;
use weir_runtime::{Result, Rows, WeirError};

use super::Shape;
use crate::aggregate::AggregateCall;
use crate::multiset::sign;

/// Decimal digits of a sum, as wide as they get.
const SUM: DataType = DataType::Decimal128(38, 0);

/// Totals of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupTotals {
    /// Number of rows.
    pub(super) rows: i64,
    /// For each call the values counted and their sum (0 for counts).
    calls: Vec<(i64, i128)>,
}

/// The columns of totals in state.
pub(super) fn fields(calls: &[AggregateCall]) -> Fields {
    let of_call = |call: &AggregateCall| {
        [
            Field::new(format!("{}[count]", call.id), DataType::Int64, true),
            Field::new(format!("{}[sum]", call.id), SUM, true),
        ]
    };
    let rows = Field::new("rows", DataType::Int64, true);
    std::iter::once(rows)
        .chain(calls.iter().flat_map(of_call))
        .collect()
}

impl GroupTotals {
    fn none(calls: usize) -> Self {
        Self {
            rows: 0,
            calls: vec![(0, 0); calls],
        }
    }

    /// Adds other totals.
    pub(super) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        for ((count, sum), (more, value)) in self.calls.iter_mut().zip(&other.calls) {
            *count += more;
            *sum += value;
        }
    }

    /// True if nothing was added or taken away.
    pub(super) fn is_nothing(&self) -> bool {
        self.rows == 0 && self.calls.iter().all(|call| *call == (0, 0))
    }

    fn is_possible(&self) -> bool {
        self.rows >= 0 && self.calls.iter().all(|(count, _)| *count >= 0)
    }
}

/// What the open epoch adds to each slot.
#[derive(Debug, Default)]
pub(super) struct Totals {
    slots: Vec<GroupTotals>,
}

impl Totals {
    /// Adds rows, each to its slot; columns are those of the input.
    pub(super) fn add(&mut self, shape: &Shape, rows: &Rows, slots: &[usize]) -> Result<()> {
        let calls = &shape.calls.list;
        let signs: Vec<i64> = (0..rows.num_rows())
            .map(|row| sign(rows.kind(row)))
            .collect();
        for (slot, sign) in slots.iter().zip(&signs) {
            self.of(*slot, calls.len()).rows += sign;
        }
        for (index, call) in calls.iter().enumerate() {
            let values = Values::of(call, rows.batch(), shape)?;
            for (row, (slot, sign)) in slots.iter().zip(&signs).enumerate() {
                if let Some(value) = values.get(row) {
                    let (count, sum) = &mut self.slots[*slot].calls[index];
                    *count += sign;
                    *sum += i128::from(value) * i128::from(*sign);
                }
            }
        }
        Ok(())
    }

    fn of(&mut self, slot: usize, calls: usize) -> &mut GroupTotals {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, GroupTotals::none(calls));
        }
        &mut self.slots[slot]
    }

    /// What the epoch adds to each of `total` slots; the epoch is over.
    pub(super) fn take(&mut self, total: usize, calls: usize) -> Vec<GroupTotals> {
        let mut slots = std::mem::take(&mut self.slots);
        slots.resize(total, GroupTotals::none(calls));
        slots
    }
}

/// The values of a call: those of its argument, or a mark that there is one.
struct Values {
    /// Rows that do not count: the filter is not true, or an argument is null.
    skipped: Vec<bool>,
    summed: Option<Int64Array>,
}

impl Values {
    fn of(call: &AggregateCall, batch: &RecordBatch, shape: &Shape) -> Result<Self> {
        let mut skipped = vec![false; batch.num_rows()];
        if let Some(column) = call.filter {
            let filter = batch.column(column).as_boolean();
            let passes = |row| filter.is_valid(row) && filter.value(row);
            skipped
                .iter_mut()
                .enumerate()
                .for_each(|(row, skipped)| *skipped |= !passes(row));
        }
        let mut last = None;
        for argument in call.function.expressions() {
            let values = argument
                .evaluate(batch)
                .and_then(|value| value.into_array_of_size(batch.num_rows()))
                .map_err(shape.calls.errors)?;
            if let Some(nulls) = values.logical_nulls() {
                skipped
                    .iter_mut()
                    .zip(nulls.iter())
                    .for_each(|(skipped, valid)| *skipped |= !valid);
            }
            last = Some(values);
        }
        let sums = call.function.fun().name() == "sum";
        let summed = last.filter(|_| sums).map(|values| {
            arrow::compute::cast(&values, &DataType::Int64)
                .map(|values| values.as_primitive::<Int64Type>().clone())
        });
        Ok(Self {
            skipped,
            summed: summed.transpose()?,
        })
    }

    fn get(&self, row: usize) -> Option<i64> {
        let counts = !self.skipped[row];
        counts.then(|| self.summed.as_ref().map_or(0, |values| values.value(row)))
    }
}

/// Totals as columns of state.
pub(super) fn columns(groups: &[GroupTotals], calls: usize) -> Result<Vec<ArrayRef>> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(1 + 2 * calls);
    columns.push(Arc::new(
        groups
            .iter()
            .map(|group| group.rows)
            .collect::<Int64Array>(),
    ));
    for call in 0..calls {
        let counts: Int64Array = groups.iter().map(|group| group.calls[call].0).collect();
        let sums: Decimal128Array = groups
            .iter()
            .map(|group| Some(group.calls[call].1))
            .collect();
        columns.push(Arc::new(counts));
        columns.push(Arc::new(sums.with_precision_and_scale(38, 0)?));
    }
    Ok(columns)
}

/// Totals from columns of state.
pub(super) fn groups(columns: &[ArrayRef], calls: usize) -> Vec<GroupTotals> {
    let Some(rows) = columns.first() else {
        return Vec::new();
    };
    let rows = rows.as_primitive::<Int64Type>();
    let group = |row: usize| GroupTotals {
        rows: rows.value(row),
        calls: (0..calls)
            .map(|call| {
                let counts = columns[1 + 2 * call].as_primitive::<Int64Type>();
                let sums = columns[2 + 2 * call].as_primitive::<Decimal128Type>();
                (counts.value(row), sums.value(row))
            })
            .collect(),
    };
    (0..rows.len()).map(group).collect()
}

/// The results of groups.
///
/// # Errors
/// If a sum is no BIGINT, or more rows were taken back than there were.
pub(super) fn results(groups: &[GroupTotals], calls: &[AggregateCall]) -> Result<Vec<ArrayRef>> {
    if groups.iter().any(|group| !group.is_possible()) {
        return Err(WeirError::data(
            "more rows of a group are taken back than it had: a step before gives other rows for the same input",
        ));
    }
    let result = |(index, call): (usize, &AggregateCall)| -> Result<ArrayRef> {
        let of = |group: &GroupTotals| group.calls[index];
        if call.function.fun().name() != "sum" {
            let counts: Int64Array = groups.iter().map(|group| of(group).0).collect();
            return Ok(Arc::new(counts));
        }
        let sum = |group: &GroupTotals| match of(group) {
            (0, _) => Ok(None),
            (_, sum) => i64::try_from(sum)
                .map(Some)
                .map_err(|_| overflow(call, sum)),
        };
        Ok(Arc::new(
            groups.iter().map(sum).collect::<Result<Int64Array>>()?,
        ))
    };
    calls.iter().enumerate().map(result).collect()
}

fn overflow(call: &AggregateCall, sum: i128) -> WeirError {
    WeirError::data(format!("{} overflows BIGINT: {sum}", call.id))
        .with_condition("ARITHMETIC_OVERFLOW")
}
