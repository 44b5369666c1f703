//! From keys and states as bytes to rows of the output.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Fields, SchemaRef};
use weir_runtime::StateEntry;
use weir_runtime::{Outbox, Result, Rows};

use super::calls::Calls;
use crate::expression::batch_of;
use crate::row_codec::RowCodec;

/// Groups of one output batch.
pub(super) const CHUNK: usize = 16_384;

/// Makes output rows.
pub(super) struct Emitter {
    pub(super) keys: RowCodec,
    pub(super) values: RowCodec,
    calls: Arc<Calls>,
    output: SchemaRef,
}

impl Emitter {
    pub(super) fn new(keys: Fields, calls: Arc<Calls>, output: SchemaRef) -> Result<Self> {
        Ok(Self {
            keys: RowCodec::new(keys)?,
            values: RowCodec::new(calls.state.clone())?,
            calls,
            output,
        })
    }

    /// The rows of `groups` groups with these keys and states.
    pub(super) fn batch<'a, I>(
        &'a self,
        keys: I,
        states: &[ArrayRef],
        groups: usize,
    ) -> Result<RecordBatch>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut columns = self.keys.decode(keys)?;
        columns.extend(self.calls.evaluate(states, groups)?);
        batch_of(&self.output, columns, groups)
    }
}

/// Entries on their way out, evaluated a chunk at a time. An error is kept until the visit is over.
pub(super) struct Collector<'a> {
    emitter: &'a Emitter,
    out: &'a mut Outbox,
    keys: Bytes,
    values: Bytes,
    result: Result<()>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(emitter: &'a Emitter, out: &'a mut Outbox) -> Self {
        Self {
            emitter,
            out,
            keys: Bytes::default(),
            values: Bytes::default(),
            result: Ok(()),
        }
    }

    /// Takes one entry.
    pub(super) fn push(&mut self, entry: StateEntry<'_>) {
        if self.result.is_err() {
            return;
        }
        self.keys.push(entry.key);
        self.values.push(entry.value);
        if self.keys.len() == CHUNK {
            self.result = self.flush();
        }
    }

    /// Emits what is left.
    pub(super) fn finish(mut self) -> Result<()> {
        std::mem::replace(&mut self.result, Ok(()))?;
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let groups = self.keys.len();
        if groups == 0 {
            return Ok(());
        }
        let states = self.emitter.values.decode(self.values.iter())?;
        let batch = self.emitter.batch(self.keys.iter(), &states, groups)?;
        self.out.emit(Rows::inserts(batch));
        self.keys.clear();
        self.values.clear();
        Ok(())
    }
}

/// Many byte strings in one buffer.
#[derive(Default)]
struct Bytes {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Bytes {
    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.data[start..*end])
    }

    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }
}
