//! The options of the file source and the file sink, by Spark's names, and how those of files are read.

mod avro;
mod tables;
mod without_effect;

use weir_runtime::{ObjectStoreSettings, Result, WeirError};

use weir_state::location::OBJECT_STORE_SETTINGS;

pub use tables::{OBJECT_STORES, SINK, SOURCE};

use super::charset::{self, Charset};
use super::codec::{self, Codec};
use super::decode::ParseMode;
use super::decode::parse::Zone;
use super::pattern::TimePattern;
use super::uri;
use crate::options::{OptionSpec, Options};
pub(crate) use avro::BY_NAME;
use avro::{READ_AVRO, WRITE_AVRO};
use tables::{
    READ_CSV, READ_JSON, READ_ORC, READ_PARQUET, READ_TEXT, READ_TEXT_FILES, READ_TIMES, RECORDS,
    WRITE_CODEC, WRITE_CSV, WRITE_JSON, WRITE_PARQUET, WRITE_TEXT_FILES, WRITE_TIMES,
};
use without_effect::{GUESS_CSV, GUESS_JSON, UNUSED_CSV};
pub(crate) use without_effect::{NO_SUCH_TYPE, NO_TIME_TYPE};

/// Formats files are read in; `orc` where the feature of that name is on.
pub const READ_FORMATS: &[&str] = &["json", "csv", "parquet", "avro", "orc", "text"];

/// Formats files are written in.
pub const WRITE_FORMATS: &[&str] = &["json", "csv", "parquet", "avro", "text"];

/// Options that reading this format has beside [`SOURCE`]; none if there is no such format.
pub(crate) fn format_read_options(format: &str) -> Vec<OptionSpec> {
    match format {
        "json" => [
            RECORDS,
            READ_JSON,
            READ_TIMES,
            READ_TEXT_FILES,
            GUESS_JSON,
            NO_SUCH_TYPE,
        ]
        .concat(),
        "csv" => [
            RECORDS,
            READ_CSV,
            READ_TIMES,
            READ_TEXT_FILES,
            GUESS_CSV,
            UNUSED_CSV,
            NO_SUCH_TYPE,
        ]
        .concat(),
        "text" => [READ_TEXT, READ_TEXT_FILES].concat(),
        "parquet" => READ_PARQUET.to_vec(),
        "avro" => READ_AVRO.to_vec(),
        "orc" => READ_ORC.to_vec(),
        _ => Vec::new(),
    }
}

/// Options that writing this format has beside [`SINK`]; none if there is no such format.
pub(crate) fn format_write_options(format: &str) -> Vec<OptionSpec> {
    match format {
        "json" => [WRITE_JSON, WRITE_TIMES, NO_TIME_TYPE, WRITE_TEXT_FILES].concat(),
        "csv" => [
            WRITE_CSV,
            WRITE_TIMES,
            NO_TIME_TYPE,
            WRITE_TEXT_FILES,
            WRITE_CODEC,
        ]
        .concat(),
        "text" => WRITE_TEXT_FILES.to_vec(),
        "avro" => [WRITE_AVRO, BY_NAME].concat(),
        "parquet" => WRITE_PARQUET.to_vec(),
        _ => Vec::new(),
    }
}

/// All options of a source of this format, or `None` if there is no such format.
pub fn source_options(format: &str) -> Option<Vec<OptionSpec>> {
    let known = READ_FORMATS.contains(&format);
    known.then(|| {
        [
            SOURCE,
            OBJECT_STORES,
            format_read_options(format).as_slice(),
        ]
        .concat()
    })
}

/// All options of a sink of this format, or `None` if there is no such format.
pub fn sink_options(format: &str) -> Option<Vec<OptionSpec>> {
    let known = WRITE_FORMATS.contains(&format);
    known.then(|| [SINK, OBJECT_STORES, format_write_options(format).as_slice()].concat())
}

impl<'a> Options<'a> {
    /// `mode`.
    pub(crate) fn mode(&self) -> Result<Option<ParseMode>> {
        self.parse_exactly("mode", "PERMISSIVE, DROPMALFORMED, FAILFAST", |text| {
            text.parse().ok()
        })
    }

    /// `timeZone`.
    pub(crate) fn time_zone(&self) -> Result<Option<Zone>> {
        let allowed = "UTC, an offset such as +01:00, a region such as Europe/Rome";
        self.parse_exactly("timeZone", allowed, |name| Zone::from_name(name).ok())
    }

