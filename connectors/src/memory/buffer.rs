//! [`Buffer`]: batches in memory, numbered from 0 and kept until every source that reads them has committed them;
//! and [`Feed`], the planning all sources over such a buffer share.
//!
//! The number of batches added so far is the offset. A range of offsets therefore names the same rows for as long as
//! the process lives, which is what makes a replay possible.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use weir_runtime::{
    Admission, Backlog, Fault, Polled, Result, SourceReader, Split, WakeHandle, WeirError,
};

/// Numbered batches; shared by whoever adds, the planning sources and their readers.
#[derive(Debug)]
pub(crate) struct Buffer {
    name: &'static str,
    schema: SchemaRef,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of batches dropped: the offset before the first one held.
    base: u64,
    held: VecDeque<Held>,
    sources: BTreeMap<u64, Registered>,
    next_source: u64,
}

/// A batch with the share of a capacity it occupies, given back when the batch is dropped.
#[derive(Debug)]
struct Held {
    batch: RecordBatch,
    _room: Option<OwnedSemaphorePermit>,
}

/// A source that reads the buffer.
#[derive(Default)]
struct Registered {
    /// What it will never ask for again ends here.
    committed: u64,
    wake: Option<WakeHandle>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registered")
            .field("committed", &self.committed)
            .finish_non_exhaustive()
    }
}

