//! The event time of groups: which of the keys it is, when a group is late, when it is complete.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use weir_runtime::{OperatorContext, Result, WeirError};

/// Time of a group whose time is null: no watermark reaches it.
pub(super) const NEVER: i64 = i64::MAX;

/// The key that is the event time of its group, and since when a group is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKey {
    /// A timestamp; a group is complete when the watermark reaches it.
    Instant(usize),
    /// A window of start and end; complete when the watermark reaches its end.
    Window(usize),
    /// The start of a window of `size` microseconds, which was assigned (and judged late or not) before.
    Start {
        /// Position among the keys.
        key: usize,
        /// Length of the window in microseconds.
        size: i64,
    },
}

impl TimeKey {
    /// Position among the keys.
    pub fn key(&self) -> usize {
        match self {
            Self::Instant(key) | Self::Window(key) | Self::Start { key, .. } => *key,
        }
    }

    /// Width of the buckets that state is kept in.
    pub(crate) fn bucket(&self) -> i64 {
        const SECOND: i64 = 1_000_000;
        match self {
            Self::Instant(_) | Self::Window(_) => SECOND,
            Self::Start { size, .. } => SECOND.min((*size).max(1)),
        }
    }

    /// When the group of each row is complete, in microseconds.
    pub(crate) fn times(&self, keys: &[ArrayRef]) -> Result<Vec<i64>> {
        let column = &keys[self.key()];
        let (times, nulls, add) = match self {
            Self::Instant(_) => (micros(column)?, column.nulls().cloned(), 0),
            Self::Start { size, .. } => (micros(column)?, column.nulls().cloned(), *size),
            Self::Window(_) => {
                let windows = column
                    .as_struct_opt()
                    .ok_or_else(|| WeirError::internal("a window key is not a struct"))?;
                let end = windows
                    .column_by_name("end")
                    .ok_or_else(|| WeirError::internal("a window key has no field 'end'"))?;
                let nulls = NullBuffer::union(windows.nulls(), end.nulls());
                (micros(end)?, nulls, 0)
            }
        };
        let times = times.values().iter().map(|time| time.saturating_add(add));
        Ok(match nulls {
            None => times.collect(),
            Some(nulls) => times
                .zip(nulls.iter())
                .map(|(time, valid)| if valid { time } else { NEVER })
                .collect(),
        })
    }

    /// Which rows are late; `None` if no row is. Starts of windows were judged when they were assigned.
    pub(crate) fn late(&self, times: &[i64], context: &OperatorContext) -> Option<BooleanArray> {
        if matches!(self, Self::Start { .. }) || context.late_watermark_ms == i64::MIN {
            return None;
        }
        let bound = bound(context.late_watermark_ms);
        let any = times.iter().any(|time| *time <= bound);
        any.then(|| times.iter().map(|time| Some(*time <= bound)).collect())
    }
}

/// A watermark as a bound on times in microseconds. A group without a time stays above it.
pub(crate) fn bound(watermark_ms: i64) -> i64 {
    watermark_ms.saturating_mul(1000).min(NEVER - 1)
}

fn micros(column: &ArrayRef) -> Result<TimestampMicrosecondArray> {
    let zone = match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            return Ok(column.as_primitive::<TimestampMicrosecondType>().clone());
        }
        DataType::Timestamp(_, zone) => zone.clone(),
        other => {
            return Err(WeirError::internal(format!(
                "the event time of a group is {other}, not a timestamp"
            )));
        }
    };
    let cast = arrow::compute::cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    Ok(cast.as_primitive::<TimestampMicrosecondType>().clone())
}
