//! Reads the options of a stream writer, by Spark's names, into a [`WriteFormat`].

use std::collections::BTreeMap;

use super::csv::{self, CsvWriteOptions};
use super::json::{self, JsonWriteOptions};
use super::parquet::{self, ParquetCompression, ParquetWriteOptions};
use super::text::{self, TextWriteOptions};
use super::time::{ALLOWED_PATTERNS, TimestampFormat};
use super::{EncodeError, WriteFormat};
use crate::file::decode::parse::Zone;

const FORMATS: &str = "parquet, json, csv, text";

impl WriteFormat {
    /// The format called `name` with its options; names of both in any letter case, as in Spark.
    ///
    /// Options that are not the format's own (`path`, `checkpointLocation`, misspelt ones) are left
    /// alone: the sink knows which names exist, see [`WriteFormat::option_names`].
    /// `session_time_zone` is used where `timeZone` is not given.
    ///
    /// # Errors
    /// The format is not known, or an option has a value it cannot have.
    pub fn from_options(
        name: &str,
        options: &BTreeMap<String, String>,
        session_time_zone: Zone,
    ) -> Result<Self, EncodeError> {
        let name = name.to_ascii_lowercase();
        let options = |format| Options { format, options };
        Ok(match name.as_str() {
            parquet::FORMAT => Self::Parquet(parquet_options(&options(parquet::FORMAT))?),
            json::FORMAT => Self::Json(json_options(&options(json::FORMAT), session_time_zone)?),
            csv::FORMAT => Self::Csv(csv_options(&options(csv::FORMAT), session_time_zone)?),
            text::FORMAT => Self::Text(text_options(&options(text::FORMAT))?),
            _ => {
                return Err(EncodeError::UnknownFormat {
                    name,
                    allowed: FORMATS,
                });
            }
        })
    }

    /// Names of the options of the format called `name`; none if there is no such format.
    #[must_use]
    pub fn option_names(name: &str) -> &'static [&'static str] {
        match name.to_ascii_lowercase().as_str() {
            parquet::FORMAT => &["compression"],
            json::FORMAT => &[
                "compression",
                "dateFormat",
                "encoding",
                "ignoreNullFields",
                "lineSep",
                "timeZone",
                "timestampFormat",
            ],
            csv::FORMAT => &[
                "compression",
                "dateFormat",
                "delimiter",
                "emptyValue",
                "encoding",
                "escape",
                "header",
                "ignoreLeadingWhiteSpace",
                "ignoreTrailingWhiteSpace",
                "lineSep",
                "nullValue",
                "quote",
                "quoteAll",
                "sep",
                "timeZone",
                "timestampFormat",
            ],
            text::FORMAT => &["compression", "encoding", "lineSep"],
            _ => &[],
        }
    }
}

fn parquet_options(options: &Options<'_>) -> Result<ParquetWriteOptions, EncodeError> {
    let compression = options.parse(
        "compression",
        "'none', 'uncompressed', 'snappy', 'zstd', 'lz4', 'lz4_raw' or 'gzip'",
        |value| {
            Some(match value.to_ascii_lowercase().as_str() {
                "none" | "uncompressed" => ParquetCompression::None,
                "snappy" => ParquetCompression::Snappy,
                "zstd" => ParquetCompression::Zstd,
                "lz4" | "lz4_raw" => ParquetCompression::Lz4,
                "gzip" => ParquetCompression::Gzip,
                _ => return None,
            })
        },
    )?;
    Ok(ParquetWriteOptions {
        compression: compression.unwrap_or_default(),
    })
}

fn json_options(options: &Options<'_>, zone: Zone) -> Result<JsonWriteOptions, EncodeError> {
    options.check_text()?;
    let default = JsonWriteOptions::default();
    Ok(JsonWriteOptions {
        ignore_null_fields: options.flag("ignoreNullFields", default.ignore_null_fields)?,
        timestamp_format: options.timestamp_format()?,
        time_zone: options.time_zone(zone)?,
        line_sep: options.line_sep()?,
    })
}

