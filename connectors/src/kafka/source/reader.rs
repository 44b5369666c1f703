//! [`KafkaReader`]: reads the splits of one subtask. A split ends at its end offset, whether or not a record has the offset before
//! it: markers of transactions, aborted records and compaction leave gaps.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use serde_json::Value;
use weir_runtime::{Clock, Places, Polled, Result, SourceReader, Split, WeirError};

use super::cluster::Cluster;
use super::fetcher::{Fetched, Fetcher, Limits};
use super::loss::{Bounds, Loss};
use super::offsets::TopicPartition;
use super::rows::Rows;
use super::shared::Shared;
use super::start::data_loss;
use crate::kafka::client::client_error;

/// Bytes of keys, values and headers after which a batch is handed on, whatever its rows.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Silence after which the cluster is asked whether a partition that seems to end before its split does.
const ASKED_AFTER: Duration = Duration::from_millis(200);
/// Silence after which it is said that a partition does not deliver.
const SAID_AFTER: Duration = Duration::from_secs(5);
/// Silence after which the client is made anew: some never come back after all their brokers were gone.
const REBUILT_AFTER: Duration = Duration::from_secs(20);

/// The split that is open.
struct Current {
    at: TopicPartition,
    end: i64,
    /// The partition stays with this reader.
    stays: bool,
    is_done: bool,
    /// When the cluster was asked last whether the partition reaches to the end.
    asked: Duration,
    /// When a record came last, or the split began.
    delivered: Duration,
    /// When the client was made anew last.
    rebuilt: Duration,
    has_said: bool,
}

/// Reads ranges of partitions.
pub(super) struct KafkaReader {
    fetcher: Fetcher,
    rows: Rows,
    cluster: Arc<Cluster>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    fail_on_data_loss: bool,
    patience: Duration,
    current: Option<Current>,
}

impl KafkaReader {
    pub(super) fn new(
        fetcher: Fetcher,
        rows: Rows,
        cluster: Arc<Cluster>,
        clock: Arc<dyn Clock>,
        shared: Arc<Shared>,
        (fail_on_data_loss, patience): (bool, Duration),
    ) -> Self {
        Self {
            fetcher,
            rows,
            cluster,
            clock,
            shared,
            fail_on_data_loss,
            patience,
            current: None,
        }
    }

    fn advance(
        &mut self,
        current: &mut Current,
        max_rows: usize,
        max_wait: Duration,
    ) -> Result<()> {
        let limits = Limits {
            rows: max_rows.max(1),
            bytes: BATCH_BYTES,
            wait: max_wait,
        };
        let at = &current.at;
        let fetched = self
            .fetcher
            .fetch(at, current.end, &mut self.rows, &limits)?;
        if !self.rows.is_empty() {
            self.fetcher.context().forget_error();
            current.delivered = self.clock.monotonic();
            current.has_said = false;
        }
        match fetched {
            Fetched::Reached => current.is_done = true,
            Fetched::Full => {}
            Fetched::Nothing if self.rows.is_empty() => self.be_patient(current)?,
            Fetched::Nothing => {}
            Fetched::Failed(error) => self.failed(current, &error)?,
        }
        Ok(())
    }

    /// Where reading goes on in the current split.
    fn next(&self, current: &Current) -> i64 {
        self.fetcher.next(&current.at).unwrap_or(current.end)
    }

    /// The client has read the partition to an end before that of the split. Mostly what is missing is on its way; but a partition may
    /// have become shorter than it was when the epoch was planned.
    fn is_shorter(&mut self, current: &mut Current) -> Result<bool> {
        current.asked = self.clock.monotonic();
        let bounds = self.cluster.bounds(&current.at)?;
        let is_shorter = bounds.latest < current.end;
        if is_shorter {
            self.lost(current, Some(bounds), current.end)?;
        }
        Ok(is_shorter)
    }

