//! Payloads of one writer's schema to a column of the reader's.

use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use datafusion::common::{Result, internal_err};
use serde_json::{Value, json};

use super::check::{check, split};
use super::convert::convert;
use super::resolve::{Step, resolve};
use super::schema::{Field, Shape};
use super::types::Naming;

/// What stands before each payload on its way to the library, which knows records with a header only: magic byte and an id.
const HEADER: [u8; 5] = [0, 0, 0, 0, 1];
/// What stands behind it: a `false`, so that a payload of no bytes is something too.
const END: u8 = 0;

/// Reads payloads that one writer's schema describes as one reader's schema wants them.
#[derive(Debug)]
pub struct Reader {
    step: Step,
    schema: String,
    /// Decoders that are not in use; every one is between two batches.
    idle: Mutex<Vec<Decoder>>,
}

impl Reader {
    /// A reader of data written as `writer`.
    ///
    /// # Errors
    /// The reader's schema cannot take what the writer's describes.
    pub fn new(writer: &Shape, reader: &Shape, naming: &Naming) -> Result<Self, String> {
        readable(writer)?;
        let built = Self {
            step: resolve(writer, reader, naming)?,
            schema: library_schema(writer).to_string(),
            idle: Mutex::default(),
        };
        let decoder = built.decoder()?;
        built.give_back(decoder);
        Ok(built)
    }

    /// Reads `payloads`; in `bad` the reason for each that is none, whose place in the column is NULL.
    pub fn read(&self, payloads: &[&[u8]], bad: &mut [Option<String>]) -> Result<ArrayRef> {
        for (payload, bad) in payloads.iter().zip(bad.iter_mut()) {
            *bad = check(&self.step, payload).err();
        }
        let values = match self.through_library(payloads, bad) {
            Ok(values) => values,
            Err(_) => {
                // The library is stricter than the check: each payload by itself shows which.
                for (payload, bad) in payloads
                    .iter()
                    .zip(bad.iter_mut())
                    .filter(|(_, b)| b.is_none())
                {
                    *bad = self.through_library(&[payload], &[None]).err();
                }
                match self.through_library(payloads, bad) {
                    Ok(values) => values,
                    Err(e) => {
                        return internal_err!(
                            "Avro payloads that read one by one do not together: {e}"
                        );
                    }
                }
            }
        };
        spread(convert(&self.step, &values)?, bad)
    }

    /// Reads `rows` values that stand one behind the other and fill `block`.
    ///
    /// # Errors
    /// A value that is not what the writer's schema says, or that the reader's cannot take; the row, and what is wrong.
    pub fn read_block(&self, block: &[u8], rows: usize) -> Result<ArrayRef, String> {
        let payloads = split(&self.step, block, rows)?;
        let values = self.through_library(&payloads, &vec![None; payloads.len()])?;
        convert(&self.step, &values).map_err(|error| error.to_string())
    }

    /// The sound payloads as the library reads them, without gaps.
    fn through_library(
        &self,
        payloads: &[&[u8]],
        bad: &[Option<String>],
    ) -> Result<ArrayRef, String> {
        let sound = || {
            payloads
                .iter()
                .zip(bad)
                .filter(|(_, bad)| bad.is_none())
                .map(|(p, _)| *p)
        };
        let rows = sound().count();
        let bytes: usize = sound().map(|p| p.len() + HEADER.len() + 1).sum();
        let mut framed = Vec::with_capacity(bytes);
        for payload in sound() {
            framed.extend_from_slice(&HEADER);
            framed.extend_from_slice(payload);
            framed.push(END);
        }
        let mut decoder = self.decoder()?;
        let capacity = decoder.capacity();
        let used = decoder.decode(&framed).map_err(|e| e.to_string())?;
        let read = capacity - decoder.capacity();
        if used != framed.len() || read != rows {
            return Err(format!(
                "{used} of {} bytes gave {read} of {rows} records",
                framed.len()
            ));
        }
        let batch = decoder.flush().map_err(|e| e.to_string())?;
        let Some(batch) = batch else {
            return Ok(new_null_array(
                &decoder.schema().field(0).data_type().clone(),
                0,
            ));
        };
        self.give_back(decoder);
        Ok(batch.column(0).clone())
    }

