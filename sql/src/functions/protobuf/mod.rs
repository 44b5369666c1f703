//! Protobuf: `from_protobuf`, `to_protobuf`.
//!
//! The descriptor (what `protoc --descriptor_set_out --include_imports` writes) is read once, at planning. [`plan`] decides what
//! fields become, [`decode`] makes columns of messages, [`encode`] the way back. Columns stand in the order of the file.

mod decode;
mod encode;
mod plan;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use prost_reflect::{DescriptorPool, MessageDescriptor};

use self::plan::{Rules, Shape, columns};
use super::error::SparkError;
use super::kernel::Kernel;
use super::payload::{Mode, Options, binary_argument};
use super::{Args, Resolver};

/// The Protobuf family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("from_protobuf", from_protobuf),
    ("to_protobuf", to_protobuf),
];

const OPTIONS: &[&str] = &[
    "mode",
    "recursive.fields.max.depth",
    "emit.default.values",
    "enums.as.ints",
    "upcast.unsigned.ints",
    "unwrap.primitive.wrapper.types",
    "convert.any.fields.to.json",
    "schema.registry.wire.format",
];

/// `from_protobuf(payload, message, descriptor[, options])`: one struct for each message.
///
/// `descriptor` is the path of a descriptor file or its bytes. FAILFAST by default. With `schema.registry.wire.format` `true` the
/// payloads have a schema registry's header.
fn from_protobuf(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 4)?;
    let input = binary_argument(&args)?;
    let options = Options::of(&args, 3, "from_protobuf", OPTIONS)?;
    let message = message(&args, "from_protobuf")?;
    let mode = options.mode()?;
    let rules = Rules {
        max_depth: options.number("recursive.fields.max.depth", -1)?,
        emit_defaults: options.flag("emit.default.values", false)?,
        enums_as_ints: options.flag("enums.as.ints", false)?,
        upcast_unsigned: options.flag("upcast.unsigned.ints", false)?,
        unwrap_wrappers: options.flag("unwrap.primitive.wrapper.types", false)?,
        any_as_json: options.flag("convert.any.fields.to.json", false)?,
        all_nullable: mode == Mode::Permissive,
    };
    let fields = columns(&message, &rules).map_err(|why| unusable("from_protobuf", &why))?;
    let returns = Shape::Struct(fields.clone()).column(&rules);
    let framed = options.flag("schema.registry.wire.format", false)?;
    let settings = format!("{mode:?} {} {rules:?} {framed}", shown(&message));
    let codec = decode::Reader {
        message,
        fields,
        rules,
        mode,
        framed,
    };
    Ok(Kernel::with_codec(
        "from_protobuf",
        returns,
        settings,
        Arc::new(codec),
        input,
    ))
}

/// `to_protobuf(struct, message, descriptor[, options])`: each struct as a message.
fn to_protobuf(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 4)?;
    let DataType::Struct(fields) = &args.types[0] else {
        return args.refuse();
    };
    let options = Options::of(&args, 3, "to_protobuf", OPTIONS)?;
    let message = message(&args, "to_protobuf")?;
    let plan = encode::Message::new(&message, fields, "the value", 0);
    let plan = plan.map_err(|why| unusable("to_protobuf", &why))?;
    if options.flag("schema.registry.wire.format", false)? {
        return Err(options.wrong(
            "schema.registry.wire.format",
            "false: only reading knows the header",
        ));
    }
    let settings = shown(&message);
    let codec = Arc::new(encode::Writer { plan });
    Ok(Kernel::with_codec(
        "to_protobuf",
        DataType::Binary,
        settings,
        codec,
        args.exprs[0].clone(),
    ))
}

/// A message's name, and a checksum that tells descriptors apart in which it is called the same.
fn shown(message: &MessageDescriptor) -> String {
    let descriptors = message.parent_pool().encode_to_vec();
    format!(
        "{} crc32:{:08x}",
        message.full_name(),
        crc32fast::hash(&descriptors)
    )
}

fn unusable(function: &str, why: &str) -> datafusion::error::DataFusionError {
    SparkError::external("PROTOBUF_INCOMPATIBLE_SCHEMA", format!("{function}: {why}"))
}

/// The message type that the second argument names in the descriptor of the third.
fn message(args: &Args<'_>, function: &str) -> Result<MessageDescriptor> {
    let name = args.constant_text(1)?;
    let (bytes, origin) = descriptor(args, function)?;
    let pool = DescriptorPool::decode(bytes.as_slice()).map_err(|e| {
        SparkError::external(
            "CANNOT_PARSE_PROTOBUF_DESCRIPTOR",
            format!("{function}: {origin}: {e}"),
        )
    })?;
    if let Some(message) = pool.get_message_by_name(&name) {
        return Ok(message);
    }
    let found: Vec<_> = pool.all_messages().filter(|m| m.name() == name).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        _ => {
            let names: Vec<_> = pool.all_messages().filter(|m| !m.is_map_entry()).collect();
            let names: Vec<_> = names.iter().map(MessageDescriptor::full_name).collect();
            let what = if found.is_empty() {
                "is not in"
            } else {
                "is several messages of"
            };
            let message = format!(
                "{function}: message {name} {what} {origin}, which has {}",
                names.join(", ")
            );
            Err(SparkError::external("PROTOBUF_MESSAGE_NOT_FOUND", message))
        }
    }
}

/// The bytes of the descriptor, and where they are from.
fn descriptor(args: &Args<'_>, function: &str) -> Result<(Vec<u8>, String)> {
    match &args.exprs[2] {
        Expr::Literal(
            ScalarValue::Binary(Some(bytes))
            | ScalarValue::LargeBinary(Some(bytes))
            | ScalarValue::BinaryView(Some(bytes)),
            _,
        ) => Ok((bytes.clone(), "the descriptor".into())),
        _ => {
            let path = args.constant_text(2)?;
            let bytes = std::fs::read(&path).map_err(|e| {
                SparkError::external(
                    "PROTOBUF_DESCRIPTOR_FILE_NOT_FOUND",
                    format!("{function}: descriptor file {path}: {e}"),
                )
            })?;
            Ok((bytes, format!("descriptor file {path}")))
        }
    }
}
