//! What can go wrong while one file is decoded.

use std::{io, sync::Arc};

use arrow::error::ArrowError;

/// Why a file could not be decoded. Every variant about content names the file.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes could not be read (also: damaged compression).
    #[error("cannot read file \"{file}\" after line {line}")]
    Read {
        /// Display name of the file.
        file: Arc<str>,
        /// Complete lines read before.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// A record does not end within the allowed length.
    #[error("file \"{file}\", line {line}: record longer than the allowed {limit_bytes} bytes")]
    RecordTooLong {
        /// Display name of the file.
        file: Arc<str>,
        /// Line at which the record begins, from 1.
        line: u64,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A bad record in FAILFAST mode.
    #[error(
        "file \"{file}\", line {line}: malformed record in FAILFAST mode: {reason} \
         (mode PERMISSIVE makes bad fields null, DROPMALFORMED leaves the record out)"
    )]
    BadRecord {
        /// Display name of the file.
        file: Arc<str>,
        /// Line of the record, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A column type the format cannot produce.
    #[error(
        "column \"{column}\": the {format} format cannot read type {data_type} (allowed: {allowed})"
    )]
    UnsupportedType {
        /// Path of the column, nested names joined by dots.
        column: String,
        /// Name of the format.
        format: &'static str,
        /// The type asked for.
        data_type: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The column for bad records is not text.
    #[error("corrupt-record column \"{column}\" has type {data_type} (allowed: STRING)")]
    CorruptColumn {
        /// Name of the column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// An unknown `mode`.
    #[error("unknown mode \"{mode}\" (allowed: PERMISSIVE, DROPMALFORMED, FAILFAST)")]
    UnknownMode {
        /// The text given.
        mode: String,
    },
    /// Arrow refused the decoded columns, for example a null in a column declared not null.
    #[error("file \"{file}\": the decoded columns do not form a batch of the schema")]
    Batch {
        /// Display name of the file.
        file: Arc<str>,
        /// The cause.
        source: ArrowError,
    },
}
