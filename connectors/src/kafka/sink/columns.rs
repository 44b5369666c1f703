//! The columns a Kafka sink takes, checked when a query starts, and the message each row makes.
//!
//! `value` (STRING or BINARY) must be there; `key` (STRING or BINARY), `headers` (ARRAY of STRUCT with a STRING `key` and a BINARY
//! `value`), `topic` (STRING) and `partition` (INT) may be. Other columns are refused: Kafka has no place for them.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, Int32Array, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow::datatypes::{DataType, Fields, Int32Type, Schema};
use rdkafka::message::{Header, OwnedHeaders};
use weir_runtime::{Result, WeirError};

use super::size::HeaderBytes;

const BYTES: &str = "STRING or BINARY";
const HEADERS: &str = "ARRAY<STRUCT<key: STRING, value: BINARY>>";

/// Where the columns are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    key: Option<usize>,
    value: usize,
    headers: Option<usize>,
    topic: Option<usize>,
    partition: Option<usize>,
}

impl Layout {
    /// The columns of `schema`. `topic_is_set`: every row goes to the topic of the option, and the column is not read.
    ///
    /// # Errors
    /// A column that is missing, unknown or of another type; all of them at once.
    pub(super) fn of(schema: &Schema, topic_is_set: bool, with_headers: bool) -> Result<Self> {
        let mut problems = Vec::new();
        let mut find = |name: &str, allowed: &str, fits: fn(&DataType) -> bool| {
            let (index, field) = schema.column_with_name(name)?;
            if !fits(field.data_type()) {
                let found = field.data_type();
                problems.push(format!(
                    "column '{name}' has the type {found}, it must be {allowed}"
                ));
            }
            Some(index)
        };
        let key = find("key", BYTES, is_bytes);
        let value = find("value", BYTES, is_bytes);
        let headers = find("headers", HEADERS, is_headers);
        let topic = find("topic", "STRING", is_text);
        let partition = find("partition", "INT", |found| *found == DataType::Int32);
        if value.is_none() {
            problems.push(format!("column 'value' is missing, it must be {BYTES}"));
        }
        if topic.is_none() && !topic_is_set {
            problems.push(
                "there is neither a column 'topic' nor the option 'topic' to say where rows go"
                    .to_owned(),
            );
        }
        let known = ["key", "value", "headers", "topic", "partition"];
        let unknown = schema.fields().iter().map(|field| field.name());
        let unknown: Vec<&str> = unknown
            .map(String::as_str)
            .filter(|name| !known.contains(name))
            .collect();
        if !unknown.is_empty() {
            problems.push(format!(
                "there is no place for {}: select them away, or put them into 'value' (to_json)",
                quoted(&unknown)
            ));
        }
        match value {
            Some(value) if problems.is_empty() => Ok(Self {
                key,
                value,
                headers: headers.filter(|_| with_headers),
                topic: topic.filter(|_| !topic_is_set),
                partition,
            }),
            _ => Err(WeirError::plan(format!(
                "the Kafka sink takes the columns {}: {}",
                known.join(", "),
                problems.join("; ")
            ))),
        }
    }
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(", ")
}

fn is_text(found: &DataType) -> bool {
    matches!(
        found,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn is_bytes(found: &DataType) -> bool {
    is_text(found)
        || matches!(
            found,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
}

fn is_headers(found: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item)) = found else {
        return false;
    };
    let DataType::Struct(fields) = item.data_type() else {
        return false;
    };
    let of = |fields: &Fields, name: &str, fits: fn(&DataType) -> bool| {
        fields
            .find(name)
            .is_some_and(|(_, field)| fits(field.data_type()))
    };
    fields.len() == 2 && of(fields, "key", is_text) && of(fields, "value", is_bytes)
}

/// A column of texts or bytes.
enum Bytes<'a> {
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
}

impl<'a> Bytes<'a> {
    fn of(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string()),
            DataType::Utf8View => Self::TextView(array.as_string_view()),
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view()),
            other => return Err(unexpected(other)),
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Text(array) => *array,
            Self::LargeText(array) => *array,
            Self::TextView(array) => *array,
            Self::Binary(array) => *array,
            Self::LargeBinary(array) => *array,
            Self::BinaryView(array) => *array,
        }
    }

    /// The bytes of a row; a null is none, an empty value is not.
    fn get(&self, row: usize) -> Option<&'a [u8]> {
        if self.array().is_null(row) {
            return None;
        }
        Some(match self {
            Self::Text(array) => array.value(row).as_bytes(),
            Self::LargeText(array) => array.value(row).as_bytes(),
            Self::TextView(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::LargeBinary(array) => array.value(row),
            Self::BinaryView(array) => array.value(row),
        })
    }

    fn text(&self, row: usize) -> Option<&'a str> {
        if self.array().is_null(row) {
            return None;
        }
        match self {
            Self::Text(array) => Some(array.value(row)),
            Self::LargeText(array) => Some(array.value(row)),
            Self::TextView(array) => Some(array.value(row)),
            _ => None,
        }
    }
}

fn unexpected(found: &DataType) -> WeirError {
    WeirError::internal(format!(
        "a column that was checked when the query started has the type {found}"
    ))
}

/// The column of headers: a range of names and values for each row.
struct HeaderColumn<'a> {
    lists: &'a ArrayRef,
    items: &'a StructArray,
    names: Bytes<'a>,
    values: Bytes<'a>,
}

