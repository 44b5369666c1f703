//! Columns as bytes and back: what keys and values of state tables are made of.
//!
//! Rows are Arrow's row format with ascending fields, nulls first: equal rows have equal bytes and bytes sort as rows do. The
//! fields travel as text beside the bytes ([`RowCodec::text`]), so that a checkpoint can be read without its query.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, RowParser, Rows as ArrowRows, SortField};
use serde::{Deserialize, Serialize};
use weir_runtime::{Result, WeirError};

/// Encodes and decodes rows of fixed fields. A codec of no fields is allowed: its rows are empty bytes.
#[derive(Debug)]
pub struct RowCodec {
    fields: Fields,
    converter: RowConverter,
    parser: RowParser,
}

/// Encoded rows, by index.
#[derive(Debug)]
pub struct EncodedRows {
    rows: ArrowRows,
    count: usize,
    fixed: bool,
}

/// One field in the text form.
#[derive(Serialize, Deserialize)]
struct FieldText {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
}

impl RowCodec {
    /// A codec for these fields; names only matter to people.
    ///
    /// # Errors
    /// If a type has no row format.
    pub fn new(fields: impl Into<Fields>) -> Result<Self> {
        let fields = fields.into();
        let sort = fields
            .iter()
            .map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(sort.collect()).map_err(|error| {
            let columns: Vec<String> = fields
                .iter()
                .map(|field| format!("{} {}", field.name(), field.data_type()))
                .collect();
            WeirError::plan(format!(
                "columns ({}) cannot be kept in state: {error}",
                columns.join(", ")
            ))
            .with_source(error)
        })?;
        Ok(Self {
            fields,
            parser: converter.parser(),
            converter,
        })
    }

    /// The codec of a text that [`text`](Self::text) gave.
    ///
    /// # Errors
    /// If the text is not such a list.
    pub fn from_text(text: &str) -> Result<Self> {
        Self::new(fields_from_text(text)?)
    }

    /// The fields.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The fields as a JSON list of `{"name": …, "type": …}`, types as Arrow writes them.
    pub fn text(&self) -> String {
        fields_text(&self.fields)
    }

    /// An empty buffer for [`append`](Self::append), to be used again and again.
    pub fn buffer(&self) -> EncodedRows {
        EncodedRows {
            rows: self.converter.empty_rows(0, 0),
            count: 0,
            fixed: self.fields.is_empty(),
        }
    }

    /// Encodes `count` rows of these columns behind what `buffer` holds. Types may differ from the fields' in names and
    /// nullability of nested fields only.
    ///
    /// # Errors
    /// If types differ in more than that.
    pub fn append(
        &self,
        buffer: &mut EncodedRows,
        columns: &[ArrayRef],
        count: usize,
    ) -> Result<()> {
        if !buffer.fixed {
            let columns = self.relabelled(columns)?;
            self.converter.append(&mut buffer.rows, &columns)?;
        }
        buffer.count += count;
        Ok(())
    }

    /// Encodes `count` rows of these columns.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn encode(&self, columns: &[ArrayRef], count: usize) -> Result<EncodedRows> {
        let mut buffer = self.buffer();
        self.append(&mut buffer, columns, count)?;
        Ok(buffer)
    }

    /// The columns of encoded rows, in order.
    ///
    /// # Errors
    /// If Arrow finds text that is not UTF-8.
    pub fn decode<'a, I>(&'a self, rows: I) -> Result<Vec<ArrayRef>>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        if self.fields.is_empty() {
            return Ok(Vec::new());
        }
        let rows = rows.into_iter().map(|bytes| self.parser.parse(bytes));
        Ok(self.converter.convert_rows(rows)?)
    }

    fn relabelled(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let column = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() {
            same if same == field.data_type() => Ok(Arc::clone(column)),
            _ => arrow::compute::cast(column, field.data_type()).map_err(WeirError::from),
        };
        if columns.len() != self.fields.len() {
            return Err(WeirError::internal(format!(
                "{} columns for {} fields of a row",
                columns.len(),
                self.fields.len()
            )));
        }
        columns.iter().zip(&self.fields).map(column).collect()
    }
}

impl EncodedRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of one row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn get(&self, row: usize) -> &[u8] {
        if self.fixed {
            return &[];
        }
        self.rows.row(row).data()
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.count = 0;
    }
}

