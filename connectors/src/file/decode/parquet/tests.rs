//! Which differences between file and schema are bridged, and that no damaged file passes.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;

fn file(columns: Vec<(&str, ArrayRef)>) -> Bytes {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
            .unwrap();
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(3))
        .build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn settings(fields: Vec<(&str, DataType)>) -> DecodeSettings {
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|(n, t)| Field::new(n, t, true))
        .collect();
    DecodeSettings::new(&Schema::new(fields))
}

fn try_read(bytes: Bytes, settings: &DecodeSettings) -> Result<RecordBatch, DecodeError> {
    let mut reader = ParquetReader::from_bytes(bytes, "dir/f.parquet", settings)?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!((1..=settings.batch_rows).contains(&batch.num_rows()));
        batches.push(batch);
    }
    assert_eq!(reader.bad_records(), &BadRecords::default());
    Ok(concat_batches(&settings.schema, &batches).unwrap())
}

/// The one column of a file read as `wanted`.
fn read_as(array: ArrayRef, wanted: DataType) -> Result<ArrayRef, DecodeError> {
    let batch = try_read(file(vec![("x", array)]), &settings(vec![("x", wanted)]))?;
    Ok(Arc::clone(batch.column(0)))
}

fn micros(zone: Option<&str>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into))
}

#[test]
fn columns_are_found_by_name_and_missing_ones_are_null() {
    let bytes = file(vec![
        ("extra", Arc::new(Int32Array::from(vec![7, 8]))),
        ("NAME", Arc::new(StringArray::from(vec!["c", "d"]))),
        ("id", Arc::new(Int32Array::from(vec![1, 2]))),
    ]);
    let wanted = settings(vec![
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("gone", DataType::Float64),
    ]);
    let batch = try_read(bytes, &wanted).unwrap();
    assert_eq!(batch.column(0).as_ref(), &Int64Array::from(vec![1, 2]));
    assert_eq!(batch.column(1).as_ref(), &StringArray::from(vec!["c", "d"]));
    assert_eq!(batch.column(2).null_count(), 2);
}

#[test]
fn name_that_fits_two_columns_is_an_error_unless_one_is_spelt_the_same() {
    let bytes = file(vec![
        ("A", Arc::new(Int32Array::from(vec![1]))),
        ("a", Arc::new(Int32Array::from(vec![2]))),
    ]);
    let exact = try_read(bytes.clone(), &settings(vec![("a", DataType::Int32)])).unwrap();
    assert_eq!(exact.column(0).as_ref(), &Int32Array::from(vec![2]));
    let other = Field::new("á", DataType::Int32, true);
    let wanted = DecodeSettings::new(&Schema::new(vec![other]));
    assert_eq!(try_read(bytes, &wanted).unwrap().column(0).null_count(), 1);
    let bytes = file(vec![
        ("AB", Arc::new(Int32Array::from(vec![1]))),
        ("Ab", Arc::new(Int32Array::from(vec![2]))),
    ]);
    let error = try_read(bytes, &settings(vec![("ab", DataType::Int32)])).unwrap_err();
    assert!(error.to_string().contains("AB, Ab"), "{error}");
}

#[test]
fn types_that_hold_every_value_are_widened() {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(7)]));
    assert_eq!(
        read_as(Arc::clone(&ints), DataType::Int64)
            .unwrap()
            .as_ref(),
        &Int64Array::from(vec![Some(i64::from(i32::MIN)), None, Some(7)])
    );
    assert_eq!(
        read_as(Arc::clone(&ints), DataType::Float64)
            .unwrap()
            .as_ref(),
        &Float64Array::from(vec![Some(-2_147_483_648.0), None, Some(7.0)])
    );
    let decimal = read_as(ints, DataType::Decimal128(12, 2)).unwrap();
    assert_eq!(
        decimal
            .as_primitive::<arrow::datatypes::Decimal128Type>()
            .value(2),
        700
    );
    let floats = Arc::new(Float32Array::from(vec![0.5]));
    assert_eq!(
        read_as(floats, DataType::Float64).unwrap().as_ref(),
        &Float64Array::from(vec![0.5])
    );
    let decimals = Decimal128Array::from(vec![12345])
        .with_precision_and_scale(9, 2)
        .unwrap();
    let decimals = read_as(Arc::new(decimals), DataType::Decimal128(20, 4)).unwrap();
    assert_eq!(
        decimals
            .as_primitive::<arrow::datatypes::Decimal128Type>()
            .value(0),
        1_234_500
    );
    let unsigned = Arc::new(UInt32Array::from(vec![u32::MAX]));
    assert_eq!(
        read_as(unsigned, DataType::Int64).unwrap().as_ref(),
        &Int64Array::from(vec![i64::from(u32::MAX)])
    );
}

