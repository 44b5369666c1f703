//! The sessions of one key as bytes: for each its length (u32, little-endian) and its row, by start.
//!
//! A row begins with the start and the end of the session, which are read in place: two timestamps that are never null.

use weir_runtime::{Result, WeirError};

/// Bytes of a start or an end in a row: one that says "not null" and eight of the time.
const TIME: usize = 9;
/// Bytes in front of a row.
const LENGTH: usize = size_of::<u32>();

/// One session of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    /// First moment, in microseconds.
    pub(super) start: i64,
    /// First moment after it.
    pub(super) end: i64,
    /// Start, end and states as one row.
    pub(super) row: &'a [u8],
}

/// Appends a session's row to a list.
pub(super) fn push(list: &mut Vec<u8>, row: &[u8]) {
    let length =
        u32::try_from(row.len()).expect("invariant: a state row has fewer than 2^32 bytes");
    list.extend_from_slice(&length.to_le_bytes());
    list.extend_from_slice(row);
}

/// The sessions of a list, in order.
pub(super) fn sessions(list: &[u8]) -> Sessions<'_> {
    Sessions(list)
}

/// Iterator over a list.
pub(super) struct Sessions<'a>(&'a [u8]);

impl<'a> Iterator for Sessions<'a> {
    type Item = Result<Stored<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match split(self.0) {
            Some((stored, rest)) => {
                self.0 = rest;
                Some(Ok(stored))
            }
            None => {
                self.0 = &[];
                Some(Err(WeirError::internal(
                    "a stored list of sessions is damaged",
                )))
            }
        }
    }
}

fn split(list: &[u8]) -> Option<(Stored<'_>, &[u8])> {
    let (length, rest) = list.split_first_chunk::<LENGTH>()?;
    let (row, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let stored = Stored {
        start: time(row)?,
        end: time(row.get(TIME..)?)?,
        row,
    };
    Some((stored, rest))
}

/// A time in Arrow's row encoding: big-endian with the sign bit turned.
fn time(row: &[u8]) -> Option<i64> {
    let bytes = row.get(1..TIME)?.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;
    use crate::row_codec::RowCodec;

    #[test]
    fn sessions_come_back_in_order_with_their_times() {
        let time = |name| {
            Field::new(
                name,
                DataType::Timestamp(TimeUnit::Microsecond, None),
                false,
            )
        };
        let fields = vec![
            time("start"),
            time("end"),
            Field::new("n", DataType::Int64, true),
        ];
        let codec = RowCodec::new(fields).expect("codec");
        let times =
            |values: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(values)) as ArrayRef;
        let columns = [
            times(vec![-5, 7]),
            times(vec![0, i64::MAX]),
            Arc::new(Int64Array::from(vec![None, Some(3)])) as ArrayRef,
        ];
        let rows = codec.encode(&columns, 2).expect("encode");
        let mut list = Vec::new();
        push(&mut list, rows.get(0));
        push(&mut list, rows.get(1));
        let found: Vec<_> = sessions(&list)
            .map(|stored| stored.expect("whole"))
            .collect();
        assert_eq!((found[0].start, found[0].end), (-5, 0));
        assert_eq!((found[1].start, found[1].end), (7, i64::MAX));
        assert_eq!(found[1].row, rows.get(1));
    }

    #[test]
    fn damaged_lists_are_reported() {
        for list in [&[1_u8][..], &[9, 0, 0, 0, 1], &[1, 0, 0, 0, 1]] {
            assert!(sessions(list).any(|stored| stored.is_err()), "{list:?}");
        }
    }
}
