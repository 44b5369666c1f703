//! Readers: what `read_stream()` and `read()` return.

mod bounded;
mod state;
mod stream;

pub use bounded::DataFrameReader;
pub use stream::DataStreamReader;

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use weir_runtime::{Result, WeirError};

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

/// Option texts by name; names are compared in any letter case, the last value given counts.
#[derive(Debug, Clone, Default)]
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
