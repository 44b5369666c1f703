//! `CAST` and `try_cast` with Spark's ANSI rules: a value that does not fit is an error (or NULL for `try_cast`).

mod numbers;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, MapArray,
    PrimitiveArray, StringArray, StructArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalYearMonthType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Cast, Expr};

use self::numbers::{from_boolean, from_number, to_boolean};
use super::coerce::{is_decimal, is_float, is_integer, is_number, is_text};
use super::error::{SparkError, mismatch};
use super::intervals::{DAY_MICROS, parse_interval};
use super::kernel::{Call, Kernel, KernelFn};
pub(crate) use super::text::type_text;
use super::{interval_fields, parse, text};
use weir_connectors::file::decode::parse::{
    Zone, parse_date, parse_timestamp, parse_timestamp_ntz,
};

/// Casts that change no value, which Arrow's plain cast does as well.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Null, _) => true,
        (a, b) if is_integer(a) && is_integer(b) => a.primitive_width() <= b.primitive_width(),
        (a, DataType::Float64) if is_integer(a) => true,
        (DataType::Int8 | DataType::Int16, DataType::Float32) => true,
        (DataType::Float32, DataType::Float64) => true,
        (a, DataType::Decimal128(p, s)) => match super::coerce::decimal_for(a) {
            Some((p0, s0)) => {
                *s >= s0 && i32::from(*p) - i32::from(*s) >= i32::from(p0) - i32::from(s0)
            }
            None => false,
        },
        (DataType::UInt8 | DataType::UInt16, DataType::Int32) => true,
        (DataType::UInt32 | DataType::UInt64, DataType::Int64) => true,
        (DataType::BinaryView | DataType::LargeBinary, DataType::Binary) => true,
        (DataType::Binary, DataType::BinaryView | DataType::LargeBinary) => true,
        (DataType::Timestamp(a, _), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            *a != TimeUnit::Microsecond
        }
        (a, b) => is_text(a) && is_text(b),
    }
}

/// Whether Spark's ANSI mode has a cast between two types at all.
fn castable(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Duration, Interval, List, Map, Struct, Timestamp};
    match (from, to) {
        (a, b) if a == b => true,
        (a, b) if is_lossless(a, b) => true,
        (_, b) if is_text(b) => true,
        (a, b) if is_text(a) => !matches!(b, List(_) | Map(_, _) | Struct(_)),
        (a, b) if is_number(a) && is_number(b) => true,
        (a, Boolean) | (Boolean, a) if is_number(a) => true,
        (a, Timestamp(_, Some(_))) | (Timestamp(_, Some(_)), a) if is_number(a) => true,
        (Date32 | Timestamp(_, _), Date32 | Timestamp(_, _)) => true,
        (a, Duration(_) | Interval(_)) | (Duration(_) | Interval(_), a) if is_integer(a) => true,
        (List(a), List(b)) => castable(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(x, y)| castable(x.data_type(), y.data_type()))
        }
        (Map(a, _), Map(b, _)) => castable(a.data_type(), b.data_type()),
        _ => false,
    }
}

/// `expr` of type `from` as `to`; `lenient` is `try_cast`.
pub(crate) fn cast_expr(expr: Expr, from: &DataType, to: &DataType, lenient: bool) -> Result<Expr> {
    if super::coerce::same(from, to) {
        return Ok(expr);
    }
    if !castable(from, to) {
        let (f, t) = (type_text(from), type_text(to));
        return Err(mismatch(format!("cannot cast `{expr}` from {f} to {t}")));
    }
    if is_lossless(from, to) {
        return Ok(Expr::Cast(Cast::new(Box::new(expr), to.clone())));
    }
    let (name, code): (&'static str, KernelFn) = match lenient {
        true => ("try_cast", |c| {
            c.over_arrays(|a| convert(&a[0], c.returns, How::lenient(c.zone)))
        }),
        false => ("cast", |c| {
            c.over_arrays(|a| convert(&a[0], c.returns, How::strict(c.zone)))
        }),
    };
    Ok(Kernel::call(name, to.clone(), "", code, vec![expr]))
}

