//! Numbers: checked forms of the operators under their names, rounding, and Spark's domain rules for logarithms.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float64Type, IntervalUnit};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, lit};

use super::coerce::{cast_to, is_decimal, is_number, is_text};
use super::interval_fields::with_fields_of;
use super::kernel::{Kernel, KernelFn};
use super::rounding::{Rounding, round};
use super::{Args, Resolver, arithmetic};

/// The family of numbers.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("try_add", |a| operator(a, Operator::Plus, false)),
    ("try_subtract", |a| operator(a, Operator::Minus, false)),
    ("try_multiply", |a| operator(a, Operator::Multiply, false)),
    ("try_divide", |a| operator(a, Operator::Divide, false)),
    ("try_mod", |a| operator(a, Operator::Modulo, false)),
    ("mod", |a| operator(a, Operator::Modulo, true)),
    ("div", |a| operator(a, Operator::IntegerDivide, true)),
    ("negative", |a| {
        a.expect(1, 1)?;
        arithmetic::negative(a.exprs[0].clone(), a.schema)
    }),
    ("positive", |a| {
        a.expect(1, 1)?;
        if is_text(&a.types[0]) {
            a.cast(0, &DataType::Float64)
        } else {
            Ok(a.exprs[0].clone())
        }
    }),
    ("abs", |a| {
        a.expect(1, 1)?;
        match &a.types[0] {
            t if is_number(t) => Ok(Kernel::call(
                "abs",
                t.clone(),
                "",
                super::checked::absolute,
                a.exprs.clone(),
            )),
            DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => {
                let t = a.types[0].clone();
                let absolute =
                    Kernel::call("abs", t, "", super::checked::absolute, a.exprs.clone());
                Ok(with_fields_of(absolute, &[&a.exprs[0]], a.schema))
            }
            t if is_text(t) || *t == DataType::Null => Ok(Kernel::call(
                "abs",
                DataType::Float64,
                "",
                super::checked::absolute,
                vec![a.cast(0, &DataType::Float64)?],
            )),
            _ => a.refuse(),
        }
    }),
    ("sign", |a| double(a, "signum")),
    ("signum", |a| double(a, "signum")),
    ("exp", |a| double(a, "exp")),
    ("expm1", |a| double(a, "expm1")),
    ("ln", |a| logarithm(a, "ln")),
    ("log10", |a| logarithm(a, "log10")),
    ("log2", |a| logarithm(a, "log2")),
    ("log1p", |a| logarithm(a, "log1p")),
    ("log", |a| match a.exprs.len() {
        1 => logarithm(a, "ln"),
        _ => log_base(a),
    }),
    ("sqrt", |a| double(a, "sqrt")),
    ("cbrt", |a| double(a, "cbrt")),
    ("sin", |a| double(a, "sin")),
    ("cos", |a| double(a, "cos")),
    ("tan", |a| double(a, "tan")),
    ("cot", |a| double(a, "cot")),
    ("sec", |a| double(a, "sec")),
    ("csc", |a| double(a, "csc")),
    ("asin", |a| double(a, "asin")),
    ("acos", |a| double(a, "acos")),
    ("atan", |a| double(a, "atan")),
    ("sinh", |a| double(a, "sinh")),
    ("cosh", |a| double(a, "cosh")),
    ("tanh", |a| double(a, "tanh")),
    ("asinh", |a| double(a, "asinh")),
    ("acosh", |a| double(a, "acosh")),
    ("atanh", |a| double(a, "atanh")),
    ("degrees", |a| double(a, "degrees")),
    ("radians", |a| double(a, "radians")),
    ("rint", |a| double(a, "rint")),
    ("pi", |_| Ok(lit(std::f64::consts::PI))),
    ("e", |_| Ok(lit(std::f64::consts::E))),
    ("power", power),
    ("pow", power),
    ("pmod", pmod),
    ("round", |a| round(a, Rounding::HalfUp)),
    ("bround", |a| round(a, Rounding::HalfEven)),
    ("ceil", |a| round(a, Rounding::Up)),
    ("ceiling", |a| round(a, Rounding::Up)),
    ("floor", |a| round(a, Rounding::Down)),
    ("bitand", |a| bits(a, Operator::BitwiseAnd)),
    ("bit_get", |a| a.library("bit_get")),
    ("getbit", |a| a.library("bit_get")),
    ("bit_count", |a| {
        let arg = a.exprs[0].clone();
        cast_to(
            a.library_with("bit_count", vec![arg])?,
            &DataType::Int32,
            a.schema,
        )
    }),
];

fn operator(args: Args<'_>, op: Operator, ansi: bool) -> Result<Expr> {
    args.expect(2, 2)?;
    let [l, r] = [0, 1].map(|i| args.exprs[i].clone());
    match arithmetic::arithmetic(op, l, r, args.schema, ansi)? {
        Some(e) => Ok(e),
        None => args.refuse(),
    }
}

