//! A query over actions in files or in a topic whose result goes to a topic: how it is started, killed and judged. What has to be in the topic
//! is what an undisturbed run over the same actions writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir::prelude::*;
use weir::runtime::{FailPoints, RestartPolicy};

use super::topics::{Isolation, Record, create, delete, read};
use crate::support::{Kafka, value};

/// First event time: 2026-01-01, in milliseconds since 1970.
const START_MS: i64 = 1_767_225_600_000;
/// Partitions of a topic of actions.
pub(crate) const INPUT_PARTITIONS: i32 = 2;
const ACTIONS: [&str; 3] = ["purchase", "view", "return"];

/// What the query computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Stateless: ids of purchases, by user.
    Purchases,
    /// Count and sum by window and action, when the window is over.
    Windows,
    /// Running totals by user, in mode update.
    Totals,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Purchases, Self::Windows, Self::Totals];

    /// By the name `Debug` gives; how a child process is told.
    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL
            .into_iter()
            .find(|kind| format!("{kind:?}") == name);
        found.expect("a kind of query")
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Purchases => {
                "SELECT CAST(user AS STRING) AS key, CAST(id AS STRING) AS value
                 FROM actions WHERE action = 'purchase'"
            }
            Self::Windows => {
                "SELECT action AS key, concat(CAST(start AS STRING), '|', CAST(n AS STRING), '|', CAST(s AS STRING)) AS value
                 FROM (SELECT window.start AS start, action, count(*) AS n, sum(id) AS s
                       FROM actions GROUP BY window(ts, '10 seconds'), action)"
            }
            Self::Totals => {
                "SELECT CAST(user AS STRING) AS key, concat(CAST(n AS STRING), '|', CAST(s AS STRING)) AS value
                 FROM (SELECT user, count(*) AS n, sum(id) AS s FROM actions GROUP BY user)"
            }
        }
    }

    fn mode(self) -> &'static str {
        match self {
            Self::Totals => "update",
            _ => "append",
        }
    }
}

/// One shop: files in `in` or a topic, a checkpoint, a topic of results.
pub(crate) struct Shop {
    home: PathBuf,
    kind: Kind,
    kafka: Arc<Kafka>,
    topic: String,
    /// The topic the actions are in; none if they are in files.
    input: Option<String>,
    options: Vec<(String, String)>,
    restart: RestartPolicy,
}

impl Shop {
    pub(crate) fn new(kind: Kind, home: &Path, servers: &str, topic: &str) -> Self {
        fs::create_dir_all(home.join("in")).expect("the input directory");
        Self {
            home: home.to_owned(),
            kind,
            kafka: Kafka::known(servers),
            topic: topic.to_owned(),
            input: None,
            options: Vec::new(),
            restart: RestartPolicy::never(),
        }
    }

    /// The shop with a query that begins anew by itself after failures that may pass.
    pub(crate) fn restarting(self) -> Self {
        let restart = RestartPolicy::default();
        Self { restart, ..self }
    }

    /// The shop with its actions in a topic.
    pub(crate) fn reading(mut self, topic: &str) -> Self {
        self.input = Some(topic.to_owned());
        self
    }

    /// The shop with one more option of its sink.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Drops actions `number` into the input: a file, complete or not at all, or records. Ids are unique over all files; event times rise from file to
    /// file and the watermark stays further behind than they go back, so no row is ever late.
    pub(crate) fn drop_file(&self, number: u64, rows: u64) {
        let actions = (0..rows).map(|row| Action::new(number, row));
        if let Some(topic) = &self.input {
            let spread = actions.zip((0..INPUT_PARTITIONS).cycle());
            let records = spread.map(|(action, partition)| value(action.csv()).to(partition));
            let records: Vec<_> = records.collect();
            return futures::executor::block_on(self.kafka.send(topic, &records));
        }
        let lines: Vec<String> = actions.map(|action| action.json()).collect();
        let hidden = self.home.join(format!("in/.{number}.part"));
        fs::write(&hidden, lines.join("\n")).expect("written");
        fs::rename(hidden, self.home.join(format!("in/{number:05}.json"))).expect("renamed");
    }

    fn path(&self, name: &str) -> String {
        self.home.join(name).display().to_string()
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.home.join("checkpoint")
    }

    /// The stream of actions.
    async fn actions(&self, session: &Session) -> Result<DataFrame> {
        let Some(topic) = &self.input else {
            return session
                .read_stream()
                .format("json")
                .schema("id BIGINT, user BIGINT, action STRING, ts TIMESTAMP")
                .option("maxFilesPerTrigger", 2)
                .load(&self.path("in"));
        };
        session
            .read_stream()
            .format("kafka")
            .option("kafka.bootstrap.servers", &self.kafka.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 60)
            .open()?
            .create_or_replace_temp_view("records")?;
        let fields = "SELECT CAST(element_at(f, 1) AS BIGINT) AS id, CAST(element_at(f, 2) AS BIGINT) AS user, element_at(f, 3) AS action,
                      timestamp_millis(CAST(element_at(f, 4) AS BIGINT)) AS ts
                      FROM (SELECT split(CAST(value AS STRING), ',') AS f FROM records)";
        session.sql(fields).await
    }

