//! [`Partition`]: a [`ForeachWriter`] with the promise that whatever was opened is closed, also when the generation ends
//! in the middle of an epoch or the user's code panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::OwnedMutexGuard;
use weir_runtime::{Epoch, Result, Rows, WeirError};

use super::{ForeachWriter, RowRef};
use crate::collect::panic_text;

pub(super) struct Partition {
    id: usize,
    writer: Box<dyn ForeachWriter>,
    /// The open epoch and whether its rows are wanted.
    open: Option<(Epoch, bool)>,
    /// Held as long as this writer lives: the one of the next generation begins after it.
    _turn: OwnedMutexGuard<()>,
}

impl Partition {
    pub(super) fn new(
        id: usize,
        writer: Box<dyn ForeachWriter>,
        turn: OwnedMutexGuard<()>,
    ) -> Self {
        Self {
            id,
            writer,
            open: None,
            _turn: turn,
        }
    }

    /// Takes rows of an epoch; opens the epoch with the first.
    pub(super) fn write(&mut self, epoch: Epoch, rows: &Rows) -> Result<()> {
        if !self.ensure_open(epoch)? {
            return Ok(());
        }
        let writer = &mut self.writer;
        let processed = guarded("process", || {
            for index in 0..rows.num_rows() {
                writer.process(RowRef::new(rows.batch(), index, rows.kind(index)))?;
            }
            Ok(())
        });
        processed.map_err(|error| {
            let error = error.at_position(format!("epoch {epoch}, partition {}", self.id));
            match self.close(Some(&error)) {
                Ok(()) => error,
                // The error that came first is the one to show.
                Err(second) => error.with_source(second),
            }
        })
    }

    /// The epoch is complete.
    pub(super) fn finish(&mut self, epoch: Epoch) -> Result<()> {
        self.ensure_open(epoch)?;
        self.close(None)
    }

    fn ensure_open(&mut self, epoch: Epoch) -> Result<bool> {
        match self.open {
            Some((open, wanted)) if open == epoch => return Ok(wanted),
            Some((open, _)) => {
                let message = format!("rows of epoch {epoch} while epoch {open} is not complete");
                return Err(WeirError::internal(message));
            }
            None => {}
        }
        let (id, writer) = (self.id, &mut self.writer);
        let opened = guarded("open", || writer.open(id, epoch));
        let wanted =
            opened.map_err(|error| error.at_position(format!("epoch {epoch}, partition {id}")))?;
        self.open = Some((epoch, wanted));
        Ok(wanted)
    }

    fn close(&mut self, error: Option<&WeirError>) -> Result<()> {
        if self.open.take().is_none() {
            return Ok(());
        }
        let writer = &mut self.writer;
        guarded("close", || {
            writer.close(error);
            Ok(())
        })
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if self.open.is_some()
            && let Err(error) = self.close(Some(&WeirError::killed("an epoch of foreach")))
        {
            tracing::warn!(partition = self.id, %error, "a foreach writer could not be closed");
        }
    }
}

/// Runs code of the user; a panic becomes an error.
fn guarded<T>(step: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(WeirError::internal(format!(
            "panic in '{step}' of a foreach writer: {}",
            panic_text(panic.as_ref())
        )))
    })
}
