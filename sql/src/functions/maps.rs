//! Maps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::coerce::{array_of, cast_from, common_type, map_of, map_types};
use super::collections::interleaved;
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The map family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("map", map),
    ("map_keys", |a| map_part(a, "map_keys", 0)),
    ("map_values", |a| map_part(a, "map_values", 1)),
    ("map_entries", map_entries),
    ("map_contains_key", |a| {
        a.expect(2, 2)?;
        let keys = a.call("map_keys", vec![a.exprs[0].clone()])?;
        a.call("array_contains", vec![keys, a.exprs[1].clone()])
    }),
    ("map_concat", map_concat),
];

fn map(args: Args<'_>) -> Result<Expr> {
    if !args.exprs.len().is_multiple_of(2) {
        return Err(SparkError::external(
            "WRONG_NUM_ARGS",
            "map takes pairs of key and value",
        ));
    }
    let common = |from: usize| -> Result<DataType> {
        let types: Vec<_> = args.types.iter().skip(from).step_by(2).cloned().collect();
        super::coerce::common_of(&types, "map")
    };
    let (key, value) = (common(0)?, common(1)?);
    let typed = args.exprs.iter().zip(&args.types).enumerate();
    let typed =
        typed.map(|(i, (e, t))| cast_from(e.clone(), t, if i % 2 == 0 { &key } else { &value }));
    Ok(Kernel::call(
        "map",
        map_of(key.clone(), value.clone()),
        "",
        make_map,
        typed.collect::<Result<Vec<_>>>()?,
    ))
}

fn make_map(call: &Call<'_>) -> Result<ColumnarValue> {
    let rows = if call
        .args
        .iter()
        .all(|a| matches!(a, ColumnarValue::Scalar(_)))
    {
        1
    } else {
        call.rows
    };
    let Some((kt, vt)) = map_types(call.returns) else {
        return plan_err!("map: {} is no map", call.returns);
    };
    let build = |columns: &[ArrayRef]| -> Result<ArrayRef> {
        let part = |from: usize, t: &DataType| {
            let picked: Vec<ArrayRef> = columns.iter().skip(from).step_by(2).cloned().collect();
            interleaved(&picked, rows, t)
        };
        let (keys, values) = (part(0, &kt)?, part(1, &vt)?);
        if keys.null_count() > 0 {
            return Err(SparkError::external(
                "NULL_MAP_KEY",
                "a map key must not be null",
            ));
        }
        let pairs = columns.len() / 2;
        map_array(
            call.returns,
            OffsetBuffer::from_lengths(std::iter::repeat_n(pairs, rows)),
            keys,
            values,
            None,
        )
    };
    if call.args.is_empty() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &build(&[])?,
            0,
        )?));
    }
    call.over_arrays(build)
}

/// A map column; a key twice in one map is an error as in Spark.
pub(super) fn map_array(
    t: &DataType,
    offsets: OffsetBuffer<i32>,
    keys: ArrayRef,
    values: ArrayRef,
    nulls: Option<arrow::buffer::NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Map(field, ordered) = t else {
        return plan_err!("{t} is no map");
    };
    let DataType::Struct(fields) = field.data_type() else {
        return plan_err!("{t} is no map");
    };
    let converter =
        arrow::row::RowConverter::new(vec![arrow::row::SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(&[Arc::clone(&keys)])?;
    for w in offsets.windows(2) {
        let mut seen = std::collections::HashSet::with_capacity((w[1] - w[0]) as usize);
        if let Some(twice) = (w[0]..w[1]).find(|i| !seen.insert(rows.row(*i as usize))) {
            let key = ScalarValue::try_from_array(&keys, twice as usize)?;
            return Err(SparkError::external(
                "DUPLICATED_MAP_KEY",
                format!("the key {key} is twice in one map"),
            ));
        }
    }
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(field),
        offsets,
        entries,
        nulls,
        *ordered,
    )?))
}

/// The value under a key; NULL if it is missing.
pub(super) fn map_value(args: &Args<'_>) -> Result<Expr> {
    let Some((kt, vt)) = map_types(&args.types[0]) else {
        return args.refuse();
    };
    if common_type(&kt, &args.types[1]).is_none() {
        return args.refuse();
    }
    let key = args.cast(1, &kt)?;
    Ok(Kernel::call(
        "map_value",
        vt,
        "",
        find_key,
        vec![args.exprs[0].clone(), key],
    ))
}

