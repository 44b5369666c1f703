//! The columns of tables without a schema, by what their Parquet or ORC files say of themselves.

use std::ops::Range;
use std::path::PathBuf;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use arrow::datatypes::SchemaRef;
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use weir_runtime::{Result, WeirError};

use super::config::FileSourceConfig;
use super::files::FoundFile;
use super::listing::Listing;
use super::orc;
use crate::file::decode::parquet;
use crate::file::remote::Remote;
use crate::file::store::{Store, wait};

impl FileSourceConfig {
    /// The columns of the Parquet files that are there now, in the order in which they are met; of files in an object store only
    /// the footers are fetched.
    ///
    /// # Errors
    /// If there are no files, one is no Parquet file, or two have columns of one name and different types.
    pub fn parquet_columns(&self) -> Result<SchemaRef> {
        let (store, files) = self.files_with_columns()?;
        let columns = match store {
            Store::Local => parquet::columns_of(&paths(files)),
            Store::Remote(remote) => parquet::columns_of_readers(files.into_iter().map(|file| {
                let name = file.path.display().to_string();
                let file = RemoteFile {
                    remote: remote.clone(),
                    path: file.path,
                    size: file.size,
                };
                Ok((name.into(), file))
            })),
        };
        columns.map_err(|error| {
            WeirError::data(error.to_string())
                .with_condition("FAILED_READ_FILE")
                .with_source(error)
        })
    }

    /// The columns of the ORC files that are there now, in the order in which they are met.
    ///
    /// # Errors
    /// If there are no files or they are in an object store, one is no ORC file, two have columns of one name and different types, a
    /// column is of a type that no table has, or the feature `orc` is off.
    pub fn orc_columns(&self) -> Result<SchemaRef> {
        let (store, files) = self.files_with_columns()?;
        match store {
            Store::Local => orc::columns(&paths(files)),
            Store::Remote(_) => Err(WeirError::plan(format!(
                "a table of orc files at '{}' needs a schema: columns are looked up on the local disk only",
                self.path
            ))),
        }
    }

    /// The files that are there now, by name, and where.
    fn files_with_columns(&self) -> Result<(Store, Vec<FoundFile>)> {
        let listing = Listing::new(self)?;
        let mut files = listing.list(&mut |_| true)?.files;
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        if files.is_empty() {
            return Err(WeirError::config(format!(
                "path '{}' holds no files to take the columns from: give a schema",
                self.path
            ))
            .with_condition("UNABLE_TO_INFER_SCHEMA"));
        }
        Ok((listing.store().clone(), files))
    }
}

fn paths(files: Vec<FoundFile>) -> Vec<PathBuf> {
    files.into_iter().map(|file| file.path).collect()
}

/// A file in an object store of which parts are read. Waits.
struct RemoteFile {
    remote: Remote,
    path: PathBuf,
    size: u64,
}

impl RemoteFile {
    fn part(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        let part = wait(self.remote.part(&self.path, range));
        part.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl Length for RemoteFile {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for RemoteFile {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.part(start..self.size).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.part(start..start + length as u64)
    }
}