impl<'a> HeaderColumn<'a> {
    fn of(lists: &'a ArrayRef) -> Result<Self> {
        let items = match lists.data_type() {
            DataType::List(_) => lists.as_list::<i32>().values(),
            DataType::LargeList(_) => lists.as_list::<i64>().values(),
            other => return Err(unexpected(other)),
        };
        let items = items
            .as_struct_opt()
            .ok_or_else(|| unexpected(items.data_type()))?;
        let column = |name| {
            let found = items.column_by_name(name);
            found.ok_or_else(|| unexpected(items.data_type()))
        };
        Ok(Self {
            lists,
            items,
            names: Bytes::of(column("key")?)?,
            values: Bytes::of(column("value")?)?,
        })
    }

    fn range(&self, row: usize) -> Range<usize> {
        if self.lists.is_null(row) {
            return 0..0;
        }
        if let Some(lists) = self.lists.as_list_opt::<i32>() {
            let offsets = lists.value_offsets();
            return offsets[row] as usize..offsets[row + 1] as usize;
        }
        let offsets = self.lists.as_list::<i64>().value_offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }

    /// Names and values of a row, in order; a name may come more than once.
    fn get(&self, row: usize) -> Result<(Option<OwnedHeaders>, HeaderBytes)> {
        let range = self.range(row);
        let mut size = HeaderBytes::default();
        if range.is_empty() {
            return Ok((None, size));
        }
        let mut headers = OwnedHeaders::new_with_capacity(range.len());
        for item in range {
            let name = match self.items.is_null(item) {
                true => None,
                false => self.names.text(item),
            };
            let name = name.ok_or_else(|| {
                WeirError::data(
                    "a header has no name: Kafka allows null values of headers, but no null names",
                )
            })?;
            let value = self.values.get(item);
            size.add(name, value);
            headers = headers.insert(Header { key: name, value });
        }
        Ok((Some(headers), size))
    }
}

/// The rows of a batch as messages.
pub(super) struct Messages<'a> {
    key: Option<Bytes<'a>>,
    value: Bytes<'a>,
    headers: Option<HeaderColumn<'a>>,
    topic: Option<Bytes<'a>>,
    partition: Option<&'a Int32Array>,
}

/// One message.
pub(super) struct Message<'a> {
    /// Where it goes.
    pub(super) topic: &'a str,
    /// `None` leaves it to the partitioner.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    /// `None` is a null, which deletes the key of a compacted topic.
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Option<OwnedHeaders>,
    /// Bytes of the headers.
    pub(super) header_bytes: HeaderBytes,
}

impl<'a> Messages<'a> {
    /// The rows of `batch`, whose columns are where `layout` says.
    ///
    /// # Errors
    /// If the columns are not those of the checked schema.
    pub(super) fn of(layout: &Layout, batch: &'a RecordBatch) -> Result<Self> {
        let bytes = |index: usize| Bytes::of(batch.column(index).as_ref());
        let partition = match layout.partition {
            None => None,
            Some(index) => {
                let column = batch.column(index);
                let typed = column.as_primitive_opt::<Int32Type>();
                Some(typed.ok_or_else(|| unexpected(column.data_type()))?)
            }
        };
        Ok(Self {
            key: layout.key.map(bytes).transpose()?,
            value: bytes(layout.value)?,
            headers: layout
                .headers
                .map(|index| HeaderColumn::of(batch.column(index)))
                .transpose()?,
            topic: layout.topic.map(bytes).transpose()?,
            partition,
        })
    }

    /// The message of a row; `topic` is where it goes if the rows do not say so.
    ///
    /// # Errors
    /// A row without a topic, with a partition that cannot exist, or with a header that has no name.
    pub(super) fn get(&self, row: usize, topic: Option<&'a str>) -> Result<Message<'a>> {
        let topic = match &self.topic {
            None => topic,
            Some(column) => column.text(row),
        };
        let topic = topic.ok_or_else(|| {
            WeirError::data(
                "the column 'topic' is null: say where the row goes, or set the option 'topic' for all rows",
            )
        })?;
        let partition = self
            .partition
            .filter(|column| column.is_valid(row))
            .map(|column| column.value(row));
        if let Some(partition) = partition.filter(|partition| *partition < 0) {
            return Err(WeirError::data(format!(
                "the column 'partition' is {partition}, allowed: a partition of topic '{topic}', or null to leave it to the partitioner"
            )));
        }
        let (headers, header_bytes) = match &self.headers {
            None => (None, HeaderBytes::default()),
            Some(column) => column.get(row)?,
        };
        Ok(Message {
            topic,
            partition,
            key: self.key.as_ref().and_then(|column| column.get(row)),
            value: self.value.get(row),
            headers,
            header_bytes,
        })
    }
}

/// True if a topic can have this name.
pub(super) fn is_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(legal)
}

/// A key as an error shows it: text if it is some, and not all of a long one.
pub(super) fn shown_key(key: Option<&[u8]>) -> String {
    const LONGEST: usize = 64;
    let Some(key) = key else {
        return "null".to_owned();
    };
    match std::str::from_utf8(key) {
        Ok(text) => {
            let cut: String = text.chars().take(LONGEST).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("'{cut}{more}'")
        }
        Err(_) => {
            let cut = &key[..key.len().min(LONGEST)];
            let more = if cut.len() < key.len() { "…" } else { "" };
            let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{hex}{more}")
        }
    }
}