fn csv_options(options: &Options<'_>, zone: Zone) -> Result<CsvWriteOptions, EncodeError> {
    options.check_text()?;
    let default = CsvWriteOptions::default();
    let sep = match options.byte("sep")? {
        Some(sep) => Some(sep),
        None => options.byte("delimiter")?,
    };
    let quote = match options.get("quote") {
        Some("") => None,
        _ => options.byte("quote")?.or(default.quote),
    };
    Ok(CsvWriteOptions {
        sep: sep.unwrap_or(default.sep),
        header: options.flag("header", default.header)?,
        quote,
        escape: options.byte("escape")?,
        quote_all: options.flag("quoteAll", default.quote_all)?,
        null_value: options.get("nullValue").unwrap_or_default().to_owned(),
        empty_value: options.get("emptyValue").map(str::to_owned),
        ignore_leading_white_space: options.flag("ignoreLeadingWhiteSpace", false)?,
        ignore_trailing_white_space: options.flag("ignoreTrailingWhiteSpace", false)?,
        timestamp_format: options.timestamp_format()?,
        time_zone: options.time_zone(zone)?,
        line_sep: options.line_sep()?,
    })
}

fn text_options(options: &Options<'_>) -> Result<TextWriteOptions, EncodeError> {
    options.check_text()?;
    Ok(TextWriteOptions {
        line_sep: options.line_sep()?,
    })
}

/// Looks options up by name in any letter case and reads their values.
struct Options<'a> {
    format: &'static str,
    options: &'a BTreeMap<String, String>,
}

impl Options<'_> {
    fn get(&self, option: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(option))
            .map(|(_, value)| value.as_str())
    }

    fn parse<T>(
        &self,
        option: &'static str,
        allowed: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, EncodeError> {
        let Some(value) = self.get(option) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(EncodeError::InvalidOption {
                format: self.format,
                option,
                value: value.to_owned(),
                allowed,
            }),
        }
    }

    fn flag(&self, option: &'static str, default: bool) -> Result<bool, EncodeError> {
        let flag = self.parse(option, "'true' or 'false'", |value| {
            match value.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }
        })?;
        Ok(flag.unwrap_or(default))
    }

    fn byte(&self, option: &'static str) -> Result<Option<u8>, EncodeError> {
        self.parse(
            option,
            "one ASCII character, or \\t for a tab",
            |value| match value.as_bytes() {
                b"\\t" => Some(b'\t'),
                b"\\\\" => Some(b'\\'),
                [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Some(*byte),
                _ => None,
            },
        )
    }

    fn timestamp_format(&self) -> Result<TimestampFormat, EncodeError> {
        let format = self.parse("timestampFormat", ALLOWED_PATTERNS, |p| p.parse().ok())?;
        Ok(format.unwrap_or_default())
    }

    fn time_zone(&self, session: Zone) -> Result<Zone, EncodeError> {
        let allowed = "a zone such as 'UTC', 'Europe/Rome' or '+02:00'";
        let zone = self.parse("timeZone", allowed, |name| Zone::from_name(name).ok())?;
        Ok(zone.unwrap_or(session))
    }

    fn line_sep(&self) -> Result<String, EncodeError> {
        let line_sep = self.parse("lineSep", "a text that is not empty", |value| {
            (!value.is_empty()).then(|| value.to_owned())
        })?;
        Ok(line_sep.unwrap_or_else(|| "\n".to_owned()))
    }

    /// Options of the text formats that exist with one value only.
    fn check_text(&self) -> Result<(), EncodeError> {
        let only = |allowed: &'static [&'static str]| {
            move |value: &str| {
                let same = |a: &&str| value.eq_ignore_ascii_case(a);
                allowed.iter().any(same).then_some(())
            }
        };
        self.parse("compression", "'none'", only(&["none", "uncompressed"]))?;
        self.parse("encoding", "'UTF-8'", only(&["utf-8", "utf8"]))?;
        self.parse("dateFormat", "'yyyy-MM-dd'", only(&["yyyy-MM-dd"]))?;
        Ok(())
    }
}
