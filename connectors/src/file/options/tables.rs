//! The tables: every option of files, in the order in which the documentation lists them.

use weir_state::location::OBJECT_STORE_SETTINGS;

use crate::options::{OptionSpec, spec};

/// Options of object stores, which sources, sinks, checkpoints and sessions have.
pub const OBJECT_STORES: &[OptionSpec] = &object_stores();

const fn object_stores() -> [OptionSpec; OBJECT_STORE_SETTINGS.len()] {
    let mut specs = [spec("", "", ""); OBJECT_STORE_SETTINGS.len()];
    let mut next = 0;
    while next < specs.len() {
        let setting = OBJECT_STORE_SETTINGS[next];
        specs[next] = spec(setting.name, setting.default, setting.meaning);
        next += 1;
    }
    specs
}

/// Options of the file source, whatever the format.
pub const SOURCE: &[OptionSpec] = &[
    spec(
        "path",
        "",
        "directory or glob of directories; the files in it are the stream",
    ),
    spec(
        "maxFilesPerTrigger",
        "",
        "most new files of an epoch; not together with maxBytesPerTrigger",
    ),
    spec(
        "maxBytesPerTrigger",
        "",
        "most bytes of new files of an epoch, but at least one file; a plain number",
    ),
    spec("latestFirst", "false", "take the newest files first"),
    spec(
        "maxFileAge",
        "7d",
        "leave out files this much older than the newest one; not on the first listing, nor with latestFirst and a limit",
    ),
    spec(
        "fileNameOnly",
        "false",
        "two files of the same name are the same file, whatever their directory",
    ),
    spec(
        "allowOverwrites",
        "false",
        "read a file again, as a new one, when its size or time of modification has changed; its rows then come once for each content",
    ),
    spec(
        "maxCachedFiles",
        "10000",
        "most listed files kept for later epochs; 0 lists for every epoch",
    ),
    spec(
        "discardCachedInputRatio",
        "0.2",
        "list again when fewer than this part of an epoch's limit is kept",
    ),
    spec(
        "cleanSource",
        "off",
        "what happens to files after the epoch that read them is committed: off, archive or delete",
    ),
    spec(
        "sourceArchiveDir",
        "",
        "where cleanSource=archive moves files, below it with their whole path; on the same file system and not in the path of the source",
    ),
    spec(
        "pathGlobFilter",
        "",
        "read only files whose name matches this glob",
    ),
    spec(
        "recursiveFileLookup",
        "false",
        "read directories inside of the directory too, without partition columns; with false only those called column=value",
    ),
    spec(
        "ignoreCorruptFiles",
        "false",
        "leave out files, or the rest of files, that cannot be decoded; counted as bad records, with a warning",
    ),
    spec(
        "timeZone",
        "UTC",
        "zone of timestamps that name none; the session's zone unless given",
    ),
];

/// Options of reading records that may be bad.
pub(super) const RECORDS: &[OptionSpec] = &[
    spec(
        "mode",
        "PERMISSIVE",
        "what happens to bad records: PERMISSIVE, DROPMALFORMED or FAILFAST",
    ),
    spec(
        "columnNameOfCorruptRecord",
        "_corrupt_record",
        "STRING column that takes the text of bad records",
    ),
    spec(
        "badRecordsPath",
        "",
        "directory where bad records go, with file, line and reason, instead of into rows; not together with mode",
    ),
];

/// Options of reading dates and times.
pub(super) const READ_TIMES: &[OptionSpec] = &[
    spec(
        "dateFormat",
        "",
        "pattern of dates; ISO 8601 and what CAST takes unless given",
    ),
    spec(
        "timestampFormat",
        "",
        "pattern of timestamps; ISO 8601 and what CAST takes unless given",
    ),
    spec(
        "timestampNTZFormat",
        "",
        "pattern of timestamps without a zone; ISO 8601 and what CAST takes unless given",
    ),
    spec(
        "enableDateTimeParsingFallback",
        "false",
        "take what CAST takes where a pattern that is given does not fit",
    ),
];

/// Options of reading text.
pub(super) const READ_TEXT_FILES: &[OptionSpec] = &[
    spec(
        "encoding",
        "UTF-8",
        "charset of the files, such as UTF-16 or ISO-8859-1",
    ),
    spec("charset", "UTF-8", "the same as encoding"),
    spec("locale", "en-US", "language of names of months; only en-US"),
    spec(
        "compression",
        "",
        "not used: the end of a file's name tells (.gz, .deflate, .bz2, .zst, .lz4, .snappy)",
    ),
];

