//! [`ObjectStoreSettings`]: how object stores are reached, by the names Hadoop and Spark have for it.
//!
//! What is not set comes from the environment variables of the vendor (`AWS_*`, `GOOGLE_*`, `AZURE_*`). Secrets are in no text:
//! neither in what `Debug` shows nor in errors.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Result, StateError};

/// Stands for every value that is nobody's business.
const REDACTED: &str = "*********(redacted)";

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStoreSetting {
    /// Its name, as Hadoop spells it.
    pub name: &'static str,
    /// What holds where it is not given; empty text where nothing does.
    pub default: &'static str,
    /// What it does, one phrase.
    pub meaning: &'static str,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> ObjectStoreSetting {
    ObjectStoreSetting {
        name,
        default,
        meaning,
    }
}

pub(super) const ENDPOINT: &str = "fs.s3a.endpoint";
pub(super) const REGION: &str = "fs.s3a.endpoint.region";
pub(super) const ACCESS_KEY: &str = "fs.s3a.access.key";
pub(super) const SECRET_KEY: &str = "fs.s3a.secret.key";
pub(super) const SESSION_TOKEN: &str = "fs.s3a.session.token";
pub(super) const PROVIDER: &str = "fs.s3a.aws.credentials.provider";
pub(super) const PATH_STYLE: &str = "fs.s3a.path.style.access";
pub(super) const TLS: &str = "fs.s3a.connection.ssl.enabled";
pub(super) const ATTEMPTS: &str = "fs.s3a.attempts.maximum";
pub(super) const CONNECT_TIMEOUT: &str = "fs.s3a.connection.establish.timeout";
pub(super) const REQUEST_TIMEOUT: &str = "fs.s3a.connection.request.timeout";

/// The settings that say who asks: given together, they are replaced together.
const CREDENTIALS: [&str; 4] = [ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, PROVIDER];

/// Requests are not signed.
const ANONYMOUS: &str = "AnonymousAWSCredentialsProvider";
/// Requests are signed with access key and secret key, the latter also with a session token.
const BY_KEYS: [&str; 2] = [
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
];

/// Every setting, in the order in which the documentation lists them. They hold for `s3://` and `s3a://`.
pub const OBJECT_STORE_SETTINGS: &[ObjectStoreSetting] = &[
    setting(
        ENDPOINT,
        "",
        "`s3://`, `s3a://`: where the store is, a host with or without port, or `http://` or `https://` and that; AWS_ENDPOINT_URL, \
         or AWS by its region, unless given",
    ),
    setting(REGION, "us-east-1", "the region; AWS_REGION unless given"),
    setting(
        ACCESS_KEY,
        "",
        "access key, together with the secret key; without them AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, web identity, container or \
         instance",
    ),
    setting(SECRET_KEY, "", "secret key; in no log and no error"),
    setting(
        SESSION_TOKEN,
        "",
        "token of temporary keys; in no log and no error",
    ),
    setting(
        PROVIDER,
        "",
        "with `AnonymousAWSCredentialsProvider` requests are not signed, for public buckets; also allowed are \
         `SimpleAWSCredentialsProvider` and `TemporaryAWSCredentialsProvider`, which say that keys are given",
    ),
    setting(
        PATH_STYLE,
        "true",
        "whether the bucket stands in the path of a request, which every store understands, or in its host",
    ),
    setting(
        TLS,
        "true",
        "whether an endpoint without `http://` or `https://` is reached by TLS",
    ),
    setting(
        ATTEMPTS,
        "5",
        "how often a request is tried, from 1 to 100, and not longer than a minute; then the query's restarts take over",
    ),
    setting(
        CONNECT_TIMEOUT,
        "5s",
        "most time for a connection, a number with a unit: ms, s or m",
    ),
    setting(
        REQUEST_TIMEOUT,
        "30s",
        "most time for one attempt of a request, a number with a unit: ms, s or m",
    ),
];

/// How object stores are reached. `Debug` shows no secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ObjectStoreSettings {
    values: BTreeMap<&'static str, String>,
}

