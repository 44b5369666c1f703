//! Operators and the typed expressions of SQL (CASE, IN, BETWEEN, LIKE): operands brought to Spark's common type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, Like, Operator, expr::InList,
    expr::ScalarFunction,
};
use datafusion::scalar::ScalarValue;

use super::arithmetic;
use super::coerce::{
    cast_from, cast_to, common_of, common_type, is_float, is_integer, is_text, list_types,
};
use super::error::mismatch;
use super::kernel::{Call, Kernel};

/// `left op right` with operands cast as Spark's ANSI mode casts them.
pub(crate) fn binary(
    op: Operator,
    left: Expr,
    right: Expr,
    schema: &dyn ExprSchema,
) -> Result<Expr> {
    match op {
        Operator::And | Operator::Or => logical(op, left, right, schema),
        Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor => {
            bitwise(op, left, right, schema)
        }
        Operator::StringConcat => super::texts::concat(vec![left, right], schema),
        op if compares(op) => comparison(op, left, right, schema),
        op => match arithmetic::arithmetic(op, left.clone(), right.clone(), schema, true)? {
            Some(planned) => Ok(planned),
            None => Ok(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            ))),
        },
    }
}

fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn logical(op: Operator, left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    let (left, right) = (condition(left, schema)?, condition(right, schema)?);
    Ok(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(left),
        op,
        Box::new(right),
    )))
}

/// `expr` as BOOLEAN; text and NULL are cast, other types refused.
pub(crate) fn condition(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    match expr.get_type(schema)? {
        DataType::Boolean => Ok(expr),
        t if t == DataType::Null || is_text(&t) => cast_from(expr, &t, &DataType::Boolean),
        t => Err(mismatch(format!(
            "`{expr}` must be a boolean, it is {}",
            list_types(&[t])
        ))),
    }
}

fn bitwise(op: Operator, left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    let types = [left.get_type(schema)?, right.get_type(schema)?];
    let common = common_of(&types, &op.to_string())?;
    if !is_integer(&common) {
        return Err(mismatch(format!(
            "{op} does not accept {}",
            list_types(&types)
        )));
    }
    let (left, right) = (
        cast_from(left, &types[0], &common)?,
        cast_from(right, &types[1], &common)?,
    );
    Ok(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(left),
        op,
        Box::new(right),
    )))
}

fn comparison(op: Operator, left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    let types = [left.get_type(schema)?, right.get_type(schema)?];
    let common = common_type(&types[0], &types[1])
        .filter(|t| !matches!(t, DataType::Map(_, _)))
        .ok_or_else(|| {
            mismatch(format!(
                "`{left} {op} {right}` compares {}",
                list_types(&types)
            ))
        })?;
    let left = comparable(cast_from(left, &types[0], &common)?, &common);
    let right = comparable(cast_from(right, &types[1], &common)?, &common);
    Ok(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(left),
        op,
        Box::new(right),
    )))
}

/// A float whose negative zero became zero: Spark holds both equal, Arrow's comparison does not.
fn comparable(expr: Expr, t: &DataType) -> Expr {
    if !is_float(t)
        || matches!(expr, Expr::Literal(_, _))
        || Kernel::of(&expr, "normal_zero").is_some()
    {
        return expr;
    }
    Kernel::call("normal_zero", t.clone(), "", normal_zero, vec![expr])
}

fn normal_zero(call: &Call<'_>) -> Result<datafusion::logical_expr::ColumnarValue> {
    call.over_arrays(|a| {
        Ok(match a[0].data_type() {
            DataType::Float32 => Arc::new(
                a[0].as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(|v| v + 0.0),
            ) as ArrayRef,
            _ => Arc::new(
                a[0].as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(|v| v + 0.0),
            ),
        })
    })
}

/// Brings one expression's direct operands to Spark's types. Applied bottom-up; applying it twice changes nothing.
pub(crate) fn coerce(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(op, *left, *right, schema),
        Expr::Not(e) => Ok(Expr::Not(Box::new(condition(*e, schema)?))),
        Expr::Negative(e) => arithmetic::negative(*e, schema),
        Expr::Cast(c) => {
            let from = c.expr.get_type(schema)?;
            super::cast::cast_expr(*c.expr, &from, c.field.data_type(), false)
        }
        Expr::TryCast(c) => {
            let from = c.expr.get_type(schema)?;
            super::cast::cast_expr(*c.expr, &from, c.field.data_type(), true)
        }
        Expr::Case(c) => case(c, schema),
        Expr::InList(list) => in_list(list, schema),
        Expr::Between(b) => between(b, schema),
        Expr::Like(l) => like(l, schema),
        Expr::ScalarFunction(f) => library_call(f, schema),
        other => Ok(other),
    }
}