/// A cast that a query spells out. It keeps its own name in the plan even where it changes no value, so that
/// `sum(v)` and `sum(CAST(v AS BIGINT))` stay apart.
pub(crate) fn written(expr: Expr, from: &DataType, to: &DataType, lenient: bool) -> Result<Expr> {
    let cast = cast_expr(expr, from, to, lenient)?;
    match cast {
        Expr::Cast(c) => {
            let code: KernelFn =
                |c| c.over_arrays(|a| convert(&a[0], c.returns, How::strict(c.zone)));
            Ok(Kernel::call("cast", to.clone(), "", code, vec![*c.expr]))
        }
        other => Ok(other),
    }
}

/// An interval of these fields as STRING.
pub(crate) fn interval_text(interval: Expr, fields: String) -> Expr {
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let texts: StringArray = match a[0].as_primitive_opt::<DurationMicrosecondType>() {
                Some(micros) => micros
                    .iter()
                    .map(|v| v.map(|v| interval_fields::day_time_text(v, c.params)))
                    .collect(),
                None => a[0]
                    .as_primitive::<IntervalYearMonthType>()
                    .iter()
                    .map(|v| v.map(|v| interval_fields::year_month_text(v, c.params)))
                    .collect(),
            };
            Ok(Arc::new(texts) as ArrayRef)
        })
    };
    Kernel::call(
        "interval_text",
        DataType::Utf8,
        fields,
        code,
        vec![interval],
    )
}

/// How a cast is done.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// A value that does not fit is an error, else NULL.
    strict: bool,
    /// Where local times are read and written.
    pub(crate) zone: Zone,
}

impl How {
    /// A value that does not fit is an error.
    pub(crate) fn strict(zone: Zone) -> Self {
        Self { strict: true, zone }
    }

    /// A value that does not fit is NULL.
    pub(crate) fn lenient(zone: Zone) -> Self {
        Self {
            strict: false,
            zone,
        }
    }

    /// The zone of a column of times: those without zone stand still.
    pub(super) fn zone_of(self, zoned: bool) -> Zone {
        match zoned {
            true => self.zone,
            false => Zone::Utc,
        }
    }
}

/// One cast of one column.
#[derive(Clone, Copy)]
struct Target<'a> {
    from: &'a DataType,
    to: &'a DataType,
    how: How,
}

impl Target<'_> {
    fn invalid(&self, value: &str) -> DataFusionError {
        let (from, to) = (
            type_text(self.from).to_uppercase(),
            type_text(self.to).to_uppercase(),
        );
        let message = format!(
            "the value '{value}' of the type {from} cannot be cast to {to} because it is malformed; use try_cast for NULL"
        );
        SparkError::external("CAST_INVALID_INPUT", message)
    }

    fn overflow(&self, value: impl std::fmt::Display) -> DataFusionError {
        let (from, to) = (
            type_text(self.from).to_uppercase(),
            type_text(self.to).to_uppercase(),
        );
        if is_decimal(self.to) {
            let message = format!(
                "the value {value} cannot be represented as {to}; use a larger precision or try_cast for NULL"
            );
            return SparkError::external("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", message);
        }
        let message = format!(
            "the value {value} of the type {from} cannot be cast to {to} because of an overflow; use try_cast for NULL"
        );
        SparkError::external("CAST_OVERFLOW", message)
    }

    /// Converts each value; `f` gives `None` for a value that does not fit.
    fn numbers<S: ArrowPrimitiveType, T: ArrowPrimitiveType>(
        &self,
        array: &ArrayRef,
        f: impl Fn(S::Native) -> Option<T::Native>,
    ) -> Result<ArrayRef>
    where
        S::Native: std::fmt::Display,
    {
        let values = array.as_primitive::<S>();
        let out: PrimitiveArray<T> = if self.how.strict {
            values.try_unary(|v| f(v).ok_or_else(|| self.overflow(v)))?
        } else {
            values.unary_opt(f)
        };
        Ok(Arc::new(out.with_data_type(self.to.clone())))
    }

    fn text<T: ArrowPrimitiveType>(
        &self,
        array: &StringArray,
        f: impl Fn(&str) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let rows = array.iter().map(|v| match v.map(|s| (s, f(s))) {
            Some((s, None)) if self.how.strict => Err(self.invalid(s)),
            Some((_, v)) => Ok(v),
            None => Ok(None),
        });
        let out: PrimitiveArray<T> = rows.collect::<Result<_>>()?;
        Ok(Arc::new(out.with_data_type(self.to.clone())))
    }
}

