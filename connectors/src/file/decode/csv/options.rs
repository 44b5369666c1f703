//! Options of the CSV reader, by Spark's names.

use arrow::datatypes::SchemaRef;
use weir_runtime::Result;

use crate::options::Options;

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

impl CsvOptions {
    /// Reads the options of the format out of those of its table.
    ///
    /// # Errors
    /// Names the option, its value and what is allowed.
    pub(crate) fn of(given: &Options<'_>) -> Result<Self> {
        let default = Self::default();
        let sep = match given.byte("sep")? {
            Some(sep) => Some(sep),
            None => given.byte("delimiter")?,
        };
        let text = |name, default: String| given.text(name).map_or(default, str::to_owned);
        let quote = given.byte_or_none("quote", default.quote)?;
        // An empty escape leaves the doubled quote as the only way to write one.
        let escape = given.byte_or_none("escape", Some(default.escape))?;
        Ok(Self {
            sep: sep.unwrap_or(default.sep),
            header: given.flag("header")?.unwrap_or(default.header),
            enforce_schema: given
                .flag("enforceSchema")?
                .unwrap_or(default.enforce_schema),
            quote,
            escape: escape.or(quote).unwrap_or(default.escape),
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
