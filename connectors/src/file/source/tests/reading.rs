//! What a reader makes of a file.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use weir_runtime::{Admission, Fault, Polled, Source, Split};

use super::super::{CsvSource, FileSource, JsonSource, ParquetSource, TextSource};
use super::support::*;
use crate::file::decode::ParseMode;

/// The splits of everything in the input directory.
async fn splits(dirs: &Dirs, source: FileSource) -> (Driver, Vec<Split>) {
    let mut driver = Driver::start(&dirs.share(), source).await;
    let Some((start, end)) = driver.plan().await else {
        return (driver, Vec::new());
    };
    let splits = driver
        .source
        .splits(weir_runtime::Epoch(0), start.as_ref(), &end)
        .await
        .unwrap();
    (driver, splits)
}

fn input(dirs: &Dirs) -> String {
    dirs.input.path().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn polls_give_at_most_the_rows_asked_for_in_order() {
    let dirs = Dirs::new();
    dirs.put("a.json", &(0..20).collect::<Vec<_>>(), 0);
    let (driver, splits) = splits(&dirs, dirs.source(|source| source)).await;
    let mut reader = driver.source.reader(0).unwrap();
    for max_rows in [1, 3, 20, 100] {
        assert_eq!(
            read_split(reader.as_mut(), &splits[0], max_rows).unwrap(),
            (0..20).collect::<Vec<_>>()
        );
    }
    assert!(
        matches!(reader.poll(1, Duration::ZERO).unwrap(), Polled::Done),
        "done stays done"
    );
}

#[tokio::test]
async fn empty_files_give_no_rows_and_are_done() {
    // P057.
    let dirs = Dirs::new();
    dirs.put_bytes("empty.json", b"", 0);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    assert_eq!(driver.trigger().await, Some(vec![]));
    assert_eq!(driver.trigger().await, None);
    let csv = Dirs::new();
    csv.put_bytes("empty.csv", b"", 0);
    csv.put_bytes("header.csv", b"id\n", 0);
    let source = CsvSource::new(input(&csv))
        .schema(schema())
        .header(true)
        .build()
        .unwrap();
    let mut driver = Driver::start(&csv, source).await;
    assert_eq!(driver.trigger().await, Some(vec![]));
}

#[tokio::test]
async fn parquet_file_of_zero_bytes_waits_until_it_has_content() {
    let dirs = Dirs::new();
    dirs.put_bytes("a.parquet", b"", 0);
    let source = ParquetSource::new(input(&dirs))
        .schema(schema())
        .build()
        .unwrap();
    let mut driver = Driver::start(&dirs, source).await;
    assert_eq!(driver.trigger().await, None);
    dirs.put_bytes("a.parquet", &parquet_bytes(&[1, 2]), 1);
    assert_eq!(driver.trigger().await, Some(vec![1, 2]));
}

fn parquet_bytes(ids: &[i64]) -> Vec<u8> {
    let batch =
        RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn damaged_parquet_file_is_an_error_that_names_it() {
    // P056.
    let whole = parquet_bytes(&[1]);
    for (name, bytes) in [
        ("short", b"PAR1".as_slice()),
        ("cut", &whole[..whole.len() - 50]),
        ("text", b"hello hello hello"),
    ] {
        let dirs = Dirs::new();
        dirs.put_bytes(&format!("{name}.parquet"), bytes, 0);
        let source = ParquetSource::new(input(&dirs))
            .schema(schema())
            .build()
            .unwrap();
        let (driver, splits) = splits(&dirs, source).await;
        let error = driver.read(&splits).unwrap_err();
        assert_eq!(error.fault(), Fault::Data);
        assert!(
            error.message().contains("not a valid parquet file")
                && error.to_string().contains(name),
            "{error}"
        );
    }
}

#[tokio::test]
async fn bad_records_are_counted_or_fail_with_file_and_line() {
    let dirs = Dirs::new();
    dirs.put_bytes(
        "a.json",
        b"{\"id\":1}\n{\"id\":\"x\"}\n{oops\n{\"id\":4}",
        0,
    );
    let modes = |mode| {
        JsonSource::new(input(&dirs))
            .schema(schema())
            .mode(mode)
            .build()
            .unwrap()
    };
    for (mode, rows) in [
        (ParseMode::Permissive, vec![1, -1, -1, 4]),
        (ParseMode::DropMalformed, vec![1, 4]),
    ] {
        let (driver, splits) = splits(&dirs, modes(mode)).await;
        let mut reader = driver.source.reader(0).unwrap();
        assert_eq!(read_split(reader.as_mut(), &splits[0], 10).unwrap(), rows);
        assert_eq!(reader.counts().bad_records, 2);
    }
    let (driver, splits) = splits(&dirs, modes(ParseMode::FailFast)).await;
    let error = driver.read(&splits).unwrap_err();
    assert_eq!(error.fault(), Fault::Data);
    assert!(error.position().unwrap().ends_with("a.json:2"), "{error}");
}

#[tokio::test]
async fn p084_lines_that_are_not_one_object_are_bad_records_and_documents_are_rows() {
    let dirs = Dirs::new();
    dirs.put_bytes("a.json", b"{\"id\":1}\n42\n[]\nnull\n{\"id\":2}\n", 0);
    dirs.put_bytes("b.json", b"{\"id\":3}{\"id\":4}\n", 1);
    let modes = |mode| {
        JsonSource::new(input(&dirs))
            .schema(schema())
            .mode(mode)
            .build()
            .unwrap()
    };
    for (mode, rows, bad) in [
        // An array without objects is no row; of two objects on a line the first is read.
        (ParseMode::Permissive, [vec![1, -1, -1, 2], vec![3]], [2, 1]),
        (ParseMode::DropMalformed, [vec![1, 2], vec![]], [2, 1]),
    ] {
        let (driver, splits) = splits(&dirs, modes(mode)).await;
        let mut reader = driver.source.reader(0).unwrap();
        for (split, (rows, bad)) in splits.iter().zip(rows.into_iter().zip(bad)) {
            assert_eq!(read_split(reader.as_mut(), split, 10).unwrap(), rows);
            assert_eq!(reader.counts().bad_records, bad, "{mode:?}, {}", split.name);
        }
    }
    let dirs = Dirs::new();
    dirs.put_bytes("c.json", b"[\n {\"id\": 5},\n {\"id\": 6}\n]\n", 0);
    let whole = JsonSource::new(input(&dirs))
        .schema(schema())
        .multi_line(true)
        .build()
        .unwrap();
    let (driver, splits) = splits(&dirs, whole).await;
    let mut reader = driver.source.reader(0).unwrap();
    assert_eq!(read_split(reader.as_mut(), &splits[0], 10).unwrap(), [5, 6]);
    assert_eq!(reader.counts().bad_records, 0);
}

#[tokio::test]
async fn text_and_compressed_files_are_read() {
    let dirs = Dirs::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"{\"id\":1}\n").unwrap();
    dirs.put_bytes("a.json.gz", &gz.finish().unwrap(), 0);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    assert_eq!(driver.trigger().await, Some(vec![1]));
    dirs.put_bytes("b.json.xz", b"", 0);
    let end = driver
        .source
        .latest(Some(&super::super::files::offset(0)), Admission::Limited)
        .await
        .unwrap();
    assert!(end.is_some());
    let text = TextSource::new(input(&dirs))
        .path_glob_filter("*.txt")
        .build()
        .unwrap();
    dirs.put_bytes("c.txt", b"one\ntwo", 0);
    let (driver, splits) = splits(&dirs, text).await;
    let mut reader = driver.source.reader(0).unwrap();
    reader.open(&splits[0]).unwrap();
    let Polled::Batch(batch) = reader.poll(10, Duration::ZERO).unwrap() else {
        panic!("rows")
    };
    assert_eq!(
        (batch.num_rows(), batch.schema().field(0).name().as_str()),
        (2, "value")
    );
}

#[tokio::test]
async fn file_with_an_unknown_codec_is_refused_and_not_read_as_text() {
    let dirs = Dirs::new();
    dirs.put_bytes("a.json.xz", b"x", 0);
    let (driver, splits) = splits(&dirs, dirs.source(|source| source)).await;
    let error = driver.read(&splits).unwrap_err();
    assert!(
        error.message().contains("xz") && error.message().contains("zstd"),
        "{error}"
    );
}
