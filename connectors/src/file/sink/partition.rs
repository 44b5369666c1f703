//! Cuts a batch by the values of its partition columns: each combination is a directory, and its rows lose the columns the
//! directory's name holds.

use std::collections::HashMap;
use std::sync::{Arc, Once};

use arrow::array::cast::AsArray;
use arrow::array::types::TimestampMicrosecondType;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, take, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::row::{RowConverter, SortField};
use chrono::{DateTime, Offset, TimeDelta, TimeZone};
use weir_runtime::{Result, WeirError};

use super::hive;
use crate::file::decode::parse::Zone;

const ALLOWED: &str = "STRING, BOOLEAN, whole numbers, DECIMAL, DATE, TIMESTAMP";

/// Rows that go to one directory.
#[derive(Debug)]
pub(super) struct Part {
    /// Path of the directory below the output, parts joined by `/`; empty without partition columns.
    pub(super) directory: String,
    /// The rows, without partition columns, in their order.
    pub(super) rows: RecordBatch,
}

/// Where partition columns stand in the rows and what is left without them.
pub(super) struct Partitioner {
    columns: Vec<usize>,
    data: Vec<usize>,
    file_schema: SchemaRef,
    schema: SchemaRef,
    converter: RowConverter,
    zone: Zone,
    /// Told once that an empty text was written as NULL.
    empty: Once,
}

impl Partitioner {
    /// Finds the columns, by their exact name or, if one alone fits, in any letter case.
    ///
    /// # Errors
    /// If a column is unknown, named twice, of a type that makes no directory name, or none would be left for the files.
    pub(super) fn new(schema: &SchemaRef, partition_by: &[String], zone: Zone) -> Result<Self> {
        let mut columns = Vec::with_capacity(partition_by.len());
        for name in partition_by {
            let index = find(schema, name)?;
            check_type(schema.field(index))?;
            if columns.contains(&index) {
                return Err(WeirError::config(format!(
                    "partition column '{name}' is named twice"
                )));
            }
            columns.push(index);
        }
        let data: Vec<usize> = (0..schema.fields().len())
            .filter(|index| !columns.contains(index))
            .collect();
        if data.is_empty() && !columns.is_empty() {
            return Err(WeirError::plan(format!(
                "cannot use all columns for partition columns: no column is left for the files, the rows have {}",
                names(schema)
            ))
            .with_condition("ALL_PARTITION_COLUMNS_NOT_ALLOWED"));
        }
        let fields = columns
            .iter()
            .map(|index| SortField::new(schema.field(*index).data_type().clone()))
            .collect();
        Ok(Self {
            file_schema: Arc::new(schema.project(&data)?),
            schema: Arc::clone(schema),
            converter: RowConverter::new(fields)?,
            columns,
            data,
            zone,
            empty: Once::new(),
        })
    }

    /// Columns of the files.
    pub(super) fn file_schema(&self) -> &SchemaRef {
        &self.file_schema
    }