    fn failed(&mut self, current: &mut Current, error: &KafkaError) -> Result<()> {
        let at = current.at.clone();
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation) => {
                let (next, bounds) = (self.next(current), self.cluster.bounds(&at)?);
                if next >= bounds.earliest && next <= bounds.latest {
                    // By now the offset is there: the broker did not know it yet.
                    return self.fetcher.assign(&at, next);
                }
                self.lost(current, Some(bounds), next)
            }
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
                let next = self.next(current);
                self.lost(current, None, next)
            }
            _ => {
                let next = self.next(current);
                let error = client_error(
                    &format!("cannot read {at} at offset {next}"),
                    error,
                    Some(self.fetcher.context()),
                );
                match error.is_retryable() {
                    // The client goes on by itself; patience is counted.
                    true => Ok(()),
                    false => Err(error),
                }
            }
        }
    }

    /// Records of the split are gone. Either that is an error, or what is left of the split is read.
    fn lost(&mut self, current: &mut Current, there: Option<Bounds>, wanted: i64) -> Result<()> {
        let at = current.at.clone();
        let Some(loss) = Loss::judge(&at, wanted, false, there) else {
            return Ok(());
        };
        if self.fail_on_data_loss {
            return Err(data_loss(&[loss]));
        }
        let next = self.next(current);
        // What a topic of the same name has now is not what was planned, unless it only begins later.
        let goes_on = there.filter(|bounds| bounds.earliest > next && bounds.latest >= current.end);
        let to = goes_on.map_or(current.end, |bounds| bounds.earliest.min(current.end));
        let lost = u64::try_from(to - next).unwrap_or(0);
        self.shared.count_loss(lost);
        tracing::warn!(
            lost_offsets = lost,
            "records that were not read yet are gone: {loss}; failOnDataLoss is false, so the query goes on at {to}"
        );
        match to >= current.end {
            true => {
                current.is_done = true;
                self.fetcher.release(&at)
            }
            false => self.fetcher.assign(&at, to),
        }
    }

    /// Nothing comes although there is something.
    fn be_patient(&mut self, current: &mut Current) -> Result<()> {
        let now = self.clock.monotonic();
        let silent = now.saturating_sub(current.delivered);
        let unasked = now.saturating_sub(current.asked.max(current.delivered));
        let seems_shorter = self.fetcher.ended(&current.at).is_some();
        if seems_shorter && unasked >= ASKED_AFTER && self.is_shorter(current)? {
            return Ok(());
        }
        let (at, next, end) = (&current.at, self.next(current), current.end);
        let report = self.fetcher.context().last_error();
        let report = report.unwrap_or_else(|| "the client reports nothing".to_owned());
        if silent >= self.patience {
            return Err(WeirError::external(format!(
                "{at} has given no record at offset {next} for {} ms although it reaches to {end} (kafkaConsumer.pollTimeoutMs): {report}",
                silent.as_millis()
            )));
        }
        if silent >= SAID_AFTER && !current.has_said {
            current.has_said = true;
            tracing::warn!(
                "source unavailable: {at} gives no record at offset {next} although it reaches to {end}; waiting up to {} ms: {report}",
                self.patience.as_millis()
            );
        }
        if now.saturating_sub(current.rebuilt.max(current.delivered)) >= REBUILT_AFTER {
            current.rebuilt = now;
            tracing::warn!("{at} stays silent at offset {next}: the kafka client is made anew");
            self.fetcher.rebuild();
            return self.fetcher.assign(&current.at, next);
        }
        Ok(())
    }
}

impl SourceReader for KafkaReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        let number = |name: &str| split.payload.get(name).and_then(Value::as_i64);
        let topic = split.payload.get("topic").and_then(Value::as_str);
        let partition = number("partition").and_then(|number| i32::try_from(number).ok());
        let (Some(topic), Some(partition), Some(from), Some(end)) =
            (topic, partition, number("from"), number("to"))
        else {
            return Err(WeirError::internal(format!(
                "split '{}' names no range of a partition",
                split.name
            )));
        };
        let at = TopicPartition::new(topic, partition);
        self.fetcher.go_to(&at, from)?;
        let now = self.clock.monotonic();
        let stays = split.payload.get("whole").and_then(Value::as_bool);
        self.current = Some(Current {
            at,
            end,
            stays: stays.unwrap_or(false),
            is_done: false,
            asked: now,
            delivered: now,
            rebuilt: now,
            has_said: false,
        });
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, max_wait: Duration) -> Result<Polled> {
        let Some(mut current) = self.current.take() else {
            return Err(WeirError::internal("no split is open"));
        };
        if current.is_done {
            if !current.stays {
                self.fetcher.release(&current.at)?;
            }
            return Ok(Polled::Done);
        }
        self.advance(&mut current, max_rows, max_wait)?;
        let polled = match self.rows.is_empty() {
            false => Polled::Batch(self.rows.finish(&current.at)?),
            true => Polled::Idle,
        };
        self.current = Some(current);
        Ok(polled)
    }

    fn places(&self) -> Option<Places> {
        self.rows.places()
    }
}
