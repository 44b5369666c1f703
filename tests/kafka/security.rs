//! Brokers that want to know who asks, over TLS: properties as users of Kafka's Java client write them.

use crate::kafka_broker::{Broker, Secured};
use crate::support::{Kafka, Reading, numbers, texts, warnings};

/// A query over the secured listener.
fn reading(kafka: &Kafka, topic: &str, secured: &Secured, password: &str) -> Reading {
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{}\" password=\"{password}\";",
        secured.user
    );
    Reading::of(kafka, topic)
        .option("kafka.bootstrap.servers", &secured.bootstrap)
        .option("kafka.security.protocol", "SASL_SSL")
        .option("kafka.sasl.mechanism", "SCRAM-SHA-512")
        .option("kafka.sasl.jaas.config", jaas)
        .option("kafka.ssl.truststore.type", "PEM")
        .option("kafka.ssl.truststore.location", secured.ca.display())
}

#[tokio::test]
async fn scram_over_tls_reads_and_a_wrong_password_is_told_without_being_shown() {
    let broker = Broker::start_secured();
    let (kafka, secured) = (Kafka::at(broker.bootstrap()), broker.secured());
    let topic = kafka.topic("secured", 2).await;
    kafka.send(&topic, &numbers(0, 50)).await;
    let query = reading(&kafka, &topic, &secured, &secured.password);
    let handle = query.run().await.unwrap();
    assert_eq!(query.values(), texts(0, 50));
    let progress = handle.last_progress().unwrap().json();
    assert!(!progress.contains(&secured.password));
    assert_eq!(files_with(&query.checkpoint(), &secured.password), 0);

    let warnings = warnings();
    let wrong = "not-the-passw0rd";
    let query =
        reading(&kafka, &topic, &secured, wrong).option("kafkaConsumer.pollTimeoutMs", 3000);
    let error = query.run().await.unwrap_err();
    assert_eq!(error.fault(), weir::Fault::Config, "{error:?}");
    assert!(
        error.message().to_lowercase().contains("authentication"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains(wrong));
    assert!(warnings.said(&[wrong]).is_empty());
}

#[tokio::test]
async fn plain_over_tls_reads_with_librdkafkas_own_names() {
    let broker = Broker::start_secured();
    let (kafka, secured) = (Kafka::at(broker.bootstrap()), broker.secured());
    let topic = kafka.topic("secured-plain", 1).await;
    kafka.send(&topic, &numbers(0, 5)).await;
    let query = Reading::of(&kafka, &topic)
        .option("kafka.bootstrap.servers", &secured.bootstrap)
        .option("kafka.security.protocol", "sasl_ssl")
        .option("kafka.sasl.mechanisms", "PLAIN")
        .option("kafka.sasl.username", &secured.user)
        .option("kafka.sasl.password", &secured.password)
        .option("kafka.ssl.ca.location", secured.ca.display());
    query.run().await.unwrap();
    assert_eq!(query.values(), texts(0, 5));
}

/// Files below a directory that hold a text.
fn files_with(directory: &str, text: &str) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        found += match path.is_dir() {
            true => files_with(&path.display().to_string(), text),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                usize::from(String::from_utf8_lossy(&bytes).contains(text))
            }
        };
    }
    found
}
