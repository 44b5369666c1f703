//! A sensor source, an operator that keeps the highest reading of each sensor, and a file-per-epoch sink: all written by a user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use serde_json::json;
use weir_runtime::{
    CommitOutcome, Committable, Delivery, Epoch, EpochBatch, Fingerprint, Offset, Operator, OperatorContext,
    OutputMode, Outbox, Polled, Result, Rows, Sink, SinkCommitter, SinkContext, SinkWriter, Source, SourceContext,
    SourceReader, Split, WeirError,
};

/// `sensor STRING, reading BIGINT`
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("sensor", DataType::Utf8, true),
        Field::new("reading", DataType::Int64, true),
    ]))
}

/// Reading `i` is of sensor `i % 3` and has the value `(i * 7919) % 1000`; `total` of them, `per_epoch` at a time.
pub struct Sensors {
    pub total: i64,
    pub per_epoch: i64,
}

fn as_i64(offset: Option<&Offset>) -> Result<i64> {
    offset.map_or(Ok(0), |offset| offset.as_i64().ok_or_else(|| WeirError::config("sensor offsets are whole numbers")))
}

#[async_trait]
impl Source for Sensors {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn description(&self) -> String {
        format!("Sensors[{}]", self.total)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("sensors")
    }

    async fn open(&mut self, _: SourceContext) -> Result<()> {
        Ok(())
    }

    async fn latest(&mut self, start: Option<&Offset>, _: weir_runtime::Admission) -> Result<Option<Offset>> {
        Ok(Some(json!(self.total.min(as_i64(start)? + self.per_epoch))))
    }

    async fn fix_end(&mut self) -> Result<()> {
        Ok(())
    }

    async fn splits(&mut self, _: Epoch, start: Option<&Offset>, end: &Offset) -> Result<Vec<Split>> {
        let (from, to) = (as_i64(start)?, as_i64(Some(end))?);
        let half = from + (to - from) / 2;
        let split = |from: i64, to: i64| Split {
            name: format!("sensors[{from}..{to}]"),
            payload: json!([from, to]),
            weight: (to - from) as u64,
        };
        Ok(vec![split(from, half), split(half, to)])
    }

    fn reader(&self, _: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(SensorReader { range: 0..0 }))
    }
}

struct SensorReader {
    range: std::ops::Range<i64>,
}

impl SourceReader for SensorReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        let bound = |index: usize| split.payload[index].as_i64().ok_or_else(|| WeirError::internal("split without bounds"));
        self.range = bound(0)?..bound(1)?;
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _: Duration) -> Result<Polled> {
        let rows: Vec<i64> = self.range.by_ref().take(max_rows.min(50)).collect();
        if rows.is_empty() {
            return Ok(Polled::Done);
        }
        let sensors = StringArray::from_iter_values(rows.iter().map(|row| format!("s{}", row % 3)));
        let readings = Int64Array::from_iter_values(rows.iter().map(|row| row * 7919 % 1000));
        Ok(Polled::Batch(RecordBatch::try_new(schema(), vec![Arc::new(sensors), Arc::new(readings)])?))
    }
}

/// Keeps the highest reading of each sensor and emits those that rose, once per epoch.
#[derive(Default)]
pub struct Highest {
    highest: BTreeMap<String, i64>,
    changed: BTreeMap<String, i64>,
}

impl Operator for Highest {
    fn process(&mut self, _: usize, rows: Rows, _: &OperatorContext, _: &mut Outbox) -> Result<()> {
        let sensors = rows.batch().column(0).as_any().downcast_ref::<StringArray>().expect("sensor is text");
        let readings = rows.batch().column(1).as_any().downcast_ref::<Int64Array>().expect("reading is a number");
        for (sensor, reading) in sensors.iter().zip(readings.iter()) {
            let (Some(sensor), Some(reading)) = (sensor, reading) else { continue };
            if self.highest.get(sensor).is_none_or(|highest| reading > *highest) {
                self.highest.insert(sensor.to_owned(), reading);
                self.changed.insert(sensor.to_owned(), reading);
            }
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, _: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let changed = std::mem::take(&mut self.changed);
        let sensors = StringArray::from_iter_values(changed.keys());
        let readings = Int64Array::from_iter_values(changed.values().copied());
        out.emit(Rows::inserts(RecordBatch::try_new(schema(), vec![Arc::new(sensors), Arc::new(readings)])?));
        Ok(())
    }

    fn snapshot(&mut self, _: Epoch) -> Result<Option<Vec<u8>>> {
        Ok(Some(json!(self.highest).to_string().into_bytes()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        self.highest = serde_json::from_slice(snapshot).map_err(|error| WeirError::internal("not a snapshot").with_source(error))?;
        Ok(())
    }
}

/// One text file per epoch, `<epoch>.txt`, renamed into place at commit.
pub struct FilePerEpoch {
    pub directory: PathBuf,
}

#[async_trait]
impl Sink for FilePerEpoch {
    fn description(&self) -> String {
        format!("FilePerEpoch[{}]", self.directory.display())
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode != OutputMode::Complete
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("file_per_epoch")
    }

    async fn open(&self, _: &SinkContext) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _: &SinkContext, _: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Lines::default()))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(Renamer { directory: self.directory.clone() }))
    }
}

#[derive(Default)]
struct Lines(Vec<String>);

#[async_trait]
impl SinkWriter for Lines {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        let batch = batch.rows.into_batch();
        let text = |row: usize, column: usize| arrow::util::display::array_value_to_string(batch.column(column), row);
        for row in 0..batch.num_rows() {
            self.0.push(format!("{}={}", text(row, 0)?, text(row, 1)?));
        }
        Ok(())
    }

    async fn prepare(&mut self, _: Epoch) -> Result<Committable> {
        Ok(json!(std::mem::take(&mut self.0)))
    }
}

struct Renamer {
    directory: PathBuf,
}

impl Renamer {
    fn publish(&self, target: &Path, lines: &[String]) -> std::io::Result<()> {
        let staged = self.directory.join(".staged");
        std::fs::write(&staged, lines.join("\n"))?;
        std::fs::rename(staged, target)
    }
}

#[async_trait]
impl SinkCommitter for Renamer {
    async fn commit(&mut self, epoch: Epoch, committables: Vec<Committable>) -> Result<CommitOutcome> {
        let target = self.directory.join(format!("{epoch}.txt"));
        if target.exists() {
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        let lines = committables.iter().filter_map(|part| part.as_array()).flatten();
        let mut lines: Vec<String> = lines.filter_map(|line| line.as_str().map(str::to_owned)).collect();
        lines.sort();
        self.publish(&target, &lines)
            .map_err(|error| WeirError::external(format!("cannot write {}", target.display())).with_source(error))?;
        Ok(CommitOutcome::Committed)
    }
}
