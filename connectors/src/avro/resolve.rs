//! From what a writer wrote to what a reader wants: schema resolution, decided once for a pair of schemas.
//!
//! The rules are the specification's. Where it leaves room, nothing may change unseen: a timestamp keeps its instant when its unit
//! changes, and decimals that do not match are refused.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use serde_json::Value;

use super::defaults::default_value;
use super::schema::{Long, Shape, Symbols, Unit};
use super::types::{Naming, UnionForm, column_type, may_be_null, union_form};

/// How one value of the writer's schema becomes one of the reader's.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// No bytes; NULL of the type.
    Null(DataType),
    /// A scalar.
    Scalar(Scalar, DataType),
    /// An enum: for each of the writer's symbols what the reader calls it, `None` if it knows no such symbol.
    Enum(Vec<Option<String>>),
    /// An array of a type.
    Array(Box<Step>, DataType),
    /// A map from texts to a type.
    Map(Box<Step>, DataType),
    /// A record: the writer's fields in order, and where each of the reader's comes from.
    Record(Vec<Step>, Vec<Origin>, DataType),
    /// A union: the writer's branches; a branch that the reader cannot take says why.
    Union(Branches, DataType),
    /// A value that becomes one field of a struct of many types.
    Member(Box<Step>, usize, DataType),
    /// An array of numbers, cast to a wider one.
    Wider(Box<Step>, DataType),
}

/// The branches of a writer's union.
#[derive(Debug, Clone)]
pub(super) struct Branches {
    /// What becomes of each.
    pub(super) steps: Vec<Result<Step, String>>,
    /// The position of `null` in a union of it and one other type.
    pub(super) folded: Option<usize>,
}

/// How the bytes of a scalar are laid out, and what they have to satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    /// One byte, 0 or 1.
    Boolean,
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// A 64-bit number of milliseconds that will be microseconds.
    Millis,
    /// Four bytes.
    Float,
    /// Eight bytes.
    Double,
    /// Any bytes.
    Bytes,
    /// Bytes that are UTF-8.
    Text,
    /// So many bytes.
    Fixed(usize),
    /// A big-endian number of at most so many digits in so many bytes, in as many as it says if that is `None`.
    Decimal(u8, Option<usize>),
}

/// Where a field of the reader's record comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// The writer's field at a position.
    Field(usize),
    /// The reader's default, an array of one value.
    Default(ArrayRef),
}

/// How data of the schema `writer` is read as `reader`.
///
/// # Errors
/// Where the reader's schema cannot take what the writer's describes.
pub(super) fn resolve(writer: &Shape, reader: &Shape, naming: &Naming) -> Result<Step, String> {
    if let Shape::Union(branches) = writer {
        let steps: Vec<_> = branches
            .iter()
            .map(|b| resolve(b, reader, naming))
            .collect();
        if let (true, Some(Err(why))) = (steps.iter().all(Result::is_err), steps.last()) {
            return Err(why.clone());
        }
        let folded = branches.iter().position(|b| **b == Shape::Null);
        let folded = folded.filter(|_| branches.len() == 2);
        let branches = Branches { steps, folded };
        return Ok(Step::Union(branches, column_type(reader, naming)));
    }
    if let Shape::Union(branches) = reader {
        return into_union(writer, branches, reader, naming);
    }
    let t = column_type(reader, naming);
    if let Some(scalar) = scalar(writer, reader) {
        return Ok(Step::Scalar(scalar?, t));
    }
    Ok(match (writer, reader) {
        (Shape::Null, Shape::Null) => Step::Null(t),
        (Shape::Enum(w), Shape::Enum(r)) if r.name.takes(&w.name) => Step::Enum(known(w, r)),
        (Shape::Array(w), Shape::Array(r)) => Step::Array(Box::new(resolve(w, r, naming)?), t),
        (Shape::Map(w), Shape::Map(r)) => Step::Map(Box::new(resolve(w, r, naming)?), t),
        (Shape::Record(w, _), Shape::Record(r, _)) if r.takes(w) => {
            record(writer, reader, naming, t)?
        }
        _ => return Err(cannot(writer, reader)),
    })
}

fn cannot(writer: &Shape, reader: &Shape) -> String {
    format!(
        "data written as {} cannot be read as {}",
        writer.shown(),
        reader.shown()
    )
}

/// The layout of a scalar, if both are scalars that go together; an error if they look so and do not.
fn scalar(writer: &Shape, reader: &Shape) -> Option<Result<Scalar, String>> {
    use Shape::{Boolean, Bytes, Date, Decimal, Double, Fixed, Float, Int, Text};
    Some(Ok(match (writer, reader) {
        (Boolean, Boolean) => Scalar::Boolean,
        (Int | Date, Int | Date | Shape::Long(Long::Plain) | Float | Double) => Scalar::Int,
        (Shape::Long(w), Shape::Long(r)) => long(*w, *r),
        (Shape::Long(_), Float | Double) => Scalar::Long,
        (Float, Float | Double) => Scalar::Float,
        (Double, Double) => Scalar::Double,
        (Bytes | Text, Text) | (Text, Bytes) => Scalar::Text,
        (Bytes | Decimal(_, _, None), Bytes) => Scalar::Bytes,
        (Bytes, Decimal(p, _, None)) => Scalar::Decimal(*p, None),
        (Fixed(w, n) | Decimal(_, _, Some((w, n))), Fixed(r, m)) if r.takes(w) && n == m => {
            Scalar::Fixed(*n)
        }
        (Fixed(w, n), Decimal(p, _, Some((r, m)))) if r.takes(w) && n == m => {
            Scalar::Decimal(*p, Some(*n))
        }
        (Decimal(_, ws, w), Decimal(p, rs, r)) => match (w, r) {
            _ if ws != rs => {
                let message =
                    format!("a decimal of scale {ws} cannot be read as one of scale {rs}");
                return Some(Err(message));
            }
            (None, None) => Scalar::Decimal(*p, None),
            (Some((w, n)), Some((r, m))) if r.takes(w) && n == m => Scalar::Decimal(*p, Some(*n)),
            _ => return None,
        },
        _ => return None,
    }))
}

