//! Spark's functions: one table from names to what a call becomes.
//!
//! A call is resolved once, at planning, from the types of its arguments: [`resolve`] looks the name up in [`table`] and
//! gets an expression back. That is a kernel of Weir's own where Spark differs from the libraries, a plain expression
//! where one says it all (`nvl2` is a CASE), else a call of datafusion-spark or DataFusion with arguments cast as Spark
//! casts them. Aggregates and window functions are not in here; see [`aggregates`].
//!
//! # What there is
//!
//! Spark's scalar functions on numbers, texts, bytes, dates and times, intervals, arrays, maps, structs, JSON, URLs and hashes, its lambdas
//! (`transform`, `filter`, `aggregate`, …), and the payload functions below. Their results, types and errors are Spark's in ANSI mode: an
//! overflow, a division by zero or a cast that fails ends the query with the condition, the row and the column; `try_…` gives NULL.
//!
//! Not there, and refused by name (`UNRESOLVED_ROUTINE`): sketches (`hll_…`, `kll_…`, `theta_…`, `tuple_…`, `count_min_sketch`), VARIANT, the type
//! TIME, CSV (`from_csv`, …), XML and XPath, geometry (`st_…`), `aes_…` and `hmac`, vectors, collations, and what asks for the session (`current_user`)
//! or the file being read.
//!
//! **Time zones.** Kernels see the session's zone when they run (`kernel::Call`). `TIMESTAMP` is an instant; its fields, texts, days and months
//! are those of the session's clock. A time that a clock shows twice is the earlier one, a time that it never shows is moved by the gap.
//! Windows are aligned to 1970 in UTC.
//!
//! **Patterns.** Regular expressions are Java's. Patterns of dates and times are those of Java's `DateTimeFormatter`; `E`, `Q` and `G` are for
//! writing only.
//!
//! # Payloads
//!
//! What messages are written in, read to columns and back. Schemas and options are constants, `options` is a `map()` of texts; an
//! unknown option is refused. NULL in is NULL out, in every mode, and is no bad payload.
//!
//! | call | gives | options |
//! | --- | --- | --- |
//! | `from_json(STRING, ddl[, options])` | a struct, array or map; the argument must be STRING, bytes need `CAST(… AS STRING)` | `mode`, `columnNameOfCorruptRecord`, `dateFormat`, `timestampFormat`, `timestampNTZFormat` |
//! | `to_json(value[, options])` | STRING | `ignoreNullFields`, the formats above |
//! | `schema_of_json(constant[, options])` | the type's DDL | `primitivesAsString`, `prefersDecimal` |
//! | `from_avro(BINARY, schema[, options])` | the schema's type | `mode`, `avroSchema` (the reader's, if it is not the writer's), `enableStableIdentifiersForUnionType`, `stableIdentifierPrefixForUnionType` |
//! | `to_avro(value[, schema])` | BINARY; without a schema in the one Spark derives from the column's type | |
//! | `schema_of_avro(schema[, options])` | the type's DDL | as for unions above |
//! | `from_avro(BINARY, subject, options)` | as above; payloads in a schema registry's wire format (a zero, the schema's id in four bytes) | those above and `schema.registry.url`, … |
//! | `to_avro(value, subject, options)` | such payloads | `schema.registry.url`, …, `avroSchema`, `auto.register.schemas` (true) |
//! | `from_protobuf(BINARY, message, descriptor[, options])` | a struct | `mode`, `recursive.fields.max.depth`, `emit.default.values`, `enums.as.ints`, `upcast.unsigned.ints`, `unwrap.primitive.wrapper.types`, `convert.any.fields.to.json`, `schema.registry.wire.format` |
//! | `to_protobuf(STRUCT, message, descriptor)` | BINARY | |
//! | `payload_error(from_…(…))` | STRING: why the payload is bad, whatever the mode; NULL if it is not | |
//!
//! **Bad payloads.** `mode` is `FAILFAST` for Avro and Protobuf, `PERMISSIVE` for JSON. FAILFAST ends the query with the row of the
//! batch (from 0) and the reason; a stream tells the place in the source where it can (topic-partition-offset). PERMISSIVE makes NULL of a Protobuf message and of Avro scalars, a struct of NULLs of an Avro
//! record, NULL of each JSON field that does not fit, with the text in the corrupt-record column if the schema has one; rows beside it are
//! never touched. Bytes left over behind an Avro value are bad, where Spark drops them: they mean that the schema is not the one of
//! the data, most often that a registry's header was not taken off. A key twice in one Avro map is bad too. Bad payloads that become
//! NULL are counted in the progress of a stream, as `badRecords` of the source their rows come from, each as often as it is read.
//!
//! **Dead letters.** `payload_error` says which payloads are bad, so a query can send them elsewhere with all that came with them: the
//! column `topic` of a Kafka sink names the topic of each row, and good and bad rows of an epoch are then written in one transaction.
//!
//! ```sql
//! SELECT if(why IS NULL, 'orders', 'orders-dead') AS topic, key, value FROM
//!   (SELECT key, value, payload_error(from_avro(value, '{"type":"record",…}')) AS why FROM records)
//! ```
//!
//! **Types.** As in Spark, except: `time-micros` and `timestamp-nanos` are BIGINT; a timestamp whose unit differs between writer's and
//! reader's schema keeps its instant; entries of Protobuf maps stand in order of their keys; recursive Avro schemas are refused.
//!
//! **Registries.** `schema.registry.url` (several, separated by commas, are tried in turn), `schema.registry.subject` in place of the
//! second argument, `schema.registry.version` (`latest`, or a number), `basic.auth.user.info` (`user:password`) or
//! `bearer.auth.token`, `schema.registry.ssl.ca.location` (certificates in PEM), `schema.registry.timeout.ms` (5000, for one
//! attempt), `schema.registry.retries` (3). The reader's schema is the version of the subject when the query is planned, or
//! `avroSchema`; it does not change while the query runs, whatever writers do. `to_avro` registers its schema when it is planned.
//! Each call has its own connection and asks for each id once; requests block the thread that evaluates the expression, for as long
//! as timeout and retries allow. An id that the registry does not know makes a bad payload; a registry that cannot be reached ends
//! the query in every mode. Credentials are in no plan, error or log.

