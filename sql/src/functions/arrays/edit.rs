//! Arrays with elements added, taken out or put in another order.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{filter, interleave, is_not_null, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::super::coerce::{array_of, element_type};
use super::super::elements::{Elements, list};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::{Args, Resolver};
use super::{array_and_value, element, ints};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("array_append", |a| {
        add(a, "array_append", |c| added(c, false))
    }),
    ("array_prepend", |a| {
        add(a, "array_prepend", |c| added(c, true))
    }),
    ("array_insert", |a| {
        a.expect(3, 3)?;
        let (array, value, t) = array_and_value(&a, 2)?;
        let values = vec![array, a.cast(1, &DataType::Int32)?, value];
        Ok(Kernel::call(
            "array_insert",
            array_of(t),
            "",
            insert,
            values,
        ))
    }),
    ("array_compact", |a| on_array(a, "array_compact", compact)),
    ("slice", |a| {
        a.expect(3, 3)?;
        let t = array_of(element(&a, 0)?);
        let values = vec![
            a.cast(0, &t)?,
            a.cast(1, &DataType::Int32)?,
            a.cast(2, &DataType::Int32)?,
        ];
        Ok(Kernel::call("slice", t, "", slice, values))
    }),
    ("array_repeat", |a| {
        a.expect(2, 2)?;
        let t = array_of(a.types[0].clone());
        let values = vec![a.exprs[0].clone(), a.cast(1, &DataType::Int32)?];
        Ok(Kernel::call("array_repeat", t, "", repeat, values))
    }),
    ("flatten", |a| {
        a.expect(1, 1)?;
        let inner = element(&a, 0)?;
        if element_type(&inner).is_none() && inner != DataType::Null {
            return a.refuse();
        }
        Ok(Kernel::call("flatten", inner, "", flatten, a.exprs.clone()))
    }),
    ("array_reverse", |a| on_array(a, "array_reverse", reverse)),
];

fn on_array(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(1, 1)?;
    let t = array_of(element(&args, 0)?);
    let array = args.cast(0, &t)?;
    Ok(Kernel::call(name, t, "", code, vec![array]))
}

fn add(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let (array, value, t) = array_and_value(&args, 1)?;
    Ok(Kernel::call(
        name,
        array_of(t),
        "",
        code,
        vec![array, value],
    ))
}

/// An array column whose rows are made of elements of two columns, `(0, …)` of the first and `(1, …)` of the second.
struct Made<'a> {
    elements: &'a Elements,
    picks: Vec<(usize, usize)>,
    lengths: Vec<usize>,
}

impl<'a> Made<'a> {
    fn of(elements: &'a Elements) -> Self {
        Self {
            elements,
            picks: vec![],
            lengths: vec![],
        }
    }

    fn own(&mut self, from: std::ops::Range<usize>) {
        self.picks.extend(from.map(|i| (0, i)));
    }

    fn close(&mut self) {
        let before: usize = self.lengths.iter().sum();
        self.lengths.push(self.picks.len() - before);
    }

    fn finish(
        self,
        t: &DataType,
        others: &ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let columns: [&dyn Array; 2] = [&self.elements.columns[0], others];
        let values = interleave(&columns, &self.picks)?;
        list(t, OffsetBuffer::from_lengths(self.lengths), values, nulls)
    }
}

fn added(call: &Call<'_>, in_front: bool) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let mut picks = Vec::with_capacity(elements.rows.len() + a[0].len());
        let mut lengths = Vec::with_capacity(a[0].len());
        for row in 0..a[0].len() {
            let range = elements.range(row);
            let alive = a[0].is_valid(row);
            lengths.push(range.len() + usize::from(alive));
            let own = range.map(|i| (0, i));
            match in_front {
                true => picks.extend(alive.then_some((1, row)).into_iter().chain(own)),
                false => picks.extend(own.chain(alive.then_some((1, row)))),
            }
        }
        let columns: [&dyn Array; 2] = [&elements.columns[0], &a[1]];
        let values = interleave(&columns, &picks)?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            elements.nulls,
        )
    })
}

/// `array_insert(array, place, value)`: places count from 1, or from -1 backwards; what lies between is NULL.
fn insert(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let places = ints(&a[1]);
        let nulls = NullBuffer::union(elements.nulls.as_ref(), places.nulls());
        // The value of each row, and behind them the NULL that fills gaps.
        let nothing = arrow::array::new_null_array(a[2].data_type(), 1);
        let others = arrow::compute::concat(&[a[2].as_ref(), nothing.as_ref()])?;
        let gap = (1, a[2].len());
        let mut made = Made::of(&elements);
        for row in 0..a[0].len() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let range = elements.range(row);
                let (length, place) = (range.len(), places.value(row));
                check_size(length.max(place.unsigned_abs() as usize), "array_insert")?;
                let at = place.unsigned_abs() as usize;
                match place {
                    0 => {
                        return Err(SparkError::external(
                            "INVALID_INDEX_OF_ZERO",
                            "array_insert: the place 0 is invalid; places count from 1, or from -1 backwards",
                        ));
                    }
                    1.. => {
                        let before = (at - 1).min(length);
                        made.own(range.start..range.start + before);
                        made.picks.resize(made.picks.len() + (at - 1 - before), gap);
                        made.picks.push((1, row));
                        made.own(range.start + before..range.end);
                    }
                    _ if at <= length + 1 => {
                        let before = length + 1 - at;
                        made.own(range.start..range.start + before);
                        made.picks.push((1, row));
                        made.own(range.start + before..range.end);
                    }
                    _ => {
                        made.picks.push((1, row));
                        made.picks.resize(made.picks.len() + (at - 1 - length), gap);
                        made.own(range);
                    }
                }
            }
            made.close();
        }
        made.finish(call.returns, &others, nulls)
    })
}

