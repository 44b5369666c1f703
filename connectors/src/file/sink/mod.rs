//! The file sink: each epoch's files become visible all at once, and once only.
//!
//! Writers fill hidden files (`_weir_staging`). The committer gives them their final names and then adds one file to the
//! manifest, `_spark_metadata`; a reader that honours it sees an epoch as a whole or not at all. A reader that just lists
//! the directory sees complete files, and each row once: what a crash left under a final name is removed before the
//! epoch runs again. Epochs without rows leave no trace.
//!
//! An epoch is known by query, sink and number. So several queries may write to one directory, and one whose checkpoint was
//! deleted adds its rows instead of being taken for the old one.

mod builder;
mod committer;
mod config;
pub(crate) mod hive;
pub mod manifest;
mod manifest_log;
mod partition;
mod recovery;
mod staging;
#[cfg(test)]
mod tests;
mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use weir_runtime::{
    Delivery, Fingerprint, OutputMode, Result, Sink, SinkCommitter, SinkContext, SinkWriter,
    WeirError,
};

pub use builder::{
    AvroSink, CsvSink, FileSinkBuilder, JsonSink, ParquetSink, SinkFormat, TextSink,
};
pub use committer::FileSinkCommitter;
pub use config::FileSinkConfig;
pub use writer::FileSinkWriter;

use crate::file::encode::new_writer;
use crate::file::uri;
use manifest::Owner;
use partition::Partitioner;
use staging::Staging;

/// Files in a directory, exactly once.
pub struct FileSink {
    config: Arc<FileSinkConfig>,
    root: PathBuf,
}

impl FileSink {
    /// A sink of what the config says. The directory is touched when a query starts.
    ///
    /// # Errors
    /// If a setting is not allowed or the path is not on the local disk.
    pub fn new(config: FileSinkConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            root: uri::local_path("the file sink", &config.path)?,
            config: Arc::new(config),
        })
    }

    /// What the sink was told.
    pub fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    /// The output directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn owner(context: &SinkContext) -> Owner {
        Owner {
            query_id: context.query_id,
            sink: context.uid.clone(),
        }
    }

    fn staging(&self, context: &SinkContext) -> Staging {
        Staging::new(&self.root, Self::owner(context))
    }

    /// Refuses rows the format cannot hold before the first of them is there.
    fn check_schema(&self, context: &SinkContext) -> Result<()> {
        let partitioner = Partitioner::new(
            &context.schema,
            &self.config.partition_by,
            self.config.time_zone,
        )?;
        let schema = Arc::clone(partitioner.file_schema());
        new_writer(&self.config.format, schema, Box::new(std::io::sink()))
            .map(|_| ())
            .map_err(writer::encode_error)
    }

    /// The directory, made if it is not there.
    fn check_directory(&self) -> Result<()> {
        if self.root.exists() && !self.root.is_dir() {
            return Err(WeirError::config(format!(
                "path '{}' of the file sink is a file, it must be a directory",
                self.root.display()
            )));
        }
        fs::create_dir_all(&self.root)
            .map_err(|error| staging::io_error("make directory", &self.root, error))?;
        let has_manifest = self.root.join(manifest::DIR).exists();
        if !has_manifest && has_visible_entries(&self.root)? {
            tracing::warn!(
                directory = %self.root.display(),
                "the directory holds files that no manifest names; readers that honour '_spark_metadata' will not see them"
            );
        }
        Ok(())
    }
}

fn has_visible_entries(dir: &Path) -> Result<bool> {
    let entries = fs::read_dir(dir).map_err(|error| staging::io_error("list", dir, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| staging::io_error("list", dir, error))?
            .file_name();
        if !name.to_string_lossy().starts_with(['_', '.']) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[async_trait]
impl Sink for FileSink {
    fn description(&self) -> String {
        format!("FileSink[file:{}]", self.root.display())
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Append
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("file_sink").param("path", self.root.display())
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.check_schema(context)?;
        self.check_directory()?;
        recovery::clean(
            &self.root,
            &self.staging(context),
            context.generation,
            &context.failpoints,
        )
    }

    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(FileSinkWriter::new(
            Arc::clone(&self.config),
            self.staging(context),
            context,
            subtask,
        )?))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        let retention = self.config.retention;
        Ok(Box::new(FileSinkCommitter::new(
            &self.root,
            Self::owner(context),
            retention,
            context,
        )?))
    }
}
