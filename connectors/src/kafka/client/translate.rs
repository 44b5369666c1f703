//! Properties of the Java client, which is what users of Spark write, in librdkafka's names; and those that may not be given.

use std::collections::BTreeMap;

use weir_runtime::{Result, WeirError};

use super::{Role, jaas};

type Properties = BTreeMap<String, String>;

/// Properties the source sets itself, with what to use instead.
const SOURCE_REFUSED: &[(&str, &str)] = &[
    (
        "auto.offset.reset",
        "instead set the option 'startingOffsets' to 'earliest' or 'latest' to say where a new query starts; the engine keeps the \
         offsets itself and never lets the client choose them",
    ),
    (
        "key.deserializer",
        "keys are read as bytes; decode the column 'key' explicitly",
    ),
    (
        "value.deserializer",
        "values are read as bytes; decode the column 'value' explicitly",
    ),
    (
        "enable.auto.commit",
        "the engine does not commit any offsets to Kafka",
    ),
    (
        "enable.auto.offset.store",
        "the engine does not commit any offsets to Kafka",
    ),
    (
        "interceptor.classes",
        "interceptors may change keys and values in ways a replay would not repeat",
    ),
    (
        "enable.partition.eof",
        "the engine needs these events to know that a partition is read to its end",
    ),
];

/// Properties the sink sets itself, with what to use instead.
const SINK_REFUSED: &[(&str, &str)] = &[
    (
        "key.serializer",
        "keys are written as they are; make the column 'key' BINARY or STRING",
    ),
    (
        "value.serializer",
        "values are written as they are; make the column 'value' BINARY or STRING",
    ),
];

/// Java's name, librdkafka's name; the value stays.
const RENAMED: &[(&str, &str)] = &[
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    (
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    ),
    ("max.request.size", "message.max.bytes"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
    ("ssl.keystore.key", "ssl.key.pem"),
    ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
];

/// Java's name (or what it begins with, ending in `*`) and what to do about it: librdkafka has no such property.
const JAVA_ONLY: &[(&str, &str)] = &[
    (
        "max.poll.records",
        "leave it out: the size of batches is the engine's, that of epochs is the option 'maxOffsetsPerTrigger'",
    ),
    (
        "default.api.timeout.ms",
        "use 'kafka.socket.timeout.ms' for one request, and the option 'kafkaConsumer.pollTimeoutMs' for the patience of readers",
    ),
    (
        "exclude.internal.topics",
        "leave it out: patterns never match the broker's internal topics",
    ),
    (
        "max.block.ms",
        "use 'kafka.message.timeout.ms', the time a message has to be delivered in",
    ),
    ("partitioner.class", "use 'kafka.partitioner'"),
    ("auto.include.jmx.reporter", "leave it out"),
    ("metric.reporters", "leave it out: progress has the metrics"),
    ("metrics.*", "leave it out: progress has the metrics"),
    ("security.providers", "leave it out"),
    (
        "sasl.login.*",
        "use 'kafka.sasl.username' and 'kafka.sasl.password'",
    ),
    (
        "sasl.client.callback.handler.class",
        "use 'kafka.sasl.username' and 'kafka.sasl.password'",
    ),
    (
        "sasl.kerberos.kinit.*",
        "use 'kafka.sasl.kerberos.kinit.cmd'",
    ),
    (
        "ssl.enabled.protocols",
        "leave it out: the newest version both sides know is used",
    ),
    (
        "ssl.protocol",
        "leave it out: the newest version both sides know is used",
    ),
    (
        "ssl.provider",
        "use 'kafka.ssl.providers' (OpenSSL's providers)",
    ),
    ("ssl.trustmanager.algorithm", "leave it out"),
    ("ssl.keymanager.algorithm", "leave it out"),
    ("ssl.secure.random.implementation", "leave it out"),
    (
        "ssl.engine.factory.class",
        "use 'kafka.ssl.ca.location', 'kafka.ssl.certificate.location' and 'kafka.ssl.key.location'",
    ),
];

/// Refuses what the source or sink sets itself.
pub(super) fn refuse(role: Role, properties: &Properties) -> Result<()> {
    let refused = match role {
        Role::Source => SOURCE_REFUSED,
        Role::Sink => SINK_REFUSED,
    };
    for (name, instead) in refused {
        if properties.contains_key(*name) {
            return Err(WeirError::config(format!(
                "the option 'kafka.{name}' is not supported by {}: {instead}",
                role.owner()
            )));
        }
    }
    Ok(())
}

/// The properties in librdkafka's names.
pub(super) fn to_librdkafka(role: Role, mut properties: Properties) -> Result<Properties> {
    login(role, &mut properties)?;
    truststore(role, &mut properties)?;
    keystore(role, &mut properties)?;
    if let Some(algorithm) = properties.get_mut("ssl.endpoint.identification.algorithm")
        && algorithm.trim().is_empty()
    {
        *algorithm = "none".to_owned();
    }
    for (java, ours) in RENAMED {
        if let Some(value) = properties.remove(*java) {
            put(role, &mut properties, java, ours, value)?;
        }
    }
    if role == Role::Source
        && let Some(value) = properties.remove("request.timeout.ms")
    {
        put(
            role,
            &mut properties,
            "request.timeout.ms",
            "socket.timeout.ms",
            value,
        )?;
    }
    if let Some(bytes) = properties.remove("buffer.memory") {
        let kbytes = bytes.trim().parse::<u64>().map_err(|_| {
            WeirError::invalid_option("kafka.buffer.memory", &bytes, "a whole number of bytes")
        })?;
        let kbytes = (kbytes / 1024).max(1).to_string();
        put(
            role,
            &mut properties,
            "buffer.memory",
            "queue.buffering.max.kbytes",
            kbytes,
        )?;
    }
    java_only(role, &properties)?;
    Ok(properties)
}

fn put(
    role: Role,
    properties: &mut Properties,
    java: &str,
    ours: &str,
    value: String,
) -> Result<()> {
    match properties.insert(ours.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(WeirError::config(format!(
            "options 'kafka.{java}' and 'kafka.{ours}' of {} mean the same: give one of them",
            role.owner()
        ))),
    }
}

fn java_only(role: Role, properties: &Properties) -> Result<()> {
    for name in properties.keys() {
        let found = JAVA_ONLY
            .iter()
            .find(|(java, _)| match java.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == java,
            });
        if let Some((_, instead)) = found {
            return Err(only_java(role, name, instead));
        }
    }
    Ok(())
}