    /// Starts the query into a topic, as a new process would.
    async fn start_into(
        &self,
        topic: &str,
        checkpoint: &str,
        trigger: Trigger,
        failpoints: Arc<FailPoints>,
    ) -> Result<StreamingQuery> {
        let session = Session::builder().parallelism(2).build()?;
        let engine = QueryConfig {
            failpoints,
            parallelism: 2,
            restart: self.restart,
            ..QueryConfig::default()
        };
        self.actions(&session)
            .await?
            .with_watermark("ts", "15 seconds")?
            .create_or_replace_temp_view("actions")?;
        let writer = session.sql(self.kind.sql()).await?.write_stream();
        let writer = self
            .options
            .iter()
            .fold(writer, |writer, (name, value)| writer.option(name, value));
        writer
            .format("kafka")
            .output_mode(self.kind.mode())
            .engine(engine)
            .trigger(trigger)
            .option("kafka.bootstrap.servers", &self.kafka.bootstrap)
            .option("topic", topic)
            .option("checkpointLocation", self.path(checkpoint))
            .start()
            .await
    }

    /// Starts the query.
    pub(crate) async fn start(
        &self,
        trigger: Trigger,
        failpoints: Arc<FailPoints>,
    ) -> Result<StreamingQuery> {
        self.start_into(&self.topic, "checkpoint", trigger, failpoints)
            .await
    }

    /// Runs everything that is there.
    pub(crate) fn run(&self, failpoints: Arc<FailPoints>) -> Result<()> {
        block_on(async {
            let query = self.start(Trigger::AvailableNow, failpoints).await?;
            query.await_termination().await
        })
    }

    /// What an undisturbed run over the actions that are there writes.
    pub(crate) fn undisturbed(&self) -> Expected {
        let topic = create(&self.kafka.bootstrap, "undisturbed", 3, &[]);
        let checkpoint = format!("checkpoint-{topic}");
        block_on(async {
            let query = self.start_into(&topic, &checkpoint, Trigger::AvailableNow, Arc::default());
            query
                .await
                .expect("starts")
                .await_termination()
                .await
                .expect("ends well");
        });
        let records = read(&self.kafka.bootstrap, &topic, Isolation::Committed);
        delete(&self.kafka.bootstrap, &topic);
        assert!(!records.is_empty());
        Expected(self.judged(records))
    }

    /// Of totals the last ones, because how often they are told depends on how the actions are cut into epochs.
    fn judged(&self, records: Vec<Record>) -> Vec<Pair> {
        match self.kind {
            Kind::Totals => last(records),
            _ => all(records),
        }
    }

    /// Asserts that committed messages are those of an undisturbed run: the same ones, each as often.
    pub(crate) fn assert_exactly_once(&self, situation: &str) {
        self.assert_is(&self.undisturbed(), situation);
    }

    /// Asserts that committed messages are these.
    pub(crate) fn assert_is(&self, expected: &Expected, situation: &str) {
        let expected = &expected.0;
        let found = self.judged(read(
            &self.kafka.bootstrap,
            &self.topic,
            Isolation::Committed,
        ));
        let lost: Vec<_> = expected.iter().filter(|row| !found.contains(row)).collect();
        let foreign: Vec<_> = found.iter().filter(|row| !expected.contains(row)).collect();
        assert!(
            found == *expected,
            "{:?}, {situation}: {} messages instead of {}, lost {lost:?}, foreign {foreign:?}",
            self.kind,
            found.len(),
            expected.len()
        );
    }

    /// Asserts that every message of an undisturbed run is there, and none that it would not write.
    pub(crate) fn assert_at_least_once(&self) {
        let found = all(read(
            &self.kafka.bootstrap,
            &self.topic,
            Isolation::Committed,
        ));
        let Expected(expected) = self.undisturbed();
        assert!(
            expected.iter().all(|row| found.contains(row)),
            "rows are lost"
        );
        assert!(
            found.iter().all(|row| expected.contains(row)),
            "rows are made up"
        );
        assert!(found.len() >= expected.len());
    }

    /// Deletes the topics of the shop.
    pub(crate) fn close(self) {
        let topics = std::iter::once(&self.topic).chain(&self.input);
        topics.for_each(|topic| delete(&self.kafka.bootstrap, topic));
    }

    /// Values in the topic, sorted, for whoever reads everything.
    pub(crate) fn uncommitted(&self) -> Vec<String> {
        super::topics::values(&read(
            &self.kafka.bootstrap,
            &self.topic,
            Isolation::Uncommitted,
        ))
    }
}

/// What has to be in the topic of results.
pub(crate) struct Expected(Vec<Pair>);

type Pair = (Option<String>, Option<String>);

fn all(records: Vec<Record>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = records
        .iter()
        .map(|record| (record.key(), record.value()))
        .collect();
    pairs.sort();
    pairs
}

/// The last value of each key. All messages of a key are in one partition, so their order is known.
fn last(records: Vec<Record>) -> Vec<Pair> {
    let pairs = records.iter().map(|record| (record.key(), record.value()));
    let last: std::collections::BTreeMap<_, _> = pairs.collect();
    last.into_iter().collect()
}

/// One action of a user.
struct Action {
    id: i64,
    user: i64,
    action: &'static str,
    time_ms: i64,
}

impl Action {
    fn new(file: u64, row: u64) -> Self {
        let id = i64::try_from(file * 1_000_000 + row).expect("small");
        let start_ms = START_MS + i64::try_from(file).expect("small") * 10_000;
        Self {
            id,
            user: id * 31 % 67,
            action: ACTIONS[(id % 3) as usize],
            time_ms: start_ms + id * 7_919 % 9_000,
        }
    }

    fn json(&self) -> String {
        let time = chrono::DateTime::from_timestamp_millis(self.time_ms);
        let time = time.expect("a time of this century").to_rfc3339();
        let Self {
            id, user, action, ..
        } = self;
        format!(r#"{{"id":{id},"user":{user},"action":"{action}","ts":"{time}"}}"#)
    }

    fn csv(&self) -> String {
        let Self {
            id,
            user,
            action,
            time_ms,
        } = self;
        format!("{id},{user},{action},{time_ms}")
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}
