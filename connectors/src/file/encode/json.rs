//! The JSON format: one object for each row and line.
//!
//! Own formatting instead of the Arrow JSON writer, whose values differ from Spark's in many types
//! (bytes, NaN, timestamps, decimals, keys of maps, the spelling of floats).
//!
//! Fields that are NULL are left out, in nested structs too, unless `ignoreNullFields` is false;
//! NULL elements of arrays and values of maps are written as `null`. Bytes are base64. NaN and the
//! infinities are texts. With `pretty` an object goes over lines, as Jackson's default printer spaces it.

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
    /// `pretty`: spread objects over lines; default false. Such a file is read back only by readers that look for the ends of
    /// objects, not of lines.
    pub pretty: bool,
    /// `sortKeys`: fields and keys of maps in the order of their names; default false.
    pub sort_keys: bool,
    /// `writeNonAsciiCharacterAsCodePoint`: write `\\u00E9` for `é`; default false.
    pub non_ascii_as_code_points: bool,
    /// Spelling of dates and times.
    pub time: TimeText,
    /// Compression, charset and ends of lines.
    pub file: TextFile,
}

impl Default for JsonWriteOptions {
    fn default() -> Self {
        Self {
            ignore_null_fields: true,
            pretty: false,
            sort_keys: false,
            non_ascii_as_code_points: false,
            time: TimeText::default(),
            file: TextFile::default(),
        }
    }
}

/// What all values of a file have in common.
struct Style {
    ignore_null_fields: bool,
    pretty: bool,
    sort_keys: bool,
    ascii: bool,
    time: TimeText,
}

/// Writes one file of JSON lines.
pub(super) struct JsonWriter {
    columns: Columns,
    keys: Keys,
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
        let style = Style {
            ignore_null_fields: options.ignore_null_fields,
            pretty: options.pretty,
            sort_keys: options.sort_keys,
            ascii: options.non_ascii_as_code_points,
            time: options.time.clone(),
        };
        Ok(Self {
            keys: Keys::new(columns.plain().fields(), &style),
            columns,
            style,
            line_sep: options.file.line_sep.clone().into_bytes(),
            output: LineOutput::new(FORMAT, &options.file, out)?,
        })
    }
}

impl BatchWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns = self.columns.adapt(batch)?;
        let style = &self.style;
        let nodes: Vec<Node> = columns
            .iter()
            .map(|array| Node::new(array, style))
            .collect();
        for row in 0..batch.num_rows() {
            let block = self.output.block();
            push_object(block, &self.keys, &nodes, row, Place { style, depth: 0 });
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
    Struct(Option<NullBuffer>, Keys, Vec<Node>),
    List(Option<NullBuffer>, OffsetBuffer<i32>, Box<Node>),
    Map(Option<NullBuffer>, OffsetBuffer<i32>, Values, Box<Node>),
}

impl Node {
    fn new(array: &ArrayRef, style: &Style) -> Self {
        let nulls = array.logical_nulls();
        match array.data_type() {
            DataType::Struct(fields) => {
                let children = array.as_struct().columns().iter();
                let children = children.map(|array| Self::new(array, style)).collect();
                Self::Struct(nulls, Keys::new(fields, style), children)
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let items = Box::new(Self::new(list.values(), style));
                Self::List(nulls, list.offsets().clone(), items)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let keys =
                    Values::new(map.keys()).expect("invariant: keys were accepted as scalar");
                let values = Box::new(Self::new(map.values(), style));
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

    fn push(&self, out: &mut Vec<u8>, row: usize, place: Place<'_>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            Self::Scalar(_, values) => push_scalar(out, values, row, place.style),
            Self::Struct(_, keys, children) => push_object(out, keys, children, row, place),
            Self::List(_, offsets, items) => push_array(out, range(offsets, row), items, place),
            Self::Map(_, offsets, keys, values) => {
                push_map(out, range(offsets, row), keys, values, place);
            }
        }
    }
}

/// Where a value is written, and how.
#[derive(Clone, Copy)]
struct Place<'a> {
    style: &'a Style,
    /// Objects around it.
    depth: usize,
}

impl Place<'_> {
    /// Goes on to a member of an object, the first or a later one; answers where its value is.
    fn member(self, out: &mut Vec<u8>, first: bool) -> Self {
        if !first {
            out.push(b',');
        }
        self.line(out, self.depth + 1);
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    /// What stands between a key and its value.
    fn colon(self) -> &'static [u8] {
        if self.style.pretty { b" : " } else { b":" }
    }

