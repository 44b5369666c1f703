//! Rows and how often they are there, as entries of an ordered table: what operators keep that must take rows back.
//!
//! An entry's value is the row's bytes followed by the count, both in Arrow's row format, so that a reader of the checkpoint
//! sees the columns of the row and one more, `count`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use weir_runtime::Table;
use weir_runtime::{Result, RowKind, WeirError};

use crate::row_codec::fields_text;

/// Bytes of a count in Arrow's row format: a mark that it is not null, then the number with its sign turned, big end first.
const COUNT_BYTES: usize = 9;
const NOT_NULL: u8 = 1;

/// A row and how often it is there, or how often it is added (taken away if below 0).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) row: Vec<u8>,
    pub(crate) count: i64,
}

impl Counted {
    /// A row that is not there.
    pub(crate) fn none(row: &[u8]) -> Self {
        Self {
            row: row.to_vec(),
            count: 0,
        }
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// If it is too short to be one.
    pub(crate) fn parse(value: &[u8]) -> Result<Self> {
        let Some((row, [NOT_NULL, number @ ..])) = value.split_last_chunk::<COUNT_BYTES>() else {
            return Err(WeirError::internal(format!(
                "an entry of {} bytes is no row with a count",
                value.len()
            )));
        };
        Ok(Self {
            row: row.to_vec(),
            count: i64::from_be_bytes(*number) ^ i64::MIN,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.row.clone();
        bytes.push(NOT_NULL);
        bytes.extend_from_slice(&(self.count ^ i64::MIN).to_be_bytes());
        bytes
    }
}

/// Columns of the values, as text.
pub(crate) fn value_text(row: &Fields) -> String {
    let count = Arc::new(Field::new("count", DataType::Int64, true));
    fields_text(&row.iter().cloned().chain([count]).collect())
}

/// How a row of this kind changes the number of its copies.
pub(crate) fn sign(kind: RowKind) -> i64 {
    match kind {
        RowKind::Insert | RowKind::UpdateAfter => 1,
        RowKind::UpdateBefore | RowKind::Delete => -1,
    }
}

/// Adds a row as often as its count says; an entry whose count becomes 0 goes away.
///
/// # Errors
/// If more copies are taken back than there are; of the store.
pub(crate) fn add(table: &mut Table, group: u32, key: &[u8], change: &Counted) -> Result<()> {
    if change.count == 0 {
        return Ok(());
    }
    let before = match table.get(group, key)? {
        Some(value) => Counted::parse(&value)?.count,
        None => 0,
    };
    match before.checked_add(change.count) {
        Some(0) => table.delete(group, key)?,
        Some(count) if count > 0 => {
            let row = change.row.clone();
            table.put(group, key, &Counted { row, count }.bytes())?;
        }
        _ => {
            return Err(WeirError::data(
                "a row is taken back that was never there: a step before gives other rows for the same input",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use weir_runtime::{OperatorState, TableKind, TableSpec};

    use super::*;
    use crate::row_codec::RowCodec;

    fn state() -> OperatorState {
        OperatorState::in_memory(&[TableSpec {
            name: "rows".to_owned(),
            kind: TableKind::Ordered,
            version: 1,
            key: String::new(),
            value: String::new(),
        }])
    }

    fn counted(count: i64) -> Counted {
        Counted {
            row: b"row".to_vec(),
            count,
        }
    }

    #[test]
    fn a_row_is_there_as_often_as_it_was_added_and_not_taken_back() {
        let mut state = state();
        let table = state.table(0);
        for change in [1, 2, -1] {
            add(table, 7, b"key", &counted(change)).expect("add");
        }
        let value = table.get(7, b"key").expect("get").expect("there");
        assert_eq!(Counted::parse(&value).expect("parse"), counted(2));
        add(table, 7, b"key", &counted(-2)).expect("add");
        assert_eq!(table.get(7, b"key").expect("get"), None);
        assert!(add(table, 7, b"key", &counted(-1)).is_err());
    }

    #[test]
    fn values_can_be_read_as_rows_with_a_count() {
        let fields = Fields::from(vec![Field::new("v", DataType::Int64, true)]);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![5]));
        let row = RowCodec::new(fields.clone())
            .and_then(|codec| codec.encode(&[Arc::clone(&column)], 1))
            .expect("row");
        let value = Counted {
            row: row.get(0).to_vec(),
            count: 3,
        };
        let bytes = value.bytes();
        let codec = RowCodec::from_text(&value_text(&fields)).expect("codec");
        let read = codec.decode([bytes.as_slice()]).expect("decode");
        let count: ArrayRef = Arc::new(Int64Array::from(vec![3]));
        assert_eq!(read, vec![column, count]);
        assert!(Counted::parse(b"short").is_err());
    }
}
