//! Values without structure as text, shared by JSON and CSV.
//!
//! Numbers look as Java prints them, because that is what Spark writes: `1.0E10`, `NaN`,
//! `Infinity`; decimals are always plain.

use std::num::NonZeroI32;

use arrow::array::cast::AsArray;
use arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, TimeUnit};
use lexical_core::{FormattedSize, ToLexical, ToLexicalWithOptions, WriteFloatOptions};

use super::time::TimeText;

/// A column of one plain type, taken apart once so that writing a value is one `match`.
pub(super) enum Values {
    Null,
    Boolean(BooleanArray),
    Int8(Int8Array),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    Date(Date32Array),
    /// The flag says whether the values are instants (TIMESTAMP) or local times (TIMESTAMP_NTZ).
    Timestamp(TimestampMicrosecondArray, bool),
    Text(StringArray),
    Binary(BinaryArray),
}

/// Whether [`Values`] takes a plain type.
pub(super) fn is_scalar(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Null
            | T::Boolean
            | T::Int8
            | T::Int16
            | T::Int32
            | T::Int64
            | T::Float32
            | T::Float64
            | T::Decimal128(..)
            | T::Date32
            | T::Timestamp(TimeUnit::Microsecond, _)
            | T::Utf8
            | T::Binary
    )
}

impl Values {
    /// Takes a column apart; None if its type is not one of [`is_scalar`].
    pub(super) fn new(array: &ArrayRef) -> Option<Self> {
        use DataType as T;
        Some(match array.data_type() {
            T::Null => Self::Null,
            T::Boolean => Self::Boolean(array.as_boolean().clone()),
            T::Int8 => Self::Int8(array.as_primitive::<Int8Type>().clone()),
            T::Int16 => Self::Int16(array.as_primitive::<Int16Type>().clone()),
            T::Int32 => Self::Int32(array.as_primitive::<Int32Type>().clone()),
            T::Int64 => Self::Int64(array.as_primitive::<Int64Type>().clone()),
            T::Float32 => Self::Float32(array.as_primitive::<Float32Type>().clone()),
            T::Float64 => Self::Float64(array.as_primitive::<Float64Type>().clone()),
            T::Decimal128(_, scale) => {
                Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), *scale)
            }
            T::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            T::Timestamp(TimeUnit::Microsecond, zone) => Self::Timestamp(
                array.as_primitive::<TimestampMicrosecondType>().clone(),
                zone.is_some(),
            ),
            T::Utf8 => Self::Text(array.as_string::<i32>().clone()),
            T::Binary => Self::Binary(array.as_binary::<i32>().clone()),
            _ => return None,
        })
    }

    /// Whether the text of row `row` is that of a number or boolean which JSON writes bare.
    pub(super) fn is_bare_json(&self, row: usize) -> bool {
        match self {
            Self::Float32(values) => values.value(row).is_finite(),
            Self::Float64(values) => values.value(row).is_finite(),
            Self::Date(_) | Self::Timestamp(..) | Self::Text(_) | Self::Binary(_) => false,
            _ => true,
        }
    }

    /// Appends the value of row `row`, which must not be null. Text and bytes go out as they are.
    pub(super) fn push(&self, row: usize, time: &TimeText, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            Self::Int8(values) => push_integer(out, values.value(row)),
            Self::Int16(values) => push_integer(out, values.value(row)),
            Self::Int32(values) => push_integer(out, values.value(row)),
            Self::Int64(values) => push_integer(out, values.value(row)),
            Self::Float32(values) => push_float(out, values.value(row)),
            Self::Float64(values) => push_float(out, values.value(row)),
            Self::Decimal(values, scale) => push_decimal(out, values.value(row), *scale),
            Self::Date(values) => time.push_date(out, values.value(row).into()),
            Self::Timestamp(values, instants) => {
                time.push_timestamp(out, values.value(row), *instants);
            }
            Self::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Self::Binary(values) => out.extend_from_slice(values.value(row)),
        }
    }
}

fn push_integer<N: ToLexical>(out: &mut Vec<u8>, value: N) {
    let mut buffer = [0; i64::FORMATTED_SIZE_DECIMAL];
    out.extend_from_slice(lexical_core::write(value, &mut buffer));
}

/// Java prints an exponent below 10^-3 and from 10^7 on.
const JAVA_FLOAT: WriteFloatOptions = WriteFloatOptions::builder()
    .negative_exponent_break(NonZeroI32::new(-3))
    .positive_exponent_break(NonZeroI32::new(6))
    .exponent(b'E')
    .inf_string(Some(b"Infinity"))
    .build_unchecked();

const FLOAT_BUFFER: usize =
    JAVA_FLOAT.buffer_size_const::<f64, { lexical_core::format::STANDARD }>();

fn push_float<F>(out: &mut Vec<u8>, value: F)
where
    F: ToLexicalWithOptions<Options = WriteFloatOptions>,
{
    let mut buffer = [0; FLOAT_BUFFER];
    out.extend_from_slice(lexical_core::write_with_options::<
        F,
        { lexical_core::format::STANDARD },
    >(value, &mut buffer, &JAVA_FLOAT));
}

/// Digits of `unscaled` with the point `scale` places from the right; zeros follow where the scale
/// is negative.
fn push_decimal(out: &mut Vec<u8>, unscaled: i128, scale: i8) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let mut buffer = [0; u128::FORMATTED_SIZE_DECIMAL];
    let digits = lexical_core::write(unscaled.unsigned_abs(), &mut buffer);
    let Ok(scale) = usize::try_from(scale) else {
        out.extend_from_slice(digits);
        if unscaled != 0 {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    };
    if scale == 0 {
        out.extend_from_slice(digits);
        return;
    }
    let whole = digits.len().saturating_sub(scale);
    if whole == 0 {
        out.push(b'0');
    }
    out.extend_from_slice(&digits[..whole]);
    out.push(b'.');
    out.resize(out.len() + (scale - (digits.len() - whole)), b'0');
    out.extend_from_slice(&digits[whole..]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn float_is_written_as_java_prints_it() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.5e300, "1.5E300"),
            (123_456_789.125, "1.23456789125E8"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::from_bits(1), "5.0E-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| push_float(out, value)), expected);
        }
        assert_eq!(text(|out| push_float(out, 0.1_f32)), "0.1");
        assert_eq!(text(|out| push_float(out, f32::MAX)), "3.4028235E38");
    }

    #[test]
    fn decimal_is_plain_at_every_scale() {
        for (unscaled, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (-100, 2, "-1.00"),
            (1, 18, "0.000000000000000001"),
            (12, -3, "12000"),
            (0, -3, "0"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            assert_eq!(text(|out| push_decimal(out, unscaled, scale)), expected);
        }
    }

    #[test]
    fn integer_limits_fit_the_buffer() {
        assert_eq!(
            text(|out| push_integer(out, i64::MIN)),
            "-9223372036854775808"
        );
        assert_eq!(text(|out| push_integer(out, i8::MIN)), "-128");
    }
}
