//! [`ClientSettings`]: the properties of a Kafka client as users give them (`kafka.*` options, in the spelling of the Java
//! client), checked, translated to librdkafka and kept out of every log.

mod context;
mod error;
mod jaas;
mod patience;
#[cfg(test)]
mod tests;
mod translate;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use weir_runtime::{Result, WeirError};

pub use context::Context;
pub use error::{client_error, fault_of};
pub use patience::{patiently, reach, was_silent};

/// What options of a client begin with, in any letter case.
const PREFIX: &str = "kafka.";
/// Stands for every value that is nobody's business.
const REDACTED: &str = "*********(redacted)";

/// What a client is for; decides which properties may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Consumers of the source.
    Source,
    /// Producers of the sink.
    Sink,
}

impl Role {
    fn owner(self) -> &'static str {
        match self {
            Self::Source => "source 'kafka'",
            Self::Sink => "sink 'kafka'",
        }
    }
}

/// Checked client properties in librdkafka's names. Debug and Display show no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSettings {
    role: Role,
    properties: BTreeMap<String, String>,
}

impl ClientSettings {
    /// Takes the options that begin with `kafka.` (in any letter case; what follows keeps its own) as client properties and gives
    /// back the others.
    ///
    /// # Errors
    /// As [`ClientSettings::new`], and a property given twice.
    pub fn from_options(
        role: Role,
        options: &BTreeMap<String, String>,
    ) -> Result<(Self, BTreeMap<String, String>)> {
        let mut properties = BTreeMap::new();
        let mut others = BTreeMap::new();
        for (name, value) in options {
            match property(name) {
                Some(property) => {
                    if properties
                        .insert(property.to_owned(), value.clone())
                        .is_some()
                    {
                        return Err(WeirError::config(format!(
                            "option 'kafka.{property}' of {} is given more than once, in different spellings",
                            role.owner()
                        )));
                    }
                }
                None => {
                    others.insert(name.clone(), value.clone());
                }
            }
        }
        Ok((Self::new(role, properties)?, others))
    }

    /// Properties without the prefix, in the names of the Java client or of librdkafka.
    ///
    /// # Errors
    /// No `bootstrap.servers`, a property the source or sink sets itself, one that only the Java client knows (the error names
    /// what to use instead), an unknown one, or a value librdkafka refuses. Values of secrets are not repeated.
    pub fn new(role: Role, properties: BTreeMap<String, String>) -> Result<Self> {
        let servers = properties.get("bootstrap.servers").map(|text| text.trim());
        if servers.is_none_or(str::is_empty) {
            return Err(WeirError::config(format!(
                "{} needs the option 'kafka.bootstrap.servers', allowed: host:port, separated by commas",
                role.owner()
            )));
        }
        translate::refuse(role, &properties)?;
        let properties = translate::to_librdkafka(role, properties)?;
        let settings = Self { role, properties };
        settings.check()?;
        Ok(settings)
    }

    /// librdkafka looks at every name and value; a client would fail the same way later.
    fn check(&self) -> Result<()> {
        match self.client_config().create_native_config() {
            Ok(_) => Ok(()),
            Err(rdkafka::error::KafkaError::ClientConfig(_, why, name, value)) => {
                let value = match is_secret(&name) {
                    true => REDACTED,
                    false => &value,
                };
                let why = self.masked(&why);
                Err(WeirError::config(format!(
                    "option 'kafka.{name}' of {} with the value '{value}' is refused by the client library: {why}",
                    self.role.owner()
                )))
            }
            Err(error) => Err(WeirError::config(format!(
                "the client options of {} are refused: {}",
                self.role.owner(),
                self.masked(&error.to_string())
            ))),
        }
    }

    /// Where the cluster is found.
    pub fn bootstrap_servers(&self) -> &str {
        self.get("bootstrap.servers").unwrap_or_default()
    }

    /// A property by librdkafka's name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// Sets a property by librdkafka's name unless the user did.
    #[must_use]
    pub fn or(mut self, name: &str, value: impl Into<String>) -> Self {
        self.properties
            .entry(name.to_owned())
            .or_insert_with(|| value.into());
        self
    }

    /// Sets a property by librdkafka's name, whatever the user gave.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.properties.insert(name.to_owned(), value.into());
        self
    }

    /// The configuration clients are created from. Holds secrets: not for logs.
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(match self.properties.contains_key("debug") {
            true => RDKafkaLogLevel::Debug,
            false => RDKafkaLogLevel::Info,
        });
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config
    }

    /// What a client of these settings reports to: its log goes to `tracing`, its last error is kept.
    pub fn context(&self) -> Context {
        Context::new(self.secrets().map(str::to_owned).collect::<Arc<[String]>>())
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        self.properties
            .iter()
            .filter(|(name, value)| is_secret(name) && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    fn masked(&self, text: &str) -> String {
        mask(text, self.secrets())
    }
}

/// Name and value of every property, secrets as asterisks.
impl fmt::Display for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.properties.iter().enumerate() {
            let value = match is_secret(name) {
                true => REDACTED,
                false => value,
            };
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientSettings({:?}: {self})", self.role)
    }
}

/// The property an option of that name sets.
fn property(option: &str) -> Option<&str> {
    let prefix = option.get(..PREFIX.len())?;
    prefix
        .eq_ignore_ascii_case(PREFIX)
        .then(|| &option[PREFIX.len()..])
}

/// Whether the value of a property must not be shown.
pub fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "password",
        "passphrase",
        "secret",
        "jaas",
        "token",
        "credential",
        ".pem",
        "oauthbearer.config",
    ];
    let name = name.to_ascii_lowercase();
    // Where the token is fetched is no secret.
    if name.ends_with("token.endpoint.url") || name == "ssl.ca.pem" {
        return false;
    }
    name == "ssl.keystore.key" || PARTS.iter().any(|part| name.contains(part))
}

/// `text` without any of the secrets.
fn mask<'a>(text: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    let mut masked = text.to_owned();
    for secret in secrets {
        if masked.contains(secret) {
            masked = masked.replace(secret, REDACTED);
        }
    }
    masked
}
