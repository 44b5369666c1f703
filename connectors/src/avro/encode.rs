//! Columns to Avro payloads.
//!
//! Which column types go into which Avro types are Spark's rules: nothing is narrowed or widened. A value that the schema has no
//! place for (NULL where none is allowed, an unknown symbol, bytes of another size) is an error that names row and field.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, DictionaryArray, FixedSizeBinaryBuilder,
    Int32Array, Int64Array, ListArray, MapArray, NullArray, RecordBatch, StringArray, StructArray,
    UInt32Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Decimal128Type, Field as ArrowField, Fields, Int32Type, Int64Type, Schema,
    TimestampMicrosecondType,
};
use arrow_avro::schema::SCHEMA_METADATA_KEY;
use arrow_avro::writer::{WriterBuilder, format::AvroBinaryFormat};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use serde_json::json;

use super::decode::{is_written, library_type, readable};
use super::schema::{Field, Long, Shape, Unit};
use super::types::{Naming, column_type, may_be_null};

/// A value that the schema has no place for.
#[derive(Debug, thiserror::Error)]
#[error("row {row} of the batch (from 0): {path} {what}")]
pub struct NotWritten {
    /// The row, from 0.
    pub row: u32,
    /// Where in the row the value stands, in words.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

impl NotWritten {
    /// The one that an error of [`Writer::write`] is, if it is none of the libraries'.
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        match error {
            DataFusionError::External(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// How types are called in messages.
type TypeName = fn(&DataType) -> String;

/// Writes values of one column type in one schema.
#[derive(Debug)]
pub struct Writer {
    shape: Arc<Shape>,
    schema: String,
}

impl Writer {
    /// A writer of columns of type `t`; `name` is what types are called in errors.
    ///
    /// # Errors
    /// The schema has no place for such values.
    pub fn new(shape: &Arc<Shape>, t: &DataType, name: TypeName) -> Result<Self, String> {
        readable(shape)?;
        fits(shape, t, "the value", name)?;
        let value = library_type(shape, &mut 0);
        let schema = json!({"type": "record", "name": "payload", "fields": [{"name": "value", "type": value}]});
        Ok(Self {
            shape: Arc::clone(shape),
            schema: schema.to_string(),
        })
    }

    /// The payloads of `values`, behind `header`; NULL for NULL.
    ///
    /// # Errors
    /// [`NotWritten`], or the libraries' own.
    pub fn write(&self, values: &ArrayRef, header: &[u8]) -> Result<BinaryArray> {
        let rows: Vec<u32> = (0..values.len())
            .filter(|i| values.is_valid(*i))
            .map(|i| i as u32)
            .collect();
        let dense = take(values, &UInt32Array::from(rows.clone()), None)?;
        let site = Site {
            rows: &rows,
            path: "the value".into(),
        };
        let column = site.fit(&self.shape, &dense)?;
        let field = ArrowField::new("value", column.data_type().clone(), true);
        let key = (SCHEMA_METADATA_KEY.to_owned(), self.schema.clone());
        let schema = Schema::new(vec![field]).with_metadata([key].into());
        let failed = |e| internal_datafusion_err!("the Avro library refuses a column: {e}");
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column])?;
        let mut encoder = WriterBuilder::new(schema)
            .build_encoder::<AvroBinaryFormat>()
            .map_err(failed)?;
        encoder.encode(&batch).map_err(failed)?;
        let encoded = encoder.flush();
        let mut out = BinaryBuilder::with_capacity(
            values.len(),
            encoded.bytes().len() + header.len() * rows.len(),
        );
        let mut payloads = encoded.iter();
        let mut framed = Vec::new();
        for i in 0..values.len() {
            match values.is_valid(i).then(|| payloads.next()).flatten() {
                Some(payload) => {
                    framed.clear();
                    framed.extend_from_slice(header);
                    framed.extend_from_slice(&payload);
                    out.append_value(&framed);
                }
                None => out.append_null(),
            }
        }
        Ok(out.finish())
    }
}

/// Whether columns of type `t` go into `shape`.
fn fits(shape: &Shape, t: &DataType, path: &str, name: TypeName) -> Result<(), String> {
    use DataType as T;
    let ok = match (shape, t) {
        (Shape::Union(branches), _) => {
            let other = branches
                .iter()
                .filter(|b| ***b != Shape::Null)
                .collect::<Vec<_>>();
            match other.as_slice() {
                [one] if branches.len() == 2 && *t != T::Null => return fits(one, t, path, name),
                [one] if branches.len() == 2 => {
                    return fits(one, &column_type(one, &Naming::default()), path, name);
                }
                _ => {
                    let what = "only unions of null and one other type can be written";
                    return Err(format!("{path} is of type {}: {what}", shape.shown()));
                }
            }
        }
        (Shape::Null, T::Null) | (Shape::Boolean, T::Boolean) | (Shape::Date, T::Date32) => true,
        (Shape::Int, t) => matches!(t, T::Int8 | T::Int16 | T::Int32),
        (Shape::Long(Long::Plain), T::Int64 | T::Timestamp(_, _)) => true,
        (Shape::Long(Long::Timestamp(_)), T::Timestamp(_, Some(_))) => true,
        (Shape::Long(Long::Local(_)), T::Timestamp(_, None)) => true,
        (Shape::Float, T::Float32) | (Shape::Double, T::Float64) => true,
        (Shape::Bytes | Shape::Fixed(_, _), T::Binary) => true,
        (Shape::Text | Shape::Enum(_), T::Utf8) => true,
        (Shape::Decimal(p, s, _), T::Decimal128(tp, ts)) => p == tp && s == ts,
        (Shape::Array(items), T::List(item)) => {
            return fits(
                items,
                item.data_type(),
                &format!("an element of {path}"),
                name,
            );
        }
        (Shape::Map(values), T::Map(entries, _)) => match entries.data_type() {
            T::Struct(parts) if *parts[0].data_type() == T::Utf8 => {
                let value = parts[1].data_type();
                return fits(values, value, &format!("a value of {path}"), name);
            }
            _ => false,
        },
        (Shape::Record(_, fields), T::Struct(columns)) => {
            return record_fits(fields, columns, path, name);
        }
        _ => false,
    };
    match ok {
        true => Ok(()),
        false => Err(format!(
            "{path} is {}, it cannot be written as {}",
            name(t),
            shape.shown()
        )),
    }
}

fn record_fits(
    fields: &[Field],
    columns: &Fields,
    path: &str,
    name: TypeName,
) -> Result<(), String> {
    for column in columns {
        if !fields
            .iter()
            .any(|f| f.name.eq_ignore_ascii_case(column.name()))
        {
            return Err(format!(
                "the schema has no field for {} of {path}",
                column.name()
            ));
        }
    }
    for field in fields {
        match column_of(field, columns)? {
            Some(at) => fits(
                &field.shape,
                columns[at].data_type(),
                &format!("field {}", field.name),
                name,
            )?,
            None if may_be_null(&field.shape) => fits(
                &field.shape,
                &DataType::Null,
                &format!("field {}", field.name),
                name,
            )?,
            None => {
                return Err(format!(
                    "{path} has no column for field {} of the schema",
                    field.name
                ));
            }
        }
    }
    Ok(())
}

/// The column for a field: the one of its name in any letter case.
fn column_of(field: &Field, columns: &Fields) -> Result<Option<usize>, String> {
    let exact = columns.iter().position(|c| *c.name() == field.name);
    let same = |c: &&arrow::datatypes::FieldRef| c.name().eq_ignore_ascii_case(&field.name);
    match columns.iter().filter(same).count() {
        0 | 1 => Ok(exact.or_else(|| columns.iter().position(|c| same(&c)))),
        _ if exact.is_some() => Ok(exact),
        _ => Err(format!(
            "several columns are called {} in some letter case",
            field.name
        )),
    }
}

/// A place in the schema, with the rows whose values stand there.
struct Site<'a> {
    /// For each value the row of the batch it belongs to.
    rows: &'a [u32],
    path: String,
}

impl Site<'_> {
    fn wrong(&self, at: usize, what: impl std::fmt::Display) -> DataFusionError {
        DataFusionError::External(Box::new(NotWritten {
            row: self.rows.get(at).copied().unwrap_or_default(),
            path: self.path.clone(),
            what: what.to_string(),
        }))
    }

