//! The tables of the format Avro.

use crate::options::{OptionSpec, spec};

pub(super) const WRITE_AVRO: &[OptionSpec] = &[
    spec(
        "compression",
        "snappy",
        "none, uncompressed, snappy, deflate, zstandard or zstd",
    ),
    spec("recordName", "topLevelRecord", "name of the record type"),
    spec("recordNamespace", "", "namespace of the record type"),
];
