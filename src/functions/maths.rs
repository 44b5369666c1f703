//! Numbers: checked forms of the operators under their names, rounding, and Spark's domain rules for logarithms.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, Operator, lit};

use super::coerce::{cast_to, is_decimal, is_float, is_integer, is_number, is_text};
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver, arithmetic, parse};

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
        if is_text(&a.types[0]) { a.cast(0, &DataType::Float64) } else { Ok(a.exprs[0].clone()) }
    }),
    ("abs", |a| {
        a.expect(1, 1)?;
        match &a.types[0] {
            t if is_number(t) => Ok(Kernel::call("abs", t.clone(), "", arithmetic::absolute, a.exprs.clone())),
            t if is_text(t) || *t == DataType::Null => {
                Ok(Kernel::call("abs", DataType::Float64, "", arithmetic::absolute, vec![a.cast(0, &DataType::Float64)?]))
            }
            _ => a.refuse(),
        }
    }),
    ("sign", |a| double(a, "signum", |v| if v == 0.0 || v.is_nan() { v } else { v.signum() })),
    ("signum", |a| double(a, "signum", |v| if v == 0.0 || v.is_nan() { v } else { v.signum() })),
    ("exp", |a| double(a, "exp", f64::exp)),
    ("expm1", |a| double(a, "expm1", f64::exp_m1)),
    ("ln", |a| logarithm(a, "ln", f64::ln, 0.0)),
    ("log10", |a| logarithm(a, "log10", f64::log10, 0.0)),
    ("log2", |a| logarithm(a, "log2", f64::log2, 0.0)),
    ("log1p", |a| logarithm(a, "log1p", f64::ln_1p, -1.0)),
    ("log", |a| match a.exprs.len() {
        1 => logarithm(a, "ln", f64::ln, 0.0),
        _ => log_base(a),
    }),
    ("sqrt", |a| double(a, "sqrt", f64::sqrt)),
    ("cbrt", |a| double(a, "cbrt", f64::cbrt)),
    ("sin", |a| double(a, "sin", f64::sin)),
    ("cos", |a| double(a, "cos", f64::cos)),
    ("tan", |a| double(a, "tan", f64::tan)),
    ("cot", |a| double(a, "cot", |v| 1.0 / v.tan())),
    ("sec", |a| double(a, "sec", |v| 1.0 / v.cos())),
    ("csc", |a| double(a, "csc", |v| 1.0 / v.sin())),
    ("asin", |a| double(a, "asin", f64::asin)),
    ("acos", |a| double(a, "acos", f64::acos)),
    ("atan", |a| double(a, "atan", f64::atan)),
    ("sinh", |a| double(a, "sinh", f64::sinh)),
    ("cosh", |a| double(a, "cosh", f64::cosh)),
    ("tanh", |a| double(a, "tanh", f64::tanh)),
    ("asinh", |a| double(a, "asinh", f64::asinh)),
    ("acosh", |a| double(a, "acosh", f64::acosh)),
    ("atanh", |a| double(a, "atanh", f64::atanh)),
    ("degrees", |a| double(a, "degrees", f64::to_degrees)),
    ("radians", |a| double(a, "radians", f64::to_radians)),
    ("rint", |a| double(a, "rint", f64::round_ties_even)),
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
        cast_to(a.library_with("bit_count", vec![arg])?, &DataType::Int32, a.schema)
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
    super::operators::binary(op, args.exprs[0].clone(), args.exprs[1].clone(), args.schema)
}

/// A function DOUBLE → DOUBLE. The pointer is part of the plan only through `name`.
fn double(args: Args<'_>, name: &'static str, f: fn(f64) -> f64) -> Result<Expr> {
    args.expect(1, 1)?;
    let arg = args.cast(0, &DataType::Float64)?;
    let code: KernelFn = |c| {
        let f = function(c.params);
        c.over_arrays(|a| Ok(Arc::new(a[0].as_primitive::<Float64Type>().unary::<_, Float64Type>(f)) as _))
    };
    debug_assert!(function(name)(0.5).to_bits() == f(0.5).to_bits());
    Ok(Kernel::call(name, DataType::Float64, name, code, vec![arg]))
}