    /// `array` in the layout that the library writes as `shape`. A NULL is only where the schema allows one.
    fn fit(&self, shape: &Shape, array: &ArrayRef) -> Result<ArrayRef> {
        if let Shape::Union(branches) = shape {
            let one = branches.iter().find(|b| ***b != Shape::Null);
            return match one {
                Some(one) => self.value(one, array),
                None => Ok(Arc::new(NullArray::new(array.len()))),
            };
        }
        if *shape == Shape::Null {
            return Ok(Arc::new(NullArray::new(array.len())));
        }
        if let Some(at) = array
            .logical_nulls()
            .and_then(|n| (0..n.len()).find(|i| n.is_null(*i)))
        {
            return Err(self.wrong(
                at,
                format!("is NULL, which {} does not allow", shape.shown()),
            ));
        }
        self.value(shape, array)
    }

    fn value(&self, shape: &Shape, array: &ArrayRef) -> Result<ArrayRef> {
        if *array.data_type() == DataType::Null {
            let nulls = new_null_array(&column_type(shape, &Naming::default()), array.len());
            return self.value(shape, &nulls);
        }
        match shape {
            Shape::Date => Ok(cast(array, &DataType::Int32)?),
            Shape::Int => Ok(cast(array, &DataType::Int32)?),
            Shape::Long(long) => Ok(longs(*long, array)),
            Shape::Fixed(_, size) => self.fixed(*size, array),
            Shape::Decimal(_, _, fixed) => {
                self.decimal(fixed.as_ref().map(|(_, size)| *size), array)
            }
            Shape::Enum(e) => self.symbols(&e.symbols, array),
            Shape::Array(items) => self.list(items, array),
            Shape::Map(values) => self.map(values, array),
            Shape::Record(_, fields) => self.record(fields, array),
            _ => Ok(Arc::clone(array)),
        }
    }

