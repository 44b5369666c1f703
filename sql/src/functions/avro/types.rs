//! Which column type an Avro type becomes, by Spark's rules, and which Avro type a column is written as.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, TimeUnit};
use serde_json::{Value, json};

use super::super::coerce::{timestamp, timestamp_ntz};
use super::super::payload::Mode;
use super::schema::{Long, Shape};

/// What a union becomes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UnionForm {
    /// Nothing but NULL.
    Nothing,
    /// The one type beside `null`.
    One(usize),
    /// A number that holds all branches: int and long, float and double.
    Wider(DataType),
    /// A struct of one field for each branch that is not `null`: their positions in the union, in order.
    Members(Vec<usize>),
}

/// What is to be decided about column types beyond the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Naming {
    /// Fields of unions get names by type with this prefix instead of by position.
    pub(super) stable_prefix: Option<String>,
    /// Every field may be NULL, as bad payloads need it.
    pub(super) all_nullable: bool,
}

impl Naming {
    /// The same for payloads that are read in `mode`.
    pub(super) fn with_mode(self, mode: Mode) -> Self {
        Self {
            all_nullable: mode == Mode::Permissive,
            ..self
        }
    }

    /// The name of the field for branch `at` (of those not `null`).
    fn member(&self, at: usize, shape: &Shape) -> String {
        match &self.stable_prefix {
            None => format!("member{at}"),
            Some(prefix) => {
                let word = shape.name().map_or(shape.word(), |n| n.short());
                format!("{prefix}{}", word.to_lowercase())
            }
        }
    }
}

/// The form of a union.
pub(super) fn union_form(branches: &[Arc<Shape>]) -> UnionForm {
    let at: Vec<usize> = (0..branches.len())
        .filter(|i| *branches[*i] != Shape::Null)
        .collect();
    let plain = |i: &usize, shapes: [&Shape; 2]| shapes.contains(&branches[*i].as_ref());
    let (int, long) = (Shape::Int, Shape::Long(Long::Plain));
    match at.as_slice() {
        [] => UnionForm::Nothing,
        [one] => UnionForm::One(*one),
        [a, b] if [a, b].iter().all(|i| plain(i, [&int, &long])) => {
            UnionForm::Wider(DataType::Int64)
        }
        [a, b]
            if [a, b]
                .iter()
                .all(|i| plain(i, [&Shape::Float, &Shape::Double])) =>
        {
            UnionForm::Wider(DataType::Float64)
        }
        _ => UnionForm::Members(at),
    }
}

/// Whether a value of the type may be NULL.
pub(super) fn may_be_null(shape: &Shape) -> bool {
    match shape {
        Shape::Null => true,
        Shape::Union(branches) => branches.iter().any(|b| **b == Shape::Null),
        _ => false,
    }
}

/// The column type of an Avro type.
pub(super) fn column_type(shape: &Shape, naming: &Naming) -> DataType {
    let named = |name: &str, shape: &Shape| {
        let nullable = naming.all_nullable || may_be_null(shape);
        ArrowField::new(name, column_type(shape, naming), nullable)
    };
    match shape {
        Shape::Null => DataType::Null,
        Shape::Boolean => DataType::Boolean,
        Shape::Int => DataType::Int32,
        Shape::Date => DataType::Date32,
        Shape::Long(Long::Plain) => DataType::Int64,
        Shape::Long(Long::Timestamp(_)) => timestamp(),
        Shape::Long(Long::Local(_)) => timestamp_ntz(),
        Shape::Float => DataType::Float32,
        Shape::Double => DataType::Float64,
        Shape::Bytes | Shape::Fixed(_, _) => DataType::Binary,
        Shape::Text | Shape::Enum(_) => DataType::Utf8,
        Shape::Decimal(p, s, _) => DataType::Decimal128(*p, *s),
        Shape::Array(items) => {
            DataType::List(Arc::new(named(ArrowField::LIST_FIELD_DEFAULT_NAME, items)))
        }
        Shape::Map(values) => {
            let key = ArrowField::new("key", DataType::Utf8, false);
            let entries = DataType::Struct(vec![key, named("value", values)].into());
            DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false)
        }
        Shape::Record(_, fields) => {
            let fields = fields.iter().map(|f| named(&f.name, &f.shape));
            DataType::Struct(fields.collect())
        }
        Shape::Union(branches) => match union_form(branches) {
            UnionForm::Nothing => DataType::Null,
            UnionForm::One(at) => column_type(&branches[at], naming),
            UnionForm::Wider(t) => t,
            UnionForm::Members(at) => DataType::Struct(member_fields(branches, &at, naming)),
        },
    }
}

