//! What becomes of client options, without a broker.

use super::*;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use weir_runtime::Fault;

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let servers = ("kafka.bootstrap.servers", "127.0.0.1:1");
    let pairs = pairs.iter().chain([&servers]);
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn settings(role: Role, pairs: &[(&str, &str)]) -> Result<ClientSettings> {
    ClientSettings::from_options(role, &options(pairs)).map(|(settings, _)| settings)
}

fn refusal(role: Role, pairs: &[(&str, &str)]) -> String {
    let error = settings(role, pairs).expect_err("refused");
    assert_eq!(error.fault(), Fault::Config);
    error.message().to_owned()
}

const JAAS: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"ann\" password=\"s3 \\\"cret\";";

#[test]
fn prefix_in_any_case_is_stripped_and_other_options_are_given_back() {
    let given = options(&[
        ("KAFKA.client.id", "me"),
        ("kafkaConsumer.pollTimeoutMs", "5"),
    ]);
    let (settings, others) = ClientSettings::from_options(Role::Source, &given).expect("fine");
    assert_eq!(settings.get("client.id"), Some("me"));
    assert_eq!(settings.bootstrap_servers(), "127.0.0.1:1");
    assert_eq!(
        others.into_keys().collect::<Vec<_>>(),
        ["kafkaConsumer.pollTimeoutMs"]
    );
    assert_eq!(
        settings.client_config().get("bootstrap.servers"),
        Some("127.0.0.1:1")
    );
}

#[test]
fn bootstrap_servers_missing_or_empty_is_refused() {
    for given in [
        BTreeMap::new(),
        options(&[("kafka.bootstrap.servers", " ")]),
    ] {
        let mut given = given;
        if let Some(servers) = given.get_mut("kafka.bootstrap.servers") {
            *servers = " ".to_owned();
        }
        let error = ClientSettings::from_options(Role::Sink, &given).expect_err("refused");
        assert!(
            error
                .message()
                .starts_with("sink 'kafka' needs the option 'kafka.bootstrap.servers'"),
            "{error}"
        );
    }
}

#[test]
fn properties_the_connector_sets_itself_are_refused_by_role() {
    for name in [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    ] {
        let message = refusal(Role::Source, &[(&format!("kafka.{name}"), "x")]);
        assert!(
            message.starts_with(&format!(
                "the option 'kafka.{name}' is not supported by source 'kafka': "
            )),
            "{message}"
        );
    }
    for name in ["key.serializer", "value.serializer"] {
        let message = refusal(Role::Sink, &[(&format!("kafka.{name}"), "x")]);
        assert!(
            message.contains("is not supported by sink 'kafka'"),
            "{message}"
        );
    }
}

#[test]
fn spellings_of_the_java_client_are_translated() {
    let settings = settings(
        Role::Source,
        &[
            ("kafka.security.protocol", "SASL_SSL"),
            ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
            ("kafka.sasl.jaas.config", JAAS),
            ("kafka.ssl.truststore.type", "pem"),
            ("kafka.ssl.truststore.location", "/ca.pem"),
            ("kafka.ssl.endpoint.identification.algorithm", ""),
            ("kafka.fetch.max.wait.ms", "250"),
            ("kafka.request.timeout.ms", "15000"),
            ("kafka.max.partition.fetch.bytes", "2000000"),
        ],
    )
    .expect("fine");
    assert_eq!(settings.get("sasl.username"), Some("ann"));
    assert_eq!(settings.get("sasl.password"), Some("s3 \"cret"));
    assert_eq!(settings.get("sasl.jaas.config"), None);
    assert_eq!(settings.get("ssl.ca.location"), Some("/ca.pem"));
    assert_eq!(
        settings.get("ssl.endpoint.identification.algorithm"),
        Some("none")
    );
    assert_eq!(settings.get("fetch.wait.max.ms"), Some("250"));
    assert_eq!(settings.get("socket.timeout.ms"), Some("15000"));
}

