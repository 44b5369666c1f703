//! The JSON format: one object for each row and line.
//!
//! Own formatting instead of the Arrow JSON writer, whose values differ from Spark's in many types
//! (bytes, NaN, timestamps, decimals, keys of maps, the spelling of floats).
//!
//! Fields that are NULL are left out, in nested structs too, unless `ignoreNullFields` is false;
//! NULL elements of arrays and values of maps are written as `null`. Bytes are base64. NaN and the
//! infinities are texts.

use std::io::Write;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Fields, SchemaRef};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::columns::Columns;
use super::lines::{LineOutput, TextFile};
use super::time::TimeText;
use super::value::{Values, is_scalar};
use super::{BatchWriter, EncodeError, FileStats};

pub(super) const FORMAT: &str = "json";

const ALLOWED: &str = "BOOLEAN, numbers, DECIMAL up to 38 digits, DATE, TIMESTAMP, STRING, BINARY, \
     STRUCT, ARRAY, and MAP with keys without structure";

/// Options of the JSON format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonWriteOptions {
    /// `ignoreNullFields`: leave out fields that are NULL; default true.
    pub ignore_null_fields: bool,
    /// Spelling of dates and times.
    pub time: TimeText,
    /// Compression, charset and ends of lines.
    pub file: TextFile,
}

impl Default for JsonWriteOptions {
    fn default() -> Self {
        Self {
            ignore_null_fields: true,
            time: TimeText::default(),
            file: TextFile::default(),
        }
    }
}

/// What all values of a file have in common.
struct Style {
    ignore_null_fields: bool,
    time: TimeText,
}

/// Writes one file of JSON lines.
pub(super) struct JsonWriter {
    columns: Columns,
    keys: Vec<Vec<u8>>,
    style: Style,
    line_sep: Vec<u8>,
    output: LineOutput,
}

impl JsonWriter {
    pub(super) fn new(
        options: &JsonWriteOptions,
        schema: &SchemaRef,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let columns = Columns::new(FORMAT, schema, accepts, ALLOWED)?;
        let keys = keys(columns.plain().fields());
        Ok(Self {
            columns,
            keys,
            style: Style {
                ignore_null_fields: options.ignore_null_fields,
                time: options.time.clone(),
            },
            line_sep: options.file.line_sep.clone().into_bytes(),
            output: LineOutput::new(FORMAT, &options.file, out)?,
        })
    }
}

impl BatchWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns = self.columns.adapt(batch)?;
        let nodes: Vec<Node> = columns.iter().map(Node::new).collect();
        for row in 0..batch.num_rows() {
            let block = self.output.block();
            push_object(block, &self.keys, &nodes, row, &self.style);
            block.extend_from_slice(&self.line_sep);
            self.output.end_row()?;
        }
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.output.bytes()
    }

    fn finish(self: Box<Self>) -> Result<FileStats, EncodeError> {
        self.output.finish()
    }
}

fn accepts(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::List(_) => true,
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                fields.first().is_some_and(|key| is_scalar(key.data_type()))
            }
            _ => false,
        },
        scalar => is_scalar(scalar),
    }
}

/// A column of any type, taken apart once for each batch.
enum Node {
    Scalar(Option<NullBuffer>, Values),
    Struct(Option<NullBuffer>, Vec<Vec<u8>>, Vec<Node>),
    List(Option<NullBuffer>, OffsetBuffer<i32>, Box<Node>),
    Map(Option<NullBuffer>, OffsetBuffer<i32>, Values, Box<Node>),
}

impl Node {
    fn new(array: &ArrayRef) -> Self {
        let nulls = array.logical_nulls();
        match array.data_type() {
            DataType::Struct(fields) => {
                let children = array.as_struct().columns().iter().map(Self::new).collect();
                Self::Struct(nulls, keys(fields), children)
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let items = Box::new(Self::new(list.values()));
                Self::List(nulls, list.offsets().clone(), items)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let keys =
                    Values::new(map.keys()).expect("invariant: keys were accepted as scalar");
                let values = Box::new(Self::new(map.values()));
                Self::Map(nulls, map.offsets().clone(), keys, values)
            }
            _ => {
                let values =
                    Values::new(array).expect("invariant: the type was accepted as scalar");
                Self::Scalar(nulls, values)
            }
        }
    }

