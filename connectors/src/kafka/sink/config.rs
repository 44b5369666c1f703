//! What a Kafka sink is told: which cluster and topic, what it promises, and what to do where a promise cannot be kept. From option
//! text or from the typed builder.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_runtime::{Delivery, Result, WeirError};

use super::columns::is_topic_name;
use super::options::SINK_OPTIONS;
use crate::kafka::client::{ClientSettings, Role};
use crate::options::Options;

const OWNER: &str = "sink 'kafka'";

/// What a transaction may take unless told otherwise: the longest that brokers allow unless they are told otherwise
/// (`transaction.max.timeout.ms`).
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(900);

/// Messages the client library keeps in memory, unless told otherwise; in KiB. A full queue holds the writers back.
const QUEUE_KBYTES: u64 = 65_536;

/// Milliseconds a message may wait for others before it is sent, unless told otherwise: an epoch waits for its last message. Full
/// batches do not wait, and while requests are under way they fill.
const LINGER_MS: &str = "1";

/// What becomes of a row when something crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeliveryGuarantee {
    /// Readers of committed messages see each row once: an epoch is one transaction.
    #[default]
    ExactlyOnce,
    /// Rows are visible as they are written; those of a replayed epoch a second time, with the same epoch and content.
    AtLeastOnce,
}

/// What to do at a start that finds an unfinished epoch and cannot tell whether the target holds it: the marker is gone and
/// may have been forgotten by the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LostMarker {
    /// Refuse to start.
    #[default]
    Fail,
    /// Write the epoch: the target does not hold it.
    Write,
    /// Do not write the epoch: the target holds it.
    Discard,
}

/// What to do with a message that is larger than its topic allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OversizedMessages {
    /// The query fails, naming topic, key, size and limit.
    #[default]
    Fail,
    /// The message is left out and counted (`droppedMessages` in progress).
    Drop,
}

/// Everything a Kafka sink is told. The names of the options stand at the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSinkConfig {
    /// `kafka.*`: properties of the producer.
    pub client: ClientSettings,
    /// `topic`: where every row goes. Without it the column `topic` says so for each.
    pub topic: Option<String>,
    /// `includeHeaders`: whether a column `headers` becomes the headers of the message; true unless set.
    pub include_headers: bool,
    /// `deliveryGuarantee`: `exactly-once` or `at-least-once`.
    pub delivery: DeliveryGuarantee,
    /// `transactionalIdPrefix`: what the transactional id and the consumer group of the sink begin with; `weir` unless set.
    /// Query id and sink id follow.
    pub transactional_id_prefix: String,
    /// `lostMarker`: `fail`, `write` or `discard`.
    pub lost_marker: LostMarker,
    /// `oversizedMessages`: `fail` or `drop`.
    pub oversized_messages: OversizedMessages,
}

impl KafkaSinkConfig {
    /// A sink of this client with the defaults.
    pub fn new(client: ClientSettings) -> Self {
        Self {
            client,
            topic: None,
            include_headers: true,
            delivery: DeliveryGuarantee::default(),
            transactional_id_prefix: "weir".to_owned(),
            lost_marker: LostMarker::default(),
            oversized_messages: OversizedMessages::default(),
        }
    }

