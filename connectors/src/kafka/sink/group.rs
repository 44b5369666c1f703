//! The consumer group that remembers the newest epoch the target holds ([`Marker`]): reading it, and the offset to commit.
//!
//! The offset belongs to partition 0 of one of the topics the sink writes to, because brokers keep offsets of existing topics only.
//! Which topic that is the group itself tells: all topics of the cluster are looked up in it when a generation starts.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};
use uuid::Uuid;
use weir_runtime::{Epoch, Result, WeirError};

use super::marker::Marker;
use crate::kafka::client::{ClientSettings, Context, client_error};

/// Names of the cluster's own topics begin with this; users' may not be marked in them.
const INTERNAL: &str = "__";

/// Time between two questions to a group that is on its way to another broker.
const COORDINATOR_WAIT: Duration = Duration::from_millis(100);

/// The group of one sink of one query.
pub(super) struct Group {
    name: String,
    query: Uuid,
    sink: String,
    metadata: ConsumerGroupMetadata,
}

/// A marker and the topic it was found at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) marker: Marker,
    pub(super) topic: String,
}

impl Group {
    /// Looks the group up. Blocks.
    ///
    /// # Errors
    /// If the cluster does not answer, or somebody else uses the group.
    pub(super) fn open(
        settings: &ClientSettings,
        name: String,
        query: Uuid,
        sink: &str,
        patience: Duration,
    ) -> Result<(Self, Option<Found>)> {
        let settings = settings
            .clone()
            .with("group.id", &name)
            .with("enable.auto.commit", "false")
            .with("isolation.level", "read_committed");
        let context = settings.context();
        let what = || format!("cannot read what consumer group '{name}' remembers");
        let failed = |error: KafkaError| client_error(&what(), &error, Some(&context));
        let consumer: BaseConsumer<Context> = settings
            .client_config()
            .create_with_context(context.clone())
            .map_err(failed)?;
        let metadata = consumer
            .group_metadata()
            .ok_or_else(|| WeirError::internal(what()))?;
        let group = Self {
            query,
            sink: sink.to_owned(),
            metadata,
            name: name.clone(),
        };
        let topics = topics(&consumer, patience).map_err(failed)?;
        if topics.count() == 0 {
            return Ok((group, None));
        }
        let committed = committed(&consumer, &topics, patience).map_err(failed)?;
        let found = group.newest(&committed)?;
        Ok((group, found))
    }

    fn newest(&self, committed: &TopicPartitionList) -> Result<Option<Found>> {
        let mut newest: Option<Found> = None;
        for element in committed.elements() {
            let Offset::Offset(offset) = element.offset() else {
                continue;
            };
            let marker = Marker::parse(
                &self.name,
                offset,
                element.metadata(),
                self.query,
                &self.sink,
            )?;
            if newest
                .as_ref()
                .is_none_or(|newest| newest.marker.epoch < marker.epoch)
            {
                newest = Some(Found {
                    marker,
                    topic: element.topic().to_owned(),
                });
            }
        }
        Ok(newest)
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What goes with offsets that are committed to it.
    pub(super) fn metadata(&self) -> &ConsumerGroupMetadata {
        &self.metadata
    }

    /// The offset that says that the target holds `epoch`.
    ///
    /// # Errors
    /// If the client library refuses the topic's name.
    pub(super) fn offset(&self, epoch: Epoch, topic: &str) -> Result<TopicPartitionList> {
        let marker = Marker {
            query: self.query.to_string(),
            sink: self.sink.clone(),
            epoch,
        };
        let mut offsets = TopicPartitionList::new();
        let mut element = offsets.add_partition(topic, 0);
        element.set_metadata(marker.metadata()?);
        element
            .set_offset(Offset::Offset(marker.offset()))
            .map_err(|error| client_error("cannot mark an epoch", &error, None))?;
        Ok(offsets)
    }
}

/// What the group has committed for these partitions. Asks again while the group is on its way to another broker.
fn committed(
    consumer: &BaseConsumer<Context>,
    partitions: &TopicPartitionList,
    patience: Duration,
) -> KafkaResult<TopicPartitionList> {
    let ask = || {
        let committed = consumer.committed_offsets(partitions.clone(), patience)?;
        for element in committed.elements() {
            element.error()?;
        }
        Ok(committed)
    };
    let mut waited = Duration::ZERO;
    loop {
        match ask() {
            Err(error) if waited < patience && is_moving(&error) => {
                std::thread::sleep(COORDINATOR_WAIT);
                waited += COORDINATOR_WAIT;
            }
            answer => return answer,
        }
    }
}

fn is_moving(error: &KafkaError) -> bool {
    let moving = [
        Code::NotCoordinator,
        Code::CoordinatorNotAvailable,
        Code::CoordinatorLoadInProgress,
        Code::WaitingForCoordinator,
    ];
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| moving.contains(&code))
}

/// Partition 0 of every topic the user may see.
fn topics(consumer: &BaseConsumer<Context>, patience: Duration) -> KafkaResult<TopicPartitionList> {
    let metadata = consumer.fetch_metadata(None, patience)?;
    let mut topics = TopicPartitionList::new();
    for topic in metadata.topics() {
        // Also those without a leader at the moment: a marker that is overlooked would double an epoch.
        if !topic.name().starts_with(INTERNAL) {
            topics.add_partition(topic.name(), 0);
        }
    }
    Ok(topics)
}
