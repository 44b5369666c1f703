//! Code of the user for every row: Spark's `foreach`.
//!
//! A [`ForeachWriter`] per subtask is opened for each epoch, gets the rows as they arrive and is closed; a bare closure
//! does without opening and closing. The code may block: it runs on threads made for that, one batch at a time, in
//! order. Delivery is at least once: an epoch that is replayed comes with the same number, but not necessarily with the
//! same rows in the same partition.

mod partition;
mod row;
mod sink;
#[cfg(test)]
mod tests;

use weir_runtime::{Epoch, Result, WeirError};

pub use row::RowRef;
pub use sink::ForeachSink;

/// The user's code for the rows of one partition (one subtask of the sink). A new one is made for every generation.
pub trait ForeachWriter: Send {
    /// An epoch begins, also one that brings no rows. `false` skips its rows in this partition.
    ///
    /// # Errors
    /// Ends the epoch; it is replayed or the query fails.
    fn open(&mut self, partition_id: usize, epoch: Epoch) -> Result<bool>;

    /// Takes a row; only called between an `open` that answered `true` and `close`.
    ///
    /// # Errors
    /// Ends the epoch; it is replayed or the query fails. `close` is called with the error first.
    fn process(&mut self, row: RowRef<'_>) -> Result<()>;

    /// The epoch ends; called once for every `open` that returned without an error, whatever it answered. `error` is
    /// what ended it if it did not end well: an error or panic of `process`, or the end of the generation.
    fn close(&mut self, error: Option<&WeirError>);
}

/// A closure as a writer.
struct RowFunction<F>(F);

impl<F: FnMut(RowRef<'_>) -> Result<()> + Send> ForeachWriter for RowFunction<F> {
    fn open(&mut self, _partition_id: usize, _epoch: Epoch) -> Result<bool> {
        Ok(true)
    }

    fn process(&mut self, row: RowRef<'_>) -> Result<()> {
        (self.0)(row)
    }

    fn close(&mut self, _error: Option<&WeirError>) {}
}
