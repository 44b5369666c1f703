//! From keys and session rows to rows of the output.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StructArray, UInt32Array};
use arrow::datatypes::{DataType, SchemaRef};
use weir_runtime::{Outbox, Result, Rows, Table, WeirError};

use super::SessionAggregation;
use super::changes::Settled;
use crate::aggregate::Calls;
use crate::expression::batch_of;
use crate::row_codec::RowCodec;

/// Sessions of one output batch.
pub(super) const CHUNK: usize = 16_384;

/// Makes output rows.
pub(super) struct Emitter {
    pub(super) keys: RowCodec,
    /// Start, end and states.
    pub(super) values: RowCodec,
    calls: Arc<Calls>,
    output: SchemaRef,
    window: usize,
}

impl Emitter {
    pub(super) fn new(
        aggregation: &SessionAggregation,
        calls: Arc<Calls>,
        output: SchemaRef,
    ) -> Result<Self> {
        Ok(Self {
            keys: RowCodec::new(aggregation.key_fields())?,
            values: RowCodec::new(aggregation.state_fields(&calls))?,
            calls,
            output,
            window: aggregation.window.1,
        })
    }

    /// Emits the sessions of an epoch that were complete before anything was stored of them.
    pub(super) fn complete(
        &self,
        settled: &Settled,
        table: &Table,
        out: &mut Outbox,
    ) -> Result<()> {
        for chunk in settled.complete.chunks(CHUNK) {
            let leaders = UInt32Array::from_iter_values(chunk.iter().map(|(_, leader)| *leader));
            let values = taken(&settled.values, &leaders)?;
            let keys = chunk.iter().map(|(slot, _)| table.key(*slot));
            out.emit(Rows::inserts(self.batch(keys, &values, chunk.len())?));
        }
        Ok(())
    }

    /// The rows of `count` sessions with these keys; `values` are their starts, ends and states.
    pub(super) fn batch<'a, I>(
        &'a self,
        keys: I,
        values: &[ArrayRef],
        count: usize,
    ) -> Result<RecordBatch>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut columns = self.keys.decode(keys)?;
        let [start, end, states @ ..] = values else {
            return Err(WeirError::internal("a session has no start and end"));
        };
        let DataType::Struct(fields) = self.output.field(self.window).data_type() else {
            return Err(WeirError::internal("the session column is no struct"));
        };
        let window = StructArray::try_new(
            fields.clone(),
            vec![Arc::clone(start), Arc::clone(end)],
            None,
        )?;
        columns.insert(self.window, Arc::new(window));
        columns.extend(self.calls.evaluate(states, count)?);
        batch_of(&self.output, columns, count)
    }
}

/// These rows of columns.
pub(super) fn taken(columns: &[ArrayRef], indices: &UInt32Array) -> Result<Vec<ArrayRef>> {
    let taken = columns
        .iter()
        .map(|column| arrow::compute::take(column, indices, None));
    Ok(taken.collect::<Result<_, _>>()?)
}

/// Many byte strings in one buffer.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Bytes {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        &self.data[start..self.ends[index]]
    }

    /// Those from `from` to before `to`.
    pub(super) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        (from..to).map(|index| self.get(index))
    }
}

/// Sessions on their way out: keys and rows, by index.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub(super) keys: Bytes,
    pub(super) rows: Bytes,
}

impl Leaving {
    pub(super) fn push(&mut self, key: &[u8], row: &[u8]) {
        self.keys.push(key);
        self.rows.push(row);
    }

    /// Emits all.
    pub(super) fn emit(&self, emitter: &Emitter, out: &mut Outbox) -> Result<()> {
        let mut from = 0;
        while from < self.keys.len() {
            let to = self.keys.len().min(from + CHUNK);
            let values = emitter.values.decode(self.rows.range(from, to))?;
            let batch = emitter.batch(self.keys.range(from, to), &values, to - from)?;
            out.emit(Rows::inserts(batch));
            from = to;
        }
        Ok(())
    }
}
