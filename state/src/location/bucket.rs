//! Buckets by their addresses: `s3://bucket/prefix` and the like, taken letter by letter.

use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use super::requests::error_of;
use super::settings::{ObjectStoreSettings, Secrets};
use crate::error::{Result, StateError};

/// The features that bring object stores, each with the schemes of their addresses.
const FEATURES: [(&str, &[&str]); 3] = [
    ("aws", &["s3", "s3a"]),
    ("gcp", &["gs"]),
    ("azure", &["az", "azure", "adl", "abfs", "abfss"]),
];

/// A bucket and a prefix in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bucket<'a> {
    pub(crate) scheme: &'a str,
    /// The bucket, or the container and its account.
    pub(crate) host: &'a str,
    /// Without a slash at either end.
    pub(crate) prefix: &'a str,
}

impl<'a> Bucket<'a> {
    /// The bucket of an address whose scheme is `scheme`.
    ///
    /// # Errors
    /// What an address cannot have; keys that stand in it are not repeated.
    pub(crate) fn of(scheme: &'a str, rest: &'a str) -> Result<Self> {
        let rest = rest.trim_matches('/');
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let of_azure = feature_of(scheme) == Some("azure");
        let reason = match (host.is_empty(), host.contains(':'), host.contains('@')) {
            (true, ..) => "it names no bucket",
            (_, true, _) | (_, _, true) if !of_azure || host.contains(':') => {
                "a bucket has no `:` or `@` in its name, and keys do not stand in an address: set `fs.s3a.access.key` and \
                 `fs.s3a.secret.key`"
            }
            _ => {
                return Ok(Self {
                    scheme,
                    host,
                    prefix: prefix.trim_matches('/'),
                });
            }
        };
        Err(StateError::InvalidLocation {
            location: format!("{scheme}://…"),
            reason: reason.to_owned(),
        })
    }

    /// The address.
    pub(crate) fn display(&self) -> String {
        let Self {
            scheme,
            host,
            prefix,
        } = self;
        match prefix.is_empty() {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}/{prefix}"),
        }
    }

    /// The store of the bucket.
    pub(super) fn open(
        &self,
        settings: &ObjectStoreSettings,
        secrets: &Secrets,
    ) -> Result<Arc<dyn ObjectStore>> {
        settings.check_keys()?;
        self.store(settings).map_err(|error| match error {
            // What the library answers for an unknown scheme and for one whose feature is off.
            object_store::Error::Generic {
                store: "parse_url" | "URL",
                ..
            } => StateError::UnsupportedScheme {
                location: self.display(),
                scheme: self.scheme.to_owned(),
            },
            error => error_of(secrets, "open", self.display(), error),
        })
    }

    fn store(&self, settings: &ObjectStoreSettings) -> object_store::Result<Arc<dyn ObjectStore>> {
        #[cfg(feature = "aws")]
        {
            if feature_of(self.scheme) == Some("aws") {
                return super::s3::open(self.host, settings, vendor_variables());
            }
        }
        #[cfg(not(feature = "aws"))]
        let _ = settings;
        let address = format!("{}://{}", self.scheme, self.host);
        let url = Url::parse(&address).map_err(|error| object_store::Error::Generic {
            store: "address",
            source: Box::new(error),
        })?;
        let (store, _) = object_store::parse_url_opts(&url, vendor_variables())?;
        Ok(Arc::from(store))
    }
}

/// The feature that brings the object store of a scheme; `None` if none does.
pub(crate) fn feature_of(scheme: &str) -> Option<&'static str> {
    let known = FEATURES
        .iter()
        .find(|(_, schemes)| schemes.contains(&scheme));
    known.map(|(feature, _)| *feature)
}

/// The environment variables object stores are configured by.
fn vendor_variables() -> Vec<(String, String)> {
    const VENDORS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| VENDORS.iter().any(|vendor| key.starts_with(vendor)))
        .collect()
}
