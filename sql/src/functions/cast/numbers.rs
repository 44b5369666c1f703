//! Casts from numbers and booleans.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::Result;

use super::super::error::mismatch;
use super::super::{parse, text};
use super::{Target, type_text};

pub(super) fn from_boolean(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let ints = arrow::compute::cast(array, &DataType::Int8)?;
    Ok(arrow::compute::cast(&ints, to)?)
}

pub(super) fn to_boolean(array: &ArrayRef) -> Result<ArrayRef> {
    let zero = datafusion::scalar::ScalarValue::new_zero(array.data_type())?.to_scalar()?;
    Ok(Arc::new(arrow::compute::kernels::cmp::neq(array, &zero)?))
}

pub(super) fn from_number(t: &Target<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    match t.from {
        DataType::Decimal128(_, scale) => from_decimal(t, array, *scale),
        DataType::Float32 => from_double(t, &arrow::compute::cast(array, &DataType::Float64)?),
        DataType::Float64 => from_double(t, array),
        _ => from_integer(t, &arrow::compute::cast(array, &DataType::Int64)?),
    }
}

fn from_integer(t: &Target<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    match t.to {
        DataType::Int8 => t.numbers::<Int64Type, Int8Type>(array, |v| v.try_into().ok()),
        DataType::Int16 => t.numbers::<Int64Type, Int16Type>(array, |v| v.try_into().ok()),
        DataType::Int32 => t.numbers::<Int64Type, Int32Type>(array, |v| v.try_into().ok()),
        DataType::Float32 => t.numbers::<Int64Type, Float32Type>(array, |v| Some(v as f32)),
        DataType::Decimal128(p, s) => t.numbers::<Int64Type, Decimal128Type>(array, |v| {
            parse::round_decimal(v.into(), 0, *p, *s)
        }),
        DataType::Timestamp(_, _) => {
            t.numbers::<Int64Type, TimestampMicrosecondType>(array, |v| v.checked_mul(1_000_000))
        }
        other => Err(mismatch(format!(
            "cannot cast {} to {}",
            type_text(t.from),
            type_text(other)
        ))),
    }
}

fn from_double(t: &Target<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    let whole = |v: f64, min: f64, end: f64| {
        (v.is_finite() && v.trunc() >= min && v.trunc() < end).then(|| v.trunc() as i64)
    };
    match t.to {
        DataType::Int8 => {
            t.numbers::<Float64Type, Int8Type>(array, |v| whole(v, -128.0, 128.0)?.try_into().ok())
        }
        DataType::Int16 => t.numbers::<Float64Type, Int16Type>(array, |v| {
            whole(v, -32768.0, 32768.0)?.try_into().ok()
        }),
        DataType::Int32 => t.numbers::<Float64Type, Int32Type>(array, |v| {
            whole(v, -2_147_483_648.0, 2_147_483_648.0)?.try_into().ok()
        }),
        DataType::Int64 => t.numbers::<Float64Type, Int64Type>(array, |v| {
            whole(v, i64::MIN as f64, i64::MAX as f64)
        }),
        DataType::Float32 => t.numbers::<Float64Type, Float32Type>(array, |v| Some(v as f32)),
        DataType::Decimal128(p, s) => t.numbers::<Float64Type, Decimal128Type>(array, |v| {
            parse::decimal(&text::double_text(v), *p, *s)?.ok()
        }),
        DataType::Timestamp(_, _) => t
            .numbers::<Float64Type, TimestampMicrosecondType>(array, |v| {
                whole(v * 1e6, -9.3e18, 9.2e18)
            }),
        other => Err(mismatch(format!(
            "cannot cast double to {}",
            type_text(other)
        ))),
    }
}

fn from_decimal(t: &Target<'_>, array: &ArrayRef, scale: i8) -> Result<ArrayRef> {
    let unit = 10i128.pow(u32::from(scale.max(0).unsigned_abs()));
    match t.to {
        DataType::Int8 => {
            t.numbers::<Decimal128Type, Int8Type>(array, |v| (v / unit).try_into().ok())
        }
        DataType::Int16 => {
            t.numbers::<Decimal128Type, Int16Type>(array, |v| (v / unit).try_into().ok())
        }
        DataType::Int32 => {
            t.numbers::<Decimal128Type, Int32Type>(array, |v| (v / unit).try_into().ok())
        }
        DataType::Int64 => {
            t.numbers::<Decimal128Type, Int64Type>(array, |v| (v / unit).try_into().ok())
        }
        DataType::Float64 => t.numbers::<Decimal128Type, Float64Type>(array, |v| {
            text::decimal_text(v, scale).parse().ok()
        }),
        DataType::Float32 => t.numbers::<Decimal128Type, Float32Type>(array, |v| {
            text::decimal_text(v, scale).parse().ok()
        }),
        DataType::Decimal128(p, s) => t.numbers::<Decimal128Type, Decimal128Type>(array, |v| {
            parse::round_decimal(v, scale.into(), *p, *s)
        }),
        DataType::Timestamp(_, _) => t
            .numbers::<Decimal128Type, TimestampMicrosecondType>(array, |v| {
                v.checked_mul(1_000_000)?.div_euclid(unit).try_into().ok()
            }),
        other => Err(mismatch(format!(
            "cannot cast decimal to {}",
            type_text(other)
        ))),
    }
}