impl ObjectStoreSettings {
    /// The name of a setting as it stands in [`OBJECT_STORE_SETTINGS`], given in any letter case; `None` if there is none.
    #[must_use]
    pub fn known(name: &str) -> Option<&'static str> {
        let mut all = OBJECT_STORE_SETTINGS.iter().map(|setting| setting.name);
        all.find(|known| known.eq_ignore_ascii_case(name))
    }

    /// Sets a value, by name in any letter case.
    ///
    /// # Errors
    /// [`StateError::InvalidSetting`] if there is no such setting or the value is not allowed; secrets are not repeated.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(known) = Self::known(name) else {
            let names: Vec<&str> = OBJECT_STORE_SETTINGS.iter().map(|s| s.name).collect();
            return Err(StateError::InvalidSetting {
                name: name.to_owned(),
                reason: "is unknown".to_owned(),
                allowed: names.join(", "),
            });
        };
        let value = value.trim();
        if let Err(allowed) = check(known, value) {
            let shown = match is_secret(known) {
                true => REDACTED,
                false => value,
            };
            return Err(StateError::InvalidSetting {
                name: known.to_owned(),
                reason: format!("has the value '{shown}'"),
                allowed: allowed.to_owned(),
            });
        }
        self.values.insert(known, value.to_owned());
        Ok(())
    }

    /// These settings, and `others` where these say nothing. Who asks (keys, token, provider) is taken from one of both as a whole.
    #[must_use]
    pub fn or(mut self, others: &Self) -> Self {
        let named = CREDENTIALS.iter().any(|name| self.get(name).is_some());
        for (name, value) in &others.values {
            if !(named && CREDENTIALS.contains(name)) {
                self.values.entry(*name).or_insert_with(|| value.clone());
            }
        }
        self
    }

    /// A value by the name in the table.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether requests are not signed.
    pub(super) fn is_anonymous(&self) -> bool {
        self.get(PROVIDER)
            .is_some_and(|provider| provider.ends_with(ANONYMOUS))
    }

    /// Whether keys are needed or given.
    pub(super) fn has_keys(&self) -> bool {
        let by_keys = |provider: &str| BY_KEYS.iter().any(|name| provider.ends_with(name));
        self.get(PROVIDER).is_some_and(by_keys)
            || [ACCESS_KEY, SECRET_KEY, SESSION_TOKEN]
                .iter()
                .any(|name| self.get(name).is_some())
    }

    /// Refuses half a pair of keys.
    pub(super) fn check_keys(&self) -> Result<()> {
        if !self.has_keys() || self.is_anonymous() {
            return Ok(());
        }
        match [ACCESS_KEY, SECRET_KEY]
            .into_iter()
            .find(|name| self.get(name).is_none())
        {
            None => Ok(()),
            Some(missing) => Err(StateError::InvalidSetting {
                name: missing.to_owned(),
                reason: "is missing".to_owned(),
                allowed: format!(
                    "{ACCESS_KEY} and {SECRET_KEY} together, or neither: then the environment says who asks"
                ),
            }),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(flag)
    }

    /// Values that must be in no text.
    pub(super) fn secrets(&self) -> Secrets {
        let own = [SECRET_KEY, SESSION_TOKEN].map(|name| self.get(name).map(str::to_owned));
        let of_environment = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].map(std::env::var);
        let all = own
            .into_iter()
            .flatten()
            .chain(of_environment.into_iter().flatten());
        Secrets(all.filter(|secret| !secret.is_empty()).collect())
    }
}

impl fmt::Debug for ObjectStoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&&'static str, &String)| match is_secret(name) {
            true => (*name, REDACTED.to_owned()),
            false => (*name, value.clone()),
        };
        f.debug_map()
            .entries(self.values.iter().map(shown))
            .finish()
    }
}

fn is_secret(name: &str) -> bool {
    [ACCESS_KEY, SECRET_KEY, SESSION_TOKEN].contains(&name)
}

/// Values that must be in no text.
#[derive(Clone, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// The text without any of them; `None` if none is in it.
    pub(super) fn mask(&self, text: &str) -> Option<String> {
        let found = |secret: &&String| text.contains(secret.as_str());
        let mut there = self.0.iter().filter(found).peekable();
        there.peek()?;
        Some(there.fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), REDACTED)
        }))
    }
}

/// Whether a value is allowed; if not, what is.
fn check(name: &str, value: &str) -> Result<(), &'static str> {
    let (is_valid, allowed) = match name {
        ENDPOINT => (
            url_of(value, true).is_some(),
            "a host with or without port, or http:// or https:// and that",
        ),
        PATH_STYLE | TLS => (flag(value).is_some(), "true, false"),
        PROVIDER => (
            [ANONYMOUS]
                .iter()
                .chain(&BY_KEYS)
                .any(|known| value.rsplit('.').next() == Some(*known)),
            "AnonymousAWSCredentialsProvider, SimpleAWSCredentialsProvider, TemporaryAWSCredentialsProvider",
        ),
        ATTEMPTS => (attempts(value).is_some(), "a whole number from 1 to 100"),
        CONNECT_TIMEOUT | REQUEST_TIMEOUT => (
            time(value).is_some(),
            "a number above 0 with a unit: ms, s or m",
        ),
        _ => (!value.is_empty(), "a text that is not empty"),
    };
    is_valid.then_some(()).ok_or(allowed)
}