pub(super) const READ_JSON: &[OptionSpec] = &[
    spec("allowComments", "false", "take /* … */ and // … for blanks"),
    spec(
        "allowUnquotedFieldNames",
        "false",
        "take names of fields without quotes",
    ),
    spec(
        "allowSingleQuotes",
        "true",
        "take single quotes for double ones",
    ),
    spec(
        "allowNumericLeadingZeros",
        "false",
        "take numbers such as 007",
    ),
    spec(
        "allowBackslashEscapingAnyCharacter",
        "false",
        "take \\x for x",
    ),
    spec(
        "allowUnquotedControlChars",
        "false",
        "take control characters inside text",
    ),
    spec(
        "allowNonNumericNumbers",
        "true",
        "take NaN and Infinity in floating-point columns",
    ),
    spec(
        "multiLine",
        "false",
        "a file is one document, not one document for each line",
    ),
    spec(
        "explodeEmbeddedArray",
        "",
        "a file is one object, and the records are in the array of this field of it; what else is in the file is left out",
    ),
    spec("lineSep", "\\n, \\r\\n, \\r", "what ends a line"),
];

pub(super) const READ_CSV: &[OptionSpec] = &[
    spec("sep", ",", "between two fields, one or more characters"),
    spec("delimiter", ",", "the same as sep"),
    spec(
        "header",
        "false",
        "the first record of a file names its columns, which are then found by name",
    ),
    spec(
        "enforceSchema",
        "true",
        "with false a header that differs from the schema is an error",
    ),
    spec("quote", "\"", "character around fields; empty for none"),
    spec(
        "escape",
        "\\",
        "character that takes the meaning off a quote",
    ),
    spec(
        "charToEscapeQuoteEscaping",
        "what escape is",
        "character that takes the meaning off an escape inside quotes; NUL for none",
    ),
    spec(
        "unescapedQuoteHandling",
        "STOP_AT_DELIMITER",
        "what becomes of \"text\" with more behind the quote: STOP_AT_DELIMITER takes it as it stands up to the next separator, STOP_AT_CLOSING_QUOTE takes the quote as text, BACK_TO_DELIMITER gives quotes no meaning in the field, SKIP_VALUE makes it NULL, RAISE_ERROR is an error in every mode",
    ),
    spec(
        "comment",
        "",
        "lines that begin with this character are left out",
    ),
    spec("nullValue", "", "text that means NULL"),
    spec("emptyValue", "", "what \"\" means"),
    spec("nanValue", "NaN", "spelling of not-a-number"),
    spec("positiveInf", "Inf", "spelling of infinity"),
    spec("negativeInf", "-Inf", "spelling of minus infinity"),
    spec(
        "ignoreLeadingWhiteSpace",
        "false",
        "cut blanks before a field",
    ),
    spec(
        "ignoreTrailingWhiteSpace",
        "false",
        "cut blanks after a field",
    ),
    spec("multiLine", "", "whether a quoted field may hold line ends"),
    spec(
        "lineSep",
        "\\n, \\r\\n, \\r",
        "character that ends a record",
    ),
    spec("maxCharsPerColumn", "-1", "longest field; -1 for no limit"),
    spec("maxColumns", "20480", "most columns of a header"),
];

pub(super) const READ_TEXT: &[OptionSpec] = &[
    spec("wholetext", "false", "a file is one value"),
    spec("lineSep", "\\n, \\r\\n, \\r", "what ends a line"),
];

/// Columns of files that name them.
const MERGE_SCHEMA: OptionSpec = spec(
    "mergeSchema",
    "true",
    "columns are found by name in every file, and a table without a schema has those of all files, whatever this says",
);

pub(super) const READ_ORC: &[OptionSpec] = &[
    MERGE_SCHEMA,
    spec(
        "compression",
        "",
        "not used: a file says how it is compressed (zlib, snappy, lz4 and zstd are read)",
    ),
];

