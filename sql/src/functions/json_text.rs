//! JSON text to Arrow columns, column by column, with the rules of Spark's `from_json`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, FieldRef, Fields, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use weir_connectors::file::decode::parse::{parse_date, parse_timestamp, parse_timestamp_ntz};

use super::datetime::read_pattern;
use super::error::mismatch;
use super::json_options::Formats;
use super::{parse, text};

/// An object's entries in order, values unparsed.
pub(super) struct Entries<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut entries = vec![];
                while let Some(entry) = map.next_entry::<String, &'de RawValue>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// How deep values may be nested in each other, as in Spark. It bounds the stack that reading them takes.
const MOST_NESTED: usize = 1000;

/// Whether a JSON text is nested deeper than is read.
fn too_deep(text: &str) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    text.len() > MOST_NESTED
        && text.bytes().any(|byte| {
            match (in_text, byte) {
                (true, _) if escaped => escaped = false,
                (true, b'\\') => escaped = true,
                (_, b'"') => in_text = !in_text,
                (false, b'[' | b'{') => depth += 1,
                (false, b']' | b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > MOST_NESTED
        })
}

/// The first value of a text; what follows it is not looked at, as in Spark's functions that look into JSON.
pub(super) fn first_value(text: &str) -> Option<&RawValue> {
    if too_deep(text) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.next()?.ok()
}

/// Unparsed JSON of one column: for each value its text, and which row of the input it belongs to.
pub(super) struct Column<'a> {
    /// `None` is NULL.
    values: Vec<Option<&'a str>>,
    rows: Vec<usize>,
    formats: &'a Formats,
    /// Whether these are whole records.
    whole: bool,
}

impl<'a> Column<'a> {
    /// One value for each row.
    pub(super) fn of_rows(values: Vec<Option<&'a str>>, formats: &'a Formats) -> Self {
        let rows = (0..values.len()).collect();
        Self {
            values,
            rows,
            formats,
            whole: true,
        }
    }

    /// A column of values inside of these.
    fn inner(&self, values: Vec<Option<&'a str>>, rows: Vec<usize>) -> Self {
        Self {
            values,
            rows,
            formats: self.formats,
            whole: false,
        }
    }

    /// The column as `t`. A value that does not fit becomes NULL and marks its row in `bad`.
    pub(super) fn decode(&self, t: &DataType, bad: &mut [bool]) -> Result<ArrayRef> {
        match t {
            DataType::Struct(fields) => self.structs(fields, bad),
            DataType::List(field) => self.lists(field, bad),
            DataType::Map(entries, _) => self.maps(t, entries, bad),
            DataType::Utf8 => Ok(Arc::new(StringArray::from(self.each(bad, as_text)))),
            DataType::Boolean => Ok(Arc::new(BooleanArray::from(self.each(bad, |v| match v {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            })))),
            DataType::Int8 => self.numbers::<Int8Type>(t, bad, |v| whole(v)?.try_into().ok()),
            DataType::Int16 => self.numbers::<Int16Type>(t, bad, |v| whole(v)?.try_into().ok()),
            DataType::Int32 => self.numbers::<Int32Type>(t, bad, |v| whole(v)?.try_into().ok()),
            DataType::Int64 => self.numbers::<Int64Type>(t, bad, whole),
            DataType::Float32 => {
                self.numbers::<Float32Type>(t, bad, |v| float(v).map(|f| f as f32))
            }
            DataType::Float64 => self.numbers::<Float64Type>(t, bad, float),
            DataType::Decimal128(p, s) => self.numbers::<Decimal128Type>(t, bad, |v| {
                let text = if is_number(v) {
                    v.to_owned()
                } else {
                    string(v)?
                };
                parse::decimal(&text, *p, *s)?.ok()
            }),
            DataType::Date32 => {
                let zone = self.formats.zone;
                self.numbers::<Date32Type>(t, bad, |v| match &self.formats.date {
                    None => parse_date(string(v)?.as_bytes()),
                    Some(pattern) => read_pattern(pattern, &string(v)?, t, zone)?.try_into().ok(),
                })
            }
            DataType::Timestamp(_, zone) => {
                let (zoned, session) = (zone.is_some(), self.formats.zone);
                let format = self.formats.of_time(zoned);
                self.numbers::<TimestampMicrosecondType>(t, bad, |v| match (string(v), format) {
                    (Some(text), None) if zoned => parse_timestamp(text.as_bytes(), session),
                    (Some(text), None) => parse_timestamp_ntz(text.as_bytes(), true),
                    (Some(text), Some(pattern)) => read_pattern(pattern, &text, t, session),
                    (None, _) => whole(v)?.checked_mul(1_000_000),
                })
            }
            DataType::Binary => {
                let bytes = self.each(bad, |v| base64(&string(v)?));
                Ok(Arc::new(bytes.into_iter().collect::<BinaryArray>()))
            }
            DataType::Null => Ok(arrow::array::new_null_array(t, self.values.len())),
            _ => Err(mismatch(format!(
                "from_json cannot make {}",
                super::cast::type_text(t)
            ))),
        }
    }

