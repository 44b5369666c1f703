//! The file source: a directory is a stream of the files that appear in it.
//!
//! Each look lists the directory; files not seen before become splits of the next epoch. Which files belong to which epoch
//! stands in the source's own log in the checkpoint, so that a replay reads the same files whatever the directory holds by
//! then. Files must appear whole (by a rename) and not change afterwards: a planned file that changed or is gone is an
//! error that names it.
//!
//! Columns may stand in the names of directories ([`partition`]); bad records may go to files of their own ([`dead_letters`]); files
//! may be moved away or deleted once their epoch is committed ([`clean`]).
//!
//! The offset is `{"logOffset":N}` as in Spark: the number of epochs with new files, from 0.

mod builder;
mod clean;
mod columns;
mod config;
mod dead_letters;
pub(crate) mod files;
mod format;
mod glance;
mod glob;
mod listing;
mod objects;
mod orc;
mod partition;
mod reader;
mod run;
mod seen;
#[cfg(test)]
mod tests;
mod unread;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_runtime::{
    Admission, Backlog, Epoch, FailPoints, Fingerprint, Offset, Result, Source, SourceContext,
    SourceReader, Split, WeirError,
};

pub use crate::file::decode::AvroOptions;
pub use builder::{
    AvroSource, CsvSource, FileSourceBuilder, JsonSource, OrcSource, ParquetSource, TextRecords,
    TextSource,
};
pub use clean::CleanSource;
pub use config::FileSourceConfig;
pub use format::{OrcOptions, ParquetOptions, ReadFormat};
pub use partition::PartitionRows;
pub use reader::FileReader;

use crate::file::store::Store;
use files::FileEntry;
use listing::Listing;
use run::Run;

/// The planning half of the file source.
pub struct FileSource {
    config: Arc<FileSourceConfig>,
    listing: Arc<Listing>,
    schema: SchemaRef,
    run: Option<Run>,
    /// Files of committed epochs since the process started this source, over all generations.
    done: u64,
    failpoints: Arc<FailPoints>,
}

impl FileSource {
    /// A source of what the config says. The directory is looked at when the query starts.
    ///
    /// # Errors
    /// If a setting is not allowed or the path is not on the local disk.
    pub fn new(config: FileSourceConfig) -> Result<Self> {
        config.validate()?;
        let listing = Arc::new(Listing::new(&config)?);
        Ok(Self {
            schema: config.output_schema(),
            config: Arc::new(config),
            listing,
            run: None,
            done: 0,
            failpoints: Arc::default(),
        })
    }

    /// What the source was told.
    pub fn config(&self) -> &FileSourceConfig {
        &self.config
    }

    /// Refuses a directory that does not exist or is a file; a query does so itself when it starts.
    ///
    /// # Errors
    /// `PATH_NOT_FOUND`, or that the path is a file.
    pub fn check_path(&self) -> Result<()> {
        self.listing.check()
    }

    /// How often the directory was listed.
    #[cfg(test)]
    pub(crate) fn listings(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.listings)
    }

    /// Waits for the disk on another thread; what fails is a warning.
    async fn clean(&self, files: Vec<FileEntry>) -> Result<()> {
        if self.config.clean_source == CleanSource::Off || files.is_empty() {
            return Ok(());
        }
        self.failpoints.hit("file-source:clean")?;
        let threads = self.config.cleaner_threads;
        if threads == 0 {
            self.config.clean_source.clean(self.listing.store(), &files);
            return self.failpoints.hit("file-source:cleaned");
        }
        let parts = files
            .chunks(files.len().div_ceil(threads))
            .map(<[_]>::to_vec);
        let cleaning = parts.map(|files| {
            let (config, listing) = (Arc::clone(&self.config), Arc::clone(&self.listing));
            tokio::task::spawn_blocking(move || {
                config.clean_source.clean(listing.store(), &files);
            })
        });
        for cleaned in futures::future::join_all(cleaning).await {
            cleaned.map_err(|error| {
                WeirError::internal("files that were read could not be cleaned").with_source(error)
            })?;
        }
        self.failpoints.hit("file-source:cleaned")
    }

    /// Looks for files: on this thread on the local disk, on one that may wait in an object store.
    async fn plan<T, F>(&mut self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Run) -> Result<T> + Send + 'static,
    {
        if matches!(self.listing.store(), Store::Local) {
            return work(self.run()?);
        }
        self.run()?;
        let Some(mut run) = self.run.take() else {
            return Err(WeirError::internal("the file source has no state"));
        };
        let planned = tokio::task::spawn_blocking(move || {
            let result = work(&mut run);
            (run, result)
        });
        let (run, result) = planned.await.map_err(|error| {
            WeirError::internal("files could not be looked for").with_source(error)
        })?;
        self.run = Some(run);
        result
    }

    fn run(&mut self) -> Result<&mut Run> {
        let message = || WeirError::internal("the file source was asked before it was opened");
        self.run.as_mut().ok_or_else(message)
    }
}

#[async_trait]
impl Source for FileSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn description(&self) -> String {
        let root = self.listing.root().display();
        match self.listing.store() {
            Store::Local => format!("FileStreamSource[file:{root}]"),
            Store::Remote(_) => format!("FileStreamSource[{root}]"),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("file_source")
            .param("path", self.listing.root().display())
            .param("fileNameOnly", self.config.file_name_only)
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        self.listing.check()?;
        self.failpoints = Arc::clone(&context.failpoints);
        let (config, listing) = (Arc::clone(&self.config), Arc::clone(&self.listing));
        let (run, last_committed) = Run::start(config, listing, context).await?;
        self.run = Some(run);
        // The process may have died before it cleaned them.
        self.clean(last_committed).await
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        let start = start.cloned();
        self.plan(move |run| run.latest(start.as_ref(), admission))
            .await
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.plan(Run::fix_end).await
    }

    async fn log(&mut self, epoch: Epoch, start: Option<&Offset>, end: &Offset) -> Result<()> {
        self.run()?.log(epoch, start, end).await
    }

    async fn splits(
        &mut self,
        _epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        self.run()?.splits(start, end)
    }

    fn reader(&self, _subtask: usize) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(FileReader::new(
            Arc::clone(&self.config),
            Arc::clone(&self.listing),
        )))
    }

    async fn committed(&mut self, _epoch: Epoch, end: &Offset) -> Result<()> {
        let files = self.run()?.committed(end)?;
        self.done += files.len() as u64;
        self.clean(files).await
    }

    /// `tooOldFiles`: files that the newest listing left out for their age.
    fn metrics(&self, _end: Option<&Offset>) -> BTreeMap<String, String> {
        let too_old = self.run.as_ref().map_or(0, |run| run.too_old);
        BTreeMap::from([("tooOldFiles".to_owned(), too_old.to_string())])
    }

    fn newest(&self) -> Option<Offset> {
        self.run.as_ref().and_then(Run::newest)
    }

    fn backlog(&self) -> Option<Backlog> {
        let left = self.run.as_ref().map_or(0, Run::left);
        Some(Backlog {
            done: self.done,
            total: self.done + left,
            unit: "files",
        })
    }
}
