//! The options of the file source and the file sink, by Spark's names, in one table.
//!
//! The table is what a program may write, what an error lists, and what documentation is made from. Names are found in any
//! letter case. An option that is not in the table is an error: a misspelt option that is ignored costs more than a wrong
//! one that is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_runtime::{Result, WeirError};

use super::decode::ParseMode;
use super::decode::parse::Zone;

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name, as Spark spells it.
    pub name: &'static str,
    /// What holds where it is not given; empty text where nothing does.
    pub default: &'static str,
    /// What it does, one phrase.
    pub meaning: &'static str,
}

const fn spec(name: &'static str, default: &'static str, meaning: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        default,
        meaning,
    }
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
        "leave out files this much older than the newest one; not on the first listing",
    ),
    spec(
        "fileNameOnly",
        "false",
        "two files of the same name are the same file, whatever their directory",
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
        "what happens to files that were read: off",
    ),
    spec(
        "pathGlobFilter",
        "",
        "read only files whose name matches this glob",
    ),
    spec(
        "recursiveFileLookup",
        "false",
        "read directories inside of the directory too, without partition columns",
    ),
    spec("timeZone", "UTC", "zone of timestamps that name none"),
];

const TEXT_RECORDS: &[OptionSpec] = &[
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
];

const READ_JSON: &[OptionSpec] = &[
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
    spec("lineSep", "\\n, \\r\\n, \\r", "what ends a line"),
    spec("encoding", "UTF-8", "only UTF-8"),
];

const READ_CSV: &[OptionSpec] = &[
    spec("sep", ",", "character between two fields"),
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
    spec("dateFormat", "yyyy-MM-dd", "spelling of dates"),
    spec(
        "timestampFormat",
        "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]",
        "spelling of timestamps",
    ),
    spec(
        "timestampNTZFormat",
        "yyyy-MM-dd'T'HH:mm:ss[.SSS]",
        "spelling of timestamps without a zone",
    ),
    spec("encoding", "UTF-8", "only UTF-8"),
    spec("charset", "UTF-8", "the same as encoding"),
    spec(
        "compression",
        "none",
        "told by the file's name when reading",
    ),
];

const READ_TEXT: &[OptionSpec] = &[
    spec("wholetext", "false", "a file is one value"),
    spec("lineSep", "\\n, \\r\\n, \\r", "what ends a line"),
    spec("encoding", "UTF-8", "only UTF-8"),
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
        "zone in which timestamps are written as text",
    ),
];

const COMPRESSION_TEXT: OptionSpec = spec("compression", "none", "only none");
const LINE_SEP: OptionSpec = spec("lineSep", "\\n", "what ends a line");
const ENCODING: OptionSpec = spec("encoding", "UTF-8", "only UTF-8");
const DATE_FORMAT: OptionSpec = spec("dateFormat", "yyyy-MM-dd", "spelling of dates");
const TIMESTAMP_FORMAT: OptionSpec = spec(
    "timestampFormat",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "spelling of timestamps",
);

const WRITE_PARQUET: &[OptionSpec] = &[spec(
    "compression",
    "snappy",
    "none, uncompressed, snappy, zstd, lz4, lz4_raw or gzip",
)];
const WRITE_JSON: &[OptionSpec] = &[
    COMPRESSION_TEXT,
    DATE_FORMAT,
    ENCODING,
    LINE_SEP,
    TIMESTAMP_FORMAT,
    spec("ignoreNullFields", "true", "leave out fields that are NULL"),
];
const WRITE_CSV: &[OptionSpec] = &[
    COMPRESSION_TEXT,
    DATE_FORMAT,
    ENCODING,
    LINE_SEP,
    TIMESTAMP_FORMAT,
    spec("sep", ",", "character between two fields"),
    spec("delimiter", ",", "the same as sep"),
    spec("header", "false", "write the names of the columns first"),
    spec("quote", "\"", "character around fields that need it"),
    spec(
        "escape",
        "",
        "character written before a quote; a doubled quote where it is not given",
    ),
    spec("quoteAll", "false", "quote every field"),
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
const WRITE_TEXT: &[OptionSpec] = &[COMPRESSION_TEXT, ENCODING, LINE_SEP];

/// All options of a source of this format (`json`, `csv`, `parquet`, `text`), or `None` if there is no such format.
pub fn source_options(format: &str) -> Option<Vec<OptionSpec>> {
    let own: &[&[OptionSpec]] = match format {
        "json" => &[TEXT_RECORDS, READ_JSON],
        "csv" => &[TEXT_RECORDS, READ_CSV],
        "text" => &[READ_TEXT],
        "parquet" => &[],
        _ => return None,
    };
    Some(
        SOURCE
            .iter()
            .chain(own.iter().copied().flatten())
            .copied()
            .collect(),
    )
}

/// All options of a sink of this format (`json`, `csv`, `parquet`, `text`), or `None` if there is no such format.
pub fn sink_options(format: &str) -> Option<Vec<OptionSpec>> {
    let own = match format {
        "json" => WRITE_JSON,
        "csv" => WRITE_CSV,
        "text" => WRITE_TEXT,
        "parquet" => WRITE_PARQUET,
        _ => return None,
    };
    Some(SINK.iter().chain(own).copied().collect())
}

/// Options given as text, checked against a table.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    given: &'a BTreeMap<String, String>,
}

