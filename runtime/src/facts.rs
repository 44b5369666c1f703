//! What the subtasks may know of the open epoch's plan without reading it from the data: written by the executor before the
//! sources begin the epoch, read by a chain with the epoch's first batch or barrier.

use std::sync::{Mutex, PoisonError};

use weir_state::{Epoch, Plan};

use crate::error::{Result, WeirError};
use crate::watermark::WatermarkSettings;

/// Of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) epoch: Epoch,
    pub(crate) batch_timestamp_ms: i64,
    pub(crate) max_event_time_ms: i64,
}

impl Facts {
    /// What the plan fixes; a replay gets the same.
    pub(crate) fn of(plan: &Plan) -> Self {
        let skew_ms = WatermarkSettings::skew_of(plan);
        Self {
            epoch: plan.epoch,
            batch_timestamp_ms: plan.batch_timestamp_ms,
            max_event_time_ms: skew_ms.map_or(i64::MAX, |skew_ms| {
                plan.batch_timestamp_ms.saturating_add(skew_ms)
            }),
        }
    }
}

/// The facts of the open epoch; one is open at a time.
#[derive(Debug, Default)]
pub(crate) struct OpenFacts(Mutex<Option<Facts>>);

impl OpenFacts {
    pub(crate) fn set(&self, facts: Facts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }

    /// Those of `epoch`.
    ///
    /// # Errors
    /// If another epoch is open: a batch came outside its epoch.
    pub(crate) fn of(&self, epoch: Epoch) -> Result<Facts> {
        let open = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.filter(|facts| facts.epoch == epoch).ok_or_else(|| {
            WeirError::internal(format!(
                "rows of epoch {epoch} while {:?} is open",
                open.map(|facts| facts.epoch)
            ))
        })
    }
}