/// The fields of a union that becomes a struct.
fn member_fields(branches: &[Arc<Shape>], at: &[usize], naming: &Naming) -> Fields {
    let member = |(i, at): (usize, &usize)| {
        let shape = &branches[*at];
        ArrowField::new(naming.member(i, shape), column_type(shape, naming), true)
    };
    at.iter().enumerate().map(member).collect()
}

/// The Avro schema a column is written as if none is given: Spark's, with its record names.
///
/// # Errors
/// A type that Avro has no form for, in words.
pub(super) fn schema_of(t: &DataType, nullable: bool) -> Result<Value, String> {
    written(t, nullable, "topLevelRecord", "")
}

fn written(t: &DataType, nullable: bool, record: &str, space: &str) -> Result<Value, String> {
    let inner = |f: &ArrowField| written(f.data_type(), f.is_nullable(), record, space);
    let json = match t {
        DataType::Null => return Ok(json!("null")),
        DataType::Boolean => json!("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => json!("int"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 => json!("string"),
        DataType::Binary => json!("bytes"),
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            json!({"type": "long", "logicalType": "timestamp-micros"})
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            json!({"type": "long", "logicalType": "local-timestamp-micros"})
        }
        DataType::Decimal128(p, s) if *s >= 0 => {
            let name = format!("{}.fixed", within(space, record));
            json!({"type": "fixed", "name": name, "size": decimal_bytes(*p), "logicalType": "decimal",
                "precision": p, "scale": s})
        }
        DataType::List(item) => json!({"type": "array", "items": inner(item)?}),
        DataType::Map(entries, _) => {
            let DataType::Struct(parts) = entries.data_type() else {
                return Err(format!("{t} is no map"));
            };
            if parts[0].data_type() != &DataType::Utf8 {
                return Err("Avro has maps with STRING keys only".into());
            }
            json!({"type": "map", "values": inner(&parts[1])?})
        }
        DataType::Struct(fields) => {
            let below = within(space, record);
            let fields = fields.iter().map(|f| {
                if !is_name(f.name()) {
                    return Err(format!("'{}' is no name that Avro allows", f.name()));
                }
                let inner = written(f.data_type(), f.is_nullable(), f.name(), &below)?;
                Ok(json!({"name": f.name(), "type": inner}))
            });
            let fields = fields.collect::<Result<Vec<_>, String>>()?;
            let mut json = json!({"type": "record", "name": record, "fields": fields});
            if !space.is_empty() {
                json["namespace"] = json!(space);
            }
            json
        }
        other => {
            return Err(format!(
                "Avro has no form for {}",
                crate::types::type_name(other)
            ));
        }
    };
    Ok(if nullable {
        json!([json, "null"])
    } else {
        json
    })
}

fn within(space: &str, name: &str) -> String {
    if space.is_empty() {
        name.to_owned()
    } else {
        format!("{space}.{name}")
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How many bytes hold every decimal of so many digits.
fn decimal_bytes(precision: u8) -> usize {
    let largest = 10_i128.pow(u32::from(precision)) - 1;
    let bits = 129 - largest.leading_zeros() as usize;
    bits.div_ceil(8)
}
