//! Checked arithmetic on columns: Arrow's checked kernels with Spark's errors, and decimals in 256 bits rounded half up.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Decimal128Array, PrimitiveArray,
};
use arrow::compute::kernels::numeric;
use arrow::compute::{and, is_not_null};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalYearMonthType, i256,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ColumnarValue;

use super::coerce::is_decimal;
use super::error::{SparkError, mismatch};
use super::kernel::Call;

pub(super) fn negate(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        numeric::neg(a[0].as_ref()).map_err(|e| overflow(e, a[0].data_type(), "-"))
    })
}

/// Absolute value, checked.
pub(crate) fn absolute(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let array = &a[0];
        macro_rules! ints {
            ($t:ty) => {{
                let out: PrimitiveArray<$t> = array.as_primitive::<$t>().try_unary(|v| {
                    v.checked_abs().ok_or_else(|| {
                        overflow_of(array.data_type(), format!("abs({v}) does not fit"))
                    })
                })?;
                Ok(Arc::new(out) as ArrayRef)
            }};
        }
        match array.data_type() {
            DataType::Int8 => ints!(Int8Type),
            DataType::Int16 => ints!(Int16Type),
            DataType::Int32 => ints!(Int32Type),
            DataType::Int64 => ints!(Int64Type),
            DataType::Duration(_) => ints!(DurationMicrosecondType),
            DataType::Interval(_) => ints!(IntervalYearMonthType),
            DataType::Float32 => Ok(Arc::new(
                array
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(f32::abs),
            ) as _),
            DataType::Float64 => Ok(Arc::new(
                array
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(f64::abs),
            ) as _),
            t => {
                let out = array
                    .as_primitive::<Decimal128Type>()
                    .unary::<_, Decimal128Type>(i128::abs);
                Ok(Arc::new(out.with_data_type(t.clone())) as _)
            }
        }
    })
}

/// Spark's condition for integers that overflow: the two small widths have their own.
fn overflow_of(t: &DataType, message: String) -> DataFusionError {
    let condition = match t {
        DataType::Int8 | DataType::Int16 => "BINARY_ARITHMETIC_OVERFLOW",
        DataType::Decimal128(_, _) => "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        _ => "ARITHMETIC_OVERFLOW",
    };
    SparkError::external(condition, message)
}

fn overflow(error: ArrowError, t: &DataType, op: &str) -> DataFusionError {
    match error {
        ArrowError::ArithmeticOverflow(text) => overflow_of(t, format!("`{op}` overflows: {text}")),
        ArrowError::DivideByZero => {
            SparkError::external("DIVIDE_BY_ZERO", format!("`{op}` divides by zero"))
        }
        other => other.into(),
    }
}

pub(super) type Arithmetic = fn(&dyn Datum, &dyn Datum, &DataType) -> Result<ArrayRef>;

/// Applies `f`, keeping constants constant.
pub(super) fn checked(call: &Call<'_>, f: Arithmetic) -> Result<ColumnarValue> {
    let both_scalar = call
        .args
        .iter()
        .all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let datum = |v: &ColumnarValue| -> Result<Box<dyn Datum>> {
        Ok(match v {
            ColumnarValue::Array(a) => Box::new(a.clone()),
            ColumnarValue::Scalar(s) if both_scalar => Box::new(s.to_array()?),
            ColumnarValue::Scalar(s) => Box::new(s.to_scalar()?),
        })
    };
    let out = f(
        datum(&call.args[0])?.as_ref(),
        datum(&call.args[1])?.as_ref(),
        call.returns,
    )?;
    if both_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?));
    }
    Ok(ColumnarValue::Array(out))
}

