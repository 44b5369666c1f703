//! The shop: input files of actions, the query over them, and what has to be in its output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use weir::connectors::file::sink::manifest::committed_files;
use weir::prelude::*;
use weir::runtime::FailPoints;

const ACTIONS: [&str; 3] = ["purchase", "view", "return"];

/// One shop in a directory: `in`, `out`, `checkpoint`.
pub(crate) struct Shop {
    home: PathBuf,
}

impl Shop {
    pub(crate) fn new(home: &Path) -> Self {
        fs::create_dir_all(home.join("in")).expect("the input directory");
        Self {
            home: home.to_owned(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.home.join(name).to_string_lossy().into_owned()
    }

    /// Drops file `number` with `rows` rows into the input, complete or not at all. Row ids are unique over all files.
    pub(crate) fn drop_file(&self, number: u64, rows: u64) {
        let lines: Vec<String> = ids(number, rows)
            .map(|id| {
                format!(
                    r#"{{"id":{id},"action":"{}","amount":{}.5}}"#,
                    action(id),
                    amount(id)
                )
            })
            .collect();
        let hidden = self.home.join(format!("in/.{number}.part"));
        fs::write(&hidden, lines.join("\n")).expect("written");
        fs::rename(hidden, self.home.join(format!("in/{number:05}.json"))).expect("renamed");
    }

    /// Starts the query.
    pub(crate) async fn start(
        &self,
        session: &Session,
        trigger: Trigger,
        failpoints: Arc<FailPoints>,
    ) -> Result<StreamingQuery> {
        let engine = QueryConfig {
            failpoints,
            ..QueryConfig::default()
        };
        session
            .read_stream()
            .format("json")
            .schema("id BIGINT, action STRING, amount DOUBLE")
            .option("maxFilesPerTrigger", 2)
            .load(&self.path("in"))?
            .filter("action = 'purchase' AND amount > 100")?
            .select(["id", "amount"])?
            .write_stream()
            .engine(engine)
            .format("parquet")
            .option("checkpointLocation", self.path("checkpoint"))
            .trigger(trigger)
            .start_path(&self.path("out"))
            .await
    }

    /// Runs everything that is there, on a fresh session as a new process would have.
    pub(crate) fn run(&self, failpoints: Arc<FailPoints>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(async {
            let session = Session::builder().parallelism(2).build()?;
            self.start(&session, Trigger::AvailableNow, failpoints)
                .await?
                .await_termination()
                .await
        })
    }

    /// Ids in the output as a reader of the manifest sees them, with how often each is there.
    pub(crate) fn output_by_manifest(&self) -> BTreeMap<i64, usize> {
        let files = committed_files(&self.home.join("out")).expect("a readable manifest");
        count_ids(files.unwrap_or_default())
    }

    /// Ids in the output as a reader that only lists the directory sees them.
    pub(crate) fn output_by_listing(&self) -> BTreeMap<i64, usize> {
        let entries = fs::read_dir(self.home.join("out")).expect("the output directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        count_ids(
            paths
                .filter(|path| {
                    path.extension()
                        .is_some_and(|extension| extension == "parquet")
                })
                .collect(),
        )
    }

    /// Asserts that the purchases of files 0..`files` are there exactly once, for both kinds of reader.
    pub(crate) fn assert_exactly_once(&self, files: u64, rows: u64, situation: &str) {
        let expected = expected(files, rows);
        for (reader, found) in [
            ("manifest", self.output_by_manifest()),
            ("listing", self.output_by_listing()),
        ] {
            let lost: Vec<_> = expected
                .keys()
                .filter(|id| !found.contains_key(id))
                .collect();
            let doubled: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
            let foreign: Vec<_> = found
                .keys()
                .filter(|id| !expected.contains_key(id))
                .collect();
            assert!(
                lost.is_empty() && doubled.is_empty() && foreign.is_empty(),
                "{situation}, by {reader}: lost {lost:?}, doubled {doubled:?}, foreign {foreign:?}"
            );
        }
    }
}

fn ids(number: u64, rows: u64) -> impl Iterator<Item = i64> {
    (0..rows).map(move |row| (number * 1_000_000 + row) as i64)
}

fn action(id: i64) -> &'static str {
    ACTIONS[(id % 3) as usize]
}

fn amount(id: i64) -> i64 {
    (id * 7919) % 200
}

fn expected(files: u64, rows: u64) -> BTreeMap<i64, usize> {
    let all = (0..files).flat_map(|number| ids(number, rows));
    all.filter(|id| action(*id) == "purchase" && amount(*id) as f64 + 0.5 > 100.0)
        .map(|id| (id, 1))
        .collect()
}

fn count_ids(files: Vec<PathBuf>) -> BTreeMap<i64, usize> {
    let mut counts = BTreeMap::new();
    for path in files {
        let file = fs::File::open(&path).expect("a committed file");
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
            .expect("whole parquet");
        for batch in reader.build().expect("a reader") {
            let batch: RecordBatch = batch.expect("a batch");
            let ids = batch
                .column_by_name("id")
                .expect("id")
                .as_any()
                .downcast_ref::<Int64Array>()
                .expect("bigint");
            ids.values()
                .iter()
                .for_each(|id| *counts.entry(*id).or_default() += 1);
        }
    }
    counts
}