    fn fixed(&self, size: usize, array: &ArrayRef) -> Result<ArrayRef> {
        let mut out = FixedSizeBinaryBuilder::with_capacity(array.len(), size as i32);
        for (i, bytes) in array.as_binary::<i32>().iter().enumerate() {
            match bytes {
                Some(bytes) if bytes.len() == size => out.append_value(bytes)?,
                Some(bytes) => {
                    let what = format!("has {} bytes, the schema wants {size}", bytes.len());
                    return Err(self.wrong(i, what));
                }
                None => out.append_null(),
            }
        }
        Ok(Arc::new(out.finish()))
    }

    fn decimal(&self, fixed: Option<usize>, array: &ArrayRef) -> Result<ArrayRef> {
        let values = array.as_primitive::<Decimal128Type>();
        let bytes = values.iter().map(|v| v.map(smallest)).collect::<Vec<_>>();
        let Some(size) = fixed else {
            return Ok(Arc::new(
                bytes.iter().map(Option::as_deref).collect::<BinaryArray>(),
            ));
        };
        let mut out = FixedSizeBinaryBuilder::with_capacity(array.len(), size as i32);
        for (i, bytes) in bytes.iter().enumerate() {
            match bytes {
                Some(bytes) if bytes.len() <= size => {
                    let fill = if bytes[0] & 0x80 != 0 { 0xFF } else { 0 };
                    let mut padded = vec![fill; size - bytes.len()];
                    padded.extend_from_slice(bytes);
                    out.append_value(&padded)?;
                }
                Some(_) => return Err(self.wrong(i, format!("does not fit into {size} bytes"))),
                None => out.append_null(),
            }
        }
        Ok(Arc::new(out.finish()))
    }

