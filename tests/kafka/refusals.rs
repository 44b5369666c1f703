//! What is refused, through the session's readers.

use weir::prelude::*;

use crate::support::session;

fn refusal(options: &[(&str, &str)]) -> WeirError {
    let mut reader = session().read_stream().format("kafka");
    for (name, value) in options {
        reader = reader.option(name, value);
    }
    reader.open().unwrap_err()
}

const SERVERS: (&str, &str) = ("kafka.bootstrap.servers", "127.0.0.1:1");

#[test]
fn options_are_checked_when_the_stream_is_described() {
    let deserializers = ["kafka.key.deserializer", "kafka.value.deserializer"];
    for name in deserializers
        .into_iter()
        .chain(["kafka.interceptor.classes"])
    {
        let error = refusal(&[SERVERS, ("subscribe", "t"), (name, "x")]);
        assert!(error.message().contains(name), "{error}");
    }
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("subscribe", "t")], "'kafka.bootstrap.servers'"),
        (&[SERVERS], "exactly one of the options"),
        (
            &[
                SERVERS,
                ("subscribe", "t"),
                ("minOffsetsPerTrigger", "3"),
                ("maxOffsetsPerTrigger", "2"),
            ],
            "'minOffsetsPerTrigger'",
        ),
        (
            &[SERVERS, ("subscribe", "t"), ("subscribePattern", "t")],
            "2 are",
        ),
        (
            &[SERVERS, ("subscribe", "t"), ("endingOffsets", "latest")],
            "'endingOffsets'",
        ),
        (
            &[
                SERVERS,
                ("subscribe", "t"),
                ("kafka.auto.offset.reset", "latest"),
            ],
            "'startingOffsets'",
        ),
        (
            &[
                SERVERS,
                ("subscribe", "t"),
                ("kafka.enable.auto.commit", "true"),
            ],
            "'kafka.enable.auto.commit'",
        ),
        (
            &[SERVERS, ("subscribe", "t"), ("kafka.no.such", "1")],
            "'kafka.no.such'",
        ),
        (
            &[SERVERS, ("subscribe", "t"), ("path", "/tmp")],
            "has no option 'path'",
        ),
    ];
    for (options, part) in cases {
        let error = refusal(options);
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn options_the_session_does_not_allow_are_refused() {
    let session = session();
    let setting = "spark.sql.kafka.disallowedOptions";
    session
        .conf()
        .set(setting, "kafka.client.id, group.id, startingOffsets")
        .unwrap();
    for name in ["kafka.client.id", "kafka.group.id", "startingoffsets"] {
        let reader = session
            .read_stream()
            .format("kafka")
            .option(SERVERS.0, SERVERS.1);
        let error = reader
            .option("subscribe", "t")
            .option(name, "latest")
            .open()
            .unwrap_err();
        assert!(error.message().contains(setting), "{error}");
    }
    let reader = session
        .read_stream()
        .format("kafka")
        .option(SERVERS.0, SERVERS.1);
    assert!(reader.option("subscribe", "t").open().is_ok());
}

#[tokio::test]
async fn formats_with_columns_of_their_own_take_no_schema_and_no_path() {
    let stream = session().read_stream().format("kafka").schema("a INT");
    let error = stream
        .option(SERVERS.0, SERVERS.1)
        .option("subscribe", "t")
        .open()
        .unwrap_err();
    assert!(error.message().contains("takes no schema"), "{error}");
    let table = session()
        .read()
        .format("kafka")
        .option(SERVERS.0, SERVERS.1);
    let error = table.load("/tmp").await.unwrap_err();
    assert!(error.message().contains("has no path"), "{error}");
    let error = session().read().format("json").open().unwrap_err();
    assert!(error.message().contains("needs a path"), "{error}");
}

#[test]
fn secrets_are_in_no_error_and_no_explanation() {
    let secret = "s3cret-word";
    let jaas = format!("x.PlainLoginModule required username=\"u\" password=\"{secret}\";");
    let frame = session()
        .read_stream()
        .format("kafka")
        .option(SERVERS.0, SERVERS.1)
        .option("subscribe", "t")
        .option("kafka.sasl.jaas.config", &jaas)
        .option("kafka.security.protocol", "SASL_PLAINTEXT")
        .option("kafka.sasl.mechanism", "PLAIN")
        .open()
        .unwrap();
    assert!(!frame.explain().contains(secret));
    let error = refusal(&[
        SERVERS,
        ("subscribe", "t"),
        ("kafka.sasl.jaas.config", &format!("password={secret}")),
    ]);
    assert!(!format!("{error:?}").contains(secret));
}
