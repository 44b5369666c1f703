//! Alignment of barriers and merging of watermarks over the inputs of a subtask: pure, and in this one place.
//!
//! An input whose barrier has arrived is blocked until all inputs have it, so that nothing of epoch N+1 is processed
//! before every row of epoch N (invariant E4). The merged watermark is the smallest over the inputs and never goes back.

use weir_state::Epoch;

use crate::error::{Result, WeirError};

/// What a barrier did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Other inputs still owe theirs; this input is blocked.
    Waiting,
    /// It was the last one: the epoch is complete, all inputs are open again.
    Complete(Epoch),
}

/// Barrier and watermark state of `n` inputs.
#[derive(Debug)]
pub struct Aligner {
    arrived: Vec<bool>,
    ended: Vec<bool>,
    watermarks: Vec<i64>,
    merged: i64,
    pending: Option<Epoch>,
    last: Option<Epoch>,
}

impl Aligner {
    /// An aligner of `inputs` open inputs.
    pub fn new(inputs: usize) -> Self {
        Self {
            arrived: vec![false; inputs],
            ended: vec![false; inputs],
            watermarks: vec![i64::MIN; inputs],
            merged: i64::MIN,
            pending: None,
            last: None,
        }
    }

    /// True while the input must not be read: its barrier arrived and others are owed, or it ended.
    pub fn is_blocked(&self, input: usize) -> bool {
        self.arrived[input] || self.ended[input]
    }

    /// A batch of `epoch` arrived.
    ///
    /// # Errors
    /// If it is not of the epoch that is open: a barrier was overtaken.
    pub fn batch(&self, input: usize, epoch: Epoch) -> Result<()> {
        let open = self.last.is_none_or(|last| epoch > last)
            && self.pending.is_none_or(|pending| epoch == pending);
        if self.is_blocked(input) || !open {
            return Err(WeirError::internal(format!(
                "a batch of epoch {epoch} arrived outside its epoch on input {input}"
            )));
        }
        Ok(())
    }

    /// The barrier of `epoch` arrived on `input`.
    ///
    /// # Errors
    /// If the epochs of the inputs differ, the input is blocked, or the epoch does not follow the last one.
    pub fn barrier(&mut self, input: usize, epoch: Epoch) -> Result<Alignment> {
        let expected = self.pending.is_none_or(|pending| pending == epoch)
            && self.last.is_none_or(|last| epoch > last);
        if self.is_blocked(input) || !expected {
            return Err(WeirError::internal(format!(
                "barrier {epoch} on input {input} does not fit: last {:?}, open {:?}",
                self.last, self.pending
            )));
        }
        self.pending = Some(epoch);
        self.arrived[input] = true;
        Ok(self.completed())
    }

    /// The input will send nothing more.
    pub fn end(&mut self, input: usize) -> Alignment {
        self.ended[input] = true;
        self.completed()
    }

    /// True when every input has ended.
    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    fn completed(&mut self) -> Alignment {
        let Some(epoch) = self.pending else {
            return Alignment::Waiting;
        };
        let complete = self
            .arrived
            .iter()
            .zip(&self.ended)
            .all(|(arrived, ended)| *arrived || *ended);
        if !complete {
            return Alignment::Waiting;
        }
        self.arrived.fill(false);
        self.pending = None;
        self.last = Some(epoch);
        Alignment::Complete(epoch)
    }

    /// The watermark of an input moved; returns the merged one if that moved too.
    pub fn watermark(&mut self, input: usize, watermark_ms: i64) -> Option<i64> {
        self.watermarks[input] = self.watermarks[input].max(watermark_ms);
        let smallest = self.watermarks.iter().copied().min().unwrap_or(i64::MIN);
        (smallest > self.merged).then(|| {
            self.merged = smallest;
            smallest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4_input_is_blocked_until_the_last_barrier_arrives() {
        let mut aligner = Aligner::new(2);
        assert_eq!(
            aligner.barrier(0, Epoch(0)).expect("fits"),
            Alignment::Waiting
        );
        assert!(aligner.is_blocked(0) && !aligner.is_blocked(1));
        assert_eq!(
            aligner.barrier(1, Epoch(0)).expect("fits"),
            Alignment::Complete(Epoch(0))
        );
        assert!(!aligner.is_blocked(0) && !aligner.is_blocked(1));
    }

    #[test]
    fn e4_batch_of_a_closed_epoch_is_an_error() {
        let mut aligner = Aligner::new(1);
        aligner.barrier(0, Epoch(3)).expect("fits");
        assert!(aligner.batch(0, Epoch(3)).is_err());
        assert!(aligner.batch(0, Epoch(4)).is_ok());
    }

    #[test]
    fn barriers_of_two_epochs_at_once_are_an_error() {
        let mut aligner = Aligner::new(2);
        aligner.barrier(0, Epoch(1)).expect("fits");
        assert!(aligner.barrier(1, Epoch(2)).is_err());
        assert!(aligner.barrier(0, Epoch(1)).is_err(), "twice on one input");
    }

    #[test]
    fn merged_watermark_is_the_smallest_and_never_goes_back() {
        let mut aligner = Aligner::new(2);
        assert_eq!(aligner.watermark(0, 10), None);
        assert_eq!(aligner.watermark(1, 5), Some(5));
        assert_eq!(aligner.watermark(1, 3), None);
        assert_eq!(aligner.watermark(1, 20), Some(10));
    }

    #[test]
    fn ended_input_no_longer_holds_the_barrier() {
        let mut aligner = Aligner::new(2);
        aligner.barrier(0, Epoch(0)).expect("fits");
        assert_eq!(aligner.end(1), Alignment::Complete(Epoch(0)));
        assert!(!aligner.all_ended());
    }
}
