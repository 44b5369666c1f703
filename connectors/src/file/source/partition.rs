//! Columns whose values stand in the names of directories, `column=value`, as file sinks, Spark and Hive write them.
//!
//! Which columns a file has this way follows from its path below the path of the source alone, so that every file of an epoch may
//! have others and a replay reads the same.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatchOptions;
use weir_runtime::{Result, WeirError};

use crate::file::decode::csv::value_of;
use crate::file::decode::{
    BadRecords, BatchReader, DecodeError, DecodeSettings, parse::parse_date, parse::parse_f64,
    parse::parse_i32, parse::parse_i64, parse::parse_timestamp,
};
use crate::file::sink::hive;

/// Name and value of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartitionValue {
    pub(super) column: String,
    /// `None` is NULL.
    pub(super) value: Option<String>,
}

/// What the name of a directory says, if it is one of a partition.
pub(super) fn of_directory(name: &str) -> Option<PartitionValue> {
    let (column, value) = name.split_once('=')?;
    (!column.is_empty()).then(|| PartitionValue {
        column: hive::unescape(column),
        value: (value != hive::NULL).then(|| hive::unescape(value)),
    })
}

/// The values in the path of a file; `depth` parts of the path are those of the source.
pub(super) fn of_file(path: &Path, depth: usize) -> Vec<PartitionValue> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories
        .skip(depth)
        .filter_map(|directory| of_directory(&directory.as_os_str().to_string_lossy()))
        .collect()
}

/// Columns for values found in names, each of the narrowest of BIGINT (INT where it is enough), DOUBLE, DATE, TIMESTAMP and STRING
/// that holds all of them, as Spark has it. Columns stand in the order in which they were found.
pub(super) fn columns(found: &[PartitionValue]) -> Vec<Field> {
    let mut names: Vec<&str> = Vec::new();
    for value in found {
        if !names.contains(&value.column.as_str()) {
            names.push(&value.column);
        }
    }
    let field = |name: &str| {
        let values: Vec<&[u8]> = found
            .iter()
            .filter(|value| value.column == name)
            .filter_map(|value| value.value.as_deref().map(str::as_bytes))
            .collect();
        Field::new(name, narrowest(&values), true)
    };
    names.into_iter().map(field).collect()
}

fn narrowest(values: &[&[u8]]) -> DataType {
    type Fits = fn(&[u8]) -> bool;
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let types: [(DataType, Fits); 5] = [
        (DataType::Int32, |text| parse_i32(text).is_some()),
        (DataType::Int64, |text| parse_i64(text).is_some()),
        (DataType::Float64, |text| parse_f64(text).is_some()),
        (DataType::Date32, |text| {
            text.len() == 10 && parse_date(text).is_some()
        }),
        (micros, |text| {
            text.len() > 10 && parse_timestamp(text, Default::default()).is_some()
        }),
    ];
    let fits = |(data_type, fits): (DataType, Fits)| {
        values.iter().all(|text| fits(text)).then_some(data_type)
    };
    match values.is_empty() {
        true => DataType::Utf8,
        false => types.into_iter().find_map(fits).unwrap_or(DataType::Utf8),
    }
}

/// What the names of directories say about some columns.
#[derive(Debug)]
pub struct PartitionRows {
    schema: SchemaRef,
    depth: usize,
    settings: DecodeSettings,
}

impl PartitionRows {
    /// For these columns; `depth` parts of a path are those of the source.
    ///
    /// # Errors
    /// A column the schema does not have.
    pub(super) fn new(columns: &[&str], depth: usize, settings: DecodeSettings) -> Result<Self> {
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let mut known = settings.schema.fields().iter();
            let field = known.find(|field| field.name().eq_ignore_ascii_case(column));
            fields.push(Arc::clone(field.ok_or_else(|| {
                WeirError::internal(format!("column '{column}' is none of the files' schema"))
            })?));
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            depth,
            settings,
        })
    }

    /// The columns, in the types of the schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The one row that a directory stands for; `None` if its name does not name all columns, or a value is none of its type.
    pub fn of(&self, directory: &Path) -> Option<RecordBatch> {
        let values = of_file(&directory.join("-"), self.depth);
        let value = |field: &FieldRef| {
            let mut named = values.iter().rev();
            let value = named.find(|value| value.column.eq_ignore_ascii_case(field.name()))?;
            constant(field, value, &self.settings, "").ok()
        };
        let row: Option<Vec<ArrayRef>> = self.schema.fields().iter().map(value).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), row?).ok()
    }
}

/// Where the columns of a schema come from in one file.
pub(super) struct Layout {
    /// Columns that are in the file.
    pub(super) data: SchemaRef,
    /// For each column of the schema its one value, where it stands in the path.
    constants: Vec<Option<ArrayRef>>,
}

