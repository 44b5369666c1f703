//! Asking a registry: requests, retries, what is kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use datafusion::common::Result;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use url::Url;

use super::{URL, Version};
use crate::functions::error::SparkError;
use crate::functions::payload::Options;

/// What the protocol's bodies are.
const CONTENT: &str = "application/vnd.schemaregistry.v1+json";
/// The largest answer that is read.
const MAX_ANSWER: u64 = 16 << 20;
/// How deep schemas may refer to schemas.
const MAX_REFERENCES: usize = 32;
/// The pause after the first failed attempt; it doubles with each.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A schema as a registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::functions) struct Schema {
    /// Its id, which stands in payloads.
    pub(in crate::functions) id: u32,
    /// `AVRO`, `JSON` or `PROTOBUF`.
    pub(in crate::functions) kind: String,
    /// Its text.
    pub(in crate::functions) text: String,
    /// The texts of schemas it refers to, each after those it refers to itself.
    pub(in crate::functions) references: Vec<String>,
}

/// What asking came to.
#[derive(Debug)]
pub(in crate::functions) enum Asked<T> {
    /// It is there.
    Found(T),
    /// The registry knows of no such thing, in its words.
    Unknown(String),
}

/// A connection to a registry.
pub(in crate::functions) struct Registry {
    function: &'static str,
    agent: Agent,
    /// Addresses without credentials, in the order they are tried.
    addresses: Vec<String>,
    authorization: Option<String>,
    retries: u32,
    known: Mutex<HashMap<u32, Arc<Schema>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// How one request ended that gave no answer of use.
enum Failure {
    /// Another attempt may help.
    Passing(String),
    /// None will.
    Lasting(String),
}

impl Registry {
    /// The registry that `options` name. Nothing is asked yet.
    ///
    /// # Errors
    /// Options that are wrong: addresses, credentials twice, certificates that cannot be read.
    pub(in crate::functions) fn new(function: &'static str, options: &Options) -> Result<Self> {
        let mut addresses = vec![];
        let mut authorization = authorization(options)?;
        for address in options.get(URL).unwrap_or("").split(',').map(str::trim) {
            let (address, inside) = address_of(address).ok_or_else(|| {
                options.wrong(URL, "http or https addresses, separated by commas")
            })?;
            addresses.push(address);
            authorization = authorization.or(inside);
        }
        let timeout = options.number("schema.registry.timeout.ms", 5_000)?;
        let timeout = u64::try_from(timeout)
            .ok()
            .filter(|ms| (1..=600_000).contains(ms));
        let timeout =
            timeout.ok_or_else(|| options.wrong("schema.registry.timeout.ms", "1 to 600000"))?;
        let retries = options.number("schema.registry.retries", 3)?;
        let retries = u32::try_from(retries).ok().filter(|n| *n <= 20);
        let retries = retries.ok_or_else(|| options.wrong("schema.registry.retries", "0 to 20"))?;
        let agent = Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(timeout)))
            .http_status_as_error(false)
            .tls_config(tls(options)?)
            .user_agent("weir")
            .build()
            .new_agent();
        Ok(Self {
            function,
            agent,
            addresses,
            authorization,
            retries,
            known: Mutex::default(),
        })
    }

    /// The addresses, for `explain`.
    pub(in crate::functions) fn shown(&self) -> String {
        self.addresses.join(",")
    }

    /// The schema of an id; asked for once, then kept.
    ///
    /// # Errors
    /// The registry cannot be reached or refuses.
    pub(in crate::functions) fn schema(&self, id: u32) -> Result<Asked<Arc<Schema>>> {
        if let Some(schema) = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
        {
            return Ok(Asked::Found(Arc::clone(schema)));
        }
        let answer = match self.ask("GET", &format!("schemas/ids/{id}"), None)? {
            Asked::Found(answer) => answer,
            Asked::Unknown(why) => return Ok(Asked::Unknown(why)),
        };
        let schema = Arc::new(self.schema_in(&answer, id)?);
        self.keep(&schema);
        Ok(Asked::Found(schema))
    }

    /// A version of a subject.
    ///
    /// # Errors
    /// The registry cannot be reached, refuses, or has no such version.
    pub(in crate::functions) fn version(
        &self,
        subject: &str,
        version: Version,
    ) -> Result<Arc<Schema>> {
        let path = format!("subjects/{}/versions/{version}", encoded(subject));
        match self.ask("GET", &path, None)? {
            Asked::Found(answer) => {
                let id = answer
                    .get("id")
                    .and_then(Value::as_u64)
                    .and_then(|id| u32::try_from(id).ok());
                let id = id.ok_or_else(|| self.failed(&path, "the answer has no id"))?;
                let schema = Arc::new(self.schema_in(&answer, id)?);
                self.keep(&schema);
                Ok(schema)
            }
            Asked::Unknown(why) => Err(self.failed(&path, &why)),
        }
    }

    /// The id of a schema under a subject: looked up, or registered if it is new and `register` allows it.
    ///
    /// # Errors
    /// The registry cannot be reached or refuses (incompatible with earlier versions), or the schema is new and must not be
    /// registered.
    pub(in crate::functions) fn id_of(
        &self,
        subject: &str,
        kind: &str,
        text: &str,
        register: bool,
    ) -> Result<u32> {
        let mut body = json!({"schema": text});
        if kind != "AVRO" {
            body["schemaType"] = json!(kind);
        }
        let mut path = format!("subjects/{}", encoded(subject));
        if register {
            path += "/versions";
        }
        match self.ask("POST", &path, Some(&body))? {
            Asked::Found(answer) => {
                let id = answer
                    .get("id")
                    .and_then(Value::as_u64)
                    .and_then(|id| u32::try_from(id).ok());
                id.ok_or_else(|| self.failed(&path, "the answer has no id"))
            }
            Asked::Unknown(why) => Err(self.failed(
                &path,
                &format!(
                    "{why}; the schema is not registered and 'auto.register.schemas' is false"
                ),
            )),
        }
    }

    fn keep(&self, schema: &Arc<Schema>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(schema.id, Arc::clone(schema));
    }

    fn schema_in(&self, answer: &Value, id: u32) -> Result<Schema> {
        let text = answer.get("schema").and_then(Value::as_str);
        let text = text.ok_or_else(|| self.failed("schema", "the answer has no schema"))?;
        let kind = answer
            .get("schemaType")
            .and_then(Value::as_str)
            .unwrap_or("AVRO");
        let mut references = vec![];
        self.references(answer, &mut references, 0)?;
        Ok(Schema {
            id,
            kind: kind.to_ascii_uppercase(),
            text: text.to_owned(),
            references,
        })
    }

    /// The texts of the schemas that `answer` refers to.
    fn references(&self, answer: &Value, texts: &mut Vec<String>, depth: usize) -> Result<()> {
        let list = answer
            .get("references")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for reference in list {
            let subject = reference
                .get("subject")
                .and_then(Value::as_str)
                .unwrap_or("");
            let version = reference
                .get("version")
                .and_then(Value::as_u64)
                .unwrap_or(0);
            let path = format!("subjects/{}/versions/{version}", encoded(subject));
            if depth >= MAX_REFERENCES || texts.len() >= MAX_REFERENCES * 8 {
                return Err(self.failed(&path, "schemas refer to schemas without end"));
            }
            match self.ask("GET", &path, None)? {
                Asked::Found(answer) => {
                    self.references(&answer, texts, depth + 1)?;
                    let text = answer.get("schema").and_then(Value::as_str).unwrap_or("");
                    if !texts.iter().any(|known| known == text) {
                        texts.push(text.to_owned());
                    }
                }
                Asked::Unknown(why) => return Err(self.failed(&path, &why)),
            }
        }
        Ok(())
    }

    /// One request, tried at each address, again after a pause while the reason passes.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Asked<Value>> {
        let mut last = String::new();
        for attempt in 0..=self.retries {
            if attempt > 0 {
                std::thread::sleep((PAUSE * 2_u32.pow(attempt.min(10) - 1)).min(LONGEST_PAUSE));
            }
            for address in &self.addresses {
                match self.once(method, &format!("{address}/{path}"), body) {
                    Ok(asked) => return Ok(asked),
                    Err(Failure::Passing(why)) => last = format!("{address}: {why}"),
                    Err(Failure::Lasting(why)) => {
                        return Err(self.failed(path, &format!("{address}: {why}")));
                    }
                }
            }
        }
        let attempts = self.retries + 1;
        Err(self.failed(
            path,
            &format!("no answer after {attempts} attempts, the last at {last}"),
        ))
    }

    fn once(&self, method: &str, url: &str, body: Option<&Value>) -> Result<Asked<Value>, Failure> {
        let sent = match body {
            Some(body) => {
                let mut request = self.agent.post(url).header("Content-Type", CONTENT);
                request = request.header("Accept", CONTENT);
                if let Some(authorization) = &self.authorization {
                    request = request.header("Authorization", authorization);
                }
                request.send(body.to_string())
            }
            None => {
                let mut request = self.agent.get(url).header("Accept", CONTENT);
                if let Some(authorization) = &self.authorization {
                    request = request.header("Authorization", authorization);
                }
                request.call()
            }
        };
        let mut response = sent.map_err(|e| Failure::Passing(e.to_string()))?;
        let status = response.status();
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER)
            .read_to_string();
        let text = text.map_err(|e| Failure::Passing(e.to_string()))?;
        let answer: Option<Value> = serde_json::from_str(&text).ok();
        let said = answer
            .as_ref()
            .and_then(|a| a.get("message"))
            .and_then(Value::as_str);
        let said = format!(
            "status {}: {}",
            status.as_u16(),
            said.unwrap_or("no reason given")
        );
        match (status, answer) {
            (status, Some(answer)) if status.is_success() => Ok(Asked::Found(answer)),
            (StatusCode::NOT_FOUND, Some(answer)) if answer.get("error_code").is_some() => {
                Ok(Asked::Unknown(said))
            }
            (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS, _) => {
                Err(Failure::Passing(said))
            }
            (status, _) if status.is_server_error() => Err(Failure::Passing(said)),
            _ => Err(Failure::Lasting(format!("{method} refused, {said}"))),
        }
    }

    fn failed(&self, path: &str, why: &str) -> datafusion::error::DataFusionError {
        SparkError::external(
            "SCHEMA_REGISTRY",
            format!("{}: schema registry, {path}: {why}", self.function),
        )
    }
}