    /// Cuts a batch; parts come in the order in which their first rows stand.
    ///
    /// # Errors
    /// If the batch does not have the columns it was said to have.
    pub(super) fn split(&self, batch: &RecordBatch) -> Result<Vec<Part>> {
        if self.columns.is_empty() {
            return Ok(vec![Part {
                directory: String::new(),
                rows: batch.clone(),
            }]);
        }
        if batch.num_columns() != self.schema.fields().len() {
            return Err(WeirError::internal(format!(
                "rows of {} columns for a file sink of {}",
                batch.num_columns(),
                self.schema.fields().len()
            )));
        }
        let keys: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|index| Arc::clone(batch.column(*index)))
            .collect();
        let groups = self.group(&keys)?;
        let firsts = UInt32Array::from_iter_values(groups.iter().map(|rows| rows[0]));
        let directories = self.directories(&keys, &firsts)?;
        let data = self.data_of(batch)?;
        let mut parts = Vec::with_capacity(groups.len());
        for (directory, rows) in directories.into_iter().zip(groups) {
            let whole = rows.len() == batch.num_rows();
            let rows = if whole {
                data.clone()
            } else {
                take_record_batch(&data, &UInt32Array::from(rows))?
            };
            parts.push(Part { directory, rows });
        }
        merge_same_directory(parts)
    }

    /// Indices of the rows of each combination.
    fn group(&self, keys: &[ArrayRef]) -> Result<Vec<Vec<u32>>> {
        let rows = self.converter.convert_columns(keys)?;
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            let group = *known.entry(row.data()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            let index = u32::try_from(index)
                .map_err(|_| WeirError::internal("a batch of more than 2^32 rows"))?;
            groups[group].push(index);
        }
        Ok(groups)
    }

    fn directories(&self, keys: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<String>> {
        let mut directories = vec![String::new(); rows.len()];
        for (key, column) in keys.iter().zip(&self.columns) {
            let values = texts(&take(key, rows, None)?, self.zone)?;
            for (directory, value) in directories.iter_mut().zip(values) {
                if !directory.is_empty() {
                    directory.push('/');
                }
                let name = self.schema.field(*column).name();
                if value.as_deref() == Some("") {
                    self.empty.call_once(|| {
                        tracing::warn!(
                            column = %name,
                            "an empty text has no directory of its own: partition columns give NULL for it, as in Spark"
                        );
                    });
                }
                directory.push_str(&hive::directory(name, value.as_deref()));
            }
        }
        Ok(directories)
    }

    fn data_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .data
            .iter()
            .map(|index| Arc::clone(batch.column(*index)))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.file_schema),
            columns,
            &options,
        )?)
    }
}

/// NULL and the empty text are two values and one directory.
fn merge_same_directory(parts: Vec<Part>) -> Result<Vec<Part>> {
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(parts.len());
    for part in parts {
        match places.get(&part.directory) {
            Some(place) => {
                let rows = &merged[*place].rows;
                merged[*place].rows =
                    arrow::compute::concat_batches(rows.schema_ref(), [rows, &part.rows])?;
            }
            None => {
                places.insert(part.directory.clone(), merged.len());
                merged.push(part);
            }
        }
    }
    Ok(merged)
}

fn find(schema: &Schema, name: &str) -> Result<usize> {
    if let Ok(index) = schema.index_of(name) {
        return Ok(index);
    }
    let mut same = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| field.name().eq_ignore_ascii_case(name));
    match (same.next(), same.next()) {
        (Some((index, _)), None) => Ok(index),
        _ => Err(WeirError::plan(format!(
            "partition column '{name}' is not among the columns of the rows: {}",
            names(schema)
        ))
        .with_condition("PARTITION_COLUMN_NOT_FOUND_IN_SCHEMA")),
    }
}

