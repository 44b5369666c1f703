//! Files that are cut off or damaged: errors, never fewer rows, a panic or no end.
#![allow(clippy::unwrap_used)]

mod schemas;

use std::io::{Seek, Write};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use proptest::prelude::*;

use super::*;
use crate::file::encode::{AvroCompression, AvroWriteOptions, WriteFormat, new_writer};

/// A file of blocks of ten rows.
fn written(blocks: i64, compression: AvroCompression) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    let batch = |block: i64| {
        let ids: Vec<i64> = (block * 10..block * 10 + 10).collect();
        let names = ids.iter().map(|id| (id % 3 != 0).then(|| format!("n{id}")));
        RecordBatch::try_from_iter_with_nullable([
            (
                "id",
                Arc::new(Int64Array::from(ids.clone())) as ArrayRef,
                true,
            ),
            ("name", Arc::new(names.collect::<StringArray>()), true),
        ])
        .unwrap()
    };
    let options = AvroWriteOptions {
        compression,
        ..AvroWriteOptions::default()
    };
    let out = Box::new(file.try_clone().unwrap());
    let mut writer = new_writer(&WriteFormat::Avro(options), batch(0).schema(), out).unwrap();
    for block in 0..blocks {
        writer.write(&batch(block)).unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A reader of a file of these bytes.
fn reader(bytes: &[u8], schema: &Schema, options: &AvroOptions) -> Result<AvroReader, DecodeError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    AvroReader::from_file(file, "f.avro", &DecodeSettings::new(schema), options)
}

fn read(bytes: &[u8]) -> Result<Vec<i64>, DecodeError> {
    read_with(bytes, &AvroOptions::default())
}

fn read_with(bytes: &[u8], options: &AvroOptions) -> Result<Vec<i64>, DecodeError> {
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("id", DataType::Int64, true),
        Field::new("other", DataType::Float64, true),
    ]);
    let mut reader = reader(bytes, &schema, options)?;
    let mut ids = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert_eq!(batch.column(2).null_count(), batch.num_rows());
        ids.extend(batch.column(1).as_primitive::<Int64Type>().iter().flatten());
    }
    Ok(ids)
}

#[test]
fn avro_blocks_come_in_order_with_the_columns_of_the_schema() {
    for compression in [
        AvroCompression::None,
        AvroCompression::Snappy,
        AvroCompression::Deflate,
        AvroCompression::Zstd,
    ] {
        let ids = read(&written(3, compression)).unwrap();
        assert_eq!(ids, (0..30).collect::<Vec<i64>>(), "{compression:?}");
    }
    assert!(read(&written(0, AvroCompression::None)).unwrap().is_empty());
}

#[test]
fn avro_file_that_is_cut_off_anywhere_is_an_error_that_names_it() {
    let whole = written(3, AvroCompression::None);
    // Where a block ends nobody can tell a cut file from a shorter one.
    let mut whole_blocks = 0;
    for length in 0..whole.len() {
        match read(&whole[..length]) {
            Ok(ids) => {
                assert!(ids.len() % 10 == 0, "{length}: {ids:?}");
                whole_blocks += 1;
            }
            Err(error) => assert!(error.to_string().contains("f.avro"), "{error}"),
        }
    }
    assert_eq!(whole_blocks, 3, "after the header and after two blocks");
}

proptest! {
    #[test]
    fn avro_damaged_bytes_end_without_a_panic(at in 0usize..600, byte in any::<u8>()) {
        let mut bytes = written(3, AvroCompression::None);
        let length = bytes.len();
        bytes[at % length] = byte;
        for options in [AvroOptions::default(), schemas::as_written()] {
            if let Ok(ids) = read_with(&bytes, &options) {
                prop_assert!(ids.len() <= 30);
            }
        }
    }
}
