//! Avro: `from_avro`, `to_avro`, `schema_of_avro`.
//!
//! Schemas and the reading of values are shared with files, [`weir_connectors::avro`]. [`encode`] is the way back, [`written`] says in
//! which schema. With the option `schema.registry.url` payloads are in a schema registry's wire format: see [`super::registry`].

mod encode;
mod registered;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;
mod written;

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, lit};
use weir_connectors::avro::{Naming, Reader, Shape, column_type, gathered};

use self::encode::Writer;
use self::written::schema_of;
use super::error::SparkError;
use super::kernel::{Codec, Kernel};
use super::payload::{Mode, Options, Reasons, bad_struct, binary, binary_argument, by_mode};
use super::{Args, Resolver};
use crate::types::type_name;

/// The Avro family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("from_avro", from_avro),
    ("to_avro", to_avro),
    ("schema_of_avro", |a| {
        a.expect(1, 2)?;
        let options = Options::of(&a, 1, "schema_of_avro", NAMING_OPTIONS)?;
        let shape = parsed("schema_of_avro", &a.constant_text(0)?)?;
        Ok(lit(type_name(&column_type(&shape, &naming(&options)?))))
    }),
];

const NAMING_OPTIONS: &[&str] = &[
    "enableStableIdentifiersForUnionType",
    "stableIdentifierPrefixForUnionType",
    "recursiveFieldMaxDepth",
];

/// Options of `from_avro` without a registry.
const READ_OPTIONS: &[&str] = &[
    "mode",
    "avroSchema",
    "datetimeRebaseMode",
    "enableStableIdentifiersForUnionType",
    "stableIdentifierPrefixForUnionType",
    "recursiveFieldMaxDepth",
];

const MALFORMED: &str = "MALFORMED_AVRO_MESSAGE";

fn parsed(function: &str, text: &str) -> Result<Arc<Shape>> {
    Shape::parse(text).map_err(|why| wrong_schema(function, &why))
}

fn wrong_schema(function: &str, why: &str) -> datafusion::error::DataFusionError {
    SparkError::external(
        "AVRO_INCOMPATIBLE_SCHEMA",
        format!("{function}: Avro schema: {why}"),
    )
}

fn naming(options: &Options) -> Result<Naming> {
    if options.number("recursiveFieldMaxDepth", -1)? > 0 {
        return Err(options.wrong(
            "recursiveFieldMaxDepth",
            "-1: recursive schemas are refused",
        ));
    }
    let prefix = options
        .get("stableIdentifierPrefixForUnionType")
        .unwrap_or("member_");
    let stable = options.flag("enableStableIdentifiersForUnionType", false)?;
    Ok(Naming {
        stable_prefix: stable.then(|| prefix.to_owned()),
        all_nullable: false,
    })
}

/// The same for payloads that are read in `mode`.
fn in_mode(naming: Naming, mode: Mode) -> Naming {
    Naming {
        all_nullable: mode == Mode::Permissive,
        ..naming
    }
}

/// `from_avro(payload, schema[, options])`: one value of the schema for each payload.
///
/// `schema` is the writer's, the option `avroSchema` the reader's if it differs. FAILFAST by default. Bytes left over after the
/// value are an error, as they say that the schema is not the one of the data.
fn from_avro(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let input = binary_argument(&args)?;
    if registered::wanted(&args, 2) {
        return registered::from_avro(&args, input);
    }
    let options = Options::of(&args, 2, "from_avro", READ_OPTIONS)?;
    let text = args.constant_text(1)?;
    let writer = parsed("from_avro", &text)?;
    let reader = match options.get("avroSchema") {
        Some(text) => parsed("from_avro", text)?,
        None => Arc::clone(&writer),
    };
    let mode = read_mode(&options)?;
    let naming = in_mode(naming(&options)?, mode);
    let returns = column_type(&reader, &naming);
    let built = Reader::new(&writer, &reader, &naming);
    let payloads = built.map_err(|why| wrong_schema("from_avro", &why))?;
    let wanted = options
        .get("avroSchema")
        .map_or(String::new(), |t| format!(" as {t}"));
    let codec = FromAvro { payloads, mode };
    Ok(Kernel::with_codec(
        "from_avro",
        returns,
        format!("{mode:?} {text}{wanted}"),
        Arc::new(codec),
        input,
    ))
}