    /// Converts every value that is not null; `None` marks the row as bad.
    fn each<T>(&self, bad: &mut [bool], f: impl Fn(&'a str) -> Option<T>) -> Vec<Option<T>> {
        let convert = |(v, row): (&Option<&'a str>, &usize)| {
            let out = match (*v)? {
                // A record has to be more than nothing.
                "null" if self.whole => None,
                "null" => return None,
                v if self.whole && too_deep(v) => None,
                v => f(v),
            };
            bad[*row] |= out.is_none();
            out
        };
        self.values.iter().zip(&self.rows).map(convert).collect()
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        t: &DataType,
        bad: &mut [bool],
        f: impl Fn(&'a str) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let array: PrimitiveArray<T> = self.each(bad, f).into_iter().collect();
        Ok(Arc::new(array.with_data_type(t.clone())))
    }

    fn structs(&self, fields: &Fields, bad: &mut [bool]) -> Result<ArrayRef> {
        let objects = self.each(bad, |v| serde_json::from_str::<Entries<'a>>(v).ok());
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let pick = |o: &Option<Entries<'a>>| {
                let entry = o.as_ref()?.0.iter().rev().find(|(k, _)| k == field.name());
                entry.map(|(_, v)| v.get())
            };
            let values = objects.iter().map(pick).collect();
            let column = self.inner(values, self.rows.clone());
            columns.push(column.decode(field.data_type(), bad)?);
        }
        let alive: NullBuffer = objects
            .iter()
            .map(Option::is_some)
            .collect::<Vec<_>>()
            .into();
        Ok(Arc::new(StructArray::try_new_with_length(
            fields.clone(),
            columns,
            Some(alive),
            objects.len(),
        )?))
    }

    fn lists(&self, field: &FieldRef, bad: &mut [bool]) -> Result<ArrayRef> {
        // A whole record that is an object stands for an array of it.
        let one = self.whole && matches!(field.data_type(), DataType::Struct(_));
        let lists = self.each(bad, |v| match one && v.starts_with('{') {
            true => serde_json::from_str::<&'a RawValue>(v)
                .ok()
                .map(|v| vec![v]),
            false => serde_json::from_str::<Vec<&'a RawValue>>(v).ok(),
        });
        let items = lists
            .iter()
            .zip(&self.rows)
            .flat_map(|(l, row)| l.iter().flatten().map(|v| (Some(v.get()), *row)));
        let (values, rows) = items.unzip();
        let values = self.inner(values, rows).decode(field.data_type(), bad)?;
        let offsets =
            OffsetBuffer::from_lengths(lists.iter().map(|l| l.as_ref().map_or(0, Vec::len)));
        let alive: NullBuffer = lists.iter().map(Option::is_some).collect::<Vec<_>>().into();
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            offsets,
            values,
            Some(alive),
        )?))
    }

    fn maps(&self, t: &DataType, entries: &FieldRef, bad: &mut [bool]) -> Result<ArrayRef> {
        let (DataType::Struct(fields), DataType::Map(_, ordered)) = (entries.data_type(), t) else {
            return Err(mismatch(format!("{t} is no map")));
        };
        if fields[0].data_type() != &DataType::Utf8 {
            return Err(mismatch("from_json makes maps with STRING keys only"));
        }
        let objects = self.each(bad, |v| serde_json::from_str::<Entries<'a>>(v).ok());
        let keys: StringArray = objects
            .iter()
            .flatten()
            .flat_map(|o| o.0.iter().map(|(k, _)| Some(k.as_str())))
            .collect();
        let items = objects.iter().zip(&self.rows).flat_map(|(o, row)| {
            o.iter()
                .flat_map(|o| o.0.iter().map(|(_, v)| (Some(v.get()), *row)))
        });
        let (values, rows) = items.unzip();
        let values = self
            .inner(values, rows)
            .decode(fields[1].data_type(), bad)?;
        let offsets =
            OffsetBuffer::from_lengths(objects.iter().map(|o| o.as_ref().map_or(0, |o| o.0.len())));
        let alive: NullBuffer = objects
            .iter()
            .map(Option::is_some)
            .collect::<Vec<_>>()
            .into();
        let pairs = StructArray::try_new(fields.clone(), vec![Arc::new(keys), values], None)?;
        Ok(Arc::new(MapArray::try_new(
            Arc::clone(entries),
            offsets,
            pairs,
            Some(alive),
            *ordered,
        )?))
    }
}

