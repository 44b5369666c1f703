//! Options of the CSV reader, by Spark's names.

use std::str::FromStr;

use arrow::datatypes::SchemaRef;
use weir_runtime::Result;

use crate::options::Options;

/// Most columns a header may name (Spark's default of `maxColumns`).
pub(super) const DEFAULT_MAX_COLUMNS: usize = 20_480;

/// What becomes of a quoted field with text behind its closing quote (Spark's `unescapedQuoteHandling`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnescapedQuotes {
    /// `STOP_AT_DELIMITER`: the field is its text as it stands, quotes included, up to the next separator.
    #[default]
    StopAtDelimiter,
    /// `STOP_AT_CLOSING_QUOTE`: the quote is part of the text, which goes on to a quote that a separator or the end of the line
    /// follows.
    StopAtClosingQuote,
    /// `BACK_TO_DELIMITER`: the field is as if no quote had any meaning: its text as it stands up to the first separator, inside of
    /// the quotes too. Spark loses quotes that separators do not stand beside.
    BackToDelimiter,
    /// `SKIP_VALUE`: the field is NULL and ends at the next separator.
    SkipValue,
    /// `RAISE_ERROR`: an error in every mode.
    RaiseError,
}

impl UnescapedQuotes {
    const ALLOWED: &str =
        "STOP_AT_DELIMITER, STOP_AT_CLOSING_QUOTE, BACK_TO_DELIMITER, SKIP_VALUE, RAISE_ERROR";
}

impl FromStr for UnescapedQuotes {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        Ok(match text.to_ascii_uppercase().as_str() {
            "STOP_AT_DELIMITER" => Self::StopAtDelimiter,
            "STOP_AT_CLOSING_QUOTE" => Self::StopAtClosingQuote,
            "BACK_TO_DELIMITER" => Self::BackToDelimiter,
            "SKIP_VALUE" => Self::SkipValue,
            "RAISE_ERROR" => Self::RaiseError,
            _ => return Err(()),
        })
    }
}

/// What the CSV reader accepts. The defaults are Spark's unless a field says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// `sep` or `delimiter`: between two fields, one or more characters; default a comma.
    pub sep: String,
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
    /// `charToEscapeQuoteEscaping`: inside a quoted field it takes the meaning off an escape, ASCII; default what `escape` is,
    /// NUL for none.
    pub char_to_escape_quote_escaping: Option<u8>,
    /// `unescapedQuoteHandling`: what becomes of a quoted field with text behind its closing quote.
    pub unescaped_quotes: UnescapedQuotes,
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
            sep: ",".to_owned(),
            header: false,
            enforce_schema: true,
            quote: Some(b'"'),
            escape: b'\\',
            char_to_escape_quote_escaping: None,
            unescaped_quotes: UnescapedQuotes::default(),
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

impl CsvOptions {
    /// What takes the meaning off an escape.
    pub(super) fn escape_of_escape(&self) -> Option<u8> {
        let given = self.char_to_escape_quote_escaping;
        Some(given.unwrap_or(self.escape)).filter(|byte| *byte != 0)
    }

    /// Reads the options of the format out of those of its table.
    ///
    /// # Errors
    /// Names the option, its value and what is allowed.
    pub(crate) fn of(given: &Options<'_>) -> Result<Self> {
        let default = Self::default();
        given.flag("columnPruning")?;
        given.positive("inputBufferSize")?;
        let text = |name, default: String| given.text(name).map_or(default, str::to_owned);
        let quote = given.byte_or_none("quote", default.quote)?;
        // An empty escape leaves the doubled quote as the only way to write one.
        let escape = given.byte_or_none("escape", Some(default.escape))?;
        Ok(Self {
            sep: given.separator()?.unwrap_or(default.sep),
            header: given.flag("header")?.unwrap_or(default.header),
            enforce_schema: given
                .flag("enforceSchema")?
                .unwrap_or(default.enforce_schema),
            quote,
            escape: escape.or(quote).unwrap_or(default.escape),
            char_to_escape_quote_escaping: given.byte("charToEscapeQuoteEscaping")?,
            unescaped_quotes: given
                .parse("unescapedQuoteHandling", UnescapedQuotes::ALLOWED)?
                .unwrap_or_default(),
            comment: given.byte_or_none("comment", None)?,
            null_value: text("nullValue", default.null_value),
            empty_value: text("emptyValue", default.empty_value),
            nan_value: text("nanValue", default.nan_value),
            positive_inf: text("positiveInf", default.positive_inf),
            negative_inf: text("negativeInf", default.negative_inf),
            ignore_leading_white_space: given.flag("ignoreLeadingWhiteSpace")?.unwrap_or(false),
            ignore_trailing_white_space: given.flag("ignoreTrailingWhiteSpace")?.unwrap_or(false),
            multi_line: given.flag("multiLine")?,
            line_separator: line_separator(given)?,
            max_chars_per_column: limit(given, "maxCharsPerColumn")?,
            max_columns: limit(given, "maxColumns")?.unwrap_or(default.max_columns),
            file_schema: None,
        })
    }
}

fn limit(given: &Options<'_>, name: &'static str) -> Result<Option<usize>> {
    let limit = given.parse_exactly(name, "a whole number, or -1 for no limit", |value| {
        if value == "-1" {
            Some(None)
        } else {
            value.parse().ok().filter(|limit| *limit > 0).map(Some)
        }
    })?;
    Ok(limit.flatten())
}

fn line_separator(given: &Options<'_>) -> Result<Option<u8>> {
    let allowed = "one ASCII character, or \\r\\n";
    let separator = given.parse_exactly("lineSep", allowed, |value| match value.as_bytes() {
        b"\r\n" => Some(None),
        [byte] if byte.is_ascii() => Some(Some(*byte)),
        _ => None,
    })?;
    Ok(separator.flatten())
}
