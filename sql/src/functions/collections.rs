//! Arrays: making them, taking elements, and the generators that only a relation may hold.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::coerce::{array_of, cast_from, element_type, is_integer, map_types};
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::maps::map_value;
use super::structs::field_of;
use super::{Args, Resolver};

/// The array family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("array", array),
    ("make_array", array),
    ("element_at", |a| element_at(a, "element_at")),
    ("try_element_at", |a| element_at(a, "try_element_at")),
    ("get", |a| {
        a.expect(2, 2)?;
        item(
            &a,
            "get",
            Access {
                one_based: false,
                strict: false,
            },
        )
    }),
    ("__index", |a| match &a.types[0] {
        DataType::Map(_, _) => map_value(&a),
        DataType::Struct(_) => field_of(&a),
        _ => item(
            &a,
            "index",
            Access {
                one_based: false,
                strict: true,
            },
        ),
    }),
    ("size", |a| {
        a.expect(1, 1)?;
        size(a)
    }),
    ("cardinality", size),
    ("explode", generator),
    ("explode_outer", generator),
    ("posexplode", generator),
    ("posexplode_outer", generator),
    ("inline", generator),
    ("inline_outer", generator),
    ("stack", generator),
];

fn generator(args: Args<'_>) -> Result<Expr> {
    let message = format!(
        "{} makes rows: it is allowed in LATERAL VIEW or as one whole column of SELECT",
        args.name
    );
    Err(SparkError::external(
        "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
        message,
    ))
}

fn array(args: Args<'_>) -> Result<Expr> {
    let element = args.common()?;
    let values = args
        .exprs
        .iter()
        .zip(&args.types)
        .map(|(e, t)| cast_from(e.clone(), t, &element));
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Kernel::call(
        "array",
        array_of(element),
        "",
        make_array,
        values,
    ))
}

fn make_array(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else {
        return plan_err!("array: {} is no array", call.returns);
    };
    let width = call.args.len();
    let rows = if call
        .args
        .iter()
        .all(|a| matches!(a, ColumnarValue::Scalar(_)))
    {
        1
    } else {
        call.rows
    };
    let build = |columns: &[ArrayRef]| -> Result<ArrayRef> {
        let values = interleaved(columns, rows, field.data_type())?;
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, rows));
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            offsets,
            values,
            None,
        )?))
    };
    if width == 0 {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &build(&[])?,
            0,
        )?));
    }
    call.over_arrays(build)
}

/// Row 0 of every column, row 1 of every column, …
pub(super) fn interleaved(columns: &[ArrayRef], rows: usize, t: &DataType) -> Result<ArrayRef> {
    if columns.is_empty() {
        return Ok(arrow::array::new_empty_array(t));
    }
    let refs: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let picks: Vec<(usize, usize)> = (0..rows)
        .flat_map(|r| (0..columns.len()).map(move |c| (c, r)))
        .collect();
    Ok(arrow::compute::interleave(&refs, &picks)?)
}

/// How `a[i]`, `get` and `element_at` count and what they do out of bounds.
#[derive(Clone, Copy)]
struct Access {
    one_based: bool,
    strict: bool,
}

fn element_at(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(2, 2)?;
    match &args.types[0] {
        DataType::Map(_, _) => map_value(&args),
        _ => item(
            &args,
            name,
            Access {
                one_based: true,
                strict: name == "element_at",
            },
        ),
    }
}

fn item(args: &Args<'_>, name: &'static str, access: Access) -> Result<Expr> {
    let Some(element) = element_type(&args.types[0]) else {
        return args.refuse();
    };
    if !is_integer(&args.types[1]) && args.types[1] != DataType::Null {
        return args.refuse();
    }
    let code: KernelFn = match (access.one_based, access.strict) {
        (true, true) => |c| {
            pick(
                c,
                Access {
                    one_based: true,
                    strict: true,
                },
            )
        },
        (true, false) => |c| {
            pick(
                c,
                Access {
                    one_based: true,
                    strict: false,
                },
            )
        },
        (false, true) => |c| {
            pick(
                c,
                Access {
                    one_based: false,
                    strict: true,
                },
            )
        },
        (false, false) => |c| {
            pick(
                c,
                Access {
                    one_based: false,
                    strict: false,
                },
            )
        },
    };
    Ok(Kernel::call(
        name,
        element,
        "",
        code,
        vec![args.exprs[0].clone(), args.cast(1, &DataType::Int32)?],
    ))
}

fn pick(call: &Call<'_>, access: Access) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (list, index) = (a[0].as_list::<i32>(), a[1].as_primitive::<Int32Type>());
        let mut picks = Vec::with_capacity(list.len());
        for row in 0..list.len() {
            if list.is_null(row) || index.is_null(row) {
                picks.push(None);
                continue;
            }
            picks.push(
                place(index.value(row), list.value_length(row), access)?
                    .map(|at| (list.value_offsets()[row] + at) as u32),
            );
        }
        Ok(take(list.values(), &UInt32Array::from(picks), None)?)
    })
}

/// The place of index `i` in an array of `length` values.
fn place(i: i32, length: i32, access: Access) -> Result<Option<i32>> {
    if access.one_based && i == 0 {
        return Err(SparkError::external(
            "INVALID_INDEX_OF_ZERO",
            "the index 0 is invalid; arrays count from 1 here, or from -1 backwards",
        ));
    }
    let at = match access.one_based {
        true if i > 0 => i - 1,
        true => length + i,
        false => i,
    };
    if (0..length).contains(&at) {
        return Ok(Some(at));
    }
    if access.strict {
        let condition = if access.one_based {
            "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
        } else {
            "INVALID_ARRAY_INDEX"
        };
        let message = format!(
            "the index {i} is out of bounds, the array has {length} elements; use get or try_element_at for NULL"
        );
        return Err(SparkError::external(condition, message));
    }
    Ok(None)
}

/// INT; NULL for NULL.
fn size(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    if element_type(&args.types[0]).is_none() && map_types(&args.types[0]).is_none() {
        return args.refuse();
    }
    Ok(Kernel::call(
        "size",
        DataType::Int32,
        "",
        |c| {
            c.over_arrays(|a| {
                let (offsets, nulls) = match a[0].data_type() {
                    DataType::Map(_, _) => (a[0].as_map().offsets().clone(), a[0].nulls().cloned()),
                    _ => (
                        a[0].as_list::<i32>().offsets().clone(),
                        a[0].nulls().cloned(),
                    ),
                };
                let lengths: ScalarBuffer<i32> = offsets
                    .windows(2)
                    .map(|w| w[1] - w[0])
                    .collect::<Vec<_>>()
                    .into();
                Ok(Arc::new(arrow::array::Int32Array::try_new(lengths, nulls)?) as _)
            })
        },
        args.exprs.clone(),
    ))
}

/// An array of type `t` from typed values.
pub(crate) fn array_from(t: DataType, values: Vec<Expr>) -> Expr {
    Kernel::call("array", t, "", make_array, values)
}
