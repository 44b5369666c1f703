//! Options of the CSV reader, by Spark's names.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use super::FORMAT;
use crate::file::decode::DecodeError;

/// Most columns a header may name (Spark's default of `maxColumns`).
pub(super) const DEFAULT_MAX_COLUMNS: usize = 20_480;

/// What the CSV reader accepts. The defaults are Spark's unless a field says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// `sep` or `delimiter`: between two fields, ASCII; default a comma.
    pub sep: u8,
    /// `header`: the first record of every file names the columns; default false. Columns are then found by name, not by
    /// place as in Spark, so that a file whose columns stand in another order is not misread.
    pub header: bool,
    /// `enforceSchema`: with false a header that differs from the schema, in order too, is an error; default true.
    pub enforce_schema: bool,
    /// `quote`: around fields, ASCII; default `"`, None for never.
    pub quote: Option<u8>,
    /// `escape`: inside a quoted field it takes the meaning off a quote and off itself, ASCII; default a backslash. A
    /// doubled quote is understood whatever the escape.
    pub escape: u8,
    /// `comment`: a line that begins with it is left out, ASCII; default None.
    pub comment: Option<u8>,
    /// `nullValue`: text that means NULL. An empty field without quotes always does.
    pub null_value: String,
    /// `emptyValue`: what `""` means in a text column; default the empty text, which is not NULL (in Spark it becomes
    /// NULL as long as `nullValue` is empty).
    pub empty_value: String,
    /// `nanValue`: spelling of not-a-number, besides `NaN`.
    pub nan_value: String,
    /// `positiveInf`: spelling of infinity, besides `Infinity`.
    pub positive_inf: String,
    /// `negativeInf`: spelling of minus infinity, besides `-Infinity`.
    pub negative_inf: String,
    /// `ignoreLeadingWhiteSpace`: cut blanks before a field; default false.
    pub ignore_leading_white_space: bool,
    /// `ignoreTrailingWhiteSpace`: cut blanks after a field; default false.
    pub ignore_trailing_white_space: bool,
    /// `multiLine`: whether a quoted field may hold line ends. Set to false, a record with such a field is bad, as a
    /// whole. Unset, it is good if its quotes match and it has the right number of fields; otherwise the quote is
    /// taken for a stray one and the record for that line alone.
    pub multi_line: Option<bool>,
    /// `lineSep`: the one character that ends a record; by default `\n`, `\r\n` and `\r` do.
    pub line_separator: Option<u8>,
    /// `maxCharsPerColumn`: a longer field is bad; default None.
    pub max_chars_per_column: Option<usize>,
    /// `maxColumns`: most columns of a header; default 20 480.
    pub max_columns: usize,
    /// All columns the files have, in their order, where that is more than the columns to produce. Without a header it
    /// says at which place a column stands.
    pub file_schema: Option<SchemaRef>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            sep: b',',
            header: false,
            enforce_schema: true,
            quote: Some(b'"'),
            escape: b'\\',
            comment: None,
            null_value: String::new(),
            empty_value: String::new(),
            nan_value: "NaN".to_owned(),
            positive_inf: "Inf".to_owned(),
            negative_inf: "-Inf".to_owned(),
            ignore_leading_white_space: false,
            ignore_trailing_white_space: false,
            multi_line: None,
            line_separator: None,
            max_chars_per_column: None,
            max_columns: DEFAULT_MAX_COLUMNS,
            file_schema: None,
        }
    }
}

/// Spellings of the default patterns; the reader understands all that Spark's default does.
const DATE_PATTERNS: &[&str] = &["yyyy-MM-dd"];
const TIMESTAMP_PATTERNS: &[&str] = &[
    "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ss",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd HH:mm:ss.SSS",
    "yyyy-MM-dd HH:mm:ss.SSSSSS",
];
const NTZ_PATTERNS: &[&str] = &[
    "yyyy-MM-dd'T'HH:mm:ss[.SSS]",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "yyyy-MM-dd'T'HH:mm:ss",
    "yyyy-MM-dd HH:mm:ss",
];

