//! What went wrong with a message or a transaction, and whose fault it is.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use weir_runtime::{Fault, WeirError};

use super::columns::shown_key;
use crate::kafka::client::{Context, client_error};

/// A message that the broker did not take, or not in time.
pub(super) fn undelivered(
    error: &KafkaError,
    topic: &str,
    partition: i32,
    key: Option<&[u8]>,
    bytes: usize,
    context: &Context,
) -> WeirError {
    let key = shown_key(key);
    let message = match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge) => {
            return WeirError::data(format!(
                "the broker finds a message of topic '{topic}' too large: it or one sent with it, key {key}, {bytes} bytes of key and \
                 value; raise 'max.message.bytes' of the topic, or lower 'kafka.batch.size' if the message itself is smaller than that"
            ));
        }
        Some(Code::UnknownPartition) => {
            return WeirError::data(format!(
                "topic '{topic}' has no partition {partition}, which the column 'partition' says for key {key}"
            ));
        }
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
            return WeirError::new(
                Fault::Config,
                format!(
                    "topic '{topic}' does not exist, and the broker does not make it (key {key})"
                ),
            );
        }
        Some(Code::TopicAuthorizationFailed) => {
            format!("the user of the Kafka sink may not write to topic '{topic}'")
        }
        Some(Code::MessageTimedOut) => format!(
            "a message for topic '{topic}', key {key}, was not delivered within 'kafka.message.timeout.ms'"
        ),
        _ => format!("a message for topic '{topic}', key {key}, {bytes} bytes, was not delivered"),
    };
    client_error(&message, error, Some(context))
}

/// A message that is said to be written only because one behind it was.
pub(super) fn unconfirmed(topic: &str, partition: i32, key: Option<&[u8]>) -> WeirError {
    WeirError::external(format!(
        "the broker has not confirmed a message for partition {partition} of topic '{topic}', key {}, but one behind it: it may be \
         lost, as happens while a broker takes over a partition. The epoch is not committed and is written again",
        shown_key(key)
    ))
}

/// A message that does not fit into the empty queue.
pub(super) fn larger_than_queue(topic: &str, key: Option<&[u8]>) -> WeirError {
    WeirError::config(format!(
        "a message for topic '{topic}', key {}, does not fit into the empty queue of the client: raise \
         'kafka.queue.buffering.max.kbytes'",
        shown_key(key)
    ))
}

/// True if another producer with the same transactional id has taken over, or the broker has ended the transaction.
pub(super) fn is_fenced(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
    )
}

/// A step of a transaction that failed. `id` is the transactional id, `group` the consumer group of the marker.
pub(super) fn transaction(
    what: &str,
    error: &KafkaError,
    id: &str,
    group: &str,
    context: &Context,
) -> WeirError {
    let hint = match error.rdkafka_error_code() {
        _ if is_fenced(error) => {
            return WeirError::new(
                Fault::Conflict,
                format!(
                    "{what}: another run of this query has taken over the transactional id '{id}', what this run has not committed is \
                     discarded"
                ),
            );
        }
        Some(Code::InvalidTransactionTimeout) => {
            "; 'kafka.transaction.timeout.ms' is longer than the broker's 'transaction.max.timeout.ms'"
        }
        Some(Code::TransactionalIdAuthorizationFailed | Code::ClusterAuthorizationFailed) => {
            "; exactly-once needs the right to WRITE and DESCRIBE the transactional id, or set 'deliveryGuarantee' to at-least-once"
        }
        Some(Code::GroupAuthorizationFailed | Code::TopicAuthorizationFailed) => {
            "; exactly-once needs the right to READ the group and the topic, where it remembers the epoch, or set \
             'deliveryGuarantee' to at-least-once"
        }
        _ => "",
    };
    let error = client_error(
        &format!("{what} (transactional id '{id}', group '{group}')"),
        error,
        Some(context),
    );
    match hint {
        "" => error,
        _ => WeirError::new(error.fault(), format!("{}{hint}", error.message())),
    }
}

/// True if the same call may be made again.
pub(super) fn may_repeat(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable() && !error.is_fatal(),
        _ => false,
    }
}

/// True if the transaction has to be aborted.
pub(super) fn requires_abort(error: &KafkaError) -> bool {
    matches!(error, KafkaError::Transaction(error) if error.txn_requires_abort())
}
