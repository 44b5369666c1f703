//! Errors of the client library as errors of the engine: whose fault, and whether waiting can help.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use weir_runtime::{Fault, WeirError};

use super::Context;

/// The engine's error for one of the client library. `what` says what was being done, as in `cannot read the partitions of topic
/// 't'`; the client's last report about its brokers and the library's text follow. Secrets are masked. Brokers that refuse the
/// client's credentials make the error one of the configuration, whatever call failed.
pub fn client_error(what: &str, error: &KafkaError, context: Option<&Context>) -> WeirError {
    let mut message = format!("{what}: {error}");
    let mut fault = fault_of(error);
    if let Some(context) = context {
        if fault == Fault::External && context.is_refused() {
            fault = Fault::Config;
        }
        message = context.masked(&message);
        if let Some(last) = context.last_error() {
            message = format!("{message} (last report of the client: {last})");
        }
    }
    WeirError::new(fault, message)
}

/// Who has to act for an error of the client library to go away.
pub fn fault_of(error: &KafkaError) -> Fault {
    match error {
        KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) | KafkaError::Nul(_) => {
            Fault::Config
        }
        KafkaError::AdminOp(code) => fault_of_code(*code),
        _ => error
            .rdkafka_error_code()
            .map_or(Fault::External, fault_of_code),
    }
}

fn fault_of_code(code: Code) -> Fault {
    match code {
        Code::InvalidArgument
        | Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SSL
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed
        | Code::DelegationTokenExpired
        | Code::SecurityDisabled
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedForMessageFormat
        | Code::UnsupportedCompressionType
        | Code::NotImplemented
        | Code::NotConfigured
        | Code::UnknownGroup
        | Code::InvalidTopic
        | Code::InvalidGroupId
        | Code::InvalidConfig
        | Code::InvalidRequiredAcks
        | Code::InvalidTransactionTimeout
        | Code::PolicyViolation => Fault::Config,
        Code::BadMessage
        | Code::BadCompression
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidTimestamp
        | Code::AutoOffsetReset
        | Code::LogTruncation
        | Code::OffsetOutOfRange => Fault::Data,
        Code::Fenced | Code::InvalidProducerEpoch | Code::TransactionCoordinatorFenced => {
            Fault::Conflict
        }
        _ => Fault::External,
    }
}
