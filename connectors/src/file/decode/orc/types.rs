//! The types of an ORC file: are they in order, what do they become, and what has to be done to what the library makes of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use orc_rust::proto::Type;
use orc_rust::proto::r#type::Kind;
use orc_rust::schema::DataType as OrcType;

use super::problem::{Problem, Result, damage};
use crate::file::decode::adapt;

/// Deepest type. Nobody nests as deep, and what is read here is read by functions that call themselves.
const MAX_DEPTH: usize = 64;
/// Most variants of a union that the library reads.
const MAX_VARIANTS: usize = 127;
/// The attribute in which Spark says which of its types a column is of.
const SPARK_TYPE: &str = "spark.sql.catalyst.type";

/// Types form a tree in the order of their numbers, with a struct at its root.
pub(super) fn check(types: &[Type]) -> Result<()> {
    let mut depths: Vec<Option<usize>> = vec![None; types.len()];
    match depths.first_mut() {
        Some(root) if types[0].kind() == Kind::Struct => *root = Some(0),
        _ => return damage("its rows are no structs"),
    }
    for (column, t) in types.iter().enumerate() {
        check_one(column, t)?;
        let Some(depth) = depths[column] else {
            return damage(format!("type {column} belongs to nothing"));
        };
        if depth > MAX_DEPTH {
            let reason = format!("its types are nested deeper than {MAX_DEPTH}");
            return Err(Problem::Unreadable(reason));
        }
        for child in &t.subtypes {
            let child = *child as usize;
            match depths.get_mut(child) {
                Some(place) if child > column && place.is_none() => *place = Some(depth + 1),
                _ => return damage(format!("type {column} has type {child} inside")),
            }
        }
    }
    Ok(())
}

fn check_one(column: usize, t: &Type) -> Result<()> {
    let Ok(kind) = Kind::try_from(t.kind.unwrap_or_default()) else {
        return damage(format!("type {column} is of no known kind"));
    };
    let inside = t.subtypes.len();
    let fits = match kind {
        Kind::Struct => inside == t.field_names.len(),
        Kind::List => inside == 1,
        Kind::Map => inside == 2,
        Kind::Union => (1..=MAX_VARIANTS).contains(&inside),
        Kind::Decimal => {
            inside == 0 && (1..=38).contains(&t.precision()) && t.scale() <= t.precision()
        }
        _ => inside == 0,
    };
    match fits {
        true => Ok(()),
        false => damage(format!("type {column}, {kind:?}, is not what it can be")),
    }
}

/// A type as the library gets to see it: of times it reads the seconds.
pub(super) fn for_library(t: &Type) -> Type {
    match t.kind() {
        Kind::Timestamp | Kind::TimestampInstant => Type {
            kind: Some(Kind::Long.into()),
            ..Type::default()
        },
        _ => t.clone(),
    }
}

/// What a time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// `timestamp` read as TIMESTAMP: a wall clock of the writer, which is one of the session.
    OfSession,
    /// `timestamp` read as TIMESTAMP_NTZ: a wall clock of the writer.
    Wall,
    /// `timestamp with local time zone`: an instant.
    Instant,
}

impl Moment {
    pub(super) fn data_type(self) -> DataType {
        let zone = match self {
            Self::OfSession | Self::Instant => Some("UTC".into()),
            Self::Wall => None,
        };
        DataType::Timestamp(TimeUnit::Microsecond, zone)
    }

    fn of(t: &Type, wanted: Option<&DataType>) -> Option<Self> {
        match t.kind() {
            Kind::TimestampInstant => Some(Self::Instant),
            // What Spark wrote as TIMESTAMP is none without a zone; others do not tell.
            Kind::Timestamp => Some(match (spark_type(t), wanted) {
                (None, Some(DataType::Timestamp(_, None))) => Self::Wall,
                _ => Self::OfSession,
            }),
            _ => None,
        }
    }
}

fn spark_type(t: &Type) -> Option<&str> {
    let mut attributes = t.attributes.iter();
    attributes
        .find(|attribute| attribute.key() == SPARK_TYPE)
        .map(|attribute| attribute.value())
}

/// Spark writes TIMESTAMP_NTZ as its microseconds.
fn is_spark_clock(t: &Type, wanted: Option<&DataType>) -> bool {
    t.kind() == Kind::Long
        && spark_type(t) == Some("timestamp_ntz")
        && wanted != Some(&DataType::Int64)
}

