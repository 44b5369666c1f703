//! What a Kafka source is told: which topics, from where to where, how much at a time. From option text or from the builder.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use weir_runtime::{Result, WeirError};

use super::offsets::{Offsets, TopicPartition};
use super::options::SOURCE_OPTIONS;
use crate::kafka::client::{ClientSettings, Role};
use crate::options::{Options, duration};

/// Who complains.
pub(super) const OWNER: &str = "source 'kafka'";
/// Offsets an epoch takes at most, unless told otherwise: a first epoch over a full topic must not last for hours.
pub const DEFAULT_MAX_OFFSETS: u64 = 1_000_000;
/// Stands for the end of a partition in offset JSON.
pub(crate) const LATEST: i64 = -1;
/// Stands for the beginning of a partition in offset JSON.
pub(crate) const EARLIEST: i64 = -2;

const BATCH_ONLY: [&str; 3] = [
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
];
const STREAM_ONLY: [&str; 3] = [
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
];

/// Which partitions are read.
#[derive(Debug, Clone)]
pub enum Subscription {
    /// Every partition of these topics, which must exist.
    Topics(BTreeSet<String>),
    /// Every partition of the topics whose whole name matches; topics created later are found.
    Pattern(TopicPattern),
    /// These partitions.
    Partitions(BTreeSet<TopicPartition>),
}

/// A regular expression for whole names of topics. The brokers' internal topics never match.
#[derive(Debug, Clone)]
pub struct TopicPattern {
    text: String,
    whole: Regex,
}

impl TopicPattern {
    fn new(text: &str) -> std::result::Result<Self, regex::Error> {
        // Alone first: the brackets must not mend what is broken.
        Regex::new(text)?;
        Ok(Self {
            text: text.to_owned(),
            whole: Regex::new(&format!("^(?:{text})$"))?,
        })
    }

    pub(crate) fn matches(&self, topic: &str) -> bool {
        const INTERNAL: [&str; 4] = [
            "__consumer_offsets",
            "__transaction_state",
            "__share_group_state",
            "__cluster_metadata",
        ];
        !INTERNAL.contains(&topic) && self.whole.is_match(topic)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where reading begins, or ends: the same choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    Earliest,
    Latest,
    /// By partition, each a number, [`LATEST`] or [`EARLIEST`].
    Offsets(Offsets),
    /// The first record of each partition at or after this time, unix milliseconds.
    Timestamp(i64),
    /// The same with a time for each partition.
    Timestamps(Offsets),
}

/// Everything a Kafka source is told. The names of Spark's options stand at the fields.
#[derive(Debug, Clone)]
pub struct KafkaSourceConfig {
    pub(crate) client: ClientSettings,
    /// `subscribe`, `subscribePattern` or `assign`.
    pub(crate) subscription: Subscription,
    /// `startingTimestamp`, `startingOffsetsByTimestamp` or `startingOffsets`: where a new query begins.
    pub(crate) starting: Position,
    /// The user chose where to begin.
    pub(crate) starting_given: bool,
    /// `startingOffsetsByTimestampStrategy`: a partition without a record that new begins at its end; else it is an error.
    pub(crate) latest_if_no_timestamp: bool,
    /// Where a batch read ends; a stream has no end.
    pub(crate) ending: Position,
    /// `failOnDataLoss`: records that are gone are an error; else a warning and a count.
    pub(crate) fail_on_data_loss: bool,
    /// `kafkaConsumer.pollTimeoutMs`: patience of readers, and of planning, with brokers that do not answer.
    pub(crate) poll_timeout: Duration,
    /// `fetchOffset.numRetries`: further attempts to ask for offsets.
    pub(crate) num_retries: u32,
    /// `fetchOffset.retryIntervalMs`: wait between the attempts.
    pub(crate) retry_interval: Duration,
    /// `maxOffsetsPerTrigger`; `None` is no limit.
    pub(crate) max_offsets: Option<u64>,
    /// `minOffsetsPerTrigger`.
    pub(crate) min_offsets: Option<u64>,
    /// `maxTriggerDelay`.
    pub(crate) max_trigger_delay: Duration,
    /// `minPartitions`.
    pub(crate) min_partitions: Option<u64>,
    /// `maxRecordsPerPartition`.
    pub(crate) max_records: Option<u64>,
    /// `groupIdPrefix`.
    pub(crate) group_id_prefix: String,
    /// `includeHeaders`.
    pub(crate) include_headers: bool,
}

impl KafkaSourceConfig {
    pub(super) fn new(client: ClientSettings, subscription: Subscription) -> Self {
        Self {
            client,
            subscription,
            starting: Position::Latest,
            starting_given: false,
            latest_if_no_timestamp: false,
            ending: Position::Latest,
            fail_on_data_loss: true,
            poll_timeout: Duration::from_secs(120),
            num_retries: 3,
            retry_interval: Duration::from_millis(10),
            max_offsets: Some(DEFAULT_MAX_OFFSETS),
            min_offsets: None,
            max_trigger_delay: Duration::from_secs(15 * 60),
            min_partitions: None,
            max_records: None,
            group_id_prefix: "spark-kafka-source".to_owned(),
            include_headers: false,
        }
    }

