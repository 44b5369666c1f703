//! A bucket of the test's own, and sessions that reach it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use weir::prelude::*;

/// Keys as long as those of AWS; the server takes any.
pub(crate) const ACCESS_KEY: &str = "AKIAWEIRTESTWEIRTEST";
/// In no text: `secrets.rs`.
pub(crate) const SECRET_KEY: &str = "hush+hush/this-is-nobodys-business";

/// A server, by the variable that `scripts/test-s3.sh` sets.
pub(crate) fn server(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run scripts/test-s3.sh"))
}

pub(crate) fn endpoint() -> String {
    server("WEIR_S3_ENDPOINT")
}

/// Sends the requests of the tests themselves, none of which takes long.
pub(crate) fn http() -> ureq::Agent {
    let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(30)));
    config.build().into()
}

/// One bucket on the server, new for every test.
pub(crate) struct Bucket {
    pub(crate) name: String,
    store: Arc<dyn ObjectStore>,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let name = format!("weir-{}", uuid());
        let made = http().put(&format!("{}/{name}", endpoint())).send_empty();
        assert_eq!(made.unwrap().status(), 200, "a new bucket");
        Self::of(&name)
    }

    /// The bucket of that name, which is there.
    pub(crate) fn of(name: &str) -> Self {
        let store = AmazonS3Builder::new()
            .with_bucket_name(name)
            .with_endpoint(endpoint())
            .with_allow_http(true)
            .with_access_key_id(ACCESS_KEY)
            .with_secret_access_key(SECRET_KEY)
            .build();
        Self {
            name: name.to_owned(),
            store: Arc::new(store.unwrap()),
        }
    }

    pub(crate) fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    pub(crate) async fn put(&self, key: &str, content: impl Into<Vec<u8>>) {
        let content: Vec<u8> = content.into();
        let put = self
            .store
            .put(&Path::parse(key).unwrap(), content.into())
            .await;
        put.unwrap();
    }

    /// An empty object whose key is `key`, letter by letter, as consoles make "folders".
    pub(crate) fn put_folder(&self, key: &str) {
        let url = format!("{}/{}/{key}", endpoint(), self.name);
        assert_eq!(http().put(&url).send_empty().unwrap().status(), 200);
    }

    pub(crate) async fn get(&self, key: &str) -> Vec<u8> {
        let object = self.store.get(&Path::parse(key).unwrap()).await.unwrap();
        object.bytes().await.unwrap().to_vec()
    }

    /// Keys below a prefix.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let prefix = Path::parse(prefix).unwrap();
        let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
        let found: Vec<_> = self.store.list(below).try_collect().await.unwrap();
        let mut keys: Vec<String> = found
            .into_iter()
            .map(|meta| meta.location.to_string())
            .collect();
        keys.sort();
        keys
    }
}

pub(crate) fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// How the server is reached, as a program writes it.
pub(crate) fn settings(endpoint: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("fs.s3a.endpoint", endpoint.to_owned()),
        ("fs.s3a.access.key", ACCESS_KEY.to_owned()),
        ("fs.s3a.secret.key", SECRET_KEY.to_owned()),
        ("fs.s3a.path.style.access", "true".to_owned()),
    ])
}

/// A session that reaches a server by its settings.
pub(crate) fn session_at(endpoint: &str) -> Session {
    let plain = Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false);
    let with = |builder: weir::SessionBuilder, (key, value): (&'static str, String)| {
        builder.config(format!("spark.hadoop.{key}"), value)
    };
    let session = settings(endpoint).into_iter().fold(plain, with);
    session.build().unwrap()
}

pub(crate) fn session() -> Session {
    session_at(&endpoint())
}

/// A session that knows no server.
pub(crate) fn plain_session() -> Session {
    let builder = Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false);
    builder.build().unwrap()
}
