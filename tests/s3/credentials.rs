//! Who asks: keys that a server checks, keys it does not know, and nobody.

use std::sync::OnceLock;

use weir::prelude::*;

use crate::bucket::{ACCESS_KEY, Bucket, SECRET_KEY, endpoint, http, plain_session, server};
use crate::stages::{all_of, end, soon};
use crate::texts::texts;

/// A server that lets in whom it knows.
struct Strict {
    endpoint: String,
    bucket: String,
    access_key: String,
    secret_key: String,
}

/// What stands between two tags of an XML text.
fn tag(text: &str, name: &str) -> String {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("{text}")) + begin.len();
    text[from..from + text[from..].find(&end).unwrap()].to_owned()
}

impl Strict {
    /// Makes a user who may do anything and a bucket, which the server lets pass while it is new.
    fn get() -> &'static Self {
        static STRICT: OnceLock<Strict> = OnceLock::new();
        STRICT.get_or_init(|| {
            let endpoint = server("WEIR_S3_STRICT_ENDPOINT");
            let sign = |service: &str| {
                format!(
                    "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/{service}/aws4_request, \
                     SignedHeaders=host, Signature=0"
                )
            };
            let iam = |action: &str| {
                let request = http()
                    .post(&endpoint)
                    .header("Authorization", sign("iam"))
                    .header("Content-Type", "application/x-www-form-urlencoded");
                let body = format!("Version=2010-05-08&UserName=weir&Action={action}");
                let mut answer = request.send(body).unwrap();
                answer.body_mut().read_to_string().unwrap()
            };
            iam("CreateUser");
            let keys = iam("CreateAccessKey");
            iam(
                "PutUserPolicy&PolicyName=all&PolicyDocument=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%7B\
                 %22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22*%22%2C%22Resource%22%3A%22*%22%7D%7D",
            );
            let bucket = "weir-strict";
            let made = http()
                .put(&format!("{endpoint}/{bucket}"))
                .header("Authorization", sign("s3"))
                .send_empty();
            assert_eq!(made.unwrap().status(), 200);
            Self {
                bucket: bucket.to_owned(),
                access_key: tag(&keys, "AccessKeyId"),
                secret_key: tag(&keys, "SecretAccessKey"),
                endpoint,
            }
        })
    }

    fn session(&self, access_key: &str, secret_key: &str) -> Session {
        let session = plain_session();
        for (key, value) in [
            ("fs.s3a.endpoint", self.endpoint.as_str()),
            ("fs.s3a.access.key", access_key),
            ("fs.s3a.secret.key", secret_key),
        ] {
            session.conf().set(key, value).unwrap();
        }
        session
    }

    /// One row from local files into the bucket.
    async fn write(&self, session: &Session, name: &str) -> Result<()> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a.json"), "{\"v\":1,\"k\":\"x y\"}\n").unwrap();
        let url = |part: &str| format!("s3a://{}/{name}/{part}", self.bucket);
        let frame = session
            .read_stream()
            .format("json")
            .schema("v BIGINT, k STRING")
            .load(home.path().to_str().unwrap())?;
        let writer = frame.write_stream().format("json").partition_by(["k"]);
        let writer = writer.checkpoint(&url("checkpoint"));
        let writer = writer.trigger(Trigger::AvailableNow);
        let query = soon("a start", writer.start_path(&url("out"))).await?;
        end(&query).await
    }
}

#[tokio::test]
async fn credentials_sign_requests_as_the_server_checks_them() {
    // No space: it stands in a listing's query as `+`, which this server, unlike others, does not check as `%20`.
    let name = "signed#%";
    let strict = Strict::get();
    let session = strict.session(&strict.access_key, &strict.secret_key);
    strict.write(&session, name).await.unwrap();
    let table = session.read().format("json").schema("v BIGINT, k STRING");
    let url = format!("s3a://{}/{name}/out", strict.bucket);
    let rows = table.load(&url).await.unwrap().collect().await.unwrap();
    assert_eq!(texts(&rows), ["1|x y"]);
}

#[tokio::test]
async fn credentials_that_are_wrong_are_an_error_that_names_server_and_reason() {
    let strict = Strict::get();
    for (access_key, secret_key, reason) in [
        (ACCESS_KEY, SECRET_KEY, "InvalidAccessKeyId"),
        (
            strict.access_key.as_str(),
            SECRET_KEY,
            "SignatureDoesNotMatch",
        ),
    ] {
        let session = strict.session(access_key, secret_key);
        let error = strict.write(&session, "refused").await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.contains(&strict.endpoint),
            "{text}"
        );
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        let table = session.read().format("json").schema("v BIGINT");
        let table = table.load(&format!("s3://{}/in", strict.bucket)).await;
        let text = table.unwrap_err().to_string();
        assert!(text.contains(reason) && !text.contains("hush"), "{text}");
    }
}

#[tokio::test]
async fn credentials_may_be_nobodys_where_a_bucket_is_public() {
    let bucket = Bucket::new();
    let public = format!("{}/{}/in/a.json", endpoint(), bucket.name);
    let put = http().put(&public).header("x-amz-acl", "public-read");
    put.send("{\"v\":1}\n").unwrap();
    bucket.put("private/b.json", "{\"v\":2}\n").await;
    let read = |path: &str| {
        plain_session()
            .read_stream()
            .format("json")
            .schema("v BIGINT")
            .option("fs.s3a.endpoint", endpoint())
            .option(
                "fs.s3a.aws.credentials.provider",
                "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
            )
            .load(&bucket.url(path))
            .unwrap()
    };
    assert_eq!(all_of(&read("in"), "memory://s3-anonymous").await, ["1"]);
    let writer = read("private").write_stream().format("noop");
    let writer = writer.trigger(Trigger::AvailableNow);
    let query = soon("a start", writer.start()).await.unwrap();
    let error = end(&query).await.unwrap_err().to_string();
    let object = bucket.url("private/b.json");
    assert!(
        error.contains(&object) && error.contains("403 Forbidden"),
        "{error}"
    );
}

#[tokio::test]
async fn credentials_that_nobody_gave_are_asked_for_by_name() {
    server("AWS_METADATA_ENDPOINT");
    let read = plain_session().read_stream().format("json");
    let read = read
        .schema("v BIGINT")
        .option("fs.s3a.endpoint", endpoint())
        .option("fs.s3a.attempts.maximum", 2);
    let error = read.load("s3://bucket/in").unwrap_err().to_string();
    assert!(
        error.contains("fs.s3a.access.key") && error.contains("AWS_ACCESS_KEY_ID"),
        "{error}"
    );
}
