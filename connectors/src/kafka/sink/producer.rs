//! The producer of a sink: a librdkafka producer with a thread that takes its delivery reports, and who waits for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message as _;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use tokio::sync::Notify;
use weir_runtime::{Result, WeirError};

use super::connection::{PATIENCE, run_blocking};
use super::errors;
use crate::kafka::client::{ClientSettings, Context, client_error};

/// A message on its way into the producer.
pub(super) type Record<'a> = BaseRecord<'a, [u8], [u8], Arc<Deliveries>>;

/// Wait before a full queue is tried again. The queue empties by whole requests, so waking up for each message would not help.
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(1);

/// Looks for a topic that is being made, and the time between two.
const TOPIC_ATTEMPTS: u32 = 20;
const TOPIC_WAIT: Duration = Duration::from_millis(100);

/// Longest wait for one leader of a partition.
const LEADER_PATIENCE: Duration = Duration::from_secs(1);

/// Looks for the report that says why a transaction has failed, and the time between two.
const CAUSE_ATTEMPTS: u32 = 100;
const CAUSE_WAIT: Duration = Duration::from_millis(10);

/// Messages of one writer that have been handed over and not been reported on.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    pending: AtomicU64,
    settled: Notify,
}

impl Deliveries {
    fn settle_one(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.settled.notify_one();
        }
    }
}

/// Takes delivery reports. The first failure of a generation is kept: it is the cause of what follows.
///
/// An idempotent producer takes a message for written when one behind it was. Brokers that know nothing of the producer yet accept
/// that one also where the message before was refused, as while they take over a partition: it would be lost and reported as
/// delivered. Such a report has no offset, and counts as a failure.
pub(super) struct Reports {
    client: Context,
    /// The broker says at which offset it has put a message.
    expects_offsets: bool,
    failure: OnceLock<WeirError>,
}

