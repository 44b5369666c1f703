//! Readers: what `read_stream()` and `read()` return.

mod bounded;
mod file_table;
mod source_table;
mod state;
mod stream;

pub use bounded::DataFrameReader;
pub use stream::DataStreamReader;

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use weir_runtime::{Result, WeirError};

use crate::session::{KAFKA_DISALLOWED, Session};
use crate::types::parse_schema;

/// Columns given by the user: Spark's schema text (`"id BIGINT, ts TIMESTAMP"`) or an Arrow schema.
pub trait IntoSchema {
    /// The columns.
    ///
    /// # Errors
    /// If the text is no schema.
    fn into_schema(self) -> Result<SchemaRef>;
}

impl IntoSchema for &str {
    fn into_schema(self) -> Result<SchemaRef> {
        parse_schema(self).map_err(|error| {
            WeirError::plan(format!("schema '{self}': {error}"))
                .with_condition("PARSE_SYNTAX_ERROR")
        })
    }
}

impl IntoSchema for String {
    fn into_schema(self) -> Result<SchemaRef> {
        self.as_str().into_schema()
    }
}

impl IntoSchema for SchemaRef {
    fn into_schema(self) -> Result<SchemaRef> {
        Ok(self)
    }
}

/// Refuses options of a Kafka source or sink that the session's setting `spark.sql.kafka.disallowedOptions` names, with or without
/// `kafka.` before properties of the client.
pub(crate) fn check_kafka_options(session: &Session, options: &OptionTexts) -> Result<()> {
    let disallowed = session.settings().get(KAFKA_DISALLOWED).unwrap_or_default();
    for name in disallowed.split(',').map(str::trim) {
        let property = format!("kafka.{name}");
        if let Some(given) = [name, property.as_str()]
            .into_iter()
            .find(|name| !name.is_empty() && options.get(name).is_some())
        {
            return Err(WeirError::config(format!(
                "option '{given}' of kafka is not allowed by the session's setting '{KAFKA_DISALLOWED}'"
            )));
        }
    }
    Ok(())
}

/// Option texts by name; names are compared in any letter case, the last value given counts.
#[derive(Clone, Default)]
pub(crate) struct OptionTexts(BTreeMap<String, String>);

impl OptionTexts {
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.0.retain(|known, _| !known.eq_ignore_ascii_case(name));
        self.0.insert(name.to_owned(), value.to_string());
    }

    /// Takes an option out.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let known = self
            .0
            .keys()
            .find(|known| known.eq_ignore_ascii_case(name))
            .cloned()?;
        self.0.remove(&known)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn texts(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}
