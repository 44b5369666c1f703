//! `+ - * / % div` and unary minus as Spark's ANSI mode wants them: checked, with Spark's result types.
//!
//! Integers and times go through Arrow's checked kernels; decimals are computed in 128 or 256 bits and rounded half up.

use arrow::datatypes::DataType;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};

use super::checked::{
    add, checked, divide, integer_quotient, modulo, multiply, negate, subtract, unchecked,
};
use super::coerce::{
    bounded_decimal, cast_from, common_type, day_time, decimal_for, decimal_for_literal,
    is_decimal, is_float, is_integer, is_number, is_text, list_types, timestamp,
};
use super::error::mismatch;
use super::interval_fields::with_fields_of;
use super::intervals::{Sides, time_arithmetic};
use super::kernel::{Kernel, KernelFn};

/// The arithmetic operation `left op right` with Spark's types, or `None` if `op` is no arithmetic.
pub(crate) fn arithmetic(
    op: Operator,
    left: Expr,
    right: Expr,
    schema: &dyn ExprSchema,
    ansi: bool,
) -> Result<Option<Expr>> {
    if !matches!(
        op,
        Operator::Plus
            | Operator::Minus
            | Operator::Multiply
            | Operator::Divide
            | Operator::Modulo
            | Operator::IntegerDivide
    ) {
        return Ok(None);
    }
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    let sides = Sides {
        left: (&left, &lt),
        right: (&right, &rt),
    };
    if let Some(time) = time_arithmetic(op, sides, schema, ansi)? {
        return Ok(Some(time));
    }
    let no_types = || {
        mismatch(format!(
            "`{left} {op} {right}` does not accept {}",
            list_types(&[lt.clone(), rt.clone()])
        ))
    };
    let (left, lt, right, rt) =
        numbers(left.clone(), lt.clone(), right.clone(), rt.clone())?.ok_or_else(no_types)?;
    plan(op, left, lt, right, rt, ansi).map(Some)
}

/// Both operands as numbers: text follows the other side, NULL takes its type, two texts or NULLs become DOUBLE.
fn numbers(
    left: Expr,
    lt: DataType,
    right: Expr,
    rt: DataType,
) -> Result<Option<(Expr, DataType, Expr, DataType)>> {
    let target = |own: &DataType, other: &DataType| -> Option<DataType> {
        match own {
            t if is_number(t) => Some(t.clone()),
            t if is_text(t) && is_integer(other) => Some(DataType::Int64),
            t if is_text(t) => Some(DataType::Float64),
            DataType::Null if is_number(other) => Some(other.clone()),
            DataType::Null => Some(DataType::Float64),
            _ => None,
        }
    };
    let (Some(a), Some(b)) = (target(&lt, &rt), target(&rt, &lt)) else {
        return Ok(None);
    };
    Ok(Some((
        cast_from(left, &lt, &a)?,
        a,
        cast_from(right, &rt, &b)?,
        b,
    )))
}

fn plan(
    op: Operator,
    left: Expr,
    lt: DataType,
    right: Expr,
    rt: DataType,
    ansi: bool,
) -> Result<Expr> {
    let decimals = (is_decimal(&lt) || is_decimal(&rt)) && !is_float(&lt) && !is_float(&rt);
    if op == Operator::IntegerDivide {
        return integer_divide(left, lt, right, rt, ansi);
    }
    if decimals {
        return decimal(op, left, lt, right, rt, ansi);
    }
    let common = match op {
        Operator::Divide => DataType::Float64,
        _ => common_type(&lt, &rt)
            .ok_or_else(|| mismatch(format!("{op} has no common type for {lt} and {rt}")))?,
    };
    let args = vec![
        cast_from(left, &lt, &common)?,
        cast_from(right, &rt, &common)?,
    ];
    Ok(call(op, common, "", args, ansi))
}

