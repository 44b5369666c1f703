//! Schema text in Spark's DDL to Arrow.
//!
//! Own code because no Rust SQL parser reads Spark's type text as it stands (`STRUCT<a: INT>`,
//! `name: TYPE`, `INTERVAL DAY TO SECOND`, backticks), and because the error a user gets for a
//! mistyped schema has to say where, what and what else would have been right.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef,
    TimeUnit,
};

use super::token::{Token, TokenKind, tokenize};
use super::{COMMENT_KEY, INTERVAL_FIELDS_KEY, TIMESTAMP_ZONE};

/// How deep types may nest. Far beyond any real schema; it keeps a hostile text from exhausting the stack.
const MAX_DEPTH: usize = 100;

/// The type names an error offers.
const TYPE_NAMES: &str = "BOOLEAN, TINYINT, BYTE, SMALLINT, SHORT, INT, INTEGER, BIGINT, LONG, FLOAT, REAL, DOUBLE, \
DECIMAL, DEC, NUMERIC, STRING, CHAR, VARCHAR, BINARY, DATE, TIMESTAMP, TIMESTAMP_LTZ, TIMESTAMP_NTZ, INTERVAL, VOID, \
ARRAY, MAP, STRUCT";

/// Why a schema text was refused. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DdlError {
    /// A word that cannot stand where it stands.
    #[error("schema text at character {position}: found {found}, expected {expected}")]
    Unexpected {
        /// Where the word starts.
        position: usize,
        /// The word, as shown to people.
        found: String,
        /// What could stand there.
        expected: String,
    },
    /// A type name that does not exist.
    #[error(
        "schema text at character {position}: unknown type '{found}', allowed are {TYPE_NAMES}"
    )]
    UnknownType {
        /// Where the name starts.
        position: usize,
        /// The name as written.
        found: String,
    },
    /// A number in parentheses outside of its range.
    #[error("schema text at character {position}: {what} is {found}, allowed is {allowed}")]
    Parameter {
        /// Where the number starts.
        position: usize,
        /// Which parameter of which type.
        what: &'static str,
        /// The number as written.
        found: String,
        /// The range.
        allowed: String,
    },
    /// A quote or backtick without its partner.
    #[error("schema text at character {position}: this {what} is never closed")]
    Unclosed {
        /// Where the opening mark stands.
        position: usize,
        /// What was opened.
        what: &'static str,
    },
    /// Types nested deeper than the parser follows.
    #[error(
        "schema text at character {position}: types nested more than {MAX_DEPTH} deep, allowed is {MAX_DEPTH}"
    )]
    TooDeep {
        /// Where the innermost type starts.
        position: usize,
    },
}

impl From<DdlError> for weir_runtime::WeirError {
    fn from(error: DdlError) -> Self {
        weir_runtime::WeirError::plan(error.to_string()).with_source(error)
    }
}