    fn decoder(&self) -> Result<Decoder, String> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decoder) = idle.pop() {
            return Ok(decoder);
        }
        drop(idle);
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        let schema = AvroSchema::new(self.schema.clone());
        store
            .set(Fingerprint::Id(1), schema)
            .map_err(|e| e.to_string())?;
        let builder = ReaderBuilder::new().with_batch_size(usize::MAX);
        let decoder = builder.with_writer_schema_store(store).build_decoder();
        decoder.map_err(|e| e.to_string())
    }

    fn give_back(&self, decoder: Decoder) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decoder);
    }
}

/// `values` at the places that are not bad, NULL at the others.
fn spread(values: ArrayRef, bad: &[Option<String>]) -> Result<ArrayRef> {
    if bad.iter().all(Option::is_none) {
        return Ok(values);
    }
    let mut next = 0..;
    let at = bad.iter().map(|bad| {
        if bad.is_some() {
            None
        } else {
            next.next().map(|i| (0, i))
        }
    });
    gathered(&[values], &at.collect::<Vec<_>>())
}

/// The values at (array, position), NULL where there is none. All arrays are of one type.
pub fn gathered(arrays: &[ArrayRef], at: &[Option<(usize, usize)>]) -> Result<ArrayRef> {
    let Some(t) = arrays.first().map(|a| a.data_type().clone()) else {
        return internal_err!("nothing to gather from");
    };
    if t == DataType::Null {
        return Ok(new_null_array(&t, at.len()));
    }
    let null = new_null_array(&t, 1);
    let mut parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    parts.push(null.as_ref());
    let none = (arrays.len(), 0);
    let picks: Vec<_> = at.iter().map(|at| at.unwrap_or(none)).collect();
    Ok(interleave(&parts, &picks)?)
}

/// The schema in which the library reads what `shape` describes: the same bytes, without what it would interpret by itself.
///
/// References are written out under names of their own, logical types are left to [`convert`].
pub(super) fn library_schema(shape: &Shape) -> Value {
    let mut names = 0;
    let value = library_type(shape, &mut names);
    json!({"type": "record", "name": "payload", "fields": [
        {"name": "value", "type": value},
        {"name": "end", "type": "boolean"},
    ]})
}

/// Whether the library can hold values of a type: it has no arrays of nothing.
///
/// # Errors
/// Which type is nothing but `null`.
pub(super) fn readable(shape: &Shape) -> Result<(), String> {
    match shape {
        Shape::Array(inner) | Shape::Map(inner) if **inner == Shape::Null => {
            Err(format!("{} of null has no values", shape.word()))
        }
        Shape::Array(inner) | Shape::Map(inner) => readable(inner),
        Shape::Record(name, fields) if !fields.iter().any(is_written) => {
            Err(format!("record {} has no fields with values", name.full))
        }
        Shape::Record(_, fields) => fields.iter().try_for_each(|f| readable(&f.shape)),
        Shape::Union(branches) => branches.iter().try_for_each(|b| readable(b)),
        _ => Ok(()),
    }
}

/// Whether a field is part of the library's record: a `null` has neither bytes nor values.
pub(super) fn is_written(field: &Field) -> bool {
    *field.shape != Shape::Null
}

/// One type of [`library_schema`].
pub(super) fn library_type(shape: &Shape, names: &mut usize) -> Value {
    let mut name = || {
        *names += 1;
        format!("t{names}")
    };
    match shape {
        Shape::Fixed(_, size) | Shape::Decimal(_, _, Some((_, size))) => {
            json!({"type": "fixed", "name": name(), "size": size})
        }
        Shape::Enum(e) => {
            let symbols: Vec<_> = (0..e.symbols.len()).map(|i| format!("s{i}")).collect();
            json!({"type": "enum", "name": name(), "symbols": symbols})
        }
        Shape::Array(items) => json!({"type": "array", "items": library_type(items, names)}),
        Shape::Map(values) => json!({"type": "map", "values": library_type(values, names)}),
        Shape::Record(_, fields) => {
            let name = name();
            let field = |(i, f): (usize, &super::schema::Field)| json!({"name": format!("f{i}"), "type": library_type(&f.shape, names)});
            let fields = fields.iter().filter(|f| is_written(f));
            let fields: Vec<_> = fields.enumerate().map(field).collect();
            json!({"type": "record", "name": name, "fields": fields})
        }
        Shape::Union(branches) => branches.iter().map(|b| library_type(b, names)).collect(),
        scalar => json!(scalar.word()),
    }
}
