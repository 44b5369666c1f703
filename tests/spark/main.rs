//! Directories exchanged with Apache Spark, by `scripts/test-spark-exchange.sh`: Spark reads what our streams wrote, and we read what
//! Spark's streams wrote, each as a table and as a stream.
#![allow(missing_docs, clippy::unwrap_used)]

mod csv;
mod orc;
mod spark;
mod spark_reads;
mod weir_reads;

#[path = "../support/texts.rs"]
mod texts;

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use weir::prelude::*;

use texts::texts;

/// Values that names of directories find hard, the empty text and NULL.
const KEYS: [Option<&str>; 12] = [
    None,
    Some(""),
    Some("a/b"),
    Some("a=b"),
    Some("x y"),
    Some("100%"),
    Some("%2F"),
    Some("t:1"),
    Some("città"),
    Some(".."),
    Some("#[{^}]*?'\"\\"),
    Some("__x"),
];

/// More epochs than two compact files of a manifest hold.
const EPOCHS: usize = 22;

/// Columns of the input, `k` becomes the partition.
const COLUMNS: &str = "v BIGINT, f DOUBLE, d DECIMAL(20,3), t TIMESTAMP, day DATE, yes BOOLEAN, name STRING, \
                       tags ARRAY<STRING>, inner STRUCT<a: INT, b: STRING>, k STRING";

/// What both engines are asked for, as texts.
const SELECT: [&str; 10] = [
    "cast(v as string)",
    "cast(f as string)",
    "cast(d as string)",
    "cast(t as string)",
    "cast(day as string)",
    "cast(yes as string)",
    "name",
    "to_json(named_struct('tags', tags))",
    "to_json(inner)",
    "k",
];

/// A directory that goes away with the test.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// One file for each epoch, which holds a row of values and one where everything but `v` and `k` is NULL.
    fn put_input(&self) {
        std::fs::create_dir_all(self.path("in")).unwrap();
        for epoch in 0..EPOCHS {
            let key = KEYS[epoch % KEYS.len()];
            let full = json!({
                "v": epoch, "f": 0.1 + epoch as f64, "d": 12_345_678.5, "t": format!("2026-03-29T01:59:{epoch:02}.123456Z"),
                "day": "1969-12-31", "yes": epoch % 2 == 0, "name": "ü, \"q\" \\ ' line", "tags": ["a", null, ""],
                "inner": {"a": epoch, "b": "x"}, "k": key,
            });
            let bare = json!({ "v": 1000 + epoch, "k": key });
            let name = format!("in/{epoch:02}.json");
            std::fs::write(self.path("staged"), format!("{full}\n{bare}\n")).unwrap();
            std::fs::rename(self.path("staged"), self.path(&name)).unwrap();
        }
    }
}

/// What either engine has to give back of the input: the empty text has no directory of its own, in Spark neither.
fn expected() -> Vec<String> {
    let mut rows = Vec::new();
    for epoch in 0..EPOCHS {
        let key = KEYS[epoch % KEYS.len()]
            .filter(|key| !key.is_empty())
            .unwrap_or("null");
        rows.push(format!(
            "{epoch}|{}|12345678.500|2026-03-29 01:59:{epoch:02}.123456|1969-12-31|{}|ü, \"q\" \\ ' line|{}|{}|{key}",
            0.1 + epoch as f64,
            epoch % 2 == 0,
            "{\"tags\":[\"a\",null,\"\"]}",
            format_args!("{{\"a\":{epoch},\"b\":\"x\"}}"),
        ));
        rows.push(format!(
            "{}|null|null|null|null|null|null|{{}}|null|{key}",
            1000 + epoch
        ));
    }
    rows.sort();
    rows
}

fn session() -> Session {
    Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .build()
        .unwrap()
}

/// Names of the files of a manifest.
fn manifest(out: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(out.join("_spark_metadata")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}
