//! Conditional functions, all of them plain expressions.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Case, ColumnarValue, Expr, Operator, lit};

use super::coerce::{cast_from, common_type, is_float};
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::operators::{self, condition};
use super::{Args, Resolver, cast};

/// The conditional family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("coalesce", coalesce),
    ("nvl", coalesce),
    ("ifnull", coalesce),
    ("nvl2", nvl2),
    ("if", if_else),
    ("iff", if_else),
    ("nullif", |a| {
        a.expect(2, 2)?;
        let equal = operators::binary(
            Operator::Eq,
            a.exprs[0].clone(),
            a.exprs[1].clone(),
            a.schema,
        )?;
        case(
            vec![(equal, null_of(&a.types[0])?)],
            Some(a.exprs[0].clone()),
            &a,
        )
    }),
    ("isnull", |a| {
        a.expect(1, 1)?;
        Ok(a.exprs[0].clone().is_null())
    }),
    ("isnotnull", |a| {
        a.expect(1, 1)?;
        Ok(a.exprs[0].clone().is_not_null())
    }),
    ("equal_null", |a| {
        a.expect(2, 2)?;
        operators::binary(
            Operator::IsNotDistinctFrom,
            a.exprs[0].clone(),
            a.exprs[1].clone(),
            a.schema,
        )
    }),
    ("nullifzero", |a| {
        a.expect(1, 1)?;
        let zero = operators::binary(Operator::Eq, a.exprs[0].clone(), lit(0i32), a.schema)?;
        case(
            vec![(zero, null_of(&a.types[0])?)],
            Some(a.exprs[0].clone()),
            &a,
        )
    }),
    ("zeroifnull", |a| {
        a.expect(1, 1)?;
        case(
            vec![(a.exprs[0].clone().is_null(), lit(0i32))],
            Some(a.exprs[0].clone()),
            &a,
        )
    }),
    ("isnan", |a| {
        a.expect(1, 1)?;
        let x = a.cast(0, &DataType::Float64)?;
        let nan = a.library_with("isnan", vec![x])?;
        case(
            vec![(a.exprs[0].clone().is_null(), lit(false))],
            Some(nan),
            &a,
        )
    }),
    ("nanvl", |a| {
        a.expect(2, 2)?;
        let t = if a.types.iter().all(|t| *t == DataType::Float32) {
            DataType::Float32
        } else {
            DataType::Float64
        };
        let x = a.cast(0, &t)?;
        let nan = a.library_with("isnan", vec![x.clone()])?;
        case(vec![(nan, a.cast(1, &t)?)], Some(x), &a)
    }),
    ("greatest", |a| extreme(a, "greatest")),
    ("least", |a| extreme(a, "least")),
    ("typeof", |a| {
        a.expect(1, 1)?;
        Ok(lit(cast::type_text(&a.types[0])))
    }),
    ("assert_true", assert_true),
    ("raise_error", |a| {
        a.expect(1, 1)?;
        Ok(Kernel::call(
            "raise_error",
            DataType::Null,
            "",
            raise,
            vec![a.string(0)?],
        ))
    }),
];

fn null_of(t: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_from(t)?, None))
}

fn case(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>, args: &Args<'_>) -> Result<Expr> {
    let branches = branches
        .into_iter()
        .map(|(w, t)| (Box::new(w), Box::new(t)))
        .collect();
    operators::case(
        Case::new(None, branches, otherwise.map(Box::new)),
        args.schema,
    )
}

/// The first argument that is not NULL; later ones are not evaluated for rows that have one.
fn coalesce(args: Args<'_>) -> Result<Expr> {
    args.expect(1, usize::MAX)?;
    let common = args.common()?;
    let mut values = Vec::with_capacity(args.exprs.len());
    for (e, t) in args.exprs.iter().zip(&args.types) {
        values.push(cast_from(e.clone(), t, &common)?);
    }
    let last = values.pop();
    let branches: Vec<_> = values
        .into_iter()
        .map(|v| (v.clone().is_not_null(), v))
        .collect();
    match (branches.is_empty(), last) {
        (true, Some(only)) => Ok(only),
        (_, last) => case(branches, last, &args),
    }
}

fn nvl2(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 3)?;
    let [test, some, none] = [0, 1, 2].map(|i| args.exprs[i].clone());
    case(vec![(test.is_not_null(), some)], Some(none), &args)
}

fn if_else(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 3)?;
    let test = condition(args.exprs[0].clone(), args.schema)?;
    case(
        vec![(test, args.exprs[1].clone())],
        Some(args.exprs[2].clone()),
        &args,
    )
}

/// The largest or smallest value that is not NULL; NaN is larger than any number.
fn extreme(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(2, usize::MAX)?;
    let mut common = args.types[0].clone();
    for t in &args.types[1..] {
        common = match common_type(&common, t) {
            Some(t) => t,
            None => return args.refuse(),
        };
    }
    let values = (0..args.exprs.len())
        .map(|i| args.cast(i, &common))
        .collect::<Result<Vec<_>>>()?;
    if is_float(&common) || !matches!(common, DataType::Null) {
        return args.library_with(name, values);
    }
    Ok(values[0].clone())
}

/// NULL where the condition holds, else an error.
fn assert_true(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 2)?;
    let test = condition(args.exprs[0].clone(), args.schema)?;
    let message = match args.exprs.len() {
        2 => args.string(1)?,
        _ => lit(format!("'{}' is not true", args.exprs[0])),
    };
    Ok(Kernel::call(
        "assert_true",
        DataType::Null,
        "",
        assertion,
        vec![test, message],
    ))
}

fn assertion(call: &Call<'_>) -> Result<ColumnarValue> {
    use arrow::array::{Array, AsArray};
    call.over_arrays(|a| {
        let test = a[0].as_boolean();
        if let Some(i) = (0..test.len()).find(|i| test.is_null(*i) || !test.value(*i)) {
            return Err(SparkError::external(
                "USER_RAISED_EXCEPTION",
                a[1].as_string::<i32>().value(i),
            ));
        }
        Ok(Arc::new(arrow::array::NullArray::new(test.len())) as _)
    })
}

fn raise(call: &Call<'_>) -> Result<ColumnarValue> {
    use arrow::array::{Array, AsArray};
    call.over_arrays(|a| match a[0].is_empty() {
        true => Ok(Arc::new(arrow::array::NullArray::new(0)) as _),
        false => Err(SparkError::external(
            "USER_RAISED_EXCEPTION",
            a[0].as_string::<i32>().value(0),
        )),
    })
}
