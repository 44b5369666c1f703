//! A secured broker: TLS and SASL on the wire, and secrets nowhere else.

use std::process::Command;

use futures::executor::block_on;
use weir::connectors::kafka::sink::KafkaSink;
use weir::prelude::*;

use super::driver::Query;
use super::topics::{Isolation, client, create, read_as, values};
use crate::kafka_broker::{Broker, Secured};
use crate::support::{Kafka, value};

const CHILD: &str = "WEIR_TEST_SECURED_CHILD";

/// Properties of a client of the secured listener.
fn properties(secured: &Secured, password: &str) -> Vec<(&'static str, String)> {
    vec![
        ("security.protocol", "SASL_SSL".to_owned()),
        ("sasl.mechanism", "SCRAM-SHA-512".to_owned()),
        ("ssl.ca.location", secured.ca.display().to_string()),
        ("sasl.username", secured.user.clone()),
        ("sasl.password", password.to_owned()),
    ]
}

/// Every file below a directory, as text.
fn files(directory: &std::path::Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => texts.extend(files(&path)),
            false => {
                texts.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
            }
        }
    }
    texts
}

/// Runs a query from one topic of the secured listener into another, the source with the properties of the Java client, and gives back
/// all that it says of itself.
async fn run(secured: &Secured, [from, to]: [&str; 2], checkpoint: &str) -> Result<Vec<String>> {
    let session = Session::builder().parallelism(1).build()?;
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{}\" password=\"{}\";",
        secured.user, secured.password
    );
    let frame = session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", &secured.bootstrap)
        .option("kafka.security.protocol", "SASL_SSL")
        .option("kafka.sasl.mechanism", "SCRAM-SHA-512")
        .option("kafka.sasl.jaas.config", jaas)
        .option("kafka.ssl.truststore.type", "PEM")
        .option("kafka.ssl.truststore.location", secured.ca.display())
        .option("kafka.debug", "security,broker")
        .option("subscribe", from)
        .option("startingOffsets", "earliest")
        .open()?
        .select_expr(&["value"])?;
    let mut texts = vec![frame.explain()];
    let options = properties(secured, &secured.password)
        .into_iter()
        .map(|(name, value)| (format!("kafka.{name}"), value));
    let query = frame
        .write_stream()
        .format("kafka")
        .options(options)
        .option("kafka.bootstrap.servers", &secured.bootstrap)
        .option("kafka.debug", "security,broker")
        .option("topic", to)
        .option("checkpointLocation", checkpoint)
        .start()
        .await?;
    query.process_all_available().await?;
    texts.extend([format!("{query:?}"), query.explain(true)]);
    texts.extend(query.recent_progress().iter().map(QueryProgress::json));
    query.stop().await;
    Ok(texts)
}

/// Not a test of its own: the body of a child process, which logs everything and prints what the query says.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let told: Vec<&str> = told.split('\n').collect();
    let [bootstrap, ca, user, password, from, to, checkpoint] = told[..] else {
        panic!("seven parts");
    };
    let secured = Secured {
        bootstrap: bootstrap.to_owned(),
        ca: ca.into(),
        user: user.to_owned(),
        password: password.to_owned(),
    };
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .init();
    let texts = super::shop::block_on(run(&secured, [from, to], checkpoint)).expect("ends well");
    println!("{}", texts.join("\n"));
}

#[test]
fn scram_over_tls_reads_and_writes_exactly_once_and_secrets_are_nowhere() {
    let broker = Broker::start_secured();
    let secured = broker.secured();
    let [from, topic] = ["from", "secured"].map(|name| create(broker.bootstrap(), name, 2, &[]));
    let sent = [value("a"), value("b").to(1)];
    block_on(Kafka::known(broker.bootstrap()).send(&from, &sent));
    let home = tempfile::tempdir().unwrap();
    let told = [
        &secured.bootstrap,
        &secured.ca.display().to_string(),
        &secured.user,
        &secured.password,
        &from,
        &topic,
        &home.path().display().to_string(),
    ];
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sink::security::child", "--nocapture"])
        .env(CHILD, told.map(String::as_str).join("\n"))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    let reader = properties(&secured, &secured.password);
    let reader: Vec<(&str, &str)> = reader
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let reader = client(&secured.bootstrap, &reader);
    let written = read_as(&reader, &topic, Isolation::Committed);
    assert_eq!(values(&written), ["a", "b"]);
    for part in ["kafka client", "numOutputRows", "KafkaV2", &from, &topic] {
        assert!(said.contains(part), "{part} in what was said");
    }
    let stored = files(home.path());
    assert!(!stored.is_empty());
    for text in stored.iter().chain([&said]) {
        assert!(!text.contains(&secured.password), "a secret in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_is_refused_without_repeating_it() {
    let broker = Broker::start_secured();
    let secured = broker.secured();
    let topic = create(broker.bootstrap(), "refused", 1, &[]);
    let sink = properties(&secured, "not-the-password").into_iter().fold(
        KafkaSink::builder(&secured.bootstrap).topic(&topic),
        |sink, (name, value)| sink.property(name, value),
    );
    let error = Query::new()
        .open(sink.property("socket.timeout.ms", "2000"))
        .await;
    let error = error.err().expect("refused");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("not-the-password"), "{text}");
    assert!(
        text.to_ascii_lowercase().contains("authentication"),
        "{text}"
    );
}