    /// A stream as Spark's options describe it; names in any letter case, `kafka.*` for the client.
    ///
    /// `maxOffsetsPerTrigger` is 1,000,000 unless given, not endless as in Spark; `unlimited` takes everything there is.
    ///
    /// # Errors
    /// An unknown option or one of batch reads, a value that is not allowed, none or two of `subscribe`, `subscribePattern` and
    /// `assign`, or client properties that are refused.
    pub fn stream(options: &BTreeMap<String, String>) -> Result<Self> {
        let (client, options) = ClientSettings::from_options(Role::Source, options)?;
        let given = Options::new(OWNER, SOURCE_OPTIONS, &options)?;
        if let Some(name) = BATCH_ONLY.iter().find(|name| given.text(name).is_some()) {
            return Err(WeirError::config(format!(
                "option '{name}' of {OWNER} is not valid for streams, which have no end: leave it out or read the topic as a batch"
            )));
        }
        let mut config = Self::new(client, subscription(&given)?);
        config.read(&given)?;
        Ok(config)
    }

    /// A batch read as Spark's options describe it: from the earliest to the latest offsets unless told otherwise.
    ///
    /// # Errors
    /// As [`KafkaSourceConfig::stream`], but with the options about ends.
    pub fn batch(options: &BTreeMap<String, String>) -> Result<Self> {
        let (client, options) = ClientSettings::from_options(Role::Source, options)?;
        let given = Options::new(OWNER, SOURCE_OPTIONS, &options)?;
        if let Some(name) = STREAM_ONLY.iter().find(|name| given.text(name).is_some()) {
            tracing::warn!("option '{name}' of {OWNER} has no meaning for a batch read");
        }
        let mut config = Self::new(client, subscription(&given)?);
        config.starting = Position::Earliest;
        config.read(&given)?;
        config.max_offsets = None;
        config.min_offsets = None;
        let ending = position(
            &given,
            [
                "endingTimestamp",
                "endingOffsetsByTimestamp",
                "endingOffsets",
            ],
        )?;
        config.ending = ending.unwrap_or(Position::Latest);
        config.check_ending()?;
        Ok(config)
    }

    fn check_ending(&self) -> Result<()> {
        let earliest = match &self.ending {
            Position::Earliest => true,
            Position::Offsets(offsets) => offsets.iter().any(|(_, offset)| offset == EARLIEST),
            _ => false,
        };
        match earliest {
            true => Err(WeirError::config(format!(
                "option 'endingOffsets' of {OWNER} names the earliest offset (-2) as an end, allowed: 'latest' or JSON with offsets or -1"
            ))),
            false => Ok(()),
        }
    }

