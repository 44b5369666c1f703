//! Which transaction is open: a pure state machine. One transaction at a time, opened by the first row of an epoch, ended by the
//! committer.

use std::time::Duration;

use weir_runtime::{Epoch, Result, WeirError};

/// Where the sink stands in its transactions.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    open: Option<Open>,
    /// The newest epoch the target holds.
    held: Option<Epoch>,
}

/// A transaction that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// Whose rows are in it.
    pub(super) epoch: Epoch,
    /// When it was begun, by the monotonic clock.
    pub(super) since: Duration,
    /// A topic that is written to.
    pub(super) topic: String,
}

/// What to do with the rows of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// A transaction has to be begun for them.
    Begin,
    /// Their transaction is open.
    Write,
}

impl Transaction {
    /// Nothing is open; the target holds this epoch and all before it.
    pub(super) fn new(held: Option<Epoch>) -> Self {
        Self { open: None, held }
    }

    /// True if the target holds the epoch.
    pub(super) fn holds(&self, epoch: Epoch) -> bool {
        self.held >= Some(epoch)
    }

    /// What to do with rows of this epoch, which the target does not hold.
    ///
    /// # Errors
    /// If it does, or another epoch's transaction is open.
    pub(super) fn rows(&self, epoch: Epoch) -> Result<Rows> {
        match &self.open {
            _ if self.holds(epoch) => Err(WeirError::internal(format!(
                "the target holds epoch {epoch}, its rows must not be written"
            ))),
            None => Ok(Rows::Begin),
            Some(open) if open.epoch == epoch => Ok(Rows::Write),
            Some(open) => Err(WeirError::internal(format!(
                "rows of epoch {epoch} came before epoch {} was committed",
                open.epoch
            ))),
        }
    }

    /// A transaction was begun.
    pub(super) fn begun(&mut self, open: Open) {
        self.open = Some(open);
    }

    /// The open transaction, if it is that of `epoch`; none if the epoch has no rows.
    ///
    /// # Errors
    /// If another epoch's transaction is open.
    pub(super) fn of(&self, epoch: Epoch) -> Result<Option<&Open>> {
        match &self.open {
            Some(open) if open.epoch != epoch => Err(WeirError::internal(format!(
                "epoch {epoch} is committed but the transaction is that of epoch {}",
                open.epoch
            ))),
            open => Ok(open.as_ref()),
        }
    }

    /// The open transaction.
    pub(super) fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    /// The transaction of the epoch has ended well, or it had none.
    pub(super) fn committed(&mut self, epoch: Epoch) {
        self.open = None;
        self.held = self.held.max(Some(epoch));
    }

    /// The transaction was given up.
    pub(super) fn aborted(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(epoch: u64) -> Open {
        Open {
            epoch: Epoch(epoch),
            since: Duration::ZERO,
            topic: "t".to_owned(),
        }
    }

    #[test]
    fn rows_of_a_held_epoch_are_not_written_and_the_first_others_begin_a_transaction() {
        let mut transaction = Transaction::new(Some(Epoch(3)));
        let rows = |transaction: &Transaction, epoch| transaction.rows(Epoch(epoch)).expect("fine");
        assert!(transaction.rows(Epoch(3)).is_err());
        assert_eq!(rows(&transaction, 4), Rows::Begin);
        transaction.begun(open(4));
        assert_eq!(rows(&transaction, 4), Rows::Write);
        transaction.committed(Epoch(4));
        assert!(transaction.rows(Epoch(4)).is_err());
        assert_eq!(rows(&transaction, 5), Rows::Begin);
    }

    #[test]
    fn epochs_do_not_share_a_transaction() {
        let mut transaction = Transaction::new(None);
        transaction.begun(open(0));
        assert!(transaction.rows(Epoch(1)).is_err());
        assert!(transaction.of(Epoch(1)).is_err());
        assert_eq!(transaction.of(Epoch(0)).expect("open"), Some(&open(0)));
        transaction.aborted();
        assert_eq!(transaction.rows(Epoch(0)).expect("again"), Rows::Begin);
    }

    #[test]
    fn an_epoch_without_rows_has_no_transaction_and_is_held_once_committed() {
        let mut transaction = Transaction::new(None);
        assert_eq!(transaction.of(Epoch(0)).expect("none"), None);
        transaction.committed(Epoch(0));
        assert!(transaction.holds(Epoch(0)) && !transaction.holds(Epoch(1)));
    }
}