/// Fields as the text of a [`TableSpec`](weir_runtime::TableSpec).
pub fn fields_text(fields: &Fields) -> String {
    let list: Vec<FieldText> = fields
        .iter()
        .map(|field| FieldText {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
        })
        .collect();
    serde_json::to_string(&list).expect("invariant: names and types are plain text")
}

/// Fields as a person reads them: `k Utf8, v Int64`.
pub(crate) fn columns_text(fields: &Fields) -> String {
    let columns: Vec<String> = fields
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    columns.join(", ")
}

/// The fields that a text of [`fields_text`] lists; all may be null.
///
/// # Errors
/// If the text is no such list or names a type Arrow does not know.
pub fn fields_from_text(text: &str) -> Result<Fields> {
    let damaged = |what: String| WeirError::internal(format!("columns of a state table: {what}"));
    let list: Vec<FieldText> =
        serde_json::from_str(text).map_err(|error| damaged(format!("'{text}': {error}")))?;
    let field = |field: FieldText| {
        let data_type: DataType = field
            .data_type
            .parse()
            .map_err(|error| damaged(format!("type '{}': {error}", field.data_type)))?;
        Ok(Arc::new(Field::new(field.name, data_type, true)))
    };
    list.into_iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int64Array, ListArray, StringArray};
    use arrow::datatypes::{Int64Type, TimeUnit};

    use super::*;

    fn fields() -> Fields {
        Fields::from(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
            Field::new("l", DataType::new_list(DataType::Int64, true), true),
        ])
    }

    fn columns() -> Vec<ArrayRef> {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        vec![
            Arc::new(Int64Array::from(vec![Some(-1), None, Some(i64::MAX)])),
            Arc::new(StringArray::from(vec![None, Some(""), Some("weir")])),
            Arc::new(list),
        ]
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let codec = RowCodec::new(fields()).expect("codec");
        let encoded = codec.encode(&columns(), 3).expect("encode");
        let decoded = codec
            .decode((0..3).map(|row| encoded.get(row)))
            .expect("decode");
        assert_eq!(decoded, columns());
        let one = codec.decode([encoded.get(2)]).expect("decode");
        assert_eq!(one[0].as_primitive::<Int64Type>().value(0), i64::MAX);
    }

    #[test]
    fn a_codec_follows_from_its_text() {
        let mut all: Vec<FieldRef> = fields().iter().cloned().collect();
        let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let inner = Fields::from(vec![Field::new("start", zone.clone(), true)]);
        all.push(Arc::new(Field::new(
            "w \"x\"",
            DataType::Struct(inner),
            true,
        )));
        all.push(Arc::new(Field::new("d", DataType::Decimal128(38, 2), true)));
        let codec = RowCodec::new(all).expect("codec");
        let again = RowCodec::from_text(&codec.text()).expect("parse");
        assert_eq!(again.fields(), codec.fields());
    }

    #[test]
    fn damaged_texts_are_refused() {
        for text in [
            "",
            "{}",
            r#"[{"name":"a"}]"#,
            r#"[{"name":"a","type":"what"}]"#,
        ] {
            assert!(RowCodec::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_codec_without_fields_gives_empty_rows() {
        let codec = RowCodec::new(Fields::empty()).expect("codec");
        let mut encoded = codec.encode(&[], 2).expect("encode");
        assert_eq!((encoded.len(), encoded.get(1)), (2, &[][..]));
        assert!(codec.decode([encoded.get(0)]).expect("decode").is_empty());
        encoded.clear();
        assert!(encoded.is_empty());
    }

    #[test]
    fn a_buffer_is_used_again() {
        let codec = RowCodec::new(fields()).expect("codec");
        let mut buffer = codec.buffer();
        codec.append(&mut buffer, &columns(), 3).expect("append");
        let first = buffer.get(0).to_vec();
        buffer.clear();
        codec.append(&mut buffer, &columns(), 3).expect("append");
        assert_eq!((buffer.len(), buffer.get(0)), (3, first.as_slice()));
    }

    #[test]
    fn nested_fields_of_other_names_are_relabelled() {
        let codec = RowCodec::new(fields()).expect("codec");
        let mut columns = columns();
        let (_, offsets, values, nulls) = columns[2].as_list::<i32>().clone().into_parts();
        let other = Arc::new(Field::new("element", DataType::Int64, false).with_nullable(true));
        columns[2] = Arc::new(ListArray::new(other, offsets, values, nulls));
        let encoded = codec.encode(&columns, 3).expect("encode");
        assert_eq!(columns[2].len(), encoded.len());
    }
}