impl Buffer {
    /// An empty buffer; `name` stands in errors.
    pub(crate) fn new(name: &'static str, schema: SchemaRef) -> Self {
        Self {
            name,
            schema,
            state: Mutex::default(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds a batch, wakes the queries that read, and answers with the offset after it.
    ///
    /// # Errors
    /// If the columns are not those of the buffer.
    pub(crate) fn add(
        &self,
        batch: RecordBatch,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<u64> {
        let batch = self.conform(batch)?;
        let (end, wakes) = {
            let mut state = self.lock();
            state.held.push_back(Held { batch, _room: room });
            let wakes: Vec<_> = state
                .sources
                .values()
                .filter_map(|source| source.wake.clone())
                .collect();
            (state.end(), wakes)
        };
        wakes.iter().for_each(WakeHandle::wake);
        Ok(end)
    }

    /// The batch under the buffer's schema; names, types and order of the columns must fit.
    pub(crate) fn conform(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if batch.schema_ref() == &self.schema {
            return Ok(batch);
        }
        let described = |schema: &SchemaRef| {
            let fields = schema.fields().iter();
            fields
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect::<Vec<_>>()
        };
        let (given, expected) = (described(batch.schema_ref()), described(&self.schema));
        if given != expected {
            return Err(WeirError::data(format!(
                "a batch with the columns {given:?} does not fit the {} with the columns {expected:?}",
                self.name
            )));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec()).map_err(|error| {
            WeirError::data(format!("a batch does not fit the {}: {error}", self.name))
                .with_source(error)
        })
    }

    /// The offset after the last batch.
    pub(crate) fn end(&self) -> u64 {
        self.lock().end()
    }

    /// Number of batches and rows held.
    pub(crate) fn held(&self) -> (usize, usize) {
        let state = self.lock();
        let rows = state.held.iter().map(|held| held.batch.num_rows()).sum();
        (state.held.len(), rows)
    }

    /// Batch number `index`.
    fn get(&self, index: u64) -> Result<RecordBatch> {
        let state = self.lock();
        let position = index
            .checked_sub(state.base)
            .and_then(|at| usize::try_from(at).ok());
        let held = position.and_then(|at| state.held.get(at));
        held.map(|held| held.batch.clone())
            .ok_or_else(|| self.gone(index..index.saturating_add(1), &state))
    }

    /// Rows of every batch in a range.
    fn weights(&self, range: Range<u64>) -> Result<Vec<u64>> {
        let state = self.lock();
        if range.start < state.base || range.end > state.end() {
            return Err(self.gone(range, &state));
        }
        let count = range.end.saturating_sub(range.start);
        let batches = state.held.iter().skip(to_index(range.start - state.base));
        Ok(batches
            .take(to_index(count))
            .map(|held| held.batch.num_rows() as u64)
            .collect())
    }

    fn gone(&self, wanted: Range<u64>, state: &State) -> WeirError {
        let why = if wanted.start < state.base {
            "those before are committed and dropped"
        } else {
            "later ones were never added in this process"
        };
        WeirError::new(
            Fault::Checkpoint,
            format!(
                "the {} cannot read from offset {} to {}: it holds the batches from offset {} to {}, {why}",
                self.name,
                wanted.start,
                wanted.end,
                state.base,
                state.end()
            ),
        )
    }

    fn register(&self) -> u64 {
        let mut state = self.lock();
        let id = state.next_source;
        state.next_source += 1;
        let committed = state.base;
        state.sources.insert(
            id,
            Registered {
                committed,
                wake: None,
            },
        );
        id
    }

    fn unregister(&self, id: u64) {
        self.lock().sources.remove(&id);
    }

    fn attach(&self, id: u64, committed: u64, wake: WakeHandle) {
        let mut state = self.lock();
        if let Some(source) = state.sources.get_mut(&id) {
            source.wake = Some(wake);
        }
        state.commit(id, committed);
    }

    fn commit(&self, id: u64, end: u64) {
        self.lock().commit(id, end);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&self) -> u64 {
        self.base + self.held.len() as u64
    }

    /// Drops what no source needs any more.
    fn commit(&mut self, id: u64, end: u64) {
        if let Some(source) = self.sources.get_mut(&id) {
            source.committed = source.committed.max(end);
        }
        let needed = self.sources.values().map(|source| source.committed).min();
        let needed = needed.unwrap_or(self.base).min(self.end());
        let dropped = needed.saturating_sub(self.base);
        self.held.drain(..to_index(dropped));
        self.base += dropped;
    }
}

/// Counts of things held in memory always fit.
fn to_index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// How much one epoch may take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) batches: Option<u64>,
    pub(crate) rows: Option<u64>,
}

/// A registered reader of a buffer: plans ranges of it, cuts them into splits, drops what is committed. What it
/// has not committed stays in the buffer until the feed itself is dropped.
pub(crate) struct Feed {
    buffer: Arc<Buffer>,
    id: u64,
    pub(crate) limits: Limits,
    /// Number of readers.
    pub(crate) parallelism: usize,
    /// Where a bounded run ends; stays the same over the generations of the run.
    fixed: Option<u64>,
    /// Offset at which the run began and offset committed, for the backlog.
    begun: Option<u64>,
    committed: u64,
}

impl Feed {
    pub(crate) fn new(buffer: Arc<Buffer>) -> Self {
        let id = buffer.register();
        Self {
            buffer,
            id,
            limits: Limits::default(),
            parallelism: 1,
            fixed: None,
            begun: None,
            committed: 0,
        }
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// A generation starts after `committed`.
    ///
    /// # Errors
    /// If the batches after it are not there.
    pub(crate) fn open(&mut self, committed: u64, wake: WakeHandle) -> Result<()> {
        self.buffer
            .weights(committed..self.buffer.end().max(committed))?;
        self.buffer.attach(self.id, committed, wake);
        self.begun.get_or_insert(committed);
        self.committed = committed;
        Ok(())
    }

    pub(crate) fn fix_end(&mut self) {
        self.fixed.get_or_insert(self.buffer.end());
    }

    /// Where an epoch that starts at `start` ends.
    ///
    /// # Errors
    /// If the batches after `start` are not there.
    pub(crate) fn end_after(&self, start: u64, admission: Admission) -> Result<u64> {
        let end = self.newest().max(start);
        let weights = self.buffer.weights(start..end)?;
        if admission == Admission::Everything {
            return Ok(end);
        }
        let most = self
            .limits
            .batches
            .map_or(usize::MAX, |batches| to_index(batches.max(1)));
        let mut rows = 0_u64;
        let within = weights
            .iter()
            .take(most)
            .enumerate()
            .take_while(|(index, weight)| {
                rows += **weight;
                *index == 0 || self.limits.rows.is_none_or(|limit| rows <= limit)
            });
        Ok(start + within.count() as u64)
    }

    /// The batches of a range as at most as many splits as there are readers, in order of arrival.
    ///
    /// # Errors
    /// If the batches are not there.
    pub(crate) fn splits(&self, start: u64, end: u64) -> Result<Vec<Split>> {
        let weights = self.buffer.weights(start..end)?;
        let size = weights.len().div_ceil(self.parallelism.max(1)).max(1);
        let pieces = weights.chunks(size).enumerate().map(|(index, weights)| {
            let from = start + (index * size) as u64;
            let to = from + weights.len() as u64;
            Split {
                name: format!("batches {from} to {to}"),
                payload: json!({ "from": from, "to": to }),
                weight: weights.iter().sum::<u64>().max(1),
            }
        });
        Ok(pieces.collect())
    }

    pub(crate) fn reader(&self) -> Box<dyn SourceReader> {
        Box::new(BufferReader {
            buffer: Arc::clone(&self.buffer),
            range: 0..0,
            rest: None,
        })
    }

    pub(crate) fn committed(&mut self, end: u64) {
        self.committed = self.committed.max(end);
        self.buffer.commit(self.id, end);
    }

    /// The newest offset this feed may plan.
    pub(crate) fn newest(&self) -> u64 {
        self.fixed.unwrap_or_else(|| self.buffer.end())
    }

    pub(crate) fn backlog(&self) -> Option<Backlog> {
        let begun = self.begun?;
        Some(Backlog {
            done: self.committed.saturating_sub(begun),
            total: self.newest().saturating_sub(begun),
            unit: "batches",
        })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.buffer.unregister(self.id);
    }
}

/// Reads ranges of a buffer; never waits, since whatever is planned is there.
struct BufferReader {
    buffer: Arc<Buffer>,
    range: Range<u64>,
    /// What a poll left of a batch.
    rest: Option<RecordBatch>,
}

impl SourceReader for BufferReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        let bound = |name: &str| split.payload.get(name).and_then(serde_json::Value::as_u64);
        let (Some(from), Some(to)) = (bound("from"), bound("to")) else {
            return Err(WeirError::internal(format!(
                "split '{}' is not a range",
                split.name
            )));
        };
        (self.range, self.rest) = (from..to, None);
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _max_wait: Duration) -> Result<Polled> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.range.next() {
                Some(index) => self.buffer.get(index)?,
                None => return Ok(Polled::Done),
            },
        };
        let rows = max_rows.max(1);
        if batch.num_rows() <= rows {
            return Ok(Polled::Batch(batch));
        }
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Ok(Polled::Batch(batch.slice(0, rows)))
    }
}