    fn read(&mut self, given: &Options<'_>) -> Result<()> {
        let starting = position(
            given,
            [
                "startingTimestamp",
                "startingOffsetsByTimestamp",
                "startingOffsets",
            ],
        )?;
        self.starting_given = starting.is_some();
        self.starting = starting.unwrap_or(self.starting.clone());
        let strategy = given.parse_with(
            "startingOffsetsByTimestampStrategy",
            "error, latest",
            |text| match text.to_ascii_lowercase().as_str() {
                "error" => Some(false),
                "latest" => Some(true),
                _ => None,
            },
        )?;
        self.latest_if_no_timestamp = strategy.unwrap_or(false);
        self.fail_on_data_loss = flag(given, "failOnDataLoss")?.unwrap_or(true);
        self.include_headers = flag(given, "includeHeaders")?.unwrap_or(false);
        if let Some(timeout) = milliseconds(given, "kafkaConsumer.pollTimeoutMs")? {
            self.poll_timeout = timeout;
        }
        let retries = given.parse("fetchOffset.numRetries", "a whole number, not negative")?;
        self.num_retries = retries.unwrap_or(self.num_retries);
        if let Some(interval) = milliseconds(given, "fetchOffset.retryIntervalMs")? {
            self.retry_interval = interval;
        }
        if let Some(prefix) = given.text("groupIdPrefix") {
            prefix.clone_into(&mut self.group_id_prefix);
        }
        self.read_limits(given)
    }

    fn read_limits(&mut self, given: &Options<'_>) -> Result<()> {
        let max = given.parse_with(
            "maxOffsetsPerTrigger",
            "a positive whole number, or 'unlimited'",
            |text| match text.eq_ignore_ascii_case("unlimited") {
                true => Some(None),
                false => positive(text).map(Some),
            },
        )?;
        self.max_offsets = max.unwrap_or(self.max_offsets);
        let number = "a positive whole number";
        self.min_offsets = given.parse_with("minOffsetsPerTrigger", number, positive)?;
        self.min_partitions = given.parse_with("minPartitions", number, positive)?;
        self.max_records = given.parse_with("maxRecordsPerPartition", number, positive)?;
        let delay = "a time such as 500ms, 30s, 15m, 2h";
        if let Some(delay) = given.parse_with("maxTriggerDelay", delay, duration)? {
            self.max_trigger_delay = delay;
        }
        self.check_limits()
    }

    pub(super) fn check_limits(&self) -> Result<()> {
        match (self.min_offsets, self.max_offsets) {
            (Some(min), Some(max)) if min > max => Err(WeirError::config(format!(
                "option 'minOffsetsPerTrigger' of {OWNER} is {min}, more than 'maxOffsetsPerTrigger' ({max}): give a lower one, or raise the maximum"
            ))),
            _ => Ok(()),
        }
    }