/// A `long` read as a `long`: the unit is the writer's where it says one.
fn long(writer: Long, reader: Long) -> Scalar {
    let unit = match (writer, reader) {
        (_, Long::Plain) => return Scalar::Long,
        (Long::Timestamp(unit) | Long::Local(unit), _) => unit,
        (Long::Plain, Long::Timestamp(unit) | Long::Local(unit)) => unit,
    };
    match unit {
        Unit::Millis => Scalar::Millis,
        Unit::Micros => Scalar::Long,
    }
}

fn known(writer: &Symbols, reader: &Symbols) -> Vec<Option<String>> {
    let find = |s: &String| {
        let found = reader.symbols.iter().find(|r| *r == s);
        found.or(reader.default.as_ref()).cloned()
    };
    writer.symbols.iter().map(find).collect()
}

fn record(writer: &Shape, reader: &Shape, naming: &Naming, t: DataType) -> Result<Step, String> {
    let (Shape::Record(_, written), Shape::Record(name, wanted)) = (writer, reader) else {
        return Err(cannot(writer, reader));
    };
    let mut steps: Vec<Option<Step>> = written.iter().map(|_| None).collect();
    let mut origins = Vec::with_capacity(wanted.len());
    for field in wanted {
        let named = |name: &String| written.iter().position(|w| w.name == *name);
        let found = named(&field.name).or_else(|| field.aliases.iter().find_map(named));
        let within = |e: String| format!("field {}.{}: {e}", name.full, field.name);
        origins.push(match found.filter(|at| steps[*at].is_none()) {
            Some(at) => {
                let step = resolve(&written[at].shape, &field.shape, naming).map_err(within)?;
                steps[at] = Some(step);
                Origin::Field(at)
            }
            None => Origin::Default(
                missing(field.default.as_ref(), &field.shape, naming).map_err(within)?,
            ),
        });
    }
    let unread = |(step, field): (Option<Step>, &super::schema::Field)| match step {
        Some(step) => Ok(step),
        None => resolve(&field.shape, &field.shape, naming),
    };
    let steps = steps
        .into_iter()
        .zip(written)
        .map(unread)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Step::Record(steps, origins, t))
}

/// The value of a field that the writer did not have.
fn missing(default: Option<&Value>, shape: &Shape, naming: &Naming) -> Result<ArrayRef, String> {
    match default {
        Some(json) => default_value(json, shape, naming),
        None => Err("the data has no such field and the reader's schema no default for it".into()),
    }
}

/// A value that is no union read as a union: as the branch of its own type, else the first that takes it.
fn into_union(
    writer: &Shape,
    branches: &[Arc<Shape>],
    reader: &Shape,
    naming: &Naming,
) -> Result<Step, String> {
    let same = |b: &&Arc<Shape>| {
        b.word() == writer.word() && b.name().map(|n| &n.full) == writer.name().map(|n| &n.full)
    };
    let candidates = branches.iter().filter(same).chain(branches.iter());
    let found = candidates.into_iter().find_map(|branch| {
        let step = resolve(writer, branch, naming).ok()?;
        let at = branches.iter().position(|b| Arc::ptr_eq(b, branch))?;
        Some((step, at))
    });
    let (step, at) = found.ok_or_else(|| cannot(writer, reader))?;
    branch_into(step, at, branches, reader, naming)
}

/// The value of branch `at` as the column that the union becomes.
pub(super) fn branch_into(
    step: Step,
    at: usize,
    branches: &[Arc<Shape>],
    reader: &Shape,
    naming: &Naming,
) -> Result<Step, String> {
    let t = column_type(reader, naming);
    if *branches[at] == Shape::Null {
        return Ok(Step::Null(t));
    }
    Ok(match union_form(branches) {
        UnionForm::Nothing => Step::Null(t),
        UnionForm::One(_) => step,
        UnionForm::Wider(wide) => Step::Wider(Box::new(step), wide),
        UnionForm::Members(members) => {
            let member = members.iter().position(|m| *m == at);
            let member = member.ok_or_else(|| format!("branch {at} is no member"))?;
            Step::Member(Box::new(step), member, t)
        }
    })
}

/// An array of one NULL, for a default of `null`.
pub(super) fn one_null(shape: &Shape, naming: &Naming) -> Result<ArrayRef, String> {
    if !may_be_null(shape) {
        return Err(format!("the default null is no {}", shape.shown()));
    }
    Ok(new_null_array(&column_type(shape, naming), 1))
}
