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
    /// Text behind a closing quote, where that is forbidden.
    #[error(
        "file \"{file}\", line {line}: text follows a closing quote, and option 'unescapedQuoteHandling' is RAISE_ERROR"
    )]
    UnescapedQuote {
        /// Display name of the file.
        file: Arc<str>,
        /// Line of the record, from 1.
        line: u64,
    },
    /// A bad record could not be put aside.
    #[error(
        "file \"{file}\", line {line}: the bad record cannot be written to option 'badRecordsPath'"
    )]
    BadRecordSink {
        /// Display name of the file.
        file: Arc<str>,
        /// Line of the record, from 1.
        line: u64,
        /// The cause.
        source: io::Error,
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
    /// The header of a CSV file cannot be used.
    #[error("file \"{file}\": the header is bad: {reason}")]
    Header {
        /// Display name of the file.
        file: Arc<str>,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is no Parquet file, or a damaged one.
    #[error("file \"{file}\" is not a complete, undamaged parquet file")]
    Parquet {
        /// Display name of the file.
        file: Arc<str>,
        /// The cause.
        source: parquet::errors::ParquetError,
    },
    /// The file is none of its format, or a damaged one.
    #[error("file \"{file}\" is not a complete, undamaged {format} file: {reason}")]
    Damaged {
        /// Display name of the file.
        file: Arc<str>,
        /// Name of the format.
        format: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The schema that a file has of itself cannot be read as the one that is wanted.
    #[error("file \"{file}\": its schema cannot be read as wanted: {reason}")]
    Schema {
        /// Display name of the file.
        file: Arc<str>,
        /// What is in the way.
        reason: String,
    },
    /// A sound file of a kind that cannot be read.
    #[error("file \"{file}\" is a {format} file that cannot be read: {reason}")]
    Unreadable {
        /// Display name of the file.
        file: Arc<str>,
        /// Name of the format.
        format: &'static str,
        /// What it has that cannot be read.
        reason: String,
    },
    /// A column of a file has a type that cannot become the type of the schema without changing values.
    #[error(
        "file \"{file}\", column \"{column}\": it has type {found}, which cannot be read as {wanted} ({hint})"
    )]
    ColumnType {
        /// Display name of the file.
        file: Arc<str>,
        /// Path of the column, nested names joined by dots.
        column: String,
        /// Type in the file.
        found: String,
        /// Type in the schema.
        wanted: String,
        /// What the user can do.
        hint: &'static str,
    },
    /// A column of the schema fits two columns of a file that differ in letter case only.
    #[error("file \"{file}\": column \"{column}\" could be any of its columns {candidates}")]
    AmbiguousColumn {
        /// Display name of the file.
        file: Arc<str>,
        /// Path of the column.
        column: String,
        /// The columns of the file it fits.
        candidates: String,
    },
    /// A value of a column cannot be given in the type of the schema.
    #[error("file \"{file}\", column \"{column}\": a value does not fit the schema")]
    ColumnValue {
        /// Display name of the file.
        file: Arc<str>,
        /// Name of the column.
        column: String,
        /// The cause.
        source: ArrowError,
    },
}