pub(super) const READ_PARQUET: &[OptionSpec] = &[
    spec(
        "compression",
        "",
        "not used: files say how they are compressed",
    ),
    MERGE_SCHEMA,
    spec(
        "datetimeRebaseMode",
        "CORRECTED",
        "calendar of dates and times long ago; only CORRECTED, the proleptic Gregorian one",
    ),
    spec(
        "int96RebaseMode",
        "CORRECTED",
        "the same for the old INT96 timestamps; only CORRECTED",
    ),
];

/// Options of the file sink, whatever the format.
pub const SINK: &[OptionSpec] = &[
    spec("path", "", "directory the files go to"),
    spec(
        "checkpointLocation",
        "",
        "checkpoint of the query, not the sink's concern",
    ),
    spec(
        "retention",
        "",
        "forget files older than this when the manifest is compacted; they stay on disk",
    ),
    spec(
        "maxRecordsPerFile",
        "0",
        "begin a new file after this many rows; 0 for no limit",
    ),
    spec(
        "maxBytesPerFile",
        "0",
        "begin a new file after about this many bytes; 0 for no limit",
    ),
    spec(
        "maxOpenFiles",
        "100",
        "most files a subtask writes at a time; the least recently used one is finished early",
    ),
    spec(
        "timeZone",
        "UTC",
        "zone in which timestamps are written as text; the session's zone unless given",
    ),
];

/// Options of writing text.
pub(super) const WRITE_TEXT_FILES: &[OptionSpec] = &[
    spec(
        "compression",
        "none",
        "none, uncompressed, gzip, deflate, bzip2, zstd, lz4 or snappy",
    ),
    spec(
        "encoding",
        "UTF-8",
        "charset of the files; a character it does not have is an error",
    ),
    spec("charset", "UTF-8", "the same as encoding"),
    spec("lineSep", "\\n", "what ends a line"),
];

/// Another name of `compression`, which is the one that counts.
pub(super) const WRITE_CODEC: &[OptionSpec] = &[spec("codec", "none", "the same as compression")];

/// Options of writing dates and times.
pub(super) const WRITE_TIMES: &[OptionSpec] = &[
    spec("dateFormat", "yyyy-MM-dd", "pattern of dates"),
    spec(
        "timestampFormat",
        "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
        "pattern of timestamps; by default three digits behind the second, six where three would lose something",
    ),
    spec(
        "timestampNTZFormat",
        "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
        "pattern of timestamps without a zone",
    ),
    spec("locale", "en-US", "language of names of months; only en-US"),
];

pub(super) const WRITE_PARQUET: &[OptionSpec] = &[spec(
    "compression",
    "snappy",
    "none, uncompressed, snappy, zstd, lz4, lz4_raw or gzip",
)];

pub(super) const WRITE_JSON: &[OptionSpec] = &[
    spec("ignoreNullFields", "true", "leave out fields that are NULL"),
    spec(
        "pretty",
        "false",
        "spread objects over lines; line by line such files cannot be read back",
    ),
    spec(
        "sortKeys",
        "false",
        "write fields, and keys of maps, in the order of their names",
    ),
    spec(
        "writeNonAsciiCharacterAsCodePoint",
        "false",
        "write \\u00E9 for é",
    ),
];

pub(super) const WRITE_CSV: &[OptionSpec] = &[
    spec(
        "extension",
        "csv",
        "what names of files end with, letters and digits; that of the compression follows",
    ),
    spec("sep", ",", "between two fields, one or more characters"),
    spec("delimiter", ",", "the same as sep"),
    spec("header", "false", "write the names of the columns first"),
    spec("quote", "\"", "character around fields that need it"),
    spec(
        "escape",
        "\\",
        "character written before a quote, and before itself, inside quotes; \" doubles quotes, as RFC 4180 has it",
    ),
    spec(
        "charToEscapeQuoteEscaping",
        "what escape is",
        "character written before an escape inside quotes; NUL for none",
    ),
    spec(
        "comment",
        "",
        "character that begins lines that are no records; a first field that begins so is quoted",
    ),
    spec("quoteAll", "false", "quote every field"),
    spec(
        "escapeQuotes",
        "true",
        "quote fields for the quotes in them; with false only where something else needs it",
    ),
    spec("nullValue", "", "what NULL becomes"),
    spec("emptyValue", "\"\"", "what the empty text becomes"),
    spec(
        "ignoreLeadingWhiteSpace",
        "false",
        "cut blanks before a field",
    ),
    spec(
        "ignoreTrailingWhiteSpace",
        "false",
        "cut blanks after a field",
    ),
];
