//! [`KafkaSourceBuilder`]: a source in code, where a misspelt option does not compile.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_runtime::{Result, WeirError};

use super::config::{self, KafkaSourceConfig, OWNER, Position, Subscription};
use super::{KafkaSource, TopicPartition};
use crate::kafka::client::{ClientSettings, Role};

/// Builds a [`KafkaSource`] that streams; begins at the latest offsets unless told otherwise.
///
/// ```
/// # use weir_connectors::kafka::source::KafkaSource;
/// # fn main() -> weir_runtime::Result<()> {
/// let source = KafkaSource::builder("broker:9092")
///     .subscribe(["clicks", "orders"])
///     .starting_earliest()
///     .max_offsets_per_trigger(50_000)
///     .client("security.protocol", "SASL_SSL")
///     .build()?;
/// # let _ = source;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KafkaSourceBuilder {
    client: Secretive,
    subscription: Option<Result<Subscription>>,
    second: bool,
    changes: Changes,
}

/// Client properties; not shown.
#[derive(Clone)]
struct Secretive(BTreeMap<String, String>);

impl std::fmt::Debug for Secretive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// What differs from the defaults.
#[derive(Debug, Clone, Default)]
struct Changes {
    starting: Option<Position>,
    latest_if_no_timestamp: bool,
    accept_data_loss: bool,
    poll_timeout: Option<Duration>,
    retries: Option<(u32, Duration)>,
    max_offsets: Option<Option<u64>>,
    min_offsets: Option<u64>,
    max_trigger_delay: Option<Duration>,
    min_partitions: Option<u64>,
    max_records: Option<u64>,
    group_id_prefix: Option<String>,
    headers: bool,
}

impl KafkaSourceBuilder {
    pub(super) fn new(bootstrap_servers: impl Into<String>) -> Self {
        let servers = ("bootstrap.servers".to_owned(), bootstrap_servers.into());
        Self {
            client: Secretive(BTreeMap::from([servers])),
            subscription: None,
            second: false,
            changes: Changes::default(),
        }
    }

    /// A property of the client, without `kafka.`, in the name of Kafka's Java client or of librdkafka.
    #[must_use]
    pub fn client(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.client.0.insert(name.into(), value.into());
        self
    }

    fn what(mut self, subscription: Result<Subscription>) -> Self {
        self.second |= self.subscription.is_some();
        self.subscription = Some(subscription);
        self
    }

    /// Every partition of these topics.
    #[must_use]
    pub fn subscribe<T: AsRef<str>>(self, topics: impl IntoIterator<Item = T>) -> Self {
        let topics: Vec<String> = topics
            .into_iter()
            .map(|topic| topic.as_ref().to_owned())
            .collect();
        self.what(config::topics(&topics.join(",")))
    }

    /// Every partition of the topics whose whole name matches, also of those created later.
    #[must_use]
    pub fn subscribe_pattern(self, pattern: &str) -> Self {
        self.what(config::pattern(pattern))
    }

    /// These partitions: topic and number.
    #[must_use]
    pub fn assign<T: Into<String>>(self, partitions: impl IntoIterator<Item = (T, i32)>) -> Self {
        let partitions = partitions
            .into_iter()
            .map(|(topic, partition)| TopicPartition::new(topic, partition))
            .collect();
        self.what(Ok(Subscription::Partitions(partitions)))
    }

    fn starting(mut self, position: Position) -> Self {
        self.changes.starting = Some(position);
        self
    }

    /// A new query begins at the earliest offsets.
    #[must_use]
    pub fn starting_earliest(self) -> Self {
        self.starting(Position::Earliest)
    }

    /// A new query begins at the latest offsets, which is the default.
    #[must_use]
    pub fn starting_latest(self) -> Self {
        self.starting(Position::Latest)
    }

