//! Files of another writer (`tests/orc`), whole, cut off and damaged.

#![allow(clippy::unwrap_used)]

mod damage;
mod made;

use std::io::{Seek, Write};
use std::path::Path;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type, TimeUnit};
use arrow::json::writer::JsonArray;
use serde_json::Value;

use super::*;
use crate::file::decode::parse::Zone;

type Answer<T> = std::result::Result<T, DecodeError>;

fn bytes_of(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/orc");
    std::fs::read(path.join(name)).unwrap()
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// The columns that a file has by itself; times without a zone stay that.
fn schema_of(bytes: &[u8]) -> Schema {
    let schema = columns_of_file(file_of(bytes)).unwrap();
    let fields = schema
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "wall" => field.as_ref().clone().with_data_type(wall()),
            _ => field.as_ref().clone(),
        });
    Schema::new(fields.collect::<Vec<_>>())
}

fn wall() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn batches(bytes: &[u8], settings: &DecodeSettings) -> Answer<Vec<RecordBatch>> {
    let mut reader = OrcReader::from_file(file_of(bytes), "dir/f.orc", settings)?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!((1..=settings.batch_rows).contains(&batch.num_rows()));
        assert_eq!(batch.schema(), settings.schema);
        batches.push(batch);
    }
    assert_eq!(reader.bad_records(), &BadRecords::default());
    Ok(batches)
}

fn read(bytes: &[u8], settings: &DecodeSettings) -> Answer<RecordBatch> {
    let batches = batches(bytes, settings)?;
    Ok(concat_batches(&settings.schema, &batches).unwrap())
}

