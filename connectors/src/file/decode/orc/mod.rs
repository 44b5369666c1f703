//! Apache ORC files.
//!
//! The library decodes the columns of a stripe; everything that says where they lie and how much there is of them is read and checked
//! here first ([`tail`], [`stripe`]), because the library trusts it: with memory, with the stack, and with its own panics. What
//! panics all the same is an error of the file. ORC files have no checksums, so a value that changed may be one that can be read.
//!
//! Columns are found by name and may differ in type as [`super::adapt`] says; [`times`] has the rules for dates and times. A file that
//! is empty, cut off or damaged is an error, never a file without rows.

mod chunks;
mod convert;
mod input;
mod numbers;
mod problem;
mod stripe;
mod tail;
#[cfg(test)]
mod tests;
mod times;
mod types;

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use orc_rust::projection::ProjectionMask;
use orc_rust::schema::RootDataType;

use self::input::Input;
use self::problem::{Problem, Result};
use self::stripe::{OpenStripe, Wanted};
use self::tail::Tail;
use self::types::Way;
use super::adapt::Columns;
use super::{BadRecords, BatchReader, DecodeError, DecodeSettings};
use crate::collect::panic_text;

const FORMAT: &str = "orc";

/// Reads one ORC file, stripe after stripe; holds the wanted columns of one stripe as they stand in the file, and one batch.
///
/// Of the settings `schema`, `batch_rows`, `batch_bytes` and `time_zone` count; an ORC file has no bad records.
pub struct OrcReader {
    file: Arc<str>,
    input: Input,
    tail: Tail,
    settings: DecodeSettings,
    columns: Columns,
    projected: RootDataType,
    /// The projected columns as the library decodes them.
    decoded: SchemaRef,
    /// The same columns as they are in the file, and the way there.
    found: SchemaRef,
    ways: Vec<Way>,
    stripe: Option<OpenStripe>,
    next_stripe: usize,
    bad: BadRecords,
}

impl OrcReader {
    /// A reader of a local file; `name` is the name used in errors.
    ///
    /// # Errors
    /// The file is no complete ORC file, or a column does not fit the schema.
    pub fn from_file(
        file: File,
        name: &str,
        settings: &DecodeSettings,
    ) -> std::result::Result<Self, DecodeError> {
        let file_name: Arc<str> = name.into();
        let failed = |problem: Problem| problem.into_error(&file_name);
        let input = Input::new(file).map_err(|error| failed(error.into()))?;
        let tail = Tail::read(&input).map_err(failed)?;
        let root = tail.metadata.root_data_type();
        let (found, mut ways) = planned(&tail, &settings.schema);
        let mut columns = Columns::plan(&found, &settings.schema, &file_name)?;
        let places = columns.keep_used();
        let numbers = places
            .iter()
            .map(|place| root.children()[*place].data_type().column_index());
        let projected = root.project(&ProjectionMask::roots(root, numbers));
        Ok(Self {
            decoded: Arc::new(projected.create_arrow_schema(&HashMap::new())),
            found: Arc::new(Schema::new(
                places
                    .iter()
                    .map(|place| found.field(*place).clone())
                    .collect::<Vec<Field>>(),
            )),
            ways: places
                .iter()
                .map(|place| std::mem::replace(&mut ways[*place], Way::Same))
                .collect(),
            settings: settings.clone(),
            file: file_name,
            input,
            tail,
            columns,
            projected,
            stripe: None,
            next_stripe: 0,
            bad: BadRecords::default(),
        })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(stripe) = &mut self.stripe {
                if let Some(batch) = stripe.next_batch()? {
                    let times = &mut stripe.times;
                    let columns = convert::batch(&batch, &self.found, &self.ways, times)?;
                    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let found = Arc::clone(&self.found);
                    let batch = RecordBatch::try_new_with_options(found, columns, &rows);
                    return match batch {
                        Ok(batch) => Ok(Some(batch)),
                        Err(error) => problem::damage(error.to_string()),
                    };
                }
                self.stripe = None;
            }
            let Some(stripe) = self.tail.stripes.get(self.next_stripe) else {
                return Ok(None);
            };
            self.next_stripe += 1;
            let wanted = Wanted {
                columns: &self.projected,
                schema: &self.decoded,
                settings: &self.settings,
            };
            let stripe = OpenStripe::new(&self.input, &self.tail, stripe, &wanted)?;
            self.stripe = Some(stripe);
        }
    }
}

/// The columns of a file, and the way to each from what the library decodes.
fn planned(tail: &Tail, schema: &SchemaRef) -> (Schema, Vec<Way>) {
    let root = tail.metadata.root_data_type();
    let names = root.create_arrow_schema(&HashMap::new());
    let wanted = DataType::Struct(schema.fields().clone());
    let (fields, ways): (Vec<Field>, Vec<Way>) = root
        .children()
        .iter()
        .zip(types::wanted_of(names.fields(), Some(&wanted)))
        .map(|(column, wanted)| {
            let (found, way) = types::plan(column.data_type(), &tail.types, wanted);
            (Field::new(column.name(), found, true), way)
        })
        .unzip();
    (Schema::new(fields), ways)
}

impl BatchReader for OrcReader {
    fn next_batch(&mut self) -> std::result::Result<Option<RecordBatch>, DecodeError> {
        let next = self
            .next()
            .map_err(|problem| problem.into_error(&self.file))?;
        next.map(|batch| self.columns.adapt(&batch, &self.file))
            .transpose()
    }

    fn bad_records(&self) -> &BadRecords {
        &self.bad
    }
}

/// What [`crate::file::source::FileSourceConfig::orc_columns`] answers.
///
/// # Errors
/// As that.
pub fn columns_of(files: &[PathBuf]) -> std::result::Result<SchemaRef, DecodeError> {
    let mut merged = Schema::empty();
    for path in files {
        let name: Arc<str> = path.display().to_string().into();
        let schema = File::open(path)
            .map_err(Problem::from)
            .and_then(columns_of_file)
            .map_err(|problem| problem.into_error(&name))?;
        merged = Schema::try_merge([merged, schema])
            .map_err(|source| DecodeError::Batch { file: name, source })?;
    }
    Ok(Arc::new(merged))
}

fn columns_of_file(file: File) -> Result<Schema> {
    let tail = Tail::read(&Input::new(file)?)?;
    let columns = tail.metadata.root_data_type().children();
    let fields = columns
        .iter()
        .map(|column| types::column(column.name(), column.data_type(), &tail.types))
        .collect::<Result<Vec<Field>>>()?;
    Ok(Schema::new(fields))
}

/// Runs the library; a panic in it is damage to the file.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        problem::damage(format!(
            "decoding it panicked: {}",
            panic_text(panic.as_ref())
        ))
    })
}
