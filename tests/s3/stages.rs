//! Queries from a bucket into a bucket, their input, and what their tables hold.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir::prelude::*;

use crate::bucket::Bucket;
use crate::texts::texts;

/// Columns of [`lines`].
pub(crate) const COLUMNS: &str = "id BIGINT, k STRING, ts TIMESTAMP";
/// More than anything here takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
/// Partitions whose names are hard on paths and URLs.
const KEYS: [&str; 3] = ["a/b", "100% x", "città #1"];

/// What `work` gives; a test fails in which it does not end.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("{what} did not end in {PATIENCE:?}"))
}

/// How a query ends by itself.
pub(crate) async fn end(query: &StreamingQuery) -> Result<()> {
    soon("a query", query.await_termination()).await
}

/// Waits until a query has done everything that is there.
pub(crate) async fn all_processed(query: &StreamingQuery) {
    let processed = soon("the input", query.process_all_available());
    processed.await.unwrap();
}

/// A file of JSON lines. Event times rise from file to file.
pub(crate) fn lines(file: u64, rows: u64) -> String {
    let line = |row: u64| {
        let millis = 1_767_225_600_000 + file * 10_000 + row * 37 % 9_000;
        let time = chrono::DateTime::from_timestamp_millis(i64::try_from(millis).unwrap()).unwrap();
        let key = KEYS[usize::try_from(row).unwrap() % KEYS.len()];
        format!(
            "{{\"id\":{},\"k\":\"{key}\",\"ts\":\"{}\"}}\n",
            file * 1_000 + row,
            time.to_rfc3339()
        )
    };
    (0..rows).map(line).collect()
}

/// A query over JSON files, which writes files.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) checkpoint: String,
    pub(crate) format: &'static str,
    /// Counts and sums by window instead of the rows themselves.
    pub(crate) windows: bool,
    /// Files of an epoch.
    pub(crate) files: u64,
    pub(crate) trigger: Trigger,
    pub(crate) engine: QueryConfig,
}

impl Job {
    /// From `in` to `NAME/out` of a bucket, with the checkpoint beside it.
    pub(crate) fn of(bucket: &Bucket, name: &str) -> Self {
        Self {
            input: bucket.url("in"),
            output: bucket.url(&format!("{name}/out")),
            checkpoint: bucket.url(&format!("{name}/checkpoint")),
            format: "parquet",
            windows: false,
            files: 1,
            trigger: Trigger::AvailableNow,
            engine: QueryConfig {
                parallelism: 2,
                ..QueryConfig::default()
            },
        }
    }

    pub(crate) async fn start(&self, session: &Session) -> Result<StreamingQuery> {
        let rows = session
            .read_stream()
            .format("json")
            .schema(COLUMNS)
            .option("maxFilesPerTrigger", self.files)
            .load(&self.input)?;
        let (frame, by) = match self.windows {
            false => (rows, vec!["k"]),
            true => {
                rows.with_watermark("ts", "15 seconds")?
                    .create_or_replace_temp_view("events")?;
                let counts = "SELECT window.start AS start, k, count(*) AS n, sum(id) AS s FROM events \
                              GROUP BY window(ts, '10 seconds'), k";
                (session.sql(counts).await?, vec![])
            }
        };
        let writer = frame
            .write_stream()
            .format(self.format)
            .partition_by(by)
            .engine(self.engine.clone())
            .trigger(self.trigger)
            .checkpoint(&self.checkpoint);
        soon("a start", writer.start_path(&self.output)).await
    }

    /// Runs until everything that is there is done.
    pub(crate) async fn run(&self, session: &Session) -> Result<()> {
        end(&self.start(session).await?).await
    }

    /// Columns of the output.
    pub(crate) fn columns(&self) -> &'static str {
        match self.windows {
            false => COLUMNS,
            true => "start TIMESTAMP, k STRING, n BIGINT, s BIGINT",
        }
    }

    /// The rows of the output as its manifest gives them.
    pub(crate) async fn table(&self, session: &Session) -> Vec<String> {
        let table = session.read().format(self.format).schema(self.columns());
        let table = table.load(&self.output).await.unwrap();
        texts(&soon("a table", table.collect()).await.unwrap())
    }
}

/// Rows that a query hands over.
#[derive(Clone, Default)]
pub(crate) struct Taken(Arc<Mutex<Vec<String>>>);

impl Taken {
    /// The writer that fills it.
    pub(crate) fn writer(&self, frame: &DataFrame) -> DataStreamWriter {
        let taken = self.clone();
        frame.write_stream().foreach_batch(move |frame, _| {
            let taken = taken.clone();
            async move {
                let rows = texts(&frame.collect().await?);
                taken.0.lock().unwrap().extend(rows);
                Ok(())
            }
        })
    }

    /// What came since the last call, sorted.
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows = std::mem::take(&mut *self.0.lock().unwrap());
        rows.sort();
        rows
    }
}

/// What a stream gives that runs until everything that is there is done.
pub(crate) async fn all_of(frame: &DataFrame, checkpoint: &str) -> Vec<String> {
    let taken = Taken::default();
    let writer = taken.writer(frame).checkpoint(checkpoint);
    let writer = writer.trigger(Trigger::AvailableNow);
    let query = soon("a start", writer.start()).await.unwrap();
    end(&query).await.unwrap();
    taken.rows()
}
