//! Arrays, maps and structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields, Int32Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

use super::coerce::{array_of, cast_from, common_type, element_type, is_integer, map_of, map_types};
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The array, map and struct family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("array", array),
    ("make_array", array),
    ("map", map),
    ("struct", structure),
    ("named_struct", named_struct),
    ("element_at", |a| element_at(a, "element_at")),
    ("try_element_at", |a| element_at(a, "try_element_at")),
    ("get", |a| {
        a.expect(2, 2)?;
        item(&a, "get", Access { one_based: false, strict: false })
    }),
    ("__index", |a| match &a.types[0] {
        DataType::Map(_, _) => map_value(&a),
        DataType::Struct(_) => field_of(&a),
        _ => item(&a, "index", Access { one_based: false, strict: true }),
    }),
    ("__field", |a| field_of(&a)),
    ("size", |a| {
        a.expect(1, 1)?;
        size(a)
    }),
    ("cardinality", size),
    ("map_keys", |a| map_part(a, "map_keys", 0)),
    ("map_values", |a| map_part(a, "map_values", 1)),
    ("map_entries", map_entries),
    ("map_contains_key", |a| {
        a.expect(2, 2)?;
        let keys = a.call("map_keys", vec![a.exprs[0].clone()])?;
        a.call("array_contains", vec![keys, a.exprs[1].clone()])
    }),
    ("map_concat", map_concat),
    ("sort_array", sort_array),
    ("explode", generator),
    ("explode_outer", generator),
    ("posexplode", generator),
    ("posexplode_outer", generator),
    ("inline", generator),
    ("inline_outer", generator),
    ("stack", generator),
];

fn generator(args: Args<'_>) -> Result<Expr> {
    let message = format!("{} makes rows: it is allowed in LATERAL VIEW or as one whole column of SELECT", args.name);
    Err(SparkError::external("UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS", message))
}

fn array(args: Args<'_>) -> Result<Expr> {
    let element = args.common()?;
    let values = args.exprs.iter().zip(&args.types).map(|(e, t)| cast_from(e.clone(), t, &element));
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(Kernel::call("array", array_of(element), "", make_array, values))
}

fn make_array(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else { return plan_err!("array: {} is no array", call.returns) };
    let width = call.args.len();
    let rows = if call.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_))) { 1 } else { call.rows };
    let build = |columns: &[ArrayRef]| -> Result<ArrayRef> {
        let values = interleaved(columns, rows, field.data_type())?;
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(width, rows));
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, None)?))
    };
    if width == 0 {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&build(&[])?, 0)?));
    }
    call.over_arrays(build)
}

/// Row 0 of every column, row 1 of every column, …
fn interleaved(columns: &[ArrayRef], rows: usize, t: &DataType) -> Result<ArrayRef> {
    if columns.is_empty() {
        return Ok(arrow::array::new_empty_array(t));
    }
    let refs: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let picks: Vec<(usize, usize)> = (0..rows).flat_map(|r| (0..columns.len()).map(move |c| (c, r))).collect();
    Ok(arrow::compute::interleave(&refs, &picks)?)
}

fn map(args: Args<'_>) -> Result<Expr> {
    if !args.exprs.len().is_multiple_of(2) {
        return Err(SparkError::external("WRONG_NUM_ARGS", "map takes pairs of key and value"));
    }
    let common = |from: usize| -> Result<DataType> {
        let types: Vec<_> = args.types.iter().skip(from).step_by(2).cloned().collect();
        super::coerce::common_of(&types, "map")
    };
    let (key, value) = (common(0)?, common(1)?);
    let typed = args.exprs.iter().zip(&args.types).enumerate();
    let typed = typed.map(|(i, (e, t))| cast_from(e.clone(), t, if i % 2 == 0 { &key } else { &value }));
    Ok(Kernel::call("map", map_of(key.clone(), value.clone()), "", make_map, typed.collect::<Result<Vec<_>>>()?))
}

