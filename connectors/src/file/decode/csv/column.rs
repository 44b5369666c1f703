//! Fields of records to values of columns.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use arrow::error::ArrowError;

use super::options::CsvOptions;
use crate::file::decode::parse::{
    Zone, parse_bool, parse_decimal, parse_f32, parse_f64, parse_i8, parse_i16, parse_i32,
    parse_i64,
};
use crate::file::decode::{DecodeSettings, TimePatterns};

/// The types CSV can give, for messages.
pub(super) const ALLOWED: &str = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY";

/// Collects the values of one column.
pub(super) struct Column {
    field: FieldRef,
    values: Values,
}

enum Values {
    Boolean(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder, u8, i8),
    Date(Date32Builder),
    Instant(TimestampMicrosecondBuilder),
    Local(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    Binary(BinaryBuilder),
}

/// What the text of a field means, apart from its type.
#[derive(Debug, Clone)]
pub(super) struct Meaning {
    null: Vec<u8>,
    empty: Vec<u8>,
    nan: Vec<u8>,
    positive_inf: Vec<u8>,
    negative_inf: Vec<u8>,
    max_chars: Option<usize>,
    zone: Zone,
    patterns: TimePatterns,
}

impl Meaning {
    pub(super) fn new(options: &CsvOptions, settings: &DecodeSettings) -> Self {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Self {
            null: bytes(&options.null_value),
            empty: bytes(&options.empty_value),
            nan: bytes(&options.nan_value),
            positive_inf: bytes(&options.positive_inf),
            negative_inf: bytes(&options.negative_inf),
            max_chars: options.max_chars_per_column,
            zone: settings.time_zone,
            patterns: settings.patterns.clone(),
        }
    }

    /// The spellings of floats that are not numbers; Java's own work besides the options'.
    fn word(&self, text: &[u8]) -> Option<f64> {
        if text == self.nan || text == b"NaN" {
            Some(f64::NAN)
        } else if text == self.positive_inf || text == b"Infinity" || text == b"+Infinity" {
            Some(f64::INFINITY)
        } else if text == self.negative_inf || text == b"-Infinity" {
            Some(f64::NEG_INFINITY)
        } else {
            None
        }
    }

    fn is_too_long(&self, text: &[u8]) -> bool {
        self.max_chars.is_some_and(|limit| {
            // Characters are counted by the bytes that begin one.
            text.len() > limit && text.iter().filter(|byte| **byte & 0xC0 != 0x80).count() > limit
        })
    }
}

/// The value of one text in a column of this type, in the default spellings; `None` if it is none.
pub(crate) fn value_of(
    field: &FieldRef,
    text: &str,
    settings: &DecodeSettings,
) -> Option<ArrayRef> {
    let mut column = Column::new(field)?;
    let meaning = Meaning {
        patterns: TimePatterns::default(),
        ..Meaning::new(&CsvOptions::default(), settings)
    };
    let fits = column.append_value(text.as_bytes(), &meaning);
    fits.then(|| column.finish().ok()).flatten()
}

impl Column {
    /// A column for `field`; None if CSV cannot give its type.
    pub(super) fn new(field: &FieldRef) -> Option<Self> {
        use DataType as T;
        let values = match field.data_type() {
            T::Boolean => Values::Boolean(BooleanBuilder::new()),
            T::Int8 => Values::Int8(Int8Builder::new()),
            T::Int16 => Values::Int16(Int16Builder::new()),
            T::Int32 => Values::Int32(Int32Builder::new()),
            T::Int64 => Values::Int64(Int64Builder::new()),
            T::Float32 => Values::Float32(Float32Builder::new()),
            T::Float64 => Values::Float64(Float64Builder::new()),
            T::Decimal128(precision, scale) => Values::Decimal(
                Decimal128Builder::new().with_data_type(field.data_type().clone()),
                *precision,
                *scale,
            ),
            T::Date32 => Values::Date(Date32Builder::new()),
            T::Timestamp(TimeUnit::Microsecond, zone) => {
                let builder = TimestampMicrosecondBuilder::new();
                match zone {
                    Some(_) => Values::Instant(builder.with_timezone_opt(zone.clone())),
                    None => Values::Local(builder),
                }
            }
            T::Utf8 | T::LargeUtf8 | T::Utf8View => Values::Text(StringBuilder::new()),
            T::Binary | T::LargeBinary | T::BinaryView => Values::Binary(BinaryBuilder::new()),
            _ => return None,
        };
        Some(Self {
            field: Arc::clone(field),
            values,
        })
    }

    /// The field of the schema that is filled.
    pub(super) fn field(&self) -> &Field {
        &self.field
    }