fn find_key(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let map = a[0].as_map();
        let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(
            a[1].data_type().clone(),
        )])?;
        let keys = converter.convert_columns(&[Arc::clone(map.keys())])?;
        let wanted = converter.convert_columns(&[Arc::clone(&a[1])])?;
        let offsets = map.value_offsets();
        let picks = (0..map.len()).map(|row| {
            if map.is_null(row) || a[1].is_null(row) {
                return None;
            }
            (offsets[row]..offsets[row + 1])
                .find(|i| keys.row(*i as usize) == wanted.row(row))
                .map(|i| i as u32)
        });
        Ok(take(map.values(), &UInt32Array::from_iter(picks), None)?)
    })
}

fn map_part(args: Args<'_>, name: &'static str, part: usize) -> Result<Expr> {
    args.expect(1, 1)?;
    let Some((k, v)) = map_types(&args.types[0]) else {
        return args.refuse();
    };
    let code: KernelFn = if part == 0 {
        |c| column_of_map(c, 0)
    } else {
        |c| column_of_map(c, 1)
    };
    Ok(Kernel::call(
        name,
        array_of(if part == 0 { k } else { v }),
        "",
        code,
        args.exprs.clone(),
    ))
}

fn column_of_map(call: &Call<'_>, part: usize) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else {
        return plan_err!("{} is no array", call.returns);
    };
    call.over_arrays(|a| {
        let map = a[0].as_map();
        let values = Arc::clone(map.entries().column(part));
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            map.offsets().clone(),
            values,
            map.nulls().cloned(),
        )?) as _)
    })
}

/// A map as an array of its entries.
pub(crate) fn entries_type(t: &DataType) -> Option<DataType> {
    let (k, v) = map_types(t)?;
    let fields = vec![Field::new("key", k, false), Field::new("value", v, true)];
    Some(array_of(DataType::Struct(fields.into())))
}

fn map_entries(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    let Some(t) = entries_type(&args.types[0]) else {
        return args.refuse();
    };
    Ok(entries(args.exprs[0].clone(), t))
}

/// The call behind `map_entries`, for explode as well.
pub(crate) fn entries(map: Expr, t: DataType) -> Expr {
    Kernel::call(
        "map_entries",
        t,
        "",
        |c| {
            let DataType::List(field) = c.returns else {
                return plan_err!("{} is no array", c.returns);
            };
            c.over_arrays(|a| {
                let map = a[0].as_map();
                let DataType::Struct(fields) = field.data_type() else {
                    return plan_err!("{} has no entries", c.returns);
                };
                let values: ArrayRef = Arc::new(StructArray::try_new(
                    fields.clone(),
                    map.entries().columns().to_vec(),
                    None,
                )?);
                Ok(Arc::new(ListArray::try_new(
                    Arc::clone(field),
                    map.offsets().clone(),
                    values,
                    map.nulls().cloned(),
                )?) as _)
            })
        },
        vec![map],
    )
}

fn map_concat(args: Args<'_>) -> Result<Expr> {
    let common = args.common()?;
    if map_types(&common).is_none() {
        return args.refuse();
    }
    let maps = (0..args.exprs.len())
        .map(|i| args.cast(i, &common))
        .collect::<Result<Vec<_>>>()?;
    Ok(Kernel::call(
        "map_concat",
        common,
        "",
        |c| {
            c.over_arrays(|maps| {
                let maps: Vec<&MapArray> = maps.iter().map(|m| m.as_map()).collect();
                let rows = maps[0].len();
                let nulls: Vec<bool> = (0..rows)
                    .map(|r| maps.iter().all(|m| m.is_valid(r)))
                    .collect();
                let (mut picks, mut lengths) = (vec![], vec![]);
                for (row, alive) in nulls.iter().enumerate() {
                    let before = picks.len();
                    for (m, map) in maps.iter().enumerate().filter(|_| *alive) {
                        let offsets = map.value_offsets();
                        picks.extend((offsets[row]..offsets[row + 1]).map(|i| (m, i as usize)));
                    }
                    lengths.push(picks.len() - before);
                }
                let column = |part: usize| -> Result<ArrayRef> {
                    let columns: Vec<&dyn Array> = maps
                        .iter()
                        .map(|m| m.entries().column(part).as_ref())
                        .collect();
                    Ok(arrow::compute::interleave(&columns, &picks)?)
                };
                map_array(
                    c.returns,
                    OffsetBuffer::from_lengths(lengths),
                    column(0)?,
                    column(1)?,
                    Some(nulls.into()),
                )
            })
        },
        maps,
    ))
}
