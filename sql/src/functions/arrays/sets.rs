//! Membership and sets: `array_contains`, `array_distinct`, `array_union` and their kin.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::super::coerce::array_of;
use super::super::elements::{Elements, list};
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::{Args, Resolver};
use super::{array_and_value, comparable, same_arrays};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("array_contains", |a| {
        find(a, "array_contains", DataType::Boolean, contains)
    }),
    ("array_position", |a| {
        find(a, "array_position", DataType::Int64, position)
    }),
    ("array_remove", |a| {
        a.expect(2, 2)?;
        let (array, value, element) = array_and_value(&a, 1)?;
        let t = array_of(element);
        Ok(Kernel::call(
            "array_remove",
            t,
            "",
            remove,
            vec![array, value],
        ))
    }),
    ("array_distinct", |a| {
        combine(a, "array_distinct", 1, |c| set(c, Pick::Either))
    }),
    ("array_union", |a| {
        combine(a, "array_union", 2, |c| set(c, Pick::Either))
    }),
    ("array_intersect", |a| {
        combine(a, "array_intersect", 2, |c| set(c, Pick::Both))
    }),
    ("array_except", |a| {
        combine(a, "array_except", 2, |c| set(c, Pick::First))
    }),
    ("arrays_overlap", |a| {
        a.expect(2, 2)?;
        let (arrays, _) = same_arrays(&a)?;
        Ok(Kernel::call(
            "arrays_overlap",
            DataType::Boolean,
            "",
            overlap,
            arrays,
        ))
    }),
];

/// A call that looks for a value in an array.
fn find(args: Args<'_>, name: &'static str, returns: DataType, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let (array, value, _) = array_and_value(&args, 1)?;
    Ok(Kernel::call(name, returns, "", code, vec![array, value]))
}

/// TRUE if the value is in the array, else NULL if the array holds a NULL.
fn contains(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let (own, wanted) = comparable(&elements.columns[0], &a[1])?;
        let row = |row: usize| {
            if a[0].is_null(row) || a[1].is_null(row) {
                return None;
            }
            let mut range = elements.range(row);
            let unknown = range.clone().any(|i| elements.columns[0].is_null(i));
            match range.any(|i| own.row(i) == wanted.row(row)) {
                true => Some(true),
                false => (!unknown).then_some(false),
            }
        };
        let found = (0..a[0].len()).map(row);
        Ok(Arc::new(found.collect::<BooleanArray>()) as ArrayRef)
    })
}

/// The first place of the value, from 1; 0 if it is nowhere.
fn position(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let (own, wanted) = comparable(&elements.columns[0], &a[1])?;
        let row = |row: usize| {
            if a[0].is_null(row) || a[1].is_null(row) {
                return None;
            }
            let place = elements
                .range(row)
                .position(|i| own.row(i) == wanted.row(row));
            Some(place.map_or(0, |place| place as i64 + 1))
        };
        let found = (0..a[0].len()).map(row);
        Ok(Arc::new(found.collect::<Int64Array>()) as ArrayRef)
    })
}

/// The array without the elements that equal the value.
fn remove(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let (own, wanted) = comparable(&elements.columns[0], &a[1])?;
        let nulls = NullBuffer::union(elements.nulls.as_ref(), a[1].logical_nulls().as_ref());
        let (mut kept, mut lengths) = (vec![], vec![]);
        for row in 0..a[0].len() {
            let before = kept.len();
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let differing = elements
                    .range(row)
                    .filter(|i| own.row(*i) != wanted.row(row));
                kept.extend(differing.map(|i| i as u32));
            }
            lengths.push(kept.len() - before);
        }
        let values = take(&elements.columns[0], &UInt32Array::from(kept), None)?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            nulls,
        )
    })
}

/// Which elements of two arrays make up a set.
#[derive(Clone, Copy, PartialEq)]
enum Pick {
    /// All of both.
    Either,
    /// Those of the first that are in the second too.
    Both,
    /// Those of the first that are not in the second.
    First,
}

/// A set of the elements of one array or two, each once and in the order of its first place.
fn combine(args: Args<'_>, name: &'static str, count: usize, code: KernelFn) -> Result<Expr> {
    args.expect(count, count)?;
    let (arrays, t) = same_arrays(&args)?;
    Ok(Kernel::call(name, t, "", code, arrays))
}

fn set(call: &Call<'_>, pick: Pick) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let other = a.last().unwrap_or(&a[0]);
        let both = [Elements::of(&a[0])?, Elements::of(other)?];
        let (first, second) = comparable(&both[0].columns[0], &both[1].columns[0])?;
        let rows = [first, second];
        let nulls = NullBuffer::union(both[0].nulls.as_ref(), both[1].nulls.as_ref());
        let (mut picks, mut lengths) = (vec![], vec![]);
        for row in 0..a[0].len() {
            let before = picks.len();
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                let second: HashSet<_> = both[1].range(row).map(|i| rows[1].row(i)).collect();
                let mut seen = HashSet::new();
                for i in both[0].range(row) {
                    let element = rows[0].row(i);
                    let wanted = match pick {
                        Pick::Either => true,
                        Pick::Both => second.contains(&element),
                        Pick::First => !second.contains(&element),
                    };
                    if wanted && seen.insert(element) {
                        picks.push((0, i));
                    }
                }
                if pick == Pick::Either {
                    let more = both[1].range(row).filter(|i| seen.insert(rows[1].row(*i)));
                    picks.extend(more.map(|i| (1, i)));
                }
            }
            lengths.push(picks.len() - before);
        }
        let columns: [&dyn Array; 2] = [&both[0].columns[0], &both[1].columns[0]];
        let values = interleave(&columns, &picks)?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            nulls,
        )
    })
}

/// TRUE if both arrays have an element that is not NULL, else NULL if one holds a NULL and neither is empty.
fn overlap(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let both = [Elements::of(&a[0])?, Elements::of(&a[1])?];
        let (first, second) = comparable(&both[0].columns[0], &both[1].columns[0])?;
        let rows = [first, second];
        let known = |side: usize, row: usize| {
            let column = &both[side].columns[0];
            both[side].range(row).filter(move |i| column.is_valid(*i))
        };
        let row = |row: usize| {
            if a[0].is_null(row) || a[1].is_null(row) {
                return None;
            }
            let first: HashSet<_> = known(0, row).map(|i| rows[0].row(i)).collect();
            if known(1, row).any(|i| first.contains(&rows[1].row(i))) {
                return Some(true);
            }
            let empty = both.iter().any(|side| side.range(row).is_empty());
            let holds_null = |side: usize| known(side, row).count() < both[side].range(row).len();
            match !empty && (holds_null(0) || holds_null(1)) {
                true => None,
                false => Some(false),
            }
        };
        let found = (0..a[0].len()).map(row);
        Ok(Arc::new(found.collect::<BooleanArray>()) as ArrayRef)
    })
}