/// CASE: conditions boolean (or of the operand's type), results of one type.
pub(crate) fn case(c: Case, schema: &dyn ExprSchema) -> Result<Expr> {
    let results = c
        .when_then_expr
        .iter()
        .map(|(_, t)| t.as_ref())
        .chain(c.else_expr.as_deref());
    let types = results
        .map(|e| e.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    let common = common_of(&types, "CASE")?;
    let operand = match &c.expr {
        Some(e) => {
            let whens = std::iter::once(e.get_type(schema))
                .chain(c.when_then_expr.iter().map(|(w, _)| w.get_type(schema)));
            Some(common_of(&whens.collect::<Result<Vec<_>>>()?, "CASE")?)
        }
        None => None,
    };
    let mut branches = Vec::with_capacity(c.when_then_expr.len());
    for (when, then) in c.when_then_expr {
        let when = match &operand {
            Some(t) => cast_to(*when, t, schema)?,
            None => condition(*when, schema)?,
        };
        branches.push((Box::new(when), Box::new(cast_to(*then, &common, schema)?)));
    }
    let expr = match (c.expr, &operand) {
        (Some(e), Some(t)) => Some(Box::new(cast_to(*e, t, schema)?)),
        _ => None,
    };
    let otherwise = c
        .else_expr
        .map(|e| cast_to(*e, &common, schema))
        .transpose()?
        .map(Box::new);
    Ok(Expr::Case(Case::new(expr, branches, otherwise)))
}

fn in_list(list: InList, schema: &dyn ExprSchema) -> Result<Expr> {
    let mut types = vec![list.expr.get_type(schema)?];
    for e in &list.list {
        types.push(e.get_type(schema)?);
    }
    let common = common_of(&types, "IN")?;
    let expr = comparable(cast_to(*list.expr, &common, schema)?, &common);
    let items = list
        .list
        .into_iter()
        .map(|e| cast_to(e, &common, schema))
        .collect::<Result<Vec<_>>>()?;
    if matches!(common, DataType::Struct(_)) {
        return in_structs(expr, items, list.negated);
    }
    Ok(Expr::InList(InList::new(
        Box::new(expr),
        items,
        list.negated,
    )))
}

/// IN over structs as a chain of equalities, which Arrow compares field by field.
fn in_structs(expr: Expr, items: Vec<Expr>, negated: bool) -> Result<Expr> {
    let any = items
        .into_iter()
        .map(|i| expr.clone().eq(i))
        .reduce(Expr::or);
    let any = any.unwrap_or_else(|| Expr::Literal(ScalarValue::Boolean(Some(false)), None));
    Ok(if negated {
        Expr::Not(Box::new(any))
    } else {
        any
    })
}

fn between(b: Between, schema: &dyn ExprSchema) -> Result<Expr> {
    let low = comparison(Operator::GtEq, b.expr.as_ref().clone(), *b.low, schema)?;
    let high = comparison(Operator::LtEq, *b.expr, *b.high, schema)?;
    let inside = low.and(high);
    Ok(if b.negated {
        Expr::Not(Box::new(inside))
    } else {
        inside
    })
}

fn like(l: Like, schema: &dyn ExprSchema) -> Result<Expr> {
    let expr = Box::new(cast_to(*l.expr, &DataType::Utf8, schema)?);
    let pattern = Box::new(cast_to(*l.pattern, &DataType::Utf8, schema)?);
    Ok(Expr::Like(Like { expr, pattern, ..l }))
}

/// The type that Spark has for values that a library wants in a layout of its own.
fn plain_layout(t: &DataType) -> DataType {
    match t {
        t if is_text(t) => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other.clone(),
    }
}

/// A call of a library function with arguments cast to what its signature accepts.
pub(crate) fn library_call(call: ScalarFunction, schema: &dyn ExprSchema) -> Result<Expr> {
    if call.func.inner().downcast_ref::<Kernel>().is_some() {
        return Ok(Expr::ScalarFunction(call));
    }
    let fields = call
        .args
        .iter()
        .map(|e| e.to_field(schema).map(|(_, f)| f))
        .collect::<Result<Vec<_>>>()?;
    let wanted = datafusion::logical_expr::type_coercion::functions::fields_with_udf(
        &fields,
        call.func.as_ref(),
    )
    .map_err(|e| mismatch(format!("{}: {}", call.func.name(), e.strip_backtrace())))?;
    let args = call.args.into_iter().zip(fields.iter().zip(wanted));
    let args = args.map(
        |(e, (have, want))| match (have.data_type(), want.data_type()) {
            (h, w) if h == w => Ok(e),
            (h, w)
                if is_text(h) && is_text(w)
                    || super::cast::type_text(h) == super::cast::type_text(w) =>
            {
                Ok(Expr::Cast(datafusion::logical_expr::Cast::new(
                    Box::new(e),
                    w.clone(),
                )))
            }
            (h, w) => match plain_layout(w) {
                plain if plain == *w => cast_from(e, h, w),
                plain => Ok(Expr::Cast(datafusion::logical_expr::Cast::new(
                    Box::new(cast_from(e, h, &plain)?),
                    w.clone(),
                ))),
            },
        },
    );
    let args = args.collect::<Result<Vec<_>>>()?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(
        call.func, args,
    )))
}