/// Reads a list of columns such as ``user_id STRING, ts TIMESTAMP NOT NULL, `odd name` ARRAY<INT>``.
///
/// Keywords are case-insensitive, column names keep their case. A colon between name and type is
/// optional. Every column, struct field, array element and map value is nullable unless the column
/// or field says `NOT NULL`; a `COMMENT` goes to the field metadata under [`COMMENT_KEY`].
///
/// # Errors
/// [`DdlError`] with the position of the first word that does not fit.
///
/// ```
/// let schema = weir_sql::types::parse_schema("user_id STRING, at TIMESTAMP")?;
/// assert_eq!(weir_sql::types::schema_ddl(&schema), "user_id STRING, at TIMESTAMP");
/// # Ok::<(), weir_sql::types::DdlError>(())
/// ```
pub fn parse_schema(text: &str) -> Result<SchemaRef, DdlError> {
    let mut parser = Parser::new(text)?;
    let fields = parser.fields(0)?;
    parser.end("',' or the end of the text")?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Reads one type such as `MAP<STRING, DECIMAL(10, 2)>`.
///
/// # Errors
/// [`DdlError`] with the position of the first word that does not fit.
pub fn parse_type(text: &str) -> Result<DataType, DdlError> {
    let mut parser = Parser::new(text)?;
    let typed = parser.data_type(0)?;
    parser.end("the end of the text")?;
    Ok(typed.data_type)
}

/// A type, and which fields it names if it is an interval of fewer fields than its Arrow type holds.
struct Typed {
    data_type: DataType,
    interval_fields: Option<String>,
}

impl Typed {
    fn field(self, name: impl Into<String>, nullable: bool) -> Field {
        let metadata = self
            .interval_fields
            .map(|fields| (INTERVAL_FIELDS_KEY.to_owned(), fields));
        Field::new(name, self.data_type, nullable).with_metadata(metadata.into_iter().collect())
    }
}

impl From<DataType> for Typed {
    fn from(data_type: DataType) -> Self {
        Self {
            data_type,
            interval_fields: None,
        }
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Self, DdlError> {
        Ok(Self {
            tokens: tokenize(text)?,
            at: 0,
        })
    }

    /// The next word. The end is never taken, so there always is one.
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn unexpected(&self, expected: impl Into<String>) -> DdlError {
        let token = self.peek();
        DdlError::Unexpected {
            position: token.position,
            found: token.kind.shown(),
            expected: expected.into(),
        }
    }

    fn end(&self, expected: &str) -> Result<(), DdlError> {
        if self.peek().kind == TokenKind::End {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.peek().kind == TokenKind::Symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn symbol(&mut self, symbol: char, expected: &str) -> Result<(), DdlError> {
        if self.take_symbol(symbol) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        self.at += usize::from(found);
        found
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, DdlError> {
        let mut fields = vec![self.field(depth)?];
        while self.take_symbol(',') {
            fields.push(self.field(depth)?);
        }
        Ok(fields)
    }

    fn field(&mut self, depth: usize) -> Result<Field, DdlError> {
        let name = self.name()?;
        self.take_symbol(':');
        let typed = self.data_type(depth)?;
        let nullable = !self.not_null()?;
        let mut field = typed.field(name, nullable);
        if let Some(comment) = self.comment()? {
            field.metadata_mut().insert(COMMENT_KEY.to_owned(), comment);
        }
        Ok(field)
    }

    fn name(&mut self) -> Result<String, DdlError> {
        let name = match &self.peek().kind {
            TokenKind::Word(word) if !word.bytes().all(|b| b.is_ascii_digit()) => word.clone(),
            TokenKind::Quoted(name) if !name.is_empty() => name.clone(),
            _ => {
                return Err(self.unexpected(
                    "a column name (letters, digits and '_'; any other name in backticks)",
                ));
            }
        };
        self.at += 1;
        Ok(name)
    }

    fn not_null(&mut self) -> Result<bool, DdlError> {
        if !self.take_keyword("NOT") {
            return Ok(false);
        }
        if self.take_keyword("NULL") {
            return Ok(true);
        }
        Err(self.unexpected("NULL after NOT"))
    }

    fn comment(&mut self) -> Result<Option<String>, DdlError> {
        if !self.take_keyword("COMMENT") {
            return Ok(None);
        }
        let TokenKind::Text(text) = &self.peek().kind else {
            return Err(self.unexpected("a text in quotes after COMMENT"));
        };
        let text = text.clone();
        self.at += 1;
        Ok(Some(text))
    }

    fn data_type(&mut self, depth: usize) -> Result<Typed, DdlError> {
        let Token { kind, position } = self.peek().clone();
        if depth > MAX_DEPTH {
            return Err(DdlError::TooDeep { position });
        }
        let TokenKind::Word(word) = kind else {
            return Err(self.unexpected(format!("a type, one of {TYPE_NAMES}")));
        };
        self.at += 1;
        let upper = word.to_ascii_uppercase();
        if let Some(simple) = simple_type(&upper) {
            return Ok(simple.into());
        }
        match upper.as_str() {
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal().map(Typed::from),
            "CHAR" | "CHARACTER" | "VARCHAR" => self.text_with_length().map(Typed::from),
            "INTERVAL" => self.interval(),
            "ARRAY" => self.array(depth + 1).map(Typed::from),
            "MAP" => self.map(depth + 1).map(Typed::from),
            "STRUCT" => self.structure(depth + 1).map(Typed::from),
            _ => Err(DdlError::UnknownType {
                position,
                found: word,
            }),
        }
    }

    /// `DECIMAL`, `DECIMAL(p)` or `DECIMAL(p, s)`; Spark's defaults are 10 and 0.
    fn decimal(&mut self) -> Result<DataType, DdlError> {
        if !self.take_symbol('(') {
            return Ok(DataType::Decimal128(10, 0));
        }
        let precision = self.number("the precision of DECIMAL", 1, DECIMAL128_MAX_PRECISION)?;
        let mut scale = 0;
        if self.take_symbol(',') {
            scale = self.number("the scale of DECIMAL", 0, precision)?;
        }
        self.symbol(')', "')' after the precision and scale of DECIMAL")?;
        let scale = i8::try_from(scale).expect("invariant: a scale is at most 38");
        Ok(DataType::Decimal128(precision, scale))
    }

    /// A whole number from `low` to `high`.
    fn number(&mut self, what: &'static str, low: u8, high: u8) -> Result<u8, DdlError> {
        let (position, digits) = self.digits(what)?;
        match digits.parse::<u8>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(DdlError::Parameter {
                position,
                what,
                found: digits,
                allowed: format!("{low} to {high}"),
            }),
        }
    }

    fn digits(&mut self, what: &'static str) -> Result<(usize, String), DdlError> {
        let token = self.peek().clone();
        match token.kind {
            TokenKind::Word(word) if word.bytes().all(|b| b.is_ascii_digit()) => {
                self.at += 1;
                Ok((token.position, word))
            }
            _ => Err(self.unexpected(format!("{what}, a whole number"))),
        }
    }

    /// Spark reads `CHAR(n)` and `VARCHAR(n)` as STRING; the length is checked and then not kept.
    fn text_with_length(&mut self) -> Result<DataType, DdlError> {
        const WHAT: &str = "the length of CHAR or VARCHAR";
        self.symbol('(', "'(' and the length of CHAR or VARCHAR")?;
        let (position, digits) = self.digits(WHAT)?;
        if !digits.parse::<i32>().is_ok_and(|length| length > 0) {
            return Err(DdlError::Parameter {
                position,
                what: WHAT,
                found: digits,
                allowed: format!("1 to {}", i32::MAX),
            });
        }
        self.symbol(')', "')' after the length of CHAR or VARCHAR")?;
        Ok(DataType::Utf8)
    }

    /// `INTERVAL`, `INTERVAL DAY TO SECOND`, `INTERVAL MONTH`, …
    ///
    /// Day-time intervals are microsecond durations: what subtracting two timestamps gives, exact,
    /// ordered, and accepted by timestamp arithmetic. The fields named in the type are part of its
    /// name only; where they are not all, they are kept beside the Arrow type.
    fn interval(&mut self) -> Result<Typed, DdlError> {
        const YEAR_MONTH: &[&str] = &["YEAR", "MONTH"];
        const DAY_TIME: &[&str] = &["DAY", "HOUR", "MINUTE", "SECOND"];
        for (units, data_type) in [
            (YEAR_MONTH, DataType::Interval(IntervalUnit::YearMonth)),
            (DAY_TIME, DataType::Duration(TimeUnit::Microsecond)),
        ] {
            let Some(from) = units.iter().position(|unit| self.take_keyword(unit)) else {
                continue;
            };
            let to = self.interval_end(&units[from + 1..])?;
            let interval_fields = match to {
                Some(to) if from == 0 && Some(&to) == units.last() => None,
                Some(to) => Some(format!("{} TO {to}", units[from])),
                None => Some(units[from].to_owned()),
            };
            return Ok(Typed {
                data_type,
                interval_fields,
            });
        }
        Ok(DataType::Interval(IntervalUnit::MonthDayNano).into())
    }

    fn interval_end(&mut self, smaller: &[&'static str]) -> Result<Option<&'static str>, DdlError> {
        if smaller.is_empty() || !self.take_keyword("TO") {
            return Ok(None);
        }
        let to = smaller.iter().find(|unit| self.take_keyword(unit));
        match to {
            Some(to) => Ok(Some(to)),
            None => Err(self.unexpected(format!("one of {} after TO", smaller.join(", ")))),
        }
    }

    fn array(&mut self, depth: usize) -> Result<DataType, DdlError> {
        self.symbol('<', "'<' and the type of the elements of ARRAY")?;
        let element = self.data_type(depth)?;
        self.symbol('>', "'>' after the type of the elements of ARRAY")?;
        Ok(DataType::List(Arc::new(
            element.field(Field::LIST_FIELD_DEFAULT_NAME, true),
        )))
    }

    fn map(&mut self, depth: usize) -> Result<DataType, DdlError> {
        self.symbol('<', "'<' and the types of the keys and values of MAP")?;
        let key = self.data_type(depth)?;
        self.symbol(',', "',' between the types of the keys and values of MAP")?;
        let value = self.data_type(depth)?;
        self.symbol('>', "'>' after the types of the keys and values of MAP")?;
        Ok(DataType::Map(map_entries(key, value), false))
    }

    fn structure(&mut self, depth: usize) -> Result<DataType, DdlError> {
        self.symbol('<', "'<' and the fields of STRUCT")?;
        if self.take_symbol('>') {
            return Ok(DataType::Struct(Fields::empty()));
        }
        let fields = self.fields(depth)?;
        self.symbol('>', "',' or '>' after a field of STRUCT")?;
        Ok(DataType::Struct(fields.into()))
    }
}

/// The entries of a map, named and nullable as DataFusion's own map functions make them.
fn map_entries(key: Typed, value: Typed) -> FieldRef {
    let fields = Fields::from(vec![key.field("key", false), value.field("value", true)]);
    Arc::new(Field::new("entries", DataType::Struct(fields), false))
}

/// The types that are one word.
fn simple_type(upper: &str) -> Option<DataType> {
    Some(match upper {
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" | "BYTE" => DataType::Int8,
        "SMALLINT" | "SHORT" => DataType::Int16,
        "INT" | "INTEGER" => DataType::Int32,
        "BIGINT" | "LONG" => DataType::Int64,
        "FLOAT" | "REAL" => DataType::Float32,
        "DOUBLE" => DataType::Float64,
        "STRING" => DataType::Utf8,
        "BINARY" => DataType::Binary,
        "DATE" => DataType::Date32,
        "TIMESTAMP" | "TIMESTAMP_LTZ" => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(TIMESTAMP_ZONE.into()))
        }
        "TIMESTAMP_NTZ" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "VOID" => DataType::Null,
        _ => return None,
    })
}