#[test]
fn types_that_could_change_a_value_are_an_error_naming_column_types_and_file() {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let message = read_as(Arc::clone(&longs), DataType::Int32)
        .unwrap_err()
        .to_string();
    for part in ["dir/f.parquet", "\"x\"", "Int64", "Int32"] {
        assert!(message.contains(part), "{message}");
    }
    let decimal = Decimal128Array::from(vec![1])
        .with_precision_and_scale(9, 2)
        .unwrap();
    for (array, wanted) in [
        (Arc::clone(&longs), DataType::Float64),
        (Arc::clone(&longs), DataType::Utf8),
        (Arc::clone(&longs), DataType::Decimal128(19, 0)),
        (Arc::clone(&longs), micros(Some("UTC"))),
        (
            Arc::new(decimal.clone()) as ArrayRef,
            DataType::Decimal128(9, 3),
        ),
        (Arc::new(decimal) as ArrayRef, DataType::Float64),
        (Arc::new(Float64Array::from(vec![1.0])), DataType::Float32),
        (Arc::new(StringArray::from(vec!["1"])), DataType::Int64),
        (Arc::new(BooleanArray::from(vec![true])), DataType::Int32),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC")),
            micros(None),
        ),
    ] {
        let found = array.data_type().clone();
        let result = read_as(array, wanted.clone());
        assert!(
            matches!(result, Err(DecodeError::ColumnType { .. })),
            "{found} as {wanted}"
        );
    }
}

#[test]
fn timestamps_of_any_unit_become_microseconds() {
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_999, -1, -1_000]));
    for zone in [Some("UTC"), None] {
        let read = read_as(Arc::clone(&nanos), micros(zone)).unwrap();
        let read = read.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        assert_eq!(read.values().to_vec(), [1, -1, -1]);
    }
    let millis = TimestampMillisecondArray::from(vec![-1]).with_timezone("Europe/Rome");
    let seconds = TimestampSecondArray::from(vec![2]).with_timezone("+01:00");
    for (array, expected) in [
        (Arc::new(millis) as ArrayRef, -1_000),
        (Arc::new(seconds), 2_000_000),
    ] {
        let read = read_as(array, micros(Some("UTC"))).unwrap();
        let read = read.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        assert_eq!(read.value(0), expected);
    }
}

#[test]
fn timestamp_beyond_the_range_of_microseconds_is_an_error() {
    let array = Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
    let error = read_as(array, micros(Some("UTC"))).unwrap_err();
    assert!(matches!(error, DecodeError::ColumnValue { .. }), "{error}");
}

#[test]
fn texts_and_bytes_of_any_layout_are_read() {
    let dictionary: DictionaryArray<Int32Type> =
        vec![Some("a"), None, Some("a")].into_iter().collect();
    let expected = StringArray::from(vec![Some("a"), None, Some("a")]);
    for array in [
        Arc::new(dictionary) as ArrayRef,
        Arc::new(LargeStringArray::from(vec![Some("a"), None, Some("a")])),
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("a")])),
        Arc::new(BinaryArray::from(vec![
            Some(&b"a"[..]),
            None,
            Some(&b"a"[..]),
        ])),
    ] {
        assert_eq!(read_as(array, DataType::Utf8).unwrap().as_ref(), &expected);
    }
    let bytes = Arc::new(BinaryArray::from(vec![&b"\xff"[..]]));
    assert!(matches!(
        read_as(bytes, DataType::Utf8),
        Err(DecodeError::ColumnValue { .. })
    ));
}