/// `array` as `to`.
pub(crate) fn convert(array: &ArrayRef, to: &DataType, how: How) -> Result<ArrayRef> {
    let from = array.data_type().clone();
    if from == *to {
        return Ok(Arc::clone(array));
    }
    let target = Target {
        from: &from,
        to,
        how,
    };
    match (&from, to) {
        (DataType::Null, _) => Ok(arrow::array::new_null_array(to, array.len())),
        (a, b) if is_lossless(a, b) => Ok(arrow::compute::cast(array, to)?),
        (a, b) if is_text(a) && !is_text(b) => {
            let utf8 = arrow::compute::cast(array, &DataType::Utf8)?;
            from_text(&target, utf8.as_string::<i32>())
        }
        (_, b) if is_text(b) => Ok(Arc::new(text::strings(array, how.zone)?)),
        (DataType::Boolean, _) => from_boolean(array, to),
        (_, DataType::Boolean) => to_boolean(array),
        (DataType::List(_) | DataType::Struct(_) | DataType::Map(_, _), _) => {
            nested(array, to, how)
        }
        (a, _) if is_number(a) => from_number(&target, array),
        _ => from_time(&target, array),
    }
}

fn from_text(t: &Target<'_>, s: &StringArray) -> Result<ArrayRef> {
    match t.to {
        DataType::Int8 => t.text::<Int8Type>(s, |v| parse::integer(v)?.try_into().ok()),
        DataType::Int16 => t.text::<Int16Type>(s, |v| parse::integer(v)?.try_into().ok()),
        DataType::Int32 => t.text::<Int32Type>(s, |v| parse::integer(v)?.try_into().ok()),
        DataType::Int64 => t.text::<Int64Type>(s, parse::integer),
        DataType::Float32 => t.text::<Float32Type>(s, |v| parse::double(v).map(|d| d as f32)),
        DataType::Float64 => t.text::<Float64Type>(s, parse::double),
        DataType::Date32 => t.text::<Date32Type>(s, |v| parse_date(v.as_bytes())),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            t.text::<TimestampMicrosecondType>(s, |v| match zone {
                Some(_) => parse_timestamp(v.as_bytes(), t.how.zone),
                None => parse_timestamp_ntz(v.as_bytes(), true),
            })
        }
        DataType::Duration(TimeUnit::Microsecond) => t.text::<DurationMicrosecondType>(s, |v| {
            let (months, days, micros) = parse_interval(v)?;
            (months == 0).then(|| i64::from(days).checked_mul(DAY_MICROS)?.checked_add(micros))?
        }),
        DataType::Boolean => {
            let rows = s.iter().map(|v| match v.map(|s| (s, parse::boolean(s))) {
                Some((s, None)) if t.how.strict => Err(t.invalid(s)),
                Some((_, v)) => Ok(v),
                None => Ok(None),
            });
            Ok(Arc::new(rows.collect::<Result<BooleanArray>>()?))
        }
        DataType::Decimal128(p, scale) => decimal_from_text(t, s, *p, *scale),
        DataType::Binary => Ok(arrow::compute::cast(s, &DataType::Binary)?),
        other => Err(mismatch(format!(
            "cannot cast string to {}",
            type_text(other)
        ))),
    }
}

