//! Directories with files, and a driver that runs epochs as the coordinator does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use weir_runtime::{
    Admission, Epoch, FailPoints, ManualClock, Offset, Polled, Result, Source, SourceContext,
    SourceReader, Split, WakeHandle,
};
use weir_state::CheckpointLocation;

use super::super::{FileSource, JsonSource};

/// Second 0 of the files' times: old enough that no clock is near, so that a wall clock in the code would show.
const TIME_ZERO: u64 = 1_000_000_000;

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

/// An input directory and a checkpoint.
pub(super) struct Dirs {
    pub(super) input: Arc<tempfile::TempDir>,
    pub(super) checkpoint: tempfile::TempDir,
}

impl Dirs {
    pub(super) fn new() -> Self {
        Self {
            input: Arc::new(tempfile::tempdir().unwrap()),
            checkpoint: tempfile::tempdir().unwrap(),
        }
    }

    /// The same input with another checkpoint.
    pub(super) fn share(&self) -> Self {
        Self {
            input: Arc::clone(&self.input),
            checkpoint: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.input.path().join(name)
    }

    /// A file of JSON rows, modified at `seconds`.
    pub(super) fn put(&self, name: &str, ids: &[i64], seconds: i64) {
        let rows: String = ids.iter().map(|id| format!("{{\"id\":{id}}}\n")).collect();
        self.put_bytes(name, rows.as_bytes(), seconds);
    }

    pub(super) fn put_bytes(&self, name: &str, bytes: &[u8], seconds: i64) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let since = Duration::from_secs(TIME_ZERO.checked_add_signed(seconds).unwrap());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(UNIX_EPOCH + since)
            .unwrap();
    }

    pub(super) fn source(&self, change: impl FnOnce(JsonSource) -> JsonSource) -> FileSource {
        source_of(self.input.path(), change)
    }
}

pub(super) fn source_of(path: &Path, change: impl FnOnce(JsonSource) -> JsonSource) -> FileSource {
    change(JsonSource::new(path.to_str().unwrap()).schema(schema()))
        .build()
        .unwrap()
}

/// Plans, reads and commits epochs; a restart keeps only what a checkpoint keeps.
pub(super) struct Driver {
    pub(super) source: FileSource,
    checkpoint: PathBuf,
    committed: Option<(Epoch, Offset)>,
    planned: Option<Epoch>,
    position: Option<Offset>,
    clock: Arc<ManualClock>,
}

impl Driver {
    pub(super) async fn start(dirs: &Dirs, source: FileSource) -> Self {
        Self::start_at(dirs, source, Arc::new(ManualClock::new(0))).await
    }

    pub(super) async fn start_at(dirs: &Dirs, source: FileSource, clock: Arc<ManualClock>) -> Self {
        let checkpoint = dirs.checkpoint.path().to_owned();
        let driver = Self {
            source,
            checkpoint,
            committed: None,
            planned: None,
            position: None,
            clock,
        };
        driver.open().await.unwrap()
    }

    pub(super) async fn restart(self, source: FileSource) -> Self {
        let position = self.committed.as_ref().map(|(_, end)| end.clone());
        Self {
            source,
            position,
            ..self
        }
        .open()
        .await
        .unwrap()
    }

    async fn open(mut self) -> Result<Self> {
        let context = SourceContext {
            uid: "in".to_owned(),
            index: 0,
            checkpoint: CheckpointLocation::open(self.checkpoint.to_str().unwrap())?,
            committed: self.committed.as_ref().map(|(_, end)| end.clone()),
            committed_epoch: self.committed.as_ref().map(|(epoch, _)| *epoch),
            planned_epoch: self.planned,
            clock: Arc::clone(&self.clock) as Arc<dyn weir_runtime::Clock>,
            failpoints: Arc::new(FailPoints::default()),
            wake: WakeHandle::new(|| {}),
        };
        self.source.open(context).await?;
        Ok(self)
    }

    fn next_epoch(&self) -> Epoch {
        self.planned.map_or(Epoch(0), Epoch::next)
    }

    /// Plans the next epoch; `None` if there is nothing new.
    pub(super) async fn plan(&mut self) -> Option<(Option<Offset>, Offset)> {
        self.plan_with(Admission::Limited).await
    }

    async fn plan_with(&mut self, admission: Admission) -> Option<(Option<Offset>, Offset)> {
        let start = self.position.clone();
        let end = self.source.latest(start.as_ref(), admission).await.unwrap();
        if end == start {
            return None;
        }
        let (epoch, end) = (self.next_epoch(), end?);
        self.source.log(epoch, start.as_ref(), &end).await.unwrap();
        self.planned = Some(epoch);
        self.position = Some(end.clone());
        Some((start, end))
    }

    pub(super) async fn commit(&mut self, end: &Offset) {
        let epoch = self.planned.unwrap();
        self.source.committed(epoch, end).await.unwrap();
        self.committed = Some((epoch, end.clone()));
        self.position = Some(end.clone());
    }

    /// Reads splits one after the other, two rows at a time.
    pub(super) fn read(&self, splits: &[Split]) -> Result<Vec<i64>> {
        let mut reader = self.source.reader(0)?;
        let mut ids = Vec::new();
        for split in splits {
            ids.extend(read_split(reader.as_mut(), split, 2)?);
        }
        Ok(ids)
    }

    /// One epoch from plan to commit; its rows, or `None` if there is nothing new.
    pub(super) async fn trigger(&mut self) -> Option<Vec<i64>> {
        self.trigger_with(Admission::Limited).await
    }

    pub(super) async fn trigger_with(&mut self, admission: Admission) -> Option<Vec<i64>> {
        let (start, end) = self.plan_with(admission).await?;
        let splits = self
            .source
            .splits(self.planned.unwrap(), start.as_ref(), &end)
            .await
            .unwrap();
        let rows = self.read(&splits).unwrap();
        self.commit(&end).await;
        Some(rows)
    }
}

pub(super) fn read_split(
    reader: &mut dyn SourceReader,
    split: &Split,
    max_rows: usize,
) -> Result<Vec<i64>> {
    reader.open(split)?;
    let mut ids = Vec::new();
    loop {
        match reader.poll(max_rows, Duration::ZERO)? {
            Polled::Batch(batch) => {
                assert!(batch.num_rows() <= max_rows);
                ids.extend(
                    batch
                        .column(0)
                        .as_primitive::<Int64Type>()
                        .iter()
                        .map(|id| id.unwrap_or(-1)),
                );
            }
            Polled::Idle => {}
            Polled::Done => return Ok(ids),
        }
    }
}
