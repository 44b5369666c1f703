//! Structs and their fields.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::scalar::ScalarValue;

use super::coerce::array_of;
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::maps::map_value;
use super::{Args, Resolver};

/// The struct family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("struct", structure),
    ("named_struct", named_struct),
    ("__field", |a| field_of(&a)),
];

/// `struct(a, b + 1)`: fields named after columns, `col2` for other expressions.
fn structure(args: Args<'_>) -> Result<Expr> {
    let names: Vec<String> = args
        .exprs
        .iter()
        .enumerate()
        .map(|(i, e)| field_name(e, i))
        .collect();
    make(&args, names, args.exprs.clone(), args.types.clone())
}

fn field_name(e: &Expr, i: usize) -> String {
    match e {
        Expr::Column(c) => c.name.clone(),
        Expr::Alias(a) => a.name.clone(),
        Expr::LambdaVariable(v) => v.name.clone(),
        _ => accessed_field(e).unwrap_or_else(|| format!("col{}", i + 1)),
    }
}

/// The field's name, if `e` takes a field of a struct.
pub(super) fn accessed_field(e: &Expr) -> Option<String> {
    if let Some((access, _)) = Kernel::of(e, "__field") {
        return access
            .params()
            .split_once(' ')
            .map(|(_, name)| name.to_owned());
    }
    let Expr::ScalarFunction(f) = e else {
        return None;
    };
    match f.args.get(1) {
        Some(Expr::Literal(ScalarValue::Utf8(Some(name)), _)) if f.func.name() == "get_field" => {
            Some(name.clone())
        }
        _ => None,
    }
}

fn named_struct(args: Args<'_>) -> Result<Expr> {
    if !args.exprs.len().is_multiple_of(2) {
        return Err(SparkError::external(
            "WRONG_NUM_ARGS",
            "named_struct takes pairs of name and value",
        ));
    }
    let names = (0..args.exprs.len())
        .step_by(2)
        .map(|i| args.constant_text(i))
        .collect::<Result<Vec<_>>>()?;
    let values = args.exprs.iter().skip(1).step_by(2).cloned().collect();
    let types = args.types.iter().skip(1).step_by(2).cloned().collect();
    make(&args, names, values, types)
}

fn make(
    _args: &Args<'_>,
    names: Vec<String>,
    values: Vec<Expr>,
    types: Vec<DataType>,
) -> Result<Expr> {
    let fields: Fields = names
        .into_iter()
        .zip(types)
        .map(|(n, t)| Field::new(n, t, true))
        .collect();
    Ok(struct_of(
        fields,
        values.into_iter().map(Expr::unalias).collect(),
    ))
}

fn make_struct(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::Struct(fields) = call.returns else {
        return plan_err!("struct: {} is no struct", call.returns);
    };
    call.over_arrays(|columns| {
        Ok(Arc::new(StructArray::try_new(
            fields.clone(),
            columns.to_vec(),
            None,
        )?) as _)
    })
}

/// `s.name`, the name without regard to case.
pub(super) fn field_of(args: &Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let name = args.constant_text(1)?;
    match &args.types[0] {
        DataType::Struct(fields) => {
            let Some((at, field)) = fields
                .iter()
                .enumerate()
                .find(|(_, f)| f.name().eq_ignore_ascii_case(&name))
            else {
                let known: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
                let message = format!(
                    "no field `{name}` in `{}`; its fields are {}",
                    args.exprs[0],
                    known.join(", ")
                );
                return Err(SparkError::external("FIELD_NOT_FOUND", message));
            };
            let t = field.data_type().clone();
            Ok(Kernel::call(
                "__field",
                t,
                format!("{at} {}", field.name()),
                get_field,
                vec![args.exprs[0].clone()],
            ))
        }
        DataType::Map(_, _) => map_value(args),
        DataType::List(f) if matches!(f.data_type(), DataType::Struct(_)) => {
            let DataType::Struct(fields) = f.data_type() else {
                return args.refuse();
            };
            let Some((at, field)) = fields
                .iter()
                .enumerate()
                .find(|(_, f)| f.name().eq_ignore_ascii_case(&name))
            else {
                return Err(SparkError::external(
                    "FIELD_NOT_FOUND",
                    format!("no field `{name}` in `{}`", args.exprs[0]),
                ));
            };
            let t = array_of(field.data_type().clone());
            Ok(Kernel::call(
                "__fields",
                t,
                format!("{at} {}", field.name()),
                get_fields,
                vec![args.exprs[0].clone()],
            ))
        }
        _ => Err(SparkError::external(
            "INVALID_EXTRACT_BASE_FIELD_TYPE",
            format!("cannot take `{name}` from `{}`", args.exprs[0]),
        )),
    }
}

fn position(params: &str) -> usize {
    params
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
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
    let DataType::List(field) = call.returns else {
        return plan_err!("{} is no array", call.returns);
    };
    call.over_arrays(|a| {
        let list = a[0].as_list::<i32>();
        let values = struct_field(list.values().as_struct(), position(call.params))?;
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        )?) as _)
    })
}

/// A struct of `fields` from typed values.
pub(crate) fn struct_of(fields: Fields, values: Vec<Expr>) -> Expr {
    // The names tell apart structs of the same values.
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let names = names.join(" ");
    Kernel::call(
        "struct",
        DataType::Struct(fields),
        names,
        make_struct,
        values,
    )
}