fn decimal_from_text(
    t: &Target<'_>,
    s: &StringArray,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef> {
    let rows = s.iter().map(
        |v| match v.map(|s| (s, parse::decimal(s, precision, scale))) {
            Some((s, None)) if t.how.strict => Err(t.invalid(s)),
            Some((s, Some(Err(())))) if t.how.strict => Err(t.overflow(s)),
            Some((_, Some(Ok(v)))) => Ok(Some(v)),
            _ => Ok(None),
        },
    );
    let out: PrimitiveArray<Decimal128Type> = rows.collect::<Result<_>>()?;
    Ok(Arc::new(out.with_data_type(t.to.clone())))
}

fn from_time(t: &Target<'_>, array: &ArrayRef) -> Result<ArrayRef> {
    match (t.from, t.to) {
        (DataType::Date32, DataType::Timestamp(_, to)) => {
            let zone = t.how.zone_of(to.is_some());
            t.numbers::<Date32Type, TimestampMicrosecondType>(array, |d| {
                zone.local_to_utc(i64::from(d).checked_mul(DAY_MICROS)?)
            })
        }
        (DataType::Timestamp(_, from), DataType::Timestamp(_, to)) => {
            let (from, to) = (from.is_some(), to.is_some());
            t.numbers::<TimestampMicrosecondType, TimestampMicrosecondType>(array, |v| {
                match (from, to) {
                    (true, false) => t.how.zone.utc_to_local(v),
                    (false, true) => t.how.zone.local_to_utc(v),
                    _ => Some(v),
                }
            })
        }
        (DataType::Timestamp(_, from), DataType::Date32) => {
            let zone = t.how.zone_of(from.is_some());
            t.numbers::<TimestampMicrosecondType, Date32Type>(array, |v| {
                zone.utc_to_local(v)?.div_euclid(DAY_MICROS).try_into().ok()
            })
        }
        (DataType::Timestamp(_, _), to) if is_integer(to) => {
            let seconds: PrimitiveArray<Int64Type> = array
                .as_primitive::<TimestampMicrosecondType>()
                .unary(|v| v.div_euclid(1_000_000));
            convert(&(Arc::new(seconds) as ArrayRef), to, t.how)
        }
        (DataType::Timestamp(_, _), to) if is_float(to) || is_decimal(to) => {
            let seconds: PrimitiveArray<Decimal128Type> = array
                .as_primitive::<TimestampMicrosecondType>()
                .unary(i128::from);
            let seconds = seconds.with_data_type(DataType::Decimal128(20, 6));
            convert(&(Arc::new(seconds) as ArrayRef), to, t.how)
        }
        (from, to) => Err(mismatch(format!(
            "cannot cast {} to {}",
            type_text(from),
            type_text(to)
        ))),
    }
}

fn nested(array: &ArrayRef, to: &DataType, how: How) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        (DataType::List(_), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let values = convert(list.values(), field.data_type(), how)?;
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(field),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let s = array.as_struct();
            let columns = s
                .columns()
                .iter()
                .zip(fields)
                .map(|(c, f)| convert(c, f.data_type(), how));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                columns,
                s.nulls().cloned(),
            )?))
        }
        (DataType::Map(_, _), DataType::Map(field, ordered)) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = convert(&entries, field.data_type(), how)?;
            let entries = entries.as_struct().clone();
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(field),
                map.offsets().clone(),
                entries,
                map.nulls().cloned(),
                *ordered,
            )?))
        }
        (from, to) => Err(mismatch(format!(
            "cannot cast {} to {}",
            type_text(from),
            type_text(to)
        ))),
    }
}

/// The kernel of a planned cast applied to constants, used to fold typed literals.
pub(crate) fn constant(
    value: &datafusion::scalar::ScalarValue,
    to: &DataType,
    zone: Zone,
) -> Result<datafusion::scalar::ScalarValue> {
    let array = value.to_array()?;
    let cast = convert(&array, to, How::strict(zone))?;
    datafusion::scalar::ScalarValue::try_from_array(&cast, 0)
}

/// Kernels that only change the type label of equal bits need a call too.
pub(crate) fn relabel(call: &Call<'_>) -> Result<datafusion::logical_expr::ColumnarValue> {
    call.over_arrays(|a| Ok(arrow::compute::cast(&a[0], call.returns)?))
}