    /// Appends what a field of a record means: NULL, or the value of `text`. Text that is no value of the type becomes
    /// NULL and the answer is false.
    pub(super) fn append(&mut self, text: &[u8], quoted: bool, meaning: &Meaning) -> bool {
        let is_text = matches!(self.values, Values::Text(_) | Values::Binary(_));
        if text.is_empty() {
            if !quoted {
                self.append_null();
                return true;
            }
            let null = meaning.empty == meaning.null && !(is_text && meaning.null.is_empty());
            return self.append_unless(null, &meaning.empty, meaning);
        }
        self.append_unless(text == meaning.null, text, meaning)
    }

    fn append_unless(&mut self, null: bool, text: &[u8], meaning: &Meaning) -> bool {
        let good = !null && !meaning.is_too_long(text) && self.append_value(text, meaning);
        if !good {
            self.append_null();
        }
        good || null
    }

    /// Appends the value of `text`, or nothing and answers false if it is none.
    fn append_value(&mut self, text: &[u8], meaning: &Meaning) -> bool {
        macro_rules! push {
            ($builder:expr, $value:expr) => {
                $value.map(|value| $builder.append_value(value)).is_some()
            };
        }
        match &mut self.values {
            Values::Boolean(builder) => push!(builder, parse_bool(text)),
            Values::Int8(builder) => push!(builder, parse_i8(text)),
            Values::Int16(builder) => push!(builder, parse_i16(text)),
            Values::Int32(builder) => push!(builder, parse_i32(text)),
            Values::Int64(builder) => push!(builder, parse_i64(text)),
            Values::Float32(builder) => {
                let text = text.trim_ascii();
                let word = || meaning.word(text).map(|word| word as f32);
                push!(builder, parse_f32(text).or_else(word))
            }
            Values::Float64(builder) => {
                let text = text.trim_ascii();
                push!(builder, parse_f64(text).or_else(|| meaning.word(text)))
            }
            Values::Decimal(builder, precision, scale) => {
                push!(builder, parse_decimal(text, *precision, *scale))
            }
            Values::Date(builder) => push!(builder, meaning.patterns.date(text)),
            Values::Instant(builder) => {
                push!(builder, meaning.patterns.timestamp(text, meaning.zone))
            }
            Values::Local(builder) => push!(builder, meaning.patterns.local(text)),
            Values::Text(builder) => push!(builder, std::str::from_utf8(text).ok()),
            Values::Binary(builder) => {
                builder.append_value(text);
                true
            }
        }
    }

    /// Appends a NULL.
    pub(super) fn append_null(&mut self) {
        match &mut self.values {
            Values::Boolean(builder) => builder.append_null(),
            Values::Int8(builder) => builder.append_null(),
            Values::Int16(builder) => builder.append_null(),
            Values::Int32(builder) => builder.append_null(),
            Values::Int64(builder) => builder.append_null(),
            Values::Float32(builder) => builder.append_null(),
            Values::Float64(builder) => builder.append_null(),
            Values::Decimal(builder, ..) => builder.append_null(),
            Values::Date(builder) => builder.append_null(),
            Values::Instant(builder) | Values::Local(builder) => builder.append_null(),
            Values::Text(builder) => builder.append_null(),
            Values::Binary(builder) => builder.append_null(),
        }
    }

    /// Appends a text as it is; for the column of bad records, which is of type STRING.
    pub(super) fn append_raw(&mut self, raw: &[u8]) {
        match &mut self.values {
            Values::Text(builder) => builder.append_value(String::from_utf8_lossy(raw)),
            _ => self.append_null(),
        }
    }

    /// Hands out the values collected so far, in the type of the schema.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(builder) => Arc::new(builder.finish()),
            Values::Int8(builder) => Arc::new(builder.finish()),
            Values::Int16(builder) => Arc::new(builder.finish()),
            Values::Int32(builder) => Arc::new(builder.finish()),
            Values::Int64(builder) => Arc::new(builder.finish()),
            Values::Float32(builder) => Arc::new(builder.finish()),
            Values::Float64(builder) => Arc::new(builder.finish()),
            Values::Decimal(builder, ..) => Arc::new(builder.finish()),
            Values::Date(builder) => Arc::new(builder.finish()),
            Values::Instant(builder) | Values::Local(builder) => Arc::new(builder.finish()),
            Values::Text(builder) => Arc::new(builder.finish()),
            Values::Binary(builder) => Arc::new(builder.finish()),
        };
        if array.data_type() == self.field.data_type() {
            Ok(array)
        } else {
            cast(&array, self.field.data_type())
        }
    }
}