#[test]
fn nested_columns_follow_the_same_rules() {
    let inner = StructArray::from(vec![
        (
            Arc::new(Field::new("n", DataType::Int32, false)),
            Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("unread", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["a", "b"])),
        ),
    ]);
    let list = ListArray::new(
        Arc::new(Field::new("item", inner.data_type().clone(), true)),
        arrow::buffer::OffsetBuffer::from_lengths([2, 0]),
        Arc::new(inner),
        None,
    );
    let wanted = |number: DataType| {
        let fields = vec![
            Field::new("gone", DataType::Utf8, true),
            Field::new("n", number, true),
        ];
        DataType::List(Arc::new(Field::new(
            "element",
            DataType::Struct(fields.into()),
            true,
        )))
    };
    let read = read_as(Arc::new(list.clone()), wanted(DataType::Int64)).unwrap();
    let rows = read.as_list::<i32>().value(0);
    let rows = rows.as_struct();
    assert_eq!(rows.column(0).null_count(), 2);
    assert_eq!(rows.column(1).as_ref(), &Int64Array::from(vec![1, 2]));
    let error = read_as(Arc::new(list), wanted(DataType::Utf8))
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"x.element.n\""), "{error}");
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let good = file(vec![(
        "x",
        Arc::new(StringArray::from(vec!["a", "b", "c", "d"])),
    )]);
    let wanted = settings(vec![("x", DataType::Utf8)]);
    assert_eq!(try_read(good.clone(), &wanted).unwrap().num_rows(), 4);
    for length in 0..good.len() {
        let error = try_read(good.slice(..length), &wanted).unwrap_err();
        assert!(error.to_string().contains("dir/f.parquet"), "{error}");
    }
    let error = try_read(Bytes::from_static(b"not a parquet file at all"), &wanted).unwrap_err();
    assert!(matches!(error, DecodeError::Parquet { .. }), "{error}");
}

#[test]
fn batches_are_cut_by_rows_and_by_bytes() {
    let wide: Vec<String> = (0..50).map(|row| format!("{row:0200}")).collect();
    let bytes = file(vec![("x", Arc::new(StringArray::from(wide.clone())))]);
    let mut wanted = settings(vec![("x", DataType::Utf8)]);
    for (rows, size) in [(1, 1 << 20), (7, 1 << 20), (8192, 1000), (8192, 1)] {
        wanted.batch_rows = rows;
        wanted.batch_bytes = size;
        let mut reader = ParquetReader::from_bytes(bytes.clone(), "f", &wanted).unwrap();
        let first = reader.next_batch().unwrap().unwrap();
        assert!(first.num_rows() <= rows.min((size / 50).max(1)));
        let batch = try_read(bytes.clone(), &wanted).unwrap();
        assert_eq!(batch.column(0).as_ref(), &StringArray::from(wide.clone()));
    }
}

#[test]
fn file_on_disk_is_read_and_no_columns_give_the_number_of_rows() {
    let mut disk = tempfile::tempfile().unwrap();
    disk.write_all(&file(vec![(
        "x",
        Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
    )]))
    .unwrap();
    let mut reader = ParquetReader::from_file(disk, "f", &settings(vec![])).unwrap();
    let mut rows = 0;
    while let Some(batch) = reader.next_batch().unwrap() {
        rows += batch.num_rows();
    }
    assert_eq!(rows, 4);
}

#[test]
fn old_int96_timestamps_are_read_beyond_the_range_of_nanoseconds() {
    use parquet::data_type::{Int96, Int96Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let message = "message m { optional int32 id; optional int96 x; }";
    let types = Arc::new(parse_message_type(message).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, types, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let ids = column.typed::<parquet::data_type::Int32Type>();
    ids.write_batch(&[1], Some(&[1]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // One second after the beginning of 3000-01-01, as nanoseconds and Julian day.
    let mut value = Int96::new();
    value.set_data(1_000_000_000, 0, 2_816_788);
    column
        .typed::<Int96Type>()
        .write_batch(&[value], Some(&[1]), None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

    let batch = try_read(bytes.into(), &settings(vec![("x", micros(Some("UTC")))])).unwrap();
    let x = batch
        .column(0)
        .as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    assert_eq!(x.value(0), 32_503_680_001_000_000);
}
