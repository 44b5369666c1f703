//! Spark's type lattice: which common type two values meet in (ANSI rules), and the casts that take them there.
//!
//! Source: Spark 4 `AnsiTypeCoercion` and `DecimalPrecision`. Types are Arrow's; TIMESTAMP is `Timestamp(µs, "UTC")`,
//! TIMESTAMP_NTZ the same without zone, day-time intervals `Duration(µs)`, year-month intervals `Interval(YearMonth)`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::scalar::ScalarValue;

use super::cast;
use super::error::mismatch;

/// TIMESTAMP.
pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// TIMESTAMP_NTZ.
pub(crate) fn timestamp_ntz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// INTERVAL DAY TO SECOND.
pub(crate) fn day_time() -> DataType {
    DataType::Duration(TimeUnit::Microsecond)
}

/// ARRAY of `element`, with the field name Arrow uses by default.
pub(crate) fn array_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// MAP, with the field names that DataFusion's map functions use.
pub(crate) fn map_of(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", key, false),
        Field::new("value", value, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

/// TINYINT to BIGINT.
pub(crate) fn is_integer(t: &DataType) -> bool {
    matches!(
        t,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64
    )
}

/// FLOAT or DOUBLE.
pub(crate) fn is_float(t: &DataType) -> bool {
    matches!(t, DataType::Float32 | DataType::Float64)
}

/// DECIMAL.
pub(crate) fn is_decimal(t: &DataType) -> bool {
    matches!(t, DataType::Decimal128(_, _))
}

/// Any of the number types.
pub(crate) fn is_number(t: &DataType) -> bool {
    is_integer(t) || is_float(t) || is_decimal(t)
}

/// STRING, in any of Arrow's layouts.
pub(crate) fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The smallest decimal that holds every value of an integer type.
pub(crate) fn decimal_for(t: &DataType) -> Option<(u8, i8)> {
    match t {
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((20, 0)),
        DataType::Decimal128(p, s) => Some((*p, *s)),
        _ => None,
    }
}

/// The smallest decimal that holds one integer constant.
pub(crate) fn decimal_for_literal(expr: &Expr) -> Option<(u8, i8)> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    let digits = match value {
        ScalarValue::Int8(Some(v)) => i64::from(*v),
        ScalarValue::Int16(Some(v)) => i64::from(*v),
        ScalarValue::Int32(Some(v)) => i64::from(*v),
        ScalarValue::Int64(Some(v)) => *v,
        _ => return None,
    };
    Some((digits.unsigned_abs().to_string().len() as u8, 0))
}

/// Precision and scale cut to 38 digits, giving up fraction before whole digits, but not below 6 digits of fraction.
pub(crate) fn bounded_decimal(precision: i32, scale: i32) -> DataType {
    if precision <= 38 {
        return DataType::Decimal128(precision as u8, scale as i8);
    }
    let whole = precision - scale;
    let scale = (38 - whole).max(scale.min(6));
    DataType::Decimal128(38, scale as i8)
}

/// The decimal type that two decimals meet in (UNION, CASE, comparison).
fn wider_decimal((p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> DataType {
    let scale = s1.max(s2);
    let whole = (i32::from(p1) - i32::from(s1)).max(i32::from(p2) - i32::from(s2));
    let precision = whole + i32::from(scale);
    if precision > 38 {
        let scale = (38 - whole).max(0);
        return DataType::Decimal128(38, scale.min(38) as i8);
    }
    DataType::Decimal128(precision as u8, scale)
}

/// The common type of two types, or `None` if Spark has none.
pub(crate) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, Null, Utf8};
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (Null, t) | (t, Null) => Some(t.clone()),
        _ if is_text(a) && is_text(b) => Some(Utf8),
        _ if is_text(a) => text_with(b),
        _ if is_text(b) => text_with(a),
        _ if is_integer(a) && is_integer(b) => Some(wider_integer(a, b)),
        (Float32, Float64) | (Float64, Float32) => Some(Float64),
        _ if (is_float(a) && is_number(b)) || (is_number(a) && is_float(b)) => {
            Some(float_with(a, b))
        }
        (Decimal128(_, _), _) | (_, Decimal128(_, _)) => {
            Some(wider_decimal(decimal_for(a)?, decimal_for(b)?))
        }
        (Date32, DataType::Timestamp(_, _)) => Some(b.clone()),
        (DataType::Timestamp(_, _), Date32) => Some(a.clone()),
        (DataType::Timestamp(_, za), DataType::Timestamp(_, _)) => {
            Some(if za.is_some() { a.clone() } else { b.clone() })
        }
        (Binary, _) | (_, Binary) | (Boolean, _) | (_, Boolean) => None,
        _ => common_nested(a, b),
    }
}