fn only_java(role: Role, name: &str, instead: &str) -> WeirError {
    WeirError::config(format!(
        "the option 'kafka.{name}' of {} is known to Kafka's Java client only: {instead}",
        role.owner()
    ))
}

/// `sasl.jaas.config` of the modules for PLAIN and SCRAM becomes user name and password.
fn login(role: Role, properties: &mut Properties) -> Result<()> {
    let Some(text) = properties.remove("sasl.jaas.config") else {
        return Ok(());
    };
    let wrong = || {
        // The text holds a password: it is not repeated.
        WeirError::config(format!(
            "the option 'kafka.sasl.jaas.config' of {} is not understood, allowed: the PlainLoginModule or ScramLoginModule of \
             Kafka with username and password, as in 'org.apache.kafka.common.security.scram.ScramLoginModule required \
             username=\"…\" password=\"…\";'; or leave it out and use 'kafka.sasl.username' and 'kafka.sasl.password'",
            role.owner()
        ))
    };
    let login = jaas::parse(&text).ok_or_else(wrong)?;
    if !matches!(
        login.module.as_str(),
        "PlainLoginModule" | "ScramLoginModule"
    ) {
        return Err(wrong());
    }
    if login.is_token {
        return Err(WeirError::config(format!(
            "the option 'kafka.sasl.jaas.config' of {} holds a delegation token (tokenauth), which Kafka's Java client alone can log in \
             with: use the password of a user of SCRAM or PLAIN, or a certificate",
            role.owner()
        )));
    }
    let (Some(username), Some(password)) = (login.username, login.password) else {
        return Err(wrong());
    };
    put(
        role,
        properties,
        "sasl.jaas.config",
        "sasl.username",
        username,
    )?;
    put(
        role,
        properties,
        "sasl.jaas.config",
        "sasl.password",
        password,
    )
}

/// Trusted certificates: librdkafka reads PEM only.
fn truststore(role: Role, properties: &mut Properties) -> Result<()> {
    let instead =
        "convert the store to PEM (keytool -exportcert -rfc) and use 'kafka.ssl.ca.location'";
    let pem = store_type(properties, "ssl.truststore.type") == Some("PEM".to_owned());
    properties.remove("ssl.truststore.type");
    match properties.remove("ssl.truststore.location") {
        Some(location) if pem => put(
            role,
            properties,
            "ssl.truststore.location",
            "ssl.ca.location",
            location,
        )?,
        Some(_) => return Err(only_java(role, "ssl.truststore.location", instead)),
        None => {}
    }
    match properties.remove("ssl.truststore.password") {
        Some(password) if !password.is_empty() && !pem => {
            Err(only_java(role, "ssl.truststore.password", instead))
        }
        _ => Ok(()),
    }
}

/// The client's own certificate: librdkafka reads PEM and PKCS#12.
fn keystore(role: Role, properties: &mut Properties) -> Result<()> {
    let kind = store_type(properties, "ssl.keystore.type");
    properties.remove("ssl.keystore.type");
    match kind.as_deref() {
        None | Some("PKCS12") => Ok(()),
        Some("PEM") => {
            let Some(location) = properties.remove("ssl.keystore.location") else {
                return Ok(());
            };
            // One file holds key and certificates.
            put(
                role,
                properties,
                "ssl.keystore.location",
                "ssl.key.location",
                location.clone(),
            )?;
            put(
                role,
                properties,
                "ssl.keystore.location",
                "ssl.certificate.location",
                location,
            )
        }
        Some(_) => Err(only_java(
            role,
            "ssl.keystore.type",
            "convert the store to PKCS12 (keytool -importkeystore -deststoretype PKCS12) and keep 'kafka.ssl.keystore.location', or \
             use 'kafka.ssl.certificate.location' and 'kafka.ssl.key.location' with PEM files",
        )),
    }
}

fn store_type(properties: &Properties, name: &str) -> Option<String> {
    properties
        .get(name)
        .map(|text| text.trim().to_ascii_uppercase())
}