fn settings(fields: Vec<(&str, DataType)>) -> DecodeSettings {
    let fields = fields.into_iter().map(|(n, t)| Field::new(n, t, true));
    DecodeSettings::new(&Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows as `rows.json` has them.
fn json(batch: &RecordBatch) -> Vec<Value> {
    let micros = "%Y-%m-%dT%H:%M:%S%.6f".to_owned();
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_timestamp_format(micros.clone())
        .with_timestamp_tz_format(micros)
        .build::<_, JsonArray>(Vec::new());
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    serde_json::from_slice(&writer.into_inner()).unwrap()
}

/// The rows that were written.
fn expected() -> Vec<Value> {
    serde_json::from_slice(&bytes_of("rows.json")).unwrap()
}

fn assert_same(read: &RecordBatch, case: &str) {
    let (mut read, mut expected) = (read.clone(), expected());
    // Decimals as the texts they are in the file of rows.
    for name in ["price", "wide"] {
        let index = read.schema().index_of(name).unwrap();
        let texts = arrow::compute::cast(read.column(index), &DataType::Utf8).unwrap();
        let mut fields: Vec<Field> = read
            .schema()
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        fields[index] = Field::new(name, DataType::Utf8, true);
        let mut columns = read.columns().to_vec();
        columns[index] = texts;
        read = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    }
    for (row, found) in json(&read).into_iter().enumerate() {
        let Value::Object(expected) = expected[row].take() else {
            panic!("a row is an object")
        };
        for (name, value) in expected {
            assert_eq!(found[&name], value, "{case}, row {row}, column {name}");
        }
    }
}

#[test]
fn every_type_and_compression_comes_back_as_it_was_written() {
    for name in [
        "types-uncompressed.orc",
        "types-zlib.orc",
        "types-snappy.orc",
        "types-zstd.orc",
        "types-lz4.orc",
        "old.orc",
    ] {
        let bytes = bytes_of(name);
        let schema = schema_of(&bytes);
        assert_eq!(schema.fields().len(), 19, "{name}");
        let batch = read(&bytes, &DecodeSettings::new(&schema)).unwrap();
        assert_eq!(batch.num_rows(), 60, "{name}");
        assert_same(&batch, name);
    }
}

#[test]
fn columns_of_a_file_are_those_of_tables() {
    let schema = columns_of_file(file_of(&bytes_of("types-zlib.orc"))).unwrap();
    let t = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(t("yes"), DataType::Boolean);
    assert_eq!(t("tiny"), DataType::Int8);
    assert_eq!(t("single"), DataType::Float32);
    assert_eq!(t("wide"), DataType::Decimal128(38, 10));
    assert_eq!(t("day"), DataType::Date32);
    assert_eq!(t("wall"), instant(), "TIMESTAMP, as Spark has it");
    assert_eq!(t("moment"), instant());
    assert_eq!(t("raw"), DataType::Binary);
    let DataType::Map(entries, false) = t("sizes") else {
        panic!("a map")
    };
    let DataType::Struct(pair) = entries.data_type() else {
        panic!("entries")
    };
    assert_eq!(
        (pair[0].name().as_str(), pair[0].is_nullable()),
        ("key", false)
    );
    assert_eq!(
        (pair[1].name().as_str(), pair[1].is_nullable()),
        ("value", true)
    );
}

#[test]
fn file_without_rows_has_columns_and_no_batch() {
    let bytes = bytes_of("empty.orc");
    let schema = schema_of(&bytes);
    assert_eq!(schema, schema_of(&bytes_of("types-zlib.orc")));
    assert!(
        batches(&bytes, &DecodeSettings::new(&schema))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn stripes_come_in_order_in_batches_of_bounded_size() {
    let bytes = bytes_of("many.orc");
    let mut settings = DecodeSettings::new(&schema_of(&bytes));
    settings.batch_rows = 700;
    let all = read(&bytes, &settings).unwrap();
    let ids = all.column(0).as_primitive::<Int64Type>();
    assert!(ids.values().iter().copied().eq(0..12_000));
    let words = all.column(1).as_string::<i32>();
    let jumps = all.column(2).as_primitive::<Int64Type>();
    let same = all.column(3).as_primitive::<Int32Type>();
    let lists = all.column(4).as_list::<i32>();
    for i in 0..12_000 {
        let word = (i % 11 != 0).then(|| format!("word {}", i * i % 37));
        assert_eq!(words.is_valid(i).then(|| words.value(i)), word.as_deref());
        let jump = if i % 100 == 0 {
            1 << 40
        } else {
            (i * 7919 % 10_007) as i64
        };
        assert_eq!(jumps.value(i), jump);
        assert_eq!(same.value(i), (i / 1000) as i32);
        let list = (i % 13 != 0).then(|| (0..(i % 5) as i32).collect::<Vec<_>>());
        let found = lists
            .is_valid(i)
            .then(|| lists.value(i).as_primitive::<Int32Type>().values().to_vec());
        assert_eq!(found, list, "{i}");
    }
    // Rows that are wide for the bytes of a batch come in small ones.
    settings.batch_bytes = 2000;
    let small = batches(&bytes, &settings).unwrap();
    assert!(small.len() > 120, "{}", small.len());
    assert_eq!(
        small.iter().map(RecordBatch::num_rows).sum::<usize>(),
        12_000
    );
}

#[test]
fn columns_are_found_by_name_and_fit_as_those_of_parquet_do() {
    let bytes = bytes_of("types-zlib.orc");
    let inner = DataType::Struct(
        vec![Field::new(
            "b",
            DataType::Struct(
                vec![
                    Field::new("t", instant(), true),
                    Field::new("none", DataType::Int32, true),
                ]
                .into(),
            ),
            true,
        )]
        .into(),
    );
    let settings = settings(vec![
        ("WHOLE", DataType::Int64),
        ("missing", DataType::Utf8),
        ("inner", inner),
        ("price", DataType::Decimal128(12, 3)),
    ]);
    let batch = read(&bytes, &settings).unwrap();
    let whole = batch.column(0).as_primitive::<Int64Type>();
    assert_eq!((whole.value(1), whole.is_null(4)), (-35_000_000, true));
    assert_eq!(batch.column(1).null_count(), 60);
    let rows = json(&batch);
    assert_eq!(rows[1]["inner"]["b"]["t"], expected()[1]["wall"]);
    assert_eq!(rows[3]["inner"], Value::Null);
    let price = batch
        .column(3)
        .as_primitive::<arrow::datatypes::Decimal128Type>();
    assert_eq!(price.value(1), -1080);
    // Nothing of the file is wanted: as many rows as it has.
    let none = self::settings(vec![("missing", DataType::Int32)]);
    let batch = read(&bytes, &none).unwrap();
    assert_eq!((batch.num_rows(), batch.column(0).null_count()), (60, 60));
}

#[test]
fn column_that_does_not_fit_is_an_error_that_names_file_and_column() {
    let bytes = bytes_of("types-zlib.orc");
    for (name, wanted) in [
        ("big", DataType::Int32),
        ("name", DataType::Int64),
        ("moment", wall()),
        ("tags", DataType::Utf8),
    ] {
        let error = read(&bytes, &settings(vec![(name, wanted)])).unwrap_err();
        assert!(matches!(error, DecodeError::ColumnType { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("dir/f.orc") && text.contains(name), "{text}");
    }
}

#[test]
fn time_without_a_zone_is_one_of_the_session_as_timestamp_and_stays_as_it_is_without() {
    let bytes = bytes_of("types-zlib.orc");
    let mut settings = settings(vec![("wall", instant()), ("moment", instant())]);
    settings.time_zone = Zone::from_name("America/New_York").unwrap();
    let batch = read(&bytes, &settings).unwrap();
    let rows = json(&batch);
    // 01:59:59 in New York; the instant is what it was.
    assert_eq!(rows[0]["wall"], "2026-03-29T05:59:59.123456");
    assert_eq!(rows[0]["moment"], "2026-03-29T01:59:59.123456");
    assert_eq!(rows[6]["wall"], "2026-10-25T04:30:00.000000");
    let whole = self::settings(vec![("wall", wall())]);
    let rows = json(&read(&bytes, &whole).unwrap());
    assert_eq!(rows[6]["wall"], "2026-10-25T00:30:00.000000");
}
