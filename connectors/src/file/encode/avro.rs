//! The Avro format: object container files of one record type, every field a union with null, as Spark writes them.
//!
//! TINYINT and SMALLINT become `int`, which Avro has for them, and come back as INT. With the option `avroSchema` files are in that
//! schema ([`given`]).

mod given;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::errors::AvroError;
use arrow_avro::schema::{AVRO_NAME_METADATA_KEY, AVRO_NAMESPACE_METADATA_KEY};
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_avro::writer::{Writer, WriterBuilder};

use self::given::GivenSchema;
use super::columns::Columns;
use super::value::is_scalar;
use super::{BatchWriter, EncodeError, FileStats};
use crate::file::codec::Counted;

pub(super) const FORMAT: &str = "avro";

const ALLOWED: &str = "BOOLEAN, numbers, DECIMAL up to 38 digits, DATE, TIMESTAMP, STRING, BINARY, STRUCT, ARRAY, and MAP with STRING keys";

/// Rows of a block: blocks are what a reader holds at a time.
const BLOCK_ROWS: usize = 4096;

/// Codec of the blocks of an Avro file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AvroCompression {
    /// No compression.
    None,
    /// Snappy, Spark's and our default.
    #[default]
    Snappy,
    /// Deflate.
    Deflate,
    /// Zstandard.
    Zstd,
}

impl AvroCompression {
    fn codec(self) -> Option<CompressionCodec> {
        match self {
            Self::None => None,
            Self::Snappy => Some(CompressionCodec::Snappy),
            Self::Deflate => Some(CompressionCodec::Deflate),
            Self::Zstd => Some(CompressionCodec::ZStandard),
        }
    }
}

/// Options of the Avro format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvroWriteOptions {
    /// `compression`; default snappy.
    pub compression: AvroCompression,
    /// `recordName`: name of the record type; default `topLevelRecord`.
    pub record_name: String,
    /// `recordNamespace`: namespace of the record type; default none.
    pub record_namespace: Option<String>,
    /// `avroSchema`, or the text of the file `avroSchemaUrl`: the schema of the files, which so have neither of those names. Its fields
    /// are found by name; a column without one, and one field without a column that may not be null, is an error.
    pub schema: Option<String>,
}

impl Default for AvroWriteOptions {
    fn default() -> Self {
        Self {
            compression: AvroCompression::default(),
            record_name: "topLevelRecord".to_owned(),
            record_namespace: None,
            schema: None,
        }
    }
}

/// Writes one Avro file.
pub(super) struct AvroWriter {
    columns: Columns,
    output: Output,
    bytes: Arc<AtomicU64>,
    rows: u64,
}

/// In whose schema files are.
enum Output {
    /// In the one that the library derives from the columns.
    Derived(SchemaRef, Box<Writer<Counted, AvroOcfFormat>>),
    Given(Box<GivenSchema>),
}

impl AvroWriter {
    pub(super) fn new(
        options: &AvroWriteOptions,
        schema: &SchemaRef,
        out: Box<dyn Write + Send>,
    ) -> Result<Self, EncodeError> {
        let columns = Columns::new(FORMAT, schema, accepts, ALLOWED)?;
        let (out, bytes) = Counted::new(out);
        let output = match &options.schema {
            Some(text) => {
                let given = GivenSchema::new(text, columns.plain(), options.compression, out)?;
                Output::Given(Box::new(given))
            }
            None => Output::derived(options, &columns, out)?,
        };
        Ok(Self {
            columns,
            output,
            bytes,
            rows: 0,
        })
    }
}

impl Output {
    fn derived(
        options: &AvroWriteOptions,
        columns: &Columns,
        out: Counted,
    ) -> Result<Self, EncodeError> {
        let mut metadata = HashMap::from([(
            AVRO_NAME_METADATA_KEY.to_owned(),
            options.record_name.clone(),
        )]);
        if let Some(namespace) = &options.record_namespace {
            metadata.insert(AVRO_NAMESPACE_METADATA_KEY.to_owned(), namespace.clone());
        }
        let fields = columns.plain().fields().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let writer = WriterBuilder::new(schema.as_ref().clone())
            .with_compression(options.compression.codec())
            .build::<_, AvroOcfFormat>(out)
            .map_err(failed)?;
        Ok(Self::Derived(schema, Box::new(writer)))
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), EncodeError> {
        let (schema, writer) = match self {
            Self::Given(given) => return given.write(columns),
            Self::Derived(schema, writer) => (schema, writer),
        };
        let plain = RecordBatch::try_new(Arc::clone(schema), columns)
            .map_err(|error| failed(AvroError::from(error)))?;
        for from in (0..plain.num_rows()).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(plain.num_rows() - from);
            writer.write(&plain.slice(from, rows)).map_err(failed)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EncodeError> {
        match self {
            Self::Given(given) => given.finish(),
            Self::Derived(_, writer) => writer.finish().map_err(failed),
        }
    }
}

impl BatchWriter for AvroWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        let columns = self.columns.adapt(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.output.write(columns)?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn finish(mut self: Box<Self>) -> Result<FileStats, EncodeError> {
        self.output.finish()?;
        Ok(FileStats {
            rows: self.rows,
            bytes: self.bytes.load(Ordering::Relaxed),
        })
    }
}

fn failed(error: AvroError) -> EncodeError {
    match error {
        AvroError::IoError(_, source) => EncodeError::Io {
            format: FORMAT,
            source,
        },
        other => EncodeError::Avro { source: other },
    }
}

fn accepts(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => false,
        DataType::Struct(fields) => !fields.is_empty(),
        DataType::List(_) => true,
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields
                .first()
                .is_some_and(|key| *key.data_type() == DataType::Utf8),
            _ => false,
        },
        scalar => is_scalar(scalar),
    }
}
