//! Keys are in no log, error, progress, plan and file.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use weir::prelude::*;
use weir::runtime::RestartPolicy;

use crate::bucket::{Bucket, SECRET_KEY, endpoint, plain_session, settings, uuid};
use crate::stages::{COLUMNS, end, lines, soon};

/// What was logged, by any test of this process.
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        logged.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen() {
    let filter = EnvFilter::new("debug,weir=trace,object_store=trace");
    let logging = tracing_subscriber::fmt().with_env_filter(filter);
    logging.with_writer(|| Log).with_ansi(false).init();
}

#[tokio::test]
async fn secrets_are_in_nothing_that_people_see() {
    listen();
    let (bucket, session) = (Bucket::new(), plain_session());
    bucket.put("in/0.json", lines(0, 3)).await;
    let mut seen = Vec::new();
    let start = |endpoint: String, output: String, checkpoint: String| {
        let frame = session.read_stream().format("json").schema(COLUMNS);
        let frame = frame.options(settings(&crate::bucket::endpoint()));
        let frame = frame.load(&bucket.url("in")).unwrap();
        let explained = frame.explain();
        let writer = frame
            .write_stream()
            .format("json")
            .options(settings(&endpoint))
            .option("fs.s3a.attempts.maximum", 1)
            .engine(QueryConfig {
                restart: RestartPolicy {
                    max_attempts: 1,
                    ..RestartPolicy::default()
                },
                ..QueryConfig::default()
            })
            .trigger(Trigger::AvailableNow)
            .checkpoint(&checkpoint);
        async move { (explained, soon("a start", writer.start_path(&output)).await) }
    };
    let (explained, query) = start(endpoint(), bucket.url("out"), bucket.url("checkpoint")).await;
    let query = query.unwrap();
    end(&query).await.unwrap();
    seen.push(explained);
    seen.push(query.explain(true));
    seen.push(query.to_dot().to_owned());
    seen.push(format!("{:?}", query.status()));
    assert!(!query.recent_progress().is_empty());
    seen.extend(query.recent_progress().iter().map(QueryProgress::json));
    let nowhere = "http://127.0.0.1:9".to_owned();
    for (endpoint, output, checkpoint) in [
        (endpoint(), "s3://nowhere/out", bucket.url("another")),
        (nowhere.clone(), "s3://bucket/out", bucket.url("third")),
        // The checkpoint is there, so the query itself meets no server, tries once more and logs why.
        (
            nowhere.clone(),
            "s3://bucket/out",
            format!("memory://s3-{}", uuid()),
        ),
    ] {
        let query = start(endpoint, output.to_owned(), checkpoint).await.1;
        let error = query.unwrap_err();
        seen.push(format!("{error} {error:?}"));
    }
    let session = Session::builder().config("fs.s3a.secret.key", SECRET_KEY);
    seen.push(format!("{session:?}"));
    for key in bucket.keys("").await {
        seen.push(String::from_utf8_lossy(&bucket.get(&key).await).into_owned());
    }
    let logged = LOGGED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let logged = String::from_utf8_lossy(&logged).into_owned();
    let mut restarts = logged.lines().filter(|line| line.contains("; restarting"));
    assert!(
        restarts.any(|line| line.contains("weir_runtime") && line.contains(&nowhere)),
        "the log says why the query was tried again"
    );
    seen.push(logged);
    assert!(seen.len() > 15, "{}", seen.len());
    for text in seen {
        let found = text.find(SECRET_KEY).or_else(|| text.find("hush"));
        let around = found.map(|at| &text[at.saturating_sub(200)..at]);
        assert_eq!(around, None, "a secret follows");
    }
}

/// Everything that is made from settings, as `Debug` shows it.
#[test]
fn secrets_are_not_shown_by_sources_and_sinks() {
    let options: std::collections::BTreeMap<String, String> = settings("http://127.0.0.1:9")
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let schema = weir::types::parse_schema(COLUMNS).unwrap();
    let source = weir::connectors::file::source::FileSourceConfig::from_options(
        "json",
        "s3://bucket/in",
        Some(Arc::clone(&schema)),
        &options,
    );
    let sink = weir::connectors::file::sink::FileSinkConfig::from_options(
        "json",
        "s3://bucket/out",
        &[],
        &options,
    );
    for shown in [
        format!("{:?}", source.unwrap()),
        format!("{:?}", sink.unwrap()),
    ] {
        assert!(shown.contains("fs.s3a.endpoint"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
    }
}
