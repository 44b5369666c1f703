//! `schema_of_json`: the type that a JSON text suggests, by Spark's rules.

use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, lit};
use serde_json::value::RawValue;

use super::Args;
use super::coerce::{array_of, bounded_decimal};
use super::error::{SparkError, mismatch};
use super::json_options::InferOptions;
use super::json_text::Entries;
use crate::types;

/// `schema_of_json(text[, options])` of a constant text.
pub(super) fn schema_of_json(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 2)?;
    let options = InferOptions::of(&args, 1)?;
    if args.types[0] == DataType::Null {
        return Err(SparkError::external(
            "DATATYPE_MISMATCH.UNEXPECTED_NULL",
            "schema_of_json: the text must not be null",
        ));
    }
    let sample = args.constant_text(0)?;
    let malformed = |e: serde_json::Error| {
        let message = format!("schema_of_json: '{sample}': {e}");
        SparkError::external("MALFORMED_RECORD_IN_PARSING", message)
    };
    let value: &RawValue = serde_json::from_str(&sample).map_err(malformed)?;
    let t = type_of(value.get(), options).map_err(malformed)?;
    let t = settled(t.unwrap_or(DataType::Null)).unwrap_or(DataType::Struct(Fields::empty()));
    Ok(lit(sql(&t)?))
}

/// The type in SQL, names in backticks where they need them.
fn sql(t: &DataType) -> Result<String> {
    let ddl = types::schema_ddl(&Schema::new(vec![Field::new("t", t.clone(), true)]));
    match ddl.strip_prefix("t ") {
        Some(text) => Ok(text.to_owned()),
        None => Err(mismatch(format!("{t} has no name"))),
    }
}

/// The type of a value; NULL for `null`.
fn type_of(text: &str, options: InferOptions) -> Result<Option<DataType>, serde_json::Error> {
    Ok(Some(match text.as_bytes().first() {
        Some(b'{') => {
            let entries: Entries<'_> = serde_json::from_str(text)?;
            let field = |(name, value): &(String, &RawValue)| {
                let t = type_of(value.get(), options)?.unwrap_or(DataType::Null);
                Ok(Field::new(name, t, true))
            };
            let fields = entries
                .0
                .iter()
                .map(field)
                .collect::<Result<Vec<_>, serde_json::Error>>();
            let mut fields = fields?;
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            DataType::Struct(fields.into())
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let mut element = DataType::Null;
            for item in items {
                let t = type_of(item.get(), options)?.unwrap_or(DataType::Null);
                element = merged(element, t);
            }
            array_of(element)
        }
        Some(b'n') => return Ok(None),
        Some(b'"') => DataType::Utf8,
        _ if options.primitives_as_string => DataType::Utf8,
        Some(b't' | b'f') => DataType::Boolean,
        _ => number(text, options),
    }))
}

fn number(text: &str, options: InferOptions) -> DataType {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scientific = digits.contains(['e', 'E']);
    if fraction.is_empty() && !scientific {
        return match text.parse::<i64>() {
            Ok(_) => DataType::Int64,
            Err(_) if digits.len() <= 38 => DataType::Decimal128(digits.len() as u8, 0),
            Err(_) => DataType::Float64,
        };
    }
    let significant = whole.trim_start_matches('0').len() + fraction.len();
    if options.prefers_decimal && !scientific && significant <= 38 {
        let precision = significant.max(fraction.len()).max(1);
        return DataType::Decimal128(precision as u8, fraction.len() as i8);
    }
    DataType::Float64
}

/// The type that holds values of both: the wider number, structs of all fields, else STRING.
fn merged(a: DataType, b: DataType) -> DataType {
    use DataType::{Decimal128, Float64, Int64, List, Null, Struct, Utf8};
    match (a, b) {
        (a, b) if a == b => a,
        (Null, t) | (t, Null) => t,
        (Int64 | Decimal128(_, _), Float64) | (Float64, Int64 | Decimal128(_, _)) => Float64,
        (Int64, Decimal128(p, s)) | (Decimal128(p, s), Int64) => wider((20, 0), (p, s)),
        (Decimal128(p, s), Decimal128(q, r)) => wider((p, s), (q, r)),
        (List(x), List(y)) => array_of(merged(x.data_type().clone(), y.data_type().clone())),
        (Struct(x), Struct(y)) => {
            let mut fields: Vec<Field> = x.iter().map(|f| f.as_ref().clone()).collect();
            for field in &y {
                match fields.iter_mut().find(|f| f.name() == field.name()) {
                    Some(known) => {
                        let t = merged(known.data_type().clone(), field.data_type().clone());
                        *known = Field::new(field.name(), t, true);
                    }
                    None => fields.push(field.as_ref().clone()),
                }
            }
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            Struct(fields.into())
        }
        _ => Utf8,
    }
}

/// The decimal that holds both, DOUBLE if it would need more than 38 digits.
fn wider((p, s): (u8, i8), (q, r): (u8, i8)) -> DataType {
    let scale = s.max(r);
    let whole = (i32::from(p) - i32::from(s)).max(i32::from(q) - i32::from(r));
    match whole + i32::from(scale) {
        precision @ ..=38 => bounded_decimal(precision, i32::from(scale)),
        _ => DataType::Float64,
    }
}

/// What nothing was seen of is STRING; structs without fields are left out, as Spark does.
fn settled(t: DataType) -> Option<DataType> {
    Some(match t {
        DataType::Null => DataType::Utf8,
        DataType::List(item) => array_of(settled(item.data_type().clone())?),
        DataType::Struct(fields) => {
            let kept = fields.iter().filter_map(|f| {
                let t = settled(f.data_type().clone())?;
                Some(Field::new(f.name(), t, true))
            });
            let kept: Fields = kept.collect();
            if kept.is_empty() {
                return None;
            }
            DataType::Struct(kept)
        }
        other => other,
    })
}