fn make_map(call: &Call<'_>) -> Result<ColumnarValue> {
    let rows = if call.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_))) { 1 } else { call.rows };
    let Some((kt, vt)) = map_types(call.returns) else { return plan_err!("map: {} is no map", call.returns) };
    let build = |columns: &[ArrayRef]| -> Result<ArrayRef> {
        let part = |from: usize, t: &DataType| {
            let picked: Vec<ArrayRef> = columns.iter().skip(from).step_by(2).cloned().collect();
            interleaved(&picked, rows, t)
        };
        let (keys, values) = (part(0, &kt)?, part(1, &vt)?);
        if keys.null_count() > 0 {
            return Err(SparkError::external("NULL_MAP_KEY", "a map key must not be null"));
        }
        let pairs = columns.len() / 2;
        map_array(call.returns, OffsetBuffer::from_lengths(std::iter::repeat_n(pairs, rows)), keys, values, None)
    };
    if call.args.is_empty() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&build(&[])?, 0)?));
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
    let DataType::Map(field, ordered) = t else { return plan_err!("{t} is no map") };
    let DataType::Struct(fields) = field.data_type() else { return plan_err!("{t} is no map") };
    let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(&[Arc::clone(&keys)])?;
    for w in offsets.windows(2) {
        let mut seen = std::collections::HashSet::with_capacity((w[1] - w[0]) as usize);
        if let Some(twice) = (w[0]..w[1]).find(|i| !seen.insert(rows.row(*i as usize))) {
            let key = ScalarValue::try_from_array(&keys, twice as usize)?;
            return Err(SparkError::external("DUPLICATED_MAP_KEY", format!("the key {key} is twice in one map")));
        }
    }
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *ordered)?))
}

/// `struct(a, b + 1)`: fields named after columns, `col2` for other expressions.
fn structure(args: Args<'_>) -> Result<Expr> {
    let names: Vec<String> = args.exprs.iter().enumerate().map(|(i, e)| field_name(e, i)).collect();
    make(&args, names, args.exprs.clone(), args.types.clone())
}

fn field_name(e: &Expr, i: usize) -> String {
    match e {
        Expr::Column(c) => c.name.clone(),
        Expr::Alias(a) => a.name.clone(),
        Expr::LambdaVariable(v) => v.name.clone(),
        Expr::ScalarFunction(f) => match Kernel::of(e, "__field") {
            Some((k, _)) => k.params().to_owned(),
            None => match f.args.get(1) {
                Some(Expr::Literal(ScalarValue::Utf8(Some(name)), _)) if f.func.name() == "get_field" => name.clone(),
                _ => format!("col{}", i + 1),
            },
        },
        _ => format!("col{}", i + 1),
    }
}

fn named_struct(args: Args<'_>) -> Result<Expr> {
    if !args.exprs.len().is_multiple_of(2) {
        return Err(SparkError::external("WRONG_NUM_ARGS", "named_struct takes pairs of name and value"));
    }
    let names = (0..args.exprs.len()).step_by(2).map(|i| args.constant_text(i)).collect::<Result<Vec<_>>>()?;
    let values = args.exprs.iter().skip(1).step_by(2).cloned().collect();
    let types = args.types.iter().skip(1).step_by(2).cloned().collect();
    make(&args, names, values, types)
}

fn make(_args: &Args<'_>, names: Vec<String>, values: Vec<Expr>, types: Vec<DataType>) -> Result<Expr> {
    let fields: Fields = names.into_iter().zip(types).map(|(n, t)| Field::new(n, t, true)).collect();
    let values = values.into_iter().map(Expr::unalias).collect();
    Ok(Kernel::call("struct", DataType::Struct(fields), "", make_struct, values))
}

fn make_struct(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::Struct(fields) = call.returns else { return plan_err!("struct: {} is no struct", call.returns) };
    call.over_arrays(|columns| Ok(Arc::new(StructArray::try_new(fields.clone(), columns.to_vec(), None)?) as _))
}

/// `s.name`, the name without regard to case.
fn field_of(args: &Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let name = args.constant_text(1)?;
    match &args.types[0] {
        DataType::Struct(fields) => {
            let Some((at, field)) = fields.iter().enumerate().find(|(_, f)| f.name().eq_ignore_ascii_case(&name)) else {
                let known: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
                let message = format!("no field `{name}` in `{}`; its fields are {}", args.exprs[0], known.join(", "));
                return Err(SparkError::external("FIELD_NOT_FOUND", message));
            };
            let t = field.data_type().clone();
            Ok(Kernel::call("__field", t, format!("{at} {}", field.name()), get_field, vec![args.exprs[0].clone()]))
        }
        DataType::Map(_, _) => map_value(args),
        DataType::List(f) if matches!(f.data_type(), DataType::Struct(_)) => {
            let DataType::Struct(fields) = f.data_type() else { return args.refuse() };
            let Some((at, field)) = fields.iter().enumerate().find(|(_, f)| f.name().eq_ignore_ascii_case(&name)) else {
                return Err(SparkError::external("FIELD_NOT_FOUND", format!("no field `{name}` in `{}`", args.exprs[0])));
            };
            let t = array_of(field.data_type().clone());
            Ok(Kernel::call("__fields", t, format!("{at} {}", field.name()), get_fields, vec![args.exprs[0].clone()]))
        }
        _ => Err(SparkError::external("INVALID_EXTRACT_BASE_FIELD_TYPE", format!("cannot take `{name}` from `{}`", args.exprs[0]))),
    }
}