    fn symbols(&self, symbols: &[String], array: &ArrayRef) -> Result<ArrayRef> {
        let mut keys = Vec::with_capacity(array.len());
        for (i, text) in array.as_string::<i32>().iter().enumerate() {
            keys.push(match text {
                None => None,
                Some(text) => match symbols.iter().position(|s| s == text) {
                    Some(at) => Some(at as i32),
                    None => {
                        let known = symbols.join(", ");
                        return Err(
                            self.wrong(i, format!("is '{text}', the enum's symbols are {known}"))
                        );
                    }
                },
            });
        }
        let values = (0..symbols.len())
            .map(|i| Some(format!("s{i}")))
            .collect::<StringArray>();
        let keys = Int32Array::from(keys);
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            keys,
            Arc::new(values),
        )?))
    }

    /// The values below lists: those of the lists that are there, and which rows they belong to.
    fn below(&self, lengths: impl Iterator<Item = usize>) -> Vec<u32> {
        let rows = self.rows.iter().zip(lengths);
        rows.flat_map(|(row, n)| std::iter::repeat_n(*row, n))
            .collect()
    }

    fn list(&self, items: &Shape, array: &ArrayRef) -> Result<ArrayRef> {
        let list = compact(array)?;
        let list = list.as_list::<i32>();
        let rows = self.below(list.offsets().lengths());
        let site = Site {
            rows: &rows,
            path: format!("an element of {}", self.path),
        };
        let values = site.fit(items, list.values())?;
        let field = ArrowField::new_list_field(values.data_type().clone(), true);
        let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
        Ok(Arc::new(ListArray::try_new(
            Arc::new(field),
            offsets,
            values,
            nulls,
        )?))
    }

    fn map(&self, values: &Shape, array: &ArrayRef) -> Result<ArrayRef> {
        let map = compact(array)?;
        let map = map.as_map();
        let rows = self.below(map.offsets().lengths());
        let site = Site {
            rows: &rows,
            path: format!("a value of {}", self.path),
        };
        let values = site.fit(values, map.values())?;
        let parts = Fields::from(vec![
            ArrowField::new("key", DataType::Utf8, false),
            ArrowField::new("value", values.data_type().clone(), true),
        ]);
        let pairs =
            StructArray::try_new(parts.clone(), vec![Arc::clone(map.keys()), values], None)?;
        let field = ArrowField::new("entries", DataType::Struct(parts), false);
        let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
        Ok(Arc::new(MapArray::try_new(
            Arc::new(field),
            offsets,
            pairs,
            nulls,
            false,
        )?))
    }

    /// Columns of structs that are there; at the others stands something that is never written.
    fn record(&self, fields: &[Field], array: &ArrayRef) -> Result<ArrayRef> {
        let nulls = array.logical_nulls();
        let alive: Vec<u32> = (0..array.len() as u32)
            .filter(|i| array.is_valid(*i as usize))
            .collect();
        let owners: Vec<u32> = alive.iter().map(|i| self.rows[*i as usize]).collect();
        let dense = take(array, &UInt32Array::from(alive.clone()), None)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.len());
        for field in fields.iter().filter(|f| is_written(f)) {
            let DataType::Struct(names) = array.data_type() else {
                return Err(internal_datafusion_err!(
                    "{} is no struct",
                    array.data_type()
                ));
            };
            let at = column_of(field, names).map_err(|e| internal_datafusion_err!("{e}"))?;
            let values = match at {
                Some(at) => Arc::clone(dense.as_struct().column(at)),
                None => new_null_array(&DataType::Null, dense.len()),
            };
            let site = Site {
                rows: &owners,
                path: format!("field {}", field.name),
            };
            columns.push(site.fit(&field.shape, &values)?);
        }
        let columns = columns.into_iter().map(|c| scattered(c, nulls.as_ref()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let field = |(i, c): (usize, &ArrayRef)| {
            ArrowField::new(format!("f{i}"), c.data_type().clone(), true)
        };
        let fields: Fields = columns.iter().enumerate().map(field).collect();
        Ok(Arc::new(StructArray::try_new(fields, columns, nulls)?))
    }
}

/// Dense values at the places that are not NULL, nothing at the others.
fn scattered(dense: ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else {
        return Ok(dense);
    };
    let mut next = 0..;
    let at = nulls
        .iter()
        .map(|alive| if alive { next.next() } else { None });
    Ok(take(&dense, &at.collect::<UInt32Array>(), None)?)
}

/// The same lists without values that belong to none.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    let all: UInt32Array = (0..array.len() as u32).collect();
    Ok(take(array, &all, None)?)
}

fn longs(long: Long, array: &ArrayRef) -> ArrayRef {
    if !matches!(array.data_type(), DataType::Timestamp(_, _)) {
        return Arc::clone(array);
    }
    let micros = array.as_primitive::<TimestampMicrosecondType>();
    // A plain long takes milliseconds, as in Spark.
    let factor = match long {
        Long::Timestamp(Unit::Micros) | Long::Local(Unit::Micros) => 1,
        _ => 1000,
    };
    let counts: Int64Array = micros.unary::<_, Int64Type>(|v| v.div_euclid(factor));
    Arc::new(counts)
}

/// A number in the fewest big-endian bytes.
fn smallest(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let fill = if value < 0 { 0xFF } else { 0 };
    let needed = |i: &usize| bytes[*i] != fill || (bytes[*i + 1] ^ fill) & 0x80 != 0;
    let from = (0..15).find(needed).unwrap_or(15);
    bytes[from..].to_vec()
}