pub mod aggregates;
mod arithmetic;
mod arrays;
mod avro;
pub(crate) mod cast;
mod checked;
pub(crate) mod coerce;
pub(crate) mod collections;
mod conditional;
mod datetime;
#[cfg(test)]
mod decoders_tests;
mod elements;
pub mod error;
pub mod grouping;
mod hash;
pub(crate) mod interval_fields;
pub mod intervals;
pub mod json;
mod json_infer;
mod json_options;
mod json_path;
#[cfg(test)]
mod json_tests;
mod json_text;
mod json_write;
pub(crate) mod kernel;
pub(crate) mod lambdas;
pub(crate) mod maps;
mod maths;
pub mod normalize;
mod number_format;
mod number_pattern;
pub(crate) mod operators;
mod parse;
mod payload;
mod printf;
mod protobuf;
mod regex;
mod registry;
mod rounding;
pub(crate) mod structs;
#[cfg(test)]
mod testing;
mod text;
mod texts;
pub mod windows;
#[cfg(test)]
mod zone_tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ExprSchema, Result, plan_err};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, ScalarUDF, expr::ScalarFunction};
use datafusion::scalar::ScalarValue;

pub use error::SparkError;
use weir_connectors::file::decode::parse::Zone;

/// What the session has that a call is resolved with.
#[derive(Debug)]
pub(crate) struct Library {
    /// Scalar functions of the libraries and of the user, by lower-case name.
    pub(crate) functions: HashMap<String, Arc<ScalarUDF>>,
    /// The session's time zone.
    pub(crate) zone: Zone,
}

/// What a call becomes.
pub(crate) type Resolver = fn(Args<'_>) -> Result<Expr>;

/// One call on its way to become an expression.
pub(crate) struct Args<'a> {
    /// The name in lower case.
    pub(crate) name: &'a str,
    /// The arguments, typed.
    pub(crate) exprs: Vec<Expr>,
    /// Their types.
    pub(crate) types: Vec<DataType>,
    /// Where their columns come from.
    pub(crate) schema: &'a DFSchema,
    library: &'a Library,
}

