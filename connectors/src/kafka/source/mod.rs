//! [`KafkaSource`]: topics as a stream of rows, or as a table.
//!
//! Offsets live in the checkpoint alone: plans say from where to where each partition is read, partitions are assigned with exact
//! offsets, and nothing is ever committed to Kafka. What an epoch reads is fixed before it runs and read again after a crash.
//!
//! | file | what |
//! | --- | --- |
//! | `config.rs`, `builder.rs` | what a source is told |
//! | `cluster.rs`, `describe.rs` | what the cluster is asked: topics with their ids, where partitions begin and end |
//! | `outlook.rs`, `loss.rs`, `limits.rs`, `start.rs` | the decisions: what could be read, what is lost, how much is taken, where it begins |
//! | `run.rs`, `log.rs` | one generation, and what it makes durable beside the plans |
//! | `reader.rs`, `fetcher.rs`, `queue.rs`, `rows.rs` | reading: the end of a split, the client, its memory, the columns |

mod builder;
mod cluster;
mod config;
mod describe;
mod fetcher;
mod limits;
mod log;
mod loss;
mod offsets;
mod options;
mod outlook;
mod queue;
mod reader;
mod rows;
mod run;
mod shared;
mod start;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;
use weir_runtime::{
    Admission, Backlog, Clock, Epoch, Fingerprint, Offset, Result, Source, SourceContext,
    SourceReader, Split, WeirError,
};
use xxhash_rust::xxh64::xxh64;

pub use builder::KafkaSourceBuilder;
pub use config::{DEFAULT_MAX_OFFSETS, KafkaSourceConfig, Subscription, TopicPattern};
pub use offsets::TopicPartition;
pub use options::SOURCE_OPTIONS;

use cluster::Cluster;
use fetcher::Fetcher;
use reader::KafkaReader;
use rows::Rows;
use run::Run;
use shared::Shared;

/// Topics as a stream of rows: `key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType
/// INT` and, if asked for, `headers ARRAY<STRUCT<key STRING, value BINARY>>`.
///
/// `timestamp` is the record's, in milliseconds; whether its producer or the broker set it (`timestampType` 0 or 1) is the topic's
/// choice (`message.timestamp.type`). A record without a value (a tombstone) has a null value; an empty value is not null.
///
/// Rows of a partition come in the order of its offsets. Each partition is a split that lives as long as the query. Only committed
/// records are read, unless `kafka.isolation.level` says otherwise.
pub struct KafkaSource {
    config: Arc<KafkaSourceConfig>,
    schema: SchemaRef,
    shared: Arc<Shared>,
    run: Option<Run>,
    readers: Option<ReaderParts>,
}

/// What readers of a generation are made of.
struct ReaderParts {
    clock: Arc<dyn Clock>,
    group: String,
    cluster: Arc<Cluster>,
}

