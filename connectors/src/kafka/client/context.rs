//! [`Context`]: what a librdkafka client tells on its own account. Log lines go to `tracing`, the last error is kept for the
//! moment somebody asks why nothing comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::mask;

/// Context of a client; clones share the last error. Lines are searched for secrets before they leave.
#[derive(Clone, Default)]
pub struct Context {
    secrets: Arc<[String]>,
    last_error: Arc<Mutex<Option<Report>>>,
}

/// What a client said.
#[derive(Debug, Clone)]
struct Report {
    is_refusal: bool,
    text: String,
}

impl Context {
    pub(super) fn new(secrets: Arc<[String]>) -> Self {
        Self {
            secrets,
            last_error: Arc::default(),
        }
    }

    /// What the client reported last about its brokers since [`Context::forget_error`], in its own words.
    pub fn last_error(&self) -> Option<String> {
        self.slot().as_ref().map(|report| report.text.clone())
    }

    /// That report was that the brokers do not take the client's credentials, which waiting does not change.
    pub fn is_refused(&self) -> bool {
        self.slot().as_ref().is_some_and(|report| report.is_refusal)
    }

    /// The client works again.
    pub fn forget_error(&self) {
        *self.slot() = None;
    }

    /// `text` without secrets.
    pub fn masked(&self, text: &str) -> String {
        mask(text, self.secrets.iter().map(String::as_str))
    }

    fn slot(&self) -> MutexGuard<'_, Option<Report>> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        let line = self.masked(line);
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(facility, "kafka client: {line}");
            }
            // A broker that does not answer is an error to the client; what it means for the query is told elsewhere.
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
                tracing::warn!(facility, "kafka client: {line}");
            }
            RDKafkaLogLevel::Notice => tracing::info!(facility, "kafka client: {line}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::debug!(facility, "kafka client: {line}");
            }
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // The end of a partition is no error, and that all brokers are down says less than what was said of each.
        if code == Some(RDKafkaErrorCode::PartitionEOF)
            || (code == Some(RDKafkaErrorCode::AllBrokersDown) && self.slot().is_some())
        {
            return;
        }
        let reason = match reason.is_empty() {
            true => self.masked(&error.to_string()),
            false => self.masked(reason),
        };
        tracing::debug!("kafka client reports: {reason}");
        let is_refusal = code == Some(RDKafkaErrorCode::Authentication);
        let mut slot = self.slot();
        // What follows a refusal, as connections that are closed, says less.
        if is_refusal || !slot.as_ref().is_some_and(|report| report.is_refusal) {
            *slot = Some(Report {
                is_refusal,
                text: reason,
            });
        }
    }
}

impl ConsumerContext for Context {}
