//! We read ORC files that Spark wrote: every type, and times in zones.

use serde_json::json;
use weir::prelude::*;

use crate::spark::rows;
use crate::{Home, texts};

const ZONES: [&str; 3] = ["UTC", "Europe/Rome", "America/New_York"];

/// Days and times that writers find hard: before the Gregorian calendar, before 1970, beyond nanoseconds, in hours that come twice.
const TIMES: &str = "SELECT id, cast(t AS TIMESTAMP) t, cast(t AS TIMESTAMP_NTZ) n, cast(d AS DATE) d, \
     array(named_struct('at', cast(t AS TIMESTAMP))) nested \
     FROM VALUES (1, '2026-07-01 12:34:56.123456', '2026-07-01'), (2, '1969-12-30 23:59:59.999999', '1969-12-30'), \
     (3, '1582-10-15 00:00:00', '1582-10-15'), (4, '1582-10-04 10:00:00.5', '1582-10-04'), \
     (5, '1000-01-01 00:00:00', '1000-01-01'), (6, '9999-12-31 23:59:59.999999', '9999-12-31'), \
     (7, '0001-01-01 00:00:00', '0001-01-01'), (8, NULL, NULL), (9, '2026-10-25T00:30:00Z', '2026-10-25'), \
     (10, '2026-10-25T01:30:00Z', '1970-01-01'), (11, '2263-01-12 00:00:00.000001', '2263-01-12'), \
     (12, '1883-11-18 12:00:00', '1883-11-18'), (13, '1899-12-31 23:59:59', '1900-01-01') AS v(id, t, d)";

const TIME_COLUMNS: [&str; 5] = [
    "cast(id as string)",
    "cast(t as string)",
    "cast(n as string)",
    "cast(d as string)",
    "cast(nested[0].at as string)",
];

const TYPES: &str = "SELECT id, cast(id % 100 AS TINYINT) tiny, cast(-id AS SMALLINT) small, cast(id * 1000003 AS INT) whole, \
     id * 100000000000007 big, cast(id / 4 AS FLOAT) single, id / 8 real, cast(id * 1.25 AS DECIMAL(10,2)) price, \
     cast(concat('-1234567890123456789012345678.', id) AS DECIMAL(38,10)) wide, id % 2 = 0 yes, \
     repeat(concat('ü', id % 3), cast(id % 5 AS INT)) name, cast(concat('b', id) AS BINARY) raw, \
     transform(sequence(0, id % 4), i -> if(i = 2, NULL, concat('t', i))) tags, \
     map('a', id, 'b', NULL) sizes, if(id % 7 = 0, NULL, named_struct('x', id, 'y', array(1.5D, NULL))) inner \
     FROM (SELECT if(id % 6 = 5, NULL, id) id FROM range(2000))";

/// A table that Spark makes of a query; what Spark reads of it in that zone.
fn written(home: &Home, query: &str, select: &[&str], zones: [&str; 2]) -> Vec<String> {
    rows(&json!({
        "do": "table", "query": query, "format": "orc", "out": home.text("out"), "zones": zones, "select": select,
    }))
}

async fn read(home: &Home, schema: Option<&str>, select: &[&str], zone: &str) -> Vec<String> {
    let session = Session::builder()
        .config("spark.sql.session.timeZone", zone)
        .config("weir.progressBar", false)
        .build()
        .unwrap();
    let mut reader = session.read().format("orc");
    if let Some(schema) = schema {
        reader = reader.schema(schema);
    }
    let table = reader.load(&home.text("out")).await.unwrap();
    texts(&table.select_expr(select).unwrap().collect().await.unwrap())
}

#[tokio::test]
async fn times_in_spark_s_orc_mean_what_they_mean_to_spark_in_every_zone() {
    for writer in ZONES {
        for reader in ZONES {
            let home = Home::new();
            let mut expected = written(&home, TIMES, &TIME_COLUMNS, [writer, reader]);
            let mut found = read(&home, None, &TIME_COLUMNS, reader).await;
            assert_eq!(expected.len(), 13, "{writer} {reader}");
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "written in {writer}, read in {reader}");
        }
    }
}

#[tokio::test]
async fn every_type_that_spark_writes_as_orc_is_read_as_spark_reads_it() {
    let home = Home::new();
    let select = [
        "cast(id as string)",
        "cast(tiny as string)",
        "cast(small as string)",
        "cast(whole as string)",
        "cast(big as string)",
        "cast(single as string)",
        "cast(real as string)",
        "cast(price as string)",
        "cast(wide as string)",
        "cast(yes as string)",
        "name",
        "hex(raw)",
        "to_json(named_struct('tags', tags, 'sizes', sizes, 'inner', inner))",
    ];
    let expected = written(&home, TYPES, &select, ["UTC", "UTC"]);
    assert_eq!(expected.len(), 2000);
    assert_eq!(read(&home, None, &select, "UTC").await, expected);
    let narrow = [
        "cast(id as string)",
        "cast(sizes['a'] as string)",
        "missing",
    ];
    let schema = "sizes MAP<STRING, BIGINT>, id BIGINT, missing STRING";
    let narrow = read(&home, Some(schema), &narrow, "UTC").await;
    assert_eq!((narrow.len(), narrow[1].as_str()), (2000, "1000|1000|null"));
}
