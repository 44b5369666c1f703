//! `round`, `bround`, `ceil` and `floor`.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::coerce::{is_decimal, is_float, is_integer, is_text};
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::{Args, parse};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rounding {
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
        let Some(unit) = 10i128.checked_pow(down) else {
            return 0;
        };
        let (quotient, rest) = (v / unit, v % unit);
        let up = match self {
            Rounding::Up => rest > 0,
            Rounding::Down => rest < 0,
            Rounding::HalfUp => rest.abs() * 2 >= unit,
            Rounding::HalfEven => {
                rest.abs() * 2 > unit || (rest.abs() * 2 == unit && quotient % 2 != 0)
            }
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
pub(super) fn round(args: Args<'_>, how: Rounding) -> Result<Expr> {
    args.expect(1, 2)?;
    let digits: i32 = match args.exprs.get(1) {
        None => 0,
        Some(_) => args.constant_text(1)?.parse().map_err(|_| {
            SparkError::external(
                "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
                format!("{}: the scale must be a constant INT", args.name),
            )
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
        return Ok(Kernel::call(
            how.name(),
            DataType::Int64,
            how.name(),
            whole,
            vec![x],
        ));
    }
    match &t {
        t if is_integer(t) && ceiling => decimals(
            how,
            args.cast(
                0,
                &DataType::Decimal128(super::coerce::decimal_for(t).map_or(20, |d| d.0), 0),
            )?,
            super::coerce::decimal_for(t).unwrap_or((20, 0)),
            digits,
        ),
        t if is_integer(t) => Ok(Kernel::call(
            how.name(),
            t.clone(),
            format!("{} {digits}", how.name()),
            round_integer,
            args.exprs[..1].to_vec(),
        )),
        DataType::Decimal128(p, s) => decimals(how, args.exprs[0].clone(), (*p, *s), digits),
        t if is_float(t) && ceiling => decimals(
            how,
            args.cast(0, &DataType::Decimal128(30, 15))?,
            (30, 15),
            digits,
        ),
        t if is_float(t) => Ok(Kernel::call(
            how.name(),
            t.clone(),
            format!("{} {digits}", how.name()),
            round_float,
            args.exprs[..1].to_vec(),
        )),
        t if is_text(t) || *t == DataType::Null => {
            let x = args.cast(0, &DataType::Float64)?;
            Ok(Kernel::call(
                how.name(),
                DataType::Float64,
                format!("{} {digits}", how.name()),
                round_float,
                vec![x],
            ))
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
    Ok(Kernel::call(
        how.name(),
        returns,
        format!("{} {digits}", how.name()),
        round_decimal,
        vec![x],
    ))
}

fn round_decimal(call: &Call<'_>) -> Result<ColumnarValue> {
    let (how, digits) = settings(call.params);
    call.over_arrays(|a| {
        let x = a[0].as_primitive::<Decimal128Type>();
        let keep = i32::from(x.scale());
        let DataType::Decimal128(p, s) = *call.returns else {
            return Ok(Arc::clone(&a[0]));
        };
        let down = (keep - digits).max(0).unsigned_abs();
        let out: PrimitiveArray<Decimal128Type> = x.try_unary(|v| {
            let kept = how.cut(v, down);
            parse::round_decimal(kept, (keep - down as i32).max(i32::MIN + 1), p, s).ok_or_else(
                || {
                    SparkError::external(
                        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
                        format!("rounding does not fit {}", call.returns),
                    )
                },
            )
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
            i64::try_from(rounded).map_err(|_| {
                SparkError::external("ARITHMETIC_OVERFLOW", format!("rounding {v} overflows"))
            })
        })?;
        super::cast::convert(
            &(Arc::new(out) as _),
            call.returns,
            super::cast::How::strict(call.zone),
        )
    })
}

/// Rounds the decimal text of a float, as Java's BigDecimal does.
fn round_float(call: &Call<'_>) -> Result<ColumnarValue> {
    let (how, digits) = settings(call.params);
    call.over_arrays(|a| {
        let wide = arrow::compute::cast(&a[0], &DataType::Float64)?;
        let out: PrimitiveArray<Float64Type> = wide
            .as_primitive::<Float64Type>()
            .unary(|v| round_double(v, how, digits));
        Ok(arrow::compute::cast(&out, call.returns)?)
    })
}

fn round_double(v: f64, how: Rounding, digits: i32) -> f64 {
    if !v.is_finite() {
        return v;
    }
    let text = format!("{v}");
    let scale = text.split_once('.').map_or(0, |(_, f)| f.len());
    let Ok(unscaled) = text.replace('.', "").parse::<i128>() else {
        return v;
    };
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
        // As Java's cast to long: NaN is 0, what is too large is the largest.
        let out: PrimitiveArray<Int64Type> = match call.params {
            "ceil" => x.unary(|v| v.ceil() as i64),
            _ => x.unary(|v| v.floor() as i64),
        };
        Ok(Arc::new(out) as _)
    })
}