fn wider_integer(a: &DataType, b: &DataType) -> DataType {
    let width = |t: &DataType| t.primitive_width().unwrap_or(0);
    if width(a) >= width(b) {
        a.clone()
    } else {
        b.clone()
    }
}

fn float_with(a: &DataType, b: &DataType) -> DataType {
    let small = |t: &DataType| matches!(t, DataType::Float32 | DataType::Int8 | DataType::Int16);
    if small(a) && small(b) {
        DataType::Float32
    } else {
        DataType::Float64
    }
}

/// What text turns into beside another type (ANSI: text follows the other side).
fn text_with(other: &DataType) -> Option<DataType> {
    match other {
        t if is_integer(t) => Some(DataType::Int64),
        t if is_number(t) => Some(DataType::Float64),
        DataType::Date32
        | DataType::Timestamp(_, _)
        | DataType::Boolean
        | DataType::Binary
        | DataType::Duration(_)
        | DataType::Interval(_) => Some(other.clone()),
        _ => None,
    }
}

fn common_nested(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::List(x), DataType::List(y)) => {
            Some(array_of(common_type(x.data_type(), y.data_type())?))
        }
        (DataType::Struct(x), DataType::Struct(y)) if x.len() == y.len() => {
            let fields = x.iter().zip(y.iter()).map(|(f, g)| {
                let t = common_type(f.data_type(), g.data_type())?;
                Some(Field::new(f.name(), t, true))
            });
            Some(DataType::Struct(fields.collect::<Option<Vec<_>>>()?.into()))
        }
        (DataType::Map(_, _), DataType::Map(_, _)) => {
            let ((ka, va), (kb, vb)) = (map_types(a)?, map_types(b)?);
            Some(map_of(common_type(&ka, &kb)?, common_type(&va, &vb)?))
        }
        _ => None,
    }
}

/// Key and value type of a map.
pub(crate) fn map_types(t: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entries, _) = t else {
        return None;
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return None;
    };
    Some((fields[0].data_type().clone(), fields[1].data_type().clone()))
}

/// Element type of an array.
pub(crate) fn element_type(t: &DataType) -> Option<DataType> {
    match t {
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => {
            Some(f.data_type().clone())
        }
        _ => None,
    }
}

/// The type all of `types` meet in; the error names `what`.
pub(crate) fn common_of(types: &[DataType], what: &str) -> Result<DataType> {
    let mut common = DataType::Null;
    for t in types {
        common = common_type(&common, t).ok_or_else(|| {
            mismatch(format!(
                "{what}: types {} have no common type",
                list_types(types)
            ))
        })?;
    }
    Ok(common)
}

/// Types in words, for messages.
pub(crate) fn list_types(types: &[DataType]) -> String {
    types
        .iter()
        .map(cast::type_text)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Whether two types are one: nullability and metadata aside, but with the names of struct fields.
pub(crate) fn same(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Struct(x), DataType::Struct(y)) => {
            x.len() == y.len()
                && x.iter()
                    .zip(y)
                    .all(|(f, g)| f.name() == g.name() && same(f.data_type(), g.data_type()))
        }
        (DataType::List(x), DataType::List(y)) => same(x.data_type(), y.data_type()),
        _ => a.equals_datatype(b),
    }
}

/// `expr` as `to`: unchanged if it is of that type, a constant if it is a simple constant, else an ANSI cast.
pub(crate) fn cast_to(expr: Expr, to: &DataType, schema: &dyn ExprSchema) -> Result<Expr> {
    let from = expr.get_type(schema)?;
    cast_from(expr, &from, to)
}

/// As [`cast_to`] when the type of `expr` is known.
pub(crate) fn cast_from(expr: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
    if same(from, to) {
        return Ok(expr);
    }
    if let Expr::Literal(value, meta) = &expr {
        if value.is_null() {
            return Ok(Expr::Literal(ScalarValue::try_from(to)?, meta.clone()));
        }
        if is_integer(from)
            && (is_number(to))
            && let Ok(v) = value.cast_to(to)
        {
            return Ok(Expr::Literal(v, None));
        }
    }
    cast::cast_expr(expr, from, to, false)
}
