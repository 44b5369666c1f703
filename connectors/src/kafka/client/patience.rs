//! Waiting for an answer of the cluster, but not for one that refuses the client.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use weir_runtime::Result;

use super::{ClientSettings, Context, client_error};

/// Longest single wait. After it, it is seen what the client has been told.
const SLICE: Duration = Duration::from_millis(500);

/// Asks until there is an answer, for `patience` at most; `ask` waits as long as it is told, and takes the client's reports. Brokers
/// that do not take the client's credentials end the wait: the client would go on trying.
///
/// # Errors
/// The last of `ask`.
pub fn patiently<T>(
    context: &Context,
    patience: Duration,
    ask: impl Fn(Duration) -> KafkaResult<T>,
) -> KafkaResult<T> {
    let mut left = patience;
    loop {
        let wait = left.min(SLICE);
        let error = match ask(wait) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        left = left.saturating_sub(wait);
        if left.is_zero() || context.is_refused() || !was_silent(&error) {
            return Err(error);
        }
    }
}

/// Waits until the cluster answers. Blocks.
///
/// # Errors
/// If it does not within `patience`, or refuses the client.
pub fn reach(settings: &ClientSettings, patience: Duration) -> Result<()> {
    let context = settings.context();
    // A consumer gives its reports to whoever polls it; it reads nothing.
    let client = settings
        .client_config()
        .create_with_context::<_, BaseConsumer<Context>>(context.clone());
    let answer = client.and_then(|client| {
        patiently(&context, patience, |wait| {
            let answer = client.fetch_metadata(None, wait);
            while client.poll(Duration::ZERO).is_some() {}
            answer
        })
    });
    answer.map(|_| ()).map_err(|error| {
        let what = format!(
            "cannot reach the cluster at {}",
            settings.bootstrap_servers()
        );
        client_error(&what, &error, Some(&context))
    })
}

/// Nobody has answered.
pub fn was_silent(error: &KafkaError) -> bool {
    let code = match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    };
    matches!(
        code,
        Some(Code::OperationTimedOut | Code::BrokerTransportFailure)
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rdkafka::ClientContext;

    use super::*;

    fn silence(code: Code) -> KafkaError {
        KafkaError::MetadataFetch(code)
    }

    #[test]
    fn silence_is_waited_out_as_long_as_patience_lasts() {
        let waited = Cell::new(Duration::ZERO);
        let patience = Duration::from_millis(1_700);
        let asked = patiently(&Context::default(), patience, |wait| {
            waited.set(waited.get() + wait);
            Err::<(), _>(silence(Code::OperationTimedOut))
        });
        assert!(asked.is_err());
        assert_eq!(waited.get(), patience);
        let answers = Cell::new(0);
        let asked = patiently(&Context::default(), patience, |_| {
            answers.set(answers.get() + 1);
            match answers.get() {
                3 => Ok("here"),
                _ => Err(silence(Code::BrokerTransportFailure)),
            }
        });
        assert_eq!(asked.expect("the third"), "here");
    }

    #[test]
    fn a_refusal_or_an_answer_that_says_no_ends_the_wait() {
        let asked = |context: &Context, code| {
            let count = Cell::new(0);
            let ask = |_| {
                count.set(count.get() + 1);
                Err::<(), _>(silence(code))
            };
            assert!(patiently(context, Duration::from_secs(60), ask).is_err());
            count.get()
        };
        assert_eq!(asked(&Context::default(), Code::InvalidTopic), 1);
        let refused = Context::default();
        refused.error(KafkaError::Global(Code::Authentication), "no such user");
        assert_eq!(asked(&refused, Code::OperationTimedOut), 1);
    }
}
