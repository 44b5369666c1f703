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
use crate::file::store::Store;
use crate::file::uri;
use manifest::Owner;
use partition::Partitioner;
use staging::Staging;

/// Files in a directory, exactly once.
pub struct FileSink {
    config: Arc<FileSinkConfig>,
    root: PathBuf,
    store: Store,
}

impl FileSink {
    /// A sink of what the config says. The directory is touched when a query starts.
    ///
    /// # Errors
    /// If a setting is not allowed or the path is not on the local disk.
    pub fn new(config: FileSinkConfig) -> Result<Self> {
        config.validate()?;
        let root = uri::any_path("the file sink", &config.path)?;
        Ok(Self {
            store: Store::of(&root, &config.object_stores)?,
            root,
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
        Staging::new(&self.root, self.store.clone(), Self::owner(context))
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
    async fn check_directory(&self) -> Result<()> {
        if self.root.exists() && !self.root.is_dir() {
            return Err(WeirError::config(format!(
                "path '{}' of the file sink is a file, it must be a directory",
                self.root.display()
            )));
        }
        self.store.make_dir(&self.root)?;
        let names = self.store.names(&self.root).await?.unwrap_or_default();
        let has_manifest = names.iter().any(|name| name == manifest::DIR);
        if !has_manifest && names.iter().any(|name| !name.starts_with(['_', '.'])) {
            tracing::warn!(
                directory = %self.root.display(),
                "the directory holds files that no manifest names; readers that honour '_spark_metadata' will not see them"
            );
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for FileSink {
    fn description(&self) -> String {
        match self.store {
            Store::Local => format!("FileSink[file:{}]", self.root.display()),
            Store::Remote(_) => format!("FileSink[{}]", self.root.display()),
        }
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
        self.check_directory().await?;
        recovery::clean(
            &self.root,
            &self.staging(context),
            context.generation,
            &context.failpoints,
        )
        .await
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
        Ok(Box::new(FileSinkCommitter::new(
            &self.root,
            self.staging(context),
            Self::owner(context),
            &self.config,
            context,
        )?))
    }
}
