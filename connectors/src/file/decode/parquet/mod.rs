//! The Parquet format.
//!
//! Columns are found by name, those of structs too; what the file lacks is NULL, what the schema lacks is not read. Types
//! may differ where no value can change ([`super::adapt`] has the list), anything else is an error before the first row. A file
//! that is empty, cut off or damaged is an error as well, never a file without rows.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use super::adapt::Columns;
use super::{BadRecords, BatchReader, DecodeError, DecodeSettings};

/// Reads one Parquet file, row group after row group; holds one batch and the pages it comes from.
///
/// Of the settings `schema`, `batch_rows` and `batch_bytes` count; a Parquet file has no bad records.
pub struct ParquetReader {
    file: Arc<str>,
    reader: ParquetRecordBatchReader,
    columns: Columns,
    bad: BadRecords,
}

impl ParquetReader {
    /// A reader of a local file; `name` is the name used in errors.
    ///
    /// # Errors
    /// The file is no complete Parquet file, or a column does not fit the schema.
    pub fn from_file(
        file: File,
        name: &str,
        settings: &DecodeSettings,
    ) -> Result<Self, DecodeError> {
        Self::new(file, name, settings)
    }

    /// A reader of a file that is in memory.
    ///
    /// # Errors
    /// As [`ParquetReader::from_file`].
    pub fn from_bytes(
        bytes: Bytes,
        name: &str,
        settings: &DecodeSettings,
    ) -> Result<Self, DecodeError> {
        Self::new(bytes, name, settings)
    }

    fn new<R: ChunkReader + 'static>(
        input: R,
        name: &str,
        settings: &DecodeSettings,
    ) -> Result<Self, DecodeError> {
        let file: Arc<str> = name.into();
        let damaged = |source| DecodeError::Parquet {
            file: Arc::clone(&file),
            source,
        };
        let metadata = load(&input).map_err(damaged)?;
        let mut columns = Columns::plan(metadata.schema(), &settings.schema, &file)?;
        let roots = columns.keep_used();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots.iter().copied());
        let rows = batch_rows(metadata.metadata(), &mask, settings);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata)
            .with_projection(mask)
            .with_batch_size(rows)
            .build()
            .map_err(damaged)?;
        Ok(Self {
            reader,
            columns,
            bad: BadRecords::default(),
            file,
        })
    }
}

/// The columns of all these local files, in the order in which they are met; timestamps in microseconds. Reads their footers.
///
/// # Errors
/// A file is no Parquet file, or two files have columns of one name and different types.
pub(crate) fn columns_of(files: &[PathBuf]) -> Result<SchemaRef, DecodeError> {
    columns_of_readers(files.iter().map(|path| {
        let name: Arc<str> = path.display().to_string().into();
        let file = File::open(path).map_err(|source| DecodeError::Read {
            file: Arc::clone(&name),
            line: 0,
            source,
        })?;
        Ok((name, file))
    }))
}

/// As [`columns_of`], of files that are open, each with its name.
pub(crate) fn columns_of_readers<R: ChunkReader>(
    files: impl Iterator<Item = Result<(Arc<str>, R), DecodeError>>,
) -> Result<SchemaRef, DecodeError> {
    let mut merged = Schema::empty();
    for file in files {
        let (name, file) = file?;
        let metadata = load(&file).map_err(|source| DecodeError::Parquet {
            file: Arc::clone(&name),
            source,
        })?;
        let fields = metadata.schema().fields().iter().map(in_micros);
        let schema = Schema::new(fields.collect::<Vec<_>>());
        merged = Schema::try_merge([merged, schema])
            .map_err(|source| DecodeError::Batch { file: name, source })?;
    }
    Ok(Arc::new(merged))
}

fn in_micros(field: &FieldRef) -> Field {
    let micros = match field.data_type() {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        other => other.clone(),
    };
    Field::new(field.name(), micros, true)
}

impl BatchReader for ParquetReader {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, DecodeError> {
        loop {
            match self.reader.next() {
                None => return Ok(None),
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => return self.columns.adapt(&batch, &self.file).map(Some),
                Some(Err(error)) => {
                    return Err(DecodeError::Parquet {
                        file: Arc::clone(&self.file),
                        source: ParquetError::ArrowError(error.to_string()),
                    });
                }
            }
        }
    }

    fn bad_records(&self) -> &BadRecords {
        &self.bad
    }
}

/// Reads the footer. Columns of the old INT96 timestamps are read as microseconds, because nanoseconds, the default, do not
/// reach further than the year 2262.
fn load<R: ChunkReader>(input: &R) -> Result<ArrowReaderMetadata, ParquetError> {
    let metadata = ArrowReaderMetadata::load(input, ArrowReaderOptions::new())?;
    let is_int96 = int96_columns(&metadata);
    if !is_int96.contains(&true) {
        return Ok(metadata);
    }
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fields: Vec<FieldRef> = metadata
        .schema()
        .fields()
        .iter()
        .zip(is_int96)
        .map(|(field, is_int96)| {
            if is_int96 {
                Arc::new(Field::new(
                    field.name(),
                    micros.clone(),
                    field.is_nullable(),
                ))
            } else {
                Arc::clone(field)
            }
        })
        .collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
}

/// Which columns are of the old INT96 timestamps.
fn int96_columns(metadata: &ArrowReaderMetadata) -> Vec<bool> {
    let types = metadata.parquet_schema().root_schema().get_fields();
    types
        .iter()
        .map(|t| t.is_primitive() && t.get_physical_type() == PhysicalType::INT96)
        .collect()
}

/// Rows of a batch: as many as the settings say, fewer where rows are so wide that they would exceed its bytes.
fn batch_rows(
    metadata: &ParquetMetaData,
    mask: &ProjectionMask,
    settings: &DecodeSettings,
) -> usize {
    let mut rows = settings.batch_rows.max(1);
    for group in metadata.row_groups() {
        let bytes: u64 = group
            .columns()
            .iter()
            .enumerate()
            .filter(|(leaf, _)| mask.leaf_included(*leaf))
            .map(|(_, column)| column.uncompressed_size().unsigned_abs())
            .sum();
        let width = bytes / group.num_rows().unsigned_abs().max(1);
        let fit = settings.batch_bytes as u64 / width.max(1);
        rows = rows.min(usize::try_from(fit).unwrap_or(usize::MAX).max(1));
    }
    rows
}
