//! Schema registries that speak Confluent's REST protocol, and the header of the payloads they know.
//!
//! A function that uses a registry owns a [`Registry`]; nothing is shared between calls or queries. A schema behind an id never
//! changes, so each is asked for once and kept. Requests block the thread that evaluates the expression; they are bounded by
//! `schema.registry.timeout.ms` for each of `schema.registry.retries` + 1 attempts at each address, and a batch asks only for ids
//! it has not seen.

mod client;
#[cfg(test)]
mod tests;

use std::fmt;

pub(super) use client::{Asked, Registry, Schema};
use datafusion::common::Result;

use super::error::SparkError;
use super::payload::Options;

/// What a payload of a registry begins with: a zero, and the id of its schema in four bytes, most significant first.
pub(super) const HEADER: usize = 5;

/// Options that say which registry and how to reach it.
pub(super) const OPTIONS: &[&str] = &[
    URL,
    "schema.registry.subject",
    "schema.registry.version",
    "schema.registry.timeout.ms",
    "schema.registry.retries",
    "schema.registry.ssl.ca.location",
    "basic.auth.user.info",
    "bearer.auth.token",
];

/// The option that asks for a registry.
pub(super) const URL: &str = "schema.registry.url";

/// The id and the rest of a payload.
///
/// # Errors
/// Bytes that have no such header.
pub(super) fn split(payload: &[u8]) -> Result<(u32, &[u8]), String> {
    match payload {
        [0, a, b, c, d, rest @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), rest)),
        [0, ..] => Err(format!(
            "{} bytes are too few for a schema registry's header of {HEADER}",
            payload.len()
        )),
        [first, ..] => Err(format!(
            "a schema registry's header begins with byte 0, this payload with {first}"
        )),
        [] => Err("no bytes, a schema registry's header is expected".into()),
    }
}

/// The header for a schema.
pub(super) fn header(id: u32) -> [u8; HEADER] {
    let [a, b, c, d] = id.to_be_bytes();
    [0, a, b, c, d]
}

/// Which version of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The newest when the query is planned.
    Latest,
    /// The one of this number.
    Number(u32),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Number(n) => write!(f, "{n}"),
        }
    }
}

/// Which subject and version the options mean; `named` is the subject that stands in the call itself, if it is not empty.
///
/// # Errors
/// No subject, two that differ, or a version that is none.
pub(super) fn subject(options: &Options, function: &str, named: &str) -> Result<(String, Version)> {
    let option = options.get("schema.registry.subject").unwrap_or("");
    let subject = match (named, option) {
        ("", "") => {
            return Err(SparkError::external(
                "INVALID_OPTIONS.VALUE",
                format!(
                    "{function}: a subject of the schema registry is needed, as second argument or option 'schema.registry.subject'"
                ),
            ));
        }
        (name, "") | ("", name) => name,
        (a, b) if a == b => a,
        (a, b) => {
            return Err(SparkError::external(
                "INVALID_OPTIONS.VALUE",
                format!("{function}: the subject is '{a}' in the call and '{b}' in its options"),
            ));
        }
    };
    let version = match options.get("schema.registry.version") {
        None => Version::Latest,
        Some(text) if text.eq_ignore_ascii_case("latest") => Version::Latest,
        Some(text) => match text.parse() {
            Ok(n) if n > 0 => Version::Number(n),
            _ => {
                return Err(options.wrong("schema.registry.version", "'latest' or a number from 1"));
            }
        },
    };
    Ok((subject.to_owned(), version))
}
