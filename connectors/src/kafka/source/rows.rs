//! Records as rows: bytes go from the client's memory into the columns, and nowhere else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryBuilder, Int32Array, Int64Array, ListBuilder, RecordBatch,
    RecordBatchOptions, StringArray, StringBuilder, StructBuilder, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use rdkafka::Timestamp;
use rdkafka::message::{Headers, Message};
use weir_runtime::{Places, Result, WeirError};

use super::offsets::TopicPartition;

/// Zone of the timestamps' type.
const ZONE: &str = "UTC";

/// Names of all columns, in order.
const COLUMNS: [&str; 8] = [
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
];

/// The columns of the source: `key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType
/// INT` (0: set by the producer, 1: by the broker, -1: none), and `headers ARRAY<STRUCT<key STRING, value BINARY>>` if asked for.
pub(crate) fn schema(headers: bool) -> SchemaRef {
    let count = if headers {
        COLUMNS.len()
    } else {
        COLUMNS.len() - 1
    };
    let field = |name: &&str| Field::new(*name, data_type(name), true);
    Arc::new(Schema::new(
        COLUMNS[..count].iter().map(field).collect::<Vec<_>>(),
    ))
}

fn data_type(column: &str) -> DataType {
    match column {
        "key" | "value" => DataType::Binary,
        "topic" => DataType::Utf8,
        "partition" | "timestampType" => DataType::Int32,
        "offset" => DataType::Int64,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        _ => DataType::List(Arc::new(Field::new("item", header_type(), true))),
    }
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn header_type() -> DataType {
    DataType::Struct(header_fields())
}

type HeaderBuilder = ListBuilder<StructBuilder>;

/// Rows of one partition under construction; only the columns of the schema are filled.
pub(crate) struct Rows {
    schema: SchemaRef,
    rows: usize,
    bytes: usize,
    key: Option<BinaryBuilder>,
    value: Option<BinaryBuilder>,
    offset: Vec<i64>,
    timestamp: Option<Times>,
    headers: Option<HeaderBuilder>,
    /// Partition and offsets of the batch made last.
    last: Option<(TopicPartition, Int64Array)>,
}

impl Rows {
    /// For some of the columns of [`schema`], in any order.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        let has = |name| schema.column_with_name(name).is_some();
        Self {
            rows: 0,
            bytes: 0,
            key: has("key").then(BinaryBuilder::new),
            value: has("value").then(BinaryBuilder::new),
            offset: Vec::new(),
            timestamp: (has("timestamp") || has("timestampType")).then(Times::default),
            headers: has("headers").then(header_builder),
            last: None,
            schema,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of keys, values and headers so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The name of a header that is no UTF-8.
    pub(crate) fn push<M: Message>(&mut self, message: &M) -> Result<()> {
        if let Some(headers) = &mut self.headers {
            self.bytes += push_headers(headers, message)?;
        }
        for (column, bytes) in [
            (&mut self.key, message.key()),
            (&mut self.value, message.payload()),
        ] {
            if let Some(column) = column {
                self.bytes += bytes.map_or(0, <[u8]>::len);
                column.append_option(bytes);
            }
        }
        self.offset.push(message.offset());
        if let Some(times) = &mut self.timestamp {
            times.push(message.timestamp());
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows so far, all of one partition, as a batch; begins anew.
    ///
    /// # Errors
    /// A defect only.
    pub(crate) fn finish(&mut self, at: &TopicPartition) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let offset = Int64Array::from(taken(&mut self.offset));
        self.last = Some((at.clone(), offset.clone()));
        let offset: ArrayRef = Arc::new(offset);
        let times = self.timestamp.as_mut().map(Times::finish);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            columns.push(match field.name().as_str() {
                "key" => finished(&mut self.key)?,
                "value" => finished(&mut self.value)?,
                "topic" => repeated(&at.topic, rows)?,
                "partition" => Arc::new(Int32Array::from_value(at.partition, rows)) as ArrayRef,
                "offset" => Arc::clone(&offset),
                name @ ("timestamp" | "timestampType") => match &times {
                    Some((times, _)) if name == "timestamp" => Arc::clone(times),
                    Some((_, kinds)) => Arc::clone(kinds),
                    None => return Err(absent(name)),
                },
                "headers" => match &mut self.headers {
                    Some(headers) => Arc::new(headers.finish()),
                    None => return Err(absent("headers")),
                },
                other => return Err(absent(other)),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// Topic-partition-offset of each row of the batch made last.
    pub(crate) fn places(&self) -> Option<Places> {
        let (at, offsets) = self.last.clone()?;
        Some(Places::new(move |row| {
            let offset = offsets.values().get(row).copied().unwrap_or(-1);
            place(&at.topic, at.partition, offset)
        }))
    }
}

/// Timestamps under construction.
#[derive(Default)]
struct Times {
    us: Vec<i64>,
    kinds: Vec<i32>,
    /// Rows without one.
    unknown: Vec<usize>,
}

impl Times {
    fn push(&mut self, timestamp: Timestamp) {
        let kind = match timestamp {
            Timestamp::NotAvailable => -1,
            Timestamp::CreateTime(_) => 0,
            Timestamp::LogAppendTime(_) => 1,
        };
        let ms = timestamp.to_millis();
        if ms.is_none() {
            self.unknown.push(self.us.len());
        }
        self.us.push(ms.map_or(0, |ms| ms.saturating_mul(1000)));
        self.kinds.push(kind);
    }

    /// The columns `timestamp` and `timestampType`; begins anew.
    fn finish(&mut self) -> (ArrayRef, ArrayRef) {
        let (us, kinds) = (taken(&mut self.us), taken(&mut self.kinds));
        let known = (!self.unknown.is_empty()).then(|| {
            let mut known = vec![true; us.len()];
            self.unknown.drain(..).for_each(|row| known[row] = false);
            NullBuffer::from(known)
        });
        let times = TimestampMicrosecondArray::new(us.into(), known).with_timezone(ZONE);
        (Arc::new(times), Arc::new(Int32Array::from(kinds)))
    }
}

/// What a column holds; the next batch will be as long, about.
fn taken<T>(column: &mut Vec<T>) -> Vec<T> {
    let length = column.len();
    std::mem::replace(column, Vec::with_capacity(length))
}

/// How a record is named.
fn place(topic: &str, partition: i32, offset: i64) -> String {
    format!("{topic}-{partition}-{offset}")
}

fn header_builder() -> HeaderBuilder {
    let builder = StructBuilder::new(
        header_fields(),
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    );
    ListBuilder::new(builder).with_field(Field::new("item", header_type(), true))
}

/// Headers in their order, names as often as they occur; a record without headers has null. Gives their bytes.
fn push_headers<M: Message>(list: &mut HeaderBuilder, message: &M) -> Result<usize> {
    let Some(headers) = message.headers().filter(|headers| headers.count() > 0) else {
        list.append_null();
        return Ok(0);
    };
    let mut bytes = 0;
    for index in 0..headers.count() {
        // The client library takes names for UTF-8 and panics where they are not.
        let header = std::panic::catch_unwind(AssertUnwindSafe(|| headers.get(index)));
        let header = header.map_err(|_| {
            WeirError::data(format!(
                "the name of header {index} of the record is no UTF-8"
            ))
            .at_position(place(
                message.topic(),
                message.partition(),
                message.offset(),
            ))
        })?;
        bytes += header.key.len() + header.value.map_or(0, <[u8]>::len);
        let item = list.values();
        if let Some(name) = item.field_builder::<StringBuilder>(0) {
            name.append_value(header.key);
        }
        if let Some(value) = item.field_builder::<BinaryBuilder>(1) {
            value.append_option(header.value);
        }
        item.append(true);
    }
    list.append(true);
    Ok(bytes)
}

fn finished(builder: &mut Option<BinaryBuilder>) -> Result<ArrayRef> {
    let Some(builder) = builder else {
        return Err(absent("key or value"));
    };
    let array = builder.finish();
    // The next batch will be as large, about: it does not have to grow to that by doubling.
    *builder = BinaryBuilder::with_capacity(array.len(), array.value_data().len());
    Ok(Arc::new(array))
}

/// The same text in every row.
fn repeated(text: &str, rows: usize) -> Result<ArrayRef> {
    let length = i32::try_from(text.len() * rows)
        .map_err(|_| WeirError::internal("a batch holds too many rows"))?;
    let step = text.len();
    let offsets: ScalarBuffer<i32> = match step {
        0 => vec![0; rows + 1].into(),
        step => (0..=length).step_by(step).collect::<Vec<i32>>().into(),
    };
    let values = text.repeat(rows).into_bytes();
    let array = StringArray::try_new(OffsetBuffer::new(offsets), values.into(), None)?;
    Ok(Arc::new(array))
}

fn absent(column: &str) -> WeirError {
    WeirError::internal(format!("column '{column}' of source 'kafka' is not filled"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

    fn message(key: Option<&[u8]>, value: Option<&[u8]>, offset: i64) -> OwnedMessage {
        OwnedMessage::new(
            value.map(<[u8]>::to_vec),
            key.map(<[u8]>::to_vec),
            "t".to_owned(),
            Timestamp::CreateTime(1_700_000_000_123),
            3,
            offset,
            None,
        )
    }

    fn at() -> TopicPartition {
        TopicPartition::new("t", 3)
    }

    #[test]
    fn p095_null_and_empty_are_not_the_same() {
        let mut rows = Rows::new(schema(false));
        rows.push(&message(None, Some(b""), 7)).expect("pushed");
        rows.push(&message(Some(b""), None, 9)).expect("pushed");
        let batch = rows.finish(&at()).expect("batch");
        let (key, value) = (
            batch.column(0).as_binary::<i32>(),
            batch.column(1).as_binary::<i32>(),
        );
        assert!(key.is_null(0) && !key.is_null(1) && value.is_null(1) && !value.is_null(0));
        assert_eq!((key.value(1), value.value(0)), (&b""[..], &b""[..]));
        assert_eq!(batch.column(2).as_string::<i32>().value(1), "t");
        assert_eq!(batch.column(3).as_primitive::<Int32Type>().value(1), 3);
        assert_eq!(
            batch.column(4).as_primitive::<Int64Type>().values(),
            &[7, 9]
        );
        let times = batch.column(5).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.value(0), 1_700_000_000_123_000);
        assert_eq!(batch.column(6).as_primitive::<Int32Type>().value(0), 0);
        assert!(rows.is_empty());
    }

    #[test]
    fn times_that_are_not_known_are_null_and_the_others_keep_their_places() {
        let mut rows = Rows::new(schema(false));
        let of = |timestamp, offset| {
            let message = message(None, None, offset);
            message.set_timestamp(timestamp)
        };
        for batch in [[1, 2, 3], [4, 5, 6]] {
            let times = [
                Timestamp::LogAppendTime(batch[0]),
                Timestamp::NotAvailable,
                Timestamp::CreateTime(batch[2]),
            ];
            for (time, offset) in times.into_iter().zip(batch) {
                rows.push(&of(time, offset)).expect("pushed");
            }
            let batch_of_rows = rows.finish(&at()).expect("batch");
            let times = batch_of_rows
                .column(5)
                .as_primitive::<TimestampMicrosecondType>();
            assert_eq!(
                times.iter().collect::<Vec<_>>(),
                [Some(batch[0] * 1000), None, Some(batch[2] * 1000)]
            );
            let kinds = batch_of_rows.column(6).as_primitive::<Int32Type>();
            assert_eq!(kinds.values(), &[1, -1, 0]);
        }
    }

    #[test]
    fn p097_headers_keep_order_duplicates_and_nulls() {
        let value = |text: &'static str| Some(text.as_bytes());
        let headers = OwnedHeaders::new()
            .insert(Header {
                key: "trace",
                value: value("a"),
            })
            .insert(Header {
                key: "trace",
                value: value("b"),
            })
            .insert(Header {
                key: "n",
                value: None::<&[u8]>,
            })
            .insert(Header {
                key: "e",
                value: value(""),
            });
        let mut rows = Rows::new(schema(true));
        rows.push(&message(None, None, 0).replace_headers(Some(headers)))
            .expect("pushed");
        rows.push(&message(None, None, 1)).expect("pushed");
        let batch = rows.finish(&at()).expect("batch");
        let list = batch.column(7).as_list::<i32>();
        assert!(list.is_null(1));
        let items = list.value(0);
        let items = items.as_struct();
        let names = items.column(0).as_string::<i32>();
        assert_eq!(
            names.iter().flatten().collect::<Vec<_>>(),
            ["trace", "trace", "n", "e"]
        );
        let values = items.column(1).as_binary::<i32>();
        let values: Vec<Option<&[u8]>> = values.iter().collect();
        assert_eq!(values, [Some(&b"a"[..]), Some(b"b"), None, Some(b"")]);
    }

    #[test]
    fn columns_left_out_are_not_filled() {
        let all = schema(true);
        let some = Arc::new(all.project(&[4, 2]).expect("columns"));
        let mut rows = Rows::new(some);
        rows.push(&message(Some(b"k"), Some(b"v"), 5))
            .expect("pushed");
        assert_eq!(rows.bytes(), 0);
        let batch = rows.finish(&at()).expect("batch");
        assert_eq!(batch.num_columns(), 2);
        let none = Arc::new(Schema::empty());
        let mut rows = Rows::new(none);
        rows.push(&message(None, None, 5)).expect("pushed");
        assert_eq!(rows.finish(&at()).expect("batch").num_rows(), 1);
    }
}