    fn is_null(&self, row: usize) -> bool {
        let (Self::Scalar(nulls, ..)
        | Self::Struct(nulls, ..)
        | Self::List(nulls, ..)
        | Self::Map(nulls, ..)) = self;
        nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn push(&self, out: &mut Vec<u8>, row: usize, style: &Style) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            Self::Scalar(_, values) => push_scalar(out, values, row, style),
            Self::Struct(_, keys, children) => push_object(out, keys, children, row, style),
            Self::List(_, offsets, items) => push_array(out, range(offsets, row), items, style),
            Self::Map(_, offsets, keys, values) => {
                push_map(out, range(offsets, row), keys, values, style);
            }
        }
    }
}

fn range(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    // Offsets of an Arrow array are never negative.
    offsets[row].unsigned_abs() as usize..offsets[row + 1].unsigned_abs() as usize
}

/// `"name":` for each field, escaped once.
fn keys(fields: &Fields) -> Vec<Vec<u8>> {
    fields
        .iter()
        .map(|field| {
            let mut key = Vec::with_capacity(field.name().len() + 3);
            push_quoted(&mut key, field.name().as_bytes());
            key.push(b':');
            key
        })
        .collect()
}

fn push_object(out: &mut Vec<u8>, keys: &[Vec<u8>], nodes: &[Node], row: usize, style: &Style) {
    out.push(b'{');
    let mut first = true;
    for (key, node) in keys.iter().zip(nodes) {
        if style.ignore_null_fields && node.is_null(row) {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        out.extend_from_slice(key);
        node.push(out, row, style);
    }
    out.push(b'}');
}

fn push_array(out: &mut Vec<u8>, rows: std::ops::Range<usize>, items: &Node, style: &Style) {
    out.push(b'[');
    for row in rows.clone() {
        if row > rows.start {
            out.push(b',');
        }
        items.push(out, row, style);
    }
    out.push(b']');
}

fn push_map(
    out: &mut Vec<u8>,
    rows: std::ops::Range<usize>,
    keys: &Values,
    values: &Node,
    style: &Style,
) {
    out.push(b'{');
    for row in rows.clone() {
        if row > rows.start {
            out.push(b',');
        }
        if keys.is_bare_json(row) {
            out.push(b'"');
            keys.push(row, &style.time, out);
            out.push(b'"');
        } else {
            push_scalar(out, keys, row, style);
        }
        out.push(b':');
        values.push(out, row, style);
    }
    out.push(b'}');
}

fn push_scalar(out: &mut Vec<u8>, values: &Values, row: usize, style: &Style) {
    match values {
        Values::Text(texts) => push_quoted(out, texts.value(row).as_bytes()),
        Values::Binary(bytes) => push_base64(out, bytes.value(row)),
        values if values.is_bare_json(row) => values.push(row, &style.time, out),
        values => {
            out.push(b'"');
            values.push(row, &style.time, out);
            out.push(b'"');
        }
    }
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    // Four letters for each three bytes begun, as padding is on.
    let length = bytes.len().div_ceil(3) * 4;
    out.resize(start + length, 0);
    let written = BASE64.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written, Ok(length));
    out.push(b'"');
}

/// Appends a text in quotes. Escaped are the quote, the backslash and control characters, nothing
/// else: what Spark does.
fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut clean_from = 0;
    for (at, byte) in text.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0C => b"\\f",
            0x00..=0x1F => b"",
            _ => continue,
        };
        out.extend_from_slice(&text[clean_from..at]);
        clean_from = at + 1;
        if escape.is_empty() {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        } else {
            out.extend_from_slice(escape);
        }
    }
    out.extend_from_slice(&text[clean_from..]);
    out.push(b'"');
}
