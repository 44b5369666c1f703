//! Sends the rows of one subtask as messages, and waits at the end of an epoch until the broker has them all.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use weir_runtime::{
    Committable, Epoch, EpochBatch, FailPoints, Origin, Result, RowKind, SinkWriter, WeirError,
};

use super::columns::{Layout, Message, Messages, is_topic_name, shown_key};
use super::config::{KafkaSinkConfig, OversizedMessages};
use super::connection::Connection;
use super::producer::{Deliveries, Record};
use super::size::batch_bytes;

/// Writes the messages of one subtask.
pub struct KafkaSinkWriter {
    config: Arc<KafkaSinkConfig>,
    layout: Layout,
    connection: Arc<Connection>,
    deliveries: Arc<Deliveries>,
    failpoints: Arc<FailPoints>,
    /// Largest message of the topic written to last.
    limit: Option<(String, Option<usize>)>,
    counts: Counts,
}

/// What was done in the open epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    messages: u64,
    tombstones: u64,
    dropped: u64,
    discarded: u64,
}

impl KafkaSinkWriter {
    pub(super) fn new(
        config: Arc<KafkaSinkConfig>,
        layout: Layout,
        connection: Arc<Connection>,
        failpoints: Arc<FailPoints>,
    ) -> Self {
        Self {
            config,
            layout,
            connection,
            deliveries: Arc::default(),
            failpoints,
            limit: None,
            counts: Counts::default(),
        }
    }

    /// Sends one row.
    async fn send(&mut self, message: Message<'_>, kind: RowKind) -> Result<()> {
        if !self.fits(&message).await? {
            self.counts.dropped += 1;
            return Ok(());
        }
        let record = Record {
            topic: message.topic,
            partition: message.partition,
            payload: message.value,
            key: message.key,
            timestamp: None,
            headers: message.headers,
            delivery_opaque: Arc::clone(&self.deliveries),
        };
        let sent = self.connection.producer().send(record).await;
        sent.map_err(|error| self.connection.explain(error))?;
        self.counts.messages += 1;
        if kind == RowKind::Delete {
            self.counts.tombstones += 1;
        }
        Ok(())
    }

    /// False for a message that is left out because it is too large.
    async fn fits(&mut self, message: &Message<'_>) -> Result<bool> {
        let Some(limit) = self.limit(message.topic).await? else {
            return Ok(true);
        };
        let bytes = batch_bytes(message.key, message.value, message.header_bytes);
        if bytes <= limit {
            return Ok(true);
        }
        match self.config.oversized_messages {
            OversizedMessages::Drop => Ok(false),
            OversizedMessages::Fail => Err(WeirError::data(format!(
                "a message for topic '{}', key {}, has {bytes} bytes, the topic allows {limit} ('max.message.bytes'); raise the limit \
                 of the topic, set 'kafka.message.max.bytes' if compression makes it small enough, or set option 'oversizedMessages' to \
                 'drop'",
                message.topic,
                shown_key(message.key)
            ))),
        }
    }

    async fn limit(&mut self, topic: &str) -> Result<Option<usize>> {
        if let Some((known, limit)) = &self.limit
            && known == topic
        {
            return Ok(*limit);
        }
        if !is_topic_name(topic) {
            return Err(WeirError::data(format!(
                "the column 'topic' is '{}', which is no name of a topic, allowed: up to 249 letters (A to Z), digits, dots, dashes and \
                 underscores",
                topic.escape_debug()
            )));
        }
        let limit = self.connection.limit(topic).await?;
        self.limit = Some((topic.to_owned(), limit));
        Ok(limit)
    }
}

/// What a row of this kind says: one that is gone becomes a tombstone for its key.
fn as_change(message: Message<'_>, kind: RowKind) -> Result<Message<'_>> {
    match kind {
        RowKind::Insert | RowKind::UpdateBefore | RowKind::UpdateAfter => Ok(message),
        RowKind::Delete if message.key.is_some() => Ok(Message {
            value: None,
            ..message
        }),
        RowKind::Delete => Err(WeirError::plan(
            "a row of the result is gone, which a topic is told by a message with its key and a null value, but the row has no key: \
             add a column 'key' that tells the rows of the result apart",
        )),
    }
}

fn position(origin: Origin, row: usize) -> String {
    let Origin {
        source,
        split,
        sequence,
        ..
    } = origin;
    format!("row {row} of batch {sequence} of split {split} of source {source}")
}

#[async_trait]
impl SinkWriter for KafkaSinkWriter {
    async fn write(&mut self, batch: EpochBatch) -> Result<()> {
        let (layout, config) = (self.layout, Arc::clone(&self.config));
        if self.connection.holds(batch.epoch) {
            self.counts.discarded += batch.rows.num_rows() as u64;
            return Ok(());
        }
        let messages = Messages::of(&layout, batch.rows.batch())?;
        let mut begun = false;
        for row in 0..batch.rows.num_rows() {
            let kind = batch.rows.kind(row);
            if kind == RowKind::UpdateBefore {
                continue;
            }
            let located = |error: WeirError| error.at_position(position(batch.origin, row));
            let message = messages.get(row, config.topic.as_deref());
            let message = message
                .and_then(|message| as_change(message, kind))
                .map_err(located)?;
            if !begun {
                self.connection.begin(batch.epoch, message.topic)?;
                begun = true;
            }
            self.send(message, kind).await.map_err(located)?;
        }
        Ok(())
    }

    async fn prepare(&mut self, epoch: Epoch) -> Result<Committable> {
        self.failpoints.hit("kafka-sink:flush:before")?;
        let settled = self.connection.producer().settled(&self.deliveries).await;
        settled.map_err(|error| self.connection.explain(error))?;
        self.failpoints.hit("kafka-sink:flush:after")?;
        let Counts {
            messages,
            discarded,
            ..
        } = self.counts;
        if discarded > 0 {
            tracing::debug!(%epoch, discarded, "the target holds the epoch, its rows are discarded");
        }
        Ok(json!({ "messages": messages }))
    }

    fn take_metrics(&mut self) -> Vec<(&'static str, u64)> {
        let counts = std::mem::take(&mut self.counts);
        vec![
            ("messages", counts.messages),
            ("tombstones", counts.tombstones),
            ("droppedMessages", counts.dropped),
        ]
    }
}
