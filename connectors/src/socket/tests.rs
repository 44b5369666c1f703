//! Options, and what becomes of connections that do not work.
#![allow(clippy::unwrap_used)]

use super::*;

fn from(pairs: &[(&str, &str)]) -> Result<SocketSource> {
    let options = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    SocketSource::from_options(&options)
}

#[test]
fn options_are_read_and_bad_ones_refused() {
    let source = from(&[
        ("host", "localhost"),
        ("PORT", "9"),
        ("includeTimestamp", "true"),
    ])
    .unwrap();
    assert_eq!(source.description(), "TextSocket[localhost:9]");
    assert_eq!(source.schema().fields().len(), 2);
    for (options, part) in [
        (&[("port", "9")][..], "'host'"),
        (&[("host", "localhost")], "'port'"),
        (&[("host", "localhost"), ("port", "70000")], "70000"),
        (
            &[("host", "localhost"), ("port", "9"), ("numPartitions", "0")],
            "numPartitions",
        ),
        (
            &[("host", "localhost"), ("port", "9"), ("timeout", "1")],
            "timeout",
        ),
    ] {
        let error = from(options).err().unwrap();
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn connection_that_is_refused_names_the_address() {
    // A port nobody listens on any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let error = SocketSource::new("127.0.0.1", port, false)
        .connect()
        .unwrap_err();
    assert!(
        error.message().contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
}
