//! Options of `from_json`, `to_json` and `schema_of_json`. An option that would change the result and is not done is refused, so that
//! no text is read by other rules than were asked for.

use datafusion::common::Result;

use super::Args;
use super::datetime_format::chrono_format;
use super::error::SparkError;
use super::json::ParseMode;
use super::payload::Options;

const FORMATS: [&str; 3] = ["dateFormat", "timestampFormat", "timestampNTZFormat"];

/// How dates and times are spelled, in chrono's words; `None` is ISO 8601 as casts read and write it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Formats {
    /// DATE.
    pub(super) date: Option<String>,
    /// TIMESTAMP.
    pub(super) timestamp: Option<String>,
    /// TIMESTAMP_NTZ.
    pub(super) local: Option<String>,
}

impl Formats {
    fn of(options: &Options) -> Result<Self> {
        let format = |name| options.get(name).map(chrono_format).transpose();
        Ok(Self {
            date: format(FORMATS[0])?,
            timestamp: format(FORMATS[1])?,
            local: format(FORMATS[2])?,
        })
    }

    /// The format of times, those of a zone or those without.
    pub(super) fn of_time(&self, zoned: bool) -> Option<&str> {
        match zoned {
            true => self.timestamp.as_deref(),
            false => self.local.as_deref(),
        }
    }
}

/// How `from_json` reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadOptions {
    /// What happens to bad records.
    pub(super) mode: ParseMode,
    /// The column that takes their text.
    pub(super) corrupt: String,
    /// Spelling of dates and times.
    pub(super) formats: Formats,
}

impl ReadOptions {
    /// The options in argument `i`.
    pub(super) fn of(args: &Args<'_>, i: usize) -> Result<Self> {
        let known = [
            "mode",
            "columnNameOfCorruptRecord",
            FORMATS[0],
            FORMATS[1],
            FORMATS[2],
        ];
        let options = Options::of(args, i, "from_json", &known)?;
        let mode = options.get("mode").unwrap_or("PERMISSIVE").to_uppercase();
        let mode = match mode.as_str() {
            "PERMISSIVE" => ParseMode::Permissive,
            "FAILFAST" => ParseMode::FailFast,
            _ => {
                return Err(SparkError::external(
                    "PARSE_MODE_UNSUPPORTED",
                    format!("from_json: mode {mode}; allowed are PERMISSIVE, FAILFAST"),
                ));
            }
        };
        let corrupt = options.get("columnNameOfCorruptRecord");
        Ok(Self {
            mode,
            corrupt: corrupt.unwrap_or("_corrupt_record").to_owned(),
            formats: Formats::of(&options)?,
        })
    }
}

/// How `to_json` writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriteOptions {
    /// Whether NULL fields of structs are left out.
    pub(super) without_nulls: bool,
    /// Spelling of dates and times.
    pub(super) formats: Formats,
}

impl WriteOptions {
    /// The options in argument `i`.
    pub(super) fn of(args: &Args<'_>, i: usize) -> Result<Self> {
        let known = ["ignoreNullFields", FORMATS[0], FORMATS[1], FORMATS[2]];
        let options = Options::of(args, i, "to_json", &known)?;
        Ok(Self {
            without_nulls: options.flag("ignoreNullFields", true)?,
            formats: Formats::of(&options)?,
        })
    }
}

/// What `schema_of_json` takes numbers and booleans for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InferOptions {
    /// All scalars are STRING.
    pub(super) primitives_as_string: bool,
    /// Numbers with a fraction are DECIMAL where one holds them.
    pub(super) prefers_decimal: bool,
}

impl InferOptions {
    /// The options in argument `i`.
    pub(super) fn of(args: &Args<'_>, i: usize) -> Result<Self> {
        let known = ["primitivesAsString", "prefersDecimal"];
        let options = Options::of(args, i, "schema_of_json", &known)?;
        Ok(Self {
            primitives_as_string: options.flag("primitivesAsString", false)?,
            prefers_decimal: options.flag("prefersDecimal", false)?,
        })
    }
}
