//! One subtask of the file sink: rows go into hidden files, one for each partition directory, finished when the epoch ends.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use uuid::Uuid;
use weir_runtime::{
    Committable, Epoch, EpochBatch, FailPoints, Result, RowKind, Rows, SinkContext, SinkWriter,
    WeirError,
};

use super::config::FileSinkConfig;
use super::partition::{Part, Partitioner};
use super::staging::{Prepared, StagedFile, Staging};
use crate::file::encode::{BatchWriter, EncodeError, new_writer};
use crate::file::source::files::mtime_ms;
use crate::file::store::{Store, io_error};

/// Writes the rows of one subtask.
pub struct FileSinkWriter {
    config: Arc<FileSinkConfig>,
    partitioner: Partitioner,
    staging: Staging,
    generation: u64,
    subtask: u32,
    failpoints: Arc<FailPoints>,
    open: Option<OpenEpoch>,
}

/// The files of the epoch whose rows are coming in.
struct OpenEpoch {
    epoch: Epoch,
    dir: PathBuf,
    id: Uuid,
    open: HashMap<String, OpenFile>,
    finished: Vec<StagedFile>,
    /// Files begun; the next one's sequence number.
    begun: u32,
    /// Counts writes, to know which file was not written to for the longest time.
    clock: u64,
}

/// A file being written.
struct OpenFile {
    writer: Box<dyn BatchWriter>,
    file: File,
    path: String,
    rows: u64,
    used: u64,
}

impl FileSinkWriter {
    pub(super) fn new(
        config: Arc<FileSinkConfig>,
        staging: Staging,
        context: &SinkContext,
        subtask: usize,
    ) -> Result<Self> {
        Ok(Self {
            partitioner: Partitioner::new(&context.schema, &config.partition_by, config.time_zone)?,
            config,
            staging,
            generation: context.generation,
            subtask: u32::try_from(subtask)
                .map_err(|_| WeirError::internal("more than 2^32 subtasks"))?,
            failpoints: Arc::clone(&context.failpoints),
            open: None,
        })
    }

    fn begin(&self, epoch: Epoch) -> OpenEpoch {
        OpenEpoch {
            epoch,
            dir: self.staging.epoch_dir(epoch, self.generation),
            id: self.staging.file_id(epoch, self.generation),
            open: HashMap::new(),
            finished: Vec::new(),
            begun: 0,
            clock: 0,
        }
    }

    async fn write_part(&mut self, open: &mut OpenEpoch, part: Part) -> Result<()> {
        let mut rest = part.rows;
        while rest.num_rows() > 0 {
            self.make_room(open, &part.directory).await?;
            let file = match open.open.entry(part.directory.clone()) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    let file = begin_file(
                        &self.config,
                        self.partitioner.file_schema(),
                        (self.staging.store(), &open.dir),
                        &part.directory,
                        (self.subtask, open.id, open.begun),
                    )?;
                    open.begun += 1;
                    entry.insert(file)
                }
            };
            open.clock += 1;
            file.used = open.clock;
            rest = file.write(rest, &self.config)?;
            if file.is_full(&self.config) {
                self.finish_file(open, &part.directory).await?;
            }
        }
        Ok(())
    }

    /// Finishes a file if one more would be too many.
    async fn make_room(&mut self, open: &mut OpenEpoch, directory: &str) -> Result<()> {
        if open.open.contains_key(directory) || open.open.len() < self.config.max_open_files {
            return Ok(());
        }
        let oldest = open
            .open
            .iter()
            .min_by_key(|(_, file)| file.used)
            .map(|(directory, _)| directory.clone());
        match oldest {
            Some(oldest) => self.finish_file(open, &oldest).await,
            None => Ok(()),
        }
    }

    async fn finish_file(&mut self, open: &mut OpenEpoch, directory: &str) -> Result<()> {
        let Some(file) = open.open.remove(directory) else {
            return Ok(());
        };
        self.failpoints.hit("file-sink:finish")?;
        let staged = file
            .finish(self.staging.store(), &open.dir, &self.failpoints)
            .await?;
        open.finished.push(staged);
        Ok(())
    }
}

#[async_trait]
impl SinkWriter for FileSinkWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        check_inserts(&batch.rows)?;
        let mut open = match self.open.take() {
            Some(open) if open.epoch == batch.epoch => open,
            Some(open) => {
                return Err(WeirError::internal(format!(
                    "rows of epoch {} came before epoch {} was prepared",
                    batch.epoch, open.epoch
                )));
            }
            None => self.begin(batch.epoch),
        };
        let rows = batch.rows.into_batch();
        if rows.num_rows() > 0 {
            for part in self.partitioner.split(&rows)? {
                self.write_part(&mut open, part).await?;
            }
        }
        self.open = Some(open);
        Ok(())
    }

    async fn prepare(&mut self, epoch: Epoch) -> Result<Committable> {
        let mut prepared = Prepared {
            generation: self.generation,
            files: Vec::new(),
        };
        if let Some(mut open) = self.open.take() {
            if open.epoch != epoch {
                return Err(WeirError::internal(format!(
                    "epoch {epoch} is prepared but epoch {} is open",
                    open.epoch
                )));
            }
            let mut directories: Vec<String> = open.open.keys().cloned().collect();
            directories.sort_unstable();
            for directory in directories {
                self.finish_file(&mut open, &directory).await?;
            }
            prepared.files = open.finished;
            prepared.files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        serde_json::to_value(&prepared).map_err(|error| {
            WeirError::internal("a committable cannot be written as JSON").with_source(error)
        })
    }
}