/// The URL of an endpoint that may lack its scheme.
pub(super) fn url_of(endpoint: &str, tls: bool) -> Option<url::Url> {
    let text = match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false if tls => format!("https://{endpoint}"),
        false => format!("http://{endpoint}"),
    };
    let url = url::Url::parse(&text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some(url)
}

fn flag(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

pub(super) fn attempts(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (1..=100).contains(&number).then_some(number)
}

/// A number and a unit; a number alone is milliseconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    let millis = number.checked_mul(millis).filter(|millis| *millis > 0)?;
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> ObjectStoreSettings {
        let mut settings = ObjectStoreSettings::default();
        for (name, value) in pairs {
            settings.set(name, value).expect(name);
        }
        settings
    }

    #[test]
    fn settings_have_any_letter_case_and_what_is_not_allowed_is_refused() {
        let settings = of(&[("FS.S3A.Endpoint", "127.0.0.1:9000"), (TLS, "False")]);
        assert_eq!(settings.get(ENDPOINT), Some("127.0.0.1:9000"));
        assert_eq!(settings.flag(TLS), Some(false));
        for (name, value) in [
            (ENDPOINT, "ftp://host"),
            (ENDPOINT, "http://user:pass@host"),
            (ENDPOINT, ""),
            (PATH_STYLE, "maybe"),
            (PROVIDER, "com.example.Provider"),
            (ATTEMPTS, "0"),
            (ATTEMPTS, "101"),
            (REQUEST_TIMEOUT, "soon"),
            (CONNECT_TIMEOUT, "0s"),
            (REGION, " "),
            ("fs.s3a.nothing", "x"),
        ] {
            let error = ObjectStoreSettings::default().set(name, value);
            let error = error.expect_err(name).to_string();
            assert!(error.contains(name) && error.contains("allowed"), "{error}");
        }
    }

    #[test]
    fn secrets_are_in_no_text() {
        let settings = of(&[
            (ACCESS_KEY, "AKIAHUSH"),
            (SECRET_KEY, "hush-hush"),
            (SESSION_TOKEN, "hush-token"),
            (ENDPOINT, "host"),
        ]);
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("host") && !shown.to_lowercase().contains("hush"),
            "{shown}"
        );
        let masked = settings
            .secrets()
            .mask("sent hush-hush and hush-token away");
        assert_eq!(
            masked.as_deref(),
            Some("sent *********(redacted) and *********(redacted) away")
        );
        assert_eq!(settings.secrets().mask("nothing to see"), None);
    }

    #[test]
    fn settings_of_two_places_are_merged_and_keys_are_never_mixed() {
        let session = of(&[
            (ENDPOINT, "session"),
            (ACCESS_KEY, "a"),
            (SECRET_KEY, "b"),
            (SESSION_TOKEN, "c"),
        ]);
        let own = of(&[(ENDPOINT, "own")]).or(&session);
        assert_eq!(own.get(ENDPOINT), Some("own"));
        assert_eq!(own.get(SECRET_KEY), Some("b"));
        let keys = of(&[(ACCESS_KEY, "x"), (SECRET_KEY, "y")]).or(&session);
        assert_eq!(
            (keys.get(SECRET_KEY), keys.get(SESSION_TOKEN)),
            (Some("y"), None)
        );
        assert_eq!(keys.get(ENDPOINT), Some("session"));
        let anonymous = format!("org.apache.hadoop.fs.s3a.{ANONYMOUS}");
        let anonymous = of(&[(PROVIDER, &anonymous)]).or(&session);
        assert!(anonymous.is_anonymous() && !anonymous.has_keys());
    }

    #[test]
    fn half_a_pair_of_keys_is_refused() {
        for (name, missing) in [
            (ACCESS_KEY, SECRET_KEY),
            (SECRET_KEY, ACCESS_KEY),
            (SESSION_TOKEN, ACCESS_KEY),
        ] {
            let error = of(&[(name, "hush")]).check_keys().expect_err(name);
            let text = error.to_string();
            assert!(
                text.contains(missing) && !text.contains("hush"),
                "{error:?}"
            );
        }
        assert!(
            of(&[(ACCESS_KEY, "x"), (SECRET_KEY, "y")])
                .check_keys()
                .is_ok()
        );
        assert!(ObjectStoreSettings::default().check_keys().is_ok());
    }

    #[test]
    fn endpoints_without_a_scheme_get_one() {
        let url = |text, tls| url_of(text, tls).map(|url| url.to_string());
        assert_eq!(
            url("minio:9000", false).as_deref(),
            Some("http://minio:9000/")
        );
        assert_eq!(
            url("minio:9000", true).as_deref(),
            Some("https://minio:9000/")
        );
        assert_eq!(
            url("http://minio:9000", true).as_deref(),
            Some("http://minio:9000/")
        );
    }
}
