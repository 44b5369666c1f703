//! What cannot be is told by name, soon, and by whose fault.

use std::net::TcpListener;
use std::time::Duration;

use weir::prelude::*;
use weir::runtime::Fault;

use crate::bucket::{Bucket, endpoint, plain_session, session, settings, uuid};
use crate::stages::{COLUMNS, Job, lines};

#[tokio::test]
async fn refusal_of_a_bucket_that_is_not_there_names_it() {
    let (bucket, session) = (Bucket::new(), session());
    bucket.put("in/0.json", lines(0, 3)).await;
    let nowhere = format!("s3://nowhere-{}", bucket.name);
    let reading = session.read_stream().format("json").schema(COLUMNS);
    let source = reading.load(&format!("{nowhere}/in")).unwrap_err();
    let table = session.read().format("json").schema(COLUMNS);
    let table = table.load(&format!("{nowhere}/in")).await.unwrap_err();
    let sink = Job {
        output: format!("{nowhere}/out"),
        ..Job::of(&bucket, "sink")
    };
    let sink = sink.run(&session).await.unwrap_err();
    let checkpoint = Job {
        checkpoint: format!("{nowhere}/checkpoint"),
        ..Job::of(&bucket, "checkpoint")
    };
    let checkpoint = checkpoint.run(&session).await.unwrap_err();
    for error in [source, table, sink, checkpoint] {
        let text = error.to_string();
        assert_eq!(error.fault(), Fault::Config, "{text}");
        assert!(
            text.contains(&nowhere) && text.contains("does not exist"),
            "{text}"
        );
    }
    let error = session.read_stream().format("json").schema(COLUMNS);
    let error = error.load(&bucket.url("empty")).unwrap_err();
    assert_eq!(error.condition(), Some("PATH_NOT_FOUND"), "{error}");
}

/// Reads, writes and keeps a checkpoint in a bucket of a server; the errors.
async fn errors(endpoint: &str, options: &[(&str, &str)]) -> Vec<WeirError> {
    let session = plain_session();
    for (key, value) in settings(endpoint) {
        session.conf().set(key, value).unwrap();
    }
    for (key, value) in options {
        session.conf().set(key, value).unwrap();
    }
    let reading = session.read_stream().format("json").schema(COLUMNS);
    let source = reading.load("s3a://bucket/in").unwrap_err();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.json"), lines(0, 1)).unwrap();
    let write = |output: &str, checkpoint: &str| {
        let frame = session.read_stream().format("json").schema(COLUMNS);
        let frame = frame.load(home.path().to_str().unwrap()).unwrap();
        let writer = frame.write_stream().format("json").checkpoint(checkpoint);
        let writer = writer.engine(QueryConfig {
            restart: weir::runtime::RestartPolicy::never(),
            ..QueryConfig::default()
        });
        let output = output.to_owned();
        async move { writer.start_path(&output).await.unwrap_err() }
    };
    let sink = write("s3://bucket/out", &format!("memory://s3-{}", uuid())).await;
    let checkpoint = write(home.path().to_str().unwrap(), "s3://bucket/checkpoint").await;
    vec![source, sink, checkpoint]
}

#[tokio::test]
async fn refusal_of_a_server_that_is_not_there_names_it_and_does_not_hang() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let endpoint = format!("http://{}", port.unwrap());
    let all = errors(&endpoint, &[]);
    let all = tokio::time::timeout(Duration::from_secs(60), all).await;
    for error in all.expect("errors within a minute") {
        let text = error.to_string();
        assert!(text.contains(&endpoint), "{text}");
        assert_eq!(error.fault(), Fault::External, "{text}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }
}

#[tokio::test]
async fn refusal_of_a_server_that_says_nothing_comes_after_the_time_it_has() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let options = [
        ("fs.s3a.connection.request.timeout", "300ms"),
        ("fs.s3a.attempts.maximum", "2"),
    ];
    let all = errors(&endpoint, &options);
    let all = tokio::time::timeout(Duration::from_secs(30), all).await;
    for error in all.expect("errors within their time") {
        let text = error.to_string();
        assert!(text.contains(&endpoint), "{text}");
    }
}

#[tokio::test]
async fn refusal_of_stores_that_are_not_built_in_names_the_feature() {
    let (session, home) = (session(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("a.json"), lines(0, 1)).unwrap();
    for (address, feature) in [
        ("gs://bucket/x", "`gcp`"),
        ("az://container/x", "`azure`"),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            "`azure`",
        ),
    ] {
        let reading = || session.read_stream().format("json").schema(COLUMNS);
        let source = reading().load(address).unwrap_err();
        let table = session.read().format("json").schema(COLUMNS);
        let table = table.load(address).await.unwrap_err();
        let frame = reading().load(home.path().to_str().unwrap()).unwrap();
        let writer = || frame.write_stream().format("json");
        let local = home.path().join("out").display().to_string();
        let sink = writer().checkpoint(&local).start_path(address).await;
        let checkpoint = writer().checkpoint(address).start_path(&local).await;
        for error in [source, table, sink.unwrap_err(), checkpoint.unwrap_err()] {
            let text = error.to_string();
            assert_eq!(error.fault(), Fault::Config, "{text}");
            assert!(text.contains(feature) && text.contains("feature"), "{text}");
        }
    }
}

#[tokio::test]
async fn refusal_of_options_names_them_and_what_is_allowed() {
    let reading = |name: &str, value: &str| {
        let read = plain_session().read_stream().format("json");
        let read = read.schema(COLUMNS).option("fs.s3a.endpoint", endpoint());
        read.option(name, value).load("s3://bucket/in").unwrap_err()
    };
    for (name, value, part) in [
        ("fs.s3a.path.style.access", "perhaps", "true, false"),
        ("fs.s3a.connection.request.timeout", "soon", "unit"),
        ("fs.s3a.endpiont", "http://x", "fs.s3a.endpoint"),
        ("fs.s3a.access.key", "hush", "fs.s3a.secret.key"),
    ] {
        let text = reading(name, value).to_string();
        assert!(text.contains("fs.s3a") && text.contains(part), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
    let read = plain_session().read_stream().format("json").schema(COLUMNS);
    let text = read.load("s3a://AKIA:hush@bucket/in").unwrap_err();
    assert!(!text.to_string().contains("hush"), "{text}");
}