impl Layout {
    /// `None` if every column is in the file. Names are compared in any letter case, as Spark does.
    ///
    /// # Errors
    /// A value that is none of its column's type.
    pub(super) fn of(
        values: &[PartitionValue],
        settings: &DecodeSettings,
        file: &str,
    ) -> Result<Option<Self>> {
        let schema = &settings.schema;
        let mut constants = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let same = |value: &&PartitionValue| value.column.eq_ignore_ascii_case(field.name());
            let value = values.iter().rev().find(same);
            constants.push(
                value
                    .map(|value| constant(field, value, settings, file))
                    .transpose()?,
            );
        }
        if constants.iter().all(Option::is_none) {
            return Ok(None);
        }
        let fields = schema.fields().iter().zip(&constants);
        let data: Vec<FieldRef> = fields
            .filter(|(_, constant)| constant.is_none())
            .map(|(field, _)| Arc::clone(field))
            .collect();
        Ok(Some(Self {
            data: Arc::new(Schema::new(data)),
            constants,
        }))
    }
}

fn constant(
    field: &FieldRef,
    value: &PartitionValue,
    settings: &DecodeSettings,
    file: &str,
) -> Result<ArrayRef> {
    let is_text = matches!(
        field.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    match value.value.as_deref() {
        None => Ok(new_null_array(field.data_type(), 1)),
        // Some write NULL so.
        Some("") if !is_text => Ok(new_null_array(field.data_type(), 1)),
        Some(text) => value_of(field, text, settings).ok_or_else(|| {
            WeirError::data(format!(
                "directory '{}={text}' holds no value of type {} for column '{}'",
                value.column,
                field.data_type(),
                field.name()
            ))
            .at_position(file.to_owned())
        }),
    }
}

/// A reader that adds the columns of the path to those of the file.
pub(super) struct WithPartitions {
    pub(super) file: Arc<str>,
    pub(super) reader: Box<dyn BatchReader>,
    pub(super) layout: Layout,
    pub(super) schema: SchemaRef,
}

impl BatchReader for WithPartitions {
    fn next_batch(&mut self) -> std::result::Result<Option<RecordBatch>, DecodeError> {
        let Some(batch) = self.reader.next_batch()? else {
            return Ok(None);
        };
        self.complete(&batch)
            .map(Some)
            .map_err(|source| DecodeError::Batch {
                file: Arc::clone(&self.file),
                source,
            })
    }

    fn bad_records(&self) -> &BadRecords {
        self.reader.bad_records()
    }
}

impl WithPartitions {
    fn complete(
        &self,
        batch: &RecordBatch,
    ) -> std::result::Result<RecordBatch, arrow::error::ArrowError> {
        let firsts = arrow::array::UInt32Array::from(vec![0; batch.num_rows()]);
        let mut data = batch.columns().iter();
        let mut columns = Vec::with_capacity(self.layout.constants.len());
        for constant in &self.layout.constants {
            columns.push(match constant {
                Some(value) => take(value, &firsts, None)?,
                None => data.next().map(Arc::clone).ok_or_else(|| {
                    arrow::error::ArrowError::SchemaError("a column of the file is missing".into())
                })?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(names: &[&str]) -> Vec<PartitionValue> {
        names.iter().filter_map(|name| of_directory(name)).collect()
    }

    #[test]
    fn partition_values_are_what_the_sink_escaped() {
        let path = Path::new(
            "/data/in/dt=2024-01-01/k=a%2Fb%3D/plain/_q=__HIVE_DEFAULT_PARTITION__/f=x.json",
        );
        let found: Vec<(String, Option<String>)> = of_file(path, 3)
            .into_iter()
            .map(|value| (value.column, value.value))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("dt".to_owned(), some("2024-01-01")),
                ("k".to_owned(), some("a/b=")),
                ("_q".to_owned(), None)
            ]
        );
        assert!(of_file(Path::new("/a=1/in/f.json"), 3).is_empty());
    }

    #[test]
    fn partition_columns_get_the_narrowest_type_for_all_values() {
        let type_of = |names: &[&str]| columns(&values(names))[0].data_type().clone();
        assert_eq!(type_of(&["k=1", "k=02"]), DataType::Int32);
        assert_eq!(type_of(&["k=1", "k=3000000000"]), DataType::Int64);
        assert_eq!(type_of(&["k=1", "k=2.5"]), DataType::Float64);
        assert_eq!(
            type_of(&["k=2024-01-01", "k=__HIVE_DEFAULT_PARTITION__"]),
            DataType::Date32
        );
        assert!(matches!(
            type_of(&["k=2024-01-01 10%3A00%3A00"]),
            DataType::Timestamp(..)
        ));
        assert_eq!(type_of(&["k=1", "k=a"]), DataType::Utf8);
        assert_eq!(type_of(&["k=__HIVE_DEFAULT_PARTITION__"]), DataType::Utf8);
        let names: Vec<String> = columns(&values(&["b=1", "a=2", "b=3"]))
            .iter()
            .map(|field| field.name().clone())
            .collect();
        assert_eq!(names, ["b", "a"]);
    }
}