fn names(schema: &Schema) -> String {
    schema
        .fields()
        .iter()
        .map(|field| format!("'{}'", field.name()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn check_type(field: &Field) -> Result<()> {
    use DataType as T;
    let good = field.data_type().is_integer()
        || matches!(
            field.data_type(),
            T::Utf8
                | T::LargeUtf8
                | T::Utf8View
                | T::Boolean
                | T::Decimal128(..)
                | T::Decimal256(..)
                | T::Date32
                | T::Timestamp(..)
        );
    if good {
        return Ok(());
    }
    Err(WeirError::plan(format!(
        "partition column '{}' has type {}, allowed: {ALLOWED}",
        field.name(),
        field.data_type()
    ))
    .with_condition("INVALID_PARTITION_COLUMN_DATA_TYPE"))
}

/// Values as Spark casts them to STRING.
fn texts(values: &ArrayRef, zone: Zone) -> Result<Vec<Option<String>>> {
    if let DataType::Timestamp(_, stored) = values.data_type() {
        let micros = cast(
            values,
            &DataType::Timestamp(TimeUnit::Microsecond, stored.clone()),
        )?;
        let micros = micros.as_primitive::<TimestampMicrosecondType>();
        let zone = if stored.is_some() { zone } else { Zone::Utc };
        return micros
            .iter()
            .map(|value| value.map(|value| timestamp(value, zone)).transpose())
            .collect();
    }
    let texts = cast(values, &DataType::Utf8)?;
    Ok(texts
        .as_string::<i32>()
        .iter()
        .map(|text| text.map(str::to_owned))
        .collect())
}

/// `2024-01-01 13:00:05.25` in this zone.
fn timestamp(micros: i64, zone: Zone) -> Result<String> {
    let out_of_range = || {
        WeirError::data(format!(
            "timestamp of {micros} microseconds is outside of the calendar"
        ))
    };
    let utc = DateTime::from_timestamp_micros(micros)
        .ok_or_else(out_of_range)?
        .naive_utc();
    let seconds = match zone {
        Zone::Utc => 0,
        Zone::Offset(seconds) => seconds,
        Zone::Region(region) => region
            .offset_from_utc_datetime(&utc)
            .fix()
            .local_minus_utc(),
    };
    let local = utc
        .checked_add_signed(TimeDelta::seconds(seconds.into()))
        .ok_or_else(out_of_range)?;
    let text = local.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
    let short = text.trim_end_matches('0').trim_end_matches('.');
    Ok(if text.contains('.') {
        short.to_owned()
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn batch() -> RecordBatch {
        let k = StringArray::from(vec![Some("a/b"), None, Some("a/b"), Some(""), Some("c")]);
        let v = Int64Array::from(vec![1, 2, 3, 4, 5]);
        RecordBatch::try_from_iter_with_nullable([
            ("k", Arc::new(k) as ArrayRef, true),
            ("v", Arc::new(v) as ArrayRef, false),
        ])
        .expect("batch")
    }

    fn by(columns: &[&str]) -> Result<Partitioner> {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        Partitioner::new(&batch().schema(), &columns, Zone::Utc)
    }

    #[test]
    fn split_groups_rows_in_order_and_null_with_empty_text() {
        let parts = by(&["K"])
            .expect("any letter case")
            .split(&batch())
            .expect("split");
        let shown: Vec<(String, Vec<i64>)> = parts
            .iter()
            .map(|part| {
                (
                    part.directory.clone(),
                    part.rows
                        .column(0)
                        .as_primitive::<arrow::array::types::Int64Type>()
                        .values()
                        .to_vec(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("k=a%2Fb".to_owned(), vec![1, 3]),
                ("k=__HIVE_DEFAULT_PARTITION__".to_owned(), vec![2, 4]),
                ("k=c".to_owned(), vec![5]),
            ]
        );
        assert_eq!(parts[0].rows.num_columns(), 1);
    }

    #[test]
    fn partition_columns_that_cannot_be_are_refused() {
        let error = by(&["kk"]).err().expect("unknown");
        assert!(error.message().contains("'k', 'v'"), "{error}");
        assert!(by(&["k", "v"]).is_err(), "none left");
        assert!(by(&["k", "k"]).is_err(), "twice");
        let schema = Arc::new(Schema::new(vec![
            Field::new("f", DataType::Float64, true),
            Field::new("v", DataType::Int64, true),
        ]));
        let error = Partitioner::new(&schema, &["f".to_owned()], Zone::Utc)
            .err()
            .expect("type");
        assert!(error.message().contains("DATE"), "{error}");
    }

    #[test]
    fn split_writes_times_as_spark_casts_them() {
        let times =
            TimestampMicrosecondArray::from(vec![1_704_114_005_250_000, 1_704_114_000_000_000, -1]);
        let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
        let shown = |zone| {
            texts(&times, zone)
                .expect("texts")
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Zone::Utc),
            [
                "2024-01-01 13:00:05.25",
                "2024-01-01 13:00:00",
                "1969-12-31 23:59:59.999999"
            ]
        );
        let rome = Zone::from_name("Europe/Rome").expect("zone");
        assert_eq!(shown(rome)[0], "2024-01-01 14:00:05.25");
    }
}