impl Reports {
    fn fail(&self, failure: impl FnOnce() -> WeirError) {
        if self.failure.get().is_none() {
            let _first = self.failure.set(failure()).is_ok();
        }
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.client.log(level, facility, line);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.client.stats_raw(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.client.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Arc<Deliveries>;

    fn delivery(&self, result: &DeliveryResult<'_>, deliveries: Arc<Deliveries>) {
        match result {
            Ok(message) if self.expects_offsets && message.offset() < 0 => self
                .fail(|| errors::unconfirmed(message.topic(), message.partition(), message.key())),
            Ok(_) => {}
            // What was withdrawn is a consequence of something else.
            Err((error, _))
                if matches!(
                    error.rdkafka_error_code(),
                    Some(Code::PurgeQueue | Code::PurgeInflight)
                ) =>
            {
                let why =
                    "messages were withdrawn before they were delivered: the transaction failed";
                self.fail(|| WeirError::external(why));
            }
            Err((error, message)) => self.fail(|| {
                errors::undelivered(
                    error,
                    message.topic(),
                    message.partition(),
                    message.key(),
                    message.key_len() + message.payload_len(),
                    &self.client,
                )
            }),
        }
        deliveries.settle_one();
    }
}

/// The producer of one generation; clones are the same one.
#[derive(Clone)]
pub(super) struct Producer {
    inner: ThreadedProducer<Reports>,
    context: Context,
    /// Bytes of values that the queue takes.
    queue_bytes: usize,
}

impl Producer {
    /// A producer of these settings. Nothing is sent yet.
    ///
    /// # Errors
    /// If the client library refuses the settings.
    pub(super) fn new(settings: &ClientSettings) -> Result<Self> {
        let context = settings.context();
        let reports = Reports {
            client: context.clone(),
            expects_offsets: is_idempotent(settings),
            failure: OnceLock::new(),
        };
        let inner = settings
            .client_config()
            .create_with_context(reports)
            .map_err(|error| {
                client_error("cannot make a Kafka producer", &error, Some(&context))
            })?;
        let kbytes = settings.get("queue.buffering.max.kbytes");
        let kbytes = kbytes.and_then(|text| text.trim().parse::<usize>().ok());
        Ok(Self {
            inner,
            context,
            queue_bytes: kbytes.map_or(usize::MAX, |kbytes| kbytes.saturating_mul(1024)),
        })
    }

    /// The client library's producer.
    pub(super) fn inner(&self) -> &ThreadedProducer<Reports> {
        &self.inner
    }

    /// What the client reports.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Why nothing can be delivered any more: a fatal error, or the first message that was not delivered.
    pub(super) fn failure(&self) -> Option<WeirError> {
        self.inner.context().failure.get().cloned()
    }

    /// Checks that a topic is there and waits until it can be written to; asking for it makes the broker create it where brokers do.
    /// Blocks.
    ///
    /// # Errors
    /// If it is not there, or the cluster does not answer.
    pub(super) fn check_topic(&self, topic: &str, patience: Duration) -> Result<()> {
        let what = || format!("cannot look up topic '{topic}'");
        let failed = |error: KafkaError| client_error(&what(), &error, Some(&self.context));
        for attempt in 1.. {
            let metadata = self.inner.client().fetch_metadata(Some(topic), patience);
            let metadata = metadata.map_err(failed)?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            let error = match found {
                Some(found) => found.error().map(Code::from),
                None => Some(Code::UnknownTopicOrPartition),
            };
            match (error, found) {
                (None, Some(found)) => {
                    self.wait_for_leaders(topic, found.partitions().len());
                    return Ok(());
                }
                // A topic that is being made takes a moment to be there.
                (Some(Code::UnknownTopicOrPartition | Code::LeaderNotAvailable), _)
                    if attempt < TOPIC_ATTEMPTS =>
                {
                    std::thread::sleep(TOPIC_WAIT);
                }
                (None | Some(Code::UnknownTopicOrPartition), _) => {
                    return Err(WeirError::config(format!(
                        "topic '{topic}' does not exist, and the broker does not make it"
                    )));
                }
                (Some(code), _) => return Err(failed(KafkaError::MetadataFetch(code))),
            }
        }
        Ok(())
    }

    /// Waits a little until brokers that have just become leaders of the topic's partitions know it themselves: they tell clients a
    /// moment before, and until then refuse what is written, which an epoch would have to be written again for.
    fn wait_for_leaders(&self, topic: &str, partitions: usize) {
        let client = self.inner.client();
        for partition in (0..).take(partitions) {
            for _ in 0..TOPIC_ATTEMPTS {
                let bounds = client.fetch_watermarks(topic, partition, LEADER_PATIENCE);
                match bounds.map_err(|error| error.rdkafka_error_code()) {
                    Err(Some(Code::NotLeaderForPartition | Code::UnknownTopicOrPartition)) => {
                        std::thread::sleep(TOPIC_WAIT / 4);
                    }
                    Ok(_) => break,
                    // Whatever it is, writing will tell.
                    Err(_) => return,
                }
            }
        }
    }

    /// Hands a message over; waits while the queue is full, which holds back whoever sends to the sink. For a partition the client has
    /// not heard of the cluster is asked: topics grow while queries run.
    ///
    /// # Errors
    /// If the client library refuses the message, or an earlier one was not delivered.
    pub(super) async fn send(&self, mut record: Record<'_>) -> Result<()> {
        if record.payload.map_or(0, <[u8]>::len) > self.queue_bytes {
            return Err(errors::larger_than_queue(record.topic, record.key));
        }
        let mut has_asked = false;
        loop {
            record
                .delivery_opaque
                .pending
                .fetch_add(1, Ordering::AcqRel);
            let Err((error, back)) = self.inner.send(record) else {
                return Ok(());
            };
            back.delivery_opaque.settle_one();
            let code = error.rdkafka_error_code();
            if code == Some(Code::State) {
                // The transaction has failed; what failed it is told by a report that may still be under way.
                self.cause().await;
            }
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            match code {
                Some(Code::QueueFull) => tokio::time::sleep(FULL_QUEUE_WAIT).await,
                Some(Code::UnknownPartition) if !has_asked => {
                    has_asked = true;
                    self.ask_for(back.topic).await?;
                }
                _ => return Err(self.refused(&error, &back)),
            }
            record = back;
        }
    }

    /// Asks the cluster for the partitions of a topic anew.
    async fn ask_for(&self, topic: &str) -> Result<()> {
        let (producer, topic) = (self.clone(), topic.to_owned());
        run_blocking(move || producer.check_topic(&topic, PATIENCE)).await
    }

    fn refused(&self, error: &KafkaError, record: &Record<'_>) -> WeirError {
        let bytes = record.key.map_or(0, <[u8]>::len) + record.payload.map_or(0, <[u8]>::len);
        errors::undelivered(
            error,
            record.topic,
            record.partition.unwrap_or(-1),
            record.key,
            bytes,
            &self.context,
        )
    }

    /// Waits a little for the first failure.
    async fn cause(&self) {
        for _ in 0..CAUSE_ATTEMPTS {
            if self.failure().is_some() {
                return;
            }
            tokio::time::sleep(CAUSE_WAIT).await;
        }
    }

    /// Waits until every message of a writer has been reported on.
    ///
    /// # Errors
    /// If one of them, or one of another writer, was not delivered.
    pub(super) async fn settled(&self, deliveries: &Deliveries) -> Result<()> {
        loop {
            let settled = deliveries.settled.notified();
            if deliveries.pending.load(Ordering::Acquire) == 0 {
                break;
            }
            settled.await;
        }
        self.failure().map_or(Ok(()), Err)
    }
}

fn is_idempotent(settings: &ClientSettings) -> bool {
    let is_on = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        matches!(text.as_str(), "true" | "t" | "1")
    };
    settings.get("transactional.id").is_some()
        || settings.get("enable.idempotence").is_some_and(is_on)
}