    /// `lineSep`: any text that is not empty.
    pub(crate) fn line_separator(&self) -> Result<Option<&'a str>> {
        self.parse_exactly("lineSep", "a text that is not empty", |text| {
            (!text.is_empty()).then_some(())
        })?;
        Ok(self.text("lineSep"))
    }

    /// `sep`, or `delimiter`: one or more characters; `\\t` and the like are spelt so, as in Spark.
    pub(crate) fn separator(&self) -> Result<Option<String>> {
        let allowed = "one or more characters other than line ends; a tab is \\t, a backslash \\\\";
        let sep = self.parse_exactly("sep", allowed, separator)?;
        let delimiter = self.parse_exactly("delimiter", allowed, separator)?;
        Ok(sep.or(delimiter))
    }

    /// `encoding`, or `charset`.
    pub(crate) fn charset(&self) -> Result<Charset> {
        let encoding = self.parse_exactly("encoding", charset::ALLOWED, Charset::of_name)?;
        let charset = self.parse_exactly("charset", charset::ALLOWED, Charset::of_name)?;
        Ok(encoding.or(charset).unwrap_or_default())
    }

    /// `compression` of files made of text.
    pub(crate) fn codec(&self) -> Result<Option<Codec>> {
        let codec = self.parse_exactly("compression", codec::ALLOWED, codec::named)?;
        Ok(codec.flatten())
    }

    /// An option that has one value.
    pub(crate) fn only(&self, name: &'static str, value: &str) -> Result<()> {
        let same = |text: &str| text.eq_ignore_ascii_case(value).then_some(());
        self.parse_with(name, value, same).map(|_| ())
    }

    /// `avroSchema`, or the text of the file that `avroSchemaUrl` names.
    pub(crate) fn avro_schema(&self) -> Result<Option<String>> {
        if let Some(text) = self.text("avroSchema") {
            return Ok(Some(text.to_owned()));
        }
        let Some(url) = self.text("avroSchemaUrl") else {
            return Ok(None);
        };
        let path = uri::local_path("option 'avroSchemaUrl'", url)?;
        std::fs::read_to_string(&path).map(Some).map_err(|error| {
            WeirError::config(format!(
                "option 'avroSchemaUrl' names '{url}', which cannot be read: {error}"
            ))
            .with_source(error)
        })
    }

    /// Refuses the options of a table of those that cannot be followed, with the reason that stands there.
    pub(crate) fn refuse(&self, table: &[OptionSpec]) -> Result<()> {
        match table.iter().find(|spec| self.text(spec.name).is_some()) {
            Some(spec) => Err(WeirError::config(format!(
                "option '{}' is {}",
                spec.name, spec.meaning
            ))),
            None => Ok(()),
        }
    }

    /// A pattern of dates or times, as `read` takes it.
    pub(crate) fn pattern(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<TimePattern, String>,
    ) -> Result<Option<TimePattern>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let refused = |reason: String| {
            WeirError::config(format!(
                "option '{name}' has the value '{text}', which is no pattern: {reason}; allowed are the letters of Java's \
                 DateTimeFormatter, such as yyyy-MM-dd HH:mm:ss"
            ))
            .with_condition("INVALID_DATETIME_PATTERN")
        };
        read(text).map(Some).map_err(refused)
    }

    /// `fs.s3a.*`.
    pub(crate) fn object_stores(&self) -> Result<ObjectStoreSettings> {
        let mut settings = ObjectStoreSettings::default();
        for setting in OBJECT_STORE_SETTINGS {
            if let Some(value) = self.text(setting.name) {
                settings.set(setting.name, value)?;
            }
        }
        Ok(settings)
    }

    /// The path where it is an option too: it must not contradict the one given as an argument.
    pub(crate) fn check_path(&self, path: &str) -> Result<()> {
        match self.text("path") {
            Some(other) if other != path => Err(WeirError::config(format!(
                "the path is given twice: '{path}' and, as option 'path', '{other}'"
            ))),
            _ => Ok(()),
        }
    }
}

/// The text that a separator is spelt as, by Spark's rules.
fn separator(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.strip_suffix("\\u0000").unwrap_or(text).chars();
    let ends_with_nul = rest.as_str().len() < text.len();
    while let Some(letter) = rest.next() {
        plain.push(match letter {
            '\\' => match rest.next()? {
                't' => '\t',
                'b' => '\u{8}',
                'f' => '\u{c}',
                quote @ ('"' | '\'' | '\\') => quote,
                _ => return None,
            },
            '\n' | '\r' => return None,
            other => other,
        });
    }
    if ends_with_nul {
        plain.push('\0');
    }
    (!plain.is_empty()).then_some(plain)
}