impl std::fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSource")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl KafkaSource {
    /// A source by its configuration, with all columns.
    #[must_use]
    pub fn new(config: KafkaSourceConfig) -> Self {
        Self {
            schema: rows::schema(config.include_headers),
            config: Arc::new(config),
            shared: Arc::default(),
            run: None,
            readers: None,
        }
    }

    /// A builder: what would be option text is a method.
    pub fn builder(bootstrap_servers: impl Into<String>) -> KafkaSourceBuilder {
        KafkaSourceBuilder::new(bootstrap_servers)
    }

    /// Fills only these of its columns.
    ///
    /// # Errors
    /// A column the source does not have.
    pub fn with_columns(mut self, wanted: SchemaRef) -> Result<Self> {
        for field in wanted.fields() {
            if self.schema.column_with_name(field.name()).is_none() {
                return Err(WeirError::plan(format!(
                    "source 'kafka' has no column '{}'",
                    field.name()
                )));
            }
        }
        self.schema = wanted;
        Ok(self)
    }

    fn run(&mut self) -> Result<&mut Run> {
        self.run
            .as_mut()
            .ok_or_else(|| WeirError::internal("source 'kafka' is not open"))
    }

    /// The user's group, or one of this run alone: members of other groups do not matter to the source either way, but brokers
    /// count requests and check rights by group.
    fn group(&self, context: &SourceContext) -> String {
        match self.config.client.get("group.id") {
            Some(group) => {
                if self.shared.warn_once_of_group() {
                    tracing::warn!(
                        source = %self.config.description(),
                        "the option 'kafka.group.id' is set: other queries and consumers of the group '{group}' may get in each other's way \
                         in quotas and monitoring; offsets are not taken from it, and 'groupIdPrefix' is ignored"
                    );
                }
                group.to_owned()
            }
            None => {
                let place = xxh64(context.checkpoint.display().as_bytes(), 0);
                let run = Uuid::new_v4();
                format!("{}-{run}-{place:016x}", self.config.group_id_prefix)
            }
        }
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn description(&self) -> String {
        self.config.description()
    }

    fn fingerprint(&self) -> Fingerprint {
        // Where the brokers are, limits and patience may change; other topics would be another query.
        let (name, value) = match &self.config.subscription {
            Subscription::Topics(topics) => {
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                ("subscribe", topics.join(","))
            }
            Subscription::Pattern(pattern) => ("subscribePattern", pattern.to_string()),
            Subscription::Partitions(partitions) => {
                let partitions: Vec<String> = partitions.iter().map(ToString::to_string).collect();
                ("assign", partitions.join(","))
            }
        };
        Fingerprint::source("kafka").param(name, value)
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        self.shared.forget_readers();
        self.readers = Some(ReaderParts {
            clock: Arc::clone(&context.clock),
            group: self.group(&context),
            cluster: Arc::new(Cluster::new(&self.config)),
        });
        let (config, shared) = (Arc::clone(&self.config), Arc::clone(&self.shared));
        self.run = Some(Run::start(config, shared, context).await?);
        Ok(())
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        self.run()?.latest(start, admission).await
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.run()?.fix_end().await
    }

    async fn log(&mut self, epoch: Epoch, _start: Option<&Offset>, end: &Offset) -> Result<()> {
        self.run()?.log(epoch, end).await
    }

    async fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        self.run()?.splits(epoch, start, end)
    }

    fn long_lived_splits(&self) -> Vec<String> {
        self.run.as_ref().map(Run::partitions).unwrap_or_default()
    }

    fn home(&self, split: &Split, subtasks: usize) -> Option<usize> {
        let of = |name: &str| split.payload.get(name);
        if !of("whole")?.as_bool()? {
            return None;
        }
        let partition = i32::try_from(of("partition").and_then(Value::as_i64)?).ok()?;
        let at = TopicPartition::new(of("topic")?.as_str()?, partition);
        self.shared.home(&at, subtasks)
    }

    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        let parts = self
            .readers
            .as_ref()
            .ok_or_else(|| WeirError::internal("source 'kafka' is not open"))?;
        self.shared.note_reader(subtask);
        let settings = self.config.client.clone().with("group.id", &parts.group);
        Ok(Box::new(KafkaReader::new(
            Fetcher::new(settings, Arc::clone(&self.shared)),
            Rows::new(Arc::clone(&self.schema)),
            Arc::clone(&parts.cluster),
            Arc::clone(&parts.clock),
            Arc::clone(&self.shared),
            (self.config.fail_on_data_loss, self.config.poll_timeout),
        )))
    }

    fn newest(&self) -> Option<Offset> {
        self.run.as_ref().and_then(Run::newest)
    }

    fn metrics(&self, end: Option<&Offset>) -> BTreeMap<String, String> {
        match (&self.run, end) {
            (Some(run), Some(end)) => run.metrics(end),
            _ => BTreeMap::new(),
        }
    }

    fn problem(&self) -> Option<String> {
        self.run.as_ref().and_then(Run::problem)
    }

    fn backlog(&self) -> Option<Backlog> {
        self.run.as_ref().and_then(Run::backlog)
    }
}