fn position(params: &str) -> usize {
    params.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A field of a struct column; NULL where the struct is.
fn struct_field(s: &StructArray, at: usize) -> Result<ArrayRef> {
    let column = s.column(at);
    match s.nulls() {
        None => Ok(Arc::clone(column)),
        Some(nulls) => {
            let dead = arrow::array::BooleanArray::new(!nulls.inner(), None);
            Ok(arrow::compute::nullif(column, &dead)?)
        }
    }
}

fn get_field(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| struct_field(a[0].as_struct(), position(call.params)))
}

fn get_fields(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else { return plan_err!("{} is no array", call.returns) };
    call.over_arrays(|a| {
        let list = a[0].as_list::<i32>();
        let values = struct_field(list.values().as_struct(), position(call.params))?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())?) as _)
    })
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
        _ => item(&args, name, Access { one_based: true, strict: name == "element_at" }),
    }
}

fn item(args: &Args<'_>, name: &'static str, access: Access) -> Result<Expr> {
    let Some(element) = element_type(&args.types[0]) else { return args.refuse() };
    if !is_integer(&args.types[1]) && args.types[1] != DataType::Null {
        return args.refuse();
    }
    let code: KernelFn = match (access.one_based, access.strict) {
        (true, true) => |c| pick(c, Access { one_based: true, strict: true }),
        (true, false) => |c| pick(c, Access { one_based: true, strict: false }),
        (false, true) => |c| pick(c, Access { one_based: false, strict: true }),
        (false, false) => |c| pick(c, Access { one_based: false, strict: false }),
    };
    Ok(Kernel::call(name, element, "", code, vec![args.exprs[0].clone(), args.cast(1, &DataType::Int32)?]))
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
            picks.push(place(index.value(row), list.value_length(row), access)?.map(|at| (list.value_offsets()[row] + at) as u32));
        }
        Ok(take(list.values(), &UInt32Array::from(picks), None)?)
    })
}

/// The place of index `i` in an array of `length` values.
fn place(i: i32, length: i32, access: Access) -> Result<Option<i32>> {
    if access.one_based && i == 0 {
        return Err(SparkError::external("INVALID_INDEX_OF_ZERO", "the index 0 is invalid; arrays count from 1 here, or from -1 backwards"));
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
        let condition = if access.one_based { "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" } else { "INVALID_ARRAY_INDEX" };
        let message = format!("the index {i} is out of bounds, the array has {length} elements; use get or try_element_at for NULL");
        return Err(SparkError::external(condition, message));
    }
    Ok(None)
}

/// The value under a key; NULL if it is missing.
fn map_value(args: &Args<'_>) -> Result<Expr> {
    let Some((kt, vt)) = map_types(&args.types[0]) else { return args.refuse() };
    if common_type(&kt, &args.types[1]).is_none() {
        return args.refuse();
    }
    let key = args.cast(1, &kt)?;
    Ok(Kernel::call("map_value", vt, "", find_key, vec![args.exprs[0].clone(), key]))
}

fn find_key(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let map = a[0].as_map();
        let converter = arrow::row::RowConverter::new(vec![arrow::row::SortField::new(a[1].data_type().clone())])?;
        let keys = converter.convert_columns(&[Arc::clone(map.keys())])?;
        let wanted = converter.convert_columns(&[Arc::clone(&a[1])])?;
        let offsets = map.value_offsets();
        let picks = (0..map.len()).map(|row| {
            if map.is_null(row) || a[1].is_null(row) {
                return None;
            }
            (offsets[row]..offsets[row + 1]).find(|i| keys.row(*i as usize) == wanted.row(row)).map(|i| i as u32)
        });
        Ok(take(map.values(), &UInt32Array::from_iter(picks), None)?)
    })
}

