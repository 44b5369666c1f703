//! [`Fetcher`]: one client and the partitions it fetches for one reader.
//!
//! The client is no member of any group: partitions are assigned with exact offsets, and it may not choose others by itself. A
//! partition stays assigned between epochs, so that its next records are fetched while the last ones are worked on; each has a queue
//! of its own, so that one that is not read holds up no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use weir_runtime::{Fault, Result};

use super::offsets::TopicPartition;
use super::queue::{Next, Queue};
use super::rows::Rows;
use super::shared::Shared;
use crate::kafka::client::{ClientSettings, Context, client_error, fault_of};

/// Memory for records fetched ahead, all partitions of a reader together, in kilobytes.
const FETCHED_AHEAD_KB: usize = 64 * 1024;
/// The same for one partition, at least: one fetch.
const PARTITION_AHEAD_KB: usize = 1024;
/// Reports of the client looked at in one go.
const SERVED: usize = 32;
/// Longest single wait for a record; after it, it is seen whether only markers of transactions were left.
const SLICE: Duration = Duration::from_millis(5);

/// Where a partition stands.
struct Assigned {
    queue: Queue,
    /// Everything before it was read or is no record.
    next: i64,
    /// Where the client has seen the partition end last.
    ended: Option<i64>,
}

/// How much is fetched at once.
pub(super) struct Limits {
    /// Rows of a batch.
    pub(super) rows: usize,
    /// Bytes of a batch.
    pub(super) bytes: usize,
    /// Longest wait for the first record.
    pub(super) wait: Duration,
}

/// How reading went on.
pub(super) enum Fetched {
    /// Everything before the end was read.
    Reached,
    /// The rows are many enough.
    Full,
    /// No record at the moment.
    Nothing,
    /// The client reports a problem with the partition.
    Failed(KafkaError),
}

/// One client for the partitions of one reader.
pub(super) struct Fetcher {
    settings: ClientSettings,
    context: Context,
    shared: Arc<Shared>,
    /// Before the client: their queues go first.
    assigned: HashMap<TopicPartition, Assigned>,
    client: Option<Arc<BaseConsumer<Context>>>,
}

