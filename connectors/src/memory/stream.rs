//! [`MemoryStream`]: rows a program adds by hand, read by one query or several, and [`MemorySource`], its planning half.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use serde_json::json;
use weir_runtime::{
    Admission, Backlog, Epoch, Fingerprint, Offset, Result, Source, SourceContext, SourceReader,
    Split, WeirError, offset_as_u64,
};

use super::buffer::{Buffer, Feed};

/// A stream in memory. Clones add to the same stream.
///
/// The offset of the stream is the number of batches added so far. A batch is kept until every [`MemorySource`] of the
/// stream has committed it, so a query that is started again in the same process, with the same checkpoint and a new
/// source of the same stream, replays what it had not committed. A checkpoint that has committed more than this stream
/// ever got (it was written by another process) is refused.
#[derive(Debug, Clone)]
pub struct MemoryStream {
    buffer: Arc<Buffer>,
}

impl MemoryStream {
    /// An empty stream with these columns.
    #[must_use]
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            buffer: Arc::new(Buffer::new("memory stream", schema)),
        }
    }

    /// Columns of the stream.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.buffer.schema())
    }

    /// Adds a batch (also one without rows), wakes the queries that read, and answers with the offset after it: the
    /// query has processed the batch when its committed offset is at least that.
    ///
    /// # Errors
    /// If names, types or order of the columns differ from the stream's.
    pub fn add(&self, batch: RecordBatch) -> Result<u64> {
        self.buffer.add(batch, None)
    }

    /// Adds a batch made of these columns.
    ///
    /// # Errors
    /// As [`MemoryStream::add`], or if the columns differ in length.
    pub fn add_columns(&self, columns: Vec<ArrayRef>) -> Result<u64> {
        let batch = RecordBatch::try_new(self.schema(), columns).map_err(|error| {
            WeirError::data(format!("the columns do not fit the memory stream: {error}"))
                .with_source(error)
        })?;
        self.add(batch)
    }

    /// Adds a batch made of rows of values, one value per column.
    ///
    /// # Errors
    /// If a row has too few or too many values, or a value is not of its column's type.
    pub fn add_rows(&self, rows: impl IntoIterator<Item = Vec<ScalarValue>>) -> Result<u64> {
        let schema = self.schema();
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::new(); schema.fields().len()];
        let mut count = 0;
        for row in rows {
            if row.len() != columns.len() {
                return Err(WeirError::data(format!(
                    "row {count} has {} values, the memory stream has {} columns",
                    row.len(),
                    columns.len()
                )));
            }
            count += 1;
            columns
                .iter_mut()
                .zip(row)
                .for_each(|(column, value)| column.push(value));
        }
        if count == 0 {
            return self.add(RecordBatch::new_empty(schema));
        }
        let arrays = schema.fields().iter().zip(columns).map(|(field, values)| {
            ScalarValue::iter_to_array(values).map_err(|error| {
                let message = format!(
                    "the values of column '{}' have no common type",
                    field.name()
                );
                WeirError::data(message).with_source(error)
            })
        });
        self.add_columns(arrays.collect::<Result<_>>()?)
    }

    /// A source that reads the stream from its first batch, for one query. The stream keeps every batch added from now
    /// on until this source has committed it or is dropped.
    #[must_use]
    pub fn source(&self) -> MemorySource {
        MemorySource {
            feed: Feed::new(Arc::clone(&self.buffer)),
        }
    }

    /// The offset after the last batch.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        self.buffer.end()
    }

    /// Number of batches that are still kept for a query that has not committed them.
    #[must_use]
    pub fn batches_held(&self) -> usize {
        self.buffer.held().0
    }
}

/// Reads a [`MemoryStream`]. Offsets in the checkpoint are plain integers: the number of batches taken.
pub struct MemorySource {
    feed: Feed,
}

impl MemorySource {
    /// At most this many batches per epoch; at least one is always taken.
    #[must_use]
    pub fn max_batches_per_trigger(mut self, batches: u64) -> Self {
        self.feed.limits.batches = Some(batches);
        self
    }

    /// At most this many rows per epoch; one batch is always taken, however many rows it has.
    #[must_use]
    pub fn max_rows_per_trigger(mut self, rows: u64) -> Self {
        self.feed.limits.rows = Some(rows);
        self
    }

    /// Number of readers (at least 1, the default): an epoch's batches are cut into as many runs of neighbours.
    #[must_use]
    pub fn parallelism(mut self, readers: usize) -> Self {
        self.feed.parallelism = readers.max(1);
        self
    }

    fn position(&self, offset: Option<&Offset>) -> Result<u64> {
        offset.map_or(Ok(0), |offset| offset_as_u64("memory", offset))
    }
}

#[async_trait]
impl Source for MemorySource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.feed.buffer().schema())
    }

    fn description(&self) -> String {
        "MemoryStream".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("memory")
    }

    fn max_parallelism(&self) -> Option<usize> {
        Some(self.feed.parallelism)
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        let committed = self.position(context.committed.as_ref())?;
        self.feed.open(committed, context.wake)
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        let from = self.position(start)?;
        let end = self.feed.end_after(from, admission)?;
        Ok(if end == from {
            start.cloned()
        } else {
            Some(json!(end))
        })
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.feed.fix_end();
        Ok(())
    }

    async fn splits(
        &mut self,
        _epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        self.feed
            .splits(self.position(start)?, self.position(Some(end))?)
    }

    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(self.feed.reader())
    }

    async fn committed(&mut self, _epoch: Epoch, end: &Offset) -> Result<()> {
        let end = self.position(Some(end))?;
        self.feed.committed(end);
        Ok(())
    }

    fn newest(&self) -> Option<Offset> {
        Some(json!(self.feed.newest()))
    }

    fn backlog(&self) -> Option<Backlog> {
        self.feed.backlog()
    }
}