/// Arrays are limited so that a number in the data cannot ask for all memory.
const MOST_ELEMENTS: usize = i32::MAX as usize - 15;

pub(in super::super) fn check_size(size: usize, what: &str) -> Result<()> {
    if size <= MOST_ELEMENTS {
        return Ok(());
    }
    let message = format!("{what}: an array of {size} elements, allowed are {MOST_ELEMENTS}");
    Err(SparkError::external(
        "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
        message,
    ))
}

fn compact(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let kept: BooleanArray = is_not_null(&elements.columns[0])?;
        let values = filter(&elements.columns[0], &kept)?;
        let offsets = OffsetBuffer::from_lengths(elements.lengths_of(&kept));
        list(call.returns, offsets, values, elements.nulls)
    })
}

/// `slice(array, start, length)`: starts count from 1, or from -1 backwards; a start outside gives an empty array.
fn slice(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let (starts, counts) = (ints(&a[1]), ints(&a[2]));
        let nulls = NullBuffer::union(elements.nulls.as_ref(), starts.nulls());
        let nulls = NullBuffer::union(nulls.as_ref(), counts.nulls());
        let (mut picks, mut lengths) = (vec![], vec![]);
        for row in 0..a[0].len() {
            let before = picks.len();
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let range = elements.range(row);
                let (start, count) = (i64::from(starts.value(row)), counts.value(row));
                let wrong = |parameter: &'static str, message: &str| {
                    Err(SparkError::external(parameter, format!("slice: {message}")))
                };
                let from = match start {
                    0 => {
                        return wrong(
                            "INVALID_PARAMETER_VALUE.START",
                            "the start 0 is invalid; it counts from 1, or from -1 backwards",
                        );
                    }
                    1.. => start - 1,
                    _ => range.len() as i64 + start,
                };
                let Ok(count) = usize::try_from(count) else {
                    return wrong(
                        "INVALID_PARAMETER_VALUE.LENGTH",
                        &format!("the length {count} is negative"),
                    );
                };
                if let Ok(from) = usize::try_from(from) {
                    picks.extend(range.skip(from).take(count).map(|i| i as u32));
                }
            }
            lengths.push(picks.len() - before);
        }
        let values = take(&elements.columns[0], &UInt32Array::from(picks), None)?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            nulls,
        )
    })
}

fn repeat(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let counts = ints(&a[1]);
        let lengths = lengths(counts);
        check_size(lengths.iter().sum(), "array_repeat")?;
        let rows = lengths.iter().enumerate();
        let picks: UInt32Array = rows
            .flat_map(|(row, n)| std::iter::repeat_n(Some(row as u32), *n))
            .collect();
        let values = take(&a[0], &picks, None)?;
        let nulls = counts.nulls().cloned();
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            nulls,
        )
    })
}

fn lengths(counts: &Int32Array) -> Vec<usize> {
    let count = |n: Option<i32>| usize::try_from(n.unwrap_or(0)).unwrap_or(0);
    counts.iter().map(count).collect()
}

/// The elements of the elements; NULL if one of the inner arrays is.
fn flatten(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        if *call.returns == DataType::Null {
            return Ok(arrow::array::new_null_array(call.returns, a[0].len()));
        }
        let outer = Elements::of(&a[0])?;
        let inner = outer.columns[0].as_list::<i32>();
        let (mut picks, mut lengths, mut alive) = (vec![], vec![], vec![]);
        for row in 0..a[0].len() {
            let before = picks.len();
            let whole = a[0].is_valid(row) && outer.range(row).all(|i| inner.is_valid(i));
            if whole {
                let offsets = inner.value_offsets();
                picks.extend(
                    outer
                        .range(row)
                        .flat_map(|i| offsets[i] as u32..offsets[i + 1] as u32),
                );
            }
            lengths.push(picks.len() - before);
            alive.push(whole);
        }
        let values = take(inner.values(), &UInt32Array::from(picks), None)?;
        let nulls = Some(NullBuffer::from(alive));
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            nulls,
        )
    })
}

fn reverse(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let rows = 0..a[0].len();
        let picks: Vec<u32> = rows
            .flat_map(|row| elements.range(row).rev().map(|i| i as u32))
            .collect();
        let values = take(&elements.columns[0], &UInt32Array::from(picks), None)?;
        list(call.returns, elements.offsets, values, elements.nulls)
    })
}