fn encoded(subject: &str) -> String {
    utf8_percent_encode(subject, NON_ALPHANUMERIC).to_string()
}

/// An address without its credentials and without a slash at its end, and what the credentials are as a header.
fn address_of(text: &str) -> Option<(String, Option<String>)> {
    let mut url = Url::parse(text).ok()?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || url.query().is_some() {
        return None;
    }
    let inside = (!url.username().is_empty()).then(|| {
        let plain = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8_lossy()
                .into_owned()
        };
        basic(&format!(
            "{}:{}",
            plain(url.username()),
            plain(url.password().unwrap_or(""))
        ))
    });
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some((url.as_str().trim_end_matches('/').to_owned(), inside))
}

fn basic(user_info: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(user_info);
    format!("Basic {encoded}")
}

fn authorization(options: &Options) -> Result<Option<String>> {
    let (user, token) = (
        options.get("basic.auth.user.info"),
        options.get("bearer.auth.token"),
    );
    let fits = |text: &str| !text.bytes().any(|b| b.is_ascii_control());
    match (user, token) {
        (Some(_), Some(_)) => {
            Err(options.wrong("bearer.auth.token", "absent beside 'basic.auth.user.info'"))
        }
        (Some(user), None) if user.contains(':') => Ok(Some(basic(user))),
        (Some(_), None) => Err(options.wrong("basic.auth.user.info", "user:password")),
        (None, Some(token)) if !token.is_empty() && fits(token) => {
            Ok(Some(format!("Bearer {token}")))
        }
        (None, Some(_)) => Err(options.wrong("bearer.auth.token", "a token on one line")),
        (None, None) => Ok(None),
    }
}

/// TLS with the system's certificates, or with those of a file alone.
fn tls(options: &Options) -> Result<TlsConfig> {
    let roots = match options.get("schema.registry.ssl.ca.location") {
        None => RootCerts::PlatformVerifier,
        Some(path) => {
            let unreadable = |why: String| {
                let allowed = format!("a file of certificates in PEM, {path} is not: {why}");
                options.wrong("schema.registry.ssl.ca.location", &allowed)
            };
            let pem = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
            let items = parse_pem(&pem).collect::<Result<Vec<_>, _>>();
            let items = items.map_err(|e| unreadable(e.to_string()))?;
            let certificates: Vec<Certificate<'static>> = items
                .into_iter()
                .filter_map(|item| match item {
                    PemItem::Certificate(certificate) => Some(certificate),
                    _ => None,
                })
                .collect();
            if certificates.is_empty() {
                return Err(unreadable("it has no certificate".into()));
            }
            RootCerts::new_with_certs(&certificates)
        }
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::NativeTls)
        .root_certs(roots)
        .build())
}
