//! The shop: input files of actions, a query over them, and whether its output is right.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir::prelude::*;
use weir::runtime::FailPoints;

use crate::queries::{Kind, SCHEMA};
use crate::target;

/// One shop in a directory: `in`, `out` or `table.json`, `checkpoint`.
pub(crate) struct Shop {
    home: PathBuf,
    kind: Kind,
    settings: Vec<(&'static str, String)>,
    /// Files of an epoch at most.
    files: u64,
    parallelism: usize,
    /// Files are deleted once they were read.
    deletes: bool,
}

impl Shop {
    /// A shop whose query is stateless.
    pub(crate) fn new(home: &Path) -> Self {
        Self::of(Kind::Purchases, home)
    }

    pub(crate) fn of(kind: Kind, home: &Path) -> Self {
        fs::create_dir_all(home.join("in")).expect("the input directory");
        Self {
            home: home.to_owned(),
            kind,
            settings: Vec::new(),
            files: 2,
            parallelism: 2,
            deletes: false,
        }
    }

    /// The shop with another cut into epochs and another number of subtasks.
    pub(crate) fn cut(mut self, files: u64, parallelism: usize) -> Self {
        (self.files, self.parallelism) = (files, parallelism);
        self
    }

    /// The shop with files that are deleted once they were read.
    pub(crate) fn deleting(mut self) -> Self {
        self.deletes = true;
        self
    }

    /// The shop with a setting of its sessions.
    pub(crate) fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.home.join(name).to_string_lossy().into_owned()
    }

    /// Drops file `number` with `rows` rows into the input, complete or not at all. Row ids are unique over all files.
    pub(crate) fn drop_file(&self, number: u64, rows: u64) {
        let rows = self.kind.rows(number, rows);
        let lines: Vec<String> = rows.iter().map(|row| row.json()).collect();
        let hidden = self.home.join(format!("in/.{number}.part"));
        fs::write(&hidden, lines.join("\n")).expect("written");
        fs::rename(hidden, self.home.join(format!("in/{number:05}.json"))).expect("renamed");
    }

    /// A session as a new process would make it.
    pub(crate) fn session(&self) -> Result<Session> {
        let builder = Session::builder().parallelism(2);
        let with = |builder: weir::SessionBuilder, (key, value): &(&'static str, String)| {
            builder.config(*key, value)
        };
        self.settings.iter().fold(builder, with).build()
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
            parallelism: self.parallelism,
            ..QueryConfig::default()
        };
        let rows = session
            .read_stream()
            .format("json")
            .schema(SCHEMA)
            .option("maxFilesPerTrigger", self.files)
            .option("cleanSource", if self.deletes { "delete" } else { "off" })
            .load(&self.path("in"))?;
        let writer = self
            .kind
            .frame(session, rows)
            .await?
            .write_stream()
            .engine(engine)
            .option("checkpointLocation", self.path("checkpoint"))
            .trigger(trigger);
        if self.kind == Kind::Totals {
            let home = self.home.clone();
            let writer = writer.output_mode("update");
            let upsert = move |rows: DataFrame, epoch| upsert(home.clone(), rows, epoch);
            return writer.foreach_batch(upsert).start().await;
        }
        writer.format("parquet").start_path(&self.path("out")).await
    }

    /// Runs everything that is there, on a fresh session as a new process would have.
    pub(crate) fn run(&self, failpoints: Arc<FailPoints>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(async {
            self.start(&self.session()?, Trigger::AvailableNow, failpoints)
                .await?
                .await_termination()
                .await
        })
    }

    /// Ids in the output as a reader of the manifest sees them, with how often each is there.
    pub(crate) fn output_by_manifest(&self) -> BTreeMap<i64, usize> {
        let mut counts = BTreeMap::new();
        for row in target::files_by_manifest(&self.home) {
            let id = row.split('|').next().and_then(|id| id.parse().ok());
            *counts.entry(id.expect("the id is first")).or_default() += 1;
        }
        counts
    }

    /// Asserts that what follows from files 0..`files` is in the output exactly once, for every kind of reader.
    pub(crate) fn assert_exactly_once(&self, files: u64, rows: u64, situation: &str) {
        let expected = counted(self.kind.expected(files, rows));
        for (reader, found) in self.kind.found(&self.home) {
            let found = counted(found);
            let lost: Vec<_> = expected
                .keys()
                .filter(|row| !found.contains_key(*row))
                .collect();
            let doubled: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
            let foreign: Vec<_> = found
                .keys()
                .filter(|row| !expected.contains_key(*row))
                .collect();
            assert!(
                lost.is_empty() && doubled.is_empty() && foreign.is_empty(),
                "{:?}, {situation}, by {reader}: lost {lost:?}, doubled {doubled:?}, foreign {foreign:?}",
                self.kind
            );
        }
    }
}

async fn upsert(home: PathBuf, rows: DataFrame, epoch: u64) -> Result<()> {
    let batches = rows.collect().await?;
    let rows = batches.iter().flat_map(target::texts).collect();
    target::Table::open(&home).upsert(epoch, rows)
}

fn counted(rows: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row).or_default() += 1;
    }
    counts
}
