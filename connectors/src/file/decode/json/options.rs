//! Options of the JSON format, already parsed.

/// What the JSON decoder accepts. The defaults are Spark's; the names of Spark's options stand at the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// `allowComments`: `/* … */` and `// …` count as blanks.
    pub allow_comments: bool,
    /// `allowUnquotedFieldNames`: `{a: 1}`.
    pub allow_unquoted_field_names: bool,
    /// `allowSingleQuotes`: `{'a': 'b'}`.
    pub allow_single_quotes: bool,
    /// `allowNumericLeadingZeros`: `007`.
    pub allow_numeric_leading_zeros: bool,
    /// `allowBackslashEscapingAnyCharacter`: `\x` is `x`.
    pub allow_backslash_escaping_any_character: bool,
    /// `allowUnquotedControlChars`: control characters inside text.
    pub allow_unquoted_control_chars: bool,
    /// `allowNonNumericNumbers`: `NaN`, `Infinity` and their like, bare or as text, in floating-point columns.
    pub allow_non_numeric_numbers: bool,
    /// `multiLine`: the whole file is one object, or an array of them.
    pub multi_line: bool,
    /// `explodeEmbeddedArray`: the file is one object, and the records are in the array of this field of it; the name letter by letter,
    /// as it is spelt in the file. What else is in the file is left out, and a file without such an array has no records.
    pub embedded_array: Option<String>,
    /// `lineSep`; by default `\n`, `\r\n` and `\r`.
    pub line_separator: Option<Vec<u8>>,
    /// A top-level array is one row for each object in it (Spark's file source); otherwise it is a bad record (Spark's
    /// `from_json` with a struct).
    pub arrays_as_rows: bool,
    /// A number, object or array in a STRING column keeps its spelling (Spark's file source); otherwise numbers are
    /// rewritten as Java prints them and blanks are left out (Spark's `from_json`).
    pub exact_text: bool,
    /// `maxNestingDepth`: deeper records are bad.
    pub max_nesting_depth: usize,
    /// `maxNumLen`: records with longer numbers are bad.
    pub max_number_length: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            allow_comments: false,
            allow_unquoted_field_names: false,
            allow_single_quotes: true,
            allow_numeric_leading_zeros: false,
            allow_backslash_escaping_any_character: false,
            allow_unquoted_control_chars: false,
            allow_non_numeric_numbers: true,
            multi_line: false,
            embedded_array: None,
            line_separator: None,
            arrays_as_rows: true,
            exact_text: true,
            max_nesting_depth: 1000,
            max_number_length: 1000,
        }
    }
}

impl JsonOptions {
    /// As Spark's `from_json` reads: one value per text, numbers and objects rewritten in STRING fields.
    pub fn for_function() -> Self {
        Self {
            arrays_as_rows: false,
            exact_text: false,
            ..Self::default()
        }
    }
}