impl CsvOptions {
    /// Names of the options read by [`CsvOptions::from_options`].
    pub const NAMES: &'static [&'static str] = &[
        "charset",
        "comment",
        "compression",
        "dateFormat",
        "delimiter",
        "emptyValue",
        "encoding",
        "enforceSchema",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "lineSep",
        "maxCharsPerColumn",
        "maxColumns",
        "multiLine",
        "nanValue",
        "negativeInf",
        "nullValue",
        "positiveInf",
        "quote",
        "sep",
        "timestampFormat",
        "timestampNTZFormat",
    ];

    /// Reads options given as text, names in any letter case. Other options (`mode`, `path`, …) are left alone.
    ///
    /// # Errors
    /// [`DecodeError::InvalidOption`] names the option, its value and what is allowed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self, DecodeError> {
        let texts = Texts { options };
        texts.check_fixed()?;
        let default = Self::default();
        let sep = match texts.byte("sep")? {
            Some(sep) => Some(sep),
            None => texts.byte("delimiter")?,
        };
        let quote = texts.byte_or_none("quote", default.quote)?;
        // An empty escape leaves the doubled quote as the only way to write one.
        let escape = texts.byte_or_none("escape", Some(default.escape))?;
        Ok(Self {
            sep: sep.unwrap_or(default.sep),
            header: texts.flag("header")?.unwrap_or(default.header),
            enforce_schema: texts
                .flag("enforceSchema")?
                .unwrap_or(default.enforce_schema),
            quote,
            escape: escape.or(quote).unwrap_or(default.escape),
            comment: texts.byte_or_none("comment", None)?,
            null_value: texts.text("nullValue", default.null_value),
            empty_value: texts.text("emptyValue", default.empty_value),
            nan_value: texts.text("nanValue", default.nan_value),
            positive_inf: texts.text("positiveInf", default.positive_inf),
            negative_inf: texts.text("negativeInf", default.negative_inf),
            ignore_leading_white_space: texts.flag("ignoreLeadingWhiteSpace")?.unwrap_or(false),
            ignore_trailing_white_space: texts.flag("ignoreTrailingWhiteSpace")?.unwrap_or(false),
            multi_line: texts.flag("multiLine")?,
            line_separator: texts.line_separator()?,
            max_chars_per_column: texts.limit("maxCharsPerColumn")?,
            max_columns: texts.limit("maxColumns")?.unwrap_or(default.max_columns),
            file_schema: None,
        })
    }
}

/// Options as text, looked up in any letter case.
struct Texts<'a> {
    options: &'a BTreeMap<String, String>,
}

impl Texts<'_> {
    fn get(&self, option: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(option))
            .map(|(_, value)| value.as_str())
    }

    fn text(&self, option: &str, default: String) -> String {
        self.get(option).map_or(default, str::to_owned)
    }

    fn parse<T>(
        &self,
        option: &'static str,
        allowed: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.get(option) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(DecodeError::InvalidOption {
                format: FORMAT,
                option,
                value: value.to_owned(),
                allowed,
            }),
        }
    }

    fn flag(&self, option: &'static str) -> Result<Option<bool>, DecodeError> {
        self.parse(option, "'true' or 'false'", |value| {
            match value.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }
        })
    }

    fn byte(&self, option: &'static str) -> Result<Option<u8>, DecodeError> {
        self.parse(option, "one ASCII character, or \\t for a tab", ascii)
    }

    /// As `byte`, where the empty text means none.
    fn byte_or_none(
        &self,
        option: &'static str,
        default: Option<u8>,
    ) -> Result<Option<u8>, DecodeError> {
        match self.get(option) {
            None => Ok(default),
            Some("") => Ok(None),
            Some(_) => self.byte(option),
        }
    }

    fn limit(&self, option: &'static str) -> Result<Option<usize>, DecodeError> {
        let limit = self.parse(option, "a whole number, or -1 for no limit", |value| {
            if value == "-1" {
                Some(None)
            } else {
                value.parse().ok().filter(|limit| *limit > 0).map(Some)
            }
        })?;
        Ok(limit.flatten())
    }

    fn line_separator(&self) -> Result<Option<u8>, DecodeError> {
        let allowed = "one ASCII character, or \\r\\n";
        let separator = self.parse("lineSep", allowed, |value| match value.as_bytes() {
            b"\r\n" => Some(None),
            [byte] if byte.is_ascii() => Some(Some(*byte)),
            _ => None,
        })?;
        Ok(separator.flatten())
    }

    /// Options that have few values so far.
    fn check_fixed(&self) -> Result<(), DecodeError> {
        fn among(allowed: &'static [&'static str]) -> impl Fn(&str) -> Option<()> {
            move |value| {
                let same = |a: &&str| value.eq_ignore_ascii_case(a);
                allowed.iter().any(same).then_some(())
            }
        }
        fn pattern(allowed: &'static [&'static str]) -> impl Fn(&str) -> Option<()> {
            move |value| allowed.contains(&value).then_some(())
        }
        let utf8 = among(&["utf-8", "utf8"]);
        self.parse("encoding", "'UTF-8'", &utf8)?;
        self.parse("charset", "'UTF-8'", &utf8)?;
        self.parse("compression", "'none'", among(&["none", "uncompressed"]))?;
        self.parse("dateFormat", "'yyyy-MM-dd'", pattern(DATE_PATTERNS))?;
        self.parse(
            "timestampFormat",
            "the default \"yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]\", also with a blank for 'T' and other fractions",
            pattern(TIMESTAMP_PATTERNS),
        )?;
        self.parse(
            "timestampNTZFormat",
            "the default \"yyyy-MM-dd'T'HH:mm:ss[.SSS]\", also with a blank for 'T' and other fractions",
            pattern(NTZ_PATTERNS),
        )?;
        Ok(())
    }
}

fn ascii(value: &str) -> Option<u8> {
    match value.as_bytes() {
        b"\\t" => Some(b'\t'),
        b"\\\\" => Some(b'\\'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Some(*byte),
        _ => None,
    }
}
