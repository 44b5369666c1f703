//! Files to files through the engine: exactly once, whatever crashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_connectors::file::sink::{ParquetSink, manifest};
use weir_connectors::file::source::JsonSource;
use weir_runtime::{
    FailPoints, Fault, QueryConfig, RestartPolicy, Result, StreamingQuery, Topology, Trigger,
};

const FILES: i64 = 5;
const ROWS: i64 = 3;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("k", DataType::Utf8, true),
    ]))
}

/// Directories of one query.
struct Dirs(tempfile::TempDir);

impl Dirs {
    fn new() -> Result<Self> {
        let dirs = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(dirs.path("in")).expect("a directory");
        for file in 0..FILES {
            dirs.put(file);
        }
        Ok(dirs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("unicode").to_owned()
    }

    fn put(&self, file: i64) {
        let rows = (file * ROWS..(file + 1) * ROWS)
            .map(|id| format!("{{\"id\":{id},\"k\":\"{}\"}}\n", id % 2));
        fs::write(
            self.path("in").join(format!("{file:03}.json")),
            rows.collect::<String>(),
        )
        .expect("a file");
    }

    fn topology(&self) -> Result<Topology> {
        let source = JsonSource::new(self.text("in"))
            .schema(schema())
            .max_files_per_trigger(2)
            .build()?;
        let sink = ParquetSink::new(self.text("out"))
            .partition_by(["k"])
            .build()?;
        let mut builder = Topology::builder();
        let rows = builder.source("in", source);
        builder.sink("out", rows, Arc::new(sink));
        builder.build()
    }

    /// Runs the query until it has read what is there.
    fn run(&self, failpoints: Arc<FailPoints>) -> Result<()> {
        let config = QueryConfig {
            checkpoint: Some(self.text("checkpoint")),
            parallelism: 2,
            trigger: Trigger::AvailableNow,
            failpoints,
            restart: RestartPolicy::never(),
            ..QueryConfig::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(async {
            StreamingQuery::start(self.topology()?, config)
                .await?
                .await_termination()
                .await
        })
    }

    fn check(&self, files: i64, what: &str) {
        let expected: Vec<i64> = (0..files * ROWS).collect();
        let out = self.path("out");
        let committed = manifest::committed_files(&out)
            .expect("a manifest")
            .unwrap_or_default();
        assert_eq!(ids(&committed), expected, "{what}: by the manifest");
        assert_eq!(ids(&visible(&out)), expected, "{what}: by a plain listing");
    }
}

fn visible(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        match path.is_dir() {
            _ if name.starts_with(['_', '.']) => {}
            true => files.extend(visible(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The ids in Parquet files, sorted; each id must be in the directory of its key.
fn ids(files: &[PathBuf]) -> Vec<i64> {
    let mut ids = Vec::new();
    for path in files {
        let file = fs::File::open(path).expect("a file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
        for batch in reader.build().expect("a reader") {
            let batch = batch.expect("rows");
            assert_eq!(batch.num_columns(), 1, "the key is in the directory's name");
            ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn files_are_moved_once_also_over_several_runs() -> Result<()> {
    let dirs = Dirs::new()?;
    dirs.run(Arc::default())?;
    dirs.check(FILES, "first run");
    dirs.run(Arc::default())?;
    dirs.check(FILES, "nothing new");
    dirs.put(FILES);
    dirs.run(Arc::default())?;
    dirs.check(FILES + 1, "one more file");
    Ok(())
}

/// Goal: no crash loses or doubles a row. Method: count the fault points of a run, crash a run at each of them, let the next
/// run finish, and compare with what an undisturbed run gives.
#[test]
fn crash_at_every_fault_point_leaves_each_row_once() -> Result<()> {
    let counted = Arc::new(FailPoints::recording());
    Dirs::new()?.run(Arc::clone(&counted))?;
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    for name in counted.names() {
        *names.entry(name).or_default() += 1;
    }
    assert!(names.contains_key("file-sink:rename"), "{names:?}");
    for step in 0..counted.hits() {
        let dirs = Dirs::new()?;
        if let Err(error) = dirs.run(Arc::new(FailPoints::crash_at(step))) {
            assert_eq!(error.fault(), Fault::Crash, "{error}");
        }
        dirs.run(Arc::default())?;
        dirs.check(FILES, &format!("crash at step {step}"));
    }
    Ok(())
}