fn bits(args: Args<'_>, op: Operator) -> Result<Expr> {
    args.expect(2, 2)?;
    super::operators::binary(
        op,
        args.exprs[0].clone(),
        args.exprs[1].clone(),
        args.schema,
    )
}

/// A function DOUBLE → DOUBLE.
fn double(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(1, 1)?;
    let arg = args.cast(0, &DataType::Float64)?;
    let code: KernelFn = |c| {
        let f = function(c.params);
        c.over_arrays(|a| {
            Ok(Arc::new(
                a[0].as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(f),
            ) as _)
        })
    };
    Ok(Kernel::call(name, DataType::Float64, name, code, vec![arg]))
}

/// The function of a name in this file. Kernels are plain function pointers, so the code is found again by name.
fn function(name: &str) -> fn(f64) -> f64 {
    match name {
        "signum" => |v| {
            if v == 0.0 || v.is_nan() {
                v
            } else {
                v.signum()
            }
        },
        "exp" => f64::exp,
        "expm1" => f64::exp_m1,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "log2" => f64::log2,
        "log1p" => f64::ln_1p,
        "sqrt" => f64::sqrt,
        "cbrt" => f64::cbrt,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "cot" => |v| 1.0 / v.tan(),
        "sec" => |v| 1.0 / v.cos(),
        "csc" => |v| 1.0 / v.sin(),
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => f64::asinh,
        "acosh" => f64::acosh,
        "atanh" => f64::atanh,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        _ => f64::round_ties_even,
    }
}

/// NULL outside the domain, as Spark has it for every logarithm.
fn logarithm(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(1, 1)?;
    let arg = args.cast(0, &DataType::Float64)?;
    let code: KernelFn = |c| {
        let f = function(c.params);
        let limit = if c.params == "log1p" { -1.0 } else { 0.0 };
        c.over_arrays(|a| {
            let x = a[0].as_primitive::<Float64Type>();
            let out: PrimitiveArray<Float64Type> =
                x.unary_opt(|v| if v <= limit { None } else { Some(f(v)) });
            Ok(Arc::new(out) as _)
        })
    };
    Ok(Kernel::call(name, DataType::Float64, name, code, vec![arg]))
}

fn log_base(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let values = args.cast_all(&[DataType::Float64, DataType::Float64])?;
    Ok(Kernel::call(
        "log",
        DataType::Float64,
        "",
        |c| {
            c.over_arrays(|a| {
                let (base, x) = (
                    a[0].as_primitive::<Float64Type>(),
                    a[1].as_primitive::<Float64Type>(),
                );
                let rows = base.iter().zip(x.iter()).map(|(b, x)| match (b, x) {
                    (Some(b), Some(x)) if !(b <= 0.0 || x <= 0.0) => Some(x.ln() / b.ln()),
                    _ => None,
                });
                Ok(Arc::new(rows.collect::<PrimitiveArray<Float64Type>>()) as _)
            })
        },
        values,
    ))
}

fn power(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let values = args.cast_all(&[DataType::Float64, DataType::Float64])?;
    Ok(Kernel::call(
        "power",
        DataType::Float64,
        "",
        |c| {
            c.over_arrays(|a| {
                let (x, y) = (
                    a[0].as_primitive::<Float64Type>(),
                    a[1].as_primitive::<Float64Type>(),
                );
                let out: PrimitiveArray<Float64Type> = arrow::compute::binary(x, y, f64::powf)?;
                Ok(Arc::new(out) as _)
            })
        },
        values,
    ))
}

/// The remainder that is never negative for a positive divisor: `mod(mod(a, n) + n, n)` as plain arithmetic.
fn pmod(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let common = args.common()?;
    if !is_number(&common) {
        return args.refuse();
    }
    let (a, n) = match is_decimal(&common) {
        true => (args.exprs[0].clone(), args.exprs[1].clone()),
        false => (args.cast(0, &common)?, args.cast(1, &common)?),
    };
    let rest = args.call("mod", vec![a, n.clone()])?;
    let common = rest.get_type(args.schema as &dyn ExprSchema)?;
    let negative = super::operators::binary(Operator::Lt, rest.clone(), lit(0i32), args.schema)?;
    let shifted = super::operators::binary(Operator::Plus, rest.clone(), n.clone(), args.schema)?;
    let shifted = args.call("mod", vec![shifted, n])?;
    let branches = vec![(
        Box::new(negative),
        Box::new(cast_to(shifted, &common, args.schema)?),
    )];
    let otherwise = Some(Box::new(cast_to(rest, &common, args.schema)?));
    Ok(Expr::Case(datafusion::logical_expr::Case::new(
        None, branches, otherwise,
    )))
}
