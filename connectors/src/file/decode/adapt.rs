//! From the type a column has in a file to the type it has in the schema, where that changes no value.
//!
//! Allowed, at any depth:
//! - a whole number to a wider one, to DOUBLE from 32 bits down, to a DECIMAL with room for it;
//! - FLOAT to DOUBLE; a DECIMAL to one with at least as many digits on both sides of the point;
//! - a timestamp of any unit to microseconds (digits beyond are cut, towards the past); one without zone to TIMESTAMP, as
//!   UTC, but not the other way round; DATE to TIMESTAMP_NTZ;
//! - any layout of text or bytes to any other; bytes to text if they are UTF-8;
//! - structs by the names of their fields, lists and maps by what is in them.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::types::{TimestampMicrosecondType, TimestampNanosecondType};
use arrow::array::{
    Array, ArrayRef, ListArray, MapArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;

use super::DecodeError;

/// The columns of one file on their way to a schema.
pub(super) struct Columns {
    schema: SchemaRef,
    /// For each column of the schema: its place among those read and the way to its type; None for one the file lacks.
    places: Vec<Option<(usize, Adapt)>>,
}

impl Columns {
    /// The way from the columns `found` in a file to those of `schema`, by name.
    ///
    /// # Errors
    /// Names file and column: no way from one type to the other, or a name that fits several columns.
    pub(super) fn plan(
        found: &Schema,
        schema: &SchemaRef,
        file: &Arc<str>,
    ) -> Result<Self, DecodeError> {
        let place = |field: &FieldRef| {
            let Some(place) = find(found.fields(), field.name())? else {
                return Ok(None);
            };
            let adapt = Adapt::plan(found.field(place).data_type(), field.data_type())?;
            Ok(Some((place, adapt)))
        };
        let mut places = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            places.push(place(field).map_err(|p: Problem| p.into_error(file, field.name()))?);
        }
        Ok(Self {
            schema: Arc::clone(schema),
            places,
        })
    }

    /// Says that of the file's columns only those that are wanted will come, in the order of the file; answers their places.
    pub(super) fn keep_used(&mut self) -> Vec<usize> {
        let mut used: Vec<usize> = self
            .places
            .iter()
            .flatten()
            .map(|(place, _)| *place)
            .collect();
        used.sort_unstable();
        used.dedup();
        for (place, _) in self.places.iter_mut().flatten() {
            *place = used.partition_point(|root| root < place);
        }
        used
    }

    /// The rows with the columns of the schema.
    ///
    /// # Errors
    /// A value that does not fit, with file and column.
    pub(super) fn adapt(
        &self,
        batch: &RecordBatch,
        file: &Arc<str>,
    ) -> Result<RecordBatch, DecodeError> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.places.len());
        for (field, place) in self.schema.fields().iter().zip(&self.places) {
            columns.push(match place {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some((place, adapt)) => adapt
                    .apply(batch.column(*place), field.data_type())
                    .map_err(|source| DecodeError::ColumnValue {
                        file: Arc::clone(file),
                        column: field.name().clone(),
                        source,
                    })?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(
            |source| DecodeError::Batch {
                file: Arc::clone(file),
                source,
            },
        )
    }
}

/// The way of one column.
#[derive(Debug, Clone, PartialEq)]
enum Adapt {
    /// It has the right type.
    Same,
    /// The file has only NULL.
    Null,
    /// Arrow's cast does it.
    Cast,
    /// Nanoseconds to microseconds.
    Nanos,
    /// For each field wanted its place in the struct of the file, None where the file lacks it.
    Struct(Vec<Option<(usize, Adapt)>>),
    /// What is in a list.
    List(Box<Adapt>),
    /// Keys and values of a map.
    Map(Box<Adapt>, Box<Adapt>),
}

/// Why a column cannot be read; paths are relative to the column.
enum Problem {
    /// No way from one type to the other.
    Type {
        path: Vec<String>,
        found: DataType,
        wanted: DataType,
    },
    /// A name fits several columns.
    Ambiguous {
        path: Vec<String>,
        candidates: Vec<String>,
    },
}

impl Problem {
    fn within(mut self, name: &str) -> Self {
        let (Self::Type { path, .. } | Self::Ambiguous { path, .. }) = &mut self;
        path.insert(0, name.to_owned());
        self
    }

    /// The error for column `name` of a file.
    fn into_error(self, file: &Arc<str>, name: &str) -> DecodeError {
        let full = |path: &[String]| {
            let names = std::iter::once(name).chain(path.iter().map(String::as_str));
            names.collect::<Vec<_>>().join(".")
        };
        match self {
            Self::Type {
                path,
                found,
                wanted,
            } => DecodeError::ColumnType {
                file: Arc::clone(file),
                column: full(&path),
                found: found.to_string(),
                wanted: wanted.to_string(),
                hint: "only types that hold every value of the file's type are allowed; declare that type and cast",
            },
            Self::Ambiguous { path, candidates } => DecodeError::AmbiguousColumn {
                file: Arc::clone(file),
                column: full(&path),
                candidates: candidates.join(", "),
            },
        }
    }
}

/// The place of the field called `name`: spelt the same, or else the only one that differs in letter case, as in Spark.
fn find(fields: &Fields, name: &str) -> Result<Option<usize>, Problem> {
    if let Some(exact) = fields.iter().position(|field| field.name() == name) {
        return Ok(Some(exact));
    }
    let lower = name.to_lowercase();
    let places: Vec<usize> = (0..fields.len())
        .filter(|place| fields[*place].name().to_lowercase() == lower)
        .collect();
    match places[..] {
        [] => Ok(None),
        [place] => Ok(Some(place)),
        _ => Err(Problem::Ambiguous {
            path: Vec::new(),
            candidates: places
                .iter()
                .map(|place| fields[*place].name().clone())
                .collect(),
        }),
    }
}

/// The place of the one field that a column called `name` is read from.
#[cfg(feature = "orc")]
pub(super) fn place_of(fields: &Fields, name: &str) -> Option<usize> {
    find(fields, name).ok().flatten()
}

impl Adapt {
    /// The way from `found`, the type in the file, to `wanted`.
    fn plan(found: &DataType, wanted: &DataType) -> Result<Self, Problem> {
        use DataType as T;
        if found == wanted {
            return Ok(Self::Same);
        }
        match (found, wanted) {
            (T::Null, _) => Ok(Self::Null),
            (T::Struct(found), T::Struct(wanted)) => plan_struct(found, wanted),
            (
                T::List(found) | T::LargeList(found) | T::FixedSizeList(found, _),
                T::List(wanted),
            ) => {
                let item = Self::plan(found.data_type(), wanted.data_type())
                    .map_err(|problem| problem.within("element"))?;
                Ok(Self::List(Box::new(item)))
            }
            (T::Map(found, _), T::Map(wanted, _)) => plan_map(found, wanted)
                .unwrap_or_else(|| Err(no_way(found.data_type(), wanted.data_type()))),
            _ => scalar(found, wanted).ok_or_else(|| no_way(found, wanted)),
        }
    }

    /// Brings `array` to the type `wanted`, the one it was planned for.
    fn apply(&self, array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
        match (self, wanted) {
            (Self::Same, _) => Ok(Arc::clone(array)),
            (Self::Null, _) => Ok(new_null_array(wanted, array.len())),
            (Self::Nanos, _) => cut_nanos(array, wanted),
            (Self::Struct(places), DataType::Struct(fields)) => {
                apply_struct(places, array.as_struct(), fields)
            }
            (Self::List(item), DataType::List(field)) => apply_list(item, array, field),
            (Self::Map(key, value), DataType::Map(entries, sorted)) => {
                apply_map(key, value, array.as_map(), entries, *sorted)
            }
            _ => strict_cast(array, wanted),
        }
    }
}

fn no_way(found: &DataType, wanted: &DataType) -> Problem {
    Problem::Type {
        path: Vec::new(),
        found: found.clone(),
        wanted: wanted.clone(),
    }
}

fn plan_struct(found: &Fields, wanted: &Fields) -> Result<Adapt, Problem> {
    let mut places = Vec::with_capacity(wanted.len());
    for field in wanted {
        let within = |problem: Problem| problem.within(field.name());
        places.push(match find(found, field.name()).map_err(within)? {
            None => None,
            Some(place) => {
                let adapt =
                    Adapt::plan(found[place].data_type(), field.data_type()).map_err(within)?;
                Some((place, adapt))
            }
        });
    }
    Ok(Adapt::Struct(places))
}

/// None if the entries are not structs of two.
fn plan_map(found: &Field, wanted: &Field) -> Option<Result<Adapt, Problem>> {
    let (DataType::Struct(found), DataType::Struct(wanted)) =
        (found.data_type(), wanted.data_type())
    else {
        return None;
    };
    let ([found_key, found_value], [key, value]) = (&found[..], &wanted[..]) else {
        return None;
    };
    let plan = |found: &Field, wanted: &Field, name| {
        Adapt::plan(found.data_type(), wanted.data_type()).map_err(|p| p.within(name))
    };
    Some(plan(found_key, key, "key").and_then(|key| {
        let value = plan(found_value, value, "value")?;
        Ok(Adapt::Map(Box::new(key), Box::new(value)))
    }))
}

fn scalar(found: &DataType, wanted: &DataType) -> Option<Adapt> {
    use DataType as T;
    if let T::Dictionary(_, values) = found {
        // Nanoseconds in a dictionary are not worth a way of their own.
        return match Adapt::plan(values, wanted) {
            Ok(Adapt::Same | Adapt::Cast) => Some(Adapt::Cast),
            _ => None,
        };
    }
    let is_text = |t: &T| matches!(t, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let is_bytes = |t: &T| matches!(t, T::Binary | T::LargeBinary | T::BinaryView) || is_text(t);
    let fits = match (found, wanted) {
        (T::Timestamp(TimeUnit::Nanosecond, zone), T::Timestamp(TimeUnit::Microsecond, to)) => {
            return (zone.is_none() || to.is_some()).then_some(Adapt::Nanos);
        }
        (T::Timestamp(_, zone), T::Timestamp(TimeUnit::Microsecond, to)) => {
            zone.is_none() || to.is_some()
        }
        (T::Date32, T::Timestamp(TimeUnit::Microsecond, None)) | (T::Date64, T::Date32) => true,
        (T::Float16, T::Float32) | (T::Float16 | T::Float32, T::Float64) => true,
        (T::FixedSizeBinary(_), T::Binary | T::LargeBinary | T::BinaryView) => true,
        (_, T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView) => {
            is_bytes(found)
        }
        _ => fits_number(found, wanted),
    };
    fits.then_some(Adapt::Cast)
}

/// Whether every number of type `found` is one of type `wanted`.
fn fits_number(found: &DataType, wanted: &DataType) -> bool {
    use DataType as T;
    if let Some((precision, scale)) = decimal(wanted) {
        let Some((found_precision, found_scale)) = decimal(found).or_else(|| digits(found)) else {
            return false;
        };
        return scale >= found_scale
            && i16::from(precision) - i16::from(scale)
                >= i16::from(found_precision) - i16::from(found_scale);
    }
    match wanted {
        T::Int16 => matches!(found, T::Int8 | T::UInt8),
        T::Int32 => matches!(found, T::Int8 | T::Int16 | T::UInt8 | T::UInt16),
        T::Int64 => integer_bits(found).is_some_and(|bits| bits <= 32),
        T::Float64 => integer_bits(found).is_some_and(|bits| bits <= 32),
        _ => false,
    }
}

fn integer_bits(data_type: &DataType) -> Option<u32> {
    use DataType as T;
    match data_type {
        T::Int8 | T::UInt8 => Some(8),
        T::Int16 | T::UInt16 => Some(16),
        T::Int32 | T::UInt32 => Some(32),
        T::Int64 | T::UInt64 => Some(64),
        _ => None,
    }
}

fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    use DataType as T;
    match data_type {
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
            Some((*p, *s))
        }
        _ => None,
    }
}

