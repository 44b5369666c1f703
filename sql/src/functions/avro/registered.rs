//! Avro payloads in a schema registry's wire format.
//!
//! Each payload names its writer's schema; the reader's is one version of a subject, fixed when the query is planned, so that the
//! columns stay the same while writers move on. A payload whose schema the registry does not know is a bad one. That the registry
//! cannot be reached is not the payload's fault: it is an error in every mode.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, BinaryArray, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use weir_connectors::avro::{Naming, Reader, Shape, column_type, gathered};

use super::super::Args;
use super::super::error::SparkError;
use super::super::kernel::{Codec, Kernel};
use super::super::payload::{Options, Reasons, constant_map};
use super::super::registry::{self, Asked, Registry, Schema, header, split};
use super::encode::Writer;
use super::{
    FromAvro, Payloads, READ_OPTIONS, derived, in_mode, naming, parsed, read_mode, wrong_schema,
};

/// How many ids of one batch the registry may not know; more means that these are no payloads of a registry.
const MAX_UNKNOWN: usize = 100;

/// Whether the options in argument `i` ask for a registry.
pub(super) fn wanted(args: &Args<'_>, i: usize) -> bool {
    let options = args.exprs.get(i).map(|e| constant_map(e, args.name));
    matches!(options, Some(Ok(options)) if options.contains_key(registry::URL))
}

fn options(args: &Args<'_>, function: &'static str, more: &[&str]) -> Result<Options> {
    let known: Vec<&str> = registry::OPTIONS.iter().chain(more).copied().collect();
    Options::of(args, 2, function, &known)
}

/// `from_avro(payload, subject, map('schema.registry.url', …))`.
pub(super) fn from_avro(args: &Args<'_>, input: Expr) -> Result<Expr> {
    let options = options(args, "from_avro", READ_OPTIONS)?;
    let (subject, version) = registry::subject(&options, "from_avro", &args.constant_text(1)?)?;
    let mode = read_mode(&options)?;
    let naming = in_mode(naming(&options)?, mode);
    let registry = Registry::new("from_avro", &options)?;
    let (reader, which) = match options.get("avroSchema") {
        Some(text) => (parsed("from_avro", text)?, format!("as {text}")),
        None => {
            let schema = registry.version(&subject, version)?;
            let shape = shape_of(&schema).map_err(|why| wrong_schema("from_avro", &why))?;
            (shape, format!("id {}", schema.id))
        }
    };
    let returns = column_type(&reader, &naming);
    let settings = format!("{mode:?} {subject} {which} of {}", registry.shown());
    let payloads = Registered {
        registry,
        reader,
        naming,
        returns: returns.clone(),
        readers: Mutex::default(),
    };
    Ok(Kernel::with_codec(
        "from_avro",
        returns,
        settings,
        Arc::new(FromAvro { payloads, mode }),
        input,
    ))
}

/// The Avro type of a registered schema.
fn shape_of(schema: &Schema) -> Result<Arc<Shape>, String> {
    if schema.kind != "AVRO" {
        return Err(format!(
            "schema {} of the registry is of type {}",
            schema.id, schema.kind
        ));
    }
    Shape::parse_with(&schema.references, &schema.text)
}

/// How data of one id are read; a schema that cannot be read as the reader's says why.
type ById = Result<Arc<Reader>, String>;

struct Registered {
    registry: Registry,
    reader: Arc<Shape>,
    naming: Naming,
    returns: DataType,
    readers: Mutex<HashMap<u32, ById>>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registered")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Registered {
    /// The reader for an id. What the registry knows once it knows for ever; what it does not know now it may know later.
    fn reader(&self, id: u32) -> Result<ById> {
        if let Some(known) = self
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
        {
            return Ok(known.clone());
        }
        let schema = match self.registry.schema(id)? {
            Asked::Found(schema) => schema,
            Asked::Unknown(why) => return Ok(Err(format!("schema {id}: {why}"))),
        };
        let built = shape_of(&schema)
            .and_then(|writer| Reader::new(&writer, &self.reader, &self.naming))
            .map(Arc::new)
            .map_err(|why| format!("schema {id}: {why}"));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.insert(id, built.clone());
        Ok(built)
    }
}

/// The payloads of one batch that one schema describes.
struct Group<'a> {
    id: u32,
    rows: Vec<usize>,
    payloads: Vec<&'a [u8]>,
}

