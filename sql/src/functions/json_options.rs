//! Options of `from_json`, `to_json` and `schema_of_json`. An option that would change the result and is not done is refused, so that
//! no text is read by other rules than were asked for.

use datafusion::common::Result;
use weir_connectors::file::decode::parse::Zone;
use weir_connectors::file::pattern::TimePattern;

use super::Args;
use super::datetime::constant_pattern;
use super::error::SparkError;
use super::json::ParseMode;
use super::payload::Options;

/// Options of both directions.
const FORMATS: [&str; 4] = [
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
];

/// How dates and times are spelled; `None` is ISO 8601 as casts read and write it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Formats {
    /// DATE.
    pub(super) date: Option<TimePattern>,
    /// TIMESTAMP.
    pub(super) timestamp: Option<TimePattern>,
    /// TIMESTAMP_NTZ.
    pub(super) local: Option<TimePattern>,
    /// The zone in which a TIMESTAMP is read and written.
    pub(super) zone: Zone,
}

impl Formats {
    fn of(options: &Options, session: Zone) -> Result<Self> {
        let format = |name| options.get(name).map(constant_pattern).transpose();
        let zone = match options.get(FORMATS[3]) {
            None => session,
            Some(name) => Zone::from_name(name)
                .map_err(|e| SparkError::external("INVALID_TIMEZONE", e.to_string()))?,
        };
        Ok(Self {
            zone,
            date: format(FORMATS[0])?,
            timestamp: format(FORMATS[1])?,
            local: format(FORMATS[2])?,
        })
    }

    /// The format of times, those of a zone or those without.
    pub(super) fn of_time(&self, zoned: bool) -> Option<&TimePattern> {
        match zoned {
            true => self.timestamp.as_ref(),
            false => self.local.as_ref(),
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
            FORMATS[3],
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
            formats: Formats::of(&options, args.zone())?,
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
        let known = [
            "ignoreNullFields",
            FORMATS[0],
            FORMATS[1],
            FORMATS[2],
            FORMATS[3],
        ];
        let options = Options::of(args, i, "to_json", &known)?;
        Ok(Self {
            without_nulls: options.flag("ignoreNullFields", true)?,
            formats: Formats::of(&options, args.zone())?,
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
