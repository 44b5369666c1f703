//! A sink that counts rows and adds up columns as they come, and keeps nothing but, if asked to, the newest row of each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use async_trait::async_trait;
use serde_json::{Value, json};
use weir::prelude::*;
use weir::runtime::{
    CommitOutcome, Committable, Delivery, Epoch, EpochBatch, Fingerprint, SinkCommitter,
    SinkContext, SinkWriter,
};

use crate::queries::Bench;

/// The sink; clones share what was counted.
#[derive(Clone)]
pub(crate) struct Checksums {
    bench: Bench,
    keep: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    rows: u64,
    sums: [i128; 2],
    /// Newest sums by key.
    newest: HashMap<Vec<i64>, [i64; 2]>,
}

impl Checksums {
    /// With `keep`, of updates only the newest row of each key counts.
    pub(crate) fn new(bench: Bench, keep: bool) -> Self {
        Self {
            bench,
            keep: keep && !bench.keys().is_empty(),
            seen: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows and sums.
    pub(crate) fn total(&self) -> (u64, [i128; 2]) {
        let seen = self.lock();
        if !self.keep {
            return (seen.rows, seen.sums);
        }
        let mut sums = [0; 2];
        for row in seen.newest.values() {
            (0..2).for_each(|at| sums[at] += i128::from(row[at]));
        }
        (seen.newest.len() as u64, sums)
    }

    pub(crate) fn report(&self) -> Value {
        let (rows, sums) = self.total();
        let columns = self.bench.sums();
        let sums: HashMap<_, _> = columns.iter().zip(sums.map(|sum| sum as i64)).collect();
        json!({"checksum_rows": rows, "checksums": sums})
    }

    fn add(&self, batch: &RecordBatch) {
        let mut seen = self.lock();
        seen.rows += batch.num_rows() as u64;
        let columns: Vec<Vec<i64>> = self
            .bench
            .sums()
            .iter()
            .map(|name| column(batch, name))
            .collect();
        for (at, values) in columns.iter().enumerate() {
            seen.sums[at] += values.iter().map(|value| i128::from(*value)).sum::<i128>();
        }
        if self.keep {
            let keys: Vec<Vec<i64>> = self
                .bench
                .keys()
                .iter()
                .map(|name| column(batch, name))
                .collect();
            for row in 0..batch.num_rows() {
                let key = keys.iter().map(|column| column[row]).collect();
                seen.newest.insert(key, [columns[0][row], columns[1][row]]);
            }
        }
    }
}

/// A column as integers, times as microseconds; null is 0.
fn column(batch: &RecordBatch, name: &str) -> Vec<i64> {
    let Some(column) = batch.column_by_name(name) else {
        return vec![0; batch.num_rows()];
    };
    let cast = arrow::compute::cast(column, &DataType::Int64);
    cast.map_or_else(
        |_| vec![0; batch.num_rows()],
        |integers| {
            let integers = integers.as_primitive::<Int64Type>();
            match integers.null_count() {
                0 => integers.values().to_vec(),
                _ => integers.iter().map(Option::unwrap_or_default).collect(),
            }
        },
    )
}

#[async_trait]
impl Sink for Checksums {
    fn description(&self) -> String {
        "Checksums".to_owned()
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("checksums")
    }

    fn max_parallelism(&self) -> Option<usize> {
        None
    }

    async fn open(&self, _context: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _context: &SinkContext, _subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }

    fn committer(&self, _context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl SinkWriter for Checksums {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        self.add(&batch.rows.into_batch());
        Ok(())
    }

    async fn prepare(&mut self, _epoch: Epoch) -> Result<Committable> {
        Ok(Committable::Null)
    }
}

#[async_trait]
impl SinkCommitter for Checksums {
    async fn commit(
        &mut self,
        _epoch: Epoch,
        _committables: Vec<Committable>,
    ) -> Result<CommitOutcome> {
        Ok(CommitOutcome::Committed)
    }
}