/// The mode, once the other options about reading have been found to ask for nothing that is not done.
fn read_mode(options: &Options) -> Result<Mode> {
    let rebase = options.get("datetimeRebaseMode").unwrap_or("CORRECTED");
    if !["CORRECTED", "EXCEPTION"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(rebase))
    {
        return Err(options.wrong("datetimeRebaseMode", "CORRECTED or EXCEPTION"));
    }
    options.mode()
}

/// What reads the payloads of a column.
trait Payloads: fmt::Debug + Send + Sync {
    /// A value for each payload, NULL for bad ones, and why those are bad.
    fn values(&self, input: &BinaryArray) -> Result<(ArrayRef, Reasons)>;
}

/// `from_avro` over payloads that are read in one way or another.
#[derive(Debug)]
struct FromAvro<P> {
    payloads: P,
    mode: Mode,
}

impl<P: Payloads> Codec for FromAvro<P> {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        let input = binary(input)?;
        let (values, reasons) = self.payloads.values(&input)?;
        by_mode(self.mode, MALFORMED, "from_avro", &reasons)?;
        bad_struct(values, &input, &reasons)
    }

    fn reads_payloads(&self) -> bool {
        true
    }

    fn malformed(&self, input: &ArrayRef) -> Result<Reasons> {
        Ok(self.payloads.values(&binary(input)?)?.1)
    }
}

/// All payloads are of one schema.
impl Payloads for Reader {
    fn values(&self, input: &BinaryArray) -> Result<(ArrayRef, Reasons)> {
        let rows: Vec<usize> = (0..input.len()).filter(|i| input.is_valid(*i)).collect();
        let payloads: Vec<&[u8]> = rows.iter().map(|i| input.value(*i)).collect();
        let mut reasons = vec![None; payloads.len()];
        let mut values = self.read(&payloads, &mut reasons)?;
        if rows.len() < input.len() {
            let mut at = vec![None; input.len()];
            let mut all = vec![None; input.len()];
            for ((i, row), reason) in rows.iter().enumerate().zip(reasons) {
                at[*row] = Some((0, i));
                all[*row] = reason;
            }
            values = gathered(&[values], &at)?;
            reasons = all;
        }
        Ok((values, reasons))
    }
}

/// `to_avro(value[, schema])`: each value as Avro; without a schema in the one that Spark derives from the column's type.
fn to_avro(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 3)?;
    if registered::wanted(&args, 2) {
        return registered::to_avro(&args);
    }
    args.expect(1, 2)?;
    let text = match args.exprs.len() {
        1 => derived(&args)?,
        _ => args.constant_text(1)?,
    };
    let shape = parsed("to_avro", &text)?;
    let built = Writer::new(&shape, &args.types[0]);
    let writer = built.map_err(|why| wrong_schema("to_avro", &why))?;
    Ok(Kernel::with_codec(
        "to_avro",
        DataType::Binary,
        text,
        Arc::new(writer),
        args.exprs[0].clone(),
    ))
}

/// The schema for the first argument's type.
fn derived(args: &Args<'_>) -> Result<String> {
    use datafusion::common::ExprSchema;
    use datafusion::logical_expr::ExprSchemable;
    let may_be_null = args.exprs[0].nullable(args.schema as &dyn ExprSchema)?;
    let schema = schema_of(
        &args.types[0],
        may_be_null && !matches!(args.types[0], DataType::Struct(_)),
    );
    let schema = schema.map_err(|why| wrong_schema("to_avro", &why))?;
    Ok(schema.to_string())
}
