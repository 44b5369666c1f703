//! The tables of the format Avro.

use crate::options::{OptionSpec, spec};

pub(super) const READ_AVRO: &[OptionSpec] = &[
    spec(
        "avroSchema",
        "",
        "record that the files' records are read as, by Avro's rules: fields by name or alias, with defaults for those that are missing; the columns, where no schema is given",
    ),
    spec(
        "avroSchemaUrl",
        "",
        "file on the local disk that holds what avroSchema says",
    ),
    spec(
        "positionalFieldMatching",
        "false",
        "the columns of the schema are those of the files in their order, whatever they are called",
    ),
    spec(
        "ignoreExtension",
        "true",
        "with false, files whose names do not end with .avro have no rows",
    ),
    spec(
        "enableStableIdentifiersForUnionType",
        "false",
        "fields of the struct that a union of several types becomes are called by these types, and not member0, member1 and so on",
    ),
    spec(
        "stableIdentifierPrefixForUnionType",
        "member_",
        "what these names begin with",
    ),
    spec(
        "recursiveFieldMaxDepth",
        "-1",
        "only -1: types that contain themselves are refused",
    ),
    spec(
        "datetimeRebaseMode",
        "CORRECTED",
        "calendar of dates and times long ago; only CORRECTED, the proleptic Gregorian one",
    ),
    spec(
        "mode",
        "FAILFAST",
        "not used: a file has no bad records, what cannot be read is an error",
    ),
    spec(
        "compression",
        "",
        "not used: files say how they are compressed",
    ),
];

/// Options of writing that cannot be followed: given, they are refused.
pub(crate) const BY_NAME: &[OptionSpec] = &[spec(
    "positionalFieldMatching",
    "",
    "refused: the fields of avroSchema are found by name; give columns these names",
)];

pub(super) const WRITE_AVRO: &[OptionSpec] = &[
    spec(
        "compression",
        "snappy",
        "none, uncompressed, snappy, deflate, zstandard or zstd",
    ),
    spec("recordName", "topLevelRecord", "name of the record type"),
    spec("recordNamespace", "", "namespace of the record type"),
    spec(
        "avroSchema",
        "",
        "schema of the files, in place of the one that follows from the columns; its fields are found by name",
    ),
    spec(
        "avroSchemaUrl",
        "",
        "file on the local disk that holds what avroSchema says",
    ),
];
