//! The typed builder of a Kafka sink.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_runtime::Result;

use super::KafkaSink;
use super::config::{DeliveryGuarantee, KafkaSinkConfig, LostMarker, OversizedMessages};
use crate::kafka::client::{ClientSettings, Role};

/// Builds a [`KafkaSink`].
///
/// ```
/// # use weir_connectors::kafka::sink::{DeliveryGuarantee, KafkaSink};
/// # fn main() -> weir_runtime::Result<()> {
/// let sink = KafkaSink::builder("localhost:9092")
///     .topic("purchases")
///     .delivery(DeliveryGuarantee::ExactlyOnce)
///     .property("compression.type", "zstd")
///     .build()?;
/// # let _ = sink;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KafkaSinkBuilder {
    properties: BTreeMap<String, String>,
    change: Changes,
}

/// What differs from the defaults.
#[derive(Clone, Default)]
struct Changes {
    topic: Option<String>,
    include_headers: Option<bool>,
    delivery: DeliveryGuarantee,
    prefix: Option<String>,
    lost_marker: LostMarker,
    oversized: OversizedMessages,
}

impl KafkaSinkBuilder {
    /// A sink into the cluster these servers (`host:port`, separated by commas) belong to.
    pub(super) fn new(bootstrap_servers: impl Into<String>) -> Self {
        let servers = ("bootstrap.servers".to_owned(), bootstrap_servers.into());
        Self {
            properties: BTreeMap::from([servers]),
            change: Changes::default(),
        }
    }

    /// Where every row goes; without it the column `topic` says so for each.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.change.topic = Some(topic.into());
        self
    }

    /// Whether a column `headers` becomes the headers of the message; true unless set.
    #[must_use]
    pub fn include_headers(mut self, include: bool) -> Self {
        self.change.include_headers = Some(include);
        self
    }

    /// What becomes of a row when something crashes; exactly-once unless set.
    #[must_use]
    pub fn delivery(mut self, delivery: DeliveryGuarantee) -> Self {
        self.change.delivery = delivery;
        self
    }

    /// What the transactional id and the consumer group of the sink begin with; `weir` unless set.
    #[must_use]
    pub fn transactional_id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.change.prefix = Some(prefix.into());
        self
    }

    /// How long the transaction of an epoch may take before the broker ends it; 15 minutes unless set.
    #[must_use]
    pub fn transaction_timeout(self, timeout: Duration) -> Self {
        self.property("transaction.timeout.ms", timeout.as_millis().to_string())
    }

    /// What to do at a start that cannot tell whether the target holds the unfinished epoch; fail unless set.
    #[must_use]
    pub fn lost_marker(mut self, policy: LostMarker) -> Self {
        self.change.lost_marker = policy;
        self
    }

    /// What to do with a message that is larger than its topic allows; fail unless set.
    #[must_use]
    pub fn oversized_messages(mut self, policy: OversizedMessages) -> Self {
        self.change.oversized = policy;
        self
    }

    /// A property of the producer, in the name of the Java client or of librdkafka, without `kafka.`.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// The sink. The cluster is asked when a query starts.
    ///
    /// # Errors
    /// If a setting is not allowed.
    pub fn build(self) -> Result<KafkaSink> {
        let client = ClientSettings::new(Role::Sink, self.properties)?;
        let mut config = KafkaSinkConfig::new(client);
        config.topic = self.change.topic;
        config.include_headers = self.change.include_headers.unwrap_or(true);
        config.delivery = self.change.delivery;
        config.lost_marker = self.change.lost_marker;
        config.oversized_messages = self.change.oversized;
        if let Some(prefix) = self.change.prefix {
            config.transactional_id_prefix = prefix;
        }
        KafkaSink::new(config)
    }
}