/// The decimal that holds every whole number of a type; Spark wants 20 digits for 64 bits.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    let digits = match integer_bits(data_type)? {
        8 => 3,
        16 => 5,
        32 => 10,
        _ => 20,
    };
    Some((digits, 0))
}

fn strict_cast(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::default(),
    };
    cast_with_options(array, wanted, &options)
}

/// Arrow's cast would round times before 1970 up.
fn cut_nanos(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let nanos = array.as_primitive::<TimestampNanosecondType>();
    let micros: PrimitiveArray<TimestampMicrosecondType> =
        nanos.unary(|nanos| nanos.div_euclid(1000));
    Ok(Arc::new(micros.with_data_type(wanted.clone())))
}

fn apply_struct(
    places: &[Option<(usize, Adapt)>],
    array: &StructArray,
    fields: &Fields,
) -> Result<ArrayRef, ArrowError> {
    let mut columns = Vec::with_capacity(fields.len());
    for (field, place) in fields.iter().zip(places) {
        columns.push(match place {
            None => new_null_array(field.data_type(), array.len()),
            Some((place, adapt)) => adapt.apply(array.column(*place), field.data_type())?,
        });
    }
    let nulls = array.nulls().cloned();
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?;
    Ok(Arc::new(array))
}

fn apply_list(item: &Adapt, array: &ArrayRef, field: &Arc<Field>) -> Result<ArrayRef, ArrowError> {
    let list = match array.data_type() {
        DataType::List(_) => Arc::clone(array),
        DataType::LargeList(found) | DataType::FixedSizeList(found, _) => {
            strict_cast(array, &DataType::List(Arc::clone(found)))?
        }
        other => return Err(ArrowError::CastError(format!("{other} is not a list"))),
    };
    let (_, offsets, items, nulls) = list.as_list::<i32>().clone().into_parts();
    let items = item.apply(&items, field.data_type())?;
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        offsets,
        items,
        nulls,
    )?))
}

fn apply_map(
    key: &Adapt,
    value: &Adapt,
    array: &MapArray,
    entries: &Arc<Field>,
    sorted: bool,
) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError(
            "entries of a map are not structs".to_owned(),
        ));
    };
    let columns = vec![
        key.apply(array.keys(), fields[0].data_type())?,
        value.apply(array.values(), fields[1].data_type())?,
    ];
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    let nulls = array.nulls().cloned();
    let offsets = array.offsets().clone();
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(entries),
        offsets,
        pairs,
        nulls,
        sorted,
    )?))
}