/// Applies `f`; where it fails, once more row by row with NULL for each failing row.
pub(super) fn unchecked(call: &Call<'_>, f: Arithmetic) -> Result<ColumnarValue> {
    match checked(call, f) {
        Err(e) if SparkError::find(&e).is_some() => call.over_arrays(|a| {
            let rows = (0..a[0].len()).map(|i| {
                let (l, r) = (a[0].slice(i, 1), a[1].slice(i, 1));
                match f(&l, &r, call.returns) {
                    Ok(v) => Ok(v),
                    Err(e) if SparkError::find(&e).is_some() => {
                        Ok(arrow::array::new_null_array(call.returns, 1))
                    }
                    Err(e) => Err(e),
                }
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            if rows.is_empty() {
                return Ok(arrow::array::new_empty_array(call.returns));
            }
            let refs: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
            Ok(arrow::compute::concat(&refs)?)
        }),
        done => done,
    }
}

/// Checked addition of equal types, decimals, and times.
pub(super) fn add(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    if is_decimal(to) {
        return decimals(l, r, to, "+", |a, b| a.checked_add(b), Align::Common);
    }
    numeric::add(l, r).map_err(|e| overflow(e, to, "+"))
}

/// Checked subtraction of equal types, decimals, and times.
pub(super) fn subtract(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    if is_decimal(to) {
        return decimals(l, r, to, "-", |a, b| a.checked_sub(b), Align::Common);
    }
    numeric::sub(l, r).map_err(|e| overflow(e, to, "-"))
}

pub(super) fn multiply(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    if is_decimal(to) {
        return decimals(l, r, to, "*", |a, b| a.checked_mul(b), Align::Sum);
    }
    numeric::mul(l, r).map_err(|e| overflow(e, to, "*"))
}

pub(super) fn divide(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    refuse_zero(l, r, "DIVIDE_BY_ZERO", "/")?;
    if is_decimal(to) {
        return decimals(l, r, to, "/", |a, b| a.checked_div(b), Align::Quotient);
    }
    numeric::div(l, r).map_err(|e| overflow(e, to, "/"))
}

pub(super) fn modulo(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    refuse_zero(l, r, "REMAINDER_BY_ZERO", "%")?;
    if is_decimal(to) {
        return decimals(l, r, to, "%", |a, b| a.checked_rem(b), Align::Common);
    }
    match to {
        DataType::Int8 => ints::<Int8Type>(l, r, i8::wrapping_rem),
        DataType::Int16 => ints::<Int16Type>(l, r, i16::wrapping_rem),
        DataType::Int32 => ints::<Int32Type>(l, r, i32::wrapping_rem),
        DataType::Int64 => ints::<Int64Type>(l, r, i64::wrapping_rem),
        _ => numeric::rem(l, r).map_err(|e| overflow(e, to, "%")),
    }
}

pub(super) fn integer_quotient(l: &dyn Datum, r: &dyn Datum, to: &DataType) -> Result<ArrayRef> {
    refuse_zero(l, r, "DIVIDE_BY_ZERO", "div")?;
    if !is_decimal(l.get().0.data_type()) {
        return numeric::div(l, r).map_err(|e| overflow(e, to, "div"));
    }
    let whole = DataType::Decimal128(38, 0);
    let quotient = decimals(l, r, &whole, "div", |a, b| a.checked_div(b), Align::Whole)?;
    let out: PrimitiveArray<Int64Type> =
        quotient.as_primitive::<Decimal128Type>().try_unary(|v| {
            i64::try_from(v).map_err(|_| {
                SparkError::external("ARITHMETIC_OVERFLOW", format!("{v} is not a BIGINT"))
            })
        })?;
    Ok(Arc::new(out))
}

/// An infallible operation on two integer columns whose null divisors were already checked.
fn ints<T: ArrowPrimitiveType>(
    l: &dyn Datum,
    r: &dyn Datum,
    f: impl Fn(T::Native, T::Native) -> T::Native,
) -> Result<ArrayRef> {
    let (a, b) = broadcast(l, r)?;
    let (a, b) = (a.as_primitive::<T>(), b.as_primitive::<T>());
    let out: PrimitiveArray<T> =
        arrow::compute::kernels::arity::try_binary(a, b, |x, y| Ok(f(x, y)))?;
    Ok(Arc::new(out))
}

/// Two operands as arrays of one length.
fn broadcast(l: &dyn Datum, r: &dyn Datum) -> Result<(ArrayRef, ArrayRef)> {
    let ((a, a_one), (b, b_one)) = (l.get(), r.get());
    let rows = if a_one { b.len() } else { a.len() };
    let widen = |x: &dyn Array, one: bool| -> Result<ArrayRef> {
        let whole = arrow::array::make_array(x.to_data());
        if one && (x.len() != rows || a_one != b_one) {
            return ScalarValue::try_from_array(&whole, 0)?.to_array_of_size(rows);
        }
        Ok(whole)
    };
    Ok((widen(a, a_one)?, widen(b, b_one)?))
}

/// Fails if any row divides a value by zero; a NULL dividend asks for nothing.
fn refuse_zero(l: &dyn Datum, r: &dyn Datum, condition: &'static str, op: &str) -> Result<()> {
    let (divisor, one) = r.get();
    let zero = ScalarValue::new_zero(divisor.data_type())?.to_scalar()?;
    let zeros: BooleanArray =
        arrow::compute::kernels::cmp::eq(&arrow::array::make_array(divisor.to_data()), &zero)?;
    let negative_zero = matches!(divisor.data_type(), DataType::Float64 | DataType::Float32) && {
        let f = arrow::compute::cast(
            &arrow::array::make_array(divisor.to_data()),
            &DataType::Float64,
        )?;
        f.as_primitive::<Float64Type>()
            .iter()
            .flatten()
            .any(|v| v == 0.0 && v.is_sign_negative())
    };
    if zeros.true_count() == 0 && !negative_zero {
        return Ok(());
    }
    let (dividend, left_one) = l.get();
    let used = if one || left_one {
        dividend.len() > dividend.null_count()
    } else {
        and(
            &zeros,
            &is_not_null(&arrow::array::make_array(dividend.to_data()))?,
        )?
        .true_count()
            > 0
            || negative_zero
    };
    if !used {
        return Ok(());
    }
    let dividends = arrow::array::make_array(dividend.to_data());
    let at = if one || left_one {
        0
    } else {
        zeros.iter().position(|z| z == Some(true)).unwrap_or(0)
    };
    let first = ScalarValue::try_from_array(&dividends, at.min(dividends.len().saturating_sub(1)))?;
    Err(SparkError::external(
        condition,
        format!("division by zero: {first} {op} 0; use try_divide or try_mod for NULL"),
    ))
}

/// How two decimals are brought to scales on which an integer operation is right.
#[derive(Clone, Copy)]
enum Align {
    /// Both at the larger scale; the result has it too.
    Common,
    /// As they are; the scales add up.
    Sum,
    /// The dividend enlarged so that the quotient has one digit more than asked for.
    Quotient,
    /// Both at the larger scale; the quotient is whole.
    Whole,
}

fn decimals(
    l: &dyn Datum,
    r: &dyn Datum,
    to: &DataType,
    op: &'static str,
    f: fn(i256, i256) -> Option<i256>,
    align: Align,
) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *to else {
        return Err(mismatch(format!("{to} is no decimal")));
    };
    let (a, b) = broadcast(l, r)?;
    let (a, b): (&Decimal128Array, &Decimal128Array) = (a.as_primitive(), b.as_primitive());
    let (sa, sb) = (i32::from(a.scale()), i32::from(b.scale()));
    let (up_a, up_b, have) = match align {
        Align::Common => (sa.max(sb) - sa, sa.max(sb) - sb, sa.max(sb)),
        Align::Whole => (sa.max(sb) - sa, sa.max(sb) - sb, 0),
        Align::Sum => (0, 0, sa + sb),
        Align::Quotient => {
            let up = (i32::from(scale) + 1 + sb - sa).max(0);
            (up, 0, sa + up - sb)
        }
    };
    let (fa, fb) = (power(up_a), power(up_b));
    let limit = power(i32::from(precision));
    let down = have - i32::from(scale);
    let apply = |x: i128, y: i128| -> Option<i128> {
        let v = f(
            i256::from_i128(x).checked_mul(fa)?,
            i256::from_i128(y).checked_mul(fb)?,
        )?;
        let v = rescale(v, down)?;
        (v < limit && v > limit.wrapping_neg())
            .then(|| v.to_i128())
            .flatten()
    };
    let out: Decimal128Array = arrow::compute::kernels::arity::try_binary(a, b, |x, y| {
        apply(x, y).ok_or_else(|| {
            ArrowError::ArithmeticOverflow(format!("{x}e-{sa} {op} {y}e-{sb} in {to}"))
        })
    })
    .map_err(|e| overflow(e, to, op))?;
    Ok(Arc::new(out.with_data_type(to.clone())))
}

fn power(digits: i32) -> i256 {
    i256::from_i128(10).wrapping_pow(digits.max(0) as u32)
}

/// `v` with `down` digits fewer behind the point, rounded half up away from zero.
fn rescale(v: i256, down: i32) -> Option<i256> {
    if down <= 0 {
        return v.checked_mul(power(-down));
    }
    let unit = power(down);
    let (quotient, rest) = (v.checked_div(unit)?, v.checked_rem(unit)?);
    let twice = rest.checked_mul(i256::from_i128(2))?;
    if twice >= unit {
        return quotient.checked_add(i256::ONE);
    }
    if twice <= unit.wrapping_neg() {
        return quotient.checked_sub(i256::ONE);
    }
    Some(quotient)
}