fn call(op: Operator, returns: DataType, params: &str, args: Vec<Expr>, ansi: bool) -> Expr {
    let (name, code): (&'static str, KernelFn) = match (op, ansi) {
        (Operator::Plus, true) => ("add", |c| checked(c, add)),
        (Operator::Plus, false) => ("try_add", |c| unchecked(c, add)),
        (Operator::Minus, true) => ("subtract", |c| checked(c, subtract)),
        (Operator::Minus, false) => ("try_subtract", |c| unchecked(c, subtract)),
        (Operator::Multiply, true) => ("multiply", |c| checked(c, multiply)),
        (Operator::Multiply, false) => ("try_multiply", |c| unchecked(c, multiply)),
        (Operator::Modulo, true) => ("mod", |c| checked(c, modulo)),
        (Operator::Modulo, false) => ("try_mod", |c| unchecked(c, modulo)),
        (Operator::IntegerDivide, true) => ("div", |c| checked(c, integer_quotient)),
        (Operator::IntegerDivide, false) => ("try_div", |c| unchecked(c, integer_quotient)),
        (_, true) => ("divide", |c| checked(c, divide)),
        (_, false) => ("try_divide", |c| unchecked(c, divide)),
    };
    Kernel::call(name, returns, params, code, args)
}

/// `div` gives BIGINT; decimals are divided as decimals and cut.
fn integer_divide(left: Expr, lt: DataType, right: Expr, rt: DataType, ansi: bool) -> Result<Expr> {
    let common = if is_integer(&lt) && is_integer(&rt) {
        DataType::Int64
    } else if is_float(&lt) || is_float(&rt) {
        return Err(mismatch(format!(
            "div does not accept {}",
            list_types(&[lt, rt])
        )));
    } else {
        common_type(&lt, &rt)
            .ok_or_else(|| mismatch(format!("div has no common type for {lt} and {rt}")))?
    };
    let args = vec![
        cast_from(left, &lt, &common)?,
        cast_from(right, &rt, &common)?,
    ];
    Ok(call(
        Operator::IntegerDivide,
        DataType::Int64,
        "",
        args,
        ansi,
    ))
}

/// Decimal arithmetic: each side at its own precision, the result at Spark's.
fn decimal(
    op: Operator,
    left: Expr,
    lt: DataType,
    right: Expr,
    rt: DataType,
    ansi: bool,
) -> Result<Expr> {
    let shape = |e: &Expr, t: &DataType| decimal_for_literal(e).or_else(|| decimal_for(t));
    let ((p1, s1), (p2, s2)) = match (shape(&left, &lt), shape(&right, &rt)) {
        (Some(a), Some(b)) => (a, b),
        _ => {
            return Err(mismatch(format!(
                "{op} does not accept {}",
                list_types(&[lt, rt])
            )));
        }
    };
    let returns = decimal_result(op, (p1.into(), s1.into()), (p2.into(), s2.into()));
    let args = vec![
        cast_from(left, &lt, &DataType::Decimal128(p1, s1))?,
        cast_from(right, &rt, &DataType::Decimal128(p2, s2))?,
    ];
    Ok(call(op, returns, "", args, ansi))
}

fn decimal_result(op: Operator, (p1, s1): (i32, i32), (p2, s2): (i32, i32)) -> DataType {
    let whole = (p1 - s1).max(p2 - s2);
    let scale = s1.max(s2);
    match op {
        Operator::Plus | Operator::Minus => bounded_decimal(whole + scale + 1, scale),
        Operator::Multiply => bounded_decimal(p1 + p2 + 1, s1 + s2),
        Operator::Divide => {
            let scale = 6.max(s1 + p2 + 1);
            bounded_decimal(p1 - s1 + s2 + scale, scale)
        }
        _ => bounded_decimal((p1 - s1).min(p2 - s2) + scale, scale),
    }
}

/// Unary minus, checked.
pub(crate) fn negative(arg: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    let t = arg.get_type(schema)?;
    let (arg, t) = match &t {
        t if is_text(t) => (cast_from(arg, t, &DataType::Float64)?, DataType::Float64),
        DataType::Null => (cast_from(arg, &t, &DataType::Float64)?, DataType::Float64),
        t if is_number(t) || matches!(t, DataType::Duration(_) | DataType::Interval(_)) => {
            (arg, t.clone())
        }
        t => {
            return Err(mismatch(format!(
                "unary minus does not accept {}",
                list_types(std::slice::from_ref(t))
            )));
        }
    };
    let negated = Kernel::call("negative", t, "", negate, vec![arg.clone()]);
    Ok(with_fields_of(negated, &[&arg], schema))
}

/// Which result types of a plain TIMESTAMP difference and interval arithmetic `add`/`subtract` produce.
pub(super) fn time_call(op: Operator, returns: DataType, args: Vec<Expr>, ansi: bool) -> Expr {
    debug_assert!(returns == day_time() || returns == timestamp() || !is_number(&returns));
    call(op, returns, "", args, ansi)
}