    /// A new query begins at these offsets, which must name every partition: topic, number, offset (-2 earliest, -1 latest).
    #[must_use]
    pub fn starting_offsets<T: Into<String>>(
        self,
        offsets: impl IntoIterator<Item = (T, i32, i64)>,
    ) -> Self {
        let offsets = offsets
            .into_iter()
            .map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), offset))
            .collect();
        self.starting(Position::Offsets(offsets))
    }

    /// A new query begins at the first record of each partition at or after this time, unix milliseconds.
    #[must_use]
    pub fn starting_timestamp_ms(self, ms: i64) -> Self {
        self.starting(Position::Timestamp(ms))
    }

    /// Partitions without a record as new as the starting time begin at their end, instead of being an error.
    #[must_use]
    pub fn latest_if_no_timestamp(mut self) -> Self {
        self.changes.latest_if_no_timestamp = true;
        self
    }

    /// Records that are gone are a warning and a count, not an error.
    #[must_use]
    pub fn accept_data_loss(mut self) -> Self {
        self.changes.accept_data_loss = true;
        self
    }

    /// Patience with brokers that do not answer.
    #[must_use]
    pub fn poll_timeout(mut self, timeout: Duration) -> Self {
        self.changes.poll_timeout = Some(timeout);
        self
    }

    /// Further attempts to ask for offsets, and the wait between them.
    #[must_use]
    pub fn fetch_offset_retries(mut self, retries: u32, interval: Duration) -> Self {
        self.changes.retries = Some((retries, interval));
        self
    }

    /// Offsets an epoch takes, about (at least 1); [`DEFAULT_MAX_OFFSETS`](super::DEFAULT_MAX_OFFSETS) unless set.
    #[must_use]
    pub fn max_offsets_per_trigger(mut self, offsets: u64) -> Self {
        self.changes.max_offsets = Some(Some(offsets.max(1)));
        self
    }

    /// An epoch takes everything there is.
    #[must_use]
    pub fn unlimited_offsets_per_trigger(mut self) -> Self {
        self.changes.max_offsets = Some(None);
        self
    }

    /// An epoch waits for so many offsets, but no longer than `max_delay` after the last one.
    #[must_use]
    pub fn min_offsets_per_trigger(mut self, offsets: u64, max_delay: Duration) -> Self {
        self.changes.min_offsets = Some(offsets.max(1));
        self.changes.max_trigger_delay = Some(max_delay);
        self
    }

    /// Cuts big partitions so that there are about so many splits.
    #[must_use]
    pub fn min_partitions(mut self, partitions: u64) -> Self {
        self.changes.min_partitions = Some(partitions.max(1));
        self
    }

    /// Cuts partitions so that no split has more records.
    #[must_use]
    pub fn max_records_per_partition(mut self, records: u64) -> Self {
        self.changes.max_records = Some(records.max(1));
        self
    }

    /// What names of consumer groups begin with.
    #[must_use]
    pub fn group_id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.changes.group_id_prefix = Some(prefix.into());
        self
    }

    /// Adds the column `headers`.
    #[must_use]
    pub fn include_headers(mut self) -> Self {
        self.changes.headers = true;
        self
    }

    /// The source.
    ///
    /// # Errors
    /// None or two of `subscribe`, `subscribe_pattern` and `assign`, names or a pattern that are none, client properties that are
    /// refused, a minimum above the maximum.
    pub fn build(self) -> Result<KafkaSource> {
        let client = ClientSettings::new(Role::Source, self.client.0)?;
        let subscription = match self.subscription {
            Some(subscription) if !self.second => subscription?,
            _ => {
                return Err(WeirError::config(format!(
                    "exactly one of subscribe, subscribe_pattern and assign has to be called for {OWNER}"
                )));
            }
        };
        if matches!(&subscription, Subscription::Partitions(partitions) if partitions.is_empty()) {
            return Err(WeirError::config(format!(
                "{OWNER} is assigned no partitions"
            )));
        }
        let mut config = KafkaSourceConfig::new(client, subscription);
        self.changes.apply(&mut config);
        config.check_limits()?;
        Ok(KafkaSource::new(config))
    }
}

impl Changes {
    fn apply(self, config: &mut KafkaSourceConfig) {
        config.starting_given = self.starting.is_some();
        config.starting = self.starting.unwrap_or(Position::Latest);
        config.latest_if_no_timestamp = self.latest_if_no_timestamp;
        config.fail_on_data_loss = !self.accept_data_loss;
        config.poll_timeout = self.poll_timeout.unwrap_or(config.poll_timeout);
        if let Some((retries, interval)) = self.retries {
            (config.num_retries, config.retry_interval) = (retries, interval);
        }
        config.max_offsets = self.max_offsets.unwrap_or(config.max_offsets);
        config.min_offsets = self.min_offsets;
        config.max_trigger_delay = self.max_trigger_delay.unwrap_or(config.max_trigger_delay);
        config.min_partitions = self.min_partitions;
        config.max_records = self.max_records;
        if let Some(prefix) = self.group_id_prefix {
            config.group_id_prefix = prefix;
        }
        config.include_headers = self.headers;
    }
}
