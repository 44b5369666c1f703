//! Objects: which column a name belongs to, and rows of named columns.

use std::collections::HashMap;

use arrow::{
    array::{ArrayRef, NullBufferBuilder, StructArray},
    datatypes::Fields,
    error::ArrowError,
};

use super::{
    super::parse::words,
    column::Column,
    cursor::{Cursor, Syntax},
};

/// Above this many fields a name is looked up in a table instead of one after the other.
const LINEAR_FIELDS: usize = 16;

/// A name as it stands in the text, prepared for comparing eight bytes at once.
struct Pattern {
    /// The name and its closing quote.
    bytes: Vec<u8>,
    /// Its first eight bytes; bytes behind its end are zero in both.
    head: u64,
    mask: u64,
}

impl Pattern {
    fn new(name: &str) -> Self {
        let mut bytes = name.as_bytes().to_vec();
        bytes.push(b'"');
        let mask = if bytes.len() >= 8 {
            u64::MAX
        } else {
            (1 << (8 * bytes.len())) - 1
        };
        Self {
            head: words::word_or_end(&bytes, 0),
            mask,
            bytes,
        }
    }

    fn name(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 1]
    }

    /// Whether the text at `at` (behind an opening quote) is this name up to its closing quote.
    #[inline]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        match words::word_at(text, at) {
            Some(word) if word & self.mask == self.head => {
                self.bytes.len() <= 8 || text[at + 8..].starts_with(&self.bytes[8..])
            }
            Some(_) => false,
            None => text[at..].starts_with(&self.bytes),
        }
    }
}

/// Rows of named columns.
pub(super) struct ObjectColumn {
    fields: Fields,
    patterns: Vec<Pattern>,
    pub(super) columns: Vec<Column>,
    /// Only for many fields.
    table: HashMap<Vec<u8>, usize>,
    /// The column no name reaches: it takes the text of bad records.
    hidden: Option<usize>,
    /// Finished rows; as long as `validity`.
    rows: usize,
    pub(super) validity: NullBufferBuilder,
}

impl ObjectColumn {
    /// `columns` in the order of `fields`; `hidden` is a field that names in the text never mean.
    pub(super) fn new(fields: Fields, columns: Vec<Column>, hidden: Option<usize>) -> Self {
        let patterns: Vec<Pattern> = fields
            .iter()
            .map(|field| Pattern::new(field.name()))
            .collect();
        let mut table = HashMap::new();
        if patterns.len() > LINEAR_FIELDS {
            for (index, pattern) in patterns
                .iter()
                .enumerate()
                .filter(|(index, _)| Some(*index) != hidden)
            {
                table.entry(pattern.name().to_vec()).or_insert(index);
            }
        }
        Self {
            fields,
            patterns,
            columns,
            table,
            hidden,
            rows: 0,
            validity: NullBufferBuilder::new(0),
        }
    }

    /// The fields, in column order.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Finished rows.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Passes a field's name and colon; the index of its column, `None` for a name that is not in the schema.
    ///
    /// `expected` is tried first: records of one file mostly have their fields in one order.
    #[inline]
    pub(super) fn field_at(
        &self,
        cursor: &mut Cursor<'_>,
        expected: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<usize>, Syntax> {
        if cursor.token()? == b'"'
            && Some(expected) != self.hidden
            && let Some(pattern) = self.patterns.get(expected)
            && pattern.is_at(cursor.text, cursor.pos + 1)
        {
            cursor.pos += 1 + pattern.bytes.len();
            cursor.colon()?;
            return Ok(Some(expected));
        }
        let name = cursor.name(scratch)?;
        let index = self.index_of(name.bytes(scratch));
        cursor.colon()?;
        Ok(index)
    }

    fn index_of(&self, name: &[u8]) -> Option<usize> {
        if self.patterns.len() > LINEAR_FIELDS {
            return self.table.get(name).copied();
        }
        (0..self.patterns.len())
            .find(|index| self.patterns[*index].name() == name && Some(*index) != self.hidden)
    }

    /// Ends a row: columns without a value get a null. `appended` is how many have one.
    #[inline]
    pub(super) fn end_row(&mut self, appended: usize) {
        let rows = self.rows;
        if appended < self.columns.len() {
            for column in &mut self.columns {
                if column.len() == rows {
                    column.append_null();
                }
            }
        }
        self.validity.append_non_null();
        self.rows += 1;
    }

    pub(super) fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Column::append_null);
        self.validity.append_null();
        self.rows += 1;
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.columns
            .iter_mut()
            .for_each(|column| column.truncate(rows));
        self.validity.truncate(rows);
        self.rows = rows;
    }

    /// The columns alone, for a record batch.
    pub(super) fn finish_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.validity = NullBufferBuilder::new(0);
        self.rows = 0;
        self.columns_of_fields()
    }

    fn columns_of_fields(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns
            .iter_mut()
            .zip(self.fields.iter())
            .map(|(column, field)| column.finish(field.data_type()))
            .collect()
    }

    pub(super) fn finish(&mut self) -> Result<StructArray, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        let columns = self.columns_of_fields()?;
        StructArray::try_new_with_length(self.fields.clone(), columns, self.validity.finish(), rows)
    }
}
