//! Groups whose rows are kept, each once with how often it is there; results are computed from them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{Schema, SchemaRef};
use weir_runtime::Table;
use weir_runtime::{Result, Rows, WeirError, key_group};

use super::Shape;
use crate::aggregate::Accumulators;
use crate::expression::batch_of;
use crate::multiset::{self, Counted, sign};
use crate::row_codec::RowCodec;

/// Rows that are decoded and aggregated at a time.
const CHUNK: usize = 16_384;

/// Functions for which a row counts the same once and many times.
const ONCE_IS_ENOUGH: &[&str] = &[
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "approx_distinct",
];

/// The rows of the groups of one subtask.
#[derive(Debug)]
pub(super) struct RowSet {
    codec: RowCodec,
    schema: SchemaRef,
    /// How the open epoch changes the number of copies of each row.
    pending: BTreeMap<Vec<u8>, Pending>,
    /// Whether copies of a row count.
    copies: bool,
}

#[derive(Debug)]
struct Pending {
    /// Length of the key, with which the row's bytes begin.
    key: usize,
    count: i64,
}

impl RowSet {
    pub(super) fn new(shape: &Shape) -> Result<Self> {
        let once = |name: &str| ONCE_IS_ENOUGH.contains(&name);
        let copies = shape
            .calls
            .list
            .iter()
            .any(|call| !call.function.is_distinct() && !once(call.function.fun().name()));
        Ok(Self {
            codec: RowCodec::new(shape.input.clone())?,
            schema: Arc::new(Schema::new(shape.input.clone())),
            pending: BTreeMap::new(),
            copies,
        })
    }

    /// Adds rows; `key` gives the length of a row's key.
    pub(super) fn add(&mut self, rows: &Rows, key: impl Fn(usize) -> usize) -> Result<()> {
        let encoded = self.codec.encode(rows.batch().columns(), rows.num_rows())?;
        for row in 0..rows.num_rows() {
            let change = sign(rows.kind(row));
            let bytes = encoded.get(row);
            match self.pending.get_mut(bytes) {
                Some(pending) => pending.count += change,
                None => {
                    let (key, count) = (key(row), change);
                    self.pending.insert(bytes.to_vec(), Pending { key, count });
                }
            }
        }
        Ok(())
    }

    /// Brings the table up to date; the epoch is over.
    pub(super) fn write(&mut self, table: &mut Table) -> Result<()> {
        for (bytes, Pending { key, count }) in std::mem::take(&mut self.pending) {
            let row = Vec::new();
            multiset::add(
                table,
                key_group(&bytes[..key]),
                &bytes,
                &Counted { row, count },
            )?;
        }
        Ok(())
    }

    /// Adds the rows of the group with this key to `feed`; the group's place there, `None` if it has no rows.
    pub(super) fn read(
        &self,
        table: &mut Table,
        key: &[u8],
        feed: &mut Feed<'_>,
    ) -> Result<Option<usize>> {
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        table.prefix(key_group(key), key, &mut |entry| {
            entries.push((entry.key.to_vec(), entry.value.to_vec()));
            Ok(true)
        })?;
        if entries.is_empty() {
            return Ok(None);
        }
        let group = feed.begin();
        for (row, value) in entries {
            let copies = match self.copies {
                true => Counted::parse(&value)?.count,
                false => 1,
            };
            feed.push(self, row, copies)?;
        }
        Ok(Some(group))
    }

    /// Removes the rows of the group with this key.
    pub(super) fn forget(table: &mut Table, key: &[u8]) -> Result<()> {
        let group = key_group(key);
        let mut keys = Vec::new();
        table.prefix(group, key, &mut |entry| {
            keys.push(entry.key.to_vec());
            Ok(true)
        })?;
        for key in keys {
            table.delete(group, &key)?;
        }
        Ok(())
    }
}

/// Rows on their way into accumulators, group by group, a chunk at a time.
pub(super) struct Feed<'a> {
    shape: &'a Shape,
    accumulators: Accumulators,
    /// Groups begun.
    begun: usize,
    rows: Vec<Vec<u8>>,
    /// For each row to aggregate its position in `rows` and its group.
    taken: Vec<u32>,
    groups: Vec<usize>,
}

impl<'a> Feed<'a> {
    pub(super) fn new(shape: &'a Shape) -> Result<Self> {
        Ok(Self {
            accumulators: Accumulators::new(&shape.calls)?,
            shape,
            begun: 0,
            rows: Vec::new(),
            taken: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// Begins a group, which gets at least one row; its place.
    fn begin(&mut self) -> usize {
        self.begun += 1;
        self.begun - 1
    }

    /// Adds a row to the group begun last.
    fn push(&mut self, set: &RowSet, row: Vec<u8>, copies: i64) -> Result<()> {
        let mut left = usize::try_from(copies)
            .map_err(|_| WeirError::internal("a row of a group is there less than never"))?;
        while left > 0 {
            let position = u32::try_from(self.rows.len()).expect("invariant: a chunk is small");
            let now = left.min(CHUNK - self.taken.len());
            self.rows.push(row.clone());
            self.taken.extend(std::iter::repeat_n(position, now));
            self.groups.extend(std::iter::repeat_n(self.begun - 1, now));
            left -= now;
            if self.taken.len() == CHUNK {
                self.flush(set)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, set: &RowSet) -> Result<()> {
        let columns = set.codec.decode(self.rows.iter().map(Vec::as_slice))?;
        let once = batch_of(&set.schema, columns, self.rows.len())?;
        let taken = UInt32Array::from(std::mem::take(&mut self.taken));
        let batch = match taken.len() == self.rows.len() {
            true => once,
            false => arrow::compute::take_record_batch(&once, &taken)?,
        };
        let calls = &self.shape.calls;
        for ordered in [false, true] {
            self.accumulators
                .update(calls, ordered, &batch, &self.groups, self.begun)?;
        }
        self.rows.clear();
        self.groups.clear();
        Ok(())
    }

    /// The results of all groups, by place, and how many they are.
    pub(super) fn finish(mut self, set: &RowSet) -> Result<(Vec<ArrayRef>, usize)> {
        if !self.taken.is_empty() {
            self.flush(set)?;
        }
        let results = match self.begun {
            0 => Vec::new(),
            _ => self.accumulators.evaluate(&self.shape.calls)?,
        };
        Ok((results, self.begun))
    }
}
