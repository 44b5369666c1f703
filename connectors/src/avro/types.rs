//! Which column type an Avro type becomes, by Spark's rules.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, TimeUnit};

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
pub struct Naming {
    /// Fields of unions get names by type with this prefix instead of by position.
    pub stable_prefix: Option<String>,
    /// Every field may be NULL, as bad payloads need it.
    pub all_nullable: bool,
}

impl Naming {
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

/// Whether all unions in a type are of `null` and one other.
pub fn is_plain(shape: &Shape) -> bool {
    match shape {
        Shape::Array(inner) | Shape::Map(inner) => is_plain(inner),
        Shape::Record(_, fields) => fields.iter().all(|field| is_plain(&field.shape)),
        Shape::Union(branches) => {
            matches!(union_form(branches), UnionForm::Nothing | UnionForm::One(_))
                && branches.iter().all(|branch| is_plain(branch))
        }
        _ => true,
    }
}

/// The column type of an Avro type.
pub fn column_type(shape: &Shape, naming: &Naming) -> DataType {
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

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn timestamp_ntz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}