impl<'a> Options<'a> {
    /// Refuses unknown options and options given twice in different letter case. `owner` is the name in the error.
    pub(crate) fn check(
        owner: &str,
        given: &'a BTreeMap<String, String>,
        known: &[OptionSpec],
    ) -> Result<Self> {
        let mut seen = BTreeMap::new();
        for name in given.keys() {
            if !known
                .iter()
                .any(|spec| spec.name.eq_ignore_ascii_case(name))
            {
                let mut names: Vec<&str> = known.iter().map(|spec| spec.name).collect();
                names.sort_unstable();
                return Err(WeirError::unknown_option(owner, name, &names));
            }
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
                return Err(WeirError::config(format!(
                    "{owner} is given the same option twice: '{other}' and '{name}'"
                )));
            }
        }
        Ok(Self { given })
    }

    /// The text of an option.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.given
            .iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Reads an option; `read` answers `None` for a text that is not `allowed`.
    pub(crate) fn parse<T>(
        &self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(WeirError::invalid_option(name, text, allowed)),
        }
    }

    /// `true` or `false` in any letter case.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.parse(name, "true, false", |text| {
            match text.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }
        })
    }

    /// A whole number above 0, digits only, as Spark wants it (`1k` is none).
    pub(crate) fn positive(&self, name: &str) -> Result<Option<u64>> {
        self.parse(name, "a whole number above 0, digits only", |text| {
            digits(text).filter(|number| *number > 0)
        })
    }

    /// A whole number, digits only.
    pub(crate) fn natural(&self, name: &str) -> Result<Option<u64>> {
        self.parse(name, "a whole number, digits only", digits)
    }

    /// A span of time such as `7d`.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        self.parse(
            name,
            "a number with a unit: us, ms, s, m, min, h or d",
            duration,
        )
    }

    /// `mode`.
    pub(crate) fn mode(&self) -> Result<ParseMode> {
        let mode = self.parse("mode", "PERMISSIVE, DROPMALFORMED, FAILFAST", |text| {
            text.parse().ok()
        })?;
        Ok(mode.unwrap_or_default())
    }

    /// `timeZone`.
    pub(crate) fn time_zone(&self) -> Result<Zone> {
        let allowed = "UTC, an offset such as +01:00, a region such as Europe/Rome";
        let zone = self.parse("timeZone", allowed, |name| Zone::from_name(name).ok())?;
        Ok(zone.unwrap_or_default())
    }

    /// `lineSep`: any text that is not empty.
    pub(crate) fn line_separator(&self) -> Result<Option<Vec<u8>>> {
        self.parse("lineSep", "a text that is not empty", |text| {
            (!text.is_empty()).then(|| text.as_bytes().to_vec())
        })
    }

    /// `encoding`, which has one value.
    pub(crate) fn check_encoding(&self) -> Result<()> {
        self.parse("encoding", "UTF-8", |text| {
            matches!(text.to_ascii_lowercase().as_str(), "utf-8" | "utf8").then_some(())
        })
        .map(|_| ())
    }

    /// The path where it is an option too: it must not contradict the one given as an argument.
    pub(crate) fn check_path(&self, path: &str) -> Result<()> {
        match self.get("path") {
            Some(other) if other != path => Err(WeirError::config(format!(
                "the path is given twice: '{path}' and, as option 'path', '{other}'"
            ))),
            _ => Ok(()),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A number and a unit, as Spark writes time in options; a number alone is milliseconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    let micros = match unit.trim() {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::super::decode::CsvOptions;
    use super::super::encode::WriteFormat;
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn options_unknown_or_twice_are_refused_and_known_ones_listed() {
        let given = map(&[("maxFilePerTrigger", "1")]);
        let error = Options::check("the file source", &given, SOURCE).expect_err("misspelt");
        assert!(error.message().contains("maxFilePerTrigger"), "{error}");
        assert!(error.message().contains("maxFilesPerTrigger"), "{error}");
        let given = map(&[("latestFirst", "true"), ("LATESTFIRST", "false")]);
        assert!(Options::check("the file source", &given, SOURCE).is_err());
    }

    #[test]
    fn options_numbers_are_validated_as_spark_does() {
        for bad in ["0", "-1", "abc", "1k", "", "1.5", "+1", " 1"] {
            let given = map(&[("MAXFILESPERTRIGGER", bad)]);
            let options = Options::check("x", &given, SOURCE).expect("known");
            let error = options.positive("maxFilesPerTrigger").expect_err(bad);
            assert!(
                error.message().contains("maxFilesPerTrigger") && error.message().contains(bad),
                "{error}"
            );
        }
        let given = map(&[("MAXFILESPERTRIGGER", "10")]);
        let options = Options::check("x", &given, SOURCE).expect("known");
        assert_eq!(
            options.positive("maxFilesPerTrigger").expect("good"),
            Some(10)
        );
    }

    #[test]
    fn options_durations_have_sparks_units() {
        let seconds = |text| duration(text).map(|d| d.as_secs_f64());
        assert_eq!(seconds("7d"), Some(604_800.0));
        assert_eq!(seconds("2H"), Some(7_200.0));
        assert_eq!(seconds("5min"), Some(300.0));
        assert_eq!(seconds("1500"), Some(1.5));
        for bad in ["", "d", "7 weeks", "-1s", "1.5h", "99999999999999999999d"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn tables_hold_every_option_the_formats_read() {
        let has = |specs: &[OptionSpec], name: &str| {
            specs.iter().filter(|spec| spec.name == name).count() == 1
        };
        for format in ["json", "csv", "text", "parquet"] {
            let specs = sink_options(format).expect("format");
            for name in WriteFormat::option_names(format) {
                assert!(has(&specs, name), "sink of format {format}: {name}");
            }
        }
        let csv = source_options("csv").expect("format");
        for name in CsvOptions::NAMES {
            assert!(has(&csv, name), "{name}");
        }
        assert!(source_options("avro").is_none() && sink_options("avro").is_none());
    }
}