    /// A sink as a stream writer describes it, options by name in any letter case.
    ///
    /// # Errors
    /// If an option is unknown or its value not allowed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let (client, others) = ClientSettings::from_options(Role::Sink, options)?;
        let options = Options::new(OWNER, SINK_OPTIONS, &others)?;
        let mut config = Self::new(client);
        config.topic = options.text("topic").map(|topic| topic.trim().to_owned());
        if let Some(include) = options.parse_with("includeHeaders", "true, false", boolean)? {
            config.include_headers = include;
        }
        if let Some(delivery) =
            options.parse_with("deliveryGuarantee", "exactly-once, at-least-once", delivery)?
        {
            config.delivery = delivery;
        }
        if let Some(policy) =
            options.parse_with("lostMarker", "fail, write, discard", lost_marker)?
        {
            config.lost_marker = policy;
        }
        if let Some(policy) = options.parse_with("oversizedMessages", "fail, drop", oversized)? {
            config.oversized_messages = policy;
        }
        if let Some(prefix) = options.text("transactionalIdPrefix") {
            config.transactional_id_prefix = prefix.trim().to_owned();
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks what types cannot.
    ///
    /// # Errors
    /// Names the option and what is allowed.
    pub fn validate(&self) -> Result<()> {
        if let Some(topic) = self.topic.as_deref().filter(|topic| !is_topic_name(topic)) {
            let allowed = "up to 249 letters (A to Z), digits, dots, dashes and underscores";
            return Err(WeirError::invalid_option("topic", topic, allowed));
        }
        if self.transactional_id_prefix.is_empty() {
            return Err(WeirError::invalid_option(
                "transactionalIdPrefix",
                "",
                "a text that is not empty",
            ));
        }
        let refused = |name: &str, why: &str| {
            WeirError::config(format!(
                "the option 'kafka.{name}' is not supported by {OWNER}: {why}"
            ))
        };
        if self.client.get("transactional.id").is_some() {
            let why = "the sink makes its transactional id of the option 'transactionalIdPrefix', the query and the sink";
            return Err(refused("transactional.id", why));
        }
        if self.delivery == DeliveryGuarantee::AtLeastOnce {
            return Ok(());
        }
        if self.client.get("enable.idempotence").is_some_and(is_off) {
            return Err(refused(
                "enable.idempotence",
                "exactly-once needs it; remove the option or set 'deliveryGuarantee' to at-least-once",
            ));
        }
        let acks = self
            .client
            .get("acks")
            .or(self.client.get("request.required.acks"));
        match acks {
            None | Some("all" | "-1") => Ok(()),
            Some(acks) => Err(refused(
                &format!("acks={acks}"),
                "exactly-once needs the acknowledgement of all replicas; remove the option or set 'deliveryGuarantee' to at-least-once",
            )),
        }
    }

    /// How long a transaction may take before the broker ends it.
    pub fn transaction_timeout(&self) -> Duration {
        let given = self.client.get("transaction.timeout.ms");
        given
            .and_then(|ms| ms.trim().parse().ok())
            .map_or(TRANSACTION_TIMEOUT, Duration::from_millis)
    }

    /// The limit on the size of a message the user has set, in bytes.
    pub(super) fn message_limit(&self) -> Option<usize> {
        self.client.get("message.max.bytes")?.trim().parse().ok()
    }

    /// What the user's settings promise.
    pub(super) fn promises(&self) -> Delivery {
        match self.delivery {
            DeliveryGuarantee::ExactlyOnce => Delivery::ExactlyOnce,
            DeliveryGuarantee::AtLeastOnce => Delivery::AtLeastOnce,
        }
    }

    /// Settings of the producer. `limit` is the smallest limit on a batch of messages that is known, in bytes.
    pub(super) fn producer(
        &self,
        transactional_id: Option<&str>,
        limit: Option<usize>,
    ) -> ClientSettings {
        // The client library does not split a batch the broker finds too large.
        let batch = limit.unwrap_or(super::size::DEFAULT_LIMIT).min(1_000_000);
        let largest = limit.unwrap_or(0) as u64 / 1024;
        let settings = self
            .client
            .clone()
            // Sizes are checked by the sink, with the limit of the topic.
            .with("message.max.bytes", "1000000000")
            .or("batch.size", batch.to_string())
            .or(
                "queue.buffering.max.kbytes",
                QUEUE_KBYTES.max(2 * largest).to_string(),
            )
            // Keys go to the partitions where the Java client, and so Spark, puts them.
            .or("partitioner", "murmur2_random");
        let settings = match self.client.get("queue.buffering.max.ms") {
            None => settings.or("linger.ms", LINGER_MS),
            Some(_) => settings,
        };
        let settings = match self
            .client
            .get("acks")
            .or(self.client.get("request.required.acks"))
        {
            None => settings.or("enable.idempotence", "true"),
            Some(_) => settings,
        };
        match transactional_id {
            None => settings,
            Some(id) => settings.with("transactional.id", id).with(
                "transaction.timeout.ms",
                self.transaction_timeout().as_millis().to_string(),
            ),
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

fn is_off(text: &str) -> bool {
    matches!(
        text.trim().to_ascii_lowercase().as_str(),
        "false" | "f" | "0"
    )
}

fn delivery(text: &str) -> Option<DeliveryGuarantee> {
    match text.to_ascii_lowercase().replace('_', "-").as_str() {
        "exactly-once" => Some(DeliveryGuarantee::ExactlyOnce),
        "at-least-once" => Some(DeliveryGuarantee::AtLeastOnce),
        _ => None,
    }
}

fn lost_marker(text: &str) -> Option<LostMarker> {
    match text.to_ascii_lowercase().as_str() {
        "fail" => Some(LostMarker::Fail),
        "write" => Some(LostMarker::Write),
        "discard" => Some(LostMarker::Discard),
        _ => None,
    }
}

fn oversized(text: &str) -> Option<OversizedMessages> {
    match text.to_ascii_lowercase().as_str() {
        "fail" => Some(OversizedMessages::Fail),
        "drop" => Some(OversizedMessages::Drop),
        _ => None,
    }
}