impl Fetcher {
    pub(super) fn new(settings: ClientSettings, shared: Arc<Shared>) -> Self {
        Self {
            context: settings.context(),
            settings,
            shared,
            client: None,
            assigned: HashMap::new(),
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Prepares to read a partition from `offset` on; nothing happens if that is where it stands.
    pub(super) fn go_to(&mut self, at: &TopicPartition, offset: i64) -> Result<()> {
        match self.next(at) == Some(offset) {
            true => Ok(()),
            false => self.assign(at, offset),
        }
    }

    /// Fetches a partition from `offset` on, whatever was fetched before.
    pub(super) fn assign(&mut self, at: &TopicPartition, offset: i64) -> Result<()> {
        self.release(at)?;
        let client = self.client()?;
        let failed = |error: &KafkaError| {
            client_error(
                &format!("cannot begin to read {at} at offset {offset}"),
                error,
                Some(&self.context),
            )
        };
        // Before the partition is assigned, so that no record takes the way through the client's common queue.
        let queue = Queue::of(&client, &at.topic, at.partition).ok_or_else(|| {
            failed(&KafkaError::MessageConsumption(
                RDKafkaErrorCode::UnknownPartition,
            ))
        })?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(&at.topic, at.partition, Offset::Offset(offset))
            .and_then(|()| client.incremental_assign(&list))
            .map_err(|error| failed(&error))?;
        let assigned = Assigned {
            queue,
            next: offset,
            ended: None,
        };
        self.assigned.insert(at.clone(), assigned);
        Ok(())
    }

    /// The partition is not fetched any more.
    pub(super) fn release(&mut self, at: &TopicPartition) -> Result<()> {
        if self.assigned.remove(at).is_none() {
            return Ok(());
        }
        let Some(client) = &self.client else {
            return Ok(());
        };
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&at.topic, at.partition);
        client.incremental_unassign(&list).map_err(|error| {
            client_error(
                &format!("cannot stop to read {at}"),
                &error,
                Some(&self.context),
            )
        })
    }

    /// Everything begins anew, with a new client.
    pub(super) fn rebuild(&mut self) {
        self.assigned.clear();
        self.client = None;
        self.context = self.settings.context();
    }

    /// Offset before which everything of the partition was read.
    pub(super) fn next(&self, at: &TopicPartition) -> Option<i64> {
        self.assigned.get(at).map(|assigned| assigned.next)
    }

    /// Where the partition ended when the client has read all of it, if no record has come since.
    pub(super) fn ended(&self, at: &TopicPartition) -> Option<i64> {
        self.assigned.get(at)?.ended
    }

    /// Reads records before `end` into `rows` until a limit is reached or no record is there at the moment.
    pub(super) fn fetch(
        &mut self,
        at: &TopicPartition,
        end: i64,
        rows: &mut Rows,
        limits: &Limits,
    ) -> Result<Fetched> {
        self.serve()?;
        let Some(mut assigned) = self.assigned.remove(at) else {
            return Ok(Fetched::Nothing);
        };
        let mut left = limits.wait;
        let fetched = loop {
            match assigned.drain(end, rows, limits, left.min(SLICE))? {
                Fetched::Nothing => {}
                other => break other,
            }
            if self
                .position(at, assigned.ended)
                .is_some_and(|position| position >= end)
            {
                assigned.next = end;
                break Fetched::Reached;
            }
            left = left.saturating_sub(SLICE);
            if left.is_zero() || !rows.is_empty() {
                break Fetched::Nothing;
            }
        };
        self.assigned.insert(at.clone(), assigned);
        Ok(fetched)
    }

    /// Where the client stands when all records are taken from the queue: beyond them, and beyond markers of transactions, which are
    /// none. It counts a report of the end, taken among records, as if it were one of them.
    fn position(&self, at: &TopicPartition, ended: Option<i64>) -> Option<i64> {
        let positions = self.client.as_ref()?.position().ok()?;
        match positions.find_partition(&at.topic, at.partition)?.offset() {
            Offset::Offset(offset) if ended == Some(offset - 1) => ended,
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Takes what the client reports on its own account. Brokers that are down come back; what stays is an error.
    fn serve(&mut self) -> Result<()> {
        let client = self.client()?;
        for _ in 0..SERVED {
            match client.poll(Duration::ZERO) {
                // Nothing is there, or it was a line of the log: behind it there may be more.
                None => {}
                Some(Ok(message)) => {
                    // It should have come through the queue of its partition: it is fetched again.
                    let at = TopicPartition::new(message.topic(), message.partition());
                    if let Some(assigned) = self.assigned.get_mut(&at) {
                        assigned.next = i64::MIN;
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                    return Err(client_error(
                        "the kafka client gave up",
                        &error,
                        Some(&self.context),
                    ));
                }
                Some(Err(error)) if fault_of(&error) == Fault::Config => {
                    return Err(client_error(
                        "cannot read from kafka",
                        &error,
                        Some(&self.context),
                    ));
                }
                Some(Err(_)) => {}
            }
        }
        Ok(())
    }

    fn client(&mut self) -> Result<Arc<BaseConsumer<Context>>> {
        if let Some(client) = &self.client {
            return Ok(Arc::clone(client));
        }
        let partitions = self.shared.partitions_per_reader();
        let ahead = (FETCHED_AHEAD_KB / partitions).max(PARTITION_AHEAD_KB);
        let settings = self
            .settings
            .clone()
            .or("queued.max.messages.kbytes", ahead.to_string())
            // A queue that is full is looked at again soon: it is emptied fast.
            .or("fetch.queue.backoff.ms", "20")
            .or("fetch.wait.max.ms", "100")
            .or("isolation.level", "read_committed")
            .with("auto.offset.reset", "error")
            .with("enable.auto.commit", "false")
            .with("enable.auto.offset.store", "false")
            .with("enable.partition.eof", "true");
        let client = settings
            .client_config()
            .create_with_context(self.context.clone())
            .map_err(|error| client_error("cannot make a kafka client", &error, None))?;
        let client = Arc::new(client);
        self.client = Some(Arc::clone(&client));
        Ok(client)
    }
}

impl Assigned {
    /// Takes what is in the queue, waiting at most `wait` for the first.
    fn drain(
        &mut self,
        end: i64,
        rows: &mut Rows,
        limits: &Limits,
        wait: Duration,
    ) -> Result<Fetched> {
        while self.next < end {
            if rows.len() >= limits.rows || rows.bytes() >= limits.bytes {
                return Ok(Fetched::Full);
            }
            let wait = if rows.is_empty() {
                wait
            } else {
                Duration::ZERO
            };
            let mut failed = None;
            match self.queue.next(wait) {
                None => return Ok(Fetched::Nothing),
                Some(Next::Record(record)) if record.offset() >= end => {
                    // There is a gap before it, up to the end. It stays for the next split.
                    self.next = end;
                    continue;
                }
                Some(Next::End(offset)) if offset >= end => {
                    self.next = end;
                    continue;
                }
                Some(Next::Record(record)) => {
                    self.ended = None;
                    if record.offset() >= self.next {
                        rows.push(&record)?;
                        self.next = record.offset() + 1;
                    }
                }
                // Records that came later lie behind it, or are on their way.
                Some(Next::End(offset)) => self.ended = Some(offset),
                Some(Next::Failed(error)) => failed = Some(error),
            }
            self.queue.pass();
            if let Some(error) = failed {
                return Ok(Fetched::Failed(error));
            }
        }
        Ok(Fetched::Reached)
    }
}