/// What has to be done to a column that the library decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing.
    Same,
    /// Days, perhaps of another calendar.
    Days,
    /// Microseconds of a wall clock.
    Clock,
    /// Seconds, whose fractions are in a stream of this column.
    Moment(u32, Moment),
    /// A way for each field.
    Struct(Vec<Way>),
    /// What is in a list.
    List(Box<Way>),
    /// Keys and values of a map.
    Map(Box<Way>, Box<Way>),
}

/// The type that a column of the file has then, and the way there. `wanted` is the type it is to be read as, as far as is known.
pub(super) fn plan(found: &OrcType, types: &[Type], wanted: Option<&DataType>) -> (DataType, Way) {
    let column = found.column_index();
    let t = &types[column];
    if let Some(moment) = Moment::of(t, wanted) {
        let number = u32::try_from(column).unwrap_or(u32::MAX);
        return (moment.data_type(), Way::Moment(number, moment));
    }
    if is_spark_clock(t, wanted) {
        return (Moment::Wall.data_type(), Way::Clock);
    }
    match (found, found.to_arrow_data_type()) {
        (OrcType::Date { .. }, decoded) => (decoded, Way::Days),
        (OrcType::Struct { children, .. }, DataType::Struct(decoded)) => {
            let wanted = wanted_of(&decoded, wanted);
            let planned = children
                .iter()
                .zip(wanted)
                .map(|(child, wanted)| plan(child.data_type(), types, wanted));
            let (fields, ways): (Vec<FieldRef>, Vec<Way>) = decoded
                .iter()
                .zip(planned)
                .map(|(field, (found, way))| (retyped(field, found), way))
                .unzip();
            (DataType::Struct(fields.into()), Way::Struct(ways))
        }
        (OrcType::List { child, .. }, DataType::List(decoded)) => {
            let wanted = match wanted {
                Some(DataType::List(item)) => Some(item.data_type()),
                _ => None,
            };
            let (found, way) = plan(child, types, wanted);
            (
                DataType::List(retyped(&decoded, found)),
                Way::List(Box::new(way)),
            )
        }
        (OrcType::Map { key, value, .. }, DataType::Map(..)) => {
            let (wanted_key, wanted_value) = match wanted {
                Some(DataType::Map(entries, _)) => match entries.data_type() {
                    DataType::Struct(fields) if fields.len() == 2 => {
                        (Some(fields[0].data_type()), Some(fields[1].data_type()))
                    }
                    _ => (None, None),
                },
                _ => (None, None),
            };
            let (key, key_way) = plan(key, types, wanted_key);
            let (value, value_way) = plan(value, types, wanted_value);
            let way = Way::Map(Box::new(key_way), Box::new(value_way));
            (map_of(key, value), way)
        }
        (_, decoded) => (decoded, Way::Same),
    }
}

/// For each field of a file the type that the schema wants it as.
pub(super) fn wanted_of<'a>(
    fields: &Fields,
    wanted: Option<&'a DataType>,
) -> Vec<Option<&'a DataType>> {
    let mut types = vec![None; fields.len()];
    if let Some(DataType::Struct(wanted)) = wanted {
        for field in wanted {
            if let Some(place) = adapt::place_of(fields, field.name()) {
                types[place] = Some(field.data_type());
            }
        }
    }
    types
}

/// The column type of a table whose columns are looked up in its files.
pub(super) fn column(name: &str, found: &OrcType, types: &[Type]) -> Result<Field> {
    let (data_type, _) = plan(found, types, None);
    if has_union(found) {
        return Err(Problem::Unreadable(format!(
            "column '{name}' has a UNION in it, which no column type can hold: give a schema without it"
        )));
    }
    Ok(Field::new(name, data_type, true))
}

fn has_union(found: &OrcType) -> bool {
    match found {
        OrcType::Union { .. } => true,
        OrcType::Struct { children, .. } => {
            children.iter().any(|child| has_union(child.data_type()))
        }
        OrcType::List { child, .. } => has_union(child),
        OrcType::Map { key, value, .. } => has_union(key) || has_union(value),
        _ => false,
    }
}

fn retyped(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn map_of(key: DataType, value: DataType) -> DataType {
    let fields = vec![
        Field::new("key", key, false),
        Field::new("value", value, true),
    ];
    let entries = DataType::Struct(fields.into());
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}