fn is_number(v: &str) -> bool {
    v.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// A JSON string without its quotes; `None` for other values.
fn string(v: &str) -> Option<String> {
    if v.starts_with('"') {
        serde_json::from_str(v).ok()
    } else {
        None
    }
}

fn whole(v: &str) -> Option<i64> {
    if is_number(v) { v.parse().ok() } else { None }
}

fn float(v: &str) -> Option<f64> {
    if is_number(v) {
        return v.parse().ok();
    }
    match string(v)?.as_str() {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" | "INF" | "+INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Bytes from base64 with its padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for (i, chunk) in text.as_bytes().chunks(4).enumerate() {
        let last = (i + 1) * 4 == text.len();
        let used = chunk.iter().rposition(|b| *b != b'=').map_or(0, |p| p + 1);
        if used < 2 || (used < 4 && !last) {
            return None;
        }
        let bits = chunk[..used]
            .iter()
            .try_fold(0u32, |acc, b| Some(acc << 6 | u32::from(digit(*b)?)))?;
        let bytes = (bits << (6 * (4 - used))).to_be_bytes();
        out.extend_from_slice(&bytes[1..used]);
    }
    Some(out)
}

/// What a JSON value is as STRING: texts without quotes, everything else printed anew.
fn as_text(v: &str) -> Option<String> {
    if v.starts_with('"') {
        string(v)
    } else {
        compact(v)
    }
}

/// A JSON value printed without blanks; numbers with a fraction as Java prints a double.
pub(super) fn compact(v: &str) -> Option<String> {
    if v.starts_with('{') {
        let entries: Entries<'_> = serde_json::from_str(v).ok()?;
        let parts = entries
            .0
            .iter()
            .map(|(k, v)| Some(format!("{}:{}", quote(k), compact(v.get())?)));
        return Some(format!(
            "{{{}}}",
            parts.collect::<Option<Vec<_>>>()?.join(",")
        ));
    }
    if v.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(v).ok()?;
        let parts = items
            .iter()
            .map(|v| compact(v.get()))
            .collect::<Option<Vec<_>>>()?;
        return Some(format!("[{}]", parts.join(",")));
    }
    if is_number(v) && v.contains(['.', 'e', 'E']) {
        return Some(text::double_text(v.parse().ok()?));
    }
    if v.starts_with('"') {
        return string(v).map(|s| quote(&s));
    }
    Some(v.to_owned())
}

/// A text as a JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}