/// The function of a name in this file. Kernels are plain function pointers, so the code is found again by name.
fn function(name: &str) -> fn(f64) -> f64 {
    match name {
        "signum" => |v| if v == 0.0 || v.is_nan() { v } else { v.signum() },
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

/// NULL at or below `limit`, as Spark has it for every logarithm.
fn logarithm(args: Args<'_>, name: &'static str, f: fn(f64) -> f64, limit: f64) -> Result<Expr> {
    args.expect(1, 1)?;
    let arg = args.cast(0, &DataType::Float64)?;
    debug_assert!(function(name)(0.5).to_bits() == f(0.5).to_bits());
    let code: KernelFn = |c| {
        let f = function(c.params);
        let limit = if c.params == "log1p" { -1.0 } else { 0.0 };
        c.over_arrays(|a| {
            let x = a[0].as_primitive::<Float64Type>();
            let out: PrimitiveArray<Float64Type> = x.unary_opt(|v| if v <= limit { None } else { Some(f(v)) });
            Ok(Arc::new(out) as _)
        })
    };
    debug_assert!(limit <= 0.0);
    Ok(Kernel::call(name, DataType::Float64, name, code, vec![arg]))
}

fn log_base(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let values = args.cast_all(&[DataType::Float64, DataType::Float64])?;
    Ok(Kernel::call("log", DataType::Float64, "", |c| {
        c.over_arrays(|a| {
            let (base, x) = (a[0].as_primitive::<Float64Type>(), a[1].as_primitive::<Float64Type>());
            let rows = base.iter().zip(x.iter()).map(|(b, x)| match (b, x) {
                (Some(b), Some(x)) if !(b <= 0.0 || x <= 0.0) => Some(x.ln() / b.ln()),
                _ => None,
            });
            Ok(Arc::new(rows.collect::<PrimitiveArray<Float64Type>>()) as _)
        })
    }, values))
}

fn power(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let values = args.cast_all(&[DataType::Float64, DataType::Float64])?;
    Ok(Kernel::call("power", DataType::Float64, "", |c| {
        c.over_arrays(|a| {
            let (x, y) = (a[0].as_primitive::<Float64Type>(), a[1].as_primitive::<Float64Type>());
            let out: PrimitiveArray<Float64Type> = arrow::compute::binary(x, y, f64::powf)?;
            Ok(Arc::new(out) as _)
        })
    }, values))
}

/// The remainder that is never negative for a positive divisor: `mod(mod(a, n) + n, n)` as plain arithmetic.
fn pmod(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let common = args.common()?;
    if !is_number(&common) {
        return args.refuse();
    }
    let (a, n) = (args.cast(0, &common)?, args.cast(1, &common)?);
    let rest = args.call("mod", vec![a, n.clone()])?;
    let negative = super::operators::binary(Operator::Lt, rest.clone(), lit(0i32), args.schema)?;
    let shifted = super::operators::binary(Operator::Plus, rest.clone(), n.clone(), args.schema)?;
    let shifted = args.call("mod", vec![shifted, n])?;
    let branches = vec![(Box::new(negative), Box::new(cast_to(shifted, &common, args.schema)?))];
    let otherwise = Some(Box::new(cast_to(rest, &common, args.schema)?));
    Ok(Expr::Case(datafusion::logical_expr::Case::new(None, branches, otherwise)))
}

#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    HalfUp,
    HalfEven,
    Up,
    Down,
}

impl Rounding {
    fn name(self) -> &'static str {
        match self {
            Rounding::HalfUp => "round",
            Rounding::HalfEven => "bround",
            Rounding::Up => "ceil",
            Rounding::Down => "floor",
        }
    }

    fn of(name: &str) -> Self {
        match name {
            "round" => Rounding::HalfUp,
            "bround" => Rounding::HalfEven,
            "ceil" => Rounding::Up,
            _ => Rounding::Down,
        }
    }

    /// `v` without its last `down` digits (in units of the kept digit).
    fn cut(self, v: i128, down: u32) -> i128 {
        let Some(unit) = 10i128.checked_pow(down) else { return 0 };
        let (quotient, rest) = (v / unit, v % unit);
        let up = match self {
            Rounding::Up => rest > 0,
            Rounding::Down => rest < 0,
            Rounding::HalfUp => rest.abs() * 2 >= unit,
            Rounding::HalfEven => rest.abs() * 2 > unit || (rest.abs() * 2 == unit && quotient % 2 != 0),
        };
        let step = match self {
            Rounding::Up => 1,
            Rounding::Down => -1,
            _ => rest.signum(),
        };
        quotient + if up { step } else { 0 }
    }
}

/// `round`, `bround`, `ceil`, `floor` with an optional constant number of digits.
fn round(args: Args<'_>, how: Rounding) -> Result<Expr> {
    args.expect(1, 2)?;
    let digits: i32 = match args.exprs.get(1) {
        None => 0,
        Some(_) => args.constant_text(1)?.parse().map_err(|_| {
            SparkError::external("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", format!("{}: the scale must be a constant INT", args.name))
        })?,
    };
    let scaled = args.exprs.len() > 1;
    let ceiling = matches!(how, Rounding::Up | Rounding::Down);
    let t = args.types[0].clone();
    if ceiling && !scaled && !is_decimal(&t) && !matches!(t, DataType::Null) {
        if is_integer(&t) {
            return args.cast(0, &DataType::Int64);
        }
        let x = args.cast(0, &DataType::Float64)?;
        return Ok(Kernel::call(how.name(), DataType::Int64, how.name(), whole, vec![x]));
    }
    match &t {
        t if is_integer(t) && ceiling => decimals(how, args.cast(0, &DataType::Decimal128(super::coerce::decimal_for(t).map_or(20, |d| d.0), 0))?, super::coerce::decimal_for(t).unwrap_or((20, 0)), digits),
        t if is_integer(t) => Ok(Kernel::call(how.name(), t.clone(), format!("{} {digits}", how.name()), round_integer, args.exprs[..1].to_vec())),
        DataType::Decimal128(p, s) => decimals(how, args.exprs[0].clone(), (*p, *s), digits),
        t if is_float(t) && ceiling => decimals(how, args.cast(0, &DataType::Decimal128(30, 15))?, (30, 15), digits),
        t if is_float(t) => Ok(Kernel::call(how.name(), t.clone(), format!("{} {digits}", how.name()), round_float, args.exprs[..1].to_vec())),
        t if is_text(t) || *t == DataType::Null => {
            let x = args.cast(0, &DataType::Float64)?;
            Ok(Kernel::call(how.name(), DataType::Float64, format!("{} {digits}", how.name()), round_float, vec![x]))
        }
        _ => args.refuse(),
    }
}