/// The payloads by schema, in order of their first rows; in `reasons` why a payload has none.
fn by_schema<'a>(input: &'a BinaryArray, reasons: &mut [Option<String>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = vec![];
    let mut positions: HashMap<u32, usize> = HashMap::new();
    for row in (0..input.len()).filter(|i| input.is_valid(*i)) {
        match split(input.value(row)) {
            Ok((id, payload)) => {
                let at = *positions.entry(id).or_insert_with(|| {
                    let (rows, payloads) = (vec![], vec![]);
                    groups.push(Group { id, rows, payloads });
                    groups.len() - 1
                });
                groups[at].rows.push(row);
                groups[at].payloads.push(payload);
            }
            Err(why) => reasons[row] = Some(why),
        }
    }
    groups
}

impl Payloads for Registered {
    fn values(&self, input: &BinaryArray) -> Result<(ArrayRef, Reasons)> {
        let mut reasons: Reasons = vec![None; input.len()];
        let (mut columns, mut at, mut unknown) = (vec![], vec![None; input.len()], 0);
        for Group { id, rows, payloads } in by_schema(input, &mut reasons) {
            let reader = match self.reader(id)? {
                Ok(reader) => reader,
                Err(why) => {
                    unknown += 1;
                    if unknown > MAX_UNKNOWN {
                        let message = format!(
                            "from_avro: more than {MAX_UNKNOWN} schemas that cannot be used in one batch, the last: {why}"
                        );
                        return Err(SparkError::external("SCHEMA_REGISTRY", message));
                    }
                    rows.iter()
                        .for_each(|row| reasons[*row] = Some(why.clone()));
                    continue;
                }
            };
            let mut bad = vec![None; payloads.len()];
            let values = reader.read(&payloads, &mut bad)?;
            for (i, (row, bad)) in rows.into_iter().zip(bad).enumerate() {
                match bad {
                    Some(why) => reasons[row] = Some(format!("schema {id}: {why}")),
                    None => at[row] = Some((columns.len(), i)),
                }
            }
            columns.push(values);
        }
        let values = match columns.is_empty() {
            true => new_null_array(&self.returns, input.len()),
            false => gathered(&columns, &at)?,
        };
        Ok((values, reasons))
    }
}

/// `to_avro(value, subject, map('schema.registry.url', …))`: the schema is the option `avroSchema`, else the one derived from the
/// column's type; it is registered unless `auto.register.schemas` is false. `schema.registry.version` takes that version's instead.
pub(super) fn to_avro(args: &Args<'_>) -> Result<Expr> {
    let options = options(args, "to_avro", &["avroSchema", "auto.register.schemas"])?;
    let (subject, version) = registry::subject(&options, "to_avro", &args.constant_text(1)?)?;
    let register = options.flag("auto.register.schemas", true)?;
    let registry = Registry::new("to_avro", &options)?;
    let given = options.get("schema.registry.version").is_some();
    let (shape, id) = match (options.get("avroSchema"), given) {
        (Some(_), true) => {
            return Err(options.wrong("schema.registry.version", "absent beside 'avroSchema'"));
        }
        (None, true) => {
            let schema = registry.version(&subject, version)?;
            let shape = shape_of(&schema).map_err(|why| wrong_schema("to_avro", &why))?;
            (shape, schema.id)
        }
        (text, false) => {
            let text = match text {
                Some(text) => text.to_owned(),
                None => derived(args)?,
            };
            let shape = parsed("to_avro", &text)?;
            // Before anything is registered: a schema that the column does not fit must not become a version.
            Writer::new(&shape, &args.types[0]).map_err(|why| wrong_schema("to_avro", &why))?;
            (shape, registry.id_of(&subject, "AVRO", &text, register)?)
        }
    };
    let built = Writer::new(&shape, &args.types[0]);
    let writer = built.map_err(|why| wrong_schema("to_avro", &why))?;
    let settings = format!("{subject} id {id} of {}", registry.shown());
    let codec = Arc::new(ToRegistered {
        writer,
        header: header(id),
    });
    Ok(Kernel::with_codec(
        "to_avro",
        DataType::Binary,
        settings,
        codec,
        args.exprs[0].clone(),
    ))
}

#[derive(Debug)]
struct ToRegistered {
    writer: Writer,
    header: [u8; registry::HEADER],
}

impl Codec for ToRegistered {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        Ok(Arc::new(self.writer.write(input, &self.header)?))
    }
}
