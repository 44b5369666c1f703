//! Queries over topics, and the rows that came out of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use tempfile::TempDir;
use weir::prelude::*;
use weir::runtime::FailPoints;

use super::{Kafka, LONG};

/// A directory that goes away with the test.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

pub(crate) fn session() -> Session {
    Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .build()
        .unwrap()
}

/// A record as it came out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) value: Option<String>,
}

/// Rows of the source's columns.
pub(crate) fn seen(batches: &[RecordBatch]) -> Vec<Seen> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |name| -> &ArrayRef { batch.column_by_name(name).unwrap() };
        let topics = column("topic").as_string::<i32>();
        let partitions = column("partition").as_primitive::<Int32Type>();
        let offsets = column("offset").as_primitive::<Int64Type>();
        let values = column("value").as_binary::<i32>();
        for row in 0..batch.num_rows() {
            let value = values.is_valid(row).then(|| values.value(row));
            rows.push(Seen {
                topic: topics.value(row).to_owned(),
                partition: partitions.value(row),
                offset: offsets.value(row),
                value: value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            });
        }
    }
    rows
}

/// Rows of each epoch; a replay takes the place of what it repeats.
pub(crate) type Epochs = BTreeMap<u64, Vec<Seen>>;

/// A query over topics that remembers its rows by epoch, over restarts too.
pub(crate) struct Reading {
    pub(crate) session: Session,
    home: Home,
    options: HashMap<String, String>,
    epochs: Arc<Mutex<Epochs>>,
    sink_pause: Duration,
    failpoints: Arc<FailPoints>,
}

impl Reading {
    /// From the earliest offsets.
    pub(crate) fn of(kafka: &Kafka, topic: &str) -> Self {
        Self::bare(kafka)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
    }

    /// Without any topics.
    pub(crate) fn bare(kafka: &Kafka) -> Self {
        Self {
            session: session(),
            home: Home::new(),
            options: HashMap::from([(
                "kafka.bootstrap.servers".to_owned(),
                kafka.bootstrap.clone(),
            )]),
            epochs: Arc::default(),
            sink_pause: Duration::ZERO,
            failpoints: Arc::default(),
        }
    }

    /// The same query with other fault points.
    pub(crate) fn with_failpoints(mut self, failpoints: &Arc<FailPoints>) -> Self {
        self.failpoints = Arc::clone(failpoints);
        self
    }

    pub(crate) fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: impl ToString) {
        self.options.insert(name.to_owned(), value.to_string());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        self.options.remove(name);
    }

    /// Every epoch takes so long to write.
    pub(crate) fn slow_sink(mut self, pause: Duration) -> Self {
        self.sink_pause = pause;
        self
    }

    pub(crate) fn frame(&self) -> Result<DataFrame> {
        let reader = self.session.read_stream().format("kafka");
        reader.options(self.options.clone()).open()
    }

    pub(crate) fn checkpoint(&self) -> String {
        self.home.text("checkpoint")
    }

    /// Starts, or starts again.
    pub(crate) async fn start(&self, trigger: Trigger) -> Result<StreamingQuery> {
        self.start_frame(self.frame()?, trigger).await
    }

    pub(crate) async fn start_frame(
        &self,
        frame: DataFrame,
        trigger: Trigger,
    ) -> Result<StreamingQuery> {
        let (epochs, pause) = (Arc::clone(&self.epochs), self.sink_pause);
        frame
            .write_stream()
            .trigger(trigger)
            .checkpoint(&self.checkpoint())
            .engine(QueryConfig {
                failpoints: Arc::clone(&self.failpoints),
                parallelism: 2,
                ..QueryConfig::default()
            })
            .foreach_batch(move |frame, epoch| {
                let epochs = Arc::clone(&epochs);
                async move {
                    let rows = seen(&frame.collect().await?);
                    tokio::time::sleep(pause).await;
                    epochs.lock().unwrap().insert(epoch, rows);
                    Ok(())
                }
            })
            .start()
            .await
    }

    /// Reads everything there is.
    pub(crate) async fn run(&self) -> Result<StreamingQuery> {
        let query = self.start(Trigger::AvailableNow).await?;
        query.await_termination().await?;
        Ok(query)
    }

    pub(crate) fn epochs(&self) -> Epochs {
        self.epochs.lock().unwrap().clone()
    }

    /// Rows of all epochs, in order of partition and offset.
    pub(crate) fn rows(&self) -> Vec<Seen> {
        let mut rows: Vec<Seen> = self.epochs().into_values().flatten().collect();
        rows.sort();
        rows
    }

    /// Values of all rows, in the same order.
    pub(crate) fn values(&self) -> Vec<String> {
        let rows = self.rows().into_iter();
        rows.map(|row| row.value.unwrap_or_else(|| "NULL".to_owned()))
            .collect()
    }

    /// Values of all rows as numbers, sorted.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let mut numbers: Vec<i64> = self.values().iter().map(|v| v.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Waits until there are so many rows.
    pub(crate) async fn wait_for_rows(&self, query: &StreamingQuery, count: usize) {
        for _ in 0..LONG.as_millis() / 20 {
            let rows = self.rows().len();
            assert!(rows <= count, "{rows} rows, more than {count}");
            if rows == count {
                return;
            }
            if let Some(error) = query.exception() {
                panic!("the query ended with {} of {count} rows: {error:?}", rows);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "only {} of {count} rows came; status: {:?}",
            self.rows().len(),
            query.status()
        );
    }
}

/// The last progress that read rows.
pub(crate) fn last_with_rows(query: &StreamingQuery) -> QueryProgress {
    let all = query.recent_progress().into_iter();
    all.rev()
        .find(|progress| progress.num_input_rows > 0)
        .expect("an epoch with rows")
}
