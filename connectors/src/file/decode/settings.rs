//! What all text formats need to know before the first byte.

use std::{str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::parse::{Zone, parse_date, parse_timestamp, parse_timestamp_ntz};
use super::{BadRecordSink, DecodeError};
use crate::file::pattern::TimePattern;

/// What happens to a record that does not fit the schema (Spark's option `mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParseMode {
    /// Bad fields become null, an unreadable record becomes a row of nulls.
    #[default]
    Permissive,
    /// The record is left out.
    DropMalformed,
    /// Reading stops with an error.
    FailFast,
}

impl FromStr for ParseMode {
    type Err = DecodeError;

    /// The option's text, in any letter case. Unlike Spark, which falls back to PERMISSIVE, an unknown text is an error.
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        match text.to_ascii_uppercase().as_str() {
            "PERMISSIVE" => Ok(Self::Permissive),
            "DROPMALFORMED" => Ok(Self::DropMalformed),
            "FAILFAST" => Ok(Self::FailFast),
            _ => Err(DecodeError::UnknownMode {
                mode: text.to_owned(),
            }),
        }
    }
}

/// Settings shared by the text formats.
#[derive(Debug, Clone)]
pub struct DecodeSettings {
    /// Columns to produce, in order. Only these are decoded; give the pruned schema.
    pub schema: SchemaRef,
    /// What happens to bad records.
    pub mode: ParseMode,
    /// Name of the STRING column that takes the text of bad records; it matters only when the schema has that column.
    pub corrupt_column: String,
    /// Rows after which a batch is full.
    pub batch_rows: usize,
    /// Bytes of input after which a batch is full, even with fewer rows.
    pub batch_bytes: usize,
    /// Longest record in bytes; at most [`DecodeSettings::MAX_RECORD_BYTES`] counts.
    pub max_record_bytes: usize,
    /// Zone of timestamps that name none (Spark's `timeZone`, by default the session's zone).
    pub time_zone: Zone,
    /// Spelling of dates and times.
    pub patterns: TimePatterns,
    /// Takes bad records, whatever the mode makes of them.
    pub bad_records: Option<Arc<dyn BadRecordSink>>,
}

/// Patterns of dates and times in text; without one, ISO 8601 and what Spark casts from text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimePatterns {
    /// `dateFormat`.
    pub date: Option<Arc<TimePattern>>,
    /// `timestampFormat`.
    pub timestamp: Option<Arc<TimePattern>>,
    /// `timestampNTZFormat`.
    pub local: Option<Arc<TimePattern>>,
    /// `enableDateTimeParsingFallback`: take what needs no pattern where a pattern does not fit.
    pub fallback: bool,
}

impl TimePatterns {
    fn or<T>(&self, fits: Option<T>, plain: impl FnOnce() -> Option<T>) -> Option<T> {
        fits.or_else(|| self.fallback.then(plain).flatten())
    }

    /// A DATE in days since 1970-01-01.
    pub(crate) fn date(&self, text: &[u8]) -> Option<i32> {
        match &self.date {
            None => parse_date(text),
            Some(pattern) => self.or(pattern.parse_date(text), || parse_date(text)),
        }
    }

    /// A TIMESTAMP in microseconds.
    pub(crate) fn timestamp(&self, text: &[u8], zone: Zone) -> Option<i64> {
        match &self.timestamp {
            None => parse_timestamp(text, zone),
            Some(pattern) => self.or(pattern.parse_timestamp(text, zone), || {
                parse_timestamp(text, zone)
            }),
        }
    }

    /// A TIMESTAMP_NTZ in microseconds.
    pub(crate) fn local(&self, text: &[u8]) -> Option<i64> {
        match &self.local {
            None => parse_timestamp_ntz(text, false),
            Some(pattern) => self.or(pattern.parse_timestamp_ntz(text), || {
                parse_timestamp_ntz(text, false)
            }),
        }
    }
}

impl DecodeSettings {
    /// Upper limit of [`DecodeSettings::max_record_bytes`] and its default: text columns have 31-bit offsets.
    pub const MAX_RECORD_BYTES: usize = 256 << 20;