    /// Ends an object that has members, or has none.
    fn end(self, out: &mut Vec<u8>, empty: bool) {
        match empty {
            true if self.style.pretty => out.push(b' '),
            true => {}
            false => self.line(out, self.depth),
        }
        out.push(b'}');
    }

    /// Begins a line, if there are any.
    fn line(self, out: &mut Vec<u8>, depth: usize) {
        if self.style.pretty {
            out.push(b'\n');
            out.resize(out.len() + 2 * depth, b' ');
        }
    }
}

fn range(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    // Offsets of an Arrow array are never negative.
    offsets[row].unsigned_abs() as usize..offsets[row + 1].unsigned_abs() as usize
}

/// Names of fields in quotes, escaped once, each with its place among the fields, in the order in which they are written.
struct Keys(Vec<(Vec<u8>, usize)>);

impl Keys {
    fn new(fields: &Fields, style: &Style) -> Self {
        let mut names: Vec<(&str, usize)> = fields
            .iter()
            .enumerate()
            .map(|(place, field)| (field.name().as_str(), place))
            .collect();
        if style.sort_keys {
            names.sort_by_key(|(name, _)| *name);
        }
        let key = |(name, place): (&str, usize)| {
            let mut key = Vec::with_capacity(name.len() + 3);
            push_quoted(&mut key, name, style);
            key.extend_from_slice(Place { style, depth: 0 }.colon());
            (key, place)
        };
        Self(names.into_iter().map(key).collect())
    }
}

fn push_object(out: &mut Vec<u8>, keys: &Keys, nodes: &[Node], row: usize, place: Place<'_>) {
    out.push(b'{');
    let mut first = true;
    for (key, index) in &keys.0 {
        let node = &nodes[*index];
        if place.style.ignore_null_fields && node.is_null(row) {
            continue;
        }
        let inner = place.member(out, first);
        first = false;
        out.extend_from_slice(key);
        node.push(out, row, inner);
    }
    place.end(out, first);
}

fn push_array(out: &mut Vec<u8>, rows: std::ops::Range<usize>, items: &Node, place: Place<'_>) {
    let pretty = place.style.pretty;
    out.push(b'[');
    for row in rows.clone() {
        if row > rows.start {
            out.push(b',');
        }
        if pretty {
            out.push(b' ');
        }
        items.push(out, row, place);
    }
    if pretty {
        out.push(b' ');
    }
    out.push(b']');
}

fn push_map(
    out: &mut Vec<u8>,
    rows: std::ops::Range<usize>,
    keys: &Values,
    values: &Node,
    place: Place<'_>,
) {
    let mut rows: Vec<usize> = rows.collect();
    if place.style.sort_keys {
        rows.sort_by_cached_key(|row| plain_key(keys, *row, place.style));
    }
    out.push(b'{');
    for (index, row) in rows.iter().enumerate() {
        let inner = place.member(out, index == 0);
        if keys.is_bare_json(*row) {
            out.push(b'"');
            keys.push(*row, &place.style.time, out);
            out.push(b'"');
        } else {
            push_scalar(out, keys, *row, place.style);
        }
        out.extend_from_slice(place.colon());
        values.push(out, *row, inner);
    }
    place.end(out, rows.is_empty());
}

/// A key of a map as text, to be sorted by.
fn plain_key(keys: &Values, row: usize, style: &Style) -> Vec<u8> {
    let mut text = Vec::new();
    match keys {
        Values::Text(texts) => text.extend_from_slice(texts.value(row).as_bytes()),
        Values::Binary(bytes) => push_base64(&mut text, bytes.value(row)),
        values => values.push(row, &style.time, &mut text),
    }
    text
}

fn push_scalar(out: &mut Vec<u8>, values: &Values, row: usize, style: &Style) {
    match values {
        Values::Text(texts) => push_quoted(out, texts.value(row), style),
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

/// Appends a text in quotes.
fn push_quoted(out: &mut Vec<u8>, text: &str, style: &Style) {
    out.push(b'"');
    if style.ascii && !text.is_ascii() {
        push_code_points(out, text);
    } else {
        push_escaped(out, text.as_bytes());
    }
    out.push(b'"');
}

/// Appends a text whose characters beyond ASCII become UTF-16 code units.
fn push_code_points(out: &mut Vec<u8>, text: &str) {
    for letter in text.chars() {
        if letter.is_ascii() {
            push_escaped(out, &[letter as u8]);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
        }
    }
}

/// Appends a text. Escaped are the quote, the backslash and control characters, nothing else: what Spark does.
fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
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
}