    /// Spark's name of the source, without anything secret.
    pub(crate) fn description(&self) -> String {
        let what = match &self.subscription {
            Subscription::Topics(topics) => {
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                format!("Subscribe[{}]", topics.join(", "))
            }
            Subscription::Pattern(pattern) => format!("SubscribePattern[{pattern}]"),
            Subscription::Partitions(partitions) => {
                let partitions: Vec<String> = partitions.iter().map(ToString::to_string).collect();
                format!("Assign[{}]", partitions.join(", "))
            }
        };
        format!("KafkaV2[{what}]")
    }
}

/// Exactly one of the three ways to say what to read.
fn subscription(given: &Options<'_>) -> Result<Subscription> {
    let ways = ["assign", "subscribe", "subscribePattern"];
    let mut chosen = ways.iter().filter(|name| given.text(name).is_some());
    let (Some(way), None) = (chosen.next(), chosen.next()) else {
        let count = ways
            .iter()
            .filter(|name| given.text(name).is_some())
            .count();
        return Err(WeirError::config(format!(
            "exactly one of the options {} has to be given to {OWNER}, {count} are",
            ways.map(|name| format!("'{name}'")).join(", ")
        )));
    };
    let text = given.text(way).unwrap_or_default();
    match *way {
        "subscribe" => topics(text),
        "subscribePattern" => pattern(text),
        _ => assign(text),
    }
}

/// A list of topics, separated by commas.
pub(super) fn topics(text: &str) -> Result<Subscription> {
    let topics: BTreeSet<String> = text
        .split(',')
        .map(|topic| topic.trim().to_owned())
        .filter(|topic| !topic.is_empty())
        .collect();
    match topics.is_empty() {
        true => Err(WeirError::invalid_option(
            "subscribe",
            text,
            "names of topics, separated by commas",
        )),
        false => Ok(Subscription::Topics(topics)),
    }
}

/// A pattern for whole names.
pub(super) fn pattern(text: &str) -> Result<Subscription> {
    if text.trim().is_empty() {
        return Err(WeirError::invalid_option(
            "subscribePattern",
            text,
            "a regular expression for names of topics",
        ));
    }
    TopicPattern::new(text)
        .map(Subscription::Pattern)
        .map_err(|error| {
            WeirError::invalid_option(
                "subscribePattern",
                text,
                &format!("a regular expression for names of topics ({error})"),
            )
        })
}

/// JSON of partitions by topic: `{"topic":[0,1]}`.
fn assign(text: &str) -> Result<Subscription> {
    let wrong = || {
        WeirError::invalid_option(
            "assign",
            text,
            "JSON of partitions by topic, such as {\"topicA\":[0,1],\"topicB\":[2]}",
        )
    };
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let mut partitions = BTreeSet::new();
    for (topic, numbers) in value.as_object().ok_or_else(wrong)? {
        for number in numbers.as_array().ok_or_else(wrong)? {
            let number = number
                .as_i64()
                .and_then(|number| i32::try_from(number).ok());
            let number = number.filter(|number| *number >= 0).ok_or_else(wrong)?;
            partitions.insert(TopicPartition::new(topic, number));
        }
    }
    match partitions.is_empty() {
        true => Err(wrong()),
        false => Ok(Subscription::Partitions(partitions)),
    }
}

/// The first that is given of: one time for all, a time for each partition, offsets.
fn position(given: &Options<'_>, names: [&'static str; 3]) -> Result<Option<Position>> {
    let [timestamp, timestamps, offsets] = names;
    let time = "unix milliseconds, not negative";
    if let Some(ms) = given.parse_with(timestamp, time, |text| {
        text.parse().ok().filter(|ms: &i64| *ms >= 0)
    })? {
        return Ok(Some(Position::Timestamp(ms)));
    }
    let times = "JSON of unix milliseconds by topic and partition, such as {\"topic\":{\"0\":1700000000000}}";
    if let Some(times) = given.parse_with(timestamps, times, |text| {
        offset_map(text).filter(|map| map.iter().all(|(_, ms)| ms >= 0))
    })? {
        return Ok(Some(Position::Timestamps(times)));
    }
    let allowed = "'earliest', 'latest', or JSON of offsets by topic and partition, such as {\"topic\":{\"0\":23,\"1\":-2}} with -2 for \
                   the earliest and -1 for the latest";
    given.parse_with(offsets, allowed, |text| {
        match text.to_ascii_lowercase().as_str() {
            "earliest" => Some(Position::Earliest),
            "latest" => Some(Position::Latest),
            _ => offset_map(text)
                .filter(|map| map.iter().all(|(_, offset)| offset >= EARLIEST))
                .map(Position::Offsets),
        }
    })
}

fn offset_map(text: &str) -> Option<Offsets> {
    let map = Offsets::from_json(&serde_json::from_str(text).ok()?)?;
    (!map.is_empty()).then_some(map)
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn flag(given: &Options<'_>, name: &'static str) -> Result<Option<bool>> {
    given.parse_with(name, "true, false", |text| {
        text.to_ascii_lowercase().parse().ok()
    })
}

fn milliseconds(given: &Options<'_>, name: &'static str) -> Result<Option<Duration>> {
    let ms: Option<u64> = given.parse(name, "milliseconds, not negative")?;
    Ok(ms.map(Duration::from_millis))
}