    /// Spark's defaults for `schema`, with every column made nullable, nested ones too (Spark's rule for file sources: a
    /// missing or bad value is null whatever the schema says).
    pub fn new(schema: &Schema) -> Self {
        Self {
            schema: nullable_schema(schema),
            mode: ParseMode::default(),
            corrupt_column: "_corrupt_record".to_owned(),
            batch_rows: 8192,
            batch_bytes: 32 << 20,
            max_record_bytes: Self::MAX_RECORD_BYTES,
            time_zone: Zone::default(),
            patterns: TimePatterns::default(),
            bad_records: None,
        }
    }

    /// [`DecodeSettings::max_record_bytes`] within its limit.
    pub(crate) fn record_limit(&self) -> usize {
        self.max_record_bytes.min(Self::MAX_RECORD_BYTES)
    }

    /// Whether a batch of that much input is full.
    pub(crate) fn is_full(&self, rows: usize, bytes: usize) -> bool {
        rows >= self.batch_rows.max(1) || bytes >= self.batch_bytes.min(Self::MAX_RECORD_BYTES)
    }

    /// Index of the corrupt-record column, if the schema has one.
    ///
    /// # Errors
    /// [`DecodeError::CorruptColumn`] when it is not text.
    pub(crate) fn corrupt_index(&self) -> Result<Option<usize>, DecodeError> {
        let Some((index, field)) = self.schema.column_with_name(&self.corrupt_column) else {
            return Ok(None);
        };
        match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(Some(index)),
            other => Err(DecodeError::CorruptColumn {
                column: self.corrupt_column.clone(),
                data_type: other.to_string(),
            }),
        }
    }
}

/// `schema` with every column nullable, at every depth; map keys stay as they are.
pub fn nullable_schema(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(nullable_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn nullable_field(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nullable_field).collect()),
        DataType::List(element) => DataType::List(nullable_field(element)),
        DataType::Map(entries, sorted) => DataType::Map(nullable_entries(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(
        field
            .as_ref()
            .clone()
            .with_data_type(data_type)
            .with_nullable(true),
    )
}

fn nullable_entries(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else {
        return Arc::clone(entries);
    };
    let fields: Vec<FieldRef> = fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            if index == 0 {
                Arc::clone(field)
            } else {
                nullable_field(field)
            }
        })
        .collect();
    Arc::new(Field::new(
        entries.name(),
        DataType::Struct(fields.into()),
        entries.is_nullable(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_text_is_case_insensitive_and_unknown_text_lists_what_is_allowed() {
        assert_eq!(
            "failFast".parse::<ParseMode>().ok(),
            Some(ParseMode::FailFast)
        );
        assert_eq!(
            "dropmalformed".parse::<ParseMode>().ok(),
            Some(ParseMode::DropMalformed)
        );
        let error = "lenient".parse::<ParseMode>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown mode \"lenient\" (allowed: PERMISSIVE, DROPMALFORMED, FAILFAST)"
        );
    }

    #[test]
    fn settings_make_every_column_nullable_except_map_keys() {
        let entries = DataType::Struct(Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Int32, false),
        ]));
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        let inner = DataType::Struct(vec![Field::new("m", map, false)].into());
        let settings = DecodeSettings::new(&Schema::new(vec![Field::new("s", inner, false)]));
        let DataType::Struct(fields) = settings.schema.field(0).data_type() else {
            panic!("a struct")
        };
        assert!(settings.schema.field(0).is_nullable() && fields[0].is_nullable());
        let DataType::Map(entries, _) = fields[0].data_type() else {
            panic!("a map")
        };
        let DataType::Struct(fields) = entries.data_type() else {
            panic!("entries")
        };
        assert!(!entries.is_nullable() && !fields[0].is_nullable() && fields[1].is_nullable());
    }

    #[test]
    fn corrupt_column_that_is_not_text_is_refused() {
        let schema = Schema::new(vec![Field::new("_corrupt_record", DataType::Int32, true)]);
        assert!(DecodeSettings::new(&schema).corrupt_index().is_err());
    }
}
