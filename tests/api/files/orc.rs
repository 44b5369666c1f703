//! ORC files of another writer (`tests/orc`) through the public interface.

use std::path::Path;

use weir::prelude::*;

use super::{Reading, bad_records};
use crate::field::stage::texts;
use crate::support::{Home, session};

const COLUMNS: &str = "id BIGINT, wall TIMESTAMP_NTZ, moment TIMESTAMP, price DECIMAL(12,3), name STRING, \
                       tags ARRAY<STRING>, sizes MAP<STRING, INT>, inner STRUCT<a: BIGINT, c: INT>, missing DATE";

const SELECT: [&str; 8] = [
    "id",
    "cast(wall as string)",
    "cast(moment as string)",
    "cast(price as string)",
    "length(name)",
    "to_json(struct(tags, sizes))",
    "inner.a",
    "missing",
];

const ROWS: [&str; 3] = [
    "1|1969-12-30 23:59:59.999999|1969-12-31 00:00:00.999999|-1.080|15|{\"tags\":[\"t0\"],\"sizes\":{\"k0\":0}}|1|null",
    "3|2262-04-12 00:00:00|2262-04-12 00:00:03|-3.100|300|{\"tags\":[\"t0\",\"t1\",null],\"sizes\":{}}|null|null",
    "4|null|null|null|null|{}|null|null",
];

fn file(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn path(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/orc");
    path.join(name).display().to_string()
}

async fn rows_of(frame: DataFrame) -> Vec<String> {
    let batches = frame.collect().await.unwrap();
    let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn orc_files_are_read_as_stream_and_as_table_with_the_columns_of_the_schema() {
    let reading = Reading::new("orc", COLUMNS).select(&SELECT);
    reading.put("a.orc", file("types-zlib.orc"));
    let stream = reading.read().await;
    assert_eq!(stream.len(), 60);
    for row in ROWS {
        assert!(
            stream.iter().any(|found| found == row),
            "{row}: {stream:#?}"
        );
    }
    reading.put("b.orc", file("empty.orc"));
    assert!(reading.read().await.is_empty(), "nothing new");
    let table = session().read().format("orc").schema(COLUMNS);
    let table = table.load(&reading.home.text("in")).await.unwrap();
    let table = rows_of(table.select_expr(&SELECT).unwrap()).await;
    assert_eq!(table, stream);
}

#[tokio::test]
async fn orc_table_without_a_schema_has_the_columns_of_all_files() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("in/k=7")).unwrap();
    std::fs::create_dir_all(home.path("in/k=8")).unwrap();
    std::fs::copy(path("types-lz4.orc"), home.path("in/k=7/a.orc")).unwrap();
    std::fs::copy(path("many.orc"), home.path("in/k=8/b.orc")).unwrap();
    let session = session();
    let table = session.read().orc(&home.text("in")).await.unwrap();
    assert_eq!(table.schema().fields().len(), 19 + 4 + 1);
    let found = table
        .select_expr(&["k", "id", "word", "name"])
        .unwrap()
        .filter("id IN (2, 59)")
        .unwrap();
    assert_eq!(
        rows_of(found).await,
        [
            "7|2|null|plain",
            "7|59|null|null",
            "8|2|word 4|null",
            "8|59|word 3|null"
        ]
    );
    assert_eq!(
        table.filter("k = 8").unwrap().count().await.unwrap(),
        12_000
    );
    // One file by its path.
    let one = session.read().orc(&path("many.orc")).await.unwrap();
    let last = one
        .filter("id > 11997")
        .unwrap()
        .select_expr(&["id", "same"]);
    assert_eq!(rows_of(last.unwrap()).await, ["11998|11", "11999|11"]);
    let error = session
        .read()
        .orc(&home.text("in/k=9"))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("k=9"), "{error}");
}

#[tokio::test]
async fn orc_time_without_a_zone_is_one_of_the_session() {
    let session = Session::builder()
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("weir.progressBar", false)
        .build()
        .unwrap();
    let table = session.read().orc(&path("types-zlib.orc")).await.unwrap();
    let columns = [
        "cast(wall as string)",
        "unix_seconds(wall)",
        "cast(moment as string)",
    ];
    let row = table
        .filter("id = 0")
        .unwrap()
        .select_expr(&columns)
        .unwrap();
    assert_eq!(
        rows_of(row).await,
        ["2026-03-29 01:59:59.123456|1774763999|2026-03-28 21:59:59.123456"]
    );
}

#[tokio::test]
async fn orc_file_that_is_damaged_is_named_or_left_out() {
    let whole = file("many.orc");
    let reading = |ignore: bool| {
        let reading = Reading::new("orc", "id BIGINT").option("ignoreCorruptFiles", ignore);
        reading.put("good.orc", file("types-zlib.orc"));
        reading.put("cut.orc", &whole[..whole.len() - 9]);
        // Damage in the middle of a stripe, where only the library sees it.
        let mut bytes = whole.clone();
        for at in (100..3000).step_by(8) {
            bytes[at] ^= 0x55;
        }
        reading.put("torn.orc", bytes);
        reading
    };
    let error = reading(false).failure().await;
    assert_eq!(error.fault(), weir::Fault::Data, "{error}");
    assert_eq!(error.condition(), Some("FAILED_READ_FILE"), "{error}");
    assert!(error.to_string().contains(".orc"), "{error}");
    let (rows, query) = reading(true).try_read().await.unwrap();
    assert_eq!((rows.len(), bad_records(&query)), (60, 2));
}

#[tokio::test]
async fn orc_options_and_sinks_that_are_not_there_are_refused() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("in")).unwrap();
    let read = |name: &str, value: &str| {
        let reader = session().read_stream().format("orc").schema("id BIGINT");
        reader.option(name, value).load(&home.text("in"))
    };
    assert!(read("mergeSchema", "true").is_ok());
    assert!(read("compression", "zlib").is_ok());
    let error = read("header", "true").err().unwrap().to_string();
    assert!(
        error.contains("header") && error.contains("mergeSchema"),
        "{error}"
    );
    let error = session().read_stream().orc(&home.text("in")).err().unwrap();
    assert!(
        error.to_string().contains("schema must be specified"),
        "{error}"
    );
    let frame = read("mergeSchema", "false").unwrap();
    let writer = frame
        .write_stream()
        .format("orc")
        .checkpoint(&home.text("c"));
    let error = writer
        .start_path(&home.text("out"))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("orc") && error.contains("parquet, json, csv, avro, text"),
        "{error}"
    );
}

#[tokio::test]
async fn orc_files_in_an_object_store_are_read_as_those_on_disk() {
    let place = "memory://api-orc/in";
    let objects = weir::state::CheckpointLocation::open(place).unwrap();
    objects
        .put("k=1/a.orc", file("types-snappy.orc"))
        .await
        .unwrap();
    objects.put("k=2/b.orc", file("old.orc")).await.unwrap();
    let read = || session().read().format("orc");
    let table = read()
        .schema("id BIGINT, name STRING, k INT")
        .load(place)
        .await
        .unwrap();
    let rows = table.filter("name = 'plain' AND k = 2").unwrap();
    let rows = rows_of(rows.select_expr(&["id"]).unwrap()).await;
    let plain = (0..60).filter(|id| id % 5 != 4 && id % 4 == 2);
    let mut plain: Vec<String> = plain.map(|id| id.to_string()).collect();
    plain.sort();
    assert_eq!(rows, plain);
    let error = read().load(place).await.err().unwrap().to_string();
    assert!(error.contains("needs a schema"), "{error}");
    weir::state::CheckpointLocation::forget_memory("api-orc");
}
