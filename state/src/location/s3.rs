//! S3 and stores that speak as S3 does, from [`ObjectStoreSettings`] and the environment variables `AWS_*`.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use super::settings::{
    ACCESS_KEY, ATTEMPTS, CONNECT_TIMEOUT, ENDPOINT, ObjectStoreSettings, PATH_STYLE, REGION,
    REQUEST_TIMEOUT, SECRET_KEY, SESSION_TOKEN, TLS, attempts, time, url_of,
};

/// How often a request is tried, unless told otherwise.
const DEFAULT_ATTEMPTS: usize = 5;
/// Time after which a request is not tried again.
const RETRIED_FOR: Duration = Duration::from_secs(60);

/// The store of a bucket.
pub(super) fn open(
    bucket: &str,
    settings: &ObjectStoreSettings,
    environment: Vec<(String, String)>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
    for (name, value) in environment {
        // Variables of other programs begin like that too.
        let Ok(key) = name.to_ascii_lowercase().parse::<Key>() else {
            continue;
        };
        let is_replaced = match key {
            Key::AccessKeyId | Key::SecretAccessKey | Key::Token => {
                settings.has_keys() || settings.is_anonymous()
            }
            Key::Endpoint | Key::S3Endpoint | Key::VirtualHostedStyleRequest => {
                settings.get(ENDPOINT).is_some()
            }
            Key::Bucket => true,
            _ => false,
        };
        if !is_replaced {
            builder = builder.with_config(key, value);
        }
    }
    for (name, key) in [
        (REGION, Key::Region),
        (ACCESS_KEY, Key::AccessKeyId),
        (SECRET_KEY, Key::SecretAccessKey),
        (SESSION_TOKEN, Key::Token),
    ] {
        if let Some(value) = settings.get(name) {
            builder = builder.with_config(key, value);
        }
    }
    if settings.is_anonymous() {
        builder = builder.with_skip_signature(true);
    }
    let builder = timed(placed(builder, bucket, settings)?, settings);
    Ok(Arc::new(builder.build()?))
}

/// Where the store is and where the bucket stands in a request.
fn placed(
    mut builder: AmazonS3Builder,
    bucket: &str,
    settings: &ObjectStoreSettings,
) -> object_store::Result<AmazonS3Builder> {
    let path_style = settings.flag(PATH_STYLE);
    if let Some(in_path) = path_style {
        builder = builder.with_virtual_hosted_style_request(!in_path);
    }
    let tls = settings.flag(TLS).unwrap_or(true);
    if let Some(mut url) = settings.get(ENDPOINT).and_then(|text| url_of(text, tls)) {
        if path_style == Some(false) {
            let host = format!("{bucket}.{}", url.host_str().unwrap_or_default());
            url.set_host(Some(&host))
                .map_err(|error| no_host(&host, error))?;
        }
        builder = builder.with_endpoint(url.as_str().trim_end_matches('/'));
    }
    let endpoint = builder
        .get_config_value(&Key::S3Endpoint)
        .or_else(|| builder.get_config_value(&Key::Endpoint));
    match endpoint {
        // Whoever writes it means it.
        Some(endpoint) if endpoint.starts_with("http://") => Ok(builder.with_allow_http(true)),
        _ => Ok(builder),
    }
}

fn no_host(host: &str, error: url::ParseError) -> object_store::Error {
    object_store::Error::Generic {
        store: "S3",
        source: format!("{PATH_STYLE} is false, and '{host}' is no host ({error}): set it to true")
            .into(),
    }
}

/// How long a request may take, and how often it is tried.
fn timed(mut builder: AmazonS3Builder, settings: &ObjectStoreSettings) -> AmazonS3Builder {
    for (name, key) in [
        (CONNECT_TIMEOUT, ClientConfigKey::ConnectTimeout),
        (REQUEST_TIMEOUT, ClientConfigKey::Timeout),
    ] {
        if let Some(time) = settings.get(name).and_then(time) {
            builder = builder.with_config(Key::Client(key), format!("{}ms", time.as_millis()));
        }
    }
    let attempts = settings.get(ATTEMPTS).and_then(attempts);
    builder.with_retry(RetryConfig {
        max_retries: attempts.unwrap_or(DEFAULT_ATTEMPTS) - 1,
        retry_timeout: RETRIED_FOR,
        ..RetryConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a store is made of, as `Debug` shows it.
    fn shown(pairs: &[(&str, &str)], environment: &[(&str, &str)]) -> String {
        let mut settings = ObjectStoreSettings::default();
        for (name, value) in pairs {
            settings.set(name, value).expect(name);
        }
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let store = open("bucket", &settings, environment.collect()).expect("a store");
        format!("{store:?}")
    }

    #[test]
    fn bucket_stands_in_the_path_or_in_the_host() {
        for (pairs, place) in [
            (&[][..], "\"https://s3.us-east-1.amazonaws.com/bucket\""),
            (
                &[(REGION, "eu-south-1"), (PATH_STYLE, "false")],
                "\"https://bucket.s3.eu-south-1.amazonaws.com\"",
            ),
            (
                &[(ENDPOINT, "minio:9000"), (TLS, "false")],
                "\"http://minio:9000/bucket\"",
            ),
            (
                &[(ENDPOINT, "https://minio/"), (PATH_STYLE, "false")],
                "\"https://bucket.minio\"",
            ),
        ] {
            let shown = shown(pairs, &[]);
            assert!(shown.contains(place), "{place}: {shown}");
        }
        let mut settings = ObjectStoreSettings::default();
        for (name, value) in [(ENDPOINT, "http://127.0.0.1:9000"), (PATH_STYLE, "false")] {
            settings.set(name, value).expect(name);
        }
        let error = open("bucket", &settings, Vec::new()).expect_err("no host");
        assert!(error.to_string().contains(PATH_STYLE), "{error}");
    }

    #[test]
    fn settings_come_before_the_environment_and_keys_of_both_are_not_mixed() {
        let environment = [
            ("AWS_ENDPOINT_URL_S3", "http://environment:9000"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_BUCKET", "another"),
            ("AWS_PROFILE", "not a setting of a store"),
        ];
        let place = "\"http://environment:9000/bucket\"";
        let from_environment = shown(&[], &environment);
        assert!(
            from_environment.contains(place) && from_environment.contains("eu-west-1"),
            "{from_environment}"
        );
        let own = shown(
            &[(ENDPOINT, "http://own"), (REGION, "own-region")],
            &environment,
        );
        assert!(
            own.contains("\"http://own/bucket\"") && own.contains("\"own-region\""),
            "{own}"
        );
    }
}
