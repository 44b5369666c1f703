//! What the cluster allows: how large the messages of a topic may be, how long offsets of a group are kept. Asked once; a user who
//! may not ask gets the brokers' defaults.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use weir_runtime::Result;

use crate::kafka::client::{ClientSettings, Context, client_error};

/// How long the cluster may take to answer; what it does not tell is not needed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a broker that does not say keeps offsets: what old ones did, so that the answer errs towards asking the user.
const ASSUMED_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Looks limits up. All calls block, except for what is known already.
pub(super) struct Limits {
    settings: ClientSettings,
    /// Set by the user, for all topics.
    given: Option<usize>,
    admin: OnceLock<AdminClient<Context>>,
    /// By topic; none where the cluster does not say.
    known: Mutex<BTreeMap<String, Option<usize>>>,
}

impl Limits {
    /// Limits of the cluster of these settings.
    pub(super) fn new(settings: &ClientSettings, given: Option<usize>) -> Self {
        Self {
            settings: settings.clone(),
            given,
            admin: OnceLock::new(),
            known: Mutex::default(),
        }
    }

    /// Largest message of a topic in bytes, if it was looked up before: `Some(None)` if nobody knows.
    pub(super) fn known(&self, topic: &str) -> Option<Option<usize>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(topic).copied()
    }

    /// Largest message of a topic in bytes; `None` if the cluster does not say, or does not know the topic.
    ///
    /// # Errors
    /// If no client can be made.
    pub(super) fn look_up(&self, topic: &str) -> Result<Option<usize>> {
        if let Some(known) = self.known(topic) {
            return Ok(known);
        }
        let limit = match self.given {
            Some(given) => Some(given),
            None => self.topic_setting(topic)?,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(topic.to_owned(), limit);
        Ok(limit)
    }

    fn topic_setting(&self, topic: &str) -> Result<Option<usize>> {
        let text = self.setting(&ResourceSpecifier::Topic(topic), "max.message.bytes")?;
        let limit = text.and_then(|text| text.parse().ok());
        if limit.is_none() {
            tracing::debug!(topic, "the cluster does not say how large messages may be");
        }
        Ok(limit)
    }

    /// How long offsets of a group without consumers are kept, by one of the brokers.
    ///
    /// # Errors
    /// If no client can be made.
    pub(super) fn offsets_retention(&self) -> Result<Duration> {
        let metadata = self.admin()?.inner().fetch_metadata(None, PATIENCE);
        let broker = match &metadata {
            Ok(metadata) => metadata.brokers().first().map(|broker| broker.id()),
            Err(_) => None,
        };
        let Some(broker) = broker else {
            return Ok(ASSUMED_RETENTION);
        };
        let text = self.setting(
            &ResourceSpecifier::Broker(broker),
            "offsets.retention.minutes",
        )?;
        let minutes = text.and_then(|text| text.parse::<u64>().ok());
        Ok(minutes.map_or(ASSUMED_RETENTION, |minutes| {
            Duration::from_secs(minutes.saturating_mul(60))
        }))
    }

    fn admin(&self) -> Result<&AdminClient<Context>> {
        if let Some(admin) = self.admin.get() {
            return Ok(admin);
        }
        let context = self.settings.context();
        let admin = self
            .settings
            .client_config()
            .create_with_context(context.clone())
            .map_err(|error| {
                client_error("cannot make a Kafka admin client", &error, Some(&context))
            })?;
        Ok(self.admin.get_or_init(|| admin))
    }

    fn setting(&self, of: &ResourceSpecifier<'_>, name: &str) -> Result<Option<String>> {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let answer = self.admin()?.describe_configs([of], &options);
        let found = match futures::executor::block_on(answer) {
            Ok(resources) => resources.into_iter().next(),
            Err(error) => {
                tracing::debug!(%error, name, "the cluster does not tell a setting");
                None
            }
        };
        let resource = found.and_then(std::result::Result::ok);
        Ok(resource.and_then(|resource| resource.get(name)?.value.clone()))
    }
}
