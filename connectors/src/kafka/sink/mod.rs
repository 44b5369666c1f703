//! The Kafka sink: each row becomes a message.
//!
//! # Columns
//!
//! | column | type | meaning |
//! | --- | --- | --- |
//! | `key` | STRING or BINARY | optional; null or absent: no key |
//! | `value` | STRING or BINARY | required; null is a real null (a tombstone), which an empty value is not |
//! | `headers` | ARRAY<STRUCT<key: STRING, value: BINARY>> | optional; order, repeated names and null values are kept |
//! | `topic` | STRING | where the row goes, unless option `topic` says so for all rows |
//! | `partition` | INT | optional; null leaves it to the partitioner (Java's: murmur2 of the key) |
//!
//! Other columns are refused.
//!
//! # Output modes
//!
//! In mode append the new rows are written, in mode update the new and the changed rows with their new values, in mode complete the
//! whole result each epoch. A row of the result that is gone (those of a top-N can be) becomes a tombstone: its key, topic, partition
//! and headers with a null value; a row without a key cannot be taken back, and fails. Old values of changed rows are not written, so
//! let `key` be what tells the rows of the result apart.
//!
//! # Exactly-once
//!
//! The default. All subtasks write through one transactional producer, and an epoch is one transaction: begun by its first row,
//! flushed when its writers prepare, committed before the manifest. In the same transaction the epoch is committed as an offset of
//! a consumer group of the sink's own, so that the target itself knows which epochs it holds. A generation that starts fences
//! those before it, waits until their transactions have ended, and reads what the target holds: rows of an epoch it holds are
//! discarded when they come again. Consumers see rows once if they read with `isolation.level=read_committed`.
//!
//! An epoch has `kafka.transaction.timeout.ms` (15 minutes unless set) from its first row to its commit.
//!
//! # At least once
//!
//! With `deliveryGuarantee` `at-least-once` rows are visible as they are written, and an epoch is committed when the broker has
//! acknowledged all of them. After a crash the rows of the unfinished epoch come again, the same rows under the same number.

mod builder;
mod columns;
mod committer;
mod config;
mod connection;
mod errors;
mod group;
mod limits;
mod marker;
mod options;
mod producer;
mod size;
#[cfg(test)]
mod tests;
mod transaction;
mod writer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use weir_runtime::{
    Delivery, Fingerprint, OutputMode, Result, Sink, SinkCommitter, SinkContext, SinkWriter,
    WeirError,
};

pub use builder::KafkaSinkBuilder;
pub use committer::KafkaSinkCommitter;
pub use config::{DeliveryGuarantee, KafkaSinkConfig, LostMarker, OversizedMessages};
pub use options::SINK_OPTIONS;
pub use writer::KafkaSinkWriter;

use columns::Layout;
use connection::Connection;

/// Messages in topics, exactly once or at least once.
pub struct KafkaSink {
    config: Arc<KafkaSinkConfig>,
    slot: Slot,
}

/// Where writers and committer of a generation find its connection; the committer clears it when the generation ends.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<Arc<Connection>>>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Result<Arc<Connection>> {
        self.lock()
            .clone()
            .ok_or_else(|| WeirError::internal("the Kafka sink was not opened"))
    }

    /// The generation of this connection has ended.
    fn clear(&self, connection: &Arc<Connection>) {
        let mut slot = self.lock();
        if slot
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, connection))
        {
            *slot = None;
        }
    }
}

impl KafkaSink {
    /// A sink of what the config says. The cluster is asked when a query starts.
    ///
    /// # Errors
    /// If a setting is not allowed.
    pub fn new(config: KafkaSinkConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            config: Arc::new(config),
            slot: Slot::default(),
        })
    }

    /// A builder of a sink into the cluster these servers (`host:port`, separated by commas) belong to.
    pub fn builder(bootstrap_servers: impl Into<String>) -> KafkaSinkBuilder {
        KafkaSinkBuilder::new(bootstrap_servers)
    }

    /// What the sink was told.
    pub fn config(&self) -> &KafkaSinkConfig {
        &self.config
    }

    fn layout(&self, context: &SinkContext) -> Result<Layout> {
        Layout::of(
            &context.schema,
            self.config.topic.is_some(),
            self.config.include_headers,
        )
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn description(&self) -> String {
        match &self.config.topic {
            Some(topic) => format!("KafkaSink[{topic}]"),
            None => "KafkaSink[topics of the rows]".to_owned(),
        }
    }

    fn delivery(&self) -> Delivery {
        self.config.promises()
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn hides_until_commit(&self) -> bool {
        self.config.promises() == Delivery::ExactlyOnce
    }

    fn fingerprint(&self) -> Fingerprint {
        let fingerprint = Fingerprint::stateless("kafka_sink");
        match &self.config.topic {
            Some(topic) => fingerprint.param("topic", topic),
            None => fingerprint,
        }
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.layout(context)?;
        // The generation before lets go of its producer first.
        self.slot.lock().take();
        let (config, context) = (Arc::clone(&self.config), context.clone());
        let open = move || Connection::open(&config, &context);
        let connection = connection::run_blocking(open).await?;
        *self.slot.lock() = Some(Arc::new(connection));
        Ok(())
    }

    fn writer(&self, context: &SinkContext, _subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(KafkaSinkWriter::new(
            Arc::clone(&self.config),
            self.layout(context)?,
            self.slot.get()?,
            Arc::clone(&context.failpoints),
        )))
    }

    fn committer(&self, _context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        Ok(Box::new(KafkaSinkCommitter::new(
            self.slot.get()?,
            self.slot.clone(),
        )))
    }
}