fn settings(params: &str) -> (Rounding, i32) {
    let (name, digits) = params.split_once(' ').unwrap_or((params, "0"));
    (Rounding::of(name), digits.parse().unwrap_or(0))
}

/// Spark's result type of rounding a decimal: no more fraction than asked for, one digit more for a carry.
fn decimals(how: Rounding, x: Expr, (p, s): (u8, i8), digits: i32) -> Result<Expr> {
    let (p, s) = (i32::from(p), i32::from(s));
    let whole = p - s + 1;
    let returns = match digits {
        d if d < 0 => super::coerce::bounded_decimal(whole.max(-d + 1), 0),
        d => super::coerce::bounded_decimal(whole + d.min(s), d.min(s)),
    };
    Ok(Kernel::call(how.name(), returns, format!("{} {digits}", how.name()), round_decimal, vec![x]))
}

fn round_decimal(call: &Call<'_>) -> Result<ColumnarValue> {
    let (how, digits) = settings(call.params);
    call.over_arrays(|a| {
        let x = a[0].as_primitive::<Decimal128Type>();
        let keep = i32::from(x.scale());
        let DataType::Decimal128(p, s) = *call.returns else { return Ok(Arc::clone(&a[0])) };
        let down = (keep - digits).max(0).unsigned_abs();
        let out: PrimitiveArray<Decimal128Type> = x.try_unary(|v| {
            let kept = how.cut(v, down);
            parse::round_decimal(kept, (keep - down as i32).max(i32::MIN + 1), p, s)
                .ok_or_else(|| SparkError::external("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", format!("rounding does not fit {}", call.returns)))
        })?;
        Ok(Arc::new(out.with_data_type(call.returns.clone())) as _)
    })
}

fn round_integer(call: &Call<'_>) -> Result<ColumnarValue> {
    let (how, digits) = settings(call.params);
    call.over_arrays(|a| {
        if digits >= 0 {
            return Ok(Arc::clone(&a[0]));
        }
        let wide = arrow::compute::cast(&a[0], &DataType::Int64)?;
        let unit = 10i128.checked_pow(digits.unsigned_abs());
        let out: PrimitiveArray<Int64Type> = wide.as_primitive::<Int64Type>().try_unary(|v| {
            let rounded = unit.map_or(0, |u| how.cut(v.into(), digits.unsigned_abs()) * u);
            i64::try_from(rounded).map_err(|_| SparkError::external("ARITHMETIC_OVERFLOW", format!("rounding {v} overflows")))
        })?;
        super::cast::convert(&(Arc::new(out) as _), call.returns, true)
    })
}

/// Rounds the decimal text of a float, as Java's BigDecimal does.
fn round_float(call: &Call<'_>) -> Result<ColumnarValue> {
    let (how, digits) = settings(call.params);
    call.over_arrays(|a| {
        let wide = arrow::compute::cast(&a[0], &DataType::Float64)?;
        let out: PrimitiveArray<Float64Type> = wide.as_primitive::<Float64Type>().unary(|v| round_double(v, how, digits));
        Ok(arrow::compute::cast(&out, call.returns)?)
    })
}

fn round_double(v: f64, how: Rounding, digits: i32) -> f64 {
    if !v.is_finite() {
        return v;
    }
    let text = format!("{v}");
    let scale = text.split_once('.').map_or(0, |(_, f)| f.len());
    let Ok(unscaled) = text.replace('.', "").parse::<i128>() else { return v };
    let down = scale as i32 - digits;
    if down <= 0 {
        return v;
    }
    let kept = how.cut(unscaled, down.unsigned_abs());
    format!("{kept}e{}", -digits).parse().unwrap_or(v)
}

/// CEIL and FLOOR of a DOUBLE as BIGINT.
fn whole(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let x = a[0].as_primitive::<Float64Type>();
        let out: PrimitiveArray<Int64Type> = x.try_unary(|v| {
            let w = if call.params == "ceil" { v.ceil() } else { v.floor() };
            if w.is_finite() && w.abs() < 9.3e18 {
                return Ok(w as i64);
            }
            Err(SparkError::external("CAST_OVERFLOW", format!("{v} is not a BIGINT")))
        })?;
        Ok(Arc::new(out) as _)
    })
}

/// The constant INT in a literal.
pub(super) fn constant_int(e: &Expr) -> Option<i64> {
    match e {
        Expr::Literal(v, _) => match v.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(v) => v,
            _ => None,
        },
        _ => None,
    }
}
