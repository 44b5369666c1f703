//! From results before and after an epoch to the changes that are emitted.

use arrow::array::{ArrayRef, UInt8Array};
use weir_runtime::{Result, RowKind, Rows};

use super::Shape;
use crate::expression::batch_of;
use crate::row_codec::RowCodec;

/// Encodes results, and turns them into rows of the output.
pub(super) struct Results {
    pub(super) keys: RowCodec,
    pub(super) codec: RowCodec,
}

/// What a group was before the epoch and is after it: its encoded results, `None` where there is no group.
pub(super) struct Change<'a> {
    pub(super) key: &'a [u8],
    pub(super) old: Option<Vec<u8>>,
    pub(super) new: Option<Vec<u8>>,
}

impl Results {
    pub(super) fn new(shape: &Shape) -> Result<Self> {
        Ok(Self {
            keys: RowCodec::new(shape.keys.clone())?,
            codec: RowCodec::new(shape.results.clone())?,
        })
    }

    /// Results of `groups` groups as bytes, one for each.
    pub(super) fn encode(&self, columns: &[ArrayRef], groups: usize) -> Result<Vec<Vec<u8>>> {
        let encoded = self.codec.encode(columns, groups)?;
        Ok((0..groups)
            .map(|group| encoded.get(group).to_vec())
            .collect())
    }

    /// The rows that tell these changes; a group whose results stay the same is not told.
    pub(super) fn rows(&self, changes: &[Change<'_>], shape: &Shape) -> Result<Rows> {
        let before = shape.aggregation.emit_before;
        let mut told: Vec<(&[u8], &[u8], RowKind)> = Vec::new();
        for Change { key, old, new } in changes {
            match (old, new) {
                (Some(old), Some(new)) if old != new => {
                    if before {
                        told.push((key, old, RowKind::UpdateBefore));
                    }
                    told.push((key, new, RowKind::UpdateAfter));
                }
                (None, Some(new)) => told.push((key, new, RowKind::Insert)),
                (Some(old), None) => told.push((key, old, RowKind::Delete)),
                _ => {}
            }
        }
        let mut columns = self.keys.decode(told.iter().map(|(key, ..)| *key))?;
        columns.extend(self.codec.decode(told.iter().map(|(_, row, _)| *row))?);
        let batch = batch_of(&shape.output, columns, told.len())?;
        let kinds: Vec<u8> = told.iter().map(|(.., kind)| *kind as u8).collect();
        Rows::with_kinds(batch, UInt8Array::from(kinds))
    }
}