#[test]
fn properties_only_java_knows_are_refused_with_what_to_use() {
    let cases = [
        ("kafka.max.poll.records", "maxOffsetsPerTrigger"),
        ("kafka.ssl.truststore.location", "kafka.ssl.ca.location"),
        ("kafka.ssl.truststore.password", "kafka.ssl.ca.location"),
        ("kafka.ssl.keystore.type", "PKCS12"),
        ("kafka.metrics.num.samples", "leave it out"),
        (
            "kafka.sasl.login.callback.handler.class",
            "kafka.sasl.username",
        ),
    ];
    for (name, hint) in cases {
        let message = refusal(Role::Source, &[(name, "JKS")]);
        assert!(
            message.contains(name) && message.contains(hint),
            "{message}"
        );
    }
    let message = refusal(Role::Sink, &[("kafka.partitioner.class", "x")]);
    assert!(message.contains("'kafka.partitioner'"), "{message}");
    let token = JAAS.replace(';', " tokenauth=\"true\";");
    let message = refusal(Role::Source, &[("kafka.sasl.jaas.config", &token)]);
    assert!(
        message.contains("kafka.sasl.jaas.config") && message.contains("delegation token"),
        "{message}"
    );
    assert!(!message.contains("s3 "), "{message}");
    let user = token.replace("true", "false");
    settings(Role::Source, &[("kafka.sasl.jaas.config", &user)]).expect("a user's");
}

#[test]
fn two_spellings_of_one_property_are_refused() {
    let both = [
        ("kafka.fetch.max.wait.ms", "1"),
        ("kafka.fetch.wait.max.ms", "2"),
    ];
    assert!(refusal(Role::Source, &both).contains("mean the same"));
    let twice = [("kafka.client.id", "1"), ("Kafka.client.id", "2")];
    assert!(refusal(Role::Source, &twice).contains("more than once"));
}

#[test]
fn unknown_properties_and_values_are_refused_by_name() {
    let message = refusal(Role::Source, &[("kafka.no.such.thing", "1")]);
    assert!(message.contains("kafka.no.such.thing"), "{message}");
    let message = refusal(Role::Source, &[("kafka.fetch.min.bytes", "many")]);
    assert!(
        message.contains("kafka.fetch.min.bytes") && message.contains("many"),
        "{message}"
    );
}

#[test]
fn secrets_are_in_no_text() {
    let given = [
        ("kafka.sasl.jaas.config", JAAS),
        ("kafka.ssl.key.password", "hush-hush"),
        ("kafka.ssl.keystore.key", "-----BEGIN PRIVATE KEY-----"),
    ];
    let settings = settings(Role::Sink, &given).expect("fine");
    let texts = [
        settings.to_string(),
        format!("{settings:?}"),
        format!("{:?}", settings.client_config().config_map().keys()),
    ];
    for text in texts {
        for secret in ["s3 \"cret", "hush-hush", "BEGIN PRIVATE"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    assert!(
        settings
            .to_string()
            .contains("sasl.password=*********(redacted)")
    );
    let context = settings.context();
    context.error(
        KafkaError::Global(RDKafkaErrorCode::Authentication),
        "refused hush-hush",
    );
    assert_eq!(
        context.last_error().as_deref(),
        Some("refused *********(redacted)")
    );
    for wrong in [
        "nonsense s3cret",
        "x.KerberosModule required password=\"s3cret\";",
    ] {
        let message = refusal(Role::Source, &[("kafka.sasl.jaas.config", wrong)]);
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn refused_credentials_are_the_configurations_fault_whatever_call_failed() {
    let settings = settings(Role::Source, &[]).expect("fine");
    let context = settings.context();
    let timed_out = KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut);
    let fault = |context| client_error("cannot ask", &timed_out, Some(context)).fault();
    context.error(
        KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure),
        "refused",
    );
    assert_eq!(fault(&context), Fault::External);
    context.error(
        KafkaError::Global(RDKafkaErrorCode::Authentication),
        "wrong password",
    );
    context.error(
        KafkaError::Global(RDKafkaErrorCode::AllBrokersDown),
        "1/1 brokers are down",
    );
    assert_eq!(fault(&context), Fault::Config);
    assert_eq!(context.last_error().as_deref(), Some("wrong password"));
    context.forget_error();
    assert_eq!(fault(&context), Fault::External);
}

#[test]
fn errors_are_somebodys_fault() {
    let cases = [
        (RDKafkaErrorCode::BrokerTransportFailure, Fault::External),
        (RDKafkaErrorCode::AllBrokersDown, Fault::External),
        (RDKafkaErrorCode::NotLeaderForPartition, Fault::External),
        (RDKafkaErrorCode::SaslAuthenticationFailed, Fault::Config),
        (RDKafkaErrorCode::TopicAuthorizationFailed, Fault::Config),
        (RDKafkaErrorCode::InvalidMessage, Fault::Data),
        (RDKafkaErrorCode::Fenced, Fault::Conflict),
    ];
    for (code, fault) in cases {
        let error = client_error(
            "cannot read t-0 at 7",
            &KafkaError::MessageConsumption(code),
            None,
        );
        assert_eq!(error.fault(), fault, "{error}");
        assert!(error.message().starts_with("cannot read t-0 at 7: "));
    }
}