impl Args<'_> {
    /// Fails unless the call has `min..=max` arguments.
    pub(crate) fn expect(&self, min: usize, max: usize) -> Result<()> {
        let n = self.exprs.len();
        if (min..=max).contains(&n) {
            return Ok(());
        }
        let wanted = if min == max {
            min.to_string()
        } else {
            format!("{min} to {max}")
        };
        let message = format!("{} takes {wanted} arguments, it was given {n}", self.name);
        Err(SparkError::external("WRONG_NUM_ARGS", message))
    }

    /// The session's time zone.
    pub(crate) fn zone(&self) -> Zone {
        self.library.zone
    }

    /// Argument `i` cast to `to`.
    pub(crate) fn cast(&self, i: usize, to: &DataType) -> Result<Expr> {
        coerce::cast_from(self.exprs[i].clone(), &self.types[i], to)
    }

    /// Argument `i` as STRING.
    pub(crate) fn string(&self, i: usize) -> Result<Expr> {
        self.cast(i, &DataType::Utf8)
    }

    /// All arguments cast to the types given.
    pub(crate) fn cast_all(&self, to: &[DataType]) -> Result<Vec<Expr>> {
        to.iter()
            .take(self.exprs.len())
            .enumerate()
            .map(|(i, t)| self.cast(i, t))
            .collect()
    }

    /// The constant text in argument `i`.
    pub(crate) fn constant_text(&self, i: usize) -> Result<String> {
        match &self.exprs[i] {
            Expr::Literal(v, _) => match v.cast_to(&DataType::Utf8)? {
                ScalarValue::Utf8(Some(text)) => Ok(text),
                _ => Err(error::mismatch(format!(
                    "argument {} of {} must not be null",
                    i + 1,
                    self.name
                ))),
            },
            _ => Err(SparkError::external(
                "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
                format!(
                    "argument {} of {} must be a constant text",
                    i + 1,
                    self.name
                ),
            )),
        }
    }

    /// The common type of all arguments.
    pub(crate) fn common(&self) -> Result<DataType> {
        coerce::common_of(&self.types, self.name)
    }

    /// A call of the library function `name` with the same arguments.
    pub(crate) fn library(self, name: &str) -> Result<Expr> {
        let (library, schema) = (self.library, self.schema);
        call_library(name, self.exprs, library, schema)
    }

    /// A call of the library function `name` with other arguments.
    pub(crate) fn library_with(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        call_library(name, args, self.library, self.schema)
    }

    /// A call of another function of the table.
    pub(crate) fn call(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        resolve(name, args, self.schema, self.library)
    }

    /// This call's arguments have types that the function does not accept.
    pub(crate) fn refuse<T>(&self) -> Result<T> {
        Err(error::mismatch(format!(
            "{} does not accept {}",
            self.name,
            coerce::list_types(&self.types)
        )))
    }
}

fn call_library(name: &str, args: Vec<Expr>, library: &Library, schema: &DFSchema) -> Result<Expr> {
    let Some(udf) = library.functions.get(name) else {
        return plan_err!("the function library has no `{name}`");
    };
    let call = operators::library_call(ScalarFunction::new_udf(Arc::clone(udf), args), schema)?;
    let returns = call.get_type(schema as &dyn ExprSchema)?;
    Ok(match spark_type(&returns) {
        Some(t) => Expr::Cast(Cast::new(Box::new(call), t)),
        None => call,
    })
}

/// The type for results in layouts and widths that Spark does not have.
fn spark_type(t: &DataType) -> Option<DataType> {
    match t {
        DataType::Utf8View | DataType::LargeUtf8 => Some(DataType::Utf8),
        DataType::BinaryView | DataType::LargeBinary => Some(DataType::Binary),
        DataType::UInt8 | DataType::UInt16 => Some(DataType::Int32),
        DataType::UInt32 | DataType::UInt64 => Some(DataType::Int64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => None,
        DataType::Timestamp(_, Some(_)) => Some(coerce::timestamp()),
        DataType::Timestamp(_, None) => Some(coerce::timestamp_ntz()),
        _ => None,
    }
}

/// All functions that are not plain library calls, by lower-case name.
static TABLE: LazyLock<HashMap<&'static str, Resolver>> = LazyLock::new(|| {
    [
        conditional::FUNCTIONS,
        maths::FUNCTIONS,
        collections::FUNCTIONS,
        maps::FUNCTIONS,
        structs::FUNCTIONS,
        json::FUNCTIONS,
        avro::FUNCTIONS,
        payload::FUNCTIONS,
        protobuf::FUNCTIONS,
        hash::FUNCTIONS,
        number_format::FUNCTIONS,
        printf::FUNCTIONS,
        regex::FUNCTIONS,
        windows::FUNCTIONS,
    ]
    .iter()
    .chain(&arrays::FUNCTIONS)
    .chain(&datetime::FUNCTIONS)
    .chain(&texts::FUNCTIONS)
    .flat_map(|family| family.iter().copied())
    .collect()
});

/// The table from Spark's names to resolvers.
pub(crate) fn table() -> &'static HashMap<&'static str, Resolver> {
    &TABLE
}

/// What a call of `name` becomes. The name is in lower case.
///
/// # Errors
/// An unknown name, a wrong number of arguments, arguments of types that Spark refuses.
pub(crate) fn resolve(
    name: &str,
    args: Vec<Expr>,
    schema: &DFSchema,
    library: &Library,
) -> Result<Expr> {
    let types = args
        .iter()
        .map(|e| e.get_type(schema as &dyn ExprSchema))
        .collect::<Result<Vec<_>>>()?;
    let call = Args {
        name,
        exprs: args,
        types,
        schema,
        library,
    };
    match table().get(name) {
        Some(resolver) => resolver(call),
        None => {
            let name = name.to_owned();
            call.library(&name)
        }
    }
}