fn check_inserts(rows: &Rows) -> Result<()> {
    let insert = RowKind::Insert as u8;
    match rows
        .kinds()
        .map(|kinds| kinds.values().iter().find(|kind| **kind != insert))
    {
        Some(Some(kind)) => Err(WeirError::plan(format!(
            "the file sink takes only new rows, but got one of kind {:?}",
            RowKind::try_from(*kind)?
        ))
        .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE")),
        _ => Ok(()),
    }
}

fn begin_file(
    config: &FileSinkConfig,
    schema: &SchemaRef,
    (store, staging): (&Store, &Path),
    directory: &str,
    (subtask, id, sequence): (u32, Uuid, u32),
) -> Result<OpenFile> {
    let name = config
        .format
        .part_file_name(subtask, id, sequence, !directory.is_empty());
    let path = if directory.is_empty() {
        name
    } else {
        format!("{directory}/{name}")
    };
    let full = staging.join(&path);
    let file = match store {
        Store::Local => {
            if let Some(parent) = full.parent() {
                store.make_dir(parent)?;
            }
            File::create(&full)
        }
        Store::Remote(_) => tempfile::tempfile(),
    };
    let file = file.map_err(|error| io_error("create", &full, error))?;
    let out = file
        .try_clone()
        .map_err(|error| io_error("open", &full, error))?;
    let writer =
        new_writer(&config.format, Arc::clone(schema), Box::new(out)).map_err(encode_error)?;
    Ok(OpenFile {
        writer,
        file,
        path,
        rows: 0,
        used: 0,
    })
}

impl OpenFile {
    /// Writes as many rows as the file may take and gives back the others.
    fn write(&mut self, rows: RecordBatch, config: &FileSinkConfig) -> Result<RecordBatch> {
        let by_rows = config
            .max_records_per_file
            .map(|max| max.saturating_sub(self.rows));
        let by_bytes = config.max_bytes_per_file.map(|max| self.rows_within(max));
        let room = by_rows.into_iter().chain(by_bytes).min();
        let room = room.map_or(usize::MAX, |rows| {
            usize::try_from(rows).unwrap_or(usize::MAX)
        });
        let count = rows.num_rows().min(room);
        let written = if count == rows.num_rows() {
            rows.clone()
        } else {
            rows.slice(0, count)
        };
        self.writer.write(&written).map_err(encode_error)?;
        self.rows += count as u64;
        Ok(rows.slice(count, rows.num_rows() - count))
    }

    /// How many more rows make a file of about that many bytes, judging by the rows in it; at least one.
    fn rows_within(&self, max_bytes: u64) -> u64 {
        const FIRST_ROWS: u64 = 128;
        let bytes = self.writer.bytes_written();
        match self.rows {
            0 => FIRST_ROWS,
            rows => (max_bytes.saturating_sub(bytes) / (bytes / rows).max(1)).max(1),
        }
    }

    fn is_full(&self, config: &FileSinkConfig) -> bool {
        config
            .max_records_per_file
            .is_some_and(|max| self.rows >= max)
            || config
                .max_bytes_per_file
                .is_some_and(|max| self.writer.bytes_written() >= max)
    }

    async fn finish(
        self,
        store: &Store,
        staging: &Path,
        failpoints: &FailPoints,
    ) -> Result<StagedFile> {
        let full = staging.join(&self.path);
        let stats = self.writer.finish().map_err(encode_error)?;
        failpoints.hit("file-sink:sync")?;
        let metadata = match store {
            Store::Local => self.file.sync_all().and_then(|()| self.file.metadata()),
            Store::Remote(_) => self.file.metadata(),
        };
        let metadata = metadata.map_err(|error| io_error("sync", &full, error))?;
        if let Store::Remote(remote) = store {
            remote.store(&full, self.file).await?;
        }
        failpoints.hit("file-sink:staged")?;
        Ok(StagedFile {
            path: self.path,
            rows: stats.rows,
            size: metadata.len(),
            modified_ms: mtime_ms(&metadata),
        })
    }
}

/// Whose fault a failed write is.
pub(super) fn encode_error(error: EncodeError) -> WeirError {
    let message = error.to_string();
    let base = match &error {
        EncodeError::Io { .. } | EncodeError::Parquet { .. } => WeirError::external(message),
        EncodeError::Avro { .. } => WeirError::data(message),
        EncodeError::UnsupportedType { .. } | EncodeError::TextColumns { .. } => {
            WeirError::plan(message).with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE")
        }
        EncodeError::Value { .. } | EncodeError::AvroValue { .. } => WeirError::data(message),
        EncodeError::SchemaMismatch { .. } => WeirError::internal(message),
        _ => WeirError::config(message),
    };
    base.with_source(error)
}