/// INT; NULL for NULL.
fn size(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    if element_type(&args.types[0]).is_none() && map_types(&args.types[0]).is_none() {
        return args.refuse();
    }
    Ok(Kernel::call("size", DataType::Int32, "", |c| {
        c.over_arrays(|a| {
            let (offsets, nulls) = match a[0].data_type() {
                DataType::Map(_, _) => (a[0].as_map().offsets().clone(), a[0].nulls().cloned()),
                _ => (a[0].as_list::<i32>().offsets().clone(), a[0].nulls().cloned()),
            };
            let lengths: ScalarBuffer<i32> = offsets.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>().into();
            Ok(Arc::new(arrow::array::Int32Array::try_new(lengths, nulls)?) as _)
        })
    }, args.exprs.clone()))
}

fn map_part(args: Args<'_>, name: &'static str, part: usize) -> Result<Expr> {
    args.expect(1, 1)?;
    let Some((k, v)) = map_types(&args.types[0]) else { return args.refuse() };
    let code: KernelFn = if part == 0 { |c| column_of_map(c, 0) } else { |c| column_of_map(c, 1) };
    Ok(Kernel::call(name, array_of(if part == 0 { k } else { v }), "", code, args.exprs.clone()))
}

fn column_of_map(call: &Call<'_>, part: usize) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else { return plan_err!("{} is no array", call.returns) };
    call.over_arrays(|a| {
        let map = a[0].as_map();
        let values = Arc::clone(map.entries().column(part));
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), map.offsets().clone(), values, map.nulls().cloned())?) as _)
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
    let Some(t) = entries_type(&args.types[0]) else { return args.refuse() };
    Ok(entries(args.exprs[0].clone(), t))
}

/// The call behind `map_entries`, for explode as well.
pub(crate) fn entries(map: Expr, t: DataType) -> Expr {
    Kernel::call("map_entries", t, "", |c| {
        let DataType::List(field) = c.returns else { return plan_err!("{} is no array", c.returns) };
        c.over_arrays(|a| {
            let map = a[0].as_map();
            let DataType::Struct(fields) = field.data_type() else { return plan_err!("{} has no entries", c.returns) };
            let values: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), map.entries().columns().to_vec(), None)?);
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), map.offsets().clone(), values, map.nulls().cloned())?) as _)
        })
    }, vec![map])
}

fn map_concat(args: Args<'_>) -> Result<Expr> {
    let common = args.common()?;
    if map_types(&common).is_none() {
        return args.refuse();
    }
    let maps = (0..args.exprs.len()).map(|i| args.cast(i, &common)).collect::<Result<Vec<_>>>()?;
    Ok(Kernel::call("map_concat", common, "", |c| {
        c.over_arrays(|maps| {
            let maps: Vec<&MapArray> = maps.iter().map(|m| m.as_map()).collect();
            let rows = maps[0].len();
            let nulls: Vec<bool> = (0..rows).map(|r| maps.iter().all(|m| m.is_valid(r))).collect();
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
                let columns: Vec<&dyn Array> = maps.iter().map(|m| m.entries().column(part).as_ref()).collect();
                Ok(arrow::compute::interleave(&columns, &picks)?)
            };
            map_array(c.returns, OffsetBuffer::from_lengths(lengths), column(0)?, column(1)?, Some(nulls.into()))
        })
    }, maps))
}

/// `sort_array(a[, ascending])`: NULLs first when ascending, last when descending.
fn sort_array(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 2)?;
    let ascending = match args.exprs.get(1) {
        None | Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => true,
        Some(Expr::Literal(ScalarValue::Boolean(Some(false)), _)) => false,
        Some(_) => return args.refuse(),
    };
    let (order, nulls) = if ascending { ("ASC", "NULLS FIRST") } else { ("DESC", "NULLS LAST") };
    args.library_with("array_sort", vec![args.exprs[0].clone(), lit(order), lit(nulls)])
}

/// A struct of `fields` from typed values.
pub(crate) fn struct_of(fields: Fields, values: Vec<Expr>) -> Expr {
    Kernel::call("struct", DataType::Struct(fields), "", make_struct, values)
}

/// An array of type `t` from typed values.
pub(crate) fn array_from(t: DataType, values: Vec<Expr>) -> Expr {
    Kernel::call("array", t, "", make_array, values)
}
